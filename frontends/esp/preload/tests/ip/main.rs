//! `ip xfrm` of iproute2 under the library: what it sends is understood, and what it is answered it prints.

#[path = "../lab/mod.rs"]
mod lab;
mod samples;

use gantry_abi_xfrm::constants::{extra, group, policy as policy_flag};
use gantry_abi_xfrm::*;
use lab::{Lab, Server, have, soon, text};
use samples::{POLICIES, events, ip, prefix, states};

#[test]
fn states_come_as_they_were_said() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for (line, _, expected) in states() {
        let said = lab.sh(&format!("ip xfrm state add {line}"));
        assert!(
            said.status.success() && text(&said).is_empty(),
            "{line}: {}{:?}",
            text(&said),
            server.state.lock().unwrap().heard
        );
        assert_eq!(server.state.lock().unwrap().sas.pop(), Some(expected), "{line}");
    }
}

#[test]
fn states_are_printed_as_they_were_said() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for (line, printed, mut sa) in states() {
        // Linux answers with one of the two windows, and with the tag's length.
        sa.replay = sa.replay_esn.is_none().then(Replay::default);
        if let Some(NamedAuthentication { name, icv_bits, .. }) = &mut sa.authentication {
            icv_bits.get_or_insert(Authentication::named(name).unwrap().default_icv_bits);
        }
        server.state.lock().unwrap().sas = vec![sa];
        let shown = text(&lab.sh("ip xfrm state"));
        let shown: Vec<_> = shown.lines().map(str::trim).collect();
        assert_eq!(shown, printed.lines().map(str::trim).collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn a_dump_of_more_than_a_datagram_is_printed_whole() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (.., sa) = states().swap_remove(0);
    let many = (1..=500).map(|spi| Sa { id: SaId { spi, ..sa.id }, ..sa.clone() });
    server.state.lock().unwrap().sas = many.collect();
    let shown = text(&lab.sh("ip xfrm state"));
    let spis: Vec<_> = shown.lines().filter_map(|line| line.split("spi ").nth(1)?.split(' ').next()).collect();
    assert_eq!(spis, (1..=500).map(|spi| format!("{spi:#010x}")).collect::<Vec<_>>());
}

#[test]
fn counters_limits_and_times_are_printed() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (.., mut sa) = states().swap_remove(0);
    sa.counters = Counters { bytes: 4711, packets: 42, add_time: 1_700_000_000, use_time: 1_700_000_060 };
    sa.stats = Stats { replay_window: 1, replay: 2, integrity_failed: 3 };
    sa.limits.soft_bytes = 1000;
    sa.extra_flags = extra::DONT_ENCAP_DSCP | extra::OSEQ_MAY_WRAP;
    sa.last_used = Some(1_700_000_120);
    server.state.lock().unwrap().sas = vec![sa];
    let shown = text(&lab.sh("ip -s xfrm state"));
    for line in [
        "limit: soft 1000(bytes), hard (INF)(bytes)",
        "4711(bytes), 42(packets)",
        "add 2023-11-14 22:13:20 use 2023-11-14 22:14:20",
        "replay-window 1 replay 2 failed 3",
        "extra_flag dont-encap-dscp oseq-may-wrap",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn policies_are_printed_as_the_kernel_prints_them() {
    if !have(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for line in POLICIES {
        // Without the variable the library leaves the kernel's policies to the kernel.
        let kernel = lab.command(&format!("unshare -n sh -c 'ip xfrm policy add {line} && ip xfrm policy'")).output();
        let kernel = kernel.unwrap();
        assert!(kernel.status.success(), "{line}: {}", text(&kernel));
        let ours = lab.sh(&format!("ip xfrm policy add {line} && ip xfrm policy"));
        assert_eq!(text(&ours), text(&kernel), "{line}");
        server.state.lock().unwrap().policies.clear();
    }
}

#[test]
fn a_policy_comes_as_it_was_said() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let said = lab.sh(
        "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/24 proto tcp sport 80 dport 443 dir fwd mark 3 mask 0xff \
         action block priority 77 if_id 0x5 flag icmp limit packet-soft 9 \
         tmpl src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 reqid 4 mode tunnel level use",
    );
    assert!(said.status.success(), "{}", text(&said));
    let selector = Selector {
        source: prefix("10.1.0.0", 16),
        destination: prefix("10.2.0.0", 24),
        source_port: Port { value: 80, mask: 0xffff },
        destination_port: Port { value: 443, mask: 0xffff },
        protocol: 6,
        ..Selector::any(Family::Ipv4)
    };
    let template = Template {
        id: SaId { destination: ip("192.0.2.2"), spi: 0x100, protocol: 50 },
        source: ip("192.0.2.1"),
        reqid: 4,
        mode: Mode::Tunnel,
        share: 0,
        optional: true,
        authentications: u32::MAX,
        ciphers: u32::MAX,
        compressions: u32::MAX,
    };
    let expected = Policy {
        limits: Limits { soft_packets: 9, ..Limits::NONE },
        priority: 77,
        action: Action::Block,
        flags: policy_flag::ICMP,
        mark: Some(Mark { value: 3, mask: 0xff }),
        interface_id: 5,
        templates: vec![template],
        ..Policy::new(selector, Direction::Forward)
    };
    assert_eq!(server.state.lock().unwrap().policies, [expected]);
}

#[test]
fn other_requests_come_as_they_were_said_and_are_answered() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (line, ..) = states().swap_remove(0);
    assert!(lab.sh(&format!("ip xfrm state add {line}")).status.success());
    server.state.lock().unwrap().heard.clear();
    let id = SaId { destination: ip("10.0.0.2"), spi: 0x1000, protocol: 50 };
    let reference = SaRef { id, source: Some(ip("10.0.0.1")), mark: None, interface_id: 0, unknown: Vec::new() };
    let selector = Selector { source: prefix("10.0.0.0", 8), ..Selector::any(Family::Ipv4) };
    let policy = |index| PolicyRef {
        selector: if index == 0 { selector } else { Selector::any(Family::Ipv4) },
        index,
        direction: Direction::Out,
        kind: 0,
        mark: None,
        interface_id: 0,
        unknown: Vec::new(),
    };
    let verdicts = |input| Verdicts { input, forward: Verdict::Unspecified, output: Verdict::Unspecified };
    for (line, printed, heard) in [
        (
            "state get src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1000",
            "spi 0x00001000",
            Message::GetSa(reference.clone()),
        ),
        ("state delete src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1000", "", Message::DelSa(reference)),
        ("state flush proto esp", "", Message::FlushSa(50)),
        ("state flush", "", Message::FlushSa(0)),
        ("state count", "SAD count 1", Message::GetSadInfo(u32::MAX)),
        (
            "state list src 10.0.0.0/8 proto ah",
            "",
            Message::DumpSa(AddressFilter {
                protocol: 51,
                addresses: Some((prefix("10.0.0.0", 8), prefix("0.0.0.0", 0))),
            }),
        ),
        ("policy delete src 10.0.0.0/8 dst 0.0.0.0/0 dir out", "", Message::DelPolicy(policy(0))),
        ("policy delete index 9 dir out", "", Message::DelPolicy(policy(9))),
        ("policy flush", "", Message::FlushPolicy { kind: 0 }),
        ("policy flush ptype sub", "", Message::FlushPolicy { kind: 1 }),
        ("policy count", "SPD IN  1 OUT 2 FWD 3", Message::GetSpdInfo(u32::MAX)),
        (
            "policy set hthresh4 16 24 hthresh6 64 64",
            "",
            Message::NewSpdInfo(SpdInfo {
                flags: u32::MAX,
                ipv4_threshold: Some([16, 24]),
                ipv6_threshold: Some([64, 64]),
                ..SpdInfo::default()
            }),
        ),
        ("policy setdefault in block", "", Message::SetDefault(verdicts(Verdict::Block))),
        ("policy getdefault", "fwd: block", Message::GetDefault(verdicts(Verdict::Unspecified))),
    ] {
        let said = lab.sh(&format!("ip xfrm {line}"));
        assert!(said.status.success() && text(&said).contains(printed), "{line}: {}", text(&said));
        assert_eq!(server.state.lock().unwrap().heard.drain(..).collect::<Vec<_>>(), [Ok(heard)], "{line}");
    }
    let said =
        text(&lab.sh("ip xfrm state allocspi src 10.0.0.1 dst 10.0.0.2 proto esp mode tunnel min 0x500 max 0x600"));
    assert!(said.contains("proto esp spi 0x00000500") && said.contains("mode tunnel"), "{said}");
}

#[test]
fn several_requests_of_a_datagram_are_all_heard() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (.., sa) = states().swap_remove(0);
    server.state.lock().unwrap().sas = (1..=3).map(|spi| Sa { id: SaId { spi, ..sa.id }, ..sa.clone() }).collect();
    // It asks for all and deletes all that it has got with one datagram, until nothing is left, or ten times.
    lab.sh("ip xfrm state deleteall");
    let state = server.state.lock().unwrap();
    let deleted =
        state.heard.iter().filter_map(|heard| if let Ok(Message::DelSa(sa)) = heard { Some(sa.id.spi) } else { None });
    assert_eq!(deleted.collect::<Vec<_>>()[..3], [1, 2, 3]);
}

/// `GANTRY_DECLARE=1` writes them anew. Another version of iproute2 sends other bytes, so they are not compared.
#[test]
fn the_fuzzers_seeds_are_what_ip_sends() {
    if std::env::var_os("GANTRY_DECLARE").is_none() || !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for (line, ..) in states() {
        lab.sh(&format!("ip xfrm state add {line}"));
    }
    for line in POLICIES {
        lab.sh(&format!("ip xfrm policy add {line}"));
    }
    for line in [
        "state",
        "state count",
        "state flush",
        "state deleteall",
        "policy",
        "policy count",
        "policy flush",
        "policy getdefault",
        "policy setdefault in block",
        "policy delete index 9 dir out",
        "policy set hthresh4 16 24 hthresh6 64 64",
        "state get src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1000",
        "state allocspi src 10.0.0.1 dst 10.0.0.2 proto esp mode tunnel min 0x500 max 0x600",
    ] {
        lab.sh(&format!("ip xfrm {line}"));
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/xfrm_message");
    std::fs::create_dir_all(&folder).unwrap();
    let mut sent = server.state.lock().unwrap().raw.clone();
    for (event, _) in events() {
        let mut datagram = Datagram::new();
        datagram.push(&event, 0, 0, 0, Keys::Shown);
        sent.push(datagram.as_bytes().to_vec());
    }
    for (number, mut datagram) in sent.into_iter().enumerate() {
        // The time of the day is in sequence numbers.
        datagram[8..12].fill(0);
        let header = frames(&datagram).next().unwrap().header;
        std::fs::write(folder.join(format!("{number:02}-{:02x}", header.kind)), &datagram).unwrap();
    }
}

#[test]
fn a_refusal_is_printed_with_its_words() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    server.state.lock().unwrap().refuse = Some((95, "no such cipher here"));
    let said = lab.sh("ip xfrm state flush");
    assert!(!said.status.success());
    assert_eq!(text(&said), "Error: no such cipher here.\n");
}

#[test]
fn events_are_printed() {
    if !have(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let _monitor = lab.start("exec ip xfrm monitor > monitor 2>&1");
    let all = [group::ACQUIRE, group::EXPIRE, group::SA, group::POLICY, group::AEVENTS, group::REPORT];
    soon("the groups", || all.iter().all(|group| server.groups() & 1 << (group - 1) != 0));
    for (event, printed) in events() {
        server.tell(&event);
        soon(printed, || std::fs::read_to_string(lab.path("monitor")).unwrap().contains(printed));
    }
}

#[test]
fn without_a_server_xfrm_is_not_supported_and_the_kernels_is_left_alone() {
    if !have(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    for path in ["/nowhere/at/all".to_owned(), "x".repeat(200), lab.path("").display().to_string()] {
        let line = "ip xfrm policy add dir out; ip xfrm policy; env -u GANTRY_XFRM ip xfrm policy";
        let said = lab.command(&format!("unshare -n sh -c '{line}'")).env("GANTRY_XFRM", &path).output().unwrap();
        assert_eq!(text(&said), "Cannot open netlink socket: Protocol not supported\n".repeat(2), "{path}");
    }
}

#[test]
fn without_the_variable_the_kernel_is_asked() {
    if !have(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    let line = "unshare -n sh -c 'ip xfrm policy add dir out; ip xfrm policy; ip link'";
    let under = lab.command(line).output().unwrap();
    let without = lab.command(line).env_remove("LD_PRELOAD").output().unwrap();
    assert!(under.status.success() && text(&under).contains("dir out"), "{}", text(&under));
    assert_eq!(text(&under), text(&without));
    // An empty variable is none.
    let empty = lab.command(line).env("GANTRY_XFRM", "").output().unwrap();
    assert_eq!(text(&empty), text(&without));
}

//! `ip xfrm` of iproute2 under the library: the server parses the requests, and `ip` prints the answers.

#[path = "../lab/mod.rs"]
mod lab;
mod samples;

use gantry_abi_xfrm::constants::{extra, group, policy as policy_flag};
use gantry_abi_xfrm::*;
use gantry_lab::wait_until;
use lab::{Lab, Server, is_possible, text};
use samples::{POLICIES, events, ip, prefix, states};

#[test]
fn states_arrive_as_given() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for (line, _, expected) in states() {
        let output = lab.sh(&format!("ip xfrm state add {line}"));
        assert!(
            output.status.success() && text(&output).is_empty(),
            "{line}: {}{:?}",
            text(&output),
            server.state.lock().unwrap().received
        );
        assert_eq!(server.state.lock().unwrap().sas.pop(), Some(expected), "{line}");
    }
}

#[test]
fn states_are_printed_as_given() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for (line, printed, mut sa) in states() {
        // Linux answers with one of the two windows, and with the tag length.
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
    if !is_possible(&["ip"]) {
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
    if !is_possible(&["ip"]) {
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
    if !is_possible(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    for line in POLICIES {
        // Without the variable the library leaves policies to the kernel.
        let kernel = lab.command(&format!("unshare -n sh -c 'ip xfrm policy add {line} && ip xfrm policy'")).output();
        let kernel = kernel.unwrap();
        assert!(kernel.status.success(), "{line}: {}", text(&kernel));
        let ours = lab.sh(&format!("ip xfrm policy add {line} && ip xfrm policy"));
        assert_eq!(text(&ours), text(&kernel), "{line}");
        server.state.lock().unwrap().policies.clear();
    }
}

#[test]
fn a_policy_arrives_as_given() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let output = lab.sh(
        "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/24 proto tcp sport 80 dport 443 dir fwd mark 3 mask 0xff \
         action block priority 77 if_id 0x5 flag icmp limit packet-soft 9 \
         tmpl src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 reqid 4 mode tunnel level use",
    );
    assert!(output.status.success(), "{}", text(&output));
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
fn other_requests_arrive_as_given_and_are_answered() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (line, ..) = states().swap_remove(0);
    assert!(lab.sh(&format!("ip xfrm state add {line}")).status.success());
    server.state.lock().unwrap().received.clear();
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
    for (line, printed, received) in [
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
        let output = lab.sh(&format!("ip xfrm {line}"));
        assert!(output.status.success() && text(&output).contains(printed), "{line}: {}", text(&output));
        assert_eq!(server.state.lock().unwrap().received.drain(..).collect::<Vec<_>>(), [Ok(received)], "{line}");
    }
    let output =
        text(&lab.sh("ip xfrm state allocspi src 10.0.0.1 dst 10.0.0.2 proto esp mode tunnel min 0x500 max 0x600"));
    assert!(output.contains("proto esp spi 0x00000500") && output.contains("mode tunnel"), "{output}");
}

#[test]
fn all_requests_of_a_datagram_are_processed() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let (.., sa) = states().swap_remove(0);
    server.state.lock().unwrap().sas = (1..=3).map(|spi| Sa { id: SaId { spi, ..sa.id }, ..sa.clone() }).collect();
    // `ip` lists all SAs, and deletes the listed ones with one datagram, until none is left, but at most ten times.
    lab.sh("ip xfrm state deleteall");
    let state = server.state.lock().unwrap();
    let deleted = state
        .received
        .iter()
        .filter_map(|received| if let Ok(Message::DelSa(sa)) = received { Some(sa.id.spi) } else { None });
    assert_eq!(deleted.collect::<Vec<_>>()[..3], [1, 2, 3]);
}

/// `GANTRY_DECLARE=1` rewrites the seeds. Other versions of iproute2 send other bytes, so seeds are not compared.
#[test]
fn the_fuzz_seeds_are_requests_of_ip() {
    if std::env::var_os("GANTRY_DECLARE").is_none() || !is_possible(&["ip"]) {
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
    let mut sent = server.state.lock().unwrap().raw_datagrams.clone();
    for (event, _) in events() {
        let mut datagram = Datagram::new();
        datagram.push(&event, 0, 0, 0, KeyVisibility::Shown);
        sent.push(datagram.as_bytes().to_vec());
    }
    for (number, mut datagram) in sent.into_iter().enumerate() {
        // Sequence numbers contain the time of day.
        datagram[8..12].fill(0);
        let header = frames(&datagram).next().unwrap().header;
        std::fs::write(folder.join(format!("{number:02}-{:02x}", header.kind)), &datagram).unwrap();
    }
}

#[test]
fn a_refusal_is_printed_with_its_text() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    server.state.lock().unwrap().refusal = Some((95, "no such cipher here"));
    let output = lab.sh("ip xfrm state flush");
    assert!(!output.status.success());
    assert_eq!(text(&output), "Error: no such cipher here.\n");
}

#[test]
fn events_are_printed() {
    if !is_possible(&["ip"]) {
        return;
    }
    let lab = Lab::new();
    let server = Server::new(&lab);
    let _monitor = lab.start("exec ip xfrm monitor > monitor 2>&1");
    let all = [group::ACQUIRE, group::EXPIRE, group::SA, group::POLICY, group::AEVENTS, group::REPORT];
    wait_until("the groups are joined", || all.iter().all(|group| server.groups() & 1 << (group - 1) != 0));
    for (event, printed) in events() {
        server.send_event(&event);
        wait_until(&format!("it prints {printed}"), || {
            std::fs::read_to_string(lab.path("monitor")).unwrap().contains(printed)
        });
    }
}

#[test]
fn without_a_server_xfrm_is_unsupported_and_the_kernel_unused() {
    if !is_possible(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    for path in ["/nowhere/at/all".to_owned(), "x".repeat(200), lab.path("").display().to_string()] {
        let line = "ip xfrm policy add dir out; ip xfrm policy; env -u GANTRY_XFRM ip xfrm policy";
        let output = lab.command(&format!("unshare -n sh -c '{line}'")).env("GANTRY_XFRM", &path).output().unwrap();
        assert_eq!(text(&output), "Cannot open netlink socket: Protocol not supported\n".repeat(2), "{path}");
    }
}

#[test]
fn without_the_variable_requests_go_to_the_kernel() {
    if !is_possible(&["ip", "unshare", "root"]) {
        return;
    }
    let lab = Lab::new();
    let line = "unshare -n sh -c 'ip xfrm policy add dir out; ip xfrm policy; ip link'";
    let output = lab.command(line).output().unwrap();
    let without = lab.command(line).env_remove("LD_PRELOAD").output().unwrap();
    assert!(output.status.success() && text(&output).contains("dir out"), "{}", text(&output));
    assert_eq!(text(&output), text(&without));
    // An empty variable counts as unset.
    let empty = lab.command(line).env("GANTRY_XFRM", "").output().unwrap();
    assert_eq!(text(&empty), text(&without));
}

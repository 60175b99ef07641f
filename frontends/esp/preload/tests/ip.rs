//! `ip xfrm` of iproute2 under the library: what it sends is understood, and what it is answered it prints.

mod lab;

use std::net::IpAddr;

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, extra, group, policy as policy_flag, state};
use gantry_abi_xfrm::*;
use lab::{Lab, Server, have, soon, text};

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

/// Arguments of `ip xfrm state add`, what `ip xfrm state` prints, and the SA.
fn states() -> Vec<(&'static str, &'static str, Sa)> {
    let id = |destination, spi| SaId { destination: ip(destination), spi, protocol: 50 };
    let any = |family| Selector { any_family: true, ..Selector::any(family) };
    let esp = |spi| Sa { selector: any(Family::Ipv4), ..Sa::new(id("10.0.0.2", spi), ip("10.0.0.1")) };
    let aead = |bits, key: &[u8], name: &str| Some(NamedAead { name: name.into(), key: Key::new(key), icv_bits: bits });
    let cipher = |name: &str, key: &[u8]| Some(NamedCipher { name: name.into(), key: Key::new(key) });
    let authentication = |name: &str, key: &[u8], icv_bits| {
        Some(NamedAuthentication { name: name.into(), key: Key::new(key), icv_bits })
    };
    vec![
        (
            "src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1000 reqid 7 mode tunnel replay-window 32 \
             aead 'rfc4106(gcm(aes))' 0x0102030405060708090a0b0c0d0e0f1011121314 128",
            "src 10.0.0.1 dst 10.0.0.2
             proto esp spi 0x00001000 reqid 7 mode tunnel
             replay-window 32
             aead rfc4106(gcm(aes)) 0x0102030405060708090a0b0c0d0e0f1011121314 128
             anti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000",
            Sa {
                reqid: 7,
                mode: Mode::Tunnel,
                replay_window: 32,
                aead: aead(128, &(1..=20).collect::<Vec<_>>(), "rfc4106(gcm(aes))"),
                ..esp(0x1000)
            },
        ),
        (
            "src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1001 mode transport enc 'cbc(aes)' 0x00112233445566778899aabbccddeeff \
             auth 'hmac(sha1)' 0x0102030405060708090a0b0c0d0e0f1011121314 sel src 10.0.0.1/32 dst 10.0.0.2/32 proto udp sport 5",
            "src 10.0.0.1 dst 10.0.0.2
             proto esp spi 0x00001001 reqid 0 mode transport
             replay-window 0
             auth-trunc hmac(sha1) 0x0102030405060708090a0b0c0d0e0f1011121314 96
             enc cbc(aes) 0x00112233445566778899aabbccddeeff
             anti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000
             sel src 10.0.0.1/32 dst 10.0.0.2/32 proto udp sport 5",
            Sa {
                cipher: cipher("cbc(aes)", &(0..16).map(|i| i * 0x11).collect::<Vec<_>>()),
                authentication: authentication("hmac(sha1)", &(1..=20).collect::<Vec<_>>(), None),
                selector: Selector {
                    source: prefix("10.0.0.1", 32),
                    destination: prefix("10.0.0.2", 32),
                    protocol: 17,
                    source_port: Port { value: 5, mask: 0xffff },
                    ..Selector::any(Family::Ipv4)
                },
                ..esp(0x1001)
            },
        ),
        (
            "src 2001:db8::1 dst 2001:db8::2 proto esp spi 0xffffffff mode beet flag esn replay-window 128 replay-oseq 5 \
             replay-oseq-hi 1 auth-trunc 'hmac(sha256)' 0x11 128 enc 'ecb(cipher_null)' '' mark 1 mask 0xff \
             output-mark 2 mask 0xf0 if_id 0x9",
            "src 2001:db8::1 dst 2001:db8::2
             proto esp spi 0xffffffff reqid 0 mode beet
             replay-window 0 flag esn
             mark 0x1/0xff output-mark 0x2/0xf0
             auth-trunc hmac(sha256) 0x11 128
             enc ecb(cipher_null)
             anti-replay esn context:
              seq-hi 0x0, seq 0x0, oseq-hi 0x1, oseq 0x5
              replay_window 128, bitmap-length 4
              00000000 00000000 00000000 00000000
             if_id 0x9",
            Sa {
                selector: any(Family::Ipv6),
                mode: Mode::Beet,
                flags: state::ESN,
                replay_esn: Some(ReplayEsn { output: 0x1_0000_0005, input: 0, window: 128, bitmap: vec![0; 4] }),
                authentication: authentication("hmac(sha256)", &[0x11], Some(128)),
                cipher: cipher("ecb(cipher_null)", &[]),
                mark: Some(Mark { value: 1, mask: 0xff }),
                set_mark: Some(Mark { value: 2, mask: 0xf0 }),
                interface_id: 9,
                ..Sa::new(id("2001:db8::2", u32::MAX), ip("2001:db8::1"))
            },
        ),
        (
            "src 10.0.0.1 dst 10.0.0.2 proto esp spi 0x1002 mode tunnel encap espinudp 4500 4501 192.0.2.9 \
             flag noecn decap-dscp nopmtudisc wildrecv af-unspec extra-flag dont-encap-dscp oseq-may-wrap \
             aead 'rfc7539esp(chacha20,poly1305)' 0xff 128 limit byte-soft 10 limit byte-hard 20 limit packet-hard 30 \
             limit time-soft 40 limit time-hard 50 limit time-use-hard 60",
            "src 10.0.0.1 dst 10.0.0.2
             proto esp spi 0x00001002 reqid 0 mode tunnel
             replay-window 0 flag noecn decap-dscp nopmtudisc wildrecv af-unspec
             aead rfc7539esp(chacha20,poly1305) 0xff 128
             encap type espinudp sport 4500 dport 4501 addr 192.0.2.9
             anti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000",
            Sa {
                mode: Mode::Tunnel,
                flags: state::NOECN | state::DECAP_DSCP | state::NOPMTUDISC | state::WILDRECV | state::AF_UNSPEC,
                extra_flags: extra::DONT_ENCAP_DSCP | extra::OSEQ_MAY_WRAP,
                aead: aead(128, &[0xff], "rfc7539esp(chacha20,poly1305)"),
                encapsulation: Some(Encapsulation {
                    kind: ENCAP_ESPINUDP,
                    source_port: 4500,
                    destination_port: 4501,
                    original: ip("192.0.2.9"),
                }),
                limits: Limits {
                    soft_bytes: 10,
                    hard_bytes: 20,
                    hard_packets: 30,
                    soft_add_seconds: 40,
                    hard_add_seconds: 50,
                    hard_use_seconds: 60,
                    ..Limits::NONE
                },
                ..esp(0x1002)
            },
        ),
    ]
}

/// Arguments of `ip xfrm policy add`.
const POLICIES: &[&str] = &[
    "src 10.0.0.0/8 dst 192.168.0.0/16 dir out tmpl src 10.0.0.1 dst 10.0.0.2 proto esp reqid 1 mode tunnel",
    "dir in action block priority 9",
    "src 2001:db8::/32 dst 2001:db9::/64 proto tcp dport 80 dir fwd priority 5 \
     tmpl src 2001:db8::1 dst 2001:db8::2 proto esp spi 0x123 mode tunnel",
    "src 10.0.0.1/32 dst 10.0.0.2/32 proto icmp type 8 code 0 dir out mark 7 mask 0xff if_id 0x3 flag localok icmp \
     tmpl proto esp mode transport level use tmpl proto ah mode transport",
    "src 10.0.0.0/8 dst 10.0.0.0/8 dir out limit time-hard 100000 limit byte-soft 5000 \
     tmpl src 2001:db8::1 dst 2001:db8::2 proto esp reqid 5 mode beet",
];

fn events() -> Vec<(Message, &'static str)> {
    let (.., sa) = states().swap_remove(0);
    let selector = Selector { destination: prefix("10.9.0.0", 16), ..Selector::any(Family::Ipv4) };
    let template = Template {
        id: sa.id,
        source: sa.source,
        reqid: 3,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        authentications: u32::MAX,
        ciphers: u32::MAX,
        compressions: u32::MAX,
    };
    let policy = Policy { templates: vec![template], ..Policy::new(selector, Direction::Out) };
    let acquire = Acquire {
        id: SaId { spi: 0, ..sa.id },
        source: sa.source,
        selector: Selector { destination: prefix("10.9.9.9", 32), ..selector },
        policy: policy.clone(),
        authentications: 0,
        ciphers: 0,
        compressions: 0,
        sequence: 0x77,
    };
    vec![
        (
            Message::NewSa(sa.clone().into()),
            "src 10.0.0.1 dst 10.0.0.2\n\tproto esp spi 0x00001000 reqid 7 mode tunnel",
        ),
        (Message::UpdSa(sa.clone().into()), "Updated src 10.0.0.1 dst 10.0.0.2"),
        (Message::SaDeleted(sa.clone().into()), "Deleted src 10.0.0.1 dst 10.0.0.2"),
        (Message::FlushSa(50), "Flushed state proto esp"),
        (Message::Expire(Expire { sa: sa.clone(), hard: false }.into()), "Expired src 10.0.0.1 dst 10.0.0.2"),
        (Message::Expire(Expire { sa: sa.clone(), hard: true }.into()), "hard 1"),
        (Message::NewPolicy(policy.clone().into()), "src 0.0.0.0/0 dst 10.9.0.0/16 \n\tdir out priority 0"),
        (Message::PolicyDeleted(policy.clone().into()), "Deleted src 0.0.0.0/0 dst 10.9.0.0/16"),
        (Message::PolicyExpire(PolicyExpire { policy, hard: true }.into()), "Expired src 0.0.0.0/0 dst 10.9.0.0/16"),
        (Message::FlushPolicy { kind: 0 }, "Flushed policy"),
        (Message::Acquire(acquire.into()), "acquire proto esp \n  sel src 0.0.0.0/0 dst 10.9.9.9/32"),
        (Message::NewAe(AsyncEvent::of(&sa, 16).into()), "Async event  (0x10)  replay update"),
    ]
}

fn prefix(address: &str, length: u8) -> Prefix {
    Prefix { address: ip(address), length }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

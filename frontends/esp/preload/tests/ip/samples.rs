//! Samples of `ip` commands, and the messages that they cause.

use std::net::IpAddr;

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, extra, state};
use gantry_abi_xfrm::*;

/// Arguments of `ip xfrm state add`, the output of `ip xfrm state`, and the SA.
pub(crate) fn states() -> Vec<(&'static str, &'static str, Sa)> {
    let id = |destination, spi| SaId { destination: ip(destination), spi, protocol: 50 };
    let any = |family| Selector { is_family_unspecified: true, ..Selector::any(family) };
    let esp = |spi| Sa { selector: any(Family::Ipv4), ..Sa::new(id("10.0.0.2", spi), ip("10.0.0.1")) };
    let aead = |bits, key: &[u8], name: &str| Some(NamedAead { name: name.into(), key: Key::new(key), icv_bits: bits });
    let cipher = |name: &str, key: &[u8]| Some(NamedAlgorithm { name: name.into(), key: Key::new(key) });
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
pub(crate) const POLICIES: &[&str] = &[
    "src 10.0.0.0/8 dst 192.168.0.0/16 dir out tmpl src 10.0.0.1 dst 10.0.0.2 proto esp reqid 1 mode tunnel",
    "dir in action block priority 9",
    "src 2001:db8::/32 dst 2001:db9::/64 proto tcp dport 80 dir fwd priority 5 \
     tmpl src 2001:db8::1 dst 2001:db8::2 proto esp spi 0x123 mode tunnel",
    "src 10.0.0.1/32 dst 10.0.0.2/32 proto icmp type 8 code 0 dir out mark 7 mask 0xff if_id 0x3 flag localok icmp \
     tmpl proto esp mode transport level use tmpl proto ah mode transport",
    "src 10.0.0.0/8 dst 10.0.0.0/8 dir out limit time-hard 100000 limit byte-soft 5000 \
     tmpl src 2001:db8::1 dst 2001:db8::2 proto esp reqid 5 mode beet",
];

/// Events, and a part of the output of `ip xfrm monitor` for each.
pub(crate) fn events() -> Vec<(Message, &'static str)> {
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
        (Message::Expire(Expire { sa: sa.clone(), is_hard: false }.into()), "Expired src 10.0.0.1 dst 10.0.0.2"),
        (Message::Expire(Expire { sa: sa.clone(), is_hard: true }.into()), "hard 1"),
        (Message::NewPolicy(policy.clone().into()), "src 0.0.0.0/0 dst 10.9.0.0/16 \n\tdir out priority 0"),
        (Message::PolicyDeleted(policy.clone().into()), "Deleted src 0.0.0.0/0 dst 10.9.0.0/16"),
        (Message::PolicyExpire(PolicyExpire { policy, is_hard: true }.into()), "Expired src 0.0.0.0/0 dst 10.9.0.0/16"),
        (Message::FlushPolicy { kind: 0 }, "Flushed policy"),
        (Message::Acquire(acquire.into()), "acquire proto esp \n  sel src 0.0.0.0/0 dst 10.9.9.9/32"),
        (Message::NewAe(AsyncEvent::of(&sa, 16).into()), "Async event  (0x10)  replay update"),
    ]
}

pub(crate) fn prefix(address: &str, length: u8) -> Prefix {
    Prefix { address: ip(address), length }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

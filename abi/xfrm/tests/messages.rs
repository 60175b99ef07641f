//! Written messages are read back unchanged, and malformed ones are refused.

use std::net::IpAddr;

use gantry_abi_xfrm::constants::{ENCAP_ESPINUDP, MAX_TEMPLATES, attribute, flag, message, state};
use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_abi_xfrm::*;

#[test]
fn every_message_round_trips() {
    for sample in samples() {
        assert_eq!(round_trip(&sample), Ok(sample));
    }
}

#[test]
fn a_truncated_message_is_refused_or_has_fewer_attributes() {
    for sample in samples() {
        let whole = encode(&sample, KeyVisibility::Shown);
        for length in 16..whole.len() {
            let mut cut = whole[..length].to_vec();
            cut[..4].copy_from_slice(&(length as u32).to_ne_bytes());
            let frame = frames(&cut).next().unwrap();
            // A truncated structure is refused; truncation between attributes leaves the attributes before it.
            if let Ok(message) = Message::parse(&frame) {
                assert_eq!(message.kind(), sample.kind());
            }
        }
    }
}

#[test]
fn an_sa_shorter_than_its_structure_is_refused() {
    let mut whole = encode(&Message::NewSa(Sa::new(id("10.0.0.1"), ip("10.0.0.2")).into()), KeyVisibility::Shown);
    whole.pop();
    let length = whole.len() as u32;
    whole[..4].copy_from_slice(&length.to_ne_bytes());
    assert_eq!(Message::parse(&frames(&whole).next().unwrap()), Err(Error::Short));
}

#[test]
fn a_key_that_is_longer_than_its_attribute_is_refused() {
    let sa = sa();
    let mut bytes = encode(&Message::NewSa(sa.clone().into()), KeyVisibility::Shown);
    let name = bytes.windows(8).position(|window| window == b"cbc(aes)").unwrap();
    bytes[name + 64..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    let refused = Message::parse(&frames(&bytes).next().unwrap());
    assert_eq!(refused, Err(Error::Attribute(attribute::ALG_CRYPT)));
}

#[test]
fn a_window_that_is_larger_than_its_bitmap_is_refused() {
    let mut sa = sa();
    sa.replay_esn = Some(ReplayEsn { window: 33, bitmap: vec![0], ..ReplayEsn::default() });
    assert_eq!(round_trip(&Message::NewSa(sa.clone().into())), Err(Error::Value("replay_window")));
    sa.replay_esn = Some(ReplayEsn { window: 32, bitmap: vec![0], ..ReplayEsn::default() });
    assert_eq!(round_trip(&Message::NewSa(sa.clone().into())), Ok(Message::NewSa(sa.into())));
}

#[test]
fn more_templates_than_linuxs_maximum_are_refused() {
    let mut policy = Box::new(policy());
    policy.templates = vec![policy.templates[0]; MAX_TEMPLATES];
    let mut bytes = encode(&Message::NewPolicy(policy.clone()), KeyVisibility::Shown);
    assert!(Message::parse(&frames(&bytes).next().unwrap()).is_ok());
    // The templates are the first attribute: without them, the message ends with one attribute of 12 bytes.
    let bare = Policy::new(selector(), Direction::Out);
    let attribute_at = encode(&Message::NewPolicy(bare.into()), KeyVisibility::Shown).len() - 12;
    let template = bytes[attribute_at + 4..][..64].to_vec();
    bytes.splice(attribute_at + 4..attribute_at + 4, template);
    let (length, content) = (bytes.len() as u32, (4 + 64 * (MAX_TEMPLATES + 1)) as u16);
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[attribute_at..][..2].copy_from_slice(&content.to_ne_bytes());
    assert_eq!(Message::parse(&frames(&bytes).next().unwrap()), Err(Error::Attribute(attribute::TMPL)));
}

#[test]
fn keys_are_never_printed_and_can_be_written_as_zeros() {
    let secret = [0xa5; 20];
    let mut sa = sa();
    sa.cipher.as_mut().unwrap().key = Key::new(&secret);
    let printed = format!("{sa:?}");
    assert!(printed.contains("Key(160 bits)") && !printed.contains("165") && !printed.contains("a5"), "{printed}");

    let message = Message::NewSa(sa.into());
    assert!(encode(&message, KeyVisibility::Shown).windows(20).any(|window| window == secret));
    let zeros = encode(&message, KeyVisibility::Zeros);
    assert!(!zeros.windows(4).any(|window| window == &secret[..4]));
    assert_eq!(zeros.len(), encode(&message, KeyVisibility::Shown).len());
}

#[test]
fn an_expiry_has_no_key() {
    // Every byte of the keys of `sa` is 7.
    let expire = Message::Expire(Expire { sa: sa(), is_hard: true }.into());
    assert!(!encode(&expire, KeyVisibility::Shown).windows(4).any(|window| window == [7; 4]));
}

#[test]
fn a_datagram_may_have_several_messages_and_trailing_bytes_are_ignored() {
    let mut datagram = Datagram::new();
    datagram.push(&Message::FlushSa(50), flag::REQUEST, 1, 7, KeyVisibility::Shown);
    datagram.push(&Message::DumpPolicy, flag::REQUEST | flag::DUMP, 2, 7, KeyVisibility::Shown);
    let mut bytes = datagram.as_bytes().to_vec();
    // A header whose length exceeds the datagram.
    bytes.extend_from_slice(&100u32.to_ne_bytes());
    bytes.extend_from_slice(&[0; 12]);
    let read: Vec<_> = frames(&bytes).map(|frame| (frame.header.sequence, Message::parse(&frame).unwrap())).collect();
    assert_eq!(read, [(1, Message::FlushSa(50)), (2, Message::DumpPolicy)]);
}

#[test]
fn a_header_with_a_too_small_length_ends_the_datagram() {
    for length in [0u32, 15] {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        assert!(frames(&bytes).next().is_none());
    }
}

#[test]
fn an_acknowledgement_has_the_header_of_the_request_and_a_text() {
    let request = encode(&Message::FlushSa(50), KeyVisibility::Shown);
    let request = frames(&request).next().unwrap();
    let mut datagram = Datagram::new();
    datagram.acknowledge(&request, 9, 3, Some("no such\0SA"));
    let answer = frames(datagram.as_bytes()).next().unwrap();
    assert_eq!((answer.header.kind, answer.header.sequence, answer.header.port), (message::ERROR, 5, 9));
    assert_eq!(answer.header.flags, flag::CAPPED | flag::ACK_TLVS);
    let body = answer.body();
    assert_eq!(i32::from_ne_bytes(body[..4].try_into().unwrap()), -3);
    assert_eq!(body[8..10], message::FLUSHSA.to_ne_bytes());
    assert_eq!(&body[24..], b"no such\0");
    assert_eq!(body[20..24], [12u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());

    datagram.clear();
    datagram.acknowledge(&request, 9, 0, None);
    let answer = frames(datagram.as_bytes()).next().unwrap();
    assert_eq!((answer.header.flags, &answer.body()[..4]), (flag::CAPPED, [0; 4].as_slice()));
}

/// The seeds of the fuzzer `xfrm_message` are datagrams of iproute2, and events.
#[test]
fn recorded_messages_of_programs_round_trip() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/xfrm_message");
    let mut messages = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        for frame in frames(&std::fs::read(file.unwrap().path()).unwrap()) {
            let message = Message::parse(&frame).unwrap();
            let mut datagram = Datagram::new();
            datagram.push(&message, frame.header.flags, 5, 6, KeyVisibility::Shown);
            assert_eq!(Message::parse(&frames(datagram.as_bytes()).next().unwrap()), Ok(message));
            messages += 1;
        }
    }
    assert!(messages > 30, "{messages}");
}

#[test]
fn unsupported_and_unknown_messages_have_different_errors() {
    for (kind, error, errno) in [
        (message::MIGRATE, Error::Unsupported(message::MIGRATE), 92),
        (message::REPORT, Error::Unsupported(message::REPORT), 92),
        (0x29, Error::Unknown(0x29), 22),
        (message::NOOP, Error::Unknown(message::NOOP), 22),
    ] {
        let mut bytes = encode(&Message::FlushSa(0), KeyVisibility::Shown);
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        assert_eq!(Message::parse(&frames(&bytes).next().unwrap()), Err(error));
        assert_eq!(error.errno(), errno);
    }
}

#[test]
fn an_authentication_with_a_tag_length_takes_precedence() {
    let mut with_length = Sa::new(id("10.0.0.1"), ip("10.0.0.2"));
    with_length.authentication =
        Some(NamedAuthentication { name: "hmac(sha256)".into(), key: Key::new(&[1; 32]), icv_bits: Some(128) });
    let mut without_length = with_length.clone();
    without_length.authentication.as_mut().unwrap().icv_bits = None;
    let bare = Sa::new(with_length.id, with_length.source);
    let structure = encode(&Message::NewSa(bare.into()), KeyVisibility::Shown).len();
    let (first, second) = (with_length.clone().into(), without_length.into());
    let (first, second) =
        (encode(&Message::NewSa(first), KeyVisibility::Shown), encode(&Message::NewSa(second), KeyVisibility::Shown));
    for pair in [[&first, &second], [&second, &first]] {
        let mut both = [pair[0].as_slice(), &pair[1][structure..]].concat();
        let length = both.len() as u32;
        both[..4].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(Message::parse(&frames(&both).next().unwrap()), Ok(Message::NewSa(with_length.clone().into())));
    }
}

#[test]
fn messages_between_library_and_server_round_trip() {
    for sample in [
        PreloadMessage::Socket { port: 4711, groups: 0x85, texts: true },
        PreloadMessage::Socket { port: 4711, groups: 0, texts: false },
        PreloadMessage::Binding("10.0.0.1:4500".parse().unwrap()),
        PreloadMessage::Binding("[fe80::1%3]:4500".parse().unwrap()),
        PreloadMessage::Share(true),
        PreloadMessage::Share(false),
        PreloadMessage::Bound("[::]:4500".parse().unwrap(), 98),
        PreloadMessage::Lost,
    ] {
        let mut datagram = Datagram::new();
        datagram.push_preload_message(&sample);
        let frame = frames(datagram.as_bytes()).next().unwrap();
        assert_eq!(PreloadMessage::parse(&frame), Ok(sample));
        assert_eq!(Message::parse(&frame), Err(Error::Unknown(sample.kind())));
        if ![preload::LOST, preload::SHARE].contains(&sample.kind()) {
            let mut short = datagram.as_bytes()[..17].to_vec();
            short[..4].copy_from_slice(&17u32.to_ne_bytes());
            assert_eq!(PreloadMessage::parse(&frames(&short).next().unwrap()), Err(Error::Short));
        }
    }
}

#[test]
fn prefixes_contain_addresses_with_their_bits() {
    let prefix = |text: &str, length| Prefix { address: ip(text), length };
    assert!(prefix("10.1.2.3", 8).contains(ip("10.200.0.1")));
    assert!(!prefix("10.1.2.3", 16).contains(ip("10.200.0.1")));
    assert!(prefix("0.0.0.0", 0).contains(ip("255.0.0.1")));
    assert!(!prefix("0.0.0.0", 0).contains(ip("::1")));
    assert!(prefix("10.1.2.3", 32).contains(ip("10.1.2.3")) && !prefix("10.1.2.3", 32).contains(ip("10.1.2.2")));
    assert!(prefix("2001:db8::", 32).contains(ip("2001:db8:1::1")));
    assert!(!prefix("2001:db8::", 128).contains(ip("2001:db8::1")));
}

#[test]
fn names_of_algorithms_have_linuxs_default_tag_lengths() {
    for (name, id, default) in [
        ("sha256", Authentication::HmacSha256, 96),
        ("hmac(sha256)", Authentication::HmacSha256, 96),
        ("hmac(sha384)", Authentication::HmacSha384, 192),
        ("digest_null", Authentication::Null, 0),
    ] {
        let row = Authentication::named(name).unwrap();
        assert_eq!((row.id, row.default_icv_bits), (id, default));
    }
    assert_eq!(Cipher::named("aes").unwrap().id, Cipher::AesCbc);
    assert_eq!(Cipher::named("rfc3686(ctr(aes))").unwrap().key_bits, [160, 224, 288]);
    assert_eq!(Aead::named("rfc7539esp(chacha20,poly1305)").unwrap().id, Aead::ChaCha20Poly1305);
    assert!(Cipher::named("sha1").is_none() && Aead::named("gcm(aes)").is_none());
}

fn samples() -> Vec<Message> {
    let sa = sa();
    let policy = policy();
    let reference = SaRef {
        id: sa.id,
        source: Some(sa.source),
        mark: Some(Mark { value: 3, mask: 0xff }),
        interface_id: 5,
        unknown: vec![41],
    };
    let policy_reference = PolicyRef {
        selector: policy.selector,
        index: 9,
        direction: Direction::Forward,
        kind: 1,
        mark: Some(Mark { value: 3, mask: 0xff }),
        interface_id: 5,
        unknown: vec![41],
    };
    let event = AsyncEvent::of(&sa, u32::MAX);
    let expiring = Sa { mark: sa.mark, direction: Some(1), interface_id: 8, ..Sa::new(sa.id, sa.source) };
    let verdicts = Verdicts { input: Verdict::Accept, forward: Verdict::Block, output: Verdict::Unspecified };
    let acquire = Acquire {
        id: policy.templates[0].id,
        source: policy.templates[0].source,
        selector: selector(),
        policy: policy.clone(),
        authentications: 1,
        ciphers: 2,
        compressions: 3,
        sequence: 4,
    };
    let prefix = |text: &str, length| Prefix { address: ip(text), length };
    vec![
        Message::NewSa(sa.clone().into()),
        Message::NewSa(ipv6_sa().into()),
        Message::UpdSa(sa.clone().into()),
        Message::DelSa(reference.clone()),
        Message::SaDeleted(sa.clone().into()),
        Message::GetSa(reference),
        Message::DumpSa(AddressFilter::default()),
        Message::DumpSa(AddressFilter { protocol: 50, addresses: Some((prefix("fe80::", 10), prefix("::", 0))) }),
        Message::FlushSa(255),
        Message::AllocSpi(AllocSpi { sa, lowest: 0xc000_0000, highest: 0xcfff_ffff }.into()),
        Message::NewPolicy(policy.clone().into()),
        Message::UpdPolicy(policy.clone().into()),
        Message::DelPolicy(policy_reference.clone()),
        Message::PolicyDeleted(policy.clone().into()),
        Message::GetPolicy(policy_reference),
        Message::DumpPolicy,
        Message::FlushPolicy { kind: 0 },
        Message::FlushPolicy { kind: 1 },
        Message::GetSadInfo(7),
        Message::NewSadInfo(SadInfo { flags: 7, count: 2, buckets: 8, max_buckets: 1 << 20 }),
        Message::GetSpdInfo(7),
        Message::NewSpdInfo(SpdInfo {
            flags: 7,
            counts: Some([1, 2, 3, 4, 5, 6]),
            buckets: Some([8, 1 << 20]),
            ipv4_threshold: Some([32, 31]),
            ipv6_threshold: Some([128, 127]),
        }),
        Message::NewSpdInfo(SpdInfo::default()),
        Message::NewAe(event.clone().into()),
        Message::GetAe(event.into()),
        Message::SetDefault(verdicts),
        Message::GetDefault(verdicts),
        Message::Acquire(acquire.into()),
        Message::Expire(Expire { sa: expiring, is_hard: true }.into()),
        Message::PolicyExpire(PolicyExpire { policy, is_hard: false }.into()),
        Message::Mapping(Mapping {
            id: id("10.0.0.1"),
            reqid: 3,
            old_source: ip("10.0.0.3"),
            new_source: ip("10.0.0.4"),
            old_port: 4500,
            new_port: 1025,
        }),
    ]
}

/// Returns an SA with every attribute.
fn sa() -> Sa {
    Sa {
        selector: selector(),
        limits: Limits { hard_bytes: 1 << 40, soft_packets: 1000, hard_add_seconds: 3600, ..Limits::NONE },
        counters: Counters { bytes: 1, packets: 2, add_time: 3, use_time: 4 },
        stats: Stats { replay_window: 5, replay: 6, integrity_failed: 7 },
        sequence: 8,
        reqid: 9,
        mode: Mode::Tunnel,
        replay_window: 32,
        flags: state::ESN | state::NOECN,
        extra_flags: 1,
        cipher: Some(NamedAlgorithm { name: "cbc(aes)".into(), key: Key::new(&[7; 16]) }),
        authentication: Some(NamedAuthentication {
            name: "hmac(sha256)".into(),
            key: Key::new(&[7; 32]),
            icv_bits: Some(128),
        }),
        aead: Some(NamedAead { name: "rfc4106(gcm(aes))".into(), key: Key::new(&[7; 20]), icv_bits: 96 }),
        compression: Some(NamedAlgorithm { name: "deflate".into(), key: Key::new(&[]) }),
        encapsulation: Some(Encapsulation {
            kind: ENCAP_ESPINUDP,
            source_port: 4500,
            destination_port: 1024,
            original: ip("192.0.2.1"),
        }),
        replay: Some(Replay { output: 1, input: 2, bitmap: 3 }),
        replay_esn: Some(ReplayEsn {
            output: 0x1_0000_0002,
            input: 0x3_0000_0004,
            window: 64,
            bitmap: vec![0x8000_0000, 1],
        }),
        replay_threshold: Some(10),
        timer_threshold: Some(11),
        mark: Some(Mark { value: 1, mask: 0xff }),
        set_mark: Some(Mark { value: 2, mask: 0xf0 }),
        interface_id: 12,
        tfc_padding: 1400,
        care_of: Some(ip("192.0.2.2")),
        offload: Some(Offload { interface_index: 2, flags: 1 }),
        mapping_threshold: Some(13),
        direction: Some(2),
        last_used: Some(14),
        unknown: vec![34, 35],
        ..Sa::new(id("10.0.0.1"), ip("10.0.0.2"))
    }
}

fn ipv6_sa() -> Sa {
    let mut sa = Sa::new(id("2001:db8::1"), ip("2001:db8::2"));
    sa.mode = Mode::Other(5);
    sa.selector.is_family_unspecified = true;
    sa.selector.destination = Prefix { address: ip("2001:db8::1"), length: 128 };
    sa.care_of = Some(ip("2001:db8::3"));
    sa
}

fn policy() -> Policy {
    let template = |destination, source| Template {
        id: SaId { spi: 0, ..id(destination) },
        source: ip(source),
        reqid: 1,
        mode: Mode::Tunnel,
        share: 1,
        optional: true,
        authentications: u32::MAX,
        ciphers: 1,
        compressions: 2,
    };
    Policy {
        limits: Limits { soft_use_seconds: 5, ..Limits::NONE },
        counters: Counters { packets: 4, ..Counters::default() },
        priority: 1000,
        index: 17,
        action: Action::Block,
        flags: 1,
        share: 2,
        templates: vec![template("192.0.2.1", "192.0.2.2"), template("2001:db8::1", "2001:db8::2")],
        kind: 1,
        mark: Some(Mark { value: 1, mask: 1 }),
        interface_id: 6,
        offload: Some(Offload { interface_index: 3, flags: 4 }),
        unknown: vec![40],
        ..Policy::new(selector(), Direction::Out)
    }
}

fn selector() -> Selector {
    Selector {
        destination: Prefix { address: ip("10.1.0.0"), length: 16 },
        source: Prefix { address: ip("10.2.0.0"), length: 24 },
        destination_port: Port { value: 80, mask: 0xffff },
        source_port: Port { value: 0, mask: 0 },
        protocol: 6,
        interface_index: -1,
        user: 1000,
        ..Selector::any(Family::Ipv4)
    }
}

fn id(destination: &str) -> SaId {
    SaId { destination: ip(destination), spi: 0xc123_4567, protocol: 50 }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn round_trip(message: &Message) -> Result<Message, Error> {
    Message::parse(&frames(&encode(message, KeyVisibility::Shown)).next().unwrap())
}

fn encode(message: &Message, keys: KeyVisibility) -> Vec<u8> {
    let dump = matches!(message, Message::DumpSa(_) | Message::DumpPolicy);
    let flags = flag::REQUEST | if dump { flag::DUMP } else { 0 };
    let mut datagram = Datagram::new();
    datagram.push(message, flags, 5, 6, keys);
    datagram.as_bytes().to_vec()
}

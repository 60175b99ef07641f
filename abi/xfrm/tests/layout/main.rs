//! Checks numbers and layouts against Linux's headers with a C compiler.

mod numbers;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use gantry_abi_xfrm::constants::*;
use gantry_abi_xfrm::*;

/// Encodes each field with a different value. The C compiler checks that the value is at the offset of the field.
#[test]
fn fields_have_the_offsets_of_the_headers() {
    let sa = sa();
    let info = body(&Message::NewSa(sa.clone().into()));
    let policy = policy();
    let policy_info = body(&Message::NewPolicy(policy.clone().into()));
    let acquire = Acquire {
        id: sa.id,
        source: sa.source,
        selector: Selector { is_family_unspecified: false, ..sa.selector },
        policy: policy.clone(),
        authentications: 0x31,
        ciphers: 0x32,
        compressions: 0x33,
        sequence: 0x34,
    };
    let mapping = Mapping {
        id: sa.id,
        reqid: 0x41,
        old_source: ip("10.4.4.4"),
        new_source: ip("10.5.5.5"),
        old_port: 0x4243,
        new_port: 0x4445,
    };
    let event = AsyncEvent { flags: 0x51, reqid: 0x52, ..AsyncEvent::of(&sa, 0) };
    let reference = SaRef { id: sa.id, source: None, mark: None, interface_id: 0, unknown: Vec::new() };
    let policy_reference = PolicyRef {
        selector: policy.selector,
        index: 0x61,
        direction: Direction::Forward,
        kind: 7,
        mark: None,
        interface_id: 0,
        unknown: Vec::new(),
    };
    let alloc = AllocSpi { sa: sa.clone(), lowest: 0x71, highest: 0x72 };
    let expire = Message::Expire(Expire { sa: sa.clone(), is_hard: true }.into());
    let policy_expire = Message::PolicyExpire(PolicyExpire { policy: policy.clone(), is_hard: true }.into());
    let attribute = |message: &Message, kind| attribute(message, kind);
    let of_sa = Message::NewSa(sa.clone().into());
    let of_policy = Message::NewPolicy(policy.clone().into());

    let mut layout = Layout::default();
    layout.structure("struct xfrm_usersa_info", &info, SA_FIELDS);
    layout.structure("struct xfrm_userpolicy_info", &policy_info, POLICY_FIELDS);
    layout.structure(
        "struct xfrm_userspi_info",
        &body(&Message::AllocSpi(alloc.into())),
        &[("min", n(0x71)), ("max", n(0x72))],
    );
    layout.structure(
        "struct xfrm_usersa_id",
        &body(&Message::GetSa(reference)),
        &[("daddr", &[10, 1, 1, 1]), ("spi", &[1, 2, 3, 4]), ("family", &2_u16.to_ne_bytes()), ("proto", &[50])],
    );
    layout.structure(
        "struct xfrm_userpolicy_id",
        &body(&Message::GetPolicy(policy_reference)),
        &[("sel.family", &2_u16.to_ne_bytes()), ("index", n(0x61)), ("dir", &[2])],
    );
    layout.structure(
        "struct xfrm_user_acquire",
        &body(&Message::Acquire(acquire.into())),
        &[
            ("id.daddr", &[10, 1, 1, 1]),
            ("saddr", &[10, 2, 2, 2]),
            ("sel.sport", &[0x13, 0x14]),
            ("policy.priority", n(0x21)),
            ("aalgos", n(0x31)),
            ("ealgos", n(0x32)),
            ("calgos", n(0x33)),
            ("seq", n(0x34)),
        ],
    );
    layout.structure("struct xfrm_user_expire", &body(&expire), &[("state.reqid", n(0x19)), ("hard", &[1])]);
    layout.structure("struct xfrm_user_polexpire", &body(&policy_expire), &[("pol.index", n(0x22)), ("hard", &[1])]);
    layout.structure(
        "struct xfrm_user_mapping",
        &body(&Message::Mapping(mapping)),
        &[
            ("id.spi", &[1, 2, 3, 4]),
            ("reqid", n(0x41)),
            ("old_saddr", &[10, 4, 4, 4]),
            ("new_saddr", &[10, 5, 5, 5]),
            ("old_sport", &[0x42, 0x43]),
            ("new_sport", &[0x44, 0x45]),
        ],
    );
    layout.structure(
        "struct xfrm_aevent_id",
        &body(&Message::NewAe(event.into())),
        &[("sa_id.spi", &[1, 2, 3, 4]), ("saddr", &[10, 2, 2, 2]), ("flags", n(0x51)), ("reqid", n(0x52))],
    );
    layout.whole("struct xfrm_userpolicy_type", &attribute(&of_policy, attribute::POLICY_TYPE), &[("type", &[7])]);
    layout.whole(
        "struct xfrm_user_tmpl",
        &attribute(&of_policy, attribute::TMPL),
        &[
            ("id.daddr", &[10, 1, 1, 1]),
            ("id.spi", &[1, 2, 3, 4]),
            ("id.proto", &[50]),
            ("family", &2_u16.to_ne_bytes()),
            ("saddr", &[10, 2, 2, 2]),
            ("reqid", n(0x25)),
            ("mode", &[1]),
            ("share", &[0x26]),
            ("optional", &[1]),
            ("aalgos", n(0x27)),
            ("ealgos", n(0x28)),
            ("calgos", n(0x29)),
        ],
    );
    layout.whole(
        "struct xfrm_encap_tmpl",
        &attribute(&of_sa, attribute::ENCAP),
        &[
            ("encap_type", &2_u16.to_ne_bytes()),
            ("encap_sport", &[0x81, 0x82]),
            ("encap_dport", &[0x83, 0x84]),
            ("encap_oa", &[10, 3, 3, 3]),
        ],
    );
    layout.whole("struct xfrm_mark", &attribute(&of_sa, attribute::MARK), &[("v", n(0x91)), ("m", n(0x92))]);
    layout.whole(
        "struct xfrm_user_offload",
        &attribute(&of_sa, attribute::OFFLOAD_DEV),
        &[("ifindex", n(0x93)), ("flags", &[0x94])],
    );
    layout.whole(
        "struct xfrm_replay_state",
        &attribute(&of_sa, attribute::REPLAY_VAL),
        &[("oseq", n(0xa1)), ("seq", n(0xa2)), ("bitmap", n(0xa3))],
    );
    layout.structure(
        "struct xfrm_replay_state_esn",
        &attribute(&of_sa, attribute::REPLAY_ESN_VAL),
        &[
            ("bmp_len", n(1)),
            ("oseq", n(0xa4)),
            ("seq", n(0xa5)),
            ("oseq_hi", n(0xa6)),
            ("seq_hi", n(0xa7)),
            ("replay_window", n(0x20)),
        ],
    );
    layout.structure(
        "struct xfrm_algo",
        &attribute(&of_sa, attribute::ALG_CRYPT),
        &[("alg_name", b"c\0"), ("alg_key_len", n(8))],
    );
    layout.structure(
        "struct xfrm_algo_auth",
        &attribute(&of_sa, attribute::ALG_AUTH_TRUNC),
        &[("alg_name", b"a\0"), ("alg_key_len", n(16)), ("alg_trunc_len", n(0xb1))],
    );
    layout.structure(
        "struct xfrm_algo_aead",
        &attribute(&of_sa, attribute::ALG_AEAD),
        &[("alg_name", b"b\0"), ("alg_key_len", n(24)), ("alg_icv_len", n(0xb2))],
    );
    for (name, message) in bare() {
        // Messages about policies end with the attribute of the policy's type, 12 bytes.
        let kind = if name.contains("pol") || name.contains("acquire") { 12 } else { 0 };
        layout.checks.push(format!("NLMSG_ALIGN(sizeof({name})) == {}", body(&message).len() - kind));
    }
    compile(layout.checks, &[]);
}

/// Returns messages, each with the name of its structure. Their only attribute is the type of a policy.
fn bare() -> Vec<(&'static str, Message)> {
    let sa = Sa::new(sa().id, ip("10.2.2.2"));
    let policy = Policy::new(selector(), Direction::Out);
    let reference = SaRef { id: sa.id, source: None, mark: None, interface_id: 0, unknown: Vec::new() };
    let id = PolicyRef {
        selector: selector(),
        index: 1,
        direction: Direction::Out,
        kind: 0,
        mark: None,
        interface_id: 0,
        unknown: Vec::new(),
    };
    let acquire = Acquire {
        id: sa.id,
        source: sa.source,
        selector: selector(),
        policy: policy.clone(),
        authentications: 0,
        ciphers: 0,
        compressions: 0,
        sequence: 0,
    };
    let event = AsyncEvent { counters: None, ..AsyncEvent::of(&sa, 0) };
    let (old, new) = (sa.source, sa.source);
    let mapping = Mapping { id: sa.id, reqid: 0, old_source: old, new_source: new, old_port: 0, new_port: 0 };
    let verdicts = Verdicts { input: Verdict::Block, forward: Verdict::Block, output: Verdict::Block };
    vec![
        ("struct xfrm_usersa_info", Message::NewSa(sa.clone().into())),
        ("struct xfrm_userspi_info", Message::AllocSpi(AllocSpi { sa: sa.clone(), lowest: 1, highest: 2 }.into())),
        ("struct xfrm_usersa_id", Message::GetSa(reference)),
        ("struct xfrm_usersa_flush", Message::FlushSa(50)),
        ("struct xfrm_user_expire", Message::Expire(Expire { sa, is_hard: true }.into())),
        ("struct xfrm_userpolicy_info", Message::NewPolicy(policy.clone().into())),
        ("struct xfrm_userpolicy_id", Message::GetPolicy(id)),
        ("struct xfrm_user_polexpire", Message::PolicyExpire(PolicyExpire { policy, is_hard: true }.into())),
        ("struct xfrm_user_acquire", Message::Acquire(acquire.into())),
        ("struct xfrm_aevent_id", Message::NewAe(event.into())),
        ("struct xfrm_user_mapping", Message::Mapping(mapping)),
        ("struct xfrm_defaults", Message::SetDefault(verdicts)),
    ]
}

/// 32-bit x86 aligns a `u64` to 4 bytes, so structures with a `u64` have less padding at their end.
#[cfg(target_arch = "x86_64")]
#[test]
fn structures_of_32_bit_x86_have_less_padding() {
    let sizes = [("xfrm_usersa_info", 220), ("xfrm_userpolicy_info", 164), ("xfrm_user_acquire", 276)];
    let check = |(name, size)| format!("sizeof(struct {name}) == {size}");
    compile(
        sizes.into_iter().map(check).collect(),
        &["-m32", "-ffreestanding", "-idirafter", "/usr/include/x86_64-linux-gnu"],
    );
}

const SA_FIELDS: Fields<'_> = &[
    ("sel.daddr", &[10, 6, 0, 0]),
    ("sel.saddr", &[10, 7, 0, 0]),
    ("sel.dport", &[0x11, 0x12]),
    ("sel.dport_mask", &[0xf1, 0xf2]),
    ("sel.sport", &[0x13, 0x14]),
    ("sel.sport_mask", &[0xf3, 0xf4]),
    ("sel.family", &2_u16.to_ne_bytes()),
    ("sel.prefixlen_d", &[16]),
    ("sel.prefixlen_s", &[24]),
    ("sel.proto", &[6]),
    ("sel.ifindex", n(0x15)),
    ("sel.user", n(0x16)),
    ("id.daddr", &[10, 1, 1, 1]),
    ("id.spi", &[1, 2, 3, 4]),
    ("id.proto", &[50]),
    ("saddr", &[10, 2, 2, 2]),
    ("lft.soft_byte_limit", &1_u64.to_ne_bytes()),
    ("lft.hard_byte_limit", &2_u64.to_ne_bytes()),
    ("lft.soft_packet_limit", &3_u64.to_ne_bytes()),
    ("lft.hard_packet_limit", &4_u64.to_ne_bytes()),
    ("lft.soft_add_expires_seconds", &5_u64.to_ne_bytes()),
    ("lft.hard_add_expires_seconds", &6_u64.to_ne_bytes()),
    ("lft.soft_use_expires_seconds", &7_u64.to_ne_bytes()),
    ("lft.hard_use_expires_seconds", &8_u64.to_ne_bytes()),
    ("curlft.bytes", &9_u64.to_ne_bytes()),
    ("curlft.packets", &10_u64.to_ne_bytes()),
    ("curlft.add_time", &11_u64.to_ne_bytes()),
    ("curlft.use_time", &12_u64.to_ne_bytes()),
    ("stats.replay_window", n(0x17)),
    ("stats.replay", n(0x1a)),
    ("stats.integrity_failed", n(0x1b)),
    ("seq", n(0x18)),
    ("reqid", n(0x19)),
    ("family", &2_u16.to_ne_bytes()),
    ("mode", &[4]),
    ("replay_window", &[0x1c]),
    ("flags", &[0x1d]),
];

const POLICY_FIELDS: Fields<'_> = &[
    ("sel.saddr", &[10, 7, 0, 0]),
    ("lft.hard_use_expires_seconds", &8_u64.to_ne_bytes()),
    ("curlft.bytes", &9_u64.to_ne_bytes()),
    ("priority", n(0x21)),
    ("index", n(0x22)),
    ("dir", &[2]),
    ("action", &[1]),
    ("flags", &[0x23]),
    ("share", &[0x24]),
];

fn sa() -> Sa {
    let esn = ReplayEsn { output: 0xa6_0000_00a4, input: 0xa7_0000_00a5, window: 0x20, bitmap: vec![0xa8] };
    Sa {
        selector: selector(),
        limits: limits(),
        counters: Counters { bytes: 9, packets: 10, add_time: 11, use_time: 12 },
        stats: Stats { replay_window: 0x17, replay: 0x1a, integrity_failed: 0x1b },
        sequence: 0x18,
        reqid: 0x19,
        mode: Mode::Beet,
        replay_window: 0x1c,
        flags: 0x1d,
        cipher: Some(NamedAlgorithm { name: "c".into(), key: Key::new(&[0; 1]) }),
        authentication: Some(NamedAuthentication { name: "a".into(), key: Key::new(&[0; 2]), icv_bits: Some(0xb1) }),
        aead: Some(NamedAead { name: "b".into(), key: Key::new(&[0; 3]), icv_bits: 0xb2 }),
        encapsulation: Some(Encapsulation {
            kind: ENCAP_ESPINUDP,
            source_port: 0x8182,
            destination_port: 0x8384,
            original: ip("10.3.3.3"),
        }),
        replay: Some(Replay { output: 0xa1, input: 0xa2, bitmap: 0xa3 }),
        replay_esn: Some(esn),
        mark: Some(Mark { value: 0x91, mask: 0x92 }),
        offload: Some(Offload { interface_index: 0x93, flags: 0x94 }),
        ..Sa::new(SaId { destination: ip("10.1.1.1"), spi: 0x0102_0304, protocol: 50 }, ip("10.2.2.2"))
    }
}

fn policy() -> Policy {
    let template = Template {
        id: SaId { destination: ip("10.1.1.1"), spi: 0x0102_0304, protocol: 50 },
        source: ip("10.2.2.2"),
        reqid: 0x25,
        mode: Mode::Tunnel,
        share: 0x26,
        optional: true,
        authentications: 0x27,
        ciphers: 0x28,
        compressions: 0x29,
    };
    Policy {
        limits: limits(),
        counters: Counters { bytes: 9, packets: 10, add_time: 11, use_time: 12 },
        priority: 0x21,
        index: 0x22,
        action: Action::Block,
        flags: 0x23,
        share: 0x24,
        templates: vec![template],
        kind: 7,
        ..Policy::new(selector(), Direction::Forward)
    }
}

fn limits() -> Limits {
    Limits {
        soft_bytes: 1,
        hard_bytes: 2,
        soft_packets: 3,
        hard_packets: 4,
        soft_add_seconds: 5,
        hard_add_seconds: 6,
        soft_use_seconds: 7,
        hard_use_seconds: 8,
    }
}

fn selector() -> Selector {
    Selector {
        destination: Prefix { address: ip("10.6.0.0"), length: 16 },
        source: Prefix { address: ip("10.7.0.0"), length: 24 },
        destination_port: Port { value: 0x1112, mask: 0xf1f2 },
        source_port: Port { value: 0x1314, mask: 0xf3f4 },
        protocol: 6,
        interface_index: 0x15,
        user: 0x16,
        ..Selector::any(Family::Ipv4)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Fields of a structure, each with its expected bytes.
type Fields<'a> = &'a [(&'a str, &'a [u8])];

/// Returns the bytes of a 32-bit number below 256, from a table because fields need static data.
const fn n(number: u32) -> &'static [u8] {
    const NUMBERS: [[u8; 4]; 256] = {
        let mut numbers = [[0; 4]; 256];
        let mut number = 0;
        while number < 256 {
            numbers[number] = (number as u32).to_ne_bytes();
            number += 1;
        }
        numbers
    };
    &NUMBERS[number as usize]
}

#[derive(Default)]
struct Layout {
    checks: Vec<String>,
}

impl Layout {
    /// Asserts that `bytes` begin with the structure `name`, and that each field has its bytes at its offset.
    fn structure(&mut self, name: &str, bytes: &[u8], fields: Fields<'_>) {
        self.checks.push(format!("sizeof({name}) <= {}", bytes.len()));
        for (field, content) in fields {
            // A field's bytes may occur at several offsets, of which one must be the field's.
            let places = bytes.windows(content.len()).enumerate().filter(|(_, window)| window == content);
            let mut check = "0".to_owned();
            for (place, _) in places {
                write!(check, " || __builtin_offsetof({name}, {field}) == {place}").unwrap();
            }
            self.checks.push(check);
            self.checks.push(format!("sizeof((({name} *)0)->{field}) >= {}", content.len()));
        }
    }

    /// Asserts as `structure` does, and that `bytes` are no longer than the structure.
    fn whole(&mut self, name: &str, bytes: &[u8], fields: Fields<'_>) {
        self.structure(name, bytes, fields);
        self.checks.push(format!("sizeof({name}) == {}", bytes.len()));
    }
}

/// Returns a message without its netlink header: the structure, followed by the attributes.
fn body(message: &Message) -> Vec<u8> {
    let mut datagram = Datagram::new();
    datagram.push(message, flag::REQUEST, 0, 0, KeyVisibility::Shown);
    datagram.as_bytes()[16..].to_vec()
}

/// Returns the content of an attribute.
fn attribute(message: &Message, kind: u16) -> Vec<u8> {
    let size = match message {
        Message::NewSa(sa) => body(&Message::NewSa(Sa::new(sa.id, sa.source).into())).len(),
        // Every policy has the attribute of its type, 12 bytes, which is not part of the structure.
        Message::NewPolicy(policy) => {
            body(&Message::NewPolicy(Policy::new(policy.selector, policy.direction).into())).len() - 12
        }
        _ => unreachable!("a message without attributes to compare"),
    };
    let bytes = body(message);
    let mut rest = &bytes[size..];
    loop {
        let length = u16::from_ne_bytes(rest[..2].try_into().unwrap()) as usize;
        if rest[2..4] == kind.to_ne_bytes() {
            return rest[4..length].to_vec();
        }
        rest = &rest[length.next_multiple_of(4)..];
    }
}

fn compile(checks: Vec<String>, options: &[&str]) {
    let mut program = "#include <linux/netlink.h>\n#include <linux/xfrm.h>\n".to_owned();
    // An alias without "pol": the test expects the attribute of the policy's type in messages with "pol" in their name.
    program += "#define xfrm_defaults xfrm_userpolicy_default\n";
    if !options.contains(&"-ffreestanding") {
        program += "#include <sys/socket.h>\n#include <linux/udp.h>\n#include <errno.h>\n";
    }
    for check in checks {
        writeln!(program, "_Static_assert({check}, \"\");").unwrap();
    }
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut compiler = compiler.spawn().expect("cc starts (AWS-LC needs it, too)");
    compiler.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles like [`compile`], but checks only if the headers are of this Linux release or a later one. The first and the last check
/// each end one assertion and begin another, with `#if` or `#endif` between the two.
fn compile_since(major: u32, minor: u32, checks: Vec<String>) {
    let version = format!("KERNEL_VERSION({major}, {minor}, 0)");
    let mut all =
        vec![format!("1, \"\");\n#include <linux/version.h>\n#if LINUX_VERSION_CODE >= {version}\n_Static_assert(1")];
    all.extend(checks);
    all.push("1, \"\");\n#endif\n_Static_assert(1".to_owned());
    compile(all, &[]);
}

//! Vectors of RFC 3711, RFC 6188 and RFC 7714 that begin or end with session keys.

use common::{devices, hex};
use gantry_core::{Direction, Gantry, Process};
use zeroize::Zeroizing;

use super::channel::Channel;
use super::keys::SessionKeys;
use super::streams::{StreamStart, Streams};
use super::{Inbound, Outbound, Protocol, Suite};
use crate::packet::{Packet, PacketError};

#[path = "../../tests/common/mod.rs"]
mod common;

/// Returns a channel under session keys.
fn channel(
    gantry: &Gantry,
    suite: Suite,
    protocol: Protocol,
    direction: Direction,
    keys: &[&[u8]; 3],
    starts: &[(u32, StreamStart)],
) -> Channel {
    let [key, mac_key, salt] = keys.map(|key| Zeroizing::new(key.to_vec()));
    let keys = SessionKeys { key, mac_key, salt };
    let sessions = keys.sessions(gantry, suite, protocol, direction).unwrap();
    Channel::new(protocol, sessions, &keys.salt, &[], Streams::new(protocol, 64, 10, starts))
}

/// Returns both ends under the same session keys for both protocols. `last_control` is a source with the number of its last RTCP packet.
fn ends(
    gantry: &Gantry,
    suite: Suite,
    keys: &[&[u8]; 3],
    encrypted: bool,
    last_control: (u32, u64),
) -> (Outbound, Inbound) {
    let make = |protocol, direction| {
        let starts: &[_] =
            if protocol == Protocol::Rtcp { &[(last_control.0, StreamStart::After(last_control.1))] } else { &[] };
        channel(gantry, suite, protocol, direction, keys, starts)
    };
    let [media, control] = [Protocol::Rtp, Protocol::Rtcp].map(|protocol| make(protocol, Direction::Encrypt));
    let outbound = Outbound::new(suite, media, control, encrypted, Process::current());
    let [media, control] = [Protocol::Rtp, Protocol::Rtcp].map(|protocol| make(protocol, Direction::Decrypt));
    (outbound, Inbound::new(suite, media, control))
}

fn run(data: &[u8], step: impl Fn(&mut Packet<'_>) -> Result<(), PacketError>) -> Vec<u8> {
    let mut buffer = [data, &[0; 40]].concat();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    step(&mut packet).unwrap();
    packet.data().to_vec()
}

/// RFC 3711, B.2.
#[test]
fn aes_cm_matches_the_keystream_of_rfc_3711() {
    const LENGTH: usize = 0xFF02 * 16;
    let (key, salt) = (hex("2B7E151628AED2A6ABF7158809CF4F3C"), hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD"));
    for gantry in devices() {
        let (outbound, _) = ends(&gantry, Suite::AesCm128HmacSha1_80, &[&key, &[0; 20], &salt], true, (0, 0));
        // Packet 0 of source 0: all zeros after its header.
        let mut rtp = vec![0; 12 + LENGTH];
        rtp[0] = 0x80;
        let wire = run(&rtp, |packet| outbound.seal(packet));
        let keystream = &wire[12..12 + LENGTH];
        assert_eq!(
            keystream[..48],
            hex("E03EAD0935C95E80E166B16DD92B4EB4 D23513162B02D0F72A43A2FE4A5F97AB 41E95B3BB0A2E8DD477901E4FCA894C0")
        );
        assert_eq!(
            keystream[0xFEFF * 16..],
            hex("EC8CDF7398607CB0F2D21675EA9EA1E4 362B7C3C6773516318A077D7FC5073AE 6A2CC3787889374FBEB4C81B17BA6C44")
        );
    }
}

/// RFC 3711, B.3, and RFC 6188, 7.2. The vectors of RTCP were computed with Python's `cryptography`.
#[test]
fn derives_session_keys() {
    struct Vector {
        suite: Suite,
        protocol: Protocol,
        master: [&'static str; 2],
        derived: [&'static str; 3],
    }
    let short = ["E1F97A0D3E018BE0D64FA32C06DE4139", "0EC675AD498AFEEBB6960B3AABE6"];
    let vectors = [
        Vector {
            suite: Suite::AesCm128HmacSha1_80,
            protocol: Protocol::Rtp,
            master: short,
            derived: [
                "C61E7A93744F39EE10734AFE3FF7A087",
                "CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4",
                "30CBBC08863D8C85D49DB34A9AE1",
            ],
        },
        Vector {
            suite: Suite::AesCm128HmacSha1_32,
            protocol: Protocol::Rtcp,
            master: short,
            derived: [
                "4C1AA45A81F73D61C800BBB00FBB1EAA",
                "8D54534FEB49AE8E7993A6BD0B844FC323A93DFD",
                "9581C7AD87B3E530BF3E4454A8B3",
            ],
        },
        Vector {
            suite: Suite::AesCm256HmacSha1_80,
            protocol: Protocol::Rtp,
            master: [
                "F0F04914B513F2763A1B1FA130F10E2998F6F6E43E4309D1E622A0E332B9F1B6",
                "3B04803DE51EE7C96423AB5B78D2",
            ],
            derived: [
                "5BA1064E30EC51613CAD926C5A28EF731EC7FB397F70A960653CAF06554CD8C4",
                "FD9C32D39ED5FBB5A9DC96B30818454D1313DC05",
                "FA31791685CA444A9E07C6C64E93",
            ],
        },
    ];
    for gantry in devices() {
        for Vector { suite, protocol, master: [key, salt], derived } in &vectors {
            let keys = SessionKeys::derive(&gantry, *suite, *protocol, &hex(key), &hex(salt)).unwrap();
            assert_eq!([&keys.key[..], &keys.mac_key, &keys.salt], derived.map(hex), "{suite:?} {protocol:?}");
        }
        let keys = SessionKeys::derive(&gantry, Suite::AeadAes256Gcm, Protocol::Rtp, &[1; 32], &[2; 12]).unwrap();
        assert_eq!([keys.key.len(), keys.mac_key.len(), keys.salt.len()], [32, 0, 12]);
    }
}

/// RFC 7714, 16.1 and 16.2, and 17.1 to 17.4.
#[test]
fn aes_gcm_matches_the_packets_of_rfc_7714() {
    let rtp =
        hex("8040F17B8041F8D35501A0B2 47616C6C696120657374206F6D6E69732064697669736120696E207061727465732074726573");
    let rtcp = hex(
        "81C8000D4D617273 4E5450314E545032525450200000042A0000E9304C756E61DEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEF",
    );
    let vectors = [
        (
            Suite::AeadAes128Gcm,
            "8040F17B8041F8D35501A0B2 F24DE3A3FB34DE6CACBA861C9D7E4BCABE633BD50D294E6F42A5F47A51C7D19B36DE3ADF8833\
             899D7F27BEB16A9152CF765EE4390CCE",
            "81C8000D4D617273 63E94885DCDAB67CA727D7662F6B7E997FF5C0F76C06F32DC676A5F1730D6FDA4CE09B4686303DED0BB9275B\
             C84AA45896CF4D2FC5ABF87245D9EADE 800005D4",
            "841DD9683DD78EC92AE58790125F62B3 000005D4",
        ),
        (
            Suite::AeadAes256Gcm,
            "8040F17B8041F8D35501A0B2 32B1DE78A822FE12EF9F78FA332E33AAB18012389A58E2F3B50B2A0276FFAE0F1BA63799B87B\
             7AA3DB36DFFFD6B0F9BB7878D7A76C13",
            "81C8000D4D617273 D50AE4D1F5CE5D304BA297E47D470C282C3ECE5DBFFE0A50A2EAA5C1110555BE8415F658C61DE0476F1B6FAD\
             1D1EB30C4446839F57FF6F6CB26AC3BE 800005D4",
            "91DB4AFBFEEE5A978FAB4393ED2615FE 000005D4",
        ),
    ];
    let key: Vec<u8> = (0..32).collect();
    let salt = hex("517569642070726F2071756F");
    for gantry in devices() {
        for (suite, srtp, srtcp, clear) in vectors {
            let key = &key[..suite.parameters().key_len];
            for (encrypted, control) in [(true, hex(srtcp)), (false, [&rtcp[..], &hex(clear)].concat())] {
                let (outbound, inbound) = ends(&gantry, suite, &[key, &[], &salt], encrypted, (0x4D61_7273, 0x5D3));
                assert_eq!(run(&rtp, |packet| outbound.seal(packet)), hex(srtp), "{suite:?}");
                assert_eq!(run(&hex(srtp), |packet| inbound.open(packet)), rtp);
                assert_eq!(run(&rtcp, |packet| outbound.seal_control(packet)), control, "{suite:?} {encrypted}");
                assert_eq!(run(&control, |packet| inbound.open_control(packet)), rtcp);
                assert_eq!(inbound.last_control_number(0x4D61_7273), Some(0x5D4));
            }
        }
    }
}

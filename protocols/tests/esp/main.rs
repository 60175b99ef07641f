//! ESP: vectors, every suite and mode, replays and forgeries, and what becomes of numbers when something fails.

mod closed;
#[path = "../common/mod.rs"]
mod common;
mod shared;
mod whole;

use std::collections::HashSet;

use common::{devices, gantry, hex, suites};
use gantry_core::Gantry;
use gantry_protocols::esp::{self, Association, Inbound, Integrity, Mode, Outbound, Suite, Unfit};
use gantry_protocols::{Packet, Refused};

const SPI: u32 = 0x1234_5678;

fn association(suite: (Suite, usize, usize), seed: u8) -> Association {
    let bytes =
        |count: usize, from: u8| (0..count).map(|at| from.wrapping_mul(31).wrapping_add(at as u8)).collect::<Vec<_>>();
    Association::new(SPI, suite.0, &bytes(suite.1, seed), &bytes(suite.2, seed ^ 0x55))
}

/// Both ends of an association, made in the same way.
fn ends(gantry: &Gantry, make: impl Fn() -> Association) -> (Outbound, Inbound) {
    (make().outbound(gantry).unwrap(), make().inbound(gantry).unwrap())
}

const GCM: (Suite, usize, usize) = (Suite::AesGcm { icv: 16 }, 20, 0);
const CBC: (Suite, usize, usize) = (Suite::AesCbc(Integrity::HmacSha256), 16, 32);
const CTR: (Suite, usize, usize) = (Suite::AesCtr(Integrity::HmacSha256), 20, 32);

/// A packet of IPv4 with UDP in it.
fn ipv4(payload: usize) -> Vec<u8> {
    common::ipv4(&(0..payload).map(|at| at as u8).collect::<Vec<_>>())
}

fn ipv6(payload: usize) -> Vec<u8> {
    common::ipv6(&(0..payload).map(|at| at as u8).collect::<Vec<_>>())
}

const ROOM: usize = 64;

/// A buffer with room around the data.
fn roomy(data: &[u8]) -> Vec<u8> {
    [&[0xEE; ROOM][..], data, &[0xEE; ROOM]].concat()
}

fn within(buffer: &mut [u8]) -> Packet<'_> {
    let end = buffer.len() - ROOM;
    Packet::new(buffer, ROOM..end)
}

fn sealed(out: &Outbound, data: &[u8], next_header: u8) -> Vec<u8> {
    let mut buffer = roomy(data);
    let mut packet = within(&mut buffer);
    packet.next_header = next_header;
    out.seal(&mut packet).unwrap();
    packet.data().to_vec()
}

/// What is on the wire of a burst of 32 packets, which have the numbers behind `before`. Each holds its place, 200 times.
fn sealed_burst(out: &Outbound, before: u32, what: &dyn std::fmt::Debug) -> Vec<Vec<u8>> {
    let mut buffers: Vec<_> = (0..32_u32).map(|at| roomy(&[at as u8; 200])).collect();
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(buffer)).collect();
    let mut burst: Vec<_> = packets.iter_mut().map(|packet| (out, packet)).collect();
    esp::seal(&mut burst);
    for (number, packet) in (before + 1..).zip(&packets) {
        assert_eq!(packet.verdict(), Ok(()), "{what:?}");
        assert_eq!(packet.data()[4..8], number.to_be_bytes());
    }
    packets.iter().map(|packet| packet.data().to_vec()).collect()
}

fn opened(back: &Inbound, wire: &[u8]) -> Result<(Vec<u8>, u8), Refused> {
    let mut buffer = wire.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..wire.len());
    let result = back.open(&mut packet);
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    result.map(|()| (packet.data().to_vec(), packet.next_header))
}

/// draft-mcgrew-gcm-test-01, cases of AES-GCM in ESP, and RFC 7634, appendix A.
#[test]
fn vectors_are_opened() {
    struct Vector {
        suite: Suite,
        key: String,
        spi: u32,
        last: u64,
        extended: bool,
        wire: String,
        payload: &'static str,
    }
    let chacha = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3";
    let vectors = [
        Vector {
            suite: Suite::AesGcm { icv: 16 },
            key: "4c80cdefbb5d10da906ac73c3613a6342e443b68".into(),
            spi: 0x4321,
            last: 0x8765_4320_FFFF_FFFF,
            extended: true,
            wire: "00004321000000004956ed7e3b244cfe\
                   fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34cfa2436f14a3f3cf65925bf1f4a13c5d\
                   15b21e1884f5ff6247aeabb786b93bce61bc17d768fd9732459018148f6cbe722fd04796562dfdb4"
                .into(),
            payload: "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000\
                      00000000045f736970045f756470037369700963796265726369747902646b000021\
                      0001",
        },
        Vector {
            suite: Suite::AesGcm { icv: 16 },
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731ccafebabe".into(),
            spi: 0xA5F8,
            last: 9,
            extended: false,
            wire: "0000a5f80000000afacedbaddecaf888\
                   a5b1f8066029aea40e598b8122de02420938b3ab33f828e687b8858b5bfbdbd0315b27452144cc77\
                   95457b9652037f5318027b5b4cd7a636"
                .into(),
            payload: "45000028a4ad4000400678800a01038f0a010612802306b8cb712602dd6bb03e501016d07568",
        },
        Vector {
            suite: Suite::AesGcm { icv: 16 },
            key: "abbccddef00112233445566778899aababbccddef00112233445566778899aab11223344".into(),
            spi: 0x4A2C_BFE3,
            last: 0,
            extended: false,
            wire: "4a2cbfe3000000020102030405060708\
                   ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763748a637985771d347f0545659f14e99d\
                   ef842d8eb335f4eecfdbf831824b4c4915956c96"
                .into(),
            payload: "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee0000000007002400020bf0000020405b401010402",
        },
        Vector {
            suite: Suite::ChaCha20Poly1305,
            key: chacha.into(),
            spi: 0x0102_0304,
            last: 4,
            extended: false,
            wire: "0102030400000005101112131415161724039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6\
                   14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da\
                   9165b82829f641e076aaa8266b7fb0f7b11b369907e1ad43"
                .into(),
            payload: "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec1000073627\
                      08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
        },
    ];
    for gantry in devices() {
        for Vector { suite, key, spi, last, extended, wire, payload } in &vectors {
            let association = Association::new(*spi, *suite, &hex(key), &[]).mode(Mode::Payload).last_number(*last);
            let association = if *extended { association.extended_numbers() } else { association };
            let back = association.inbound(&gantry).unwrap();
            let (payload_came, next) = opened(&back, &hex(wire)).unwrap();
            assert_eq!((payload_came, back.spi()), (hex(payload), *spi));
            assert!(matches!(next, 1 | 4), "{next}");
            assert_eq!(opened(&back, &hex(wire)), Err(Refused::Replayed));
        }
    }
}

#[test]
fn every_suite_and_mode_brings_back_what_was_sent_on_every_device() {
    for gantry in devices() {
        for (place, suite) in suites().into_iter().enumerate() {
            for (mode, extended) in [
                (Mode::Tunnel, false),
                (Mode::Tunnel, true),
                (Mode::Transport, false),
                (Mode::Transport, true),
                (Mode::Payload, place % 2 == 0),
            ] {
                let make = || {
                    let made = association(suite, place as u8)
                        .mode(mode)
                        .last_number(0x4_FFFF_FFF0 & if extended { !0 } else { 0xFF });
                    if extended { made.extended_numbers() } else { made }
                };
                let (out, back) = ends(&gantry, make);
                let (head, tail) = out.room();
                for length in (0..50).chain([1280, 1400]) {
                    let data = match mode {
                        Mode::Payload => (0..length).map(|at| at as u8).collect(),
                        _ if length % 3 == 0 => ipv6(length),
                        _ => ipv4(length),
                    };
                    let wire = sealed(&out, &data, 17);
                    assert!((data.len() + head..=data.len() + head + tail).contains(&wire.len()), "{suite:?} {length}");
                    if mode != Mode::Transport {
                        let (before, behind) = out.growth(data.len());
                        assert_eq!(wire.len(), before + data.len() + behind, "{suite:?} {length}");
                        let less = out.payload_within(wire.len() - 1);
                        assert!(out.payload_within(wire.len()) >= data.len());
                        assert!(less < data.len() || data.is_empty(), "{suite:?} {length}");
                    }
                    let (came, next) =
                        opened(&back, &wire).unwrap_or_else(|why| panic!("{suite:?} {mode:?} {length}: {why}"));
                    assert!(came == data, "{suite:?} {mode:?} {length}");
                    let expected = match mode {
                        Mode::Tunnel => {
                            if length % 3 == 0 {
                                41
                            } else {
                                4
                            }
                        }
                        _ => 17,
                    };
                    assert_eq!(next, expected);
                    let is_null = matches!(suite.0, Suite::Null(_));
                    let shows = length >= 16 && wire.windows(16).any(|part| part == &data[data.len() - 16..]);
                    assert_eq!(shows, is_null && length >= 16, "{suite:?} {length}");
                }
                assert_eq!(out.last_number(), back.last_number());
            }
        }
    }
}

/// What is on the wire, put together again from sessions of the algorithms.
#[test]
fn packets_look_as_the_documents_say() {
    use gantry_core::{Algorithm, SessionParams};
    let gantry = gantry();
    let key: Vec<u8> = (1..=16).collect();
    let mac_key: Vec<u8> = (101..=132).collect();
    let salt = [0xA, 0xB, 0xC, 0xD];
    let salted = [&key[..], &salt].concat();
    let payload = b"a payload of 27 bytes, then";
    let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    for (suite, encryption_key) in
        [(GCM.0, &salted), (CBC.0, &key), (CTR.0, &salted), (Suite::Null(Integrity::HmacSha256), &vec![])]
    {
        for extended in [false, true] {
            let integrity_key = if suite == GCM.0 { &[][..] } else { &mac_key };
            let made =
                Association::new(SPI, suite, encryption_key, integrity_key).mode(Mode::Payload).last_number(0xFF);
            let (made, number) = if extended {
                (made.extended_numbers().last_number(0x7_0000_00FF), 0x7_0000_0100_u64)
            } else {
                (made, 0x100)
            };
            let wire = sealed(&made.outbound(&gantry).unwrap(), payload, 6);
            let number = number.to_be_bytes();
            assert_eq!(wire[..8], [&SPI.to_be_bytes(), &number[4..]].concat());
            let (_, iv, align) = (
                suite,
                if suite == CBC.0 { 16 } else { 8 } * usize::from(!matches!(suite, Suite::Null(_))),
                if suite == CBC.0 { 16 } else { 4 },
            );
            let padding = align - 1 - (payload.len() + 1) % align;
            let mut clear = payload.to_vec();
            clear.extend(1..=padding as u8);
            clear.extend([padding as u8, 6]);
            let (head, icv) = wire.split_at(wire.len() - 16);
            let (head, encrypted) = head.split_at(8 + iv);
            if suite != CBC.0 && iv > 0 {
                assert_eq!(head[8..], number, "the IV is the number");
            }
            let high = if extended { &number[..4] } else { &[] };
            if suite == GCM.0 {
                let aad = [&SPI.to_be_bytes()[..], high, &number[4..]].concat();
                let nonce = [&salt[..], &number].concat();
                let mut tag = [0; 16];
                session(Algorithm::Aes128Gcm, &key).seal(&nonce, &aad, &mut clear, &mut tag).unwrap();
                assert_eq!((encrypted, icv), (&clear[..], &tag[..]));
                continue;
            }
            let mut mac = [0; 32];
            session(Algorithm::HmacSha256, &mac_key).mac(&[head, encrypted, high].concat(), &mut mac).unwrap();
            assert_eq!(icv, &mac[..16], "{suite:?} {extended}");
            if suite == CBC.0 {
                session(Algorithm::Aes128Cbc, &key).encrypt(&head[8..], &mut clear).unwrap();
            } else if suite == CTR.0 {
                let counter = [&salt[..], &number, &[0, 0, 0, 1]].concat();
                session(Algorithm::Aes128Ctr, &key).encrypt(&counter, &mut clear).unwrap();
            }
            assert_eq!(encrypted, clear);
        }
    }
}

/// Packets of many associations, suites and lengths in one burst, and what is wrong among them.
#[test]
fn a_burst_is_what_its_packets_are_one_by_one() {
    for gantry in devices() {
        let all = suites();
        let pairs: Vec<_> = (0..100)
            .map(|place| ends(&gantry, || association(all[place * 7 % all.len()], place as u8).mode(Mode::Payload)))
            .collect();
        let data: Vec<Vec<u8>> = (0..100).map(|place| vec![place as u8; place * 13]).collect();
        let mut buffers: Vec<Vec<u8>> = data.iter().map(|data| roomy(data)).collect();
        // One has no room.
        buffers[17].truncate(ROOM + data[17].len());
        let mut packets: Vec<Packet<'_>> =
            buffers.iter_mut().zip(&data).map(|(buffer, data)| Packet::new(buffer, ROOM..ROOM + data.len())).collect();
        let mut burst: Vec<_> = pairs.iter().map(|(out, _)| out).zip(&mut packets).collect();
        esp::seal(&mut burst);
        drop(burst);
        assert!(matches!(packets[17].verdict(), Err(Refused::Room { behind: 0, .. })));
        assert_eq!(packets[17].data(), data[17], "as it was");
        let mut wires: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        wires[17] = sealed(&pairs[17].0, &data[17], 0);
        assert_eq!(pairs[17].0.last_number(), 1, "what was refused has no number");
        // Forged, cut off, of somebody else; and one comes twice.
        let last = wires[30].len() - 1;
        wires[30][last] ^= 1;
        wires[40].truncate(12);
        wires[50][0] ^= 1;
        let mut ends: Vec<_> = pairs.iter().map(|(_, back)| back).collect();
        wires.push(wires[60].clone());
        ends.push(ends[60]);
        let mut packets: Vec<Packet<'_>> = wires
            .iter_mut()
            .map(|wire| {
                let length = wire.len();
                Packet::new(wire, 0..length)
            })
            .collect();
        let mut burst: Vec<_> = ends.into_iter().zip(&mut packets).collect();
        esp::open(&mut burst);
        for (place, packet) in packets.iter().enumerate() {
            let expected = match place {
                30 => Err(Refused::Forged),
                40 => Err(Refused::Malformed("a packet of ESP that is cut off")),
                50 => Err(Refused::Malformed("the SPI of another one")),
                100 => Err(Refused::Replayed),
                _ => Ok(()),
            };
            assert_eq!(packet.verdict(), expected.as_ref().copied(), "{place}");
            match place {
                30 | 100 => assert!(packet.data().is_empty()),
                40 | 50 => {}
                _ => assert_eq!(packet.data(), data[place]),
            }
        }
    }
}

#[test]
fn no_changed_packet_is_opened_and_nothing_of_it_is_seen() {
    let gantry = gantry();
    for suite in [GCM, CBC, CTR, (Suite::ChaCha20Poly1305, 36, 0), (Suite::Null(Integrity::HmacSha1), 0, 20)] {
        for extended in [false, true] {
            let make = || {
                let made = association(suite, 3).mode(Mode::Payload);
                if extended { made.extended_numbers() } else { made }
            };
            let (out, back) = ends(&gantry, make);
            let wire = sealed(&out, b"nobody changes this", 17);
            for bit in 0..wire.len() * 8 {
                let mut wrong = wire.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                let mut packet = Packet::new(&mut wrong, 0..wire.len());
                let why = back.open(&mut packet).unwrap_err();
                let is_spi = bit < 32;
                let fits = if is_spi {
                    matches!(why, Refused::Malformed(_))
                } else {
                    matches!(why, Refused::Forged | Refused::Replayed)
                };
                assert!(fits, "{suite:?} {bit}: {why}");
                if why == Refused::Forged {
                    assert!(packet.data().is_empty());
                    let clear = wrong.windows(19).any(|part| part == b"nobody changes this");
                    assert!(!clear || matches!(suite.0, Suite::Null(_)), "no plaintext of what was not authenticated");
                }
            }
            for length in 0..wire.len() {
                assert!(opened(&back, &wire[..length]).is_err(), "{suite:?} {length}");
            }
            assert!(opened(&back, &[&wire[..], &[0; 4]].concat()).is_err());
            assert_eq!(back.last_number(), 0, "none of these counts as having come");
            assert_eq!(opened(&back, &wire).unwrap().0, b"nobody changes this");
        }
    }
}

#[test]
fn each_number_comes_once_in_whatever_order() {
    let gantry = gantry();
    for size in [1, 32, 33, 64, 1000, 4096] {
        for start in [0, u64::from(u32::MAX) - 100, 0x9_FFFF_FF00] {
            let make = || association(GCM, 4).mode(Mode::Payload).extended_numbers().window(size).last_number(start);
            let (out, back) = ends(&gantry, make);
            let wires: Vec<_> = (0..300).map(|at: u32| sealed(&out, &at.to_be_bytes(), 17)).collect();
            let behind = |at: usize| 299 - at as u64;
            assert!(opened(&back, &wires[299]).is_ok());
            for (at, wire) in wires.iter().enumerate() {
                let expected = behind(at) > 0 && behind(at) < u64::from(size);
                assert_eq!(opened(&back, wire).is_ok(), expected, "{at} in a window of {size} from {start:#x}");
                // An extended number from before the window can only be one of the next half.
                assert!(matches!(opened(&back, wire), Err(Refused::Replayed | Refused::Forged)));
            }
        }
    }
}

/// Padding that lies, next headers, and inner lengths: in packets that whoever has the keys made wrong.
#[test]
fn what_a_peer_made_wrong_is_refused() {
    use gantry_core::{Algorithm, SessionParams};
    let gantry = gantry();
    let wrong = |mode: Mode, number: u8, clear: &[u8]| {
        let session = gantry.session(SessionParams::new(Algorithm::Aes128Gcm, &[7; 16])).unwrap();
        let head = [&SPI.to_be_bytes()[..], &[0, 0, 0, number], &[number; 8]].concat();
        let (mut data, mut tag) = (clear.to_vec(), [0; 16]);
        session.seal(&[&[7; 4][..], &head[8..]].concat(), &head[..8], &mut data, &mut tag).unwrap();
        let back = Association::new(SPI, GCM.0, &[7; 20], &[]).mode(mode).inbound(&gantry).unwrap();
        let result = opened(&back, &[&head[..], &data, &tag].concat());
        assert_eq!(back.last_number(), u64::from(number), "it was authentic, so it came");
        result
    };
    let malformed = |result: Result<_, Refused>| matches!(result, Err(Refused::Malformed(_)));
    assert_eq!(wrong(Mode::Payload, 1, &[1, 2, 2, 17]), Ok((vec![], 17)));
    assert!(malformed(wrong(Mode::Payload, 1, &[1, 2, 3, 17])), "more padding than data");
    assert!(malformed(wrong(Mode::Payload, 1, &[1, 2, 255, 17])));
    assert!(malformed(wrong(Mode::Payload, 1, &[2, 1, 2, 17])), "padding that does not count");
    assert_eq!(wrong(Mode::Payload, 1, &[2, 1, 0, 17]), Ok((vec![2, 1], 17)));
    let longest: Vec<u8> = [&[9; 7][..], &(1..=255).collect::<Vec<u8>>(), &[255, 6]].concat();
    assert_eq!(wrong(Mode::Payload, 1, &longest), Ok((vec![9; 7], 6)));
    let in_tunnel = |inner: &[u8], next| wrong(Mode::Tunnel, 1, &[inner, &[0, next]].concat());
    let inner = ipv4(2);
    assert_eq!(in_tunnel(&inner, 4), Ok((inner.clone(), 4)));
    assert_eq!(
        in_tunnel(&[&inner[..], &[0; 40]].concat(), 4),
        Ok((inner.clone(), 4)),
        "what hides the length is cut off"
    );
    assert!(malformed(in_tunnel(&inner, 41)) && malformed(in_tunnel(&inner, 17)));
    assert!(malformed(in_tunnel(&[0x45, 0, 255, 255, 0, 0], 4)) && malformed(in_tunnel(&ipv6(2)[..18], 41)));
    assert_eq!(in_tunnel(&[0; 14], 59), Err(Refused::Dummy));
    // A number that no packet has.
    let back = Association::new(SPI, GCM.0, &[7; 20], &[]).inbound(&gantry).unwrap();
    assert_eq!(opened(&back, &[&SPI.to_be_bytes()[..], &[0; 32]].concat()), Err(Refused::Replayed));
}

#[test]
fn what_is_no_packet_to_send_is_refused_and_has_no_number() {
    let gantry = gantry();
    for (mode, data) in [
        (Mode::Tunnel, &b""[..]),
        (Mode::Tunnel, &[0x45; 19]),
        (Mode::Tunnel, &[0x61; 39]),
        (Mode::Tunnel, &[0x15; 60]),
        (Mode::Transport, &[0x45; 60]),
        (Mode::Transport, b""),
    ] {
        let out = association(GCM, 5).mode(mode).outbound(&gantry).unwrap();
        let mut buffer = roomy(data);
        let before = buffer.clone();
        let mut packet = within(&mut buffer);
        assert!(matches!(out.seal(&mut packet), Err(Refused::Malformed(_))), "{mode:?} {data:?}");
        assert_eq!((packet.data(), out.last_number()), (data, 0));
        assert_eq!(buffer, before);
    }
    let out = association(GCM, 5).mode(Mode::Transport).outbound(&gantry).unwrap();
    let mut buffer = roomy(&ipv4(65_500));
    assert!(matches!(out.seal(&mut within(&mut buffer)), Err(Refused::Malformed("longer than a packet of IP can be"))));
    assert_eq!(out.last_number(), 0);
}

#[test]
fn nobody_can_tell_the_next_iv_of_cbc() {
    let gantry = gantry();
    let out = association(CBC, 8).mode(Mode::Payload).outbound(&gantry).unwrap();
    let again = association(CBC, 8).mode(Mode::Payload).outbound(&gantry).unwrap();
    let mut ivs = HashSet::new();
    for out in [&out, &again] {
        let mut buffers: Vec<_> = (0..40).map(|_| roomy(b"always the same")).collect();
        let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(buffer)).collect();
        let mut burst: Vec<_> = packets.iter_mut().map(|packet| (out, packet)).collect();
        esp::seal(&mut burst);
        ivs.extend(packets.iter().map(|packet| packet.data()[8..24].to_vec()));
    }
    assert_eq!(ivs.len(), 80);
}

#[test]
fn associations_that_cannot_be_are_named() {
    let gantry = gantry();
    let wrong = |association: Association| association.outbound(&gantry).unwrap_err().to_string();
    assert_eq!(wrong(Association::new(255, GCM.0, &[1; 20], &[])), "an SPI of 255; those below 256 are reserved");
    assert_eq!(wrong(Association::new(SPI, GCM.0, &[1; 21], &[])), "aes-192-gcm: a key of 17 bytes; it takes 24");
    assert_eq!(
        wrong(Association::new(SPI, GCM.0, &[1; 3], &[])),
        "the suite takes a key with four bytes of salt behind it"
    );
    assert_eq!(
        wrong(Association::new(SPI, Suite::AesGcm { icv: 9 }, &[1; 20], &[])),
        "the suite takes an integrity check value of 8, 12 or 16 bytes"
    );
    assert_eq!(wrong(Association::new(SPI, GCM.0, &[1; 20], &[1])), "aes-128-gcm: a MAC key of 1 bytes; it takes 0");
    assert_eq!(
        wrong(Association::new(SPI, CBC.0, &[1; 16], &[1; 31])),
        "the suite takes an integrity key as long as the digest"
    );
    assert_eq!(
        wrong(Association::new(SPI, Suite::Null(Integrity::HmacSha1), &[1], &[1; 20])),
        "the suite takes no key, because nothing is encrypted"
    );
    for size in [0, u32::MAX] {
        let result = association(GCM, 1).window(size).inbound(&gantry);
        assert!(matches!(result, Err(Unfit::Window { got, .. }) if got == size));
    }
    let shown = format!("{:?}", association(CBC, 9));
    assert!(shown.starts_with("ESP 0x12345678 AesCbc(HmacSha256) Tunnel"), "{shown}");
}

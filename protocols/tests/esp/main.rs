//! ESP: vectors, every suite and mode, replays and forgeries, and the numbers after a failure.

mod closed;
#[path = "../common/mod.rs"]
mod common;
mod malformed;
mod shared;
mod whole;

use std::collections::HashSet;

use common::{devices, gantry, hex, suites};
use gantry_core::Gantry;
use gantry_protocols::esp::{self, Association, Inbound, Integrity, Mode, Outbound, ParameterError, Suite};
use gantry_protocols::{Packet, PacketError};

const SPI: u32 = 0x1234_5678;

fn association(suite: (Suite, usize, usize), seed: u8) -> Association {
    let bytes =
        |count: usize, from: u8| (0..count).map(|at| from.wrapping_mul(31).wrapping_add(at as u8)).collect::<Vec<_>>();
    Association::new(SPI, suite.0, &bytes(suite.1, seed), &bytes(suite.2, seed ^ 0x55))
}

/// Returns both ends of an association.
fn ends(gantry: &Gantry, make: impl Fn() -> Association) -> (Outbound, Inbound) {
    (make().outbound(gantry).unwrap(), make().inbound(gantry).unwrap())
}

const GCM: (Suite, usize, usize) = (Suite::AesGcm { icv: 16 }, 20, 0);
const CBC: (Suite, usize, usize) = (Suite::AesCbc(Integrity::HmacSha256), 16, 32);
const CTR: (Suite, usize, usize) = (Suite::AesCtr(Integrity::HmacSha256), 20, 32);

/// Returns an IPv4 packet with a UDP payload of `payload` bytes.
fn ipv4(payload: usize) -> Vec<u8> {
    common::ipv4(&(0..payload).map(|at| at as u8).collect::<Vec<_>>())
}

fn ipv6(payload: usize) -> Vec<u8> {
    common::ipv6(&(0..payload).map(|at| at as u8).collect::<Vec<_>>())
}

const ROOM: usize = 64;

/// Returns a buffer with room around the data.
fn with_room(data: &[u8]) -> Vec<u8> {
    [&[0xEE; ROOM][..], data, &[0xEE; ROOM]].concat()
}

fn within(buffer: &mut [u8]) -> Packet<'_> {
    let end = buffer.len() - ROOM;
    Packet::new(buffer, ROOM..end)
}

fn sealed(outbound: &Outbound, data: &[u8], next_header: u8) -> Vec<u8> {
    let mut buffer = with_room(data);
    let mut packet = within(&mut buffer);
    packet.next_header = next_header;
    outbound.seal(&mut packet).unwrap();
    packet.data().to_vec()
}

/// Seals a burst of 32 packets, whose numbers follow `before`. Each packet holds its index 200 times. Returns the sealed packets.
fn sealed_burst(outbound: &Outbound, before: u32, case: &dyn std::fmt::Debug) -> Vec<Vec<u8>> {
    let mut buffers: Vec<_> = (0..32_u32).map(|at| with_room(&[at as u8; 200])).collect();
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(buffer)).collect();
    let mut burst: Vec<_> = packets.iter_mut().map(|packet| (outbound, packet)).collect();
    esp::seal(&mut burst);
    for (number, packet) in (before + 1..).zip(&packets) {
        assert_eq!(packet.verdict(), Ok(()), "{case:?}");
        assert_eq!(packet.data()[4..8], number.to_be_bytes());
    }
    packets.iter().map(|packet| packet.data().to_vec()).collect()
}

fn opened(inbound: &Inbound, wire: &[u8]) -> Result<(Vec<u8>, u8), PacketError> {
    let mut buffer = wire.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..wire.len());
    let result = inbound.open(&mut packet);
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    result.map(|()| (packet.data().to_vec(), packet.next_header))
}

/// draft-mcgrew-gcm-test-01, cases of AES-GCM in ESP, and RFC 7634, appendix A.
#[test]
fn opens_the_vectors() {
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
            let inbound = association.inbound(&gantry).unwrap();
            let (payload_came, next) = opened(&inbound, &hex(wire)).unwrap();
            assert_eq!((payload_came, inbound.spi()), (hex(payload), *spi));
            assert!(matches!(next, 1 | 4), "{next}");
            assert_eq!(opened(&inbound, &hex(wire)), Err(PacketError::Replayed));
        }
    }
}

#[test]
fn every_suite_and_mode_round_trips_on_every_device() {
    for gantry in devices() {
        for (place, suite) in suites().into_iter().enumerate() {
            for (mode, extended) in [
                (Mode::Tunnel, false),
                (Mode::Tunnel, true),
                (Mode::Transport, false),
                (Mode::Transport, true),
                (Mode::Payload, place % 2 == 0),
            ] {
                let extended = extended && suite.0 != Suite::AesGmac;
                let make = || {
                    let made = association(suite, place as u8)
                        .mode(mode)
                        .last_number(0x4_FFFF_FFF0 & if extended { !0 } else { 0xFF });
                    if extended { made.extended_numbers() } else { made }
                };
                let (outbound, inbound) = ends(&gantry, make);
                let (head, tail) = outbound.room();
                for length in (0..50).chain([1280, 1400]) {
                    let data = match mode {
                        Mode::Payload => (0..length).map(|at| at as u8).collect(),
                        _ if length % 3 == 0 => ipv6(length),
                        _ => ipv4(length),
                    };
                    let wire = sealed(&outbound, &data, 17);
                    assert!((data.len() + head..=data.len() + head + tail).contains(&wire.len()), "{suite:?} {length}");
                    if mode != Mode::Transport {
                        let (before, behind) = outbound.overhead(data.len());
                        assert_eq!(wire.len(), before + data.len() + behind, "{suite:?} {length}");
                        let less = outbound.payload_within(wire.len() - 1);
                        assert!(outbound.payload_within(wire.len()) >= data.len());
                        assert!(less < data.len() || data.is_empty(), "{suite:?} {length}");
                    }
                    let (received, next) =
                        opened(&inbound, &wire).unwrap_or_else(|error| panic!("{suite:?} {mode:?} {length}: {error}"));
                    assert!(received == data, "{suite:?} {mode:?} {length}");
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
                    let is_clear = matches!(suite.0, Suite::Null(_) | Suite::AesGmac);
                    let shows = length >= 16 && wire.windows(16).any(|part| part == &data[data.len() - 16..]);
                    assert_eq!(shows, is_clear && length >= 16, "{suite:?} {length}");
                }
                assert_eq!(outbound.last_number(), inbound.last_number());
            }
        }
    }
}

/// Builds each packet a second time, with one session per algorithm.
#[test]
fn packets_have_the_layout_of_the_rfcs() {
    use gantry_core::{Algorithm, SessionParams};
    let gantry = gantry();
    let key: Vec<u8> = (1..=16).collect();
    let mac_key: Vec<u8> = (101..=132).collect();
    let salt = [0xA, 0xB, 0xC, 0xD];
    let salted = [&key[..], &salt].concat();
    let payload = b"a payload of 27 bytes, then";
    let session = |algorithm, key: &[u8]| gantry.session(SessionParams::new(algorithm, key)).unwrap();
    let ccm = Suite::AesCcm { icv: 16 };
    for (suite, encryption_key) in [
        (GCM.0, &salted),
        (ccm, &salted[..19].to_vec()),
        (Suite::AesGmac, &salted),
        (CBC.0, &key),
        (CTR.0, &salted),
        (Suite::Null(Integrity::HmacSha256), &vec![]),
    ] {
        let is_aead = suite == GCM.0 || suite == ccm || suite == Suite::AesGmac;
        for extended in [false, true] {
            let integrity_key = if is_aead { &[][..] } else { &mac_key };
            let made =
                Association::new(SPI, suite, encryption_key, integrity_key).mode(Mode::Payload).last_number(0xFF);
            let (made, number) = if extended {
                (made.extended_numbers().last_number(0x7_0000_00FF), 0x7_0000_0100_u64)
            } else {
                (made, 0x100)
            };
            let outbound = made.outbound(&gantry);
            if extended && suite == Suite::AesGmac {
                assert_eq!(outbound.unwrap_err(), ParameterError::Keys("sequence numbers of 32 bits"));
                continue;
            }
            let wire = sealed(&outbound.unwrap(), payload, 6);
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
            if is_aead {
                let mut aad = [&SPI.to_be_bytes()[..], high, &number[4..]].concat();
                let mut tag = [0; 16];
                let (algorithm, salt) =
                    if suite == ccm { (Algorithm::Aes128Ccm, &salt[..3]) } else { (Algorithm::Aes128Gcm, &salt[..]) };
                let encrypts = suite != Suite::AesGmac;
                if !encrypts {
                    aad.extend([&number[..], &clear].concat());
                }
                let data = if encrypts { &mut clear[..] } else { &mut [] };
                session(algorithm, &key).seal(&[salt, &number].concat(), &aad, data, &mut tag).unwrap();
                assert_eq!((encrypted, icv), (&clear[..], &tag[..]), "{suite:?} {extended}");
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

/// One burst with packets of many associations, suites and lengths, some of them wrong.
#[test]
fn a_burst_gives_the_results_of_its_single_packets() {
    for gantry in devices() {
        let all = suites();
        let pairs: Vec<_> = (0..100)
            .map(|place| ends(&gantry, || association(all[place * 7 % all.len()], place as u8).mode(Mode::Payload)))
            .collect();
        let data: Vec<Vec<u8>> = (0..100).map(|place| vec![place as u8; place * 13]).collect();
        let mut buffers: Vec<Vec<u8>> = data.iter().map(|data| with_room(data)).collect();
        // One packet has no room.
        buffers[17].truncate(ROOM + data[17].len());
        let mut packets: Vec<Packet<'_>> =
            buffers.iter_mut().zip(&data).map(|(buffer, data)| Packet::new(buffer, ROOM..ROOM + data.len())).collect();
        let mut burst: Vec<_> = pairs.iter().map(|(outbound, _)| outbound).zip(&mut packets).collect();
        esp::seal(&mut burst);
        drop(burst);
        assert!(matches!(packets[17].verdict(), Err(PacketError::Room { behind: 0, .. })));
        assert_eq!(packets[17].data(), data[17], "unchanged");
        let mut wires: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        wires[17] = sealed(&pairs[17].0, &data[17], 0);
        assert_eq!(pairs[17].0.last_number(), 1, "a refused packet takes no number");
        // A forged packet, a truncated one, one of another association, and a copy.
        let last = wires[30].len() - 1;
        wires[30][last] ^= 1;
        wires[40].truncate(12);
        wires[50][0] ^= 1;
        let mut ends: Vec<_> = pairs.iter().map(|(_, inbound)| inbound).collect();
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
                30 => Err(PacketError::Forged),
                40 => Err(PacketError::Malformed("a truncated ESP packet")),
                50 => Err(PacketError::Malformed("the SPI of another association")),
                100 => Err(PacketError::Replayed),
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
fn refuses_changed_packets_and_hides_their_plaintext() {
    let gantry = gantry();
    for suite in [GCM, CBC, CTR, (Suite::ChaCha20Poly1305, 36, 0), (Suite::Null(Integrity::HmacSha1), 0, 20)] {
        for extended in [false, true] {
            let make = || {
                let made = association(suite, 3).mode(Mode::Payload);
                if extended { made.extended_numbers() } else { made }
            };
            let (outbound, inbound) = ends(&gantry, make);
            let wire = sealed(&outbound, b"nobody changes this", 17);
            for bit in 0..wire.len() * 8 {
                let mut wrong = wire.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                let mut packet = Packet::new(&mut wrong, 0..wire.len());
                let error = inbound.open(&mut packet).unwrap_err();
                let is_spi = bit < 32;
                let fits = if is_spi {
                    matches!(error, PacketError::Malformed(_))
                } else {
                    matches!(error, PacketError::Forged | PacketError::Replayed)
                };
                assert!(fits, "{suite:?} {bit}: {error}");
                if error == PacketError::Forged {
                    assert!(packet.data().is_empty());
                    let clear = wrong.windows(19).any(|part| part == b"nobody changes this");
                    assert!(!clear || matches!(suite.0, Suite::Null(_)), "no unauthenticated plaintext");
                }
            }
            for length in 0..wire.len() {
                assert!(opened(&inbound, &wire[..length]).is_err(), "{suite:?} {length}");
            }
            assert!(opened(&inbound, &[&wire[..], &[0; 4]].concat()).is_err());
            assert_eq!(inbound.last_number(), 0, "refused packets do not count as received");
            assert_eq!(opened(&inbound, &wire).unwrap().0, b"nobody changes this");
        }
    }
}

#[test]
fn accepts_each_number_once_in_any_order() {
    let gantry = gantry();
    for size in [1, 32, 33, 64, 1000, 4096] {
        for start in [0, u64::from(u32::MAX) - 100, 0x9_FFFF_FF00] {
            let make = || association(GCM, 4).mode(Mode::Payload).extended_numbers().window(size).last_number(start);
            let (outbound, inbound) = ends(&gantry, make);
            let wires: Vec<_> = (0..300).map(|at: u32| sealed(&outbound, &at.to_be_bytes(), 17)).collect();
            let behind = |at: usize| 299 - at as u64;
            assert!(opened(&inbound, &wires[299]).is_ok());
            for (at, wire) in wires.iter().enumerate() {
                let expected = behind(at) > 0 && behind(at) < u64::from(size);
                assert_eq!(opened(&inbound, wire).is_ok(), expected, "{at} in a window of {size} from {start:#x}");
                // An extended number from before the window is taken for a number with the next upper half.
                assert!(matches!(opened(&inbound, wire), Err(PacketError::Replayed | PacketError::Forged)));
            }
        }
    }
}

#[test]
fn ivs_of_cbc_never_repeat() {
    let gantry = gantry();
    let outbound = association(CBC, 8).mode(Mode::Payload).outbound(&gantry).unwrap();
    let again = association(CBC, 8).mode(Mode::Payload).outbound(&gantry).unwrap();
    let mut ivs = HashSet::new();
    for outbound in [&outbound, &again] {
        let mut buffers: Vec<_> = (0..40).map(|_| with_room(b"always the same")).collect();
        let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(buffer)).collect();
        let mut burst: Vec<_> = packets.iter_mut().map(|packet| (outbound, packet)).collect();
        esp::seal(&mut burst);
        ivs.extend(packets.iter().map(|packet| packet.data()[8..24].to_vec()));
    }
    assert_eq!(ivs.len(), 80);
}

#[test]
fn reports_unsuitable_parameters_of_associations() {
    let gantry = gantry();
    let wrong = |association: Association| association.outbound(&gantry).unwrap_err().to_string();
    assert_eq!(wrong(Association::new(255, GCM.0, &[1; 20], &[])), "SPI 255 is reserved; use 256 or more");
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
        assert!(matches!(result, Err(ParameterError::Window { got, .. }) if got == size));
    }
    let shown = format!("{:?}", association(CBC, 9));
    assert!(shown.starts_with("ESP 0x12345678 AesCbc(HmacSha256) Tunnel"), "{shown}");
}

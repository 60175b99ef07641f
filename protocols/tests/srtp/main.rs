//! SRTP and SRTCP: every suite, numbers and rollover counters, replays and forgeries, and the limit on streams.

#[path = "../common/mod.rs"]
mod common;
mod handover;
mod libsrtp;
mod shared;

use std::collections::HashSet;

use common::{devices, gantry};
use gantry_core::Gantry;
use gantry_protocols::srtp::{self, Context, Inbound, Outbound, ParameterError, Suite};
use gantry_protocols::{Packet, PacketError};

const SSRC: u32 = 0x1234_5678;

/// Every suite, with the lengths of its master key and salt, and of the tags of RTP and RTCP.
const SUITES: [(Suite, usize, usize, usize, usize); 6] = [
    (Suite::AesCm128HmacSha1_80, 16, 14, 10, 10),
    (Suite::AesCm128HmacSha1_32, 16, 14, 4, 10),
    (Suite::AesCm256HmacSha1_80, 32, 14, 10, 10),
    (Suite::AesCm256HmacSha1_32, 32, 14, 4, 10),
    (Suite::AeadAes128Gcm, 16, 12, 16, 16),
    (Suite::AeadAes256Gcm, 32, 12, 16, 16),
];

fn context(suite: Suite, seed: u8) -> Context {
    let row = SUITES.iter().find(|row| row.0 == suite).unwrap();
    let bytes = |count: usize, from: u8| (0..count).map(|at| from.wrapping_mul(29) ^ at as u8).collect::<Vec<_>>();
    Context::new(suite, &bytes(row.1, seed), &bytes(row.2, !seed))
}

/// Returns both ends of a context.
fn ends(gantry: &Gantry, make: impl Fn() -> Context) -> (Outbound, Inbound) {
    (make().outbound(gantry).unwrap(), make().inbound(gantry).unwrap())
}

/// Returns an RTP packet with a minimal header.
fn rtp(ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    [&[0x80, 96][..], &sequence.to_be_bytes(), &[0, 0, 0, 9], &ssrc.to_be_bytes(), payload].concat()
}

/// Returns a sender report.
fn rtcp(ssrc: u32, rest: &[u8]) -> Vec<u8> {
    [&[0x80, 200, 0, 1 + rest.len() as u8 / 4][..], &ssrc.to_be_bytes(), rest].concat()
}

/// The two protocols of a context.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Rtp,
    Rtcp,
}
use Protocol::{Rtcp, Rtp};

fn try_seal(outbound: &Outbound, protocol: Protocol, data: &[u8]) -> Result<Vec<u8>, PacketError> {
    let mut buffer = [data, &vec![0xEE; outbound.room().1]].concat();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    let result = match protocol {
        Rtp => outbound.seal(&mut packet),
        Rtcp => outbound.seal_control(&mut packet),
    };
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    match result {
        Ok(()) => Ok(packet.data().to_vec()),
        Err(error) => {
            assert_eq!(packet.data(), data, "unchanged");
            Err(error)
        }
    }
}

fn sealed(outbound: &Outbound, data: &[u8]) -> Vec<u8> {
    try_seal(outbound, Rtp, data).unwrap()
}

fn open_as(inbound: &Inbound, protocol: Protocol, wire: &[u8]) -> Result<Vec<u8>, PacketError> {
    let mut buffer = wire.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..wire.len());
    let result = match protocol {
        Rtp => inbound.open(&mut packet),
        Rtcp => inbound.open_control(&mut packet),
    };
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    result.map(|()| packet.data().to_vec())
}

fn opened(inbound: &Inbound, wire: &[u8]) -> Result<Vec<u8>, PacketError> {
    open_as(inbound, Rtp, wire)
}

#[test]
fn every_suite_round_trips_on_every_device() {
    for gantry in devices() {
        for (seed, (suite, _, _, tag, control_tag)) in SUITES.into_iter().enumerate() {
            for mki in [&b""[..], b"\x17", b"an MKI of 20 bytes.."] {
                let make = || context(suite, seed as u8).mki(mki);
                let (outbound, inbound) = ends(&gantry, make);
                let clear_outbound = make().unencrypted_control().outbound(&gantry).unwrap();
                let clear_inbound = make().inbound(&gantry).unwrap();
                for length in (0..50).chain([160, 1200]) {
                    let payload: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x5A).collect();
                    let mut data = rtp(SSRC, length as u16, &payload);
                    // Two sources, an extension of two words, or both.
                    let between = [&[][..], &[1; 8], &[0xBE, 0xDE, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8], &[7; 8]][length % 4];
                    let bits = [0, 2, 0x10, 0x12][length % 4];
                    data[0] |= bits;
                    data.splice(12..12, between.iter().copied());
                    if bits == 0x12 {
                        data.splice(20..20, [0xBE, 0xDE, 0, 1, 9, 9, 9, 9]);
                    }
                    let head = data.len() - length;
                    let wire = sealed(&outbound, &data);
                    assert_eq!(wire.len(), data.len() + mki.len() + tag, "{suite:?} {length}");
                    assert_eq!(wire[..head], data[..head], "sources and extensions are not encrypted");
                    assert!(length < 8 || wire[head..head + length] != payload[..]);
                    assert_eq!(opened(&inbound, &wire).unwrap(), data, "{suite:?} {length}");

                    let data = rtcp(SSRC, &payload);
                    for (outbound, inbound, is_clear) in
                        [(&outbound, &inbound, false), (&clear_outbound, &clear_inbound, true)]
                    {
                        let wire = try_seal(outbound, Rtcp, &data).unwrap();
                        assert_eq!(wire.len(), data.len() + 4 + mki.len() + control_tag);
                        assert!(wire.len() - data.len() <= outbound.room().1);
                        assert_eq!(wire[..8], data[..8]);
                        assert!(length < 8 || (wire[8..data.len()] == payload) == is_clear);
                        assert_eq!(open_as(inbound, Rtcp, &wire).unwrap(), data, "{suite:?} {length} {is_clear}");
                        assert_eq!(open_as(inbound, Rtcp, &wire), Err(PacketError::Replayed));
                    }
                }
                assert_eq!(outbound.last_number(SSRC), Some(1200));
                assert_eq!(
                    (outbound.last_control_number(SSRC), inbound.last_control_number(SSRC)),
                    (Some(51), Some(51))
                );
            }
        }
    }
}

#[test]
fn hides_the_plaintext_of_changed_packets() {
    let gantry = gantry();
    let secret = b"nobody changes this ";
    for (suite, mki) in SUITES.iter().flat_map(|row| [(row.0, &b""[..]), (row.0, b"MKI")]) {
        for (protocol, is_clear) in [(Rtp, false), (Rtcp, false), (Rtcp, true)] {
            let make = || {
                let made = context(suite, 3).mki(mki);
                if is_clear { made.unencrypted_control() } else { made }
            };
            let (outbound, inbound) = ends(&gantry, make);
            let data = if protocol == Rtp { rtp(SSRC, 700, secret) } else { rtcp(SSRC, secret) };
            let wire = try_seal(&outbound, protocol, &data).unwrap();
            for bit in 0..wire.len() * 8 {
                let mut wrong = wire.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                let mut packet = Packet::new(&mut wrong, 0..wire.len());
                let result =
                    if protocol == Rtp { inbound.open(&mut packet) } else { inbound.open_control(&mut packet) };
                match result.unwrap_err() {
                    PacketError::Forged => {
                        assert!(packet.data().is_empty());
                        assert!(is_clear || !wrong.windows(20).any(|part| part == secret), "{suite:?} {bit}");
                    }
                    error => {
                        assert!(matches!(error, PacketError::Malformed(_)), "{suite:?} {protocol:?} {bit}: {error}");
                    }
                }
            }
            for length in 0..wire.len() {
                assert!(open_as(&inbound, protocol, &wire[..length]).is_err(), "{suite:?} {protocol:?} {length}");
            }
            assert!(open_as(&inbound, protocol, &[&wire[..], &[0]].concat()).is_err());
            // Refused packets neither create a stream nor count as received.
            assert_eq!((inbound.last_number(SSRC), inbound.last_control_number(SSRC)), (None, None));
            assert!(format!("{inbound:?}").ends_with("in, 0 streams"), "{inbound:?}");
            assert_eq!(open_as(&inbound, protocol, &wire).unwrap(), data);
        }
    }
}

#[test]
fn refuses_malformed_headers_and_takes_no_number() {
    let gantry = gantry();
    let (outbound, inbound) = ends(&gantry, || context(Suite::AeadAes128Gcm, 4));
    let extension = [&[0x90, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0, 0, 0, 3], &[0; 11]].concat();
    let wrong = [
        (Rtp, vec![]),
        (Rtp, vec![0x80; 11]),
        (Rtp, [&[0x40][..], &[0; 30]].concat()),
        (Rtp, [&[0x8F][..], &[0; 11 + 59]].concat()),
        (Rtp, [&[0x90][..], &[0; 11 + 3]].concat()),
        (Rtp, extension.clone()),
        (Rtp, [&rtp(1, 1, &[])[..], &vec![0; (1 << 20) + 1]].concat()),
        (Rtcp, vec![]),
        (Rtcp, vec![0x80; 7]),
        (Rtcp, [&[0xC0][..], &[0; 30]].concat()),
    ];
    for (protocol, data) in wrong {
        assert!(
            matches!(try_seal(&outbound, protocol, &data), Err(PacketError::Malformed(_))),
            "{protocol:?} {:?}",
            data.len()
        );
        let wire = [&data[..], &[0; 20]].concat();
        assert!(open_as(&inbound, protocol, &wire).is_err());
    }
    assert!(format!("{outbound:?}").ends_with("out, 0 streams"), "{outbound:?}");
    let whole = [&extension[..], &[0]].concat();
    assert_eq!(opened(&inbound, &sealed(&outbound, &whole)).unwrap(), whole, "an extension and no payload");
    let longest = rtp(1, 2, &vec![0; 1 << 20]);
    assert_eq!(opened(&inbound, &sealed(&outbound, &longest)).unwrap(), longest);
    // Without room the packet is refused, and the number stays unused.
    let mut tight = rtp(1, 3, &[1; 20]);
    let length = tight.len();
    let mut packet = Packet::new(&mut tight, 0..length);
    assert_eq!(outbound.seal(&mut packet), Err(PacketError::Room { head: 0, tail: 16, before: 0, behind: 0 }));
    assert_eq!(outbound.last_number(1), Some(2));
}

#[test]
fn refuses_packets_with_another_master_key_identifier() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let outbound = context(suite, 5).mki(&[1, 2]).outbound(&gantry).unwrap();
        let inbound = context(suite, 5).mki(&[1, 3]).inbound(&gantry).unwrap();
        let wire = sealed(&outbound, &rtp(SSRC, 1, b"which key?"));
        assert_eq!(opened(&inbound, &wire), Err(PacketError::Malformed("the MKI is not that of the context")));
        let report = try_seal(&outbound, Rtcp, &rtcp(SSRC, b"which key?..")).unwrap();
        assert_eq!(open_as(&inbound, Rtcp, &report), Err(PacketError::Malformed("the MKI is not that of the context")));
    }
}

#[test]
fn accepts_each_number_once_in_any_order() {
    let gantry = gantry();
    for size in [1, 63, 64, 65, 1000] {
        // In one rollover period, across the first change of the counter, and across a later one.
        for start in [100_u64, 0xFFFF - 150, 0x7_0000_FFFF - 150] {
            let make = || context(Suite::AeadAes128Gcm, 6).window(size).last_number(SSRC, start);
            let (outbound, inbound) = ends(&gantry, make);
            let packet = |at: u64| rtp(SSRC, (start + at) as u16, &at.to_be_bytes());
            let wires: Vec<_> = (1..=300).map(|at| sealed(&outbound, &packet(at))).collect();
            assert_eq!(outbound.last_number(SSRC), Some(start + 300));
            assert_eq!(opened(&inbound, &wires[299]).unwrap(), packet(300));
            for (at, wire) in wires.iter().enumerate() {
                let behind = 299 - at as u64;
                let expected = behind > 0 && behind < u64::from(size);
                assert_eq!(opened(&inbound, wire).is_ok(), expected, "{at} in a window of {size} from {start:#x}");
                assert_eq!(opened(&inbound, wire), Err(PacketError::Replayed));
            }
            assert_eq!(inbound.last_number(SSRC), Some(start + 300));
        }
    }
}

#[test]
fn finds_rollover_counters_despite_lost_packets() {
    let gantry = gantry();
    for suite in [Suite::AesCm128HmacSha1_32, Suite::AeadAes256Gcm] {
        let (outbound, inbound) = ends(&gantry, || context(suite, 7));
        // Three of four packets are lost, and 20,000 in a row around each change of the counter.
        for at in (0..400_000_u32).step_by(4).filter(|at| at & 0xFFFF < 45_000 || at & 0xFFFF > 65_000) {
            let data = rtp(SSRC, at as u16, &at.to_be_bytes());
            let wire = sealed(&outbound, &data);
            if at % 1000 == 0 || at & 0xFFFF > 65_500 || at & 0xFFFF < 40 {
                assert_eq!(opened(&inbound, &wire).unwrap(), data, "{at}");
                assert_eq!(inbound.last_number(SSRC), Some(at.into()));
            }
        }
    }
    // Packets sent before the change arrive after a packet sent after it.
    let (outbound, inbound) = ends(&gantry, || context(Suite::AeadAes128Gcm, 7).last_number(SSRC, 0x3_FFFD));
    let [first, second] = [0xFFFE, 0xFFFF].map(|sequence| sealed(&outbound, &rtp(SSRC, sequence, b"before")));
    let third = sealed(&outbound, &rtp(SSRC, 0, b"after"));
    assert!(opened(&inbound, &third).is_ok() && opened(&inbound, &second).is_ok() && opened(&inbound, &first).is_ok());
    assert_eq!((inbound.last_number(SSRC), opened(&inbound, &second)), (Some(0x4_0000), Err(PacketError::Replayed)));
}

#[test]
fn an_end_that_joins_late_starts_with_the_given_rollover_counter() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let outbound = context(suite, 15).last_number(SSRC, 0x5_0000).outbound(&gantry).unwrap();
        for (sequence, counter) in [(1, 5), (0x7FFF, 5), (0xFFFE, 5), (0xFFFF, 5), (3, 6)] {
            let wire = sealed(&outbound, &rtp(SSRC, sequence, b"not the first one"));
            let late = |counter| context(suite, 15).rollover_counter(SSRC, counter).inbound(&gantry).unwrap();
            let inbound = late(counter);
            assert_eq!(opened(&inbound, &wire).unwrap(), rtp(SSRC, sequence, b"not the first one"), "{sequence:#x}");
            assert_eq!(inbound.last_number(SSRC), Some(u64::from(counter) << 16 | u64::from(sequence)));
            assert_eq!(opened(&late(counter - 1), &wire), Err(PacketError::Forged));
            assert_eq!(opened(&context(suite, 15).inbound(&gantry).unwrap(), &wire), Err(PacketError::Forged));
        }
    }
}

#[test]
fn no_number_is_sealed_twice() {
    let gantry = gantry();
    let outbound = context(Suite::AeadAes128Gcm, 8).outbound(&gantry).unwrap();
    let again = |sequence: u16| try_seal(&outbound, Rtp, &rtp(SSRC, sequence, b"a second one")).err();
    let mut wires = HashSet::new();
    for sequence in [100, 99, 164, 101] {
        assert!(wires.insert(sealed(&outbound, &rtp(SSRC, sequence, b"first of all"))[12..].to_vec()));
    }
    for sequence in [100, 99, 164, 101, 98] {
        assert_eq!(again(sequence), Some(PacketError::Replayed), "{sequence}");
    }
    assert_eq!(again(102), None);
    // Another stream has its own numbers, and another IV for each.
    assert!(wires.insert(sealed(&outbound, &rtp(SSRC + 1, 100, b"first of all"))[12..].to_vec()));
    // The numbers of a burst are checked, too.
    let mut buffers = [rtp(SSRC, 200, &[1; 60]), rtp(SSRC, 200, &[2; 60]), rtp(SSRC, 201, &[3; 60])];
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| Packet::new(buffer, 0..40)).collect();
    let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&outbound, packet)).collect();
    srtp::seal(&mut burst);
    let verdicts: Vec<_> = packets.iter().map(|packet| packet.verdict()).collect();
    assert_eq!(verdicts, [Ok(()), Err(&PacketError::Replayed), Ok(())]);
}

#[test]
fn refuses_to_seal_after_the_last_number() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let make = || {
            let made = context(suite, 9).last_number(SSRC, (1 << 48) - 3);
            made.last_control_number(SSRC, (1 << 31) - 3)
        };
        let (outbound, inbound) = ends(&gantry, make);
        for sequence in [0xFFFE, 0xFFFF] {
            assert!(opened(&inbound, &sealed(&outbound, &rtp(SSRC, sequence, b"one of the last"))).is_ok());
            let report = try_seal(&outbound, Rtcp, &rtcp(SSRC, b"one of the last."));
            assert!(open_as(&inbound, Rtcp, &report.unwrap()).is_ok());
        }
        for sequence in [0, 1, 0x7000] {
            assert_eq!(try_seal(&outbound, Rtp, &rtp(SSRC, sequence, b"one too many")), Err(PacketError::Exhausted));
        }
        for _ in 0..2 {
            assert_eq!(try_seal(&outbound, Rtcp, &rtcp(SSRC, b"one too many")), Err(PacketError::Exhausted));
        }
        assert_eq!(outbound.last_number(SSRC), Some((1 << 48) - 1));
        assert_eq!(inbound.last_control_number(SSRC), Some((1 << 31) - 1));
        assert!(sealed(&outbound, &rtp(SSRC + 1, 0, b"another stream")).len() > 12);
    }
}

/// One burst with packets of many contexts, streams and lengths, some of them wrong.
#[test]
fn a_burst_gives_the_results_of_its_single_packets() {
    for gantry in devices() {
        let pairs: Vec<_> = (0..10).map(|at| ends(&gantry, || context(SUITES[at % 6].0, at as u8))).collect();
        for protocol in [Rtp, Rtcp] {
            // Ten streams per context with two packets each, across the change of the rollover counter.
            let data: Vec<Vec<u8>> = (0..200_u32)
                .map(|at| match protocol {
                    Rtp => {
                        rtp(SSRC + at / 10 % 10, if at < 100 { 0xFFFF } else { 0 }, &vec![at as u8; at as usize * 7])
                    }
                    Rtcp => rtcp(SSRC + at / 10 % 10, &vec![at as u8; at as usize * 8]),
                })
                .collect();
            let mut buffers: Vec<_> = data.iter().map(|data| [&data[..], &[0; 20]].concat()).collect();
            buffers[17].truncate(data[17].len());
            let mut packets: Vec<_> =
                buffers.iter_mut().zip(&data).map(|(buffer, data)| Packet::new(buffer, 0..data.len())).collect();
            let mut burst: Vec<_> = pairs.iter().map(|(outbound, _)| outbound).cycle().zip(&mut packets).collect();
            match protocol {
                Rtp => srtp::seal(&mut burst),
                Rtcp => srtp::seal_control(&mut burst),
            }
            drop(burst);
            assert!(matches!(packets[17].verdict(), Err(PacketError::Room { behind: 0, .. })));
            let mut wires: Vec<_> = packets.iter().map(|packet| packet.data().to_vec()).collect();
            // A forged packet of a stream that another packet starts, a truncated one, and a copy.
            wires[17] = wires[117].clone();
            *wires[17].last_mut().unwrap() ^= 1;
            wires[40].truncate(12);
            wires.push(wires[60].clone());
            let sent = wires.clone();
            let backs = (0..200).map(|at| &pairs[at % 10].1).chain([&pairs[0].1]);
            let mut packets: Vec<_> = wires
                .iter_mut()
                .map(|wire| {
                    let length = wire.len();
                    Packet::new(wire, 0..length)
                })
                .collect();
            let mut burst: Vec<_> = backs.zip(&mut packets).collect();
            match protocol {
                Rtp => srtp::open(&mut burst),
                Rtcp => srtp::open_control(&mut burst),
            }
            for (at, packet) in packets.iter().enumerate() {
                match at {
                    17 => assert_eq!(packet.verdict(), Err(&PacketError::Forged)),
                    40 => assert!(matches!(packet.verdict(), Err(PacketError::Malformed(_)))),
                    // The rollover counter of packet 140 is unknown without the packet before it.
                    117 if protocol == Rtp => assert_eq!(packet.verdict(), Ok(())),
                    140 if protocol == Rtp => assert_eq!(packet.verdict(), Err(&PacketError::Forged)),
                    200 => assert_eq!(packet.verdict(), Err(&PacketError::Replayed)),
                    _ => assert_eq!((packet.verdict(), packet.data()), (Ok(()), &data[at][..]), "{at} {protocol:?}"),
                }
                assert!(packet.verdict().is_ok() || packet.data().is_empty() || packet.data() == &sent[at][..]);
            }
        }
    }
}

/// Forged packets before a stream's first packet do not affect its rollover counter.
#[test]
fn forged_packets_do_not_prevent_the_start_of_a_stream() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        for forged in [0, 1, 3, 4, 5, 50] {
            let (outbound, inbound) = ends(&gantry, || context(suite, 16));
            let data: Vec<_> = (0..20).map(|at| rtp(SSRC, at, b"at last")).collect();
            let mut wires = vec![[&rtp(SSRC, 0x9000, b"not of this stream")[..], &[7; 16]].concat(); forged];
            wires.extend(data.iter().map(|data| sealed(&outbound, data)));
            let mut packets: Vec<_> = wires
                .iter_mut()
                .map(|wire| {
                    let length = wire.len();
                    Packet::new(wire, 0..length)
                })
                .collect();
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&inbound, packet)).collect();
            srtp::open(&mut burst);
            assert!(packets[..forged].iter().all(|packet| packet.verdict() == Err(&PacketError::Forged)));
            for (packet, data) in packets[forged..].iter().zip(&data) {
                assert_eq!((packet.verdict(), packet.data()), (Ok(()), &data[..]), "{suite:?} behind {forged}");
            }
        }
    }
}

#[test]
fn streams_need_the_key_and_have_a_limit() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let make = || context(suite, 10).streams(50);
        let (_, inbound) = ends(&gantry, make);
        let stranger = context(suite, 11).outbound(&gantry).unwrap();
        for ssrc in 0..500 {
            assert_eq!(opened(&inbound, &sealed(&stranger, &rtp(ssrc, 9, b"let me in"))), Err(PacketError::Forged));
            let report = try_seal(&stranger, Rtcp, &rtcp(ssrc, b"let me in...")).unwrap();
            assert_eq!(open_as(&inbound, Rtcp, &report), Err(PacketError::Forged));
        }
        assert!(format!("{inbound:?}").ends_with("in, 0 streams"));
        let friend = context(suite, 10).outbound(&gantry).unwrap();
        for ssrc in 0..60 {
            let expected = if ssrc < 50 { None } else { Some(PacketError::Streams { max: 50 }) };
            assert_eq!(opened(&inbound, &sealed(&friend, &rtp(ssrc, 9, b"one more"))).err(), expected);
            let report = try_seal(&friend, Rtcp, &rtcp(ssrc, b"one more")).unwrap();
            assert_eq!(open_as(&inbound, Rtcp, &report).err(), expected);
        }
        assert!(opened(&inbound, &sealed(&friend, &rtp(0, 10, b"of one that is known"))).is_ok());
        let outbound = make().outbound(&gantry).unwrap();
        let refused = (0..60).filter(|ssrc| try_seal(&outbound, Rtp, &rtp(*ssrc, 1, b"")).is_err()).count();
        assert_eq!(refused, 10, "the sending end has the same limit");
    }
}

#[test]
fn reports_unsuitable_parameters_of_contexts() {
    let gantry = gantry();
    let wrong = |context: Context| context.inbound(&gantry).unwrap_err().to_string();
    let gcm = Suite::AeadAes128Gcm;
    assert_eq!(wrong(Context::new(gcm, &[1; 32], &[1; 12])), "the master key has 32 bytes; the suite takes 16");
    assert_eq!(wrong(Context::new(gcm, &[1; 16], &[1; 14])), "the master salt has 14 bytes; the suite takes 12");
    assert_eq!(
        wrong(context(gcm, 1).last_number(1, 1 << 48)),
        "the last number is 281474976710656, but numbers end at 281474976710655"
    );
    assert_eq!(
        wrong(context(gcm, 1).last_control_number(1, 1 << 31)),
        "the last number is 2147483648, but numbers end at 2147483647"
    );
    for size in [0, (1 << 15) + 1] {
        assert!(
            matches!(context(gcm, 1).window(size).outbound(&gantry), Err(ParameterError::Window { got, .. }) if got == size)
        );
    }
    let shown = format!("{:?}", context(gcm, 9).mki(&[1, 2]));
    assert_eq!(shown, "SRTP AeadAes128Gcm, window 64, 4096 streams at most, 2 bytes of MKI");
}

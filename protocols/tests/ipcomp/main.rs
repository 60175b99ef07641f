//! IPComp: compressible and incompressible packets, malformed packets, bursts, and IPComp inside ESP.

#[path = "../common/mod.rs"]
mod common;
mod shared;
mod within_esp;
mod zlib;

use common::{gantry, ipv4, ipv6, sum};
use gantry_core::{Algorithm, AlgorithmInfo, Session, SessionParams};
use gantry_protocols::ipcomp::{Association, Inbound, Mode, Outbound, PROTOCOL, ParameterError};
use gantry_protocols::{Packet, PacketError};

const CPI: u16 = 0x1234;

fn session(gantry: &gantry_core::Gantry, level: usize) -> Session {
    gantry.session(SessionParams::new(Algorithm::Deflate, &[]).with_level(level)).unwrap()
}

/// Returns both ends of an association.
fn ends(session: &Session, mode: Mode) -> (Outbound, Inbound) {
    let association = Association::new(CPI, session).mode(mode);
    (association.clone().outbound().unwrap(), association.inbound().unwrap())
}

fn random(seed: u32) -> impl FnMut(u32) -> u32 {
    let mut state = u64::from(seed) << 1 | 1;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % u64::from(below)) as u32
    }
}

/// Returns compressible bytes.
fn text(length: usize) -> Vec<u8> {
    let words = ["packet ", "payload ", "header ", "network ", "the ", "of ", "router ", "queue "];
    let mut random = random(length as u32);
    let mut text = Vec::new();
    while text.len() < length {
        text.extend(words[random(8) as usize].as_bytes());
    }
    text.truncate(length);
    text
}

/// Returns incompressible bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut random = random(length as u32);
    (0..length).map(|_| random(256) as u8).collect()
}

/// Compresses a packet if that helps. Returns the packet to send, and its protocol.
fn sent(outbound: &Outbound, data: &[u8]) -> (Vec<u8>, u8) {
    // No room around the packet, because it never grows.
    let mut buffer = data.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    packet.next_header = 17;
    outbound.compress(&mut packet).unwrap();
    (packet.data().to_vec(), packet.next_header)
}

/// Decompresses a packet in a buffer of `size` bytes.
fn decompress_wire(inbound: &Inbound, wire: &[u8], size: usize) -> Result<(Vec<u8>, u8), PacketError> {
    let mut buffer = wire.to_vec();
    buffer.resize(size.max(wire.len()), 0xEE);
    let mut packet = Packet::new(&mut buffer, 0..wire.len());
    let result = inbound.decompress(&mut packet);
    assert_eq!(packet.verdict().map_err(Clone::clone), result);
    assert!(result.is_ok() || packet.data().is_empty() || packet.data() == wire, "all or nothing");
    result.map(|()| (packet.data().to_vec(), packet.next_header))
}

#[test]
fn packets_of_every_length_and_mode_round_trip_and_never_grow() {
    let gantry = gantry();
    // 65,515 bytes are the longest payload of IPv4, and 65,535 of IPv6.
    let lengths = (0..100).chain([1400, 9000, 65_514, 65_515, 65_535]);
    for length in lengths {
        let session = session(&gantry, 1 + length % 9);
        for payload in [text(length), noise(length), vec![0; length]] {
            for (mode, data, next) in [
                (Mode::Payload, Some(payload.clone()), 17),
                (Mode::Transport, (length <= 65_515).then(|| ipv4(&payload)), 17),
                (Mode::Transport, Some(ipv6(&payload)), 17),
                (Mode::Tunnel, (length <= 65_515).then(|| ipv4(&payload)), 4),
                (Mode::Tunnel, Some(ipv6(&payload)), 41),
            ] {
                let Some(data) = data else { continue };
                let (outbound, inbound) = ends(&session, mode);
                let (wire, protocol) = sent(&outbound, &data);
                let outer = match mode {
                    Mode::Transport => data.len() - payload.len(),
                    _ => 0,
                };
                let is_tried = data.len() - outer >= 90;
                if protocol != PROTOCOL {
                    assert_eq!((&wire, protocol), (&data, next), "unchanged: {mode:?} {length}");
                    assert!(!is_tried || payload == noise(length));
                    continue;
                }
                assert!(is_tried && wire.len() < data.len());
                assert_eq!(wire[outer..outer + 4], [next, 0, 0x12, 0x34], "RFC 3173, 3");
                if outer == 20 {
                    assert_eq!((sum(&wire[..20]), wire[9]), (0xFFFF, PROTOCOL));
                    assert_eq!(usize::from(u16::from_be_bytes([wire[2], wire[3]])), wire.len());
                } else if outer == 40 {
                    assert_eq!(wire[6], PROTOCOL);
                    assert_eq!(usize::from(u16::from_be_bytes([wire[4], wire[5]])), wire.len() - 40);
                }
                assert_eq!(decompress_wire(&inbound, &wire, data.len()), Ok((data, next)), "{mode:?} {length}");
            }
        }
    }
}

/// RFC 3173, 2.2: the compressed packet must be shorter, including its header.
#[test]
fn compresses_only_if_the_packet_shrinks() {
    let session = session(&gantry(), 6);
    let mut kinds = [0; 2];
    for noisy in 0..400 {
        let payload = [noise(noisy), vec![b'a'; noisy % 30]].concat();
        let mut compressed = vec![0; AlgorithmInfo::compressed_max(payload.len())];
        let could = session.compress(&payload, &mut compressed).unwrap() + 4;
        let association = Association::new(CPI, &session).mode(Mode::Payload).threshold(0);
        let (wire, protocol) = sent(&association.outbound().unwrap(), &payload);
        if protocol == PROTOCOL {
            assert!(wire.len() < payload.len());
        } else {
            assert_eq!(wire, payload);
            // A device may need a few bytes of room that the result does not use.
            assert!(could + 8 >= payload.len(), "{could} of {}", payload.len());
        }
        kinds[usize::from(protocol == PROTOCOL)] += 1;
    }
    assert!(kinds[0] > 20 && kinds[1] > 20, "{kinds:?}");
}

#[test]
fn payloads_below_the_threshold_and_compressed_ones_are_not_tried() {
    let session = session(&gantry(), 6);
    let made = |threshold| Association::new(CPI, &session).mode(Mode::Payload).threshold(threshold).outbound().unwrap();
    let zeros = [0; 300];
    assert_eq!(sent(&made(300), &zeros).1, PROTOCOL);
    assert_eq!(sent(&made(301), &zeros), (zeros.to_vec(), 17));
    assert_eq!(sent(&made(0), &zeros[..60]).1, PROTOCOL);
    for length in 0..6 {
        assert_eq!(sent(&made(0), &zeros[..length]), (zeros[..length].to_vec(), 17));
    }
    let mut buffer = zeros;
    let mut packet = Packet::new(&mut buffer, 0..300);
    packet.next_header = PROTOCOL;
    made(0).compress(&mut packet).unwrap();
    assert_eq!((packet.data(), packet.next_header), (&zeros[..], PROTOCOL));
}

/// RFC 3173, 2.2.
#[test]
fn skips_trials_after_incompressible_packets() {
    let session = session(&gantry(), 6);
    let (outbound, _) = ends(&session, Mode::Payload);
    for _ in 0..4 {
        assert_eq!(sent(&outbound, &noise(200)).1, 17);
    }
    let (zeros, short) = ([0; 200], [0; 20]);
    assert_eq!(sent(&outbound, &short).1, 17);
    let protocols: Vec<u8> = (0..6).map(|_| sent(&outbound, &zeros).1).collect();
    assert_eq!(protocols, [17, 17, 17, 17, PROTOCOL, PROTOCOL], "short ones do not count");
}

#[test]
fn truncated_or_changed_packets_are_refused_or_decompress() {
    let session = session(&gantry(), 6);
    let (outbound, inbound) = ends(&session, Mode::Payload);
    for payload in [text(300), vec![0; 300], [noise(200), vec![1; 100]].concat()] {
        let (wire, _) = sent(&outbound, &payload);
        for length in 0..wire.len() {
            let error = decompress_wire(&inbound, &wire[..length], 2000).unwrap_err();
            assert!(matches!(error, PacketError::Malformed(_)), "{length}: {error}");
        }
        assert!(matches!(decompress_wire(&inbound, &[&wire[..], &[0]].concat(), 2000), Err(PacketError::Malformed(_))));
        for bit in 0..wire.len() * 8 {
            let mut changed = wire.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let result = decompress_wire(&inbound, &changed, 2000);
            match bit / 8 {
                0 => assert_eq!(result, Ok((payload.clone(), changed[0]))),
                1 => assert_eq!(result, Ok((payload.clone(), 17)), "flags are ignored"),
                2 | 3 => {
                    assert_eq!(result, Err(PacketError::Malformed("the CPI of another association")));
                }
                _ => assert!(matches!(result, Ok(_) | Err(PacketError::Malformed(_) | PacketError::Expands { .. }))),
            }
        }
    }
}

#[test]
fn refuses_packets_that_decompress_beyond_the_room() {
    let gantry = gantry();
    let session = session(&gantry, 9);
    let (outbound, inbound) = ends(&session, Mode::Payload);
    let (bomb, _) = sent(&outbound, &vec![0; 60_000]);
    assert!(bomb.len() < 100);
    assert_eq!(decompress_wire(&inbound, &bomb, 1500), Err(PacketError::Expands { max: 1500 }));
    assert_eq!(decompress_wire(&inbound, &bomb, 59_999), Err(PacketError::Expands { max: 59_999 }));
    assert_eq!(decompress_wire(&inbound, &bomb, 60_000), Ok((vec![0; 60_000], 17)));
    // An IP packet cannot be longer than its header can state, in any buffer.
    let (_, inbound) = ends(&session, Mode::Transport);
    let (_, to_tunnel) = ends(&session, Mode::Tunnel);
    for (length, fits) in [(65_515, true), (65_516, false), (1 << 20, false)] {
        let (bomb, _) = sent(&outbound, &vec![0; length]);
        let mut whole = ipv4(&bomb);
        whole[9] = PROTOCOL;
        let expected = if fits { Ok(()) } else { Err(PacketError::Expands { max: 65_515 }) };
        assert_eq!(decompress_wire(&inbound, &whole, 2 << 20).map(|_| ()), expected);
        let mut whole = ipv6(&bomb);
        whole[6] = PROTOCOL;
        let expected = if length <= 65_535 { Ok(()) } else { Err(PacketError::Expands { max: 65_535 }) };
        assert_eq!(decompress_wire(&inbound, &whole, 2 << 20).map(|_| ()), expected);
        assert!(
            matches!(decompress_wire(&to_tunnel, &bomb, 2 << 20), Err(PacketError::Malformed(_))),
            "not an IP packet"
        );
    }
}

#[test]
fn refuses_malformed_packets() {
    let session = session(&gantry(), 6);
    let in_tunnel = |inner: &[u8], next| {
        let (outbound, _) = ends(&session, Mode::Payload);
        let (mut wire, _) = sent(&outbound, inner);
        wire[0] = next;
        decompress_wire(&ends(&session, Mode::Tunnel).1, &wire, 2000)
    };
    let malformed = |result: Result<_, PacketError>| matches!(result, Err(PacketError::Malformed(_)));
    let inner = ipv4(&[1; 200]);
    assert_eq!(in_tunnel(&inner, 4), Ok((inner.clone(), 4)));
    assert_eq!(in_tunnel(&[&inner[..], &[0; 9]].concat(), 4), Ok((inner.clone(), 4)), "padding of a link is cut off");
    assert!(malformed(in_tunnel(&inner, 41)) && malformed(in_tunnel(&inner, 17)));
    assert!(malformed(in_tunnel(&inner[..inner.len() - 1], 4)) && malformed(in_tunnel(&[0; 200], 4)));

    let (_, inbound) = ends(&session, Mode::Transport);
    let plain = ipv4(&[1; 200]);
    assert_eq!(decompress_wire(&inbound, &plain, 2000), Err(PacketError::Malformed("an IP packet without IPComp")));
    let mut cut_off = ipv4(&[17, 0, 0x12]);
    cut_off[9] = PROTOCOL;
    assert_eq!(decompress_wire(&inbound, &cut_off, 2000), Err(PacketError::Malformed("a truncated IPComp packet")));
}

#[test]
fn leaves_refused_packets_unchanged() {
    let session = session(&gantry(), 6);
    let mut fragment = ipv4(&[0; 200]);
    fragment[6] = 0x20;
    for (mode, data) in [
        (Mode::Tunnel, &b""[..]),
        (Mode::Tunnel, &[0x45; 19]),
        (Mode::Tunnel, &[0x15; 200]),
        (Mode::Transport, &[0x45; 200]),
        (Mode::Transport, &fragment),
    ] {
        let (outbound, _) = ends(&session, mode);
        let mut buffer = data.to_vec();
        let mut packet = Packet::new(&mut buffer, 0..data.len());
        assert!(matches!(outbound.compress(&mut packet), Err(PacketError::Malformed(_))), "{mode:?} {data:?}");
        assert_eq!((packet.data(), packet.next_header), (data, 0));
    }
}

#[test]
fn reports_unsuitable_parameters_of_associations() {
    let gantry = gantry();
    let deflate = session(&gantry, 6);
    for (cpi, fits) in
        [(0, false), (2, true), (3, false), (63, false), (64, false), (255, false), (256, true), (u16::MAX, true)]
    {
        let association = Association::new(cpi, &deflate);
        assert_eq!(
            association.clone().inbound().map(|inbound| inbound.cpi()),
            if fits { Ok(cpi) } else { Err(ParameterError::Cpi(cpi)) }
        );
        assert_eq!(association.outbound().is_ok(), fits);
    }
    let zlib = gantry.session(SessionParams::new(Algorithm::Zlib, &[])).unwrap();
    let error = Association::new(CPI, &zlib).outbound().unwrap_err();
    assert_eq!(error.to_string(), "a session of zlib; IPComp needs one of deflate");
}

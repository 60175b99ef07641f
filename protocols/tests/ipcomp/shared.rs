//! Bursts of many associations, failing devices, and threads.

use std::thread;

use gantry_core::{Algorithm, Session};
use gantry_driver_model::{FaultInjector, InjectedFault};
use gantry_protocols::ipcomp::{self, Association, Inbound, Mode, Outbound, PROTOCOL};
use gantry_protocols::{Packet, PacketError};

use super::common::{faulty, gantry};
use super::{CPI, decompress_wire, ends, noise, sent, session, text};

/// Returns both ends of many associations, each with its own CPI.
fn many(session: &Session) -> Vec<(Outbound, Inbound)> {
    let made = |at: u16| Association::new(CPI + at, session).mode(Mode::Payload);
    (0..64).map(|at| (made(at).outbound().unwrap(), made(at).inbound().unwrap())).collect()
}

/// Returns payloads of many lengths. Every third is incompressible.
fn payloads() -> Vec<Vec<u8>> {
    (0..64).map(|at| if at % 3 == 2 { noise(at * 23) } else { text(at * 23) }).collect()
}

/// Compresses payloads in one burst. Returns the packets with their protocols.
fn compress_burst(pairs: &[(Outbound, Inbound)], payloads: &[Vec<u8>]) -> Vec<(Vec<u8>, u8)> {
    let mut buffers = payloads.to_vec();
    let mut packets: Vec<Packet<'_>> = buffers.iter_mut().map(|buffer| whole(buffer)).collect();
    let mut burst: Vec<_> = pairs.iter().map(|(outbound, _)| outbound).zip(&mut packets).collect();
    ipcomp::compress(&mut burst);
    packets
        .iter()
        .map(|packet| {
            assert_eq!(packet.verdict(), Ok(()));
            (packet.data().to_vec(), packet.next_header)
        })
        .collect()
}

/// Returns a packet that fills the buffer.
fn whole(buffer: &mut [u8]) -> Packet<'_> {
    let length = buffer.len();
    let mut packet = Packet::new(buffer, 0..length);
    packet.next_header = 17;
    packet
}

/// Decompresses the compressed packets in one burst.
fn decompress_burst(pairs: &[(Outbound, Inbound)], wires: &[(Vec<u8>, u8)]) -> Vec<Result<Vec<u8>, PacketError>> {
    let mut buffers: Vec<Vec<u8>> = wires.iter().map(|(wire, _)| [&wire[..], &[0; 2000]].concat()).collect();
    let mut packets: Vec<Packet<'_>> =
        buffers.iter_mut().zip(wires).map(|(buffer, (wire, _))| Packet::new(buffer, 0..wire.len())).collect();
    let mut burst: Vec<_> = pairs
        .iter()
        .zip(wires)
        .zip(&mut packets)
        .filter(|((_, (_, protocol)), _)| *protocol == PROTOCOL)
        .map(|(((_, inbound), _), packet)| (inbound, packet))
        .collect();
    ipcomp::decompress(&mut burst);
    packets.iter().map(|packet| packet.verdict().map(|()| packet.data().to_vec()).map_err(Clone::clone)).collect()
}

#[test]
fn a_burst_gives_the_results_of_its_single_packets() {
    let session = session(&gantry(), 6);
    let (pairs, payloads) = (many(&session), payloads());
    let mut wires = compress_burst(&pairs, &payloads);
    for ((outbound, _), (wire, payload)) in many(&session).iter().zip(wires.iter().zip(&payloads)) {
        assert_eq!(&sent(outbound, payload), wire);
    }
    // A packet of another association, a truncated one, a damaged one, and a decompression bomb.
    assert!([30, 40, 51, 60].iter().all(|at| wires[*at].1 == PROTOCOL));
    wires[30].0[3] ^= 1;
    wires[40].0.truncate(3);
    wires[51].0.truncate(100);
    let cpi = (CPI + 60).to_be_bytes();
    wires[60].0 = [&[17, 0], &cpi[..], &sent(&ends(&session, Mode::Payload).0, &vec![0; 60_000]).0[4..]].concat();
    for (at, (result, payload)) in decompress_burst(&pairs, &wires).into_iter().zip(&payloads).enumerate() {
        match at {
            30 => assert_eq!(result, Err(PacketError::Malformed("the CPI of another association"))),
            40 => assert_eq!(result, Err(PacketError::Malformed("a truncated IPComp packet"))),
            51 => assert_eq!(result, Err(PacketError::Malformed("invalid compressed data"))),
            60 => assert_eq!(result, Err(PacketError::Expands { max: wires[60].0.len() + 2000 })),
            _ => assert_eq!(result.as_ref(), Ok(payload), "{at}"),
        }
    }
    ipcomp::compress(&mut []);
    ipcomp::decompress(&mut []);
}

/// With every fault of a card, each packet is sent unchanged or decompresses to its payload.
#[test]
fn a_device_that_fails_in_the_middle_of_a_burst_loses_no_packet() {
    for (fault, times) in [
        (InjectedFault::Error, 1),
        (InjectedFault::Error, 40),
        (InjectedFault::Wrong, 3),
        (InjectedFault::Late, 5),
        (InjectedFault::Full, 3),
    ] {
        let faults = FaultInjector::default();
        let (card, gantry) = faulty(&faults, true, u32::from(fault == InjectedFault::Wrong));
        gantry.device("model:faulty").unwrap().admit(Algorithm::Deflate).unwrap();
        let session = session(&gantry, 6);
        for round in 0..6 {
            let (pairs, payloads) = (many(&session), payloads());
            let inject = |when| {
                if round % 3 == when {
                    faults.inject(fault, times);
                }
            };
            inject(1);
            let wires = compress_burst(&pairs, &payloads);
            inject(2);
            let decompressed: Result<Vec<_>, _> = decompress_burst(&pairs, &wires).into_iter().collect();
            assert_eq!(decompressed.as_ref(), Ok(&payloads), "{fault:?}");
            assert!(wires.iter().filter(|(_, protocol)| *protocol == PROTOCOL).count() > 30);
        }
        assert!(card.meter().requests >= 64, "{fault:?}: the card did some requests");
    }
}

#[test]
fn without_a_device_compressing_keeps_the_packet_and_decompressing_loses_it() {
    let faults = FaultInjector::default();
    let (_, alone) = faulty(&faults, false, 0);
    alone.device("model:faulty").unwrap().admit(Algorithm::Deflate).unwrap();
    let (outbound, inbound) = ends(&session(&alone, 6), Mode::Payload);
    let (wire, _) = sent(&outbound, &[0; 500]);
    faults.set_gone(true);
    let mut buffer = vec![0; 500];
    let mut packet = whole(&mut buffer);
    assert!(matches!(outbound.compress(&mut packet), Err(PacketError::Device(_))));
    assert_eq!((packet.data(), packet.next_header), (&[0; 500][..], 17));
    assert!(matches!(decompress_wire(&inbound, &wire, 500), Err(PacketError::Device(_))));
}

#[test]
fn threads_share_an_association() {
    let (outbound, inbound) = ends(&session(&gantry(), 6), Mode::Payload);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for length in (0..2000).step_by(7) {
                    for payload in [text(length), noise(length)] {
                        match sent(&outbound, &payload) {
                            (wire, PROTOCOL) => assert_eq!(decompress_wire(&inbound, &wire, length), Ok((payload, 17))),
                            (wire, _) => assert_eq!(wire, payload),
                        }
                    }
                }
            });
        }
    });
}

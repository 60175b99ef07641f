//! Devices that process whole packets: the packets equal the packets of software, and a fault has the same effect as on a device that
//! processes the parts.

use gantry_core::stats::{Snapshot, SnapshotRow};
use gantry_core::{Algorithm, Gantry, Operation};
use gantry_driver_model::{FaultInjector, InjectedFault};
use gantry_protocols::esp::{self, Integrity, Mode, Suite};
use gantry_protocols::{Packet, PacketError};

use super::common::{engine, faulty_engine, gantry};
use super::{CBC, GCM, association, ends, ipv4, ipv6, opened, sealed, sealed_burst};

const SHORT_GCM: (Suite, usize, usize) = (Suite::AesGcm { icv: 8 }, 20, 0);
const CBC_SHA1: (Suite, usize, usize) = (Suite::AesCbc(Integrity::HmacSha1), 16, 20);

/// Returns the number of requests with this algorithm and operation that the engine processed.
fn requests_of(gantry: &Gantry, algorithm: Algorithm, operation: Operation) -> u64 {
    let stats: Snapshot = gantry.stats();
    let of_engine =
        stats.rows.iter().filter(|row| row.device.as_ref().is_some_and(|(name, _)| name.starts_with("model:")));
    of_engine.filter(|row| (row.algorithm, row.operation) == (algorithm, operation)).map(SnapshotRow::requests).sum()
}

#[test]
fn whole_packets_interoperate_with_parts() {
    let (engine, software) = (engine(), gantry());
    for (suite, algorithm) in [
        (GCM, Algorithm::EspAes128Gcm),
        (SHORT_GCM, Algorithm::EspAes128Gcm),
        (CBC, Algorithm::EspAes128CbcHmacSha256),
        (CBC_SHA1, Algorithm::EspAes128CbcHmacSha1),
    ] {
        for mode in [Mode::Payload, Mode::Tunnel, Mode::Transport] {
            for extended in [false, true] {
                let make = || {
                    let made = association(suite, 3).mode(mode);
                    if extended { made.extended_numbers().last_number((5 << 32) - 4) } else { made }
                };
                let (outbound, inbound) = ends(&engine, make);
                let (their_outbound, their_inbound) = ends(&software, make);
                let before = [Operation::Protect, Operation::Unprotect].map(|way| requests_of(&engine, algorithm, way));
                let mut count = 0;
                for payload in (0..40).chain([63, 64, 65, 1380]) {
                    for data in [ipv4(payload), ipv6(payload)] {
                        let next = if mode == Mode::Payload { 41 } else { 0 };
                        let ours = sealed(&outbound, &data, next);
                        let (opened_there, header) = opened(&their_inbound, &ours).unwrap();
                        assert_eq!(opened_there, data, "{suite:?} {mode:?} {extended}");
                        let theirs = sealed(&their_outbound, &data, next);
                        assert_eq!(opened(&inbound, &theirs).unwrap(), (data, header), "{suite:?} {mode:?} {extended}");
                        if suite != CBC && suite != CBC_SHA1 {
                            assert_eq!(ours, theirs);
                        }
                        count += 1;
                    }
                }
                // Packets whose MAC covers bytes outside the packet are processed in parts.
                let whole = if extended && suite.2 > 0 { 0 } else { count };
                let after = [Operation::Protect, Operation::Unprotect].map(|way| requests_of(&engine, algorithm, way));
                assert_eq!([after[0] - before[0], after[1] - before[1]], [whole; 2], "{suite:?} {mode:?} {extended}");
            }
        }
    }
}

#[test]
fn refuses_changed_packets_and_hides_their_plaintext() {
    let (engine, software) = (engine(), gantry());
    for suite in [GCM, CBC] {
        let make = || association(suite, 3).mode(Mode::Payload);
        let (outbound, _) = ends(&software, make);
        let inbound = make().inbound(&engine).unwrap();
        let wire = sealed(&outbound, b"a secret of the sender", 17);
        for at in 0..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 0x10;
            let mut packet = Packet::new(&mut changed, 0..wire.len());
            let refused = inbound.open(&mut packet).unwrap_err();
            let expected = match at {
                0..4 => matches!(refused, PacketError::Malformed(_)),
                // A changed number may still be acceptable, or not.
                4..8 => matches!(refused, PacketError::Forged | PacketError::Replayed),
                _ => refused == PacketError::Forged,
            };
            assert!(expected, "{suite:?}, byte {at}: {refused:?}");
            let seen = changed.windows(8).any(|window| b"a secret of the sender".windows(8).any(|word| word == window));
            assert!(!seen, "{suite:?}, byte {at}");
        }
        assert_eq!(opened(&inbound, &wire).unwrap().0, b"a secret of the sender");
        assert_eq!(opened(&inbound, &wire), Err(PacketError::Replayed));
    }
}

/// As with parts, each packet is sealed once, under its own number.
#[test]
fn an_engine_that_fails_in_the_middle_of_a_burst_loses_no_packet() {
    for (fault, times) in
        [(InjectedFault::Error, 1), (InjectedFault::Error, 40), (InjectedFault::Wrong, 3), (InjectedFault::Full, 3)]
    {
        let faults = FaultInjector::default();
        let (card, gantry) = faulty_engine(&faults, u32::from(fault == InjectedFault::Wrong));
        let outbound = association(GCM, 9).mode(Mode::Payload).outbound(&gantry).unwrap();
        let inbound = association(GCM, 9).mode(Mode::Payload).inbound(&gantry).unwrap();
        let mut before = 0;
        for _ in 0..6 {
            if before > 0 {
                faults.inject(fault, times);
            }
            let mut wires = sealed_burst(&outbound, before, &fault);
            let mut packets: Vec<_> = wires
                .iter_mut()
                .map(|wire| (0..wire.len(), wire))
                .map(|(range, wire)| Packet::new(wire, range))
                .collect();
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&inbound, packet)).collect();
            esp::open(&mut burst);
            for (at, packet) in packets.iter().enumerate() {
                assert_eq!((packet.verdict(), packet.data()), (Ok(()), &[at as u8; 200][..]), "{fault:?}");
            }
            before += 32;
        }
        assert!(card.meter().requests >= 32, "{fault:?}: the card did some requests");
    }
}

/// An engine that takes longer for whole packets than other devices for the parts gets no packets.
#[test]
fn uses_parts_where_they_take_less_time() {
    let engine = engine();
    let bytes = 200;
    let make = || association(GCM, 4).mode(Mode::Payload);
    let (outbound, inbound) = ends(&engine, make);
    let cost = |device: &str, algorithm, operation| {
        let costs = engine.device(device).unwrap().costs(algorithm, operation).unwrap();
        costs.is_known().then(|| costs.estimate(1, bytes).wall_ns)
    };
    let is_slower = |whole, part| {
        let whole = cost("model:freescale-sec", Algorithm::EspAes128Gcm, whole);
        let part = cost("software", Algorithm::Aes128Gcm, part);
        whole.zip(part).is_some_and(|(whole, part)| whole > part)
    };
    let is_settled =
        || is_slower(Operation::Protect, Operation::Seal) && is_slower(Operation::Unprotect, Operation::Open);
    // On a busy machine a measurement may fail, or find software slower than it is.
    for is_retry in (0..100).map(|attempt| attempt > 0).take_while(|_| !is_settled()) {
        for operation in [Operation::Protect, Operation::Unprotect] {
            engine.calibrate(Algorithm::EspAes128Gcm, operation, is_retry);
        }
        for operation in [Operation::Seal, Operation::Open] {
            engine.calibrate(Algorithm::Aes128Gcm, operation, is_retry);
        }
    }
    assert!(is_settled(), "an engine with a setup of 20 µs is slower than software");
    let before = requests_of(&engine, Algorithm::EspAes128Gcm, Operation::Protect);
    for _ in 0..20 {
        let wire = sealed(&outbound, &vec![7; bytes], 4);
        assert_eq!(opened(&inbound, &wire).unwrap().0, vec![7; bytes]);
    }
    // The engine's setup alone takes 20 µs.
    assert_eq!(requests_of(&engine, Algorithm::EspAes128Gcm, Operation::Protect), before);
}

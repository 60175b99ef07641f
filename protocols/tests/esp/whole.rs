//! Devices that do whole packets: their packets are those of everybody else, and what they do wrong ends as it does with parts.

use gantry_core::stats::{Numbers, Snapshot};
use gantry_core::{Algorithm, Gantry, Operation};
use gantry_driver_model::{Faults, Injected};
use gantry_protocols::esp::{self, Integrity, Mode, Suite};
use gantry_protocols::{Packet, Refused};

use super::common::{engine, faulty_engine, gantry};
use super::{CBC, GCM, association, ends, ipv4, ipv6, opened, sealed, sealed_burst};

const SHORT_GCM: (Suite, usize, usize) = (Suite::AesGcm { icv: 8 }, 20, 0);
const CBC_SHA1: (Suite, usize, usize) = (Suite::AesCbc(Integrity::HmacSha1), 16, 20);

/// Requests of an algorithm's operation that the engine had.
fn had(gantry: &Gantry, algorithm: Algorithm, operation: Operation) -> u64 {
    let stats: Snapshot = gantry.stats();
    let of_engine =
        stats.rows.iter().filter(|row| row.device.as_ref().is_some_and(|(name, _)| name.starts_with("model:")));
    of_engine.filter(|row| (row.algorithm, row.operation) == (algorithm, operation)).map(Numbers::requests).sum()
}

#[test]
fn whole_packets_are_those_of_everybody() {
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
                let (out, back) = ends(&engine, make);
                let (their_out, their_back) = ends(&software, make);
                let before = [Operation::Protect, Operation::Unprotect].map(|way| had(&engine, algorithm, way));
                let mut count = 0;
                for payload in (0..40).chain([63, 64, 65, 1380]) {
                    for data in [ipv4(payload), ipv6(payload)] {
                        let next = if mode == Mode::Payload { 41 } else { 0 };
                        let ours = sealed(&out, &data, next);
                        let (opened_there, header) = opened(&their_back, &ours).unwrap();
                        assert_eq!(opened_there, data, "{suite:?} {mode:?} {extended}");
                        let theirs = sealed(&their_out, &data, next);
                        assert_eq!(opened(&back, &theirs).unwrap(), (data, header), "{suite:?} {mode:?} {extended}");
                        if suite != CBC && suite != CBC_SHA1 {
                            assert_eq!(ours, theirs);
                        }
                        count += 1;
                    }
                }
                // What covers bytes that are in no packet is done in parts.
                let whole = if extended && suite.2 > 0 { 0 } else { count };
                let after = [Operation::Protect, Operation::Unprotect].map(|way| had(&engine, algorithm, way));
                assert_eq!([after[0] - before[0], after[1] - before[1]], [whole; 2], "{suite:?} {mode:?} {extended}");
            }
        }
    }
}

#[test]
fn what_was_changed_is_refused_and_nothing_of_it_is_seen() {
    let (engine, software) = (engine(), gantry());
    for suite in [GCM, CBC] {
        let make = || association(suite, 3).mode(Mode::Payload);
        let (out, _) = ends(&software, make);
        let back = make().inbound(&engine).unwrap();
        let wire = sealed(&out, b"what nobody is to see", 17);
        for at in 0..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 0x10;
            let mut packet = Packet::new(&mut changed, 0..wire.len());
            let refused = back.open(&mut packet).unwrap_err();
            let expected = match at {
                0..4 => matches!(refused, Refused::Malformed(_)),
                // Another number is one that may come, or one that may not.
                4..8 => matches!(refused, Refused::Forged | Refused::Replayed),
                _ => refused == Refused::Forged,
            };
            assert!(expected, "{suite:?}, byte {at}: {refused:?}");
            let seen = changed.windows(8).any(|window| b"what nobody is to see".windows(8).any(|word| word == window));
            assert!(!seen, "{suite:?}, byte {at}");
        }
        assert_eq!(opened(&back, &wire).unwrap().0, b"what nobody is to see");
        assert_eq!(opened(&back, &wire), Err(Refused::Replayed));
    }
}

/// As with parts: each packet is sealed once, under its own number.
#[test]
fn an_engine_that_fails_in_the_middle_of_a_burst_loses_no_packet() {
    for (fault, times) in [(Injected::Error, 1), (Injected::Error, 40), (Injected::Wrong, 3), (Injected::Full, 3)] {
        let faults = Faults::default();
        let (card, gantry) = faulty_engine(&faults, u32::from(fault == Injected::Wrong));
        let out = association(GCM, 9).mode(Mode::Payload).outbound(&gantry).unwrap();
        let back = association(GCM, 9).mode(Mode::Payload).inbound(&gantry).unwrap();
        let mut before = 0;
        for _ in 0..6 {
            if before > 0 {
                faults.inject(fault, times);
            }
            let mut wires = sealed_burst(&out, before, &fault);
            let mut packets: Vec<_> = wires
                .iter_mut()
                .map(|wire| (0..wire.len(), wire))
                .map(|(range, wire)| Packet::new(wire, range))
                .collect();
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&back, packet)).collect();
            esp::open(&mut burst);
            for (at, packet) in packets.iter().enumerate() {
                assert_eq!((packet.verdict(), packet.data()), (Ok(()), &[at as u8; 200][..]), "{fault:?}");
            }
            before += 32;
        }
        assert!(card.meter().requests >= 32, "{fault:?}: the card did some of them");
    }
}

/// An engine that takes longer for the whole than others for the parts has no packets.
#[test]
fn parts_are_taken_where_they_take_less_time() {
    let engine = engine();
    let bytes = 200;
    let make = || association(GCM, 4).mode(Mode::Payload);
    let (out, back) = ends(&engine, make);
    for (algorithm, ways) in [
        (Algorithm::EspAes128Gcm, [Operation::Protect, Operation::Unprotect]),
        (Algorithm::Aes128Gcm, [Operation::Seal, Operation::Open]),
    ] {
        for way in ways {
            engine.calibrate(algorithm, way, false);
        }
    }
    let before = had(&engine, Algorithm::EspAes128Gcm, Operation::Protect);
    for _ in 0..20 {
        let wire = sealed(&out, &vec![7; bytes], 4);
        assert_eq!(opened(&back, &wire).unwrap().0, vec![7; bytes]);
    }
    // Its setup alone takes twenty microseconds.
    assert_eq!(had(&engine, Algorithm::EspAes128Gcm, Operation::Protect), before);
}

//! The numbers of an association across threads, failing devices, handovers and new keys.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;

use gantry_driver_model::{FaultInjector, InjectedFault};
use gantry_protocols::PacketError;
use gantry_protocols::esp::{Association, Mode};

use super::common::{faulty, gantry, suites};
use super::{CBC, GCM, SPI, association, ends, opened, sealed, sealed_burst, with_room, within};

#[test]
fn threads_share_an_association() {
    let gantry = gantry();
    for suite in [GCM, CBC] {
        let (outbound, inbound) = ends(&gantry, || association(suite, 7).mode(Mode::Payload).window(4096));
        let wires = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own: Vec<_> = (0..100_u32).map(|at| sealed(&outbound, &at.to_be_bytes(), 17)).collect();
                    wires.lock().unwrap().extend(own);
                });
            }
        });
        let wires = wires.into_inner().unwrap();
        let heads: HashSet<&[u8]> = wires.iter().map(|wire| &wire[4..24]).collect();
        assert_eq!((heads.len(), outbound.last_number()), (400, 400), "each packet has its own number and IV");
        let received: usize = thread::scope(|scope| {
            let count = || wires.iter().filter(|wire| opened(&inbound, wire).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(received, 400, "each packet was accepted once, although four threads opened it");
    }
}

/// With every fault of a card, each packet is sealed once, under its own number.
#[test]
fn a_device_that_fails_in_the_middle_of_a_burst_loses_no_packet_and_uses_no_number_twice() {
    for (fault, times) in [
        (InjectedFault::Error, 1),
        (InjectedFault::Error, 40),
        (InjectedFault::Wrong, 3),
        (InjectedFault::Late, 5),
        (InjectedFault::Full, 3),
    ] {
        let faults = FaultInjector::default();
        let (card, gantry) = faulty(&faults, true, u32::from(fault == InjectedFault::Wrong));
        let outbound = association(GCM, 9).mode(Mode::Payload).outbound(&gantry).unwrap();
        let inbound = association(GCM, 9).mode(Mode::Payload).inbound(&self::gantry()).unwrap();
        let mut before = 0;
        for _ in 0..10 {
            if before > 0 {
                faults.inject(fault, times);
            }
            for (at, wire) in sealed_burst(&outbound, before, &fault).iter().enumerate() {
                assert_eq!(opened(&inbound, wire).unwrap().0, [at as u8; 200]);
            }
            before += 32;
            assert_eq!(outbound.last_number(), u64::from(before));
        }
        assert!(card.meter().requests >= 64, "{fault:?}: the card did some requests");
    }
}

/// Keys are replaced while threads send. The association with the packet's SPI opens each packet.
#[test]
fn rekeying_under_load_loses_no_packet() {
    let gantry = gantry();
    let ends: Vec<_> = (0..20)
        .map(|at| {
            let made = || Association::new(SPI + at, GCM.0, &[at as u8; 20], &[]).mode(Mode::Payload).window(4096);
            (Arc::new(made().outbound(&gantry).unwrap()), made().inbound(&gantry).unwrap())
        })
        .collect();
    // The thread that takes the 45th packet of a key moves to the next key, while other threads have packets under the old key in flight.
    let taken = Mutex::new(0);
    let next = || {
        let mut taken = taken.lock().unwrap();
        *taken += 1;
        ends.get(*taken / 45).map(|(outbound, _)| outbound.clone())
    };
    let wires = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(outbound) = next() {
                    let wire = sealed(&outbound, b"on its way", 17);
                    wires.lock().unwrap().push(wire);
                }
            });
        }
    });
    let mut used = HashSet::new();
    for wire in wires.into_inner().unwrap() {
        let spi = u32::from_be_bytes(wire[..4].try_into().unwrap());
        used.insert(spi);
        opened(&ends[(spi - SPI) as usize].1, &wire).unwrap();
    }
    assert_eq!(used.len(), 20);
}

#[test]
fn refuses_to_seal_after_the_last_number() {
    let gantry = gantry();
    for (extended, end) in [(false, u64::from(u32::MAX)), (true, u64::MAX)] {
        let make = || {
            let made = association(GCM, 6).mode(Mode::Payload).last_number(end - 2);
            if extended { made.extended_numbers() } else { made }
        };
        let (outbound, inbound) = ends(&gantry, make);
        assert_eq!(outbound.remaining(), 2);
        for _ in 0..2 {
            assert!(opened(&inbound, &sealed(&outbound, b"one of the last", 17)).is_ok());
        }
        let mut buffer = with_room(b"one too many");
        let mut packet = within(&mut buffer);
        assert_eq!(outbound.seal(&mut packet), Err(PacketError::Exhausted));
        assert_eq!((packet.data(), outbound.remaining(), outbound.last_number()), (&b"one too many"[..], 0, end));
        let beyond = association(GCM, 6).last_number(u64::MAX).outbound(&gantry).unwrap();
        assert_eq!(beyond.remaining(), 0);
    }
}

#[test]
fn an_association_continues_after_the_handed_over_number() {
    let gantry = gantry();
    for suite in suites() {
        let made = || association(suite, 8).mode(Mode::Payload).window(128);
        let (outbound, inbound) = ends(&gantry, made);
        let wires: Vec<_> = (0..50_u32).map(|at| sealed(&outbound, &at.to_be_bytes(), 17)).collect();
        // Packet 40 has arrived, and its number is handed over.
        assert!(opened(&inbound, &wires[40]).is_ok());
        let next_inbound = made().last_number(inbound.last_number()).inbound(&gantry).unwrap();
        let taken: Vec<_> = (0..50).filter(|at| opened(&next_inbound, &wires[*at]).is_ok()).collect();
        assert_eq!(taken, (41..50).collect::<Vec<_>>(), "{suite:?}");
        let next_outbound = made().last_number(outbound.last_number()).outbound(&gantry).unwrap();
        let wire = sealed(&next_outbound, b"the next one", 17);
        assert_eq!((&wire[4..8], next_outbound.last_number()), (&[0, 0, 0, 51][..], 51), "{suite:?}");
        assert!(opened(&next_inbound, &wire).is_ok());
    }
}

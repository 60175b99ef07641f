//! Several records at a time: bursts, threads, handovers, and failing devices.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use gantry_driver_model::{FaultInjector, InjectedFault};
use gantry_protocols::tls::content_type::APPLICATION_DATA;
use gantry_protocols::tls::{self, ParameterError};
use gantry_protocols::{Packet, PacketError};

use super::common::{devices, faulty, gantry};
use super::{
    ENCRYPT_THEN_MAC, GCM12, GCM13, MAC_THEN_ENCRYPT, ends, epoch, opened, sealed, suites, whole, with_room, within,
};

/// One burst with several records of each of many connections, some of them wrong.
#[test]
fn a_burst_gives_the_results_of_its_single_records() {
    for gantry in devices() {
        let all = suites();
        let pairs: Vec<_> =
            (0..40).map(|place| ends(&gantry, || epoch(all[place * 7 % all.len()], place as u8))).collect();
        // 120 records: each connection has three, far from each other.
        let content: Vec<Vec<u8>> = (0..120).map(|place| vec![place as u8; place * 13]).collect();
        let mut buffers: Vec<_> =
            content.iter().enumerate().map(|(at, data)| with_room(&pairs[at % 40].0, data)).collect();
        // One record has no room.
        let (head, _) = pairs[17].0.room();
        buffers[17].truncate(head + content[17].len());
        let mut packets: Vec<_> = buffers
            .iter_mut()
            .zip(&content)
            .enumerate()
            .map(|(at, (buffer, data))| {
                let (head, _) = pairs[at % 40].0.room();
                Packet::new(buffer, head..head + data.len())
            })
            .collect();
        let mut burst: Vec<_> =
            packets.iter_mut().enumerate().map(|(at, packet)| (&pairs[at % 40].0, packet)).collect();
        tls::seal(&mut burst);
        drop(burst);
        assert!(matches!(packets[17].verdict(), Err(PacketError::Room { behind: 0, .. })));
        assert_eq!(packets[17].data(), content[17], "unchanged");
        let mut wires: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        for (at, (outbound, _)) in pairs.iter().enumerate() {
            assert_eq!(outbound.number(), if at == 17 { 2 } else { 3 }, "a refused record takes no number");
        }
        // A forged record first, in the middle, and last; a truncated one in the middle.
        let flip = |wires: &mut Vec<Vec<u8>>, at: usize| *wires[at].last_mut().unwrap() ^= 1;
        flip(&mut wires, 30);
        flip(&mut wires, 40 + 31);
        flip(&mut wires, 80 + 32);
        wires[40 + 33].truncate(12);
        let mut packets: Vec<_> =
            wires.iter_mut().enumerate().filter(|(at, _)| *at != 17).map(|(at, wire)| (at, whole(wire))).collect();
        let mut burst: Vec<_> = packets.iter_mut().map(|(at, packet)| (&pairs[*at % 40].1, packet)).collect();
        tls::open(&mut burst);
        for (at, packet) in &packets {
            let expected = match at {
                30 | 71 | 112 => Err(PacketError::Forged),
                70 | 110 | 111 | 113 => Err(PacketError::Broken),
                73 => Err(PacketError::Malformed("not exactly one complete record")),
                _ => Ok(()),
            };
            assert_eq!(packet.verdict(), expected.as_ref().copied(), "{at}");
            match at {
                // Refused unread: 73 is malformed, and 113 comes after it.
                73 | 113 => {}
                _ if expected.is_err() => assert!(packet.data().is_empty()),
                _ => assert_eq!(packet.data(), content[*at], "{at}"),
            }
        }
        drop(packets);
        for at in [70, 110, 111] {
            let clear = |wire: &[u8]| wire.windows(16).any(|part| part.iter().all(|byte| *byte == at as u8));
            assert!(!clear(&wires[at]), "an authentic record behind a forged one must not be visible");
        }
        // The connection whose record had no room continues.
        let (outbound, inbound) = &pairs[17];
        assert_eq!(opened(inbound, &sealed(outbound, b"next", APPLICATION_DATA)).unwrap().0, b"next");
    }
}

#[test]
fn threads_share_a_framework_and_lock_each_connection() {
    let gantry = gantry();
    for suite in [GCM13, GCM12, ENCRYPT_THEN_MAC, MAC_THEN_ENCRYPT] {
        let (outbound, inbound) = ends(&gantry, || epoch(suite, 7));
        // A thread seals and sends under one lock.
        let wires = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for at in 0..4 {
                let (outbound, wires) = (&outbound, &wires);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut wires = wires.lock().unwrap();
                        wires.push(sealed(outbound, &[at], APPLICATION_DATA));
                    }
                });
            }
        });
        let wires = wires.into_inner().unwrap();
        assert_eq!((wires.len(), outbound.number()), (200, 200));
        // All threads compete for the next record, under a lock.
        let next = Mutex::new(0);
        let received: usize = thread::scope(|scope| {
            let open = || {
                let mut received = 0;
                loop {
                    let mut next = next.lock().unwrap();
                    let Some(wire) = wires.get(*next) else { return received };
                    opened(&inbound, wire).unwrap();
                    *next += 1;
                    received += 1;
                }
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((received, inbound.number()), (200, 200));
    }
    // Without a lock, no record is opened twice or out of order.
    let (outbound, inbound) = ends(&gantry, || epoch(MAC_THEN_ENCRYPT, 8));
    let wires: Vec<_> = (0..50_u8).map(|at| sealed(&outbound, &[at; 200], APPLICATION_DATA)).collect();
    let received = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let at = inbound.number() as usize;
                    match wires.get(at).map(|wire| opened(&inbound, wire)) {
                        Some(Ok((content, _))) => received.lock().unwrap().push(content[0]),
                        Some(Err(PacketError::Forged | PacketError::Broken)) | None => return,
                        Some(Err(PacketError::Busy)) => thread::yield_now(),
                        Some(Err(error)) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let mut received = received.into_inner().unwrap();
    received.sort_unstable();
    assert!(received.iter().enumerate().all(|(at, record)| at == usize::from(*record)), "{received:?}");
}

#[test]
fn ivs_of_cbc_never_repeat() {
    let gantry = gantry();
    for suite in [ENCRYPT_THEN_MAC, MAC_THEN_ENCRYPT] {
        let mut ivs = HashSet::new();
        for _ in 0..2 {
            let outbound = epoch(suite, 8).outbound(&gantry).unwrap();
            let mut buffers: Vec<_> = (0..40).map(|_| with_room(&outbound, b"always the same")).collect();
            let mut packets: Vec<_> =
                buffers.iter_mut().map(|buffer| within(&outbound, buffer, APPLICATION_DATA)).collect();
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&outbound, packet)).collect();
            tls::seal(&mut burst);
            ivs.extend(packets.iter().map(|packet| packet.data()[5..21].to_vec()));
        }
        assert_eq!(ivs.len(), 80);
    }
}

/// With every fault of a card, each record is sealed once, under its own number.
#[test]
fn a_device_that_fails_in_the_middle_of_a_burst_loses_no_record() {
    for (fault, times) in
        [(InjectedFault::Error, 1), (InjectedFault::Error, 40), (InjectedFault::Late, 5), (InjectedFault::Full, 3)]
    {
        let faults = FaultInjector::default();
        let (card, gantry) = faulty(&faults, true, 0);
        let outbound = epoch(GCM13, 9).outbound(&gantry).unwrap();
        let inbound = epoch(GCM13, 9).inbound(&self::gantry()).unwrap();
        for round in 0..10 {
            let mut buffers: Vec<_> = (0..32_u8).map(|at| with_room(&outbound, &[at; 200])).collect();
            let mut packets: Vec<_> =
                buffers.iter_mut().map(|buffer| within(&outbound, buffer, APPLICATION_DATA)).collect();
            if round > 0 {
                faults.inject(fault, times);
            }
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&outbound, packet)).collect();
            tls::seal(&mut burst);
            for (at, packet) in packets.iter().enumerate() {
                assert_eq!(packet.verdict(), Ok(()), "{fault:?}");
                assert_eq!(opened(&inbound, packet.data()).unwrap().0, [at as u8; 200]);
            }
        }
        assert!(card.meter().requests >= 64, "{fault:?}: the card did some requests");
    }
}

/// The number is used up, and the peer waits for it, so later records must not be sent.
#[test]
fn a_record_that_no_device_sealed_ends_the_connection() {
    let faults = FaultInjector::default();
    let (_card, gantry) = faulty(&faults, false, 0);
    let mut outbound = epoch(GCM13, 9).outbound(&gantry).unwrap();
    sealed(&outbound, b"well", APPLICATION_DATA);
    faults.inject(InjectedFault::Error, 1);
    let mut buffers: Vec<_> = (0..3_u8).map(|at| with_room(&outbound, &[at; 20])).collect();
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(&outbound, buffer, APPLICATION_DATA)).collect();
    let verdicts: Vec<_> = packets.iter_mut().map(|packet| outbound.seal(packet)).collect();
    assert!(matches!(verdicts[0], Err(PacketError::Device(_))), "{verdicts:?}");
    assert_eq!(verdicts[1..], [Err(PacketError::Broken), Err(PacketError::Broken)]);
    assert!(packets[0].data().is_empty());
    assert_eq!(packets[1].data(), [1; 20], "unchanged");
    assert_eq!(outbound.remaining(), 0);
    assert!(matches!(outbound.rekey(&[1; 16], &[1; 12]), Err(ParameterError::Broken)));
}

#[test]
fn a_connection_continues_with_the_handed_over_number() {
    let gantry = gantry();
    for suite in suites() {
        let (outbound, inbound) = ends(&gantry, || epoch(suite, 12));
        let wires: Vec<_> = (0..5).map(|at| sealed(&outbound, &[at], APPLICATION_DATA)).collect();
        assert!(wires[..3].iter().all(|wire| opened(&inbound, wire).is_ok()));
        let make_inbound = || epoch(suite, 12).number(inbound.number()).inbound(&gantry).unwrap();
        assert_eq!(opened(&make_inbound(), &wires[2]), Err(PacketError::Forged), "{suite:?}: replayed");
        let next_inbound = make_inbound();
        assert!(wires[3..].iter().all(|wire| opened(&next_inbound, wire).is_ok()));
        let next_outbound = epoch(suite, 12).number(outbound.number()).outbound(&gantry).unwrap();
        assert!(opened(&next_inbound, &sealed(&next_outbound, b"the next one", APPLICATION_DATA)).is_ok(), "{suite:?}");
        assert_eq!(next_outbound.number(), 6);
    }
}

//! Several records at a time: bursts, threads, processes, and devices that fail among them.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use gantry_driver_model::{Faults, Injected};
use gantry_protocols::tls::content_type::APPLICATION_DATA;
use gantry_protocols::tls::{self, Unfit};
use gantry_protocols::{Packet, Refused};

use super::common::{devices, faulty, gantry};
use super::{GCM12, GCM13, THEN_MAC, WITHIN, ends, epoch, opened, roomy, sealed, suites, whole, within};

/// Records of many connections, several of each, in one burst; and what is wrong among them.
#[test]
fn a_burst_is_what_its_records_are_one_by_one() {
    for gantry in devices() {
        let all = suites();
        let pairs: Vec<_> =
            (0..40).map(|place| ends(&gantry, || epoch(all[place * 7 % all.len()], place as u8))).collect();
        // 120 records: each connection has three, far from each other.
        let content: Vec<Vec<u8>> = (0..120).map(|place| vec![place as u8; place * 13]).collect();
        let mut buffers: Vec<_> = content.iter().enumerate().map(|(at, data)| roomy(&pairs[at % 40].0, data)).collect();
        // One has no room.
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
        assert!(matches!(packets[17].verdict(), Err(Refused::Room { behind: 0, .. })));
        assert_eq!(packets[17].data(), content[17], "as it was");
        let mut wires: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data().to_vec()).collect();
        for (at, (out, _)) in pairs.iter().enumerate() {
            assert_eq!(out.number(), if at == 17 { 2 } else { 3 }, "what was refused has no number");
        }
        // Forged first, in the middle, and last; cut off in the middle.
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
                30 | 71 | 112 => Err(Refused::Forged),
                70 | 110 | 111 | 113 => Err(Refused::Broken),
                73 => Err(Refused::Malformed("not one whole record")),
                _ => Ok(()),
            };
            assert_eq!(packet.verdict(), expected.as_ref().copied(), "{at}");
            match at {
                // Refused unread: the record before it was no record.
                73 | 113 => {}
                _ if expected.is_err() => assert!(packet.data().is_empty()),
                _ => assert_eq!(packet.data(), content[*at], "{at}"),
            }
        }
        drop(packets);
        for at in [70, 110, 111] {
            let clear = |wire: &[u8]| wire.windows(16).any(|part| part.iter().all(|byte| *byte == at as u8));
            assert!(!clear(&wires[at]), "authentic, and yet not to be seen behind a forged one");
        }
        // The connection whose record found no room goes on.
        let (out, back) = &pairs[17];
        assert_eq!(opened(back, &sealed(out, b"next", APPLICATION_DATA)).unwrap().0, b"next");
    }
}

#[test]
fn threads_share_a_framework_and_take_turns_at_a_connection() {
    let gantry = gantry();
    for suite in [GCM13, GCM12, THEN_MAC, WITHIN] {
        let (out, back) = ends(&gantry, || epoch(suite, 7));
        // Whoever has the lock seals and sends.
        let wires = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for at in 0..4 {
                let (out, wires) = (&out, &wires);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut wires = wires.lock().unwrap();
                        wires.push(sealed(out, &[at], APPLICATION_DATA));
                    }
                });
            }
        });
        let wires = wires.into_inner().unwrap();
        assert_eq!((wires.len(), out.number()), (200, 200));
        // All threads want the next record: one gets it, and the others find it busy, or are too late for it.
        let next = Mutex::new(0);
        let came: usize = thread::scope(|scope| {
            let open = || {
                let mut came = 0;
                loop {
                    let mut next = next.lock().unwrap();
                    let Some(wire) = wires.get(*next) else { return came };
                    opened(&back, wire).unwrap();
                    *next += 1;
                    came += 1;
                }
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((came, back.number()), (200, 200));
    }
    // Without a lock nothing is opened twice, and nothing out of order.
    let (out, back) = ends(&gantry, || epoch(WITHIN, 8));
    let wires: Vec<_> = (0..50_u8).map(|at| sealed(&out, &[at; 200], APPLICATION_DATA)).collect();
    let came = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let at = back.number() as usize;
                    match wires.get(at).map(|wire| opened(&back, wire)) {
                        Some(Ok((content, _))) => came.lock().unwrap().push(content[0]),
                        Some(Err(Refused::Forged | Refused::Broken)) | None => return,
                        Some(Err(Refused::Busy)) => thread::yield_now(),
                        Some(Err(why)) => panic!("{why}"),
                    }
                }
            });
        }
    });
    let mut came = came.into_inner().unwrap();
    came.sort_unstable();
    assert!(came.iter().enumerate().all(|(at, record)| at == usize::from(*record)), "{came:?}");
}

#[test]
fn nobody_can_tell_the_next_iv_of_cbc() {
    let gantry = gantry();
    for suite in [THEN_MAC, WITHIN] {
        let mut ivs = HashSet::new();
        for _ in 0..2 {
            let out = epoch(suite, 8).outbound(&gantry).unwrap();
            let mut buffers: Vec<_> = (0..40).map(|_| roomy(&out, b"always the same")).collect();
            let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(&out, buffer, APPLICATION_DATA)).collect();
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&out, packet)).collect();
            tls::seal(&mut burst);
            ivs.extend(packets.iter().map(|packet| packet.data()[5..21].to_vec()));
        }
        assert_eq!(ivs.len(), 80);
    }
}

/// Whatever a card does, each record is sealed once, under its own number.
#[test]
fn a_device_that_fails_in_the_middle_of_a_burst_loses_no_record() {
    for (fault, times) in [(Injected::Error, 1), (Injected::Error, 40), (Injected::Late, 5), (Injected::Full, 3)] {
        let faults = Faults::default();
        let (card, gantry) = faulty(&faults, true, 0);
        let out = epoch(GCM13, 9).outbound(&gantry).unwrap();
        let back = epoch(GCM13, 9).inbound(&self::gantry()).unwrap();
        for round in 0..10 {
            let mut buffers: Vec<_> = (0..32_u8).map(|at| roomy(&out, &[at; 200])).collect();
            let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(&out, buffer, APPLICATION_DATA)).collect();
            if round > 0 {
                faults.inject(fault, times);
            }
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&out, packet)).collect();
            tls::seal(&mut burst);
            for (at, packet) in packets.iter().enumerate() {
                assert_eq!(packet.verdict(), Ok(()), "{fault:?}");
                assert_eq!(opened(&back, packet.data()).unwrap().0, [at as u8; 200]);
            }
        }
        assert!(card.meter().requests >= 64, "{fault:?}: the card did some of them");
    }
}

/// Its number is used up, and the peer waits for it: what is behind it must not be sent.
#[test]
fn a_record_that_no_device_sealed_ends_the_connection() {
    let faults = Faults::default();
    let (_card, gantry) = faulty(&faults, false, 0);
    let mut out = epoch(GCM13, 9).outbound(&gantry).unwrap();
    sealed(&out, b"well", APPLICATION_DATA);
    faults.inject(Injected::Error, 1);
    let mut buffers: Vec<_> = (0..3_u8).map(|at| roomy(&out, &[at; 20])).collect();
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| within(&out, buffer, APPLICATION_DATA)).collect();
    let verdicts: Vec<_> = packets.iter_mut().map(|packet| out.seal(packet)).collect();
    assert!(matches!(verdicts[0], Err(Refused::Device(_))), "{verdicts:?}");
    assert_eq!(verdicts[1..], [Err(Refused::Broken), Err(Refused::Broken)]);
    assert!(packets[0].data().is_empty());
    assert_eq!(packets[1].data(), [1; 20], "as it was");
    assert_eq!(out.remaining(), 0);
    assert!(matches!(out.rekey(&[1; 16], &[1; 12]), Err(Unfit::Broken)));
}

#[test]
fn a_connection_goes_on_with_the_number_that_was_handed_over() {
    let gantry = gantry();
    for suite in suites() {
        let (out, back) = ends(&gantry, || epoch(suite, 12));
        let wires: Vec<_> = (0..5).map(|at| sealed(&out, &[at], APPLICATION_DATA)).collect();
        assert!(wires[..3].iter().all(|wire| opened(&back, wire).is_ok()));
        let make_back = || epoch(suite, 12).number(back.number()).inbound(&gantry).unwrap();
        assert_eq!(opened(&make_back(), &wires[2]), Err(Refused::Forged), "{suite:?}: it has come before");
        let next_back = make_back();
        assert!(wires[3..].iter().all(|wire| opened(&next_back, wire).is_ok()));
        let next_out = epoch(suite, 12).number(out.number()).outbound(&gantry).unwrap();
        assert!(opened(&next_back, &sealed(&next_out, b"the next one", APPLICATION_DATA)).is_ok(), "{suite:?}");
        assert_eq!(next_out.number(), 6);
    }
}

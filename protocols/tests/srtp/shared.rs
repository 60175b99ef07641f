//! A context shared by threads, and failing devices.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use gantry_driver_model::{FaultInjector, InjectedFault};
use gantry_protocols::Packet;
use gantry_protocols::srtp::{self, Suite};

use super::Protocol::{Rtcp, Rtp};
use super::common::{faulty, gantry};
use super::{SSRC, SUITES, context, ends, open_as, opened, rtcp, rtp, try_seal};

#[test]
fn threads_share_a_context() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let (outbound, inbound) = ends(&gantry, || context(suite, 12).window(4096));
        let wires = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for at in 0..200_u16 {
                        // All threads try the same packets: only one thread seals each packet.
                        let media = try_seal(&outbound, Rtp, &rtp(SSRC + u32::from(at % 3), at, b"who sends this?"));
                        let report = try_seal(&outbound, Rtcp, &rtcp(SSRC, b"all of these"));
                        let mut wires = wires.lock().unwrap();
                        wires.extend(media.ok().map(|wire| (Rtp, wire)));
                        wires.push((Rtcp, report.unwrap()));
                    }
                });
            }
        });
        let wires = wires.into_inner().unwrap();
        assert_eq!(wires.len(), 200 + 800);
        assert_eq!(outbound.last_control_number(SSRC), Some(799));
        assert_eq!(wires.iter().map(|(_, wire)| wire).collect::<HashSet<_>>().len(), 1000);
        let received: usize = thread::scope(|scope| {
            let count = || wires.iter().filter(|(protocol, wire)| open_as(&inbound, *protocol, wire).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(received, 1000, "each packet was accepted once, although four threads opened it");
    }
}

/// With every fault of a card, each packet is sealed once, under its own number.
#[test]
fn a_device_that_fails_in_the_middle_of_a_burst_loses_no_packet() {
    for (fault, times) in
        [(InjectedFault::Error, 1), (InjectedFault::Error, 40), (InjectedFault::Late, 5), (InjectedFault::Full, 3)]
    {
        let faults = FaultInjector::default();
        let (card, faulty) = faulty(&faults, true, 0);
        let outbound = context(Suite::AeadAes128Gcm, 13).outbound(&faulty).unwrap();
        let inbound = context(Suite::AeadAes128Gcm, 13).inbound(&gantry()).unwrap();
        for round in 0..10_u16 {
            let data: Vec<_> = (0..32).map(|at| rtp(SSRC, round * 32 + at, &[at as u8; 160])).collect();
            let mut buffers: Vec<_> = data.iter().map(|data| [&data[..], &[0; 20]].concat()).collect();
            let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| Packet::new(buffer, 0..172)).collect();
            if round > 0 {
                faults.inject(fault, times);
            }
            let mut burst: Vec<_> = packets.iter_mut().map(|packet| (&outbound, packet)).collect();
            srtp::seal(&mut burst);
            for (packet, data) in packets.iter().zip(&data) {
                assert_eq!(packet.verdict(), Ok(()), "{fault:?}");
                assert_eq!(&opened(&inbound, packet.data()).unwrap(), data);
            }
        }
        assert!(card.meter().requests >= 64, "{fault:?}: the card did some requests");
    }
}

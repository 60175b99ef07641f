//! Streams that one sender hands over to another: every number up to the handed-over number is used up.

use gantry_protocols::PacketError;

use super::common::gantry;
use super::{Protocol, Rtcp, Rtp, SSRC, SUITES, context, open_as, opened, rtcp, rtp, sealed, try_seal};

const LAST_NUMBER: u64 = 1000;

#[test]
fn a_new_sender_reuses_no_number() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        // In the first rollover period, and in a later one.
        for base in [0, 0x5_0000] {
            let first = context(suite, 20).last_number(SSRC, base).outbound(&gantry).unwrap();
            (1..=LAST_NUMBER).for_each(|at| drop(sealed(&first, &rtp(SSRC, at as u16, b"the first sender"))));
            let last = first.last_number(SSRC).unwrap();
            assert_eq!(last, base + LAST_NUMBER);
            let next = context(suite, 20).window(1 << 15).last_number(SSRC, last).outbound(&gantry).unwrap();
            for at in (1..=LAST_NUMBER).rev() {
                let again = try_seal(&next, Rtp, &rtp(SSRC, at as u16, b"another sender.."));
                assert_eq!(again, Err(PacketError::Replayed), "{suite:?} {at}");
            }
            // A packet that was overtaken is sealed, too.
            let new =
                |ahead: u64| try_seal(&next, Rtp, &rtp(SSRC, (LAST_NUMBER + ahead) as u16, b"a new packet")).is_ok();
            assert!(new(2) && new(1) && !new(2));
            assert_eq!(next.last_number(SSRC), Some(last + 2));
        }
    }
}

#[test]
fn a_new_receiver_accepts_no_packet_again() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let outbound = context(suite, 21).outbound(&gantry).unwrap();
        let data = |protocol: Protocol, at: u64| match protocol {
            Rtp => rtp(SSRC, at as u16, b"a packet"),
            Rtcp => rtcp(SSRC, b"a packet"),
        };
        for protocol in [Rtp, Rtcp] {
            let wires: Vec<_> =
                (0..LAST_NUMBER + 2).map(|at| try_seal(&outbound, protocol, &data(protocol, at)).unwrap()).collect();
            let inbound = context(suite, 21)
                .window(128)
                .last_number(SSRC, LAST_NUMBER)
                .last_control_number(SSRC, LAST_NUMBER as u32);
            let inbound = inbound.inbound(&gantry).unwrap();
            let old = &wires[..=LAST_NUMBER as usize];
            let again =
                old.iter().filter(|wire| open_as(&inbound, protocol, wire) != Err(PacketError::Replayed)).count();
            assert_eq!(again, 0, "{suite:?} {protocol:?}");
            assert!(open_as(&inbound, protocol, &wires[LAST_NUMBER as usize + 1]).is_ok());
        }
    }
}

#[test]
fn the_highest_of_several_numbers_counts() {
    let gantry = gantry();
    let made = |numbers: [u64; 2]| {
        let [one, other] = numbers;
        let made = context(SUITES[0].0, 22).last_number(SSRC, one).last_number(SSRC, other);
        made.last_control_number(SSRC, one as u32).last_control_number(SSRC, other as u32).outbound(&gantry).unwrap()
    };
    for numbers in [[900, LAST_NUMBER], [LAST_NUMBER, 900]] {
        let outbound = made(numbers);
        assert_eq!(
            (outbound.last_number(SSRC), outbound.last_control_number(SSRC)),
            (Some(LAST_NUMBER), Some(LAST_NUMBER as u32))
        );
        for at in [900, 950, LAST_NUMBER] {
            assert_eq!(try_seal(&outbound, Rtp, &rtp(SSRC, at as u16, b"again")), Err(PacketError::Replayed), "{at}");
        }
    }
}

/// The numbers sealed elsewhere are unknown, and may include every number before the first packet's.
#[test]
fn a_sender_with_a_rollover_counter_starts_at_its_first_packet() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let outbound = context(suite, 23).rollover_counter(SSRC, 5).outbound(&gantry).unwrap();
        let try_at = |sequence: u16| try_seal(&outbound, Rtp, &rtp(SSRC, sequence, b"who was first?"));
        let first = try_at(1001).unwrap();
        for sequence in (950..=1001).rev() {
            assert_eq!(try_at(sequence), Err(PacketError::Replayed), "{suite:?} {sequence}");
        }
        assert!(try_at(1003).is_ok() && try_at(1002).is_ok());
        // A receiver accepts earlier numbers: the first packets may overtake each other.
        let other = context(suite, 23).rollover_counter(SSRC, 5).outbound(&gantry).unwrap();
        let before = sealed(&other, &rtp(SSRC, 1000, b"before the first"));
        let inbound = context(suite, 23).rollover_counter(SSRC, 5).inbound(&gantry).unwrap();
        assert!(opened(&inbound, &first).is_ok() && opened(&inbound, &before).is_ok());
    }
}

/// Numbers begin again under a new key.
#[test]
fn a_new_master_key_may_use_all_numbers() {
    let gantry = gantry();
    for (suite, ..) in SUITES {
        let [old, new] = [24, 25].map(|seed| context(suite, seed).outbound(&gantry).unwrap());
        assert_ne!(
            sealed(&old, &rtp(SSRC, 7, b"the same number")),
            sealed(&new, &rtp(SSRC, 7, b"the same number")),
            "{suite:?}"
        );
    }
}

//! A closed association uses and accepts no number.

use gantry_protocols::PacketError;
use gantry_protocols::esp::Mode;

use super::{CBC, GCM, association, ends, gantry, opened, sealed, with_room, within};

#[test]
fn closing_returns_the_last_number_and_uses_no_other() {
    let gantry = gantry();
    for (suite, extended, last) in [(GCM, false, 7), (CBC, false, 0), (GCM, true, 7), (CBC, true, (1 << 40) + 3)] {
        let make = || {
            let made = association(suite, 4).mode(Mode::Payload).last_number(last);
            if extended { made.extended_numbers() } else { made }
        };
        let (outbound, inbound) = ends(&gantry, make);
        let wires: Vec<_> = (0..4).map(|at| sealed(&outbound, &[at], 17)).collect();
        opened(&inbound, &wires[1]).unwrap();
        assert_eq!((outbound.close(), inbound.close()), (last + 4, last + 2));
        let mut buffer = with_room(&[7]);
        assert_eq!(outbound.seal(&mut within(&mut buffer)), Err(PacketError::Exhausted));
        for wire in &wires {
            assert_eq!(opened(&inbound, wire), Err(PacketError::Replayed));
        }
        assert_eq!(outbound.remaining(), 0);
    }
}

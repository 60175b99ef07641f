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
        let (out, back) = ends(&gantry, make);
        let wires: Vec<_> = (0..4).map(|at| sealed(&out, &[at], 17)).collect();
        opened(&back, &wires[1]).unwrap();
        assert_eq!((out.close(), back.close()), (last + 4, last + 2));
        let mut buffer = with_room(&[7]);
        assert_eq!(out.seal(&mut within(&mut buffer)), Err(PacketError::Exhausted));
        for wire in &wires {
            assert_eq!(opened(&back, wire), Err(PacketError::Replayed));
        }
        assert_eq!(out.remaining(), 0);
    }
}

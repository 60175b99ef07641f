//! IPComp packets from strangers: the decompressed data never exceed the room for them, and sent packets of any content come back
//! unchanged.
#![no_main]

use std::sync::LazyLock;

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::ipcomp::{Association, Inbound, Mode, Outbound, PROTOCOL};
use gantry_protocols::{Packet, PacketError};
use libfuzzer_sys::fuzz_target;

/// Both ends of an association for each mode.
static ENDS: LazyLock<[(Outbound, Inbound); 3]> = LazyLock::new(|| {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let session = gantry.session(SessionParams::new(Algorithm::Deflate, &[]).with_level(6)).unwrap();
    [Mode::Tunnel, Mode::Transport, Mode::Payload].map(|mode| {
        // A well-known CPI, whose two bytes the fuzzer finds quickly.
        let association = Association::new(2, &session).mode(mode).threshold(0);
        (association.clone().outbound().unwrap(), association.inbound().unwrap())
    })
});

/// Returns the bytes of the buffer after the packet: 16 for each unit of the second byte of input.
fn room(units: u8) -> usize {
    usize::from(units) * 16
}

fuzz_target!(|input: &[u8]| {
    let Some((&[which, units], data)) = input.split_first_chunk() else { return };
    let (outbound, inbound) = &ENDS[usize::from(which) % ENDS.len()];

    let mut buffer = [data, &vec![0; room(units)]].concat();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    match inbound.decompress(&mut packet) {
        Ok(()) => check_round_trip(outbound, inbound, packet.data(), packet.next_header),
        Err(error) => {
            assert!(matches!(error, PacketError::Malformed(_) | PacketError::Expands { .. }));
            assert!(packet.data().is_empty() || packet.data() == data);
        }
    }
    check_round_trip(outbound, inbound, data, which);
});

fn check_round_trip(outbound: &Outbound, inbound: &Inbound, data: &[u8], next: u8) {
    let mut buffer = data.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    packet.next_header = next;
    if outbound.compress(&mut packet).is_err() {
        assert_eq!(packet.data(), data);
        return;
    }
    if packet.next_header != PROTOCOL || packet.data() == data {
        assert_eq!(packet.data(), data);
        return;
    }
    assert!(packet.data().len() < data.len());
    // In tunnel mode the inner header determines the length of the packet.
    if inbound.decompress(&mut packet).is_ok() {
        let mut decompressed = packet.data().to_vec();
        // Around IPComp, the IPv4 header gets a valid checksum.
        if std::ptr::eq(outbound, &ENDS[1].0) && data[0] >> 4 == 4 {
            decompressed[10..12].copy_from_slice(&data[10..12]);
        }
        assert!(data.starts_with(&decompressed));
    } else {
        assert!(std::ptr::eq(outbound, &ENDS[0].0), "only non-packets in tunnel mode may get lost");
    }
}

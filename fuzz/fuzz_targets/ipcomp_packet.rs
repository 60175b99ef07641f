//! Packets of IPComp from anybody: what they decompress to is no more than there is room for, and what is sent comes back as it was,
//! whatever it is.
#![no_main]

use std::sync::LazyLock;

use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::ipcomp::{Association, Inbound, Mode, Outbound, PROTOCOL};
use gantry_protocols::{Packet, Refused};
use libfuzzer_sys::fuzz_target;

/// Both ends of an association for each mode.
static ENDS: LazyLock<[(Outbound, Inbound); 3]> = LazyLock::new(|| {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let session = gantry.session(SessionParams::new(Algorithm::Deflate, &[]).level(6)).unwrap();
    [Mode::Tunnel, Mode::Transport, Mode::Payload].map(|mode| {
        // The well-known CPI, which is two bytes that are found quickly.
        let association = Association::new(2, &session).mode(mode).threshold(0);
        (association.clone().outbound().unwrap(), association.inbound().unwrap())
    })
});

/// Bytes of the buffer that a packet comes in, behind the packet: 16 for each unit of the second byte of input.
fn room(units: u8) -> usize {
    usize::from(units) * 16
}

fuzz_target!(|input: &[u8]| {
    let Some((&[which, units], data)) = input.split_first_chunk() else { return };
    let (out, back) = &ENDS[usize::from(which) % ENDS.len()];

    let mut buffer = [data, &vec![0; room(units)]].concat();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    match back.decompress(&mut packet) {
        Ok(()) => comes_back(out, back, packet.data(), packet.next_header),
        Err(why) => {
            assert!(matches!(why, Refused::Malformed(_) | Refused::Expands { .. }));
            assert!(packet.data().is_empty() || packet.data() == data);
        }
    }
    comes_back(out, back, data, which);
});

/// Sends a packet and gets it back.
fn comes_back(out: &Outbound, back: &Inbound, data: &[u8], next: u8) {
    let mut buffer = data.to_vec();
    let mut packet = Packet::new(&mut buffer, 0..data.len());
    packet.next_header = next;
    if out.compress(&mut packet).is_err() {
        assert_eq!(packet.data(), data);
        return;
    }
    if packet.next_header != PROTOCOL || packet.data() == data {
        assert_eq!(packet.data(), data);
        return;
    }
    assert!(packet.data().len() < data.len());
    // In a tunnel the header within says how long the packet is.
    if back.decompress(&mut packet).is_ok() {
        let mut came = packet.data().to_vec();
        // Around IPComp the header of IPv4 gets a checksum that is right, whatever it had.
        if std::ptr::eq(out, &ENDS[1].0) && data[0] >> 4 == 4 {
            came[10..12].copy_from_slice(&data[10..12]);
        }
        assert!(data.starts_with(&came));
    } else {
        assert!(std::ptr::eq(out, &ENDS[0].0), "whatever is no packet within a tunnel comes back");
    }
}

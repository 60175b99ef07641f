//! Packets of ESP from anybody: none that was not sealed is opened, and what is sealed comes back as it was, whatever it is.
#![no_main]

use std::sync::LazyLock;

use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Inbound, Integrity, Mode, Outbound, Suite};
use libfuzzer_sys::fuzz_target;

/// Both ends of an association for each kind of suite, mode and number.
static ENDS: LazyLock<Vec<(Outbound, Inbound)>> = LazyLock::new(|| {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let mut ends = Vec::new();
    for (suite, key, integrity_key) in [
        (Suite::AesGcm { icv: 8 }, 20, 0),
        (Suite::AesCbc(Integrity::HmacSha256), 16, 32),
        (Suite::AesCtr(Integrity::HmacSha1), 36, 20),
        (Suite::Null(Integrity::HmacSha512), 0, 64),
    ] {
        for mode in [Mode::Tunnel, Mode::Transport, Mode::Payload] {
            for extended in [false, true] {
                let made = || {
                    // Written in the book, as it were: who fuzzes does not guess integrity check values.
                    let made =
                        Association::new(0x6162_6364, suite, &[7; 36][..key], &[9; 64][..integrity_key]).mode(mode);
                    if extended { made.extended_numbers() } else { made }
                };
                ends.push((made().outbound(&gantry).unwrap(), made().inbound(&gantry).unwrap()));
            }
        }
    }
    ends
});

fuzz_target!(|input: &[u8]| {
    let Some((&which, data)) = input.split_first() else { return };
    let (out, back) = &ENDS[usize::from(which) % ENDS.len()];

    let mut wire = data.to_vec();
    let mut packet = Packet::new(&mut wire, 0..data.len());
    assert!(back.open(&mut packet).is_err(), "nobody sealed this");
    assert!(packet.data().is_empty() || packet.data() == data);

    let mut buffer = [&[0; 64][..], data, &[0; 64]].concat();
    let mut packet = Packet::new(&mut buffer, 64..64 + data.len());
    packet.next_header = which;
    match out.seal(&mut packet) {
        Ok(()) => {
            let result = back.open(&mut packet);
            // In a tunnel the header within says how long the packet is, and 59 is a packet that is none.
            if result.is_ok() {
                let mut came = packet.data().to_vec();
                // Around ESP the header of IPv4 gets a checksum that is right, whatever it had.
                let is_around = usize::from(which) % ENDS.len() / 2 % 3 == 1;
                if is_around && data[0] >> 4 == 4 {
                    came[10..12].copy_from_slice(&data[10..12]);
                }
                assert!(data.starts_with(&came));
            }
        }
        Err(_) => assert_eq!(packet.data(), data),
    }
});

//! ESP packets from strangers: packets that were not sealed are not opened, and sealed packets of any content come back unchanged.
#![no_main]

use std::sync::LazyLock;

use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Inbound, Integrity, Mode, Outbound, Suite};
use libfuzzer_sys::fuzz_target;

/// Both ends of an association for each kind of suite, mode and sequence number.
static ENDS: LazyLock<Vec<(Outbound, Inbound)>> = LazyLock::new(|| {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let mut ends = Vec::new();
    for (suite, key, integrity_key) in [
        (Suite::AesGcm { icv: 8 }, 20, 0),
        (Suite::AesCcm { icv: 8 }, 19, 0),
        (Suite::AesGmac, 20, 0),
        (Suite::AesCbc(Integrity::HmacSha256), 16, 32),
        (Suite::AesCtr(Integrity::HmacSha1), 36, 20),
        (Suite::Null(Integrity::HmacSha512), 0, 64),
    ] {
        for mode in [Mode::Tunnel, Mode::Transport, Mode::Payload] {
            for extended in [false, suite != Suite::AesGmac] {
                let association = || {
                    // Constant keys are fine: the fuzzer does not know them.
                    let association =
                        Association::new(0x6162_6364, suite, &[7; 36][..key], &[9; 64][..integrity_key]).mode(mode);
                    if extended { association.extended_numbers() } else { association }
                };
                ends.push((association().outbound(&gantry).unwrap(), association().inbound(&gantry).unwrap()));
            }
        }
    }
    ends
});

fuzz_target!(|input: &[u8]| {
    let Some((&which, data)) = input.split_first() else { return };
    let (outbound, inbound) = &ENDS[usize::from(which) % ENDS.len()];

    let mut wire = data.to_vec();
    let mut packet = Packet::new(&mut wire, 0..data.len());
    assert!(inbound.open(&mut packet).is_err(), "an unauthentic packet opened");
    assert!(packet.data().is_empty() || packet.data() == data);

    let mut buffer = [&[0; 64][..], data, &[0; 64]].concat();
    let mut packet = Packet::new(&mut buffer, 64..64 + data.len());
    packet.next_header = which;
    match outbound.seal(&mut packet) {
        Ok(()) => {
            let result = inbound.open(&mut packet);
            // In tunnel mode the inner header determines the length of the packet; 59 marks a dummy packet.
            if result.is_ok() {
                let mut opened = packet.data().to_vec();
                // Around ESP, the IPv4 header gets a valid checksum.
                let is_around = usize::from(which) % ENDS.len() / 2 % 3 == 1;
                if is_around && data[0] >> 4 == 4 {
                    opened[10..12].copy_from_slice(&data[10..12]);
                }
                assert!(data.starts_with(&opened));
            }
        }
        Err(_) => assert_eq!(packet.data(), data),
    }
});

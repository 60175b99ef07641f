//! RTP and RTCP packets from strangers, in sequence: packets that were not sealed are not opened, and sealed packets come back unchanged.
#![no_main]

use std::sync::LazyLock;

use gantry_core::Gantry;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::srtp::{Context, Suite};
use gantry_protocols::{Packet, PacketError};
use libfuzzer_sys::fuzz_target;

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());

/// Suites, with the lengths of their keys and salts. Tags of 32 bits are excluded, because the fuzzer might guess one.
const SUITES: [(Suite, usize, usize); 2] = [(Suite::AesCm128HmacSha1_80, 16, 14), (Suite::AeadAes256Gcm, 32, 12)];

fuzz_target!(|input: &[u8]| {
    let Some((&options, mut rest)) = input.split_first() else { return };
    let (suite, key, salt) = SUITES[usize::from(options & 1)];
    let context = || {
        let mki = if options & 2 == 0 { &b""[..] } else { b"id" };
        let context = Context::new(suite, &[7; 32][..key], &[9; 14][..salt]).mki(mki).streams(4);
        if options & 4 == 0 { context } else { context.unencrypted_control() }
    };
    // New contexts for each input, so that results are reproducible.
    let (outbound, inbound) = (context().outbound(&GANTRY).unwrap(), context().inbound(&GANTRY).unwrap());

    // A length byte, whose top bit marks RTCP, and the packet.
    while let Some((&length, input)) = rest.split_first() {
        let is_control = length & 0x80 != 0;
        let (data, next) = input.split_at(usize::from(length & 0x7F).min(input.len()));
        rest = next;
        let open =
            |packet: &mut Packet<'_>| if is_control { inbound.open_control(packet) } else { inbound.open(packet) };

        let mut wire = data.to_vec();
        let mut packet = Packet::new(&mut wire, 0..data.len());
        assert!(open(&mut packet).is_err(), "an unauthentic packet opened");
        assert!(packet.data().is_empty() || packet.data() == data);

        let mut buffer = [data, &[0; 32]].concat();
        let mut packet = Packet::new(&mut buffer, 0..data.len());
        match if is_control { outbound.seal_control(&mut packet) } else { outbound.seal(&mut packet) } {
            Ok(()) => {
                let mut copy = packet.data().to_vec();
                open(&mut packet).unwrap();
                assert_eq!(packet.data(), data);
                let length = copy.len();
                assert_eq!(open(&mut Packet::new(&mut copy, 0..length)), Err(PacketError::Replayed));
            }
            Err(_) => assert_eq!(packet.data(), data),
        }
    }
});

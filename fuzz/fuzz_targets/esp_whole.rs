//! Whole ESP packets by the software device, compared with separate steps. For any content under a valid tag, even with wrong padding, both
//! have the same result, and each opens packets of the other.
#![no_main]

use std::sync::LazyLock;

use gantry_core::{Algorithm, Error, Esp, Gantry, Outcome, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::esp::{Association, Mode, Suite};
use gantry_protocols::{Packet, PacketError};
use libfuzzer_sys::fuzz_target;

const SPI: u32 = 0x6162_6364;
const KEY: [u8; 20] = [7; 20];
/// Bytes of header and IV.
const PAYLOAD_OFFSET: usize = 16;

static GANTRY: LazyLock<Gantry> = LazyLock::new(|| Gantry::builder().driver(&SoftwareDriver).build());
static AEAD: LazyLock<Session> =
    LazyLock::new(|| GANTRY.session(SessionParams::new(Algorithm::Aes128Gcm, &KEY[..16])).unwrap());
static WHOLE_PACKET: LazyLock<Session> = LazyLock::new(|| {
    let params = SessionParams::new(Algorithm::EspAes128Gcm, &KEY);
    GANTRY.session(params.with_esp(Esp { spi: SPI, extended: false })).unwrap()
});

fn association() -> Association {
    Association::new(SPI, Suite::AesGcm { icv: 16 }, &KEY, &[]).mode(Mode::Payload)
}

/// Seals any content under a number, as a peer with the keys may do.
fn seal_by_parts(content: &[u8], number: u32) -> Vec<u8> {
    let mut packet = [&SPI.to_be_bytes()[..], &number.to_be_bytes(), &u64::from(number).to_be_bytes()].concat();
    let (iv, aad) = ([&KEY[16..], &packet[8..16]].concat(), packet[..8].to_vec());
    let (mut data, mut tag) = (content.to_vec(), [0; 16]);
    AEAD.seal(&iv, &aad, &mut data[..], &mut tag).unwrap();
    packet.extend(data);
    packet.extend(tag);
    packet
}

fuzz_target!(|input: &[u8]| {
    let Some((&[a, b, next_header], content)) = input.split_first_chunk() else { return };
    let number = 1 + u32::from(u16::from_be_bytes([a, b]));

    // Open a packet from a peer.
    let packet = seal_by_parts(content, number);
    let (mut whole, mut parts) = (packet.clone(), packet.clone());
    let whole_result = WHOLE_PACKET.unprotect(number.into(), &mut whole);
    let inbound = association().inbound(&GANTRY).unwrap();
    let mut packet_of_parts = Packet::new(&mut parts, 0..packet.len());
    match (whole_result, inbound.open(&mut packet_of_parts)) {
        (Ok((length, next)), Ok(())) => {
            assert_eq!(
                (&whole[PAYLOAD_OFFSET..PAYLOAD_OFFSET + length], next),
                (packet_of_parts.data(), packet_of_parts.next_header)
            );
        }
        // Dummy packets are handled by the association, not by the device.
        (Ok((_, 59)), Err(PacketError::Dummy)) => {}
        (Err(Error::Refused(Outcome::Malformed)), Err(PacketError::Malformed(_))) => {
            let is_hidden = whole == packet || whole[PAYLOAD_OFFSET..whole.len() - 16].iter().all(|byte| *byte == 0);
            assert!(is_hidden, "a malformed packet returns no plaintext");
        }
        (one, other) => panic!("{one:?}, {other:?}"),
    }

    // Seal a packet to a peer.
    let info = WHOLE_PACKET.params().algorithm().info();
    let mut made = vec![0xEE; info.packet_length(content.len(), 16)];
    made[PAYLOAD_OFFSET..PAYLOAD_OFFSET + content.len()].copy_from_slice(content);
    WHOLE_PACKET.protect(number.into(), next_header, &mut made, content.len()).unwrap();
    let mut buffer = [&[0; 64][..], content, &[0; 64]].concat();
    let mut packet = Packet::new(&mut buffer, 64..64 + content.len());
    packet.next_header = next_header;
    association().last_number(u64::from(number) - 1).outbound(&GANTRY).unwrap().seal(&mut packet).unwrap();
    assert_eq!(packet.data(), made);
});

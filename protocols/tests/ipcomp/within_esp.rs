//! IPComp within ESP: compressed, then sealed; opened, then decompressed (RFC 3173, 2).

use gantry_core::Gantry;
use gantry_protocols::Packet;
use gantry_protocols::esp::{self, Suite};
use gantry_protocols::ipcomp::{self, Mode, PROTOCOL};

use super::common::{gantry, ipv4, ipv6};
use super::{ends, noise, session, text};

const ESP: u8 = 50;

fn esp_ends(gantry: &Gantry, mode: Mode) -> (esp::Outbound, esp::Inbound) {
    let made = || esp::Association::new(0x1000, Suite::AesGcm { icv: 16 }, &[7; 20], &[]).mode(mode);
    (made().outbound(gantry).unwrap(), made().inbound(gantry).unwrap())
}

/// Sends packets through both protocols and gets them back. What is between the two ends is given to `look`, beside the packet and
/// whether it was compressed.
fn through_both(mode: Mode, around: Mode, packets: &[Vec<u8>], look: impl Fn(&[u8], &[u8], bool)) {
    let gantry = gantry();
    let (compress, decompress) = ends(&session(&gantry, 6), mode);
    let (seal, open) = esp_ends(&gantry, around);
    let mut buffers: Vec<Vec<u8>> = packets.iter().map(|data| [&[0; 64][..], data, &[0; 64]].concat()).collect();
    let mut sent: Vec<Packet<'_>> =
        buffers.iter_mut().zip(packets).map(|(buffer, data)| Packet::new(buffer, 64..64 + data.len())).collect();

    ipcomp::compress(&mut sent.iter_mut().map(|packet| (&compress, packet)).collect::<Vec<_>>());
    let compressed: Vec<bool> = sent.iter().map(|packet| packet.next_header == PROTOCOL).collect();
    esp::seal(&mut sent.iter_mut().map(|packet| (&seal, packet)).collect::<Vec<_>>());

    for ((packet, data), compressed) in sent.iter().zip(packets).zip(&compressed) {
        look(packet.data(), data, *compressed);
        assert!(packet.data().len() < data.len() + 64);
    }

    esp::open(&mut sent.iter_mut().map(|packet| (&open, packet)).collect::<Vec<_>>());
    let came = sent.iter_mut().filter(|packet| packet.verdict().is_ok() && packet.next_header == PROTOCOL);
    ipcomp::decompress(&mut came.map(|packet| (&decompress, packet)).collect::<Vec<_>>());
    for (packet, data) in sent.iter().zip(packets) {
        assert_eq!((packet.verdict(), packet.data()), (Ok(()), &data[..]), "{mode:?} in {around:?}");
        let next = match (mode, data[0] >> 4) {
            (Mode::Tunnel, 4) => 4,
            (Mode::Tunnel, _) => 41,
            _ => 17,
        };
        assert_eq!(packet.next_header, next);
    }
    assert!(compressed.contains(&true) && compressed.contains(&false));
}

fn packets() -> Vec<Vec<u8>> {
    [text(1400), noise(1400), text(40), text(300), vec![], noise(89), text(9000)]
        .iter()
        .flat_map(|payload| [ipv4(payload), ipv6(payload)])
        .collect()
}

#[test]
fn in_transport_mode_both_stand_behind_the_header_of_ip() {
    through_both(Mode::Transport, Mode::Transport, &packets(), |wire, data, compressed| {
        assert_eq!(if data[0] >> 4 == 4 { wire[9] } else { wire[6] }, ESP);
        assert_eq!(compressed, wire.len() < data.len(), "of these, what becomes shorter saves more than ESP adds");
    });
}

/// The outer header, which is the caller's, carries ESP, whose next header is IPComp or the packet's own.
#[test]
fn in_a_tunnel_the_packet_is_compressed_with_its_header() {
    through_both(Mode::Tunnel, Mode::Payload, &packets(), |wire, _, _| {
        assert_eq!(wire[..4], 0x1000_u32.to_be_bytes());
    });
}

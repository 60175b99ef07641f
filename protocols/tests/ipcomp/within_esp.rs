//! IPComp inside ESP: compress, then seal; open, then decompress (RFC 3173, 2).

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

/// Sends packets through both protocols and back. `check` gets each sealed packet, the original, and whether it was compressed.
fn compress_and_seal(mode: Mode, outer_mode: Mode, packets: &[Vec<u8>], check: impl Fn(&[u8], &[u8], bool)) {
    let gantry = gantry();
    let (compress, decompress) = ends(&session(&gantry, 6), mode);
    let (seal, open) = esp_ends(&gantry, outer_mode);
    let mut buffers: Vec<Vec<u8>> = packets.iter().map(|data| [&[0; 64][..], data, &[0; 64]].concat()).collect();
    let mut sent: Vec<Packet<'_>> =
        buffers.iter_mut().zip(packets).map(|(buffer, data)| Packet::new(buffer, 64..64 + data.len())).collect();

    ipcomp::compress(&mut sent.iter_mut().map(|packet| (&compress, packet)).collect::<Vec<_>>());
    let compressed: Vec<bool> = sent.iter().map(|packet| packet.next_header == PROTOCOL).collect();
    esp::seal(&mut sent.iter_mut().map(|packet| (&seal, packet)).collect::<Vec<_>>());

    for ((packet, data), compressed) in sent.iter().zip(packets).zip(&compressed) {
        check(packet.data(), data, *compressed);
        assert!(packet.data().len() < data.len() + 64);
    }

    esp::open(&mut sent.iter_mut().map(|packet| (&open, packet)).collect::<Vec<_>>());
    let compressed_packets =
        sent.iter_mut().filter(|packet| packet.verdict().is_ok() && packet.next_header == PROTOCOL);
    ipcomp::decompress(&mut compressed_packets.map(|packet| (&decompress, packet)).collect::<Vec<_>>());
    for (packet, data) in sent.iter().zip(packets) {
        assert_eq!((packet.verdict(), packet.data()), (Ok(()), &data[..]), "{mode:?} in {outer_mode:?}");
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
fn in_transport_mode_esp_and_ipcomp_follow_the_ip_header() {
    compress_and_seal(Mode::Transport, Mode::Transport, &packets(), |wire, data, compressed| {
        assert_eq!(if data[0] >> 4 == 4 { wire[9] } else { wire[6] }, ESP);
        assert_eq!(compressed, wire.len() < data.len(), "compression saves more than ESP adds");
    });
}

/// The caller's outer header is followed by ESP. ESP's next header is IPComp, or the packet's protocol if it was not compressed.
#[test]
fn in_a_tunnel_the_packet_is_compressed_with_its_header() {
    compress_and_seal(Mode::Tunnel, Mode::Payload, &packets(), |wire, _, _| {
        assert_eq!(wire[..4], 0x1000_u32.to_be_bytes());
    });
}

//! Malformed packets from a peer, and from the caller.

use super::*;

/// Authentic packets with a wrong padding, next header or inner length, made by a peer that has the keys.
#[test]
fn refuses_malformed_packets_of_an_authentic_peer() {
    use gantry_core::{Algorithm, SessionParams};
    let gantry = gantry();
    let wrong = |mode: Mode, number: u8, clear: &[u8]| {
        let session = gantry.session(SessionParams::new(Algorithm::Aes128Gcm, &[7; 16])).unwrap();
        let head = [&SPI.to_be_bytes()[..], &[0, 0, 0, number], &[number; 8]].concat();
        let (mut data, mut tag) = (clear.to_vec(), [0; 16]);
        session.seal(&[&[7; 4][..], &head[8..]].concat(), &head[..8], &mut data, &mut tag).unwrap();
        let inbound = Association::new(SPI, GCM.0, &[7; 20], &[]).mode(mode).inbound(&gantry).unwrap();
        let result = opened(&inbound, &[&head[..], &data, &tag].concat());
        assert_eq!(inbound.last_number(), u64::from(number), "authentic packets count as received");
        result
    };
    let malformed = |result: Result<_, PacketError>| matches!(result, Err(PacketError::Malformed(_)));
    assert_eq!(wrong(Mode::Payload, 1, &[1, 2, 2, 17]), Ok((vec![], 17)));
    assert!(malformed(wrong(Mode::Payload, 1, &[1, 2, 3, 17])), "more padding than data");
    assert!(malformed(wrong(Mode::Payload, 1, &[1, 2, 255, 17])));
    assert!(malformed(wrong(Mode::Payload, 1, &[2, 1, 2, 17])), "padding that does not count upwards");
    assert_eq!(wrong(Mode::Payload, 1, &[2, 1, 0, 17]), Ok((vec![2, 1], 17)));
    let longest: Vec<u8> = [&[9; 7][..], &(1..=255).collect::<Vec<u8>>(), &[255, 6]].concat();
    assert_eq!(wrong(Mode::Payload, 1, &longest), Ok((vec![9; 7], 6)));
    let in_tunnel = |inner: &[u8], next| wrong(Mode::Tunnel, 1, &[inner, &[0, next]].concat());
    let inner = ipv4(2);
    assert_eq!(in_tunnel(&inner, 4), Ok((inner.clone(), 4)));
    assert_eq!(
        in_tunnel(&[&inner[..], &[0; 40]].concat(), 4),
        Ok((inner.clone(), 4)),
        "the padding after the inner packet is cut off"
    );
    assert!(malformed(in_tunnel(&inner, 41)) && malformed(in_tunnel(&inner, 17)));
    assert!(malformed(in_tunnel(&[0x45, 0, 255, 255, 0, 0], 4)) && malformed(in_tunnel(&ipv6(2)[..18], 41)));
    assert_eq!(in_tunnel(&[0; 14], 59), Err(PacketError::Dummy));
    // The number 0, which no packet has.
    let inbound = Association::new(SPI, GCM.0, &[7; 20], &[]).inbound(&gantry).unwrap();
    assert_eq!(opened(&inbound, &[&SPI.to_be_bytes()[..], &[0; 32]].concat()), Err(PacketError::Replayed));
}

#[test]
fn refuses_to_seal_malformed_packets_and_takes_no_number() {
    let gantry = gantry();
    for (mode, data) in [
        (Mode::Tunnel, &b""[..]),
        (Mode::Tunnel, &[0x45; 19]),
        (Mode::Tunnel, &[0x61; 39]),
        (Mode::Tunnel, &[0x15; 60]),
        (Mode::Transport, &[0x45; 60]),
        (Mode::Transport, b""),
    ] {
        let outbound = association(GCM, 5).mode(mode).outbound(&gantry).unwrap();
        let mut buffer = with_room(data);
        let before = buffer.clone();
        let mut packet = within(&mut buffer);
        assert!(matches!(outbound.seal(&mut packet), Err(PacketError::Malformed(_))), "{mode:?} {data:?}");
        assert_eq!((packet.data(), outbound.last_number()), (data, 0));
        assert_eq!(buffer, before);
    }
    let outbound = association(GCM, 5).mode(Mode::Transport).outbound(&gantry).unwrap();
    let mut buffer = with_room(&ipv4(65_500));
    assert!(matches!(
        outbound.seal(&mut within(&mut buffer)),
        Err(PacketError::Malformed("longer than an IP packet can be"))
    ));
    assert_eq!(outbound.last_number(), 0);
}

//! DSCP and ECN across the tunnel (RFC 6040, RFC 2983).

use gantry_lab::wait_until;
use nix::sys::socket::{setsockopt, sockopt};

use crate::keys::{Keys, V4, V6};
use crate::peer::{Peer, udp};
use crate::traffic::MARKER;
use crate::wire::{self, Listener};

/// Expedited forwarding, and the ECN marks.
const EF: u8 = 46 << 2;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// Returns the outer traffic classes of packets with these inner classes.
fn outer_classes(options: &str, classes: &[u8]) -> Vec<u8> {
    let peer = Peer::new(&Keys::gcm(), options);
    let wire = Listener::start(&peer.pair.a.namespace, "va");
    let host = &peer.pair.b;
    for inner in [V4, V6] {
        let program = host.udp(host.inner[inner], 0);
        program.connect((peer.inner(inner).0, 4000)).unwrap();
        for class in classes {
            if inner == V4 {
                setsockopt(&*program, sockopt::Ipv4Tos, &i32::from(*class)).unwrap();
            } else {
                setsockopt(&*program, sockopt::Ipv6TClass, &i32::from(*class)).unwrap();
            }
            program.send(MARKER).unwrap();
            // The inner header keeps the class that the program set.
            let packet = peer.receive();
            let inner_class = if inner == V4 { packet[1] } else { packet[0] << 4 | packet[1] >> 4 };
            assert_eq!(inner_class, *class);
        }
    }
    let esp = wire::esp(&wire.finish());
    let classes: Vec<u8> = esp.iter().map(|esp| esp.class).collect();
    let (v4, v6) = classes.split_at(classes.len() / 2);
    assert_eq!(v4, v6, "both families of packets are treated alike");
    v4.to_vec()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn the_outer_class_follows_the_flags_of_the_sa() {
    let classes = [0, EF, EF | ECT_0, ECT_1, 8 << 2 | CE];
    assert_eq!(outer_classes("replay-window 32", &classes), classes);
    let marks = classes.map(|class| class & 3);
    assert_eq!(outer_classes("replay-window 32 extra-flag dont-encap-dscp", &classes), marks);
    let services = classes.map(|class| class & !3);
    assert_eq!(outer_classes("replay-window 32 flag noecn", &classes), services);
}

/// Returns the classes of decapsulated packets, given pairs of inner and outer class. Also returns the count of
/// dropped packets.
fn decapsulated_classes(options: &str, pairs: &[(u8, u8)]) -> (Vec<Option<u8>>, u64) {
    let peer = Peer::new(&Keys::gcm(), options);
    let delivered = Listener::start(&peer.pair.b.namespace, "gantry0");
    let mut classes = Vec::new();
    for (at, (own, outer)) in pairs.iter().enumerate() {
        for inner in [V4, V6] {
            peer.send_as(*outer, &peer.seal(&udp(peer.inner(inner), 7, *own, &[at as u8; 8])));
        }
    }
    let end = [0xEE; 8];
    peer.send(&peer.seal(&udp(peer.inner(V4), 7, 0, &end)));
    let mut frames = Vec::new();
    wait_until("the last one arrives", || {
        frames.extend(delivered.take());
        frames.iter().any(|frame| frame.ends_with(&end))
    });
    for at in 0..pairs.len() {
        let mut classes_by_family = [0x40, 0x60].map(|version| {
            let mut frames = frames.iter();
            let matching = frames.find(|frame| frame[0] & 0xF0 == version && frame.ends_with(&[at as u8; 8]))?;
            Some(if version == 0x40 { matching[1] } else { matching[0] << 4 | matching[1] >> 4 })
        });
        assert_eq!(classes_by_family[0], classes_by_family[1], "both families of packets are treated alike");
        classes.push(classes_by_family[0].take());
    }
    (classes, peer.pair.b.counter("congested"))
}

#[test]
#[ignore = "needs root and network namespaces"]
fn congestion_marks_are_passed_on_or_the_packet_is_dropped() {
    let pairs = [(EF, EF), (ECT_0, ECT_0 | EF), (ECT_0, CE), (ECT_1, CE), (ECT_0, ECT_1), (CE, 0), (0, CE), (EF, CE)];
    let classes = [EF, ECT_0, CE, CE, ECT_1, CE].map(Some);
    let expected = [&classes[..], &[None, None]].concat();
    assert_eq!(decapsulated_classes("replay-window 32", &pairs), (expected, 4));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn classes_behind_the_tunnel_follow_the_flags_of_the_sa() {
    let pairs = [(EF | ECT_0, 8 << 2 | CE), (EF, 8 << 2), (0, EF)];
    let decapsulated = [8 << 2 | CE, 8 << 2, EF].map(Some).to_vec();
    assert_eq!(decapsulated_classes("replay-window 32 flag decap-dscp", &pairs), (decapsulated, 0));
    let own = [EF | ECT_0, EF, 0].map(Some).to_vec();
    assert_eq!(decapsulated_classes("replay-window 32 flag noecn", &pairs), (own, 0));
}

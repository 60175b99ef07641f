//! Faults of the wire, and packets from attackers: each is counted and dropped.

use std::net::IpAddr;
use std::time::Duration;

use gantry_core::{Algorithm, SessionParams};
use gantry_lab::wait_until;
use gantry_protocols::esp::{Integrity, Suite};
use gantry_runtime::Config;

use crate::host::EVENT_TIMEOUT;
use crate::keys::{Keys, V4, V6};
use crate::limits::Monitor;
use crate::peer::{OUTBOUND_SPI, Peer, udp};
use crate::traffic::{MARKER, Udp};

/// A tunnel from the test to a data path, and a program behind the data path.
struct Victim {
    peer: Peer,
    program: Udp,
}

impl Victim {
    fn new(keys: &Keys, options: &str) -> Self {
        let peer = Peer::new(keys, options);
        let program = peer.pair.b.udp(peer.pair.b.inner[V4], 0);
        Self { peer, program }
    }

    /// Seals a packet that contains a number and is addressed to the program.
    fn packet(&self, number: u8) -> Vec<u8> {
        self.packet_from(self.peer.inner(V4).0, number)
    }

    fn packet_from(&self, from: IpAddr, number: u8) -> Vec<u8> {
        let port = self.program.local_addr().unwrap().port();
        self.peer.seal(&udp((from, self.peer.inner(V4).1), port, 0, &[&[number][..], MARKER].concat()))
    }

    /// Receives the next number at the program.
    fn receive_number(&self) -> u8 {
        let mut buffer = [0; 64];
        self.program.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        self.program.recv(&mut buffer).expect("the data path still works");
        buffer[0]
    }

    /// Sends a good packet after all others, and waits until it arrives. Returns the counters of the others.
    fn counters_after_good_packet(&self) -> Vec<(String, u64)> {
        self.peer.send(&self.packet(255));
        assert_eq!(self.receive_number(), 255, "no other packet arrived");
        self.peer.counted()
    }

    fn assert_counters(&self, counters: &[(&str, u64)]) {
        let counters: Vec<_> = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(self.counters_after_good_packet(), counters);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_arrive_once_in_any_order_within_the_window() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    let packets: Vec<_> = (0..40).map(|number| victim.packet(number)).collect();
    // The newest packet comes first and ends the window, followed by the others in reverse order.
    for packet in packets.iter().rev() {
        victim.peer.send(packet);
    }
    let numbers: Vec<u8> = (0..32).map(|_| victim.receive_number()).collect();
    assert_eq!(numbers, (8..40).rev().collect::<Vec<_>>());
    // The eight packets before the window are too old; all others have arrived.
    victim.assert_counters(&[("replayed", 8)]);
    for packet in &packets {
        victim.peer.send(packet);
    }
    victim.assert_counters(&[("replayed", 48)]);
    let sas = victim.peer.pair.b.status()["sas"].clone();
    let sa = sas.as_array().unwrap().iter().find(|sa| sa["direction"] == "in").unwrap();
    assert_eq!((&sa["replayed"], &sa["packets"]), (&48.into(), &34.into()));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn lost_packets_delay_no_others() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    for round in 0..5_u8 {
        // Some packets are sealed and never sent.
        (0..round * 10).for_each(|number| drop(victim.packet(number)));
        victim.peer.send(&victim.packet(round));
        assert_eq!(victim.receive_number(), round);
    }
    victim.assert_counters(&[]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_packet_with_any_changed_bit_is_refused() {
    for keys in [
        Keys::gcm(),
        Keys::new(Suite::ChaCha20Poly1305, 36),
        Keys::new(Suite::AesCbc(Integrity::HmacSha256), 16),
        Keys::new(Suite::AesCtr(Integrity::HmacSha512), 36),
    ] {
        let victim = Victim::new(&keys, "replay-window 32");
        let packet = victim.packet(1);
        for at in 0..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1 << (at % 8);
            victim.peer.send(&changed);
        }
        // The first four bytes are the SPI. A changed packet does not move the window, regardless of its number.
        let others = packet.len() as u64 - 4;
        victim.peer.send(&packet);
        assert_eq!(victim.receive_number(), 1);
        victim.assert_counters(&[("forged", others), ("unknown_spi", 4)]);
    }
}

/// Only an authentic packet makes the daemon move the SA to a peer's new address (RFC 3948, 3.1.1).
#[test]
#[ignore = "needs root and network namespaces"]
fn only_an_authentic_packet_moves_its_peer() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    let (a, b) = (&victim.peer.pair.a, &victim.peer.pair.b);
    let monitor = Monitor::new(b);
    let send_from = |port, datagram: &[u8]| a.udp(a.outer[V4], port).send_to(datagram, (b.outer[V4], 4500)).unwrap();
    let old = victim.packet(1);
    victim.peer.send(&old);
    assert_eq!(victim.receive_number(), 1);
    let new = victim.packet(2);
    for at in 4..new.len() {
        let mut forged = new.clone();
        forged[at] ^= 1;
        send_from(4501, &forged);
    }
    send_from(4502, &old);
    victim.assert_counters(&[("forged", new.len() as u64 - 4), ("replayed", 1)]);
    send_from(4503, &new);
    assert_eq!(victim.receive_number(), 2);
    // Only the last packet causes a message.
    let mapping = monitor.await_lines(&["Mapping"]);
    assert!(mapping.contains("4503"), "{mapping}");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_truncated_packet_is_refused() {
    for keys in [Keys::gcm(), Keys::new(Suite::AesCbc(Integrity::HmacSha1), 16)] {
        let victim = Victim::new(&keys, "replay-window 32");
        let packet = victim.packet(1);
        for length in 0..packet.len() {
            victim.peer.send(&packet[..length]);
        }
        victim.peer.send(&[&packet[..], &[0]].concat());
        let counted = victim.counters_after_good_packet();
        let count = |name: &str| counted.iter().find(|(counter, _)| counter == name).map_or(0, |(_, value)| *value);
        // One byte is a NAT keep-alive, regardless of its value, and no byte at all is ignored.
        assert_eq!(count("short"), 6);
        assert_eq!(count("malformed") + count("forged"), packet.len() as u64 + 1 - 8, "{counted:?}");
        victim.peer.send(&packet);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_without_an_sa_are_counted_and_dropped() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    let packet = victim.packet(1);
    // The other end's SPI belongs to an outgoing SA, not to an incoming SA.
    for spi in [1, OUTBOUND_SPI + 1, OUTBOUND_SPI + 7, u32::MAX] {
        victim.peer.send(&[&spi.to_be_bytes(), &packet[4..]].concat());
    }
    victim.assert_counters(&[("unknown_spi", 4)]);
    // The largest possible datagrams, in fragments.
    victim.peer.send(&[&packet[..], &vec![0; 65_507 - packet.len()]].concat());
    victim.peer.send(&vec![0xEE; 65_507]);
    victim.assert_counters(&[("malformed", 1), ("unknown_spi", 5)]);
    // A NAT keep-alive and IKE datagrams are not errors, although no daemon is running.
    victim.peer.send(&[0xFF]);
    victim.peer.send(&[&[0; 4][..], &[7; 100]].concat());
    victim.peer.send(&[0; 4]);
    victim.assert_counters(&[("malformed", 1), ("short", 1), ("unknown_spi", 5)]);
    let mut garbage = [0; 1000];
    for round in 0..200 {
        getrandom::fill(&mut garbage[..8 + round]).unwrap();
        garbage[0] |= 0x80;
        victim.peer.send(&garbage[..8 + round]);
    }
    victim.assert_counters(&[("malformed", 1), ("short", 1), ("unknown_spi", 205)]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_authentic_packet_is_admitted_only_by_a_policy() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    for from in ["10.11.0.2", "10.12.0.1", "127.0.0.1", "10.1.0.1"] {
        victim.peer.send(&victim.packet_from(from.parse().unwrap(), 1));
    }
    let (near, far) = victim.peer.inner(V4);
    let port = victim.program.local_addr().unwrap().port();
    // Packets to other destinations, and a packet of the wrong family.
    for to in ["10.2.0.2", "127.0.0.1", "10.12.0.2"] {
        victim.peer.send(&victim.peer.seal(&udp((near, to.parse().unwrap()), port, 0, MARKER)));
    }
    let near_v6 = "fd11::2".parse().unwrap();
    victim.peer.send(&victim.peer.seal(&udp((near_v6, victim.peer.inner(V6).1), port, 0, MARKER)));
    victim.assert_counters(&[("unadmitted", 8)]);
    // A policy with another reqid than the SA's admits no packet.
    let selector = format!("src {near}/32 dst {far}/32 dir in");
    victim.peer.pair.b.xfrm(&format!("policy update {selector} tmpl proto esp reqid 9 mode tunnel"));
    victim.peer.send(&victim.packet(1));
    victim.peer.pair.b.await_counter("unadmitted", 9);
    victim.peer.pair.b.xfrm(&format!("policy update {selector} action block tmpl proto esp reqid 1 mode tunnel"));
    victim.peer.send(&victim.packet(1));
    victim.peer.pair.b.await_counter("unadmitted", 10);
    victim.peer.pair.b.xfrm(&format!("policy update {selector} tmpl proto esp reqid 1 mode tunnel"));
    victim.assert_counters(&[("unadmitted", 10)]);
}

/// As in Linux, `in` is for packets to this host and `fwd` for packets to others; the policy with the best priority decides.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_blocking_policy_applies_despite_one_of_the_other_direction() {
    let victim = Victim::new(&Keys::gcm(), "replay-window 32");
    let (near, far) = victim.peer.inner(V4);
    let host = &victim.peer.pair.b;
    let template = "tmpl proto esp reqid 1 mode tunnel";
    let all = "src 10.11.0.0/16 dst 10.12.0.0/16";
    host.xfrm(&format!("policy add {all} dir fwd priority 100 {template}"));
    let own_selector = format!("src {near}/32 dst {far}/32 dir in");
    host.xfrm(&format!("policy update {own_selector} action block {template}"));
    victim.peer.send(&victim.packet(1));
    host.await_counter("unadmitted", 1);
    host.xfrm(&format!("policy delete {own_selector}"));
    victim.peer.send(&victim.packet(1));
    host.await_counter("unadmitted", 2);
    // A blocking policy has no effect behind a policy with a better priority.
    host.xfrm(&format!("policy add {all} dir in priority 9 {template}"));
    host.xfrm(&format!("policy add {own_selector} priority 10 action block"));
    victim.assert_counters(&[("unadmitted", 2)]);
    // The reverse case: packets to a host behind this host.
    let host_behind = "10.12.0.99".parse().unwrap();
    host.xfrm(&format!("policy add src {near}/32 dst {host_behind}/32 dir fwd priority 1 action block"));
    let packet = |to| victim.peer.seal(&udp((near, to), 9, 0, MARKER));
    victim.peer.send(&packet(host_behind));
    host.await_counter("unadmitted", 3);
    // While the host has the address, the packets are for this host, and the policy for forwarded packets does not block them.
    let await_refusals = |refusals_per_packet: u64| {
        let mut before = host.counter("unadmitted");
        wait_until("packets are refused", || {
            victim.peer.send(&packet(host_behind));
            let current = host.counter("unadmitted");
            let is_reached = current - before == refusals_per_packet;
            before = current;
            is_reached
        });
    };
    host.namespace.ip("address add 10.12.0.99/32 dev lo");
    await_refusals(0);
    host.namespace.ip("address delete 10.12.0.99/32 dev lo");
    await_refusals(1);
}

/// Only a peer with the keys can send these packets.
#[test]
#[ignore = "needs root and network namespaces"]
fn malformed_packets_within_esp_are_dropped() {
    let keys = Keys::new(Suite::Null(Integrity::HmacSha256), 0);
    let victim = Victim::new(&keys, "replay-window 128");
    let gantry = gantry_runtime::open(Config::default()).unwrap();
    let session = gantry.session(SessionParams::new(Algorithm::HmacSha256, &keys.integrity_key)).unwrap();
    let mut number = 100_u32;
    // After the ESP header: payload, padding, the length of the padding, and the next header (RFC 4303, 2).
    let mut send = |rest: &[u8]| {
        number += 1;
        let mut packet = [&OUTBOUND_SPI.to_be_bytes(), &number.to_be_bytes(), rest].concat();
        let mut tag = [0; 32];
        session.mac(&packet, &mut tag).unwrap();
        packet.extend_from_slice(&tag[..16]);
        victim.peer.send(&packet);
    };
    let (near, far) = victim.peer.inner(V4);
    let good = udp((near, far), victim.program.local_addr().unwrap().port(), 0, &[7; 10]);
    send(&[&good[..], &[0, 4]].concat());
    assert_eq!(victim.receive_number(), 7);
    // A dummy packet (RFC 4303, 2.6).
    send(&[&[9; 22][..], &[0, 59]].concat());
    victim.peer.pair.b.await_counter("dummies", 1);
    let malformed: [&[u8]; 8] = [
        // Padding that exceeds the packet; no trailer at all; padding that is not 1, 2, 3; another protocol.
        &[0xFF, 4],
        &[],
        &[&good[..], &[1, 2, 4, 3, 4]].concat(),
        &[&good[..], &[0, 6]].concat(),
        // Invalid IPv4: no header, a truncated header, another version, a length that exceeds the packet.
        &[1, 2, 2, 4],
        &[&good[..18], &[0, 4]].concat(),
        &[&[0x75][..], &good[1..], &[0, 4]].concat(),
        &[&good[..good.len() - 4], &[0, 4]].concat(),
    ];
    for (at, rest) in malformed.into_iter().enumerate() {
        send(rest);
        victim.peer.pair.b.await_counter("malformed", at as u64 + 1);
    }
    victim.program.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(victim.program.recv(&mut [0; 64]).is_err());
    wait_until("the next packet arrives", || {
        send(&[&good[..], &[0, 4]].concat());
        victim.program.recv(&mut [0; 64]).is_ok()
    });
}

//! Transport mode: ESP between the addresses of two hosts.

use std::net::IpAddr;

use gantry_abi_xfrm::preload::EXEMPT_MARK;
use gantry_core::Gantry;
use gantry_lab::wait_until;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Mode, Outbound};
use gantry_runtime::Config;
use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6};
use crate::paths::{path_mtu, set_mtu};
use crate::plaintext::{Wire, try_everything};
use crate::traffic::{MARKER, Udp, datagrams, stream};
use crate::wire::{self, Listener};

const WINDOW: &str = "replay-window 128";

/// Sets the inner addresses of both hosts to their outer addresses, which transport mode protects.
fn without_tunnel(mut pair: Pair) -> Pair {
    for host in [&mut pair.a, &mut pair.b] {
        host.inner = host.outer;
    }
    pair
}

fn pair(plan: &Plan) -> Pair {
    without_tunnel(Pair::with_data_paths(plan))
}

/// Adds SAs of transport mode in both directions.
fn install(pair: &Pair, family: usize, in_udp: bool) {
    let keys = Keys::gcm();
    let a_to_b = Sa { outer: family, in_udp, options: WINDOW, ..Sa::new(&pair.a, &pair.b, 0x1001, &keys) };
    let b_to_a =
        Sa { outer: family, in_udp, options: WINDOW, ..Sa::new(&pair.b, &pair.a, 0x1002, &keys.with_other_keys()) };
    for host in [&pair.a, &pair.b] {
        for sa in [&a_to_b, &b_to_a] {
            host.xfrm(&sa.add_command().replace("mode tunnel flag af-unspec", "mode transport"));
        }
    }
}

/// Adds SAs of transport mode, and policies for packets between the hosts that match `further` selectors.
fn protect(pair: &Pair, family: usize, in_udp: bool, further: &str) {
    install(pair, family, in_udp);
    for (host, other) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        add_policies(host, other, family, further);
    }
}

/// Adds the policies of a host. The templates have no addresses, like charon's templates.
fn add_policies(host: &Host, other: &Host, family: usize, further: &str) {
    let (near, far) = (host.outer[family], other.outer[family]);
    let template = "tmpl proto esp reqid 1 mode transport";
    host.xfrm(&format!("policy add src {near} dst {far} {further} dir out priority 9 {template}"));
    host.xfrm(&format!("policy add src {far} dst {near} {further} dir in {template}"));
}

/// Panics if a host has dropped packets, except packets that every stack sends to a new device.
fn assert_nothing_dropped(pair: &Pair) {
    for host in [&pair.a, &pair.b] {
        for counter in ["unfit", "unadmitted", "malformed", "unsent", "replayed", "undelivered", "forged"] {
            assert_eq!(host.counter(counter), 0, "{counter}");
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn hosts_exchange_packets_of_every_size_and_family() {
    for (family, in_udp, queues) in
        [(V4, true, 1), (V4, false, 1), (V6, true, 1), (V6, false, 1), (V4, true, 3), (V6, false, 3)]
    {
        let pair = pair(&Plan { queues, ..Plan::default() });
        for host in [&pair.a, &pair.b] {
            for device in ["all", "gantry0", host.device] {
                host.namespace.sysctl(&format!("ipv4/conf/{device}/rp_filter"), "1");
            }
        }
        let wire = [Listener::start(&pair.a.namespace, "va"), Listener::start(&pair.b.namespace, "vb")];
        protect(&pair, family, in_udp, "");
        // The stack passes datagrams beyond the MTU of the device in fragments; the data path sends each datagram as a whole.
        let sizes = [0, 1, 500, 1300, 1352, 1372, 1373, 1440, 5000, 20_000, 60_000];
        datagrams(&pair.a, &pair.b, family, sizes.into_iter());
        for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
            stream(from, to, family, 4 << 20);
            from.pings(10, "-s 1000", to.outer[family]);
            from.pings(3, "-s 8000", to.outer[family]);
        }
        for wire in wire {
            let frames = wire.finish();
            assert!(wire::count_sealed(&frames) > 100);
            assert!(wire::esp(&frames).iter().all(|esp| esp.in_udp == in_udp && [0x1001, 0x1002].contains(&esp.spi)));
        }
        assert_nothing_dropped(&pair);
    }
}

/// The policy of a client of L2TP (RFC 3193).
#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_for_l2tp_protects_its_port_alone() {
    for family in [V4, V6] {
        let pair = pair(&Plan::default());
        protect(&pair, family, true, "proto udp sport 1701 dport 1701");
        let wire = Wire::new(&pair);
        let [near, far] = [&pair.a, &pair.b].map(|host| host.udp(host.outer[family], 1701));
        let mut buffer = vec![0; 4000];
        // Frames of PPP, whose MTU L2TP programs set to 1,400 to 1,460 bytes, and longer frames.
        for size in [40, 1400, 1460, 1500, 3000] {
            let sent = crate::traffic::payload(size);
            near.send_to(&sent, far.local_addr().unwrap()).unwrap();
            let (length, from) = far.recv_from(&mut buffer).expect("the frame arrives");
            assert!(buffer[..length] == sent && from == near.local_addr().unwrap());
            far.send_to(&sent, from).unwrap();
            assert_eq!(near.recv(&mut buffer).expect("the answer arrives"), size);
        }
        assert!(wire.count_sealed() >= 10);
        assert_nothing_dropped(&pair);
        let wire = Wire::new(&pair);
        datagrams(&pair.a, &pair.b, family, [100].into_iter());
        assert!(wire.has_clear_frames(), "other ports");
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn no_packet_leaves_in_clear_without_an_sa() {
    for family in [V4, V6] {
        let pair = pair(&Plan::default());
        let wire = Wire::new(&pair);
        for family in [V4, V6] {
            add_policies(&pair.a, &pair.b, family, "");
        }
        try_everything(&pair.a, &pair.b);
        wait_until("packets are held", || pair.a.counter("without_sa") > 1);
        // A packet of IKE passes: the library marks the socket.
        let ike = pair.a.udp(pair.a.outer[family], 500);
        setsockopt(&*ike, sockopt::Mark, &EXEMPT_MARK).unwrap();
        let peer = pair.b.udp(pair.b.outer[family], 500);
        ike.send_to(b"IKE", peer.local_addr().unwrap()).unwrap();
        assert_eq!(peer.recv(&mut [0; 9]).expect("IKE arrives"), 3);
        assert!(!wire.take_has_plaintext());
        // Packets do not leave in clear either once the SAs are removed.
        install(&pair, family, true);
        add_policies(&pair.b, &pair.a, family, "");
        datagrams(&pair.a, &pair.b, family, [1000].into_iter());
        pair.a.xfrm("state flush");
        try_everything(&pair.a, &pair.b);
        assert!(!wire.take_has_plaintext());
    }
}

/// A notice to the sender would also lower the path MTU of ESP packets, which have the same destination.
#[test]
#[ignore = "needs root and network namespaces"]
fn packets_beyond_the_path_mtu_are_fragmented_behind_esp() {
    for (family, in_udp) in [(V4, true), (V4, false), (V6, true), (V6, false)] {
        let (pair, router) = Pair::routed();
        let mut pair = without_tunnel(pair);
        set_mtu(&pair, &router, 1396);
        pair.serve(&Plan::default());
        protect(&pair, family, in_udp, "");
        for (host, device) in [(&pair.a, "va"), (&pair.b, "vb")] {
            // Without segmentation offload the wire shows single packets.
            host.namespace.ip(&format!("link set {device} gso_max_segs 1"));
        }
        let (to, headers) = (pair.b.outer[family], [28, 48][family]);
        let wire = Listener::start(&pair.b.namespace, "vb");
        // In IPv6 the first packet tells this host the path MTU; in IPv4 the router fragments.
        wait_until("packets fit the path", || pair.a.ping(&format!("-W 0.2 -s {}", 1396 - headers), to).0 == 1);
        pair.a.pings(5, &format!("-M do -s {}", 1396 - headers), to);
        wait_until("datagrams fit the path", || pair.a.ping("-W 0.2 -s 3000", to).0 == 1);
        for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
            stream(from, to, family, 1 << 20);
        }
        assert!([&pair.a, &pair.b].iter().all(|host| path_mtu(host) >= 1396));
        let frames = wire.finish();
        wire::count_sealed(&frames);
        assert!(frames.iter().all(|frame| frame.len() <= 14 + 1396));
        assert_nothing_dropped(&pair);
    }
}

/// A host with a data path, and the test as its peer behind a NAT: the SA names an address from which nothing comes.
struct Peer {
    pair: Pair,
    socket: Udp,
    out: Outbound,
}

/// The peer's address in the SA.
const PUBLIC: &str = "203.0.113.9";

impl Peer {
    fn new(options: &str) -> Self {
        let mut pair = without_tunnel(Pair::linked());
        pair.b.serve(&Plan::default());
        let socket = pair.a.udp(pair.a.outer[V4], 4500);
        socket.connect((pair.b.outer[V4], 4500)).unwrap();
        let (near, keys) = (pair.b.outer[V4], Keys::gcm());
        let encap = "encap espinudp 4500 4500 0.0.0.0";
        pair.b.xfrm(&format!(
            "state add src {PUBLIC} dst {near} proto esp spi 0x1001 reqid 1 mode transport {} {encap} {options}",
            keys.text()
        ));
        let template = "tmpl proto esp reqid 1 mode transport";
        pair.b.xfrm(&format!("policy add src {PUBLIC} dst {near} dir in {template}"));
        let gantry: Gantry = gantry_runtime::open(Config::default()).unwrap();
        let association = Association::new(0x1001, keys.suite, &keys.key, &keys.integrity_key).mode(Mode::Payload);
        let out = association.outbound(&gantry).unwrap();
        Self { pair, socket, out }
    }

    /// Sends the payload of an IP packet.
    fn send(&self, next: u8, payload: &[u8]) {
        let (head, tail) = self.out.overhead(payload.len());
        let mut buffer = vec![0; head + payload.len() + tail];
        buffer[head..head + payload.len()].copy_from_slice(payload);
        let mut packet = Packet::new(&mut buffer, head..head + payload.len());
        packet.next_header = next;
        self.out.seal(&mut packet).unwrap();
        self.socket.send(packet.data()).unwrap();
    }
}

/// Builds a datagram whose checksum covers the private addresses `from` and `to`.
fn datagram((from, to): (IpAddr, IpAddr), port: u16) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { panic!("IPv4 alone") };
    let length = (8 + MARKER.len() as u16).to_be_bytes();
    let mut datagram = [&4000_u16.to_be_bytes()[..], &port.to_be_bytes(), &length, &[0, 0], MARKER].concat();
    let pseudo = [&from.octets()[..], &to.octets(), &[0, 17], &length, &datagram].concat();
    let sum: u32 = pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    datagram[6..8].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes());
    datagram
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_behind_a_nat_come_from_the_address_of_the_sa() {
    let peer = Peer::new("");
    let host = &peer.pair.b;
    let program = host.udp(host.outer[V4], 0);
    let port = program.local_addr().unwrap().port();
    let packet = datagram((peer.pair.a.outer[V4], host.outer[V4]), port);
    let mut buffer = [0; 100];
    for padding in [0, 1, 100] {
        // Padding for the confidentiality of traffic follows the datagram.
        peer.send(17, &[&packet[..], &vec![0; padding]].concat());
        let (length, from) = program.recv_from(&mut buffer).expect("the checksum is correct");
        assert_eq!((&buffer[..length], from), (&MARKER[..], (PUBLIC.parse::<IpAddr>().unwrap(), 4000).into()));
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn odd_payloads_are_counted_or_left_to_the_stack() {
    const NO_NEXT_HEADER: u8 = 59;
    let peer = Peer::new("");
    let host = &peer.pair.b;
    let delivered = Listener::start(&host.namespace, "gantry0");
    peer.send(NO_NEXT_HEADER, b"dummy");
    host.await_counter("dummies", 1);
    // No payload, a payload shorter than its header, and IP in IP (RFC 3884), which only a device for IP in IP would take.
    let inner = crate::peer::udp((peer.pair.a.outer[V4], host.outer[V4]), 9, 0, b"within");
    for (at, (next, payload)) in (1..).zip([(17, &[][..]), (6, &[1, 2, 3]), (58, &[1]), (4, &inner)]) {
        peer.send(next, payload);
        host.await_counter("received_packets", at);
    }
    wait_until("the stack gets four packets", || delivered.peek().len() >= 4);
    for counter in ["malformed", "unadmitted", "undelivered", "failed"] {
        assert_eq!(host.counter(counter), 0, "{counter}");
    }
}

//! ESP without UDP: protocol 50 between raw sockets.

use std::net::IpAddr;

use gantry_lab::wait_until;
use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6, add_policies};
use crate::paths::{path_mtu, reported_mtu, set_mtu};
use crate::traffic::{MARKER, datagrams, stream};
use crate::wire::{self, Esp, Listener};

const WINDOW: &str = "replay-window 128";

/// Panics unless a host has sent packets of one SA without UDP, numbered from 1.
fn assert_raw(packets: &[Esp], from: IpAddr, spi: u32) {
    let sent: Vec<&Esp> = packets.iter().filter(|packet| packet.from == from).collect();
    assert!(sent.iter().all(|packet| !packet.in_udp && packet.spi == spi));
    assert!(sent.iter().map(|packet| packet.sequence_number).eq(1..=sent.len() as u32), "{from} numbers them");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_tunnel_without_udp_carries_both_families() {
    for (outer, queues) in [(V4, 1), (V6, 1), (V4, 3), (V6, 3)] {
        let pair = Pair::with_data_paths(&Plan { queues, ..Plan::default() });
        pair.add_tunnel_with_encap(&Keys::gcm(), outer, WINDOW, false);
        let wire = Listener::start(&pair.a.namespace, pair.a.device);
        for inner in [V4, V6] {
            datagrams(&pair.a, &pair.b, inner, [0, 1, 500, 1300, 5000].into_iter());
        }
        let frames = wire.take();
        let packets = wire::esp(&frames);
        assert_eq!(wire::count_sealed(&frames), packets.len());
        for (host, spi) in [(&pair.a, 0x1001), (&pair.b, 0x1002)] {
            assert_raw(&packets, host.outer[outer], spi);
        }
        for inner in [V4, V6] {
            stream(&pair.a, &pair.b, inner, 1 << 20);
        }
        assert!(wire::count_sealed(&wire.finish()) > 1000);
        for host in [&pair.a, &pair.b] {
            for counter in ["mismatched", "unknown_spi", "short", "malformed", "unsent", "replayed"] {
                assert_eq!(host.counter(counter), 0, "{counter}");
            }
        }
        let peer = &pair.a.status()["sas"][0]["peer"];
        assert_eq!(*peer, pair.b.outer[outer].to_string());
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn the_outer_header_without_udp_has_the_class_and_the_flag_of_the_sa() {
    const EF_ECT: i32 = 46 << 2 | 2;
    const DF: u8 = 0x40;
    for (options, flag) in [(WINDOW.to_owned(), DF), (format!("{WINDOW} flag nopmtudisc"), 0)] {
        for outer in [V4, V6] {
            let pair = Pair::with_data_paths(&Plan::default());
            pair.add_tunnel_with_encap(&Keys::gcm(), outer, &options, false);
            let wire = Listener::start(&pair.b.namespace, pair.b.device);
            let (from, to) = (pair.a.udp(pair.a.inner[V4], 0), pair.b.udp(pair.b.inner[V4], 0));
            setsockopt(&*from, sockopt::Ipv4Tos, &EF_ECT).unwrap();
            from.send_to(MARKER, to.local_addr().unwrap()).unwrap();
            to.recv(&mut [0; 100]).unwrap();
            let frames = wire.finish();
            let classed =
                |frame: &&Vec<u8>| wire::esp(std::slice::from_ref(*frame)).iter().any(|esp| esp.class == EF_ECT as u8);
            let found: Vec<_> = frames.iter().filter(classed).collect();
            assert_eq!(found.len(), 1, "{options}: {frames:02x?}");
            // The flag is behind the Ethernet header, in the seventh byte of the IPv4 header.
            assert!(outer == V6 || found[0][14 + 6] & DF == flag, "{options}: {found:02x?}");
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_path_without_udp_carries_eight_bytes_more() {
    let mtus = [true, false].map(|in_udp| {
        [V4, V6].map(|outer| {
            let (mut pair, router) = Pair::routed();
            set_mtu(&pair, &router, 1396);
            pair.serve(&Plan::default());
            pair.add_tunnel_with_encap(&Keys::gcm(), outer, WINDOW, in_udp);
            let to = pair.b.inner[V4];
            let mtu = reported_mtu(&pair.a, to);
            pair.a.pings(2, &format!("-M do -s {}", mtu - 28), to);
            assert_eq!(path_mtu(&pair.a), 1396);
            mtu
        })
    });
    assert_eq!(mtus[1], mtus[0].map(|mtu| mtu + 8));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn ipv6_crosses_a_narrow_path_in_fragments_of_protocol_50() {
    for (outer, mtu) in [(V4, 700), (V6, 1280)] {
        let (mut pair, router) = Pair::routed();
        set_mtu(&pair, &router, mtu);
        pair.serve(&Plan { queues: 2, ..Plan::default() });
        pair.add_tunnel_with_encap(&Keys::gcm(), outer, WINDOW, false);
        wait_until("the path is known", || {
            pair.a.ping("-W 0.2 -s 1200", pair.b.inner[V6]);
            path_mtu(&pair.a) == u64::from(mtu)
        });
        pair.a.pings(3, "-s 1232", pair.b.inner[V6]);
        stream(&pair.a, &pair.b, V6, 1 << 17);
        stream(&pair.b, &pair.a, V4, 1 << 17);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_admits_only_packets_of_its_own_encapsulation() {
    for outer in [V4, V6] {
        for in_udp in [true, false] {
            let pair = Pair::with_data_paths(&Plan::default());
            let keys = Keys::gcm();
            let a_to_b = Sa { outer, in_udp, ..Sa::new(&pair.a, &pair.b, 0x1001, &keys) };
            let b_to_a = Sa { outer, in_udp, ..Sa::new(&pair.b, &pair.a, 0x1002, &keys.with_other_keys()) };
            for sa in [&a_to_b, &b_to_a] {
                sa.from.xfrm(&sa.add_command());
                sa.to.xfrm(&Sa { in_udp: !in_udp, ..sa.clone() }.add_command());
            }
            add_policies(&a_to_b, &b_to_a);
            add_policies(&b_to_a, &a_to_b);
            let wire = Listener::start(&pair.a.namespace, pair.a.device);
            let from = pair.a.udp(pair.a.inner[V4], 0);
            for at in 1..4 {
                from.send_to(MARKER, (pair.b.inner[V4], 9)).unwrap();
                pair.b.await_counter("mismatched", at);
            }
            // Neither the other end nor its kernel answers these packets.
            let answers: Vec<_> =
                wire::esp(&wire.finish()).into_iter().filter(|packet| packet.from == pair.b.outer[outer]).collect();
            assert_eq!(answers, []);
            assert_eq!(pair.b.counter("received_packets"), 0);
        }
    }
}

//! Tunnels of every suite and address family, and their traffic.

use gantry_protocols::esp::Suite;

use crate::host::{Pair, Plan};
use crate::keys::{Keys, V4, V6, suites};
use crate::traffic::{datagrams, stream};
use crate::wire::{self, Listener};

#[test]
#[ignore = "needs root and network namespaces"]
fn every_suite_carries_ipv4_and_ipv6_over_ipv4_and_ipv6() {
    let pair = Pair::with_data_paths(&Plan::default());
    let (suites, mut count) = (suites(), 0);
    assert_eq!(suites.len(), 57);
    for keys in &suites {
        // AES-GMAC has no extended sequence numbers here.
        let extended = (keys.suite != Suite::AesGmac).then_some("replay-window 128 flag esn");
        for options in ["replay-window 32"].into_iter().chain(extended) {
            for outer in [V4, V6] {
                pair.add_tunnel(keys, outer, options);
                for inner in [V4, V6] {
                    datagrams(&pair.a, &pair.b, inner, [8, 1000].into_iter());
                }
                // Host A has sent two datagrams from each inner address through the tunnel.
                count += 4;
                pair.a.await_counter("sent_packets", count);
                pair.remove_tunnel();
            }
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn streams_and_echoes_arrive_whole() {
    let pair = Pair::with_data_paths(&Plan::default());
    let wire = [Listener::start(&pair.a.namespace, "va"), Listener::start(&pair.b.namespace, "vb")];
    let bytes = 4 << 20;
    for outer in [V4, V6] {
        pair.add_tunnel(&Keys::gcm(), outer, "replay-window 128");
        for inner in [V4, V6] {
            stream(&pair.a, &pair.b, inner, bytes);
            stream(&pair.b, &pair.a, inner, bytes);
            pair.a.pings(20, "-s 1000", pair.b.inner[inner]);
            pair.b.pings(20, "-s 16", pair.a.inner[inner]);
        }
        pair.remove_tunnel();
    }
    // Segments of a stream are encrypted in batches, of more than two packets on average.
    let [packets, batches] = ["sent_packets", "sent_batches"].map(|name| pair.a.counter(name));
    assert!(packets > 2 * batches, "{packets} packets in {batches} batches");
    for wire in wire {
        assert!(wire::count_sealed(&wire.finish()) > 0);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn datagrams_of_every_size_arrive() {
    let pair = Pair::with_data_paths(&Plan::default());
    for (outer, headers) in [(V4, [28, 48]), (V6, [28, 48])] {
        pair.add_tunnel(&Keys::gcm(), outer, "replay-window 128");
        for (inner, headers) in [V4, V6].into_iter().zip(headers) {
            // All packet sizes from 64 bytes to the MTU of the TUN device.
            datagrams(&pair.a, &pair.b, inner, 64 - headers.min(64)..=1400 - headers);
        }
        pair.remove_tunnel();
    }
    assert_eq!(pair.a.counter("fragmented") + pair.a.counter("too_long"), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn devices_without_segmentation_get_single_packets() {
    let pair = Pair::with_tunnel(&Plan::default());
    for host in [&pair.a, &pair.b] {
        host.namespace.ip(&format!("link set {} gso_max_segs 1", host.device));
    }
    let wire = Listener::start(&pair.a.namespace, "va");
    for inner in [V4, V6] {
        stream(&pair.a, &pair.b, inner, 2 << 20);
        stream(&pair.b, &pair.a, inner, 2 << 20);
    }
    let frames = wire.finish();
    assert!(wire::count_sealed(&frames) > 4000);
    assert!(frames.iter().all(|frame| frame.len() <= 1514));
}

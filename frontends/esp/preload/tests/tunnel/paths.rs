//! Paths with a smaller MTU than the packets: fragments, notices to senders, and paths that change.

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, V4, V6};
use crate::namespace::Namespace;
use crate::traffic::{datagrams, stream, stream_while};
use crate::wire::{self, Listener};
use gantry_lab::wait_until;

/// Creates a tunnel over a router whose link to the second host has an MTU of `mtu` bytes. The second host knows the MTU; the first host
/// learns it by notices.
fn narrow_path(outer: usize, mtu: u32) -> (Pair, Namespace) {
    let (mut pair, router) = Pair::routed();
    set_mtu(&pair, &router, mtu);
    pair.serve(&Plan::default());
    pair.add_tunnel(&Keys::gcm(), outer, "replay-window 128");
    (pair, router)
}

/// Changes the MTU of the link between router and second host.
pub(crate) fn set_mtu(pair: &Pair, router: &Namespace, mtu: u32) {
    router.ip(&format!("link set rb mtu {mtu}"));
    pair.b.namespace.ip(&format!("link set vb mtu {mtu}"));
}

/// Returns the path MTU that a host's outgoing SA knows.
pub(crate) fn path_mtu(host: &Host) -> u64 {
    let status = host.status();
    let mut sas = status["sas"].as_array().unwrap().iter();
    sas.find(|sa| sa["direction"] == "out").unwrap()["path_mtu"].as_u64().unwrap()
}

/// Returns the MTU inside the tunnel, as a notice to `ping` tells it.
pub(crate) fn reported_mtu(host: &Host, to: std::net::IpAddr) -> usize {
    let mut reported = None;
    wait_until("a notice tells the MTU", || {
        let (_, text) = host.ping("-W 0.2 -M do -s 1352", to);
        // `ping` prints "Frag needed and DF set (mtu = 1242)", "Packet too big: mtu=1280", "message too long, mtu: 1242".
        let mtu = text.split(['=', ':']).filter(|part| part.trim_start().starts_with('1')).find_map(|part| {
            let digits: String = part.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok().filter(|mtu| (1000..1400).contains(mtu))
        });
        reported = mtu.filter(|_| text.contains("mtu"));
        reported.is_some()
    });
    reported.unwrap()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_sender_that_forbids_fragments_learns_the_mtu() {
    for outer in [V4, V6] {
        let (pair, _router) = narrow_path(outer, 1400);
        for inner in [V4, V6] {
            let (header_bytes, to) = ([28, 48][inner], pair.b.inner[inner]);
            let mtu = reported_mtu(&pair.a, to);
            pair.a.pings(2, &format!("-M do -s {}", mtu - header_bytes), to);
            // The headers and the trailer of ESP take 34 bytes, and ESP pads to four bytes.
            assert!(mtu + 4 > 1400 - [20, 40][outer] - 8 - 34, "more than {mtu} bytes would fit");
            assert_eq!(pair.a.ping(&format!("-W 0.2 -M do -s {}", mtu - header_bytes + 1), to).0, 0);
        }
        assert_eq!(path_mtu(&pair.a), 1400);
        assert!(pair.a.counter("too_long") > 0 && pair.a.counter("fragmented") == 0);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_ipv4_packet_is_fragmented_if_allowed() {
    for outer in [V4, V6] {
        let (pair, _router) = narrow_path(outer, 1380);
        // Without segmentation offload the wire shows single packets.
        pair.a.namespace.ip("link set va gso_max_segs 1");
        let listener = Listener::start(&pair.b.namespace, "vb");
        // The first packets tell the data path the MTU.
        wait_until("the path is known", || {
            pair.a.ping("-W 0.2 -M dont -s 1372", pair.b.inner[V4]);
            path_mtu(&pair.a) == 1380
        });
        // A packet is counted after it has left: perhaps after its answer has arrived, but before the next packet leaves.
        pair.a.pings(1, "-s 100", pair.b.inner[V4]);
        let fragmented_before = pair.a.counter("fragmented");
        pair.a.pings(10, "-M dont -s 1372", pair.b.inner[V4]);
        pair.a.await_counter("fragmented", fragmented_before + 10);
        // The stack has fragmented these packets already, to the MTU of the device.
        pair.a.pings(5, "-M dont -s 8000", pair.b.inner[V4]);
        // In IPv6 only the sender fragments, once it knows the path MTU.
        wait_until("the sender knows the path", || pair.a.ping("-W 0.2 -s 8000", pair.b.inner[V6]).0 == 1);
        pair.a.pings(5, "-s 8000", pair.b.inner[V6]);
        let frames = listener.finish();
        wire::count_sealed(&frames);
        // A frame has 14 bytes of Ethernet, and up to 1,380 bytes behind them.
        assert!(wire::esp(&frames).iter().all(|esp| esp.from != pair.a.outer[outer] || esp.bytes <= 1394));
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_stream_continues_when_its_path_mtu_falls() {
    for outer in [V4, V6] {
        let (pair, router) = narrow_path(outer, 1500);
        let listeners = [Listener::start(&pair.a.namespace, "va"), Listener::start(&pair.b.namespace, "vb")];
        for (inner, mtu) in [(V4, 1400), (V6, 1380)] {
            stream_while(&pair.a, &pair.b, inner, 2 << 20, |part| {
                if part == 4 {
                    set_mtu(&pair, &router, mtu);
                }
            });
            assert_eq!(path_mtu(&pair.a), u64::from(mtu), "{inner} in {outer}");
            stream(&pair.b, &pair.a, inner, 1 << 20);
            // The other end learns the MTU from its device, once it sends a packet that is too long.
            let (header_bytes, to) = ([28, 48][inner], pair.a.inner[inner]);
            wait_until("the other end knows the MTU", || {
                pair.b.ping(&format!("-W 0.2 -M do -s {}", reported_mtu(&pair.b, to) - header_bytes), to);
                path_mtu(&pair.b) == u64::from(mtu)
            });
        }
        for listener in listeners {
            wire::count_sealed(&listener.finish());
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_path_below_the_ipv6_minimum_carries_ipv4() {
    let (pair, _router) = narrow_path(V4, 700);
    stream(&pair.a, &pair.b, V4, 1 << 20);
    assert_eq!(path_mtu(&pair.a), 700);
    assert!(reports_mtu_below_700(&pair.a, pair.b.inner[V4]));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_path_below_the_ipv6_minimum_carries_ipv6_in_fragments() {
    for (outer, mtu) in [(V4, 700), (V4, 1300), (V6, 1280)] {
        let (pair, _router) = narrow_path(outer, mtu);
        // Without segmentation offload the wire shows single packets.
        pair.a.namespace.ip("link set va gso_max_segs 1");
        pair.b.namespace.ip("link set vb gso_max_segs 1");
        wait_until("the path is known", || {
            pair.a.ping("-W 0.2 -s 1200", pair.b.inner[V6]);
            path_mtu(&pair.a) == u64::from(mtu)
        });
        let listener = Listener::start(&pair.b.namespace, "vb");
        pair.a.pings(1, "-s 100", pair.b.inner[V6]);
        let fragmented_before = pair.a.counter("fragmented");
        assert_eq!(reported_mtu(&pair.a, pair.b.inner[V6]), 1280);
        pair.a.pings(5, "-s 1232", pair.b.inner[V6]);
        pair.a.await_counter("fragmented", fragmented_before + 5);
        stream(&pair.a, &pair.b, V6, 1 << 18);
        stream(&pair.b, &pair.a, V6, 1 << 18);
        // Packets that fit are not fragmented.
        datagrams(&pair.a, &pair.b, V4, [100, 500].into_iter());
        let fragmented_before = pair.a.counter("fragmented");
        pair.a.pings(2, "-s 100", pair.b.inner[V6]);
        assert_eq!(pair.a.counter("fragmented"), fragmented_before);
        let frames = listener.finish();
        wire::count_sealed(&frames);
        assert!(frames.iter().all(|frame| frame.len() <= 14 + mtu as usize));
        assert_eq!(path_mtu(&pair.a), u64::from(mtu));
    }
}

/// Returns whether a notice tells an MTU of 600 to 699 bytes.
fn reports_mtu_below_700(host: &Host, to: std::net::IpAddr) -> bool {
    let (_, text) = host.ping("-W 0.2 -M do -s 672", to);
    text.contains("mtu = 6") || text.contains("mtu=6") || text.contains("mtu: 6")
}

#[test]
#[ignore = "needs root and network namespaces"]
fn traffic_continues_when_the_mtu_of_a_device_changes() {
    let pair = Pair::with_tunnel(&Plan::default());
    for inner in [V4, V6] {
        stream_while(&pair.a, &pair.b, inner, 2 << 20, |part| match part {
            4 => drop(pair.a.namespace.ip("link set gantry0 mtu 1300")),
            8 => drop(pair.a.namespace.ip("link set va mtu 1350")),
            12 => drop(pair.a.namespace.ip("link set gantry0 mtu 1400")),
            16 => drop(pair.a.namespace.ip("link set va mtu 1500")),
            _ => {}
        });
    }
    datagrams(&pair.a, &pair.b, V4, [1000].into_iter());
}

#[test]
#[ignore = "needs root and network namespaces"]
fn routers_may_fragment_packets_of_an_sa_without_path_mtu_discovery() {
    const DF: u8 = 0x40;
    for (options, flag) in [("replay-window 32", DF), ("replay-window 32 flag nopmtudisc", 0)] {
        let pair = Pair::with_data_paths(&Plan::default());
        pair.add_tunnel(&Keys::gcm(), V4, options);
        let listener = Listener::start(&pair.a.namespace, "va");
        datagrams(&pair.a, &pair.b, V4, [100, 1300].into_iter());
        // The flag is behind the Ethernet header, in the seventh byte of the IP header.
        let frames: Vec<_> =
            listener.finish().into_iter().filter(|frame| !wire::esp(std::slice::from_ref(frame)).is_empty()).collect();
        assert!(frames.len() >= 4 && frames.iter().all(|frame| frame[14 + 6] & DF == flag), "{options}: {frames:02x?}");
    }
}

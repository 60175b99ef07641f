//! Paths that take less than packets have: fragments, notices to senders, and paths that change.

use crate::host::{Host, Pair, Plan, await_that};
use crate::keys::{Keys, V4, V6};
use crate::namespace::Namespace;
use crate::traffic::{datagrams, stream, stream_while};
use crate::wire::{self, Listener};

/// A tunnel over a router, whose link to the second host takes packets of at most `mtu` bytes: the second host knows that, and the first has
/// to be told.
fn narrow(outer: usize, mtu: u32) -> (Pair, Namespace) {
    let (mut pair, router) = Pair::routed();
    set_mtu(&pair, &router, mtu);
    pair.serve(&Plan::default());
    pair.tie(&Keys::gcm(), outer, "replay-window 128");
    (pair, router)
}

/// Changes the link between router and second host.
fn set_mtu(pair: &Pair, router: &Namespace, mtu: u32) {
    router.ip(&format!("link set rb mtu {mtu}"));
    pair.b.namespace.ip(&format!("link set vb mtu {mtu}"));
}

/// What the SA knows by which packets leave a host.
fn path_mtu(host: &Host) -> u64 {
    let status = host.status();
    let mut sas = status["sas"].as_array().unwrap().iter();
    sas.find(|sa| sa["direction"] == "out").unwrap()["path_mtu"].as_u64().unwrap()
}

/// The most that a packet inside may have, as a notice to `ping` says it.
fn told(host: &Host, to: std::net::IpAddr) -> usize {
    let mut told = None;
    await_that("a notice says the MTU", || {
        let (_, text) = host.ping("-W 0.2 -M do -s 1352", to);
        // "Frag needed and DF set (mtu = 1242)", "Packet too big: mtu=1280", "message too long, mtu: 1242".
        let number = text.split(['=', ':']).filter(|part| part.trim_start().starts_with('1')).find_map(|part| {
            let digits: String = part.trim_start().chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok().filter(|mtu| (1000..1400).contains(mtu))
        });
        told = number.filter(|_| text.contains("mtu"));
        told.is_some()
    });
    told.unwrap()
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_sender_whose_packet_may_not_be_fragmented_is_told_what_fits() {
    for outer in [V4, V6] {
        let (pair, _router) = narrow(outer, 1400);
        for inner in [V4, V6] {
            let (headers, to) = ([28, 48][inner], pair.b.inner[inner]);
            let most = told(&pair.a, to);
            pair.a.pings(2, &format!("-M do -s {}", most - headers), to);
            // ESP pads to four bytes.
            assert!(most + 4 > 1400 - [20, 40][outer] - 8 - 34, "{most} bytes are no more than what fits");
            assert_eq!(pair.a.ping(&format!("-W 0.2 -M do -s {}", most - headers + 1), to).0, 0);
        }
        assert_eq!(path_mtu(&pair.a), 1400);
        assert!(pair.a.counter("too_long") > 0 && pair.a.counter("fragmented") == 0);
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_packet_of_ipv4_that_may_be_fragmented_is() {
    for outer in [V4, V6] {
        let (pair, _router) = narrow(outer, 1380);
        // The wire shows single packets.
        pair.a.namespace.ip("link set va gso_max_segs 1");
        let wire = Listener::on(&pair.b.namespace, "vb");
        // The first packets tell the data path what the path takes.
        await_that("the path is known", || {
            pair.a.ping("-W 0.2 -M dont -s 1372", pair.b.inner[V4]);
            path_mtu(&pair.a) == 1380
        });
        // A packet is counted after it has left, which may be after its answer is here, and before the next one leaves.
        pair.a.pings(1, "-s 100", pair.b.inner[V4]);
        let before = pair.a.counter("fragmented");
        pair.a.pings(10, "-M dont -s 1372", pair.b.inner[V4]);
        pair.a.await_counter("fragmented", before + 10);
        // What the stack has cut already, to the MTU of the device.
        pair.a.pings(5, "-M dont -s 8000", pair.b.inner[V4]);
        // Of IPv6 only the sender makes fragments, as soon as it knows what fits.
        await_that("the sender knows the path", || pair.a.ping("-W 0.2 -s 8000", pair.b.inner[V6]).0 == 1);
        pair.a.pings(5, "-s 8000", pair.b.inner[V6]);
        let frames = wire.finish();
        wire::sealed(&frames);
        assert!(wire::esp(&frames).iter().all(|esp| esp.from != pair.a.outer[outer] || esp.bytes <= 1394));
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_stream_goes_on_when_its_path_becomes_narrow() {
    for outer in [V4, V6] {
        let (pair, router) = narrow(outer, 1500);
        let wire = [Listener::on(&pair.a.namespace, "va"), Listener::on(&pair.b.namespace, "vb")];
        for (inner, mtu) in [(V4, 1400), (V6, 1380)] {
            stream_while(&pair.a, &pair.b, inner, 2 << 20, |at| {
                if at == 4 {
                    set_mtu(&pair, &router, mtu);
                }
            });
            assert_eq!(path_mtu(&pair.a), u64::from(mtu), "{inner} in {outer}");
            stream(&pair.b, &pair.a, inner, 1 << 20);
            // The other end has it from its device, as soon as it sends something that is too long.
            let (headers, to) = ([28, 48][inner], pair.a.inner[inner]);
            await_that("the path back is known", || {
                pair.b.ping(&format!("-W 0.2 -M do -s {}", told(&pair.b, to) - headers), to);
                path_mtu(&pair.b) == u64::from(mtu)
            });
        }
        for wire in wire {
            wire::sealed(&wire.finish());
        }
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_path_below_what_ipv6_needs_carries_ipv4() {
    let (pair, _router) = narrow(V4, 700);
    stream(&pair.a, &pair.b, V4, 1 << 20);
    assert_eq!(path_mtu(&pair.a), 700);
    assert!(told_less(&pair.a, pair.b.inner[V4]));
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_path_below_what_ipv6_needs_carries_it_in_fragments() {
    for (outer, mtu) in [(V4, 700), (V4, 1300), (V6, 1280)] {
        let (pair, _router) = narrow(outer, mtu);
        // The wire shows single packets.
        pair.a.namespace.ip("link set va gso_max_segs 1");
        pair.b.namespace.ip("link set vb gso_max_segs 1");
        await_that("the path is known", || {
            pair.a.ping("-W 0.2 -s 1200", pair.b.inner[V6]);
            path_mtu(&pair.a) == u64::from(mtu)
        });
        let wire = Listener::on(&pair.b.namespace, "vb");
        pair.a.pings(1, "-s 100", pair.b.inner[V6]);
        let before = pair.a.counter("fragmented");
        assert_eq!(told(&pair.a, pair.b.inner[V6]), 1280);
        pair.a.pings(5, "-s 1232", pair.b.inner[V6]);
        pair.a.await_counter("fragmented", before + 5);
        stream(&pair.a, &pair.b, V6, 1 << 18);
        stream(&pair.b, &pair.a, V6, 1 << 18);
        // Packets that fit are not cut, and go on being refused when they do not.
        datagrams(&pair.a, &pair.b, V4, [100, 500].into_iter());
        let before = pair.a.counter("fragmented");
        pair.a.pings(2, "-s 100", pair.b.inner[V6]);
        assert_eq!(pair.a.counter("fragmented"), before);
        let frames = wire.finish();
        wire::sealed(&frames);
        assert!(frames.iter().all(|frame| frame.len() <= 14 + mtu as usize));
        assert_eq!(path_mtu(&pair.a), u64::from(mtu));
    }
}

/// Whether somebody is told of an MTU below 700.
fn told_less(host: &Host, to: std::net::IpAddr) -> bool {
    let (_, text) = host.ping("-W 0.2 -M do -s 672", to);
    text.contains("mtu = 6") || text.contains("mtu=6") || text.contains("mtu: 6")
}

#[test]
#[ignore = "as root, in network namespaces"]
fn devices_whose_mtu_changes_under_traffic_carry_it_on() {
    let pair = Pair::tied(&Plan::default());
    for inner in [V4, V6] {
        stream_while(&pair.a, &pair.b, inner, 2 << 20, |at| match at {
            4 => drop(pair.a.namespace.ip("link set gantry0 mtu 1300")),
            8 => drop(pair.a.namespace.ip("link set va mtu 1350")),
            12 => drop(pair.a.namespace.ip("link set gantry0 mtu 1400")),
            16 => drop(pair.a.namespace.ip("link set va mtu 1500")),
            _ => {}
        });
    }
    datagrams(&pair.a, &pair.b, V4, [1000].into_iter());
}

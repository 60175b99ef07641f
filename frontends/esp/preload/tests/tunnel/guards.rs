//! Nothing leaves in clear by a socket that is bound to a device, whatever becomes of the firewall.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{Host, Pair, Plan, await_that};
use crate::keys::{V4, V6};
use crate::plaintext::{PROTECTED, Wire, try_everything};
use crate::traffic::{MARKER, datagrams};
use crate::viewers::stranger;

/// A socket that is bound to the device to the other host, whatever rules and routes say.
fn bound(host: &Host, family: usize) -> UdpSocket {
    let socket = host.udp_unbound(family).0;
    setsockopt(&socket, sockopt::BindToDevice, &host.device.into()).unwrap();
    socket
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_firewall_that_is_loaded_in_a_loop_lets_nothing_past_while_strangers_look() {
    let pair = Pair::tied(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::of(&pair);
    let (done, sent, seen) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let is_done = || done.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                stranger(|| {
                    while !is_done() {
                        seen.fetch_add(u64::from(pair.a.view().is_some()), Ordering::Relaxed);
                    }
                });
            });
        }
        for family in [V4, V6] {
            let (socket, far) = (bound(&pair.a, family), (pair.b.inner[family], 9));
            let (sent, is_done) = (&sent, &is_done);
            scope.spawn(move || {
                while !is_done() {
                    // Whether the host takes it does not matter.
                    let _ = socket.send_to(MARKER, far);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..=100 {
            assert!(pair.a.run("nft", "flush ruleset").status.success());
            await_that("packets are tried", || sent.load(Ordering::Relaxed) > 20 * round);
        }
        // The daemon is answered meanwhile.
        assert!(pair.a.xfrm("state count").contains("SAD count 2"));
        await_that("strangers see the counters", || seen.load(Ordering::Relaxed) > 100);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(wire.sealed(), 0);
    // What the policies are for passes still.
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
}

#[test]
#[ignore = "as root, in network namespaces"]
fn what_a_data_path_left_protects_without_the_firewall() {
    let mut pair = Pair::tied(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    pair.a.kill();
    assert!(pair.a.run("nft", "flush ruleset").status.success());
    let wire = Wire::of(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.sealed(), 0);
    // What is not protected passes as ever, and what the next data path sends.
    pair.a.pings(1, "", pair.b.outer[V4]);
    pair.a.pings(1, "", pair.b.outer[V6]);
    pair.a.serve(&Plan::default());
    pair.untie();
    let wire = Wire::of(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.sealed(), 0);
}

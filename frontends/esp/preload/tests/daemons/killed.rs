//! Killed daemons and data paths: no packet leaves in clear, and the tunnel recovers.

use gantry_lab::wait_until;

use crate::gateway::{GANTRY_12, Pair, Plan, charons, is_possible};
use crate::traffic::{Stream, assert_all_arrived, assert_lost_within, await_packets, while_losing};

/// The SAs survive the daemon, and packets still pass. A new daemon takes over.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_killed_daemon_loses_no_packet() {
    for kind in charons() {
        let mut pair = Pair::new([kind, GANTRY_12], &Plan::default());
        let wire = pair.capture();
        pair.initiate("net");
        let streams = pair.streams();
        await_packets(&streams, 50);
        pair.a.kill_daemon();
        await_packets(&streams, 200);
        pair.a.start_daemon();
        await_packets(&streams, 50);
        assert_all_arrived(streams);
        // The peer deletes the old tunnel before it answers (INITIAL_CONTACT).
        let streams = pair.streams();
        let before = pair.b.spis("in");
        let losses = while_losing(&streams, || pair.initiate("net"));
        assert!(pair.b.spis("in").iter().all(|spi| !before.contains(spi)), "the old tunnel is still there");
        await_packets(&streams, 50);
        assert_lost_within(streams, &[losses]);
        wire.end();
    }
}

/// The daemon ends with its data path, and both start again, as a systemd unit with BindsTo= would do.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_killed_data_path_sends_nothing_in_clear_and_recovers_with_its_daemon() {
    for kind in charons() {
        let mut pair = Pair::new([kind, GANTRY_12], &Plan::default());
        let wire = pair.capture();
        pair.initiate("net");
        let streams = pair.streams();
        await_packets(&streams, 50);
        pair.a.kill_data_path();
        // Unreachable routes refuse packets.
        streams[0].await_refused(200);
        pair.a.kill_daemon();
        streams[0].await_refused(100);
        pair.a.start();
        pair.initiate("net");
        await_packets(&streams, 100);
        drop(streams.map(Stream::end));
        wire.end();
    }
}

/// Protected packets leave through the tunnel or not at all, even before a daemon connects.
#[test]
#[ignore = "needs root and network namespaces"]
fn protected_packets_wait_for_the_daemon() {
    if !is_possible(&[GANTRY_12]) {
        return;
    }
    let pair = Pair::new([GANTRY_12, GANTRY_12], &Plan { protect: vec!["10.2.0.0/24"], ..Plan::default() });
    // Without the data path these packets would arrive in clear.
    for (gateway, other) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        gateway.namespace.ip(&format!("route add {}/32 dev wire", other.inner(false)));
    }
    let wire = pair.capture();
    let streams = pair.streams();
    for gateway in [&pair.a, &pair.b] {
        wait_until("packets are refused", || gateway.status()["counters"]["unprotected"].as_u64() >= Some(100));
    }
    pair.initiate("net");
    await_packets(&streams, 50);
    for stream in streams {
        assert!(!stream.end().lost.is_empty());
    }
    wire.end();
}

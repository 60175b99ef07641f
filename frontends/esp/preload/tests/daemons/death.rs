//! Daemons and data paths that are killed: nothing leaves in clear, and the tunnel comes back.

use std::thread;
use std::time::Duration;

use crate::gateway::{OURS, Pair, Plan, charons, is_possible};
use crate::traffic::{Stream, are_whole, pass};

/// The SAs are there without the daemon, and packets go on. Another daemon takes over.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_daemon_that_is_killed_takes_no_packet_along() {
    for kind in charons() {
        let mut pair = Pair::new([kind, OURS], &Plan::default());
        let wire = pair.tap();
        pair.initiate("net");
        let streams = pair.streams();
        pass(&streams, 50);
        pair.a.kill_daemon();
        pass(&streams, 200);
        pair.a.start_daemon();
        pass(&streams, 50);
        are_whole(streams);
        // The peer throws the old tunnel away before it answers (INITIAL_CONTACT): what is on the way just then is lost.
        let streams = pair.streams();
        let before = pair.b.spis("in");
        pair.initiate("net");
        assert!(pair.b.spis("in").iter().all(|spi| !before.contains(spi)), "the tunnel is another");
        pass(&streams, 50);
        for tally in streams.map(Stream::end) {
            assert!(tally.lost.len() + tally.refused.len() < 50, "{tally:?}");
        }
        wire.end();
    }
}

/// As a unit of systemd with BindsTo= would: the daemon ends with its data path, and both begin again.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_data_path_that_is_killed_leaves_nothing_in_clear_and_comes_back_with_its_daemon() {
    for kind in charons() {
        let mut pair = Pair::new([kind, OURS], &Plan::default());
        let wire = pair.tap();
        pair.initiate("net");
        let streams = pair.streams();
        pass(&streams, 50);
        pair.a.kill_data_path();
        // Long enough for packets that would leave.
        thread::sleep(Duration::from_millis(500));
        pair.a.kill_daemon();
        thread::sleep(Duration::from_millis(200));
        pair.a.start();
        pair.initiate("net");
        pass(&streams, 100);
        let [there, _] = streams.map(Stream::end);
        assert!(!there.refused.is_empty(), "routes to nowhere refuse what would leave: {there:?}");
        wire.end();
    }
}

/// What is protected leaves through the tunnel or not at all, before any daemon has said a word.
#[test]
#[ignore = "as root, in network namespaces"]
fn what_is_protected_waits_for_the_daemon() {
    if !is_possible(&[OURS]) {
        return;
    }
    let pair = Pair::new([OURS, OURS], &Plan { protect: vec!["10.2.0.0/24"], ..Plan::default() });
    // Without the data path these would arrive in clear.
    for (gateway, other) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        gateway.namespace.ip(&format!("route add {}/32 dev wire", other.inner(false)));
    }
    let wire = pair.tap();
    let streams = pair.streams();
    thread::sleep(Duration::from_millis(300));
    pair.initiate("net");
    pass(&streams, 50);
    for stream in streams {
        assert!(!stream.end().lost.is_empty());
    }
    wire.end();
}

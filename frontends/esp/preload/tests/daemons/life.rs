//! Tunnels that come up by themselves, and new keys under traffic.

use std::thread;
use std::time::Duration;

use crate::gateway::{Kind, NEWER, OURS, Pair, Plan, THEIRS, await_that, is_possible};
use crate::traffic::{are_whole, pass};

/// The first packet asks for an SA (XFRM_MSG_ACQUIRE), and those until it is there are refused, not sent in clear.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_trap_brings_the_tunnel_up_at_the_first_packet() {
    for kinds in [[OURS, OURS], [NEWER, NEWER], [OURS, THEIRS]] {
        if !is_possible(&kinds) {
            continue;
        }
        let plan = Plan { first: ["", "start_action = trap"], ..Plan::default() };
        let pair = Pair::new(kinds, &plan);
        let wire = pair.tap();
        assert_eq!(pair.a.spis("out"), Vec::<String>::new());
        let [there, back] = pair.streams();
        there.pass(50);
        back.pass(50);
        let tally = there.end();
        let come = (0..tally.sent).find(|number| !tally.lost.contains(number) && !tally.refused.contains(number));
        let first = come.expect("packets came");
        assert!(first > 0, "the tunnel was not there");
        let later = tally.lost.iter().chain(&tally.refused).filter(|number| **number > first).count();
        assert_eq!(later, 0, "packets are lost after the tunnel was there: {tally:?}");
        back.end();
        wire.end();
    }
}

/// New keys for the SAs of packets, those of IKE, and both again: no packet is lost.
#[test]
#[ignore = "as root, in network namespaces"]
fn new_keys_under_traffic_lose_no_packet() {
    for kinds in [[OURS, OURS], [NEWER, OURS], [NEWER, NEWER]] {
        if !is_possible(&kinds) {
            continue;
        }
        let pair = Pair::new(kinds, &Plan::default());
        let wire = pair.tap();
        pair.initiate("net");
        let streams = pair.streams();
        for (side, what) in
            [(0, "--child net"), (1, "--child net"), (0, "--ike net"), (1, "--ike net"), (0, "--child net")]
        {
            pass(&streams, 50);
            let before = pair.a.spis("out");
            [&pair.a, &pair.b][side].swanctl(&format!("--rekey {what}"));
            if what.starts_with("--child") {
                await_that("the SA is another", || {
                    let now = pair.a.spis("out");
                    !now.is_empty() && before.iter().all(|spi| !now.contains(spi))
                });
            }
        }
        pass(&streams, 50);
        are_whole(streams);
        // IKE has gone on through the port that it shares with ESP: the daemon answers the other one's questions.
        let sas = pair.a.swanctl("--list-sas");
        assert!(sas.contains("ESTABLISHED") && sas.contains("[4500]"), "{sas}");
        wire.end();
    }
}

/// SAs that come to a limit: the data path tells the daemon (XFRM_MSG_EXPIRE), which makes new ones in time. Only one end has limits, because both
/// would come to theirs at once: charon loses track of the collisions where the next limit comes before the last collision is over.
fn limits_bring_new_keys(kinds: [Kind; 2], child: &'static str) {
    if !is_possible(&kinds) {
        return;
    }
    let pair = Pair::new(kinds, &Plan { first: ["", child], ..Plan::default() });
    let wire = pair.tap();
    pair.initiate("net");
    let streams = pair.streams();
    let mut seen = pair.a.spis("out");
    for _ in 0..3 {
        await_that("there are new SAs", || pair.a.spis("out").iter().any(|spi| !seen.contains(spi)));
        seen.extend(pair.a.spis("out"));
    }
    are_whole(streams);
    wire.end();
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_limit_of_bytes_brings_new_keys() {
    limits_bring_new_keys([OURS, OURS], "rekey_bytes = 200000\nlife_bytes = 4000000\nrand_bytes = 0");
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_limit_of_packets_brings_new_keys() {
    limits_bring_new_keys([NEWER, OURS], "rekey_packets = 400\nlife_packets = 8000\nrand_packets = 0");
}

#[test]
#[ignore = "as root, in network namespaces"]
fn a_limit_of_time_brings_new_keys() {
    limits_bring_new_keys([OURS, NEWER], "rekey_time = 2s\nlife_time = 30s\nrand_time = 0s");
}

/// Dead peers are looked for when nothing comes from them. Packets that come are a sign of life, which the daemon asks the data path for.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_peer_whose_packets_come_is_not_asked_whether_it_lives() {
    if !is_possible(&[OURS]) {
        return;
    }
    let pair = Pair::new([OURS, OURS], &Plan { first: ["dpd_delay = 3s", ""], ..Plan::default() });
    pair.initiate("net");
    let streams = pair.streams();
    pass(&streams, 10);
    let before = pair.a.log().matches("sending DPD request").count();
    thread::sleep(Duration::from_secs(12));
    assert_eq!(pair.a.log().matches("sending DPD request").count(), before, "packets came all the time");
    are_whole(streams);
    // Without packets, it is asked, and answers through the port that it shares with ESP.
    await_that("it is asked", || pair.a.log().matches("sending DPD request").count() > before);
    assert!(pair.a.swanctl("--list-sas").contains("ESTABLISHED"));
}

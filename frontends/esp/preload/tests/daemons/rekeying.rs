//! Tunnels that come up on demand, and rekeying under traffic.

use std::time::Duration;

use crate::gateway::{GANTRY_12, GANTRY_13, Kind, LIBIPSEC_12, Pair, Plan, is_possible};
use crate::traffic::{assert_all_arrived, await_packets};
use gantry_lab::wait_until;

/// The first packet requests an SA (XFRM_MSG_ACQUIRE). Packets before the SA are refused, not sent in clear.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_trap_brings_the_tunnel_up_at_the_first_packet() {
    for kinds in [[GANTRY_12, GANTRY_12], [GANTRY_13, GANTRY_13], [GANTRY_12, LIBIPSEC_12]] {
        if !is_possible(&kinds) {
            continue;
        }
        let plan = Plan { first: ["", "start_action = trap"], ..Plan::default() };
        let pair = Pair::new(kinds, &plan);
        let wire = pair.capture();
        assert_eq!(pair.a.spis("out"), Vec::<String>::new());
        let [there, back] = pair.streams();
        there.await_packets(50);
        back.await_packets(50);
        let tally = there.end();
        let arrived = (0..tally.sent).find(|number| !tally.lost.contains(number) && !tally.refused.contains(number));
        let first = arrived.expect("packets came");
        assert!(first > 0, "the tunnel was up too early");
        let later = tally.lost.iter().chain(&tally.refused).filter(|number| **number > first).count();
        assert_eq!(later, 0, "packets were lost after the tunnel was up: {tally:?}");
        back.end();
        wire.end();
    }
}

/// Rekeys the ESP SAs, then the IKE SAs, then both again: no packet is lost.
#[test]
#[ignore = "needs root and network namespaces"]
fn rekeying_under_traffic_loses_no_packet() {
    for kinds in [[GANTRY_12, GANTRY_12], [GANTRY_13, GANTRY_12], [GANTRY_13, GANTRY_13]] {
        if !is_possible(&kinds) {
            continue;
        }
        let pair = Pair::new(kinds, &Plan::default());
        let wire = pair.capture();
        pair.initiate("net");
        let streams = pair.streams();
        for (side, what) in
            [(0, "--child net"), (1, "--child net"), (0, "--ike net"), (1, "--ike net"), (0, "--child net")]
        {
            await_packets(&streams, 50);
            let before = pair.a.spis("out");
            [&pair.a, &pair.b][side].swanctl(&format!("--rekey {what}"));
            if what.starts_with("--child") {
                wait_until("there is a new SA", || {
                    let current = pair.a.spis("out");
                    !current.is_empty() && before.iter().all(|spi| !current.contains(spi))
                });
            }
        }
        await_packets(&streams, 50);
        assert_all_arrived(streams);
        // IKE still works through the port that it shares with ESP: the daemon answers the peer's requests.
        let sas = pair.a.swanctl("--list-sas");
        assert!(sas.contains("ESTABLISHED") && sas.contains("[4500]"), "{sas}");
        wire.end();
    }
}

/// Lets SAs reach a limit: the data path notifies the daemon (XFRM_MSG_EXPIRE), which rekeys in time. Only one end has limits: with limits
/// at both ends, charon loses track of rekey collisions if the next limit is reached before a collision is resolved.
fn assert_limits_rekey(kinds: [Kind; 2], child: &'static str) {
    if !is_possible(&kinds) {
        return;
    }
    let pair = Pair::new(kinds, &Plan { first: ["", child], ..Plan::default() });
    let wire = pair.capture();
    pair.initiate("net");
    let streams = pair.streams();
    let mut seen = pair.a.spis("out");
    for _ in 0..3 {
        wait_until("there are new SAs", || pair.a.spis("out").iter().any(|spi| !seen.contains(spi)));
        seen.extend(pair.a.spis("out"));
    }
    assert_all_arrived(streams);
    wire.end();
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_is_rekeyed_at_its_byte_limit() {
    assert_limits_rekey([GANTRY_12, GANTRY_12], "rekey_bytes = 200000\nlife_bytes = 4000000000\nrand_bytes = 0");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_is_rekeyed_at_its_packet_limit() {
    assert_limits_rekey([GANTRY_13, GANTRY_12], "rekey_packets = 400\nlife_packets = 8000000\nrand_packets = 0");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_is_rekeyed_at_its_time_limit() {
    assert_limits_rekey([GANTRY_12, GANTRY_13], "rekey_time = 2s\nlife_time = 1h\nrand_time = 0s");
}

/// charon's log line for a query of a policy's packets. Each check makes two queries.
const POLICY_QUERY_LINE: &str = "querying policy";
/// charon's log line for a message to a silent peer.
const PROBE_LINE: &str = "sending DPD request";

/// Dead peer detection starts when no packets arrive. The daemon asks the data path whether packets have arrived.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_peer_that_sends_packets_is_not_probed() {
    if !is_possible(&[GANTRY_12]) {
        return;
    }
    // At this level the daemon logs its queries.
    let charon = "install_routes = no\nfilelog { log { knl = 3 } }";
    let plan = Plan { first: ["dpd_delay = 3s", ""], charon, ..Plan::default() };
    let pair = Pair::new([GANTRY_12, GANTRY_12], &plan);
    pair.initiate("net");
    let streams = pair.streams();
    await_packets(&streams, 10);
    let count = |text| pair.a.log().matches(text).count();
    let (queries, probes) = (count(POLICY_QUERY_LINE), count(PROBE_LINE));
    wait_until("the daemon has checked three times", || count(POLICY_QUERY_LINE) >= queries + 6);
    // On a busy machine the packets may have paused.
    let paused = streams[1].longest_pause() >= Duration::from_secs(2);
    assert!(paused || count(PROBE_LINE) == probes, "the peer was probed although its packets came all the time");
    assert_all_arrived(streams);
    // Without packets the peer is probed, and answers through the port that it shares with ESP.
    wait_until("the peer is probed", || count(PROBE_LINE) > probes);
    assert!(pair.a.swanctl("--list-sas").contains("ESTABLISHED"));
}

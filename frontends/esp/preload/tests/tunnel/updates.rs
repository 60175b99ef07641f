//! Policies that come, change and go under traffic, at hosts without another route.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use gantry_lab::wait_until;

use crate::host::{Host, Pair, Plan};
use crate::keys::{V4, V6, install};
use crate::plaintext::Wire;
use crate::steering::{add_policies_between, sas};
use crate::traffic::{Flow, MARKER, datagrams};

const ANY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Creates two hosts whose only routes lead to each other's outer addresses. All packets between an address of the first host and all other
/// addresses take the tunnel.
fn client_and_gateway() -> Pair {
    let pair = Pair::with_data_paths(&Plan::default());
    for (host, other) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        for (family, bits) in [(V4, 32), (V6, 128)] {
            let option = ["-4", "-6"][family];
            host.namespace.ip(&format!("{option} route add {}/{bits} dev {}", other.outer[family], host.device));
            host.namespace.ip(&format!("{option} route delete default"));
        }
    }
    install(&sas(&pair).each_ref());
    for family in [V4, V6] {
        add_policies_between(&pair, &client(&pair, family), ANY[family], ["", ""]);
    }
    pair
}

fn client(pair: &Pair, family: usize) -> String {
    format!("{}/{}", pair.a.inner[family], [32, 128][family])
}

/// Returns the source that a socket without an address gets.
fn source_address(host: &Host, to: SocketAddr) -> std::net::IpAddr {
    let socket = host.udp_unbound(usize::from(to.is_ipv6()));
    socket.connect(to).unwrap();
    socket.local_addr().unwrap().ip()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_routes_its_packets_where_no_other_route_exists() {
    let mut pair = client_and_gateway();
    let wire = Wire::new(&pair);
    for family in [V4, V6] {
        datagrams(&pair.a, &pair.b, family, [100, 3000].into_iter());
        datagrams(&pair.b, &pair.a, family, [100, 3000].into_iter());
        assert_eq!(source_address(&pair.a, (pair.b.inner[family], 9).into()), pair.a.inner[family]);
        // The policies of the gateway are for the client alone.
        let foreign_address = ["10.99.0.1", "fd99::1"][family].parse().unwrap();
        let sent = pair.b.udp(pair.b.inner[family], 0).send_to(MARKER, SocketAddr::new(foreign_address, 9));
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::NetworkUnreachable);
    }
    assert!(wire.count_sealed() > 0);
    pair.b.kill();
    let wire = Wire::new(&pair);
    for family in [V4, V6] {
        let program = pair.b.udp(pair.b.inner[family], 0);
        assert!(program.send_to(MARKER, (pair.a.inner[family], 9)).is_err());
    }
    assert_eq!(wire.count_sealed(), 0);
}

/// While a daemon changes the address of a peer, it blocks the packets of the peer's policies.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_that_blocks_for_a_while_keeps_its_route() {
    let pair = client_and_gateway();
    let wire = Wire::new(&pair);
    let templates = sas(&pair).map(|sa| sa.template());
    for (host, other, template) in [(&pair.a, &pair.b, &templates[0]), (&pair.b, &pair.a, &templates[1])] {
        for family in [V4, V6] {
            let near = host.inner[family];
            let (from, to) = match host.device {
                "va" => (client(&pair, family), ANY[family].to_owned()),
                _ => (ANY[family].to_owned(), client(&pair, family)),
            };
            let selector = format!("src {from} dst {to} dir out priority");
            let far = SocketAddr::new(other.inner[family], 9);
            let (done, sent, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
            thread::scope(|scope| {
                let program = host.udp(near, 0);
                let (done, sent, refused) = (&done, &sent, &refused);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        refused.fetch_add(u64::from(program.send_to(MARKER, far).is_err()), Ordering::Relaxed);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let more_packets = || {
                    let before = sent.load(Ordering::Relaxed);
                    wait_until("packets are tried", || sent.load(Ordering::Relaxed) > before + 20);
                };
                for _ in 0..5 {
                    more_packets();
                    host.xfrm(&format!("policy update {selector} 99 action block"));
                    more_packets();
                    if host.device == "va" {
                        assert_eq!(source_address(host, far), near);
                    }
                    host.xfrm(&format!("policy update {selector} 10 {template}"));
                }
                done.store(true, Ordering::Relaxed);
            });
            assert_eq!(refused.into_inner(), 0, "{near} to {far}");
            // The queues may be full of earlier packets.
            wait_until("a packet passes again", || host.ping(&format!("-I {near}"), far.ip()).0 == 1);
            datagrams(host, other, family, [100].into_iter());
        }
    }
    assert!(wire.count_sealed() > 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn changes_of_other_policies_lose_no_packet() {
    let pair = client_and_gateway();
    let wire = Wire::new(&pair);
    let flows: Vec<Flow> = [V4, V6]
        .into_iter()
        .flat_map(|family| [Flow::start(&pair.a, &pair.b, family), Flow::start(&pair.b, &pair.a, family)])
        .collect();
    wait_until("packets pass", || pair.a.counter("received_packets") > 20 && pair.b.counter("received_packets") > 20);
    let templates = sas(&pair).map(|sa| sa.template());
    for (host, template) in [(&pair.a, &templates[0]), (&pair.b, &templates[1])] {
        for round in 0..10 {
            for family in [V4, V6] {
                let other = [format!("10.77.{round}.0/24"), format!("fd77:{round}::/64")][family].clone();
                let selector = format!("src {} dst {other} dir out", ANY[family]);
                let (from, to) = match host.device {
                    "va" => (client(&pair, family), ANY[family].to_owned()),
                    _ => (ANY[family].to_owned(), client(&pair, family)),
                };
                let policy_update = format!("policy update src {from} dst {to} dir out priority");
                // The firewall gets a further element, a further layer before the policy, another order of the policies, and another
                // place in a layer.
                host.xfrm(&format!("policy add {selector} priority 12 {template}"));
                host.xfrm(&format!("policy update {selector} priority 5"));
                host.xfrm(&format!("{policy_update} 4 {template}"));
                host.xfrm(&format!("policy update {selector} priority 4 action block"));
                host.xfrm(&format!("policy delete {selector}"));
                host.xfrm(&format!("{policy_update} 10 {template}"));
            }
        }
    }
    flows.into_iter().for_each(Flow::assert_complete_and_in_order);
    assert!(wire.count_sealed() > 0);
    assert_eq!(pair.a.counter("unprotected") + pair.b.counter("unprotected"), 0);
}

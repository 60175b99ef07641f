//! Clients behind Linux' NAT, which maps each client to another port of the NAT's address (`masquerade` of nf_tables).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use crate::gateway::{ANY, GANTRY_12, Gateway, Pair, charons, configure, outer};
use crate::namespace::Namespace;
use crate::routes::client_plan;
use crate::traffic::{Stream, assert_lost_within, while_losing};
use gantry_lab::wait_until;

/// The clients' address as the peer sees it: at first, and after the NAT's address has changed.
const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 1, 0, 253)), IpAddr::V4(Ipv4Addr::new(10, 1, 0, 254))];

/// The peer sees both clients at one address, and distinguishes them by port. After the NAT has lost its state, packets come from other
/// ports or another address. The data path notifies the daemon (XFRM_MSG_MAPPING), which updates its SAs.
#[test]
#[ignore = "needs root and network namespaces"]
fn two_clients_keep_their_tunnels_when_their_nat_loses_its_state() {
    if !Path::new("/usr/sbin/nft").exists() {
        return gantry_lab::skip("nft");
    }
    for kind in charons() {
        let plan = client_plan("10.2.0.2/32");
        let mut pair = Pair::linked([GANTRY_12, kind], &plan);
        let mut other = Gateway::new(2, GANTRY_12);
        configure(&other, &plan, &outer(1, false).to_string());
        configure(&pair.b, &plan, ANY);
        let nat = Nat::between([&pair.a, &other], &pair.b);
        pair.start();
        other.start();
        let wire = pair.capture();
        let mut streams = Vec::new();
        for (client, address) in [(&pair.a, "10.3.0.1"), (&other, "10.3.0.2")] {
            client.swanctl("--initiate --timeout 60 --child net");
            let ends = [(&client.namespace, address.parse().unwrap()), (&pair.b.namespace, pair.b.inner(false))];
            streams.extend([Stream::start(ends[0], ends[1]), Stream::start(ends[1], ends[0])]);
        }
        let pass = || streams.iter().for_each(|stream| stream.await_packets(50));
        pass();
        let mut before = peers(&pair.b);
        assert_eq!(before.len(), 2);
        assert!(before.iter().all(|peer| peer.ip() == ADDRESSES[0] && peer.port() != 4500), "{before:?}");
        // Packets to the clients' old addresses are lost, as are packets that arrive while the NAT is down.
        let mut losses = Vec::new();
        for (change, address) in [(Nat::forget as fn(&Nat), ADDRESSES[0]), (Nat::move_away, ADDRESSES[1])] {
            losses.push(while_losing(&streams, || {
                change(&nat);
                wait_until("the SAs follow", || {
                    let current = peers(&pair.b);
                    current.len() == 2
                        && current.is_disjoint(&before)
                        && current.iter().all(|peer| peer.ip() == address)
                });
            }));
            before = peers(&pair.b);
        }
        for client in [&pair.a, &other] {
            client.swanctl("--rekey --child net");
        }
        pass();
        let tallies = assert_lost_within(streams, &losses);
        assert!(tallies.iter().all(|tally| tally.refused.is_empty()), "{tallies:?}");
        wire.end();
    }
}

/// Returns the addresses of a gateway's peers.
fn peers(gateway: &Gateway) -> BTreeSet<SocketAddr> {
    let status = gateway.status();
    let sas = status["sas"].as_array().unwrap().iter();
    sas.map(|sa| sa["peer"].as_str().unwrap().parse().unwrap()).collect()
}

/// A router between clients and their peer. The router answers for the peer's address on the clients' side (proxy ARP), and has an address
/// only on the peer's side. Client ports are random: by default the NAT would keep the first client's port.
struct Nat(Namespace);

impl Nat {
    /// Puts the router in the place of the link between the first client and the peer.
    fn between(clients: [&Gateway; 2], peer: &Gateway) -> Self {
        let nat = Self(Namespace::new());
        peer.namespace.ip("link delete wire");
        nat.0.sysctl("ipv4/ip_forward", "1");
        nat.0.join("far", &peer.namespace, "wire");
        nat.0.ip(&format!("address add {}/24 dev far", ADDRESSES[0]));
        peer.connect();
        for (client, place) in clients.into_iter().zip([0, 2]) {
            let near = format!("near{place}");
            nat.0.join(&near, &client.namespace, "wire");
            nat.0.sysctl(&format!("ipv4/conf/{near}/proxy_arp"), "1");
            nat.0.ip(&format!("route add {} dev {near}", outer(place, false)));
            client.connect();
        }
        for line in [
            "add table ip nat",
            "add chain ip nat out { type nat hook postrouting priority srcnat; }",
            "add rule ip nat out oifname far masquerade random",
        ] {
            let output = nat.0.enter(|| Command::new("nft").arg(line).output()).unwrap();
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        }
        nat
    }

    /// Drops all connections, as masquerading does when its device goes down.
    fn forget(&self) {
        self.0.ip("link set far down");
        self.0.ip("link set far up");
    }

    /// Changes the address, which also drops the connections of the old address.
    fn move_away(&self) {
        self.0.ip(&format!("address delete {}/24 dev far", ADDRESSES[0]));
        self.0.ip(&format!("address add {}/24 dev far", ADDRESSES[1]));
    }
}

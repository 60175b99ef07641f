//! charon's own routes, virtual addresses, and a tunnel for all traffic.

use std::net::{IpAddr, UdpSocket};

use crate::gateway::{GANTRY_12, Pair, Plan, charons};
use crate::namespace::Namespace;
use crate::traffic::{Stream, assert_all_arrived, await_packets};
use gantry_lab::wait_until;

/// charon's routes of table 220 lead out of the device towards the peer, in clear. Gantry's routes precede them, and stay when the data
/// path is gone.
#[test]
#[ignore = "needs root and network namespaces"]
fn charons_own_routes_do_not_bypass_the_tunnel() {
    for kind in charons() {
        let mut pair = Pair::new([kind, GANTRY_12], &Plan { charon: "install_routes = yes", ..Plan::default() });
        let wire = pair.capture();
        pair.initiate("net");
        assert!(pair.a.namespace.ip("route show table 220").contains("10.2.0.2"), "charon has installed its route");
        let streams = pair.streams();
        await_packets(&streams, 50);
        pair.a.swanctl("--rekey --child net");
        await_packets(&streams, 50);
        pair.a.kill_data_path();
        streams[0].await_refused(100);
        streams.into_iter().for_each(Stream::abandon);
        wire.end();
    }
}

/// Plans a client that gets its address from the peer, and a tunnel to `network`.
pub(crate) fn client_plan(network: &'static str) -> Plan {
    Plan {
        first: ["vips = 0.0.0.0", ""],
        second: ["pools = clients", ""],
        sections: "pools { clients { addrs = 10.3.0.0/28 } }",
        traffic_selectors: Some(["dynamic", network]),
        ..Plan::default()
    }
}

/// The client uses the address that the peer assigned, even for unbound sockets.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_client_with_a_virtual_address_sends_from_it() {
    for kind in charons() {
        let pair = Pair::new([kind, GANTRY_12], &client_plan("10.2.0.2/32"));
        let wire = pair.capture();
        pair.initiate("net");
        let address: IpAddr = "10.3.0.1".parse().unwrap();
        assert_eq!(source_address(&pair.a.namespace, "10.2.0.2"), address);
        let ends = [(&pair.a.namespace, address), (&pair.b.namespace, pair.b.inner(false))];
        let streams = [Stream::start(ends[0], ends[1]), Stream::start(ends[1], ends[0])];
        await_packets(&streams, 50);
        assert_all_arrived(streams);
        wire.end();
    }
}

/// All packets of the client go through the tunnel, even to the peer's own address, except IKE and ESP themselves.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_tunnel_for_all_traffic_gets_all_packets() {
    for kind in charons() {
        let pair = Pair::new([kind, GANTRY_12], &client_plan("0.0.0.0/0"));
        pair.b.namespace.ip("address add 192.0.2.1/32 dev lo");
        let wire = pair.capture();
        pair.initiate("net");
        let client: IpAddr = "10.3.0.1".parse().unwrap();
        for to in ["192.0.2.1", "10.1.0.2", "10.2.0.2"] {
            assert_eq!(source_address(&pair.a.namespace, to), client);
            let ends = [(&pair.a.namespace, client), (&pair.b.namespace, to.parse().unwrap())];
            let streams = [Stream::start(ends[0], ends[1]), Stream::start(ends[1], ends[0])];
            await_packets(&streams, 50);
            pair.a.swanctl("--rekey --ike net");
            await_packets(&streams, 50);
            assert_all_arrived(streams);
        }
        // Packets without an answer go through the tunnel, too.
        let socket = pair.a.namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        let received = || pair.b.status()["counters"]["received_packets"].as_u64().unwrap();
        let before = received();
        socket.send_to(b"to nobody", "198.51.100.1:9").unwrap();
        wait_until("the peer gets the datagram", || received() > before);
        wire.end();
    }
}

/// Returns the source address of an unbound socket for a destination.
fn source_address(namespace: &Namespace, to: &str) -> IpAddr {
    let socket = namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    socket.connect((to, 9)).unwrap();
    socket.local_addr().unwrap().ip()
}

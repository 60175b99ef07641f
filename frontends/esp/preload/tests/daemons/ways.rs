//! Routes of charon's own, virtual addresses, and a tunnel for everything.

use std::net::{IpAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::gateway::{OURS, Pair, Plan, await_that, charons};
use crate::namespace::Namespace;
use crate::traffic::{Stream, are_whole, pass};

/// charon's routes of table 220 lead out of the device towards the peer, in clear. Ours come first, and stay when the data path is gone.
#[test]
#[ignore = "as root, in network namespaces"]
fn routes_of_charons_own_lead_nothing_past_the_tunnel() {
    for kind in charons() {
        let mut pair = Pair::new([kind, OURS], &Plan { charon: "install_routes = yes", ..Plan::default() });
        let wire = pair.tap();
        pair.initiate("net");
        assert!(pair.a.namespace.ip("route show table 220").contains("10.2.0.2"), "charon has made its route");
        let streams = pair.streams();
        pass(&streams, 50);
        pair.a.swanctl("--rekey --child net");
        pass(&streams, 50);
        pair.a.kill_data_path();
        thread::sleep(Duration::from_millis(300));
        let [there, _] = streams.map(Stream::end);
        assert!(!there.refused.is_empty(), "{there:?}");
        wire.end();
    }
}

/// A client that has its address from the peer, and a tunnel to what is there.
pub(crate) fn of_client(there: &'static str) -> Plan {
    Plan {
        first: ["vips = 0.0.0.0", ""],
        second: ["pools = clients", ""],
        sections: "pools { clients { addrs = 10.3.0.0/28 } }",
        inside: Some(["dynamic", there]),
        ..Plan::default()
    }
}

/// The address is the one that the peer has given; sockets without one get it.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_client_with_a_virtual_address_sends_from_it() {
    for kind in charons() {
        let pair = Pair::new([kind, OURS], &of_client("10.2.0.2/32"));
        let wire = pair.tap();
        pair.initiate("net");
        let address: IpAddr = "10.3.0.1".parse().unwrap();
        assert_eq!(chosen(&pair.a.namespace, "10.2.0.2"), address);
        let ends = [(&pair.a.namespace, address), (&pair.b.namespace, pair.b.inner(false))];
        let streams = [Stream::start(ends[0], ends[1]), Stream::start(ends[1], ends[0])];
        pass(&streams, 50);
        are_whole(streams);
        wire.end();
    }
}

/// All that a client sends goes through the tunnel, even to the peer's own address, but for IKE and ESP themselves.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_tunnel_for_everything_has_everything() {
    for kind in charons() {
        let pair = Pair::new([kind, OURS], &of_client("0.0.0.0/0"));
        pair.b.namespace.ip("address add 192.0.2.1/32 dev lo");
        let wire = pair.tap();
        pair.initiate("net");
        let client: IpAddr = "10.3.0.1".parse().unwrap();
        for to in ["192.0.2.1", "10.1.0.2", "10.2.0.2"] {
            assert_eq!(chosen(&pair.a.namespace, to), client);
            let ends = [(&pair.a.namespace, client), (&pair.b.namespace, to.parse().unwrap())];
            let streams = [Stream::start(ends[0], ends[1]), Stream::start(ends[1], ends[0])];
            pass(&streams, 50);
            pair.a.swanctl("--rekey --ike net");
            pass(&streams, 50);
            are_whole(streams);
        }
        // What nobody answers leaves through the tunnel, too.
        let socket = pair.a.namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        socket.send_to(b"to nobody", "198.51.100.1:9").unwrap();
        await_that("the peer gets it", || pair.b.status()["counters"]["received_packets"].as_u64() > Some(600));
        wire.end();
    }
}

/// The address of a socket that has none, towards a destination.
fn chosen(namespace: &Namespace, to: &str) -> IpAddr {
    let socket = namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    socket.connect((to, 9)).unwrap();
    socket.local_addr().unwrap().ip()
}

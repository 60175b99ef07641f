//! Routes of charon's own, virtual addresses, a tunnel for everything, and a NAT that forgets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::gateway::{OURS, Pair, Plan, await_that, charons, outer};
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
fn of_client(there: &'static str) -> Plan {
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

/// The data path sees that packets come from another port, and tells the daemon (XFRM_MSG_MAPPING), which has its SAs follow.
#[test]
#[ignore = "as root, in network namespaces"]
fn a_nat_that_forgets_is_followed() {
    for kind in charons() {
        let mut pair = Pair::joined([OURS, kind], &Plan::default());
        let nat = Nat::between(&pair);
        pair.start();
        pair.initiate("net");
        let [there, back] = pair.streams();
        there.pass(50);
        back.pass(50);
        let peers = |pair: &Pair| {
            let status = pair.b.status();
            let sas = status["sas"].as_array().unwrap().iter();
            sas.map(|sa| sa["peer"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let before = peers(&pair);
        assert!(before.iter().all(|peer| *peer == nat.seen().to_string()), "{before:?}");
        nat.forget();
        await_that("the SAs have the other port", || peers(&pair).iter().all(|peer| *peer == nat.seen().to_string()));
        assert_ne!(peers(&pair), before);
        there.pass(50);
        back.pass(50);
        pair.a.swanctl("--rekey --child net");
        there.pass(50);
        back.pass(50);
        // What left for the old port is gone, and what came while charon took its SA out and put another in its place.
        let [there, back] = [there.end(), back.end()];
        assert!(there.lost.len() < 20 && there.refused.is_empty() && back.refused.is_empty(), "{there:?}");
    }
}

/// A NAT between two gateways, each of which takes it for the other one: datagrams to ports 500 and 4500 of the second go on from
/// ports of its own. It has a namespace on either side, because it has either one's address.
struct Nat {
    sides: [Namespace; 2],
    /// The port that stands for 4500 of the first gateway.
    far: Arc<Mutex<UdpSocket>>,
    ended: Arc<AtomicBool>,
}

impl Nat {
    /// Takes the place of the link between two gateways.
    fn between(pair: &Pair) -> Self {
        let sides = [Namespace::new(), Namespace::new()];
        pair.a.namespace.ip("link delete wire");
        for (gateway, side, place) in [(&pair.a, &sides[0], 0), (&pair.b, &sides[1], 1)] {
            gateway.namespace.join("wire", side, "wire");
            gateway.namespace.ip(&format!("address add {}/24 dev wire", outer(place, false)));
            side.ip(&format!("address add {}/24 dev wire", outer(1 - place, false)));
        }
        let ended = Arc::new(AtomicBool::new(false));
        let [_, far] = [500, 4500].map(|port| {
            let near = bind(&sides[0], (outer(1, false), port).into());
            let far = Arc::new(Mutex::new(bind(&sides[1], (outer(0, false), 0).into())));
            relay(near, &far, (outer(1, false), port).into(), &ended);
            far
        });
        Self { sides, far, ended }
    }

    /// Where the second gateway sees the first one.
    fn seen(&self) -> SocketAddr {
        self.far.lock().unwrap().local_addr().unwrap()
    }

    /// What came from one port comes from another, and the old one leads nowhere.
    fn forget(&self) {
        *self.far.lock().unwrap() = bind(&self.sides[1], (outer(0, false), 0).into());
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn bind(namespace: &Namespace, address: SocketAddr) -> UdpSocket {
    let socket = namespace.enter(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

/// Passes datagrams on, in two threads: from `near` to `to` by the far socket, and what comes there to who was last heard.
fn relay(near: UdpSocket, far: &Arc<Mutex<UdpSocket>>, to: SocketAddr, ended: &Arc<AtomicBool>) {
    let last = Arc::new(Mutex::new(None));
    let back = (near.try_clone().unwrap(), far.clone(), last.clone(), ended.clone());
    let (far, ended) = (far.clone(), ended.clone());
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while !ended.load(Ordering::Relaxed) {
            let Ok((length, from)) = near.recv_from(&mut buffer) else { continue };
            *last.lock().unwrap() = Some(from);
            let _ = far.lock().unwrap().send_to(&buffer[..length], to);
        }
    });
    thread::spawn(move || {
        let (near, far, last, ended) = back;
        let mut buffer = [0; 2048];
        while !ended.load(Ordering::Relaxed) {
            // The socket may be exchanged for another at any time.
            let socket = far.lock().unwrap().try_clone().unwrap();
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            if let Some(last) = *last.lock().unwrap() {
                let _ = near.send_to(&buffer[..length], last);
            }
        }
    });
}

//! Transport mode between two hosts that speak IKE.

use crate::gateway::{GANTRY_12, Pair, Plan, charons, outer};
use crate::suites::transport_plan;
use crate::traffic::{Stream, assert_all_arrived, await_packets, transfer};

/// The daemons negotiate keys, rekey under traffic, and negotiate again when a packet meets the trap. Their own messages pass under a
/// policy for all packets between the hosts.
#[test]
#[ignore = "needs root and network namespaces"]
fn hosts_agree_on_transport_mode_and_exchange_keys_under_traffic() {
    for kind in charons() {
        for (is_v6, in_udp) in [(false, true), (false, false), (true, true), (true, false)] {
            let pair = Pair::new([kind, GANTRY_12], &transport_plan(is_v6, in_udp));
            let wire = pair.capture();
            pair.initiate("net");
            assert!(pair.a.swanctl("--list-sas").contains("TRANSPORT"));
            let [a, b] = [(&pair.a, 0), (&pair.b, 1)].map(|(gateway, at)| (&gateway.namespace, outer(at, is_v6)));
            let streams = [Stream::start(a, b), Stream::start(b, a)];
            await_packets(&streams, 50);
            for rekey in ["--rekey --child net", "--rekey --ike net"] {
                pair.a.swanctl(rekey);
                await_packets(&streams, 50);
            }
            transfer(a, b, 300_000);
            transfer(b, a, 300_000);
            assert_all_arrived(streams);
            wire.end();
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_trap_brings_transport_mode_up() {
    for kind in charons() {
        let options = ["", "mode = transport\nstart_action = trap"];
        let inside = ["10.1.0.1/32[17/1701]", "10.1.0.2/32[17/1701]"];
        let plan = Plan { traffic_selectors: Some(inside), first: options, second: options, ..Plan::default() };
        let pair = Pair::new([kind, GANTRY_12], &plan);
        let wire = pair.capture();
        let socket = |gateway: &crate::gateway::Gateway, at| {
            gateway.namespace.enter(|| std::net::UdpSocket::bind((outer(at, false), 1701))).unwrap()
        };
        let (near, far) = (socket(&pair.a, 0), socket(&pair.b, 1));
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        }
        let mut buffer = [0; 16];
        gantry_lab::wait_until("a frame of L2TP arrives", || {
            near.send_to(b"frame", far.local_addr().unwrap()).unwrap();
            far.recv(&mut buffer).is_ok()
        });
        far.send_to(b"answer", near.local_addr().unwrap()).unwrap();
        assert_eq!(near.recv(&mut buffer).expect("the answer arrives"), 6);
        assert!(pair.b.swanctl("--list-sas").contains("TRANSPORT"));
        wire.end();
    }
}

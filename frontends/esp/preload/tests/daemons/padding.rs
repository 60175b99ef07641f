//! Padding that hides the lengths of packets (RFC 4303, 2.7).

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;

use crate::gateway::{GANTRY_12, Gateway, Pair, Plan, charons};

/// Returns the bytes that a gateway has sent on the wire.
fn sent(gateway: &Gateway) -> u64 {
    let link: Value = serde_json::from_str(&gateway.namespace.ip("-s -j link show dev wire")).unwrap();
    link[0]["stats64"]["tx"]["bytes"].as_u64().unwrap()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn short_packets_are_padded_and_arrive_without_padding() {
    for kind in charons() {
        let options = ["", "tfc_padding = 1000"];
        let pair = Pair::new([kind, GANTRY_12], &Plan { first: options, second: options, ..Plan::default() });
        let wire = pair.capture();
        pair.initiate("net");
        let [near, far] =
            pair.ends().map(|(namespace, address)| namespace.enter(|| UdpSocket::bind((address, 0))).unwrap());
        far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 2000];
        // With headers of 28 bytes, a datagram of 972 bytes has the padded length.
        for size in [0, 1, 100, 971, 972, 973, 1300] {
            let (before, datagram) = (sent(&pair.a), vec![7; size]);
            near.send_to(&datagram, far.local_addr().unwrap()).unwrap();
            let length = far.recv(&mut buffer).expect("the datagram arrives");
            assert_eq!(buffer[..length], datagram);
            assert!(sent(&pair.a) - before > 1000, "{size} bytes");
        }
        wire.end();
    }
}

//! Suites that charon proposes, one after the other.

use crate::gateway::{Esp, Kind, Pair, Plan};
use crate::traffic::{assert_all_arrived, await_packets, transfer};

/// Suites: the name in charon's proposals, and the algorithms in the status of a data path, with key sizes in bits.
pub(crate) const SUITES: [(&str, &str); 12] = [
    ("aes128gcm16", "rfc4106(gcm(aes)) 160"),
    ("aes256gcm16", "rfc4106(gcm(aes)) 288"),
    ("aes256gcm8", "rfc4106(gcm(aes)) 288"),
    ("aes128ccm16", "rfc4309(ccm(aes)) 152"),
    ("aes256ccm8", "rfc4309(ccm(aes)) 280"),
    ("aes256gmac", "rfc4543(gcm(aes)) 288"),
    ("chacha20poly1305", "rfc7539esp(chacha20,poly1305) 288"),
    ("aes256-sha256", "aes 256 hmac(sha256)"),
    ("aes128-sha1", "aes 128 sha1"),
    ("aes192-sha384", "aes 192 hmac(sha384)"),
    ("aes256ctr-sha256", "rfc3686(ctr(aes)) 288 hmac(sha256)"),
    ("aes128ctr-sha512", "rfc3686(ctr(aes)) 160 hmac(sha512)"),
];

/// Brings up one child after the other, and sends in both directions through each.
pub(crate) fn every_child_passes_packets(kinds: [Kind; 2], plan: &Plan, algorithms: &[&str]) {
    let pair = Pair::new(kinds, plan);
    let wire = pair.capture();
    for ((child, proposal), algorithm) in plan.children.iter().zip(algorithms) {
        pair.initiate(child);
        let streams = pair.streams();
        await_packets(&streams, 20);
        for gateway in [&pair.a, &pair.b].into_iter().filter(|gateway| gateway.kind.esp == Esp::Gantry) {
            let status = gateway.status();
            let sas = status["sas"].as_array().unwrap();
            assert_eq!(sas.len(), 2, "{proposal}: {status}");
            for sa in sas {
                assert_eq!(sa["algorithm"], *algorithm, "{proposal}");
                assert!(sa["packets"].as_u64() >= Some(20), "{proposal}: {status}");
            }
        }
        assert_all_arrived(streams);
        let [a, b] = pair.ends();
        transfer(a, b, 300_000);
        transfer(b, a, 300_000);
        pair.a.swanctl(&format!("--terminate --child {child}"));
    }
    wire.end();
}

/// Plans a policy in transport mode between the gateways' own addresses.
pub(crate) fn transport_plan(is_v6: bool, in_udp: bool) -> Plan {
    let inside = if is_v6 { ["fd01::1/128", "fd01::2/128"] } else { ["10.1.0.1/32", "10.1.0.2/32"] };
    let options = [if in_udp { "" } else { "encap = no" }, "mode = transport"];
    Plan { v6: [is_v6; 2], traffic_selectors: Some(inside), first: options, second: options, ..Plan::default() }
}

/// Builds a child for each suite and each ESN option. AES-GMAC takes no ESN.
pub(crate) fn suite_plan(suites: &[(&str, &'static str)], esn: &[&str]) -> (Plan, Vec<&'static str>) {
    let all = suites.iter().flat_map(|suite| esn.iter().map(move |esn| (suite, esn)));
    let all = all.filter(|((proposal, _), esn)| !(proposal.contains("gmac") && **esn == "-esn"));
    let named = all.enumerate().map(|(number, ((proposal, algorithm), esn))| {
        ((format!("child{number}"), format!("{proposal}{esn}")), *algorithm)
    });
    let (children, algorithms) = named.unzip();
    (Plan { children, ..Plan::default() }, algorithms)
}

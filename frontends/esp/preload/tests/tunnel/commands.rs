//! Commands of `ip xfrm` to a data path: results, refusals and counters.

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, hex};
use crate::traffic::{datagrams, stream};
use gantry_lab::wait_until;

/// Creates two linked hosts, and starts a data path on host `a` only.
fn single_data_path() -> Pair {
    let mut pair = Pair::linked();
    pair.a.serve(&Plan::default());
    pair
}

#[test]
#[ignore = "needs root and network namespaces"]
fn sas_are_added_shown_changed_and_deleted() {
    let pair = single_data_path();
    let keys = Keys::gcm();
    let sa = Sa::new(&pair.a, &pair.b, 0x1077, &keys);
    let id = "src 10.1.0.1 dst 10.2.0.2 proto esp spi 0x1077";
    pair.a.xfrm(&sa.add_command());
    let shown = pair.a.xfrm(&format!("state get {id}"));
    for expected in [
        "src 10.1.0.1 dst 10.2.0.2",
        "proto esp spi 0x00001077 reqid 1 mode tunnel",
        &format!("aead rfc4106(gcm(aes)) {} 128", hex(&keys.key)),
        "encap type espinudp sport 4500 dport 4500 addr 0.0.0.0",
        "flag af-unspec",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert_eq!(pair.a.xfrm("state list"), shown);
    assert!(pair.a.refused(&sa.add_command()).contains("the SA exists already"));
    // An update keeps keys and sequence numbers, and changes limits.
    pair.a.xfrm(&format!("{} limit packet-hard 77", sa.add_command().replace("state add", "state update")));
    let shown = pair.a.statistics("state list");
    assert!(shown.contains("77(packets)"), "{shown}");
    let another = Sa::new(&pair.b, &pair.a, 0x1078, &keys);
    pair.a.xfrm(&another.add_command());
    assert!(pair.a.xfrm("state count").contains("SAD count 2"));
    assert_eq!(pair.a.xfrm("state list src 10.2.0.2").matches("proto esp").count(), 1);
    assert!(!pair.a.xfrm("state list nokeys").contains(&hex(&keys.key)));
    pair.a.xfrm(&sa.delete_command());
    assert!(pair.a.refused(&sa.delete_command()).contains("there is no such SA"));
    assert!(pair.a.refused(&format!("state get {id}")).contains("there is no such SA"));
    pair.a.xfrm("state flush proto ah");
    assert!(pair.a.xfrm("state count").contains("SAD count 1"));
    pair.a.xfrm("state flush proto esp");
    assert_eq!(pair.a.xfrm("state list"), "");
    pair.a.xfrm(&sa.add_command());
    pair.a.xfrm("state deleteall");
    assert_eq!(pair.a.xfrm("state list"), "");
}

#[test]
#[ignore = "needs root and network namespaces"]
fn policies_are_added_shown_changed_and_deleted() {
    let pair = single_data_path();
    let selector = "src 10.11.0.0/16 dst 10.12.0.0/16 proto tcp dport 443";
    let template = "tmpl src 10.1.0.1 dst 10.2.0.2 proto esp reqid 5 mode tunnel";
    pair.a.xfrm(&format!("policy add {selector} dir out priority 7 {template}"));
    let shown = pair.a.xfrm(&format!("policy get {selector} dir out"));
    for expected in [
        "src 10.11.0.0/16 dst 10.12.0.0/16 proto tcp dport 443",
        "dir out priority 7",
        "tmpl src 10.1.0.1 dst 10.2.0.2",
        "proto esp reqid 5 mode tunnel",
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert_eq!(pair.a.xfrm("policy list"), shown);
    assert!(
        pair.a
            .refused(&format!("policy add {selector} dir out {template}"))
            .contains("a policy with this selector exists already")
    );
    pair.a.xfrm(&format!("policy update {selector} dir out priority 9 {template}"));
    assert!(pair.a.xfrm("policy list").contains("priority 9"));
    let index = pair.a.statistics("policy list").split("index ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(pair.a.xfrm(&format!("policy get index {index} dir out")).contains("priority 9"));
    pair.a.xfrm("policy add src 10.12.0.0/16 dst 10.11.0.0/16 dir fwd action block");
    let count = pair.a.xfrm("policy count");
    assert!(count.contains("IN  0") && count.contains("OUT 1") && count.contains("FWD 1"), "{count}");
    let firewall = || String::from_utf8(pair.a.run("nft", "list table inet gantry_esp").stdout).unwrap();
    for element in ["10.11.0.0 . 10.12.0.0 . 443", "10.12.0.0 . 10.11.0.0"] {
        assert!(firewall().contains(element), "{}", firewall());
    }
    pair.a.xfrm(&format!("policy delete index {index} dir out"));
    assert!(pair.a.refused(&format!("policy get {selector} dir out")).contains("there is no such policy"));
    assert!(pair.a.refused(&format!("policy delete {selector} dir out")).contains("there is no such policy"));
    assert!(!firewall().contains("10.11.0.0 . 10.12.0.0"), "{}", firewall());
    pair.a.xfrm("policy flush");
    assert!(!firewall().contains("10.11.0.0"), "{}", firewall());
    assert_eq!(pair.a.xfrm("policy list"), "");
    assert_eq!(pair.a.status()["policies"], 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_spi_is_reserved_and_then_gets_its_keys() {
    let pair = single_data_path();
    let between = "src 10.2.0.2 dst 10.1.0.1 proto esp";
    let shown = pair.a.xfrm(&format!("state allocspi {between} reqid 3 mode tunnel min 0x1000 max 0x1001"));
    let spi = shown.split("spi ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(["0x00001000", "0x00001001"].contains(&&*spi), "{shown}");
    pair.a.xfrm(&format!("state allocspi {between} mode tunnel min 0x1000 max 0x1001"));
    let refusal = pair.a.refused(&format!("state allocspi {between} mode tunnel min 0x1000 max 0x1001"));
    assert!(refusal.contains("no SPI is free in the range"), "{refusal}");
    assert_eq!(pair.a.status()["associations"]["in"], 0);
    let keys = Keys::gcm().text();
    let options = format!("reqid 3 mode tunnel {keys} encap espinudp 4500 4500 0.0.0.0");
    pair.a.xfrm(&format!("state update {between} spi {spi} {options}"));
    assert_eq!(pair.a.status()["associations"]["in"], 1);
    assert!(pair.a.refused(&format!("state update {between} spi 0x5555 {options}")).contains("there is no such SA"));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn unsupported_features_are_refused_with_a_text() {
    let pair = single_data_path();
    let id = "src 10.1.0.1 dst 10.2.0.2 proto esp spi 0x1077";
    let gcm = Keys::gcm().text();
    let encap = "encap espinudp 4500 4500 0.0.0.0";
    let sha256 = hex(&[7; 32]);
    let refused = |command: &str, reason: &str| {
        let text = pair.a.refused(command);
        assert!(text.contains(reason), "{command}: {text}");
    };
    let marks = "marks are not supported: the data path does not see those of packets";
    let interfaces = "XFRM interfaces are not supported: their packets go to the kernel's own XFRM";
    for (sa, reason) in [
        (format!("{id} mode beet {gcm} {encap}"), "only tunnel mode and transport mode are supported"),
        (
            format!("{id} mode transport {gcm} {encap} sel src 10.1.0.9 dst 10.2.0.2"),
            "selectors of SAs are not supported",
        ),
        (
            format!("{id} mode transport {gcm} {encap} sel src 10.1.0.1 dst 10.2.0.2 proto udp"),
            "selectors of SAs are not supported",
        ),
        (
            format!("src 0.0.0.0 dst 10.2.0.2 proto esp spi 0x1077 mode transport {gcm} {encap}"),
            "an SA of transport mode needs the addresses of both ends",
        ),
        (
            format!("{id} mode tunnel {gcm} encap espinudp-nonike 4500 4500 0.0.0.0"),
            "the only supported encapsulation is that in UDP",
        ),
        (format!("{id} mode tunnel mark 7 mask 0xff {gcm} {encap}"), marks),
        (format!("{id} mode tunnel if_id 7 {gcm} {encap}"), interfaces),
        (format!("{id} mode tunnel output-mark 7 {gcm} {encap}"), marks),
        (
            format!("{id} mode tunnel {gcm} {encap} sel src 10.9.0.0/16 dst 10.8.0.0/16"),
            "selectors of SAs are not supported",
        ),
        (format!("{id} mode tunnel flag wildrecv {gcm} {encap}"), "the flags `wildrecv` and `icmp` are not supported"),
        (format!("{id} mode tunnel flag icmp {gcm} {encap}"), "the flags `wildrecv` and `icmp` are not supported"),
        (
            format!("{id} mode tunnel {gcm} encap espinudp 4501 4500 0.0.0.0"),
            "this data path sends and receives at UDP port 4500, not 4501",
        ),
        (
            format!("{id} mode tunnel extra-flag oseq-may-wrap {gcm} {encap}"),
            "wrapping sequence numbers are not supported",
        ),
        (
            format!("src 10.1.0.1 dst 10.2.0.2 proto ah spi 0x1077 mode tunnel auth hmac(sha256) {sha256}"),
            "only ESP is supported, not AH or IPComp",
        ),
        (
            format!("{id} mode tunnel aead rfc4309(ccm(aes)) {} 32 {encap}", hex(&[7; 19])),
            "rfc4309(ccm(aes)) with a tag of 32 bits is not supported",
        ),
        (
            format!("{id} mode tunnel replay-window 32 flag esn aead rfc4543(gcm(aes)) {} 128 {encap}", hex(&[7; 20])),
            "the suite takes sequence numbers of 32 bits",
        ),
        (
            format!(
                "{id} mode tunnel auth-trunc hmac(md5) {} 96 enc cbc(aes) {} {encap}",
                hex(&[7; 16]),
                hex(&[7; 16])
            ),
            "hmac(md5) with a tag of 96 bits is not supported",
        ),
        (
            format!("{id} mode tunnel auth-trunc hmac(sha256) {sha256} 64 enc cbc(aes) {} {encap}", hex(&[7; 16])),
            "hmac(sha256) with a tag of 64 bits is not supported",
        ),
        (
            format!(
                "{id} mode tunnel auth-trunc hmac(sha256) {sha256} 128 enc cbc(des3_ede) {} {encap}",
                hex(&[7; 24])
            ),
            "cbc(des3_ede) is not supported",
        ),
        (format!("{id} mode tunnel enc cbc(aes) {} {encap}", hex(&[7; 16])), "an SA without authentication"),
        (format!("{id} mode tunnel aead rfc4106(gcm(aes)) {} 128 {encap}", hex(&[7; 21])), "it takes 24"),
    ] {
        refused(&format!("state add {sa}"), reason);
    }
    let selector = "src 10.11.0.0/16 dst 10.12.0.0/16";
    for (policy, reason) in [
        (
            format!("{selector} dir out tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode beet"),
            "only tunnel mode and transport mode are supported",
        ),
        (
            "src fe80::1 dst fe80::2 dir out tmpl proto esp mode transport".to_owned(),
            "packets to link-local addresses are not protected",
        ),
        (format!("{selector} dir out mark 7 tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"), marks),
        (format!("{selector} dir in mark 7 mask 0xf tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"), marks),
        (format!("{selector} dir out mark 7 action block"), marks),
        (format!("{selector} dir out if_id 7 tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"), interfaces),
        (
            format!("{selector} dev va dir out tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"),
            "policies of one interface are supported only if they let packets pass",
        ),
        (
            format!("{selector} dir out flag icmp tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"),
            "the flag `icmp` is not supported",
        ),
        (format!("{selector} dir out ptype sub tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"), "sub-policies"),
        (
            format!(
                "{selector} dir out tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel tmpl src 10.1.0.1 dst 10.2.0.2 proto esp mode tunnel"
            ),
            "only one SA for each packet is supported",
        ),
    ] {
        refused(&format!("policy add {policy}"), reason);
    }
    for protocol in ["ah", "comp"] {
        refused(
            &format!("state allocspi src 10.2.0.2 dst 10.1.0.1 proto {protocol} mode tunnel min 0x100 max 0xffff"),
            "only ESP is supported, not AH or IPComp",
        );
    }
    let spi = "state allocspi src 10.2.0.2 dst 10.1.0.1 proto esp mode tunnel min 0x100 max 0xffff";
    refused(&format!("{spi} mark 7"), marks);
    // A selector with a mark, an interface ID or a type names another policy, which does not exist here.
    pair.a.xfrm(&format!("policy add {selector} dir out action block"));
    for other in ["mark 7", "if_id 7", "ptype sub"] {
        for command in ["get", "delete"] {
            refused(&format!("policy {command} {selector} dir out {other}"), "there is no such policy");
        }
    }
    pair.a.xfrm(&format!("policy delete {selector} dir out"));
    refused("policy setdefault in block", "packets without a policy bypass this data path");
    assert_eq!((&pair.a.xfrm("state list")[..], &pair.a.xfrm("policy list")[..]), ("", ""));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn sas_count_passed_packets_and_bytes() {
    let pair = Pair::with_tunnel(&Plan::default());
    datagrams(&pair.a, &pair.b, V4, [100, 200, 300].into_iter());
    let shown = |host: &Host, source: &str| host.statistics(&format!("state list src {source}"));
    let counted = format!("{}(bytes), 3(packets)", 600 + 3 * 28);
    for (host, source) in [(&pair.a, "10.1.0.1"), (&pair.b, "10.1.0.1"), (&pair.a, "10.2.0.2"), (&pair.b, "10.2.0.2")] {
        wait_until("an SA has counted the packets", || shown(host, source).contains(&counted));
    }
    assert!(pair.a.xfrm("state list src 10.1.0.1").contains("oseq 0x3"));
    assert!(pair.b.xfrm("state list src 10.1.0.1").contains("seq 0x3"));
    assert!(pair.a.statistics("policy list dir out").contains(&counted));
    let rules = pair.a.status()["rules"].clone();
    let counter = |direction: &str| {
        let rules = rules.as_array().unwrap().iter().filter(|rule| rule["direction"] == direction);
        rules.map(|rule| rule["packets"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((counter("out"), counter("in")), (3, 3));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn policies_count_each_packet_of_a_stream() {
    let pair = Pair::with_tunnel(&Plan::default());
    stream(&pair.b, &pair.a, V4, 1 << 20);
    let sum = |host: &Host, list: &str, direction: &str| {
        let all = host.status()[list].as_array().unwrap().clone();
        let matching = all.iter().filter(|row| row["direction"] == direction);
        matching.map(|row| row["packets"].as_u64().unwrap()).sum::<u64>()
    };
    for (host, direction) in [(&pair.a, "in"), (&pair.a, "out"), (&pair.b, "in"), (&pair.b, "out")] {
        wait_until("a policy has as many packets as its SA", || {
            sum(host, "rules", direction) == sum(host, "sas", direction)
        });
    }
    assert!(sum(&pair.a, "rules", "in") > 700);
}

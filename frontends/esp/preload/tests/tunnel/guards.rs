//! A socket that is bound to a device sends nothing in clear, with or without the firewall.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use gantry_lab::wait_until;
use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{Host, Pair, Plan};
use crate::keys::{V4, V6};
use crate::namespace::Namespace;
use crate::plaintext::{PROTECTED, Wire, try_everything};
use crate::traffic::{MARKER, datagrams, payload};
use crate::viewers::as_nobody;

/// Returns a socket that is bound to the device of the link to the other host.
fn bound_socket(host: &Host, family: usize) -> UdpSocket {
    let socket = host.udp_unbound(family).0;
    setsockopt(&socket, sockopt::BindToDevice, &host.device.into()).unwrap();
    socket
}

#[test]
#[ignore = "needs root and network namespaces"]
fn reloading_the_firewall_in_a_loop_leaks_no_packet_under_load_by_other_users() {
    let pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    let (done, sent, seen) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let is_done = || done.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                as_nobody(|| {
                    while !is_done() {
                        seen.fetch_add(u64::from(pair.a.try_status().is_some()), Ordering::Relaxed);
                    }
                });
            });
        }
        for family in [V4, V6] {
            let (socket, far) = (bound_socket(&pair.a, family), (pair.b.inner[family], 9));
            let (sent, is_done) = (&sent, &is_done);
            scope.spawn(move || {
                while !is_done() {
                    // The kernel may refuse the packet.
                    let _ = socket.send_to(MARKER, far);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..=100 {
            assert!(pair.a.run("nft", "flush ruleset").status.success());
            wait_until("packets are tried", || sent.load(Ordering::Relaxed) > 20 * round);
        }
        // Daemons still get answers.
        assert!(pair.a.xfrm("state count").contains("SAD count 2"));
        wait_until("other users see the counters", || seen.load(Ordering::Relaxed) > 100);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(wire.count_sealed(), 0);
    // The tunnel still carries packets.
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
}

/// Each new policy has a selector of another shape, so the data path replaces the firewall's table.
#[test]
#[ignore = "needs root and network namespaces"]
fn new_policies_let_no_packet_to_a_protected_network_escape() {
    let pair = Pair::with_data_paths(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for family in [V4, V6] {
            let (socket, far) = (pair.a.udp(pair.a.inner[family], 0), (pair.b.inner[family], 9));
            let (sent, done) = (&sent, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // The kernel may refuse the packet.
                    let _ = socket.send_to(MARKER, far);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for bits in 1..=32 {
            let before = sent.load(Ordering::Relaxed);
            pair.a.xfrm(&format!("policy add src 192.0.2.1/{bits} dst 192.0.2.2/32 dir out action block"));
            wait_until("packets are tried", || sent.load(Ordering::Relaxed) > before + 20);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(wire.count_sealed(), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn leftovers_of_a_data_path_protect_without_the_firewall() {
    let mut pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    pair.a.kill();
    assert!(pair.a.run("nft", "flush ruleset").status.success());
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
    // Unprotected packets pass as before.
    pair.a.pings(1, "", pair.b.outer[V4]);
    pair.a.pings(1, "", pair.b.outer[V6]);
    pair.a.serve(&Plan::default());
    pair.remove_tunnel();
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
}

/// Waits until the filters of the devices know all policies.
fn await_filters(host: &Host) {
    wait_until("the filters know all policies", || host.status()["guards"]["filters"] == true);
}

/// Sends from the inner addresses, with and without a device.
fn try_policies(host: &Host, to: &Host) {
    for family in [V4, V6] {
        let far = (to.inner[family], 9);
        let plain = host.udp(host.inner[family], 0);
        let bound = host.udp(host.inner[family], 0);
        setsockopt(&*bound, sockopt::BindToDevice, &host.device.into()).unwrap();
        for socket in [plain, bound] {
            let _ = socket.send_to(MARKER, far);
        }
        host.ping(&format!("-W 0.05 -I {}", host.inner[family]), to.inner[family]);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_of_policies_are_stopped_without_the_firewall() {
    let mut pair = Pair::with_tunnel(&Plan::default());
    await_filters(&pair.a);
    pair.a.kill();
    assert!(pair.a.run("nft", "flush ruleset").status.success());
    let wire = Wire::new(&pair);
    try_policies(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
    // Packets without a policy pass.
    pair.a.pings(1, "", pair.b.outer[V4]);
    pair.a.pings(1, "", pair.b.outer[V6]);
    // The next data path has no policies yet, and a device is added before it has any.
    pair.a.serve(&Plan::default());
    pair.a.namespace.join("vn", &Namespace::new(), "fn");
    await_filters(&pair.a);
    let wire = Wire::new(&pair);
    try_policies(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
    pair.a.kill();
    assert!(pair.a.namespace.enter(gantry_esp::clear_leftovers).is_ok());
    let wire = Wire::new(&pair);
    wait_until("packets pass as without a data path", || {
        try_policies(&pair.a, &pair.b);
        wire.take_has_plaintext()
    });
}

#[test]
#[ignore = "needs root and network namespaces"]
fn filters_let_packets_without_a_policy_pass() {
    let pair = Pair::with_tunnel(&Plan::default());
    for family in [V4, V6] {
        let (any, bits) = (["0.0.0.0/0", "::/0"][family], [32, 128][family]);
        let far = format!("{}/{bits}", pair.b.outer[family]);
        pair.a.xfrm(&format!("policy add src {any} dst {any} dir out priority 50 action block"));
        pair.a.xfrm(&format!("policy add src {any} dst {far} proto udp dport 7 dir out priority 5"));
    }
    await_filters(&pair.a);
    for family in [V4, V6] {
        let (near, far) = (pair.a.udp(pair.a.outer[family], 0), pair.b.udp(pair.b.outer[family], 7));
        let mut buffer = [0; 4000];
        // The larger datagram is sent in fragments, only the first of which has ports.
        for bytes in [100, 3000] {
            near.send_to(&payload(bytes), far.local_addr().unwrap()).unwrap();
            assert_eq!(far.recv(&mut buffer).unwrap_or_else(|error| panic!("{bytes} bytes: {error}")), bytes);
        }
    }
    // A bridge sends frames of another hardware address.
    if !pair.a.run("ip", "link add bridge0 type bridge").status.success() {
        return gantry_lab::skip("kernel with bridges");
    }
    let bridged_host = Namespace::new();
    pair.a.namespace.join("vq", &bridged_host, "qp");
    // Excludes the frames of bridges from the firewall. Some kernels have no such variable.
    let _ = pair.a.namespace.enter(|| std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0"));
    for change in ["link set va master bridge0", "link set vq master bridge0"] {
        pair.a.namespace.ip(change);
    }
    pair.a.namespace.ip("link set bridge0 up");
    await_filters(&pair.a);
    bridged_host.ip("address add 10.2.0.9/24 dev qp");
    let far = pair.b.udp(pair.b.outer[V4], 9);
    let socket = bridged_host.enter(|| UdpSocket::bind("10.2.0.9:0")).unwrap();
    let arrived = || {
        socket.send_to(MARKER, far.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        far.recv(&mut [0; 64]).is_ok()
    };
    wait_until("frames of the bridge pass", arrived);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn filters_follow_policies_and_devices() {
    let pair = Pair::with_tunnel(&Plan::default());
    let filter =
        |device: &str| String::from_utf8(pair.a.run("tc", &format!("filter show dev {device} egress")).stdout).unwrap();
    await_filters(&pair.a);
    assert!(filter("va").contains("bpf"), "{}", filter("va"));
    let far = Namespace::new();
    pair.a.namespace.join("vn", &far, "fn");
    wait_until("the new device has a filter", || filter("vn").contains("bpf"));
    assert!(pair.a.run("tc", "qdisc del dev va clsact").status.success());
    wait_until("the filter is back", || filter("va").contains("bpf"));
    assert!(!filter("gantry0").contains("bpf") && !filter("lo").contains("bpf"));
    pair.a.xfrm("policy flush");
    wait_until("without policies no filter is left", || !filter("va").contains("bpf"));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn reloading_the_firewall_keeps_the_guard() {
    let mut pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let nft = |arguments: &str| pair.a.run("nft", arguments);
    let restored = || wait_until("the table exists", || nft("list table inet gantry_esp").status.success());
    restored();
    let drops = || {
        let text = nft("list table inet gantry_esp").stdout;
        String::from_utf8(text).unwrap().matches("drop").count()
    };
    let before = drops();
    assert!(before >= 4, "a policy and a network of each family");
    for change in ["flush ruleset", "delete chain inet gantry_esp leaving", "flush chain inet gantry_esp leaving"] {
        assert!(nft("add table ip others").status.success());
        // Linux 6.9 and later refuse the change. On earlier kernels the change succeeds, and the table is restored.
        let _ = nft(change);
        wait_until("the rules are back", || drops() == before);
        let wire = Wire::new(&pair);
        try_everything(&pair.a, &pair.b);
        wire.count_sealed();
    }
    // The addresses of the networks are shown, and other tables still exist.
    let text = String::from_utf8(nft("list ruleset").stdout).unwrap();
    let mut addresses = PROTECTED.iter().filter_map(|network| network.split('/').next());
    assert!(addresses.all(|address| text.contains(&format!("elements = {{ {address} }}"))), "{text}");
    assert!(text.contains("table ip others"), "{text}");
    // A restarted data path guards the networks that the earlier one left.
    pair.a.kill();
    pair.a.serve(&Plan::default());
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
}

/// Returns the lines in which `ip` shows a data path's rules, routes and policies.
fn shown(host: &Host) -> Vec<String> {
    let tables =
        [4500, 4501, 4502, 4503].map(|table| ["", "-6 "].map(|family| format!("{family}route show table {table}")));
    let others = ["rule", "-6 rule", "-6 nexthop", "xfrm policy list"].map(str::to_owned);
    let commands = tables.into_iter().flatten().chain(others);
    let texts: Vec<String> = commands.map(|command| host.namespace.ip(&command)).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    // Sorts the lines, because restored policies are listed in the order of their restoration.
    let mut lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    lines.sort_unstable();
    lines
}

#[test]
#[ignore = "needs root and network namespaces"]
fn removals_by_other_programs_are_restored() {
    let pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    await_filters(&pair.a);
    let all = serde_json::json!({ "nf_tables": true, "policies": true, "routes": true, "filters": true });
    assert_eq!(pair.a.status()["guards"], all);
    pair.a.xfrm("policy add src 0.0.0.0/0 dst 10.12.99.0/24 dir out priority 1");
    pair.a.xfrm("policy add src 10.11.0.0/16 dst 10.12.98.0/24 dir out action block");
    let before = shown(&pair.a);
    let wire = Wire::new(&pair);
    for change in [
        "xfrm policy flush",
        "xfrm policy deleteall",
        "rule flush",
        "-6 rule flush",
        "rule delete priority 196",
        "rule delete priority 197",
        "rule delete priority 199",
        "-6 rule delete priority 200",
        "route flush table 4500",
        "route flush table 4501",
        "-6 route flush table 4502",
        "route flush table 4503",
        "-6 route delete fd12::/64 dev gantry0 table 4500",
        "route delete unreachable 10.12.0.0/16 table 4500",
        "nexthop flush",
        "link set gantry0 down",
    ] {
        pair.a.namespace.ip(change);
        if change.starts_with("link") {
            pair.a.namespace.ip("link set gantry0 up");
        }
        if change.ends_with("rule flush") {
            // Adds the kernel's own rules, which the data path does not restore.
            for family in ["", "-6 "] {
                for (priority, table) in [(32766, "main"), (32767, "default")] {
                    let rule = format!("{family}rule add priority {priority} lookup {table}");
                    let _ = pair.a.run("ip", &rule);
                }
            }
        }
        wait_until(&format!("everything is restored after {change}"), || {
            let current = shown(&pair.a);
            before.iter().all(|line| current.contains(line))
        });
    }
    try_everything(&pair.a, &pair.b);
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
    wire.count_sealed();
}

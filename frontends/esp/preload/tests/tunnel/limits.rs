//! Limits of SAs: sequence numbers, bytes, packets and time, and the notifications to the daemon.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::host::{EVENT_TIMEOUT, Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, add_policies};
use crate::traffic::{MARKER, Udp, datagrams, stream};
use crate::wire::{self, Listener};
use gantry_lab::wait_until;

/// `ip xfrm monitor`, whose lines are read as they arrive.
pub(crate) struct Monitor {
    child: Child,
    lines: Receiver<String>,
}

impl Monitor {
    pub(crate) fn new(host: &Host) -> Self {
        let mut child = host.spawn(host.command("monitor").stdout(Stdio::piped()));
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let monitor = Self { child, lines };
        // Once the monitor shows an event, it has joined its groups.
        let probe = "src 192.0.2.1/32 dst 192.0.2.2/32 dir in";
        wait_until("the monitor shows events", || {
            host.xfrm(&format!("policy add {probe} action block"));
            host.xfrm(&format!("policy delete {probe}"));
            monitor.lines.recv_timeout(Duration::from_millis(20)).is_ok()
        });
        monitor
    }

    /// Waits for lines with these words, in this order. Returns the last line.
    pub(crate) fn await_lines(&self, words: &[&str]) -> String {
        let (mut seen, mut last) = (Vec::new(), String::new());
        for word in words {
            loop {
                let line =
                    self.lines.recv_timeout(EVENT_TIMEOUT).unwrap_or_else(|_| panic!("{word} is not in {seen:#?}"));
                seen.push(line.clone());
                if line.contains(word) {
                    last = line;
                    break;
                }
            }
        }
        last
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds a tunnel from `a` to `b`, with further arguments of its SA at each end. Returns a program's sockets at both
/// ends.
fn one_way(pair: &Pair, [at_a, at_b]: [&str; 2]) -> [Udp; 2] {
    let a_to_b = Sa::new(&pair.a, &pair.b, 0x1001, &Keys::gcm());
    pair.b.xfrm(&Sa { options: at_b, ..a_to_b.clone() }.add_command());
    pair.a.xfrm(&Sa { options: at_a, ..a_to_b.clone() }.add_command());
    let b_to_a = Sa::new(&pair.b, &pair.a, 0x1002, &Keys::gcm());
    add_policies(&a_to_b, &b_to_a);
    add_policies(&b_to_a, &a_to_b);
    let [near, far] = [&pair.a, &pair.b].map(|host| host.udp(host.inner[V4], 0));
    near.connect(far.local_addr().unwrap()).unwrap();
    [near, far]
}

/// The arguments of an SA without limits.
const NO_LIMITS: &str = "replay-window 32";

/// Sends up to `most` packets one after the other, until one does not pass. Returns the number of passed packets.
fn count_passed(pair: &Pair, sockets: &[Udp; 2], most: usize) -> usize {
    let counters = ["sent_packets", "without_sa", "expired"];
    for at in 0..most {
        let sent = pair.a.counter("sent_packets");
        let before: u64 = counters.map(|name| pair.a.counter(name)).iter().sum();
        sockets[0].send(MARKER).unwrap();
        wait_until("the packet is counted", || counters.map(|name| pair.a.counter(name)).iter().sum::<u64>() > before);
        if pair.a.counter("sent_packets") == sent {
            return at;
        }
        sockets[1].recv(&mut [0; 64]).unwrap();
    }
    most
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_ends_with_its_last_sequence_number() {
    let at_sender = "replay-window 32 flag esn replay-oseq 0xfffffffa replay-oseq-hi 0xffffffff";
    let at_receiver = "replay-window 32 flag esn replay-seq 0xfffffffa replay-seq-hi 0xffffffff";
    for (options, packets_left) in
        [(["replay-window 32 replay-oseq 0xfffffff0", NO_LIMITS], 15), ([at_sender, at_receiver], 5)]
    {
        let pair = Pair::with_data_paths(&Plan::default());
        let (wire, monitor) = (Listener::start(&pair.a.namespace, "va"), Monitor::new(&pair.a));
        let sockets = one_way(&pair, options);
        assert_eq!(count_passed(&pair, &sockets, 30), packets_left, "{options:?}");
        monitor.await_lines(&["Expired", "spi 0x00001001", "hard 1"]);
        assert_eq!(wire::count_sealed(&wire.finish()), packets_left);
        assert_eq!(pair.a.status()["associations"]["out"], 0);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn extended_numbers_go_beyond_32_bits() {
    let pair = Pair::with_data_paths(&Plan::default());
    pair.add_tunnel(&Keys::gcm(), V4, "replay-window 128 flag esn replay-oseq 0xffffffc0 replay-seq 0xffffffc0");
    for _ in 0..20 {
        datagrams(&pair.a, &pair.b, V4, [10, 20, 30, 40, 50, 60, 70, 80].into_iter());
    }
    stream(&pair.b, &pair.a, V4, 1 << 18);
    let state = pair.a.xfrm("state list src 10.1.0.1");
    assert!(state.contains("oseq-hi 0x1") || state.contains("oseq_hi 0x1"), "{state}");
    assert_eq!(pair.b.counter("replayed") + pair.b.counter("forged"), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn volume_is_reported_at_the_soft_limit_and_ends_an_sa_at_the_hard_one() {
    // A packet has IPv4 and UDP headers before the marker.
    for (options, passes) in [
        ("limit packet-soft 3 limit packet-hard 6", 6),
        ("limit byte-soft 100 limit byte-hard 180", 180 / (28 + MARKER.len())),
    ] {
        let pair = Pair::with_data_paths(&Plan::default());
        let (wire, monitor) = (Listener::start(&pair.a.namespace, "va"), Monitor::new(&pair.a));
        let sockets = one_way(&pair, [&format!("replay-window 32 {options}"), NO_LIMITS]);
        assert_eq!(count_passed(&pair, &sockets, 20), passes, "{options}");
        monitor.await_lines(&["Expired", "spi 0x00001001", "hard 0"]);
        monitor.await_lines(&["Expired", "spi 0x00001001", "hard 1"]);
        assert_eq!(wire::count_sealed(&wire.finish()), passes);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn an_incoming_sa_ends_at_its_limits() {
    let pair = Pair::with_data_paths(&Plan::default());
    let monitor = Monitor::new(&pair.b);
    let sockets = one_way(&pair, [NO_LIMITS, "replay-window 32 limit packet-soft 2 limit packet-hard 4"]);
    for _ in 0..4 {
        sockets[0].send(MARKER).unwrap();
        sockets[1].recv(&mut [0; 64]).unwrap();
    }
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 0"]);
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 1"]);
    sockets[0].send(MARKER).unwrap();
    pair.b.await_counter("unknown_spi", 1);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn updated_limits_end_an_sa() {
    let pair = Pair::with_data_paths(&Plan::default());
    let monitor = Monitor::new(&pair.a);
    let keys = Keys::gcm();
    let a_to_b = Sa::new(&pair.a, &pair.b, 0x1001, &keys);
    a_to_b.install();
    let b_to_a = Sa::new(&pair.b, &pair.a, 0x1002, &Keys::gcm());
    add_policies(&a_to_b, &b_to_a);
    add_policies(&b_to_a, &a_to_b);
    let sockets = [&pair.a, &pair.b].map(|host| host.udp(host.inner[V4], 0));
    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
    let update = |limits: &str| {
        pair.a.xfrm(&format!("{} {limits}", a_to_b.add_command().replace("state add", "state update")));
    };
    update("limit packet-soft 2 limit packet-hard 4");
    assert_eq!(count_passed(&pair, &sockets, 3), 3);
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 0"]);
    update("limit packet-soft 5 limit packet-hard 7");
    assert_eq!(count_passed(&pair, &sockets, 3), 3);
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 0"]);
    // Six packets have passed already, so the limit takes effect at once.
    update("limit packet-hard 6");
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 1"]);
    assert_eq!(count_passed(&pair, &sockets, 1), 0);
    assert!(pair.a.xfrm("state list").is_empty());
}

/// A NAT may assign another port to a peer.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_update_leads_packets_to_another_port_of_the_peer() {
    let pair = Pair::with_data_paths(&Plan::default());
    let a_to_b = Sa::new(&pair.a, &pair.b, 0x1001, &Keys::gcm());
    pair.a.xfrm(&a_to_b.add_command());
    add_policies(&a_to_b, &Sa::new(&pair.b, &pair.a, 0x1002, &Keys::gcm()));
    let near = pair.a.udp(pair.a.inner[V4], 0);
    for port in [1024, 1025] {
        let nat = pair.b.udp(pair.b.outer[V4], port);
        let ports = format!("4500 {port}");
        pair.a.xfrm(&a_to_b.add_command().replace("state add", "state update").replace("4500 4500", &ports));
        near.send_to(MARKER, (pair.b.inner[V4], 9)).unwrap();
        let mut packet = [0; 256];
        let (_, from) = nat.recv_from(&mut packet).unwrap();
        assert_eq!((from.port(), &packet[..4]), (4500, &[0, 0, 0x10, 1][..]));
        assert!(pair.a.xfrm("state list").contains(&format!("sport 4500 dport {port}")));
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn time_is_reported_at_the_soft_limit_and_ends_an_sa_at_the_hard_one() {
    let pair = Pair::with_data_paths(&Plan::default());
    let monitor = Monitor::new(&pair.a);
    let sockets = one_way(&pair, ["replay-window 32 limit time-soft 1 limit time-hard 10", NO_LIMITS]);
    assert_eq!(count_passed(&pair, &sockets, 2), 2);
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 0"]);
    monitor.await_lines(&["Expired", "spi 0x00001001", "hard 1"]);
    assert_eq!(count_passed(&pair, &sockets, 1), 0);
    // With this limit, time counts from the first packet.
    let a_to_b = Sa { options: "limit time-use-hard 1", ..Sa::new(&pair.a, &pair.b, 0x1003, &Keys::gcm()) };
    pair.a.xfrm(&a_to_b.add_command());
    let lasts = "src 198.51.100.1/32 dst 198.51.100.2/32 dir in action block limit time-hard 1";
    pair.a.xfrm(&format!("policy add {lasts}"));
    sockets[0].send(MARKER).unwrap();
    monitor.await_lines(&["Expired", "spi 0x00001003", "hard 1"]);
    wait_until("the policy is gone", || !pair.a.xfrm("policy list").contains("198.51.100.1"));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_packet_without_an_sa_requests_one() {
    let pair = Pair::with_data_paths(&Plan::default());
    let monitor = Monitor::new(&pair.a);
    let b_to_a = Sa::new(&pair.b, &pair.a, 1002, &Keys::gcm());
    add_policies(&Sa::new(&pair.a, &pair.b, 1001, &Keys::gcm()), &b_to_a);
    let near = pair.a.udp(pair.a.inner[V4], 4321);
    for _ in 0..20 {
        near.send_to(MARKER, (pair.b.inner[V4], 99)).unwrap();
    }
    let selector = monitor.await_lines(&["acquire proto esp", "sel src 10.11.0.1/32 dst 10.12.0.1/32"]);
    assert!(selector.contains("proto udp sport 4321 dport 99"), "{selector}");
    pair.a.await_counter("without_sa", 20);
}

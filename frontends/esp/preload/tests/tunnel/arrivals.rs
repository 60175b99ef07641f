//! Packets that arrive in clear although a policy protects them are dropped, as in Linux (RFC 4301, 5.2). The first host has no data path.

use std::net::{IpAddr, UdpSocket};

use gantry_lab::wait_until;

use crate::host::{EVENT_TIMEOUT, Host, Pair, Plan};
use crate::keys::{V4, V6};
use crate::namespace::Namespace;
use crate::steering::host_behind;
use crate::traffic::{Udp, payload};

const TEMPLATE: &str = "tmpl proto esp reqid 1 mode tunnel";
/// Ports of the receiver.
const PORTS: [u16; 2] = [7, 9];

fn pair() -> Pair {
    let mut pair = Pair::linked();
    pair.b.serve(&Plan::default());
    pair
}

/// Formats a network of one address.
fn one_address(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Returns the number of packets that a host has dropped since the rules of its firewall were last replaced.
fn dropped(host: &Host) -> u64 {
    let dropped_in = |chain: &str| {
        let text = String::from_utf8(host.run("nft", &format!("list chain inet gantry_esp {chain}")).stdout).unwrap();
        let counts = text.split("counter packets ").skip(1).map(|rest| rest.split(' ').next().unwrap().to_owned());
        counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>()
    };
    dropped_in("in_clear") + dropped_in("forwarded")
}

/// A program that sends, and another that receives at two ports behind a host with a data path.
struct Programs<'h> {
    host: &'h Host,
    sender: Udp,
    receivers: [Udp; 2],
}

impl<'h> Programs<'h> {
    fn new(from: &Host, near: IpAddr, host: &'h Host, to: &Namespace, far: IpAddr) -> Self {
        let receivers = PORTS.map(|port| Udp(to.enter(|| UdpSocket::bind((far, port))).unwrap()));
        for receiver in &receivers {
            receiver.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        }
        Self { host, sender: from.udp(near, 0), receivers }
    }

    /// Sends a datagram of `bytes` bytes to the receiver at `PORTS[at]`, and asserts that the datagram arrives.
    #[track_caller]
    fn assert_arrives(&self, at: usize, bytes: usize) {
        let (sent, mut buffer) = (payload(bytes), vec![0; 1 << 16]);
        self.sender.send_to(&sent, self.receivers[at].local_addr().unwrap()).unwrap();
        let (length, from) = self.receivers[at].recv_from(&mut buffer).expect("the datagram arrives");
        assert!(buffer[..length] == sent && from == self.sender.local_addr().unwrap());
    }

    /// Sends a datagram to the receiver at `PORTS[at]`, and asserts that the host drops the datagram.
    #[track_caller]
    fn assert_dropped(&self, at: usize) {
        let before = dropped(self.host);
        self.sender.send_to(b"dropped", self.receivers[at].local_addr().unwrap()).unwrap();
        wait_until("it is dropped", || dropped(self.host) == before + 1);
        let receiver = &self.receivers[at];
        receiver.set_nonblocking(true).unwrap();
        assert_eq!(receiver.recv(&mut [0; 64]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        receiver.set_nonblocking(false).unwrap();
    }

    /// Asserts that packets arrive or are dropped as the policies of a direction say: one for all packets, and one for port 7.
    fn check_policies(&self, direction: &str) {
        let networks = [&self.sender, &self.receivers[0]].map(|socket| one_address(socket.local_addr().unwrap().ip()));
        let selector = format!("src {} dst {} dir {direction}", networks[0], networks[1]);
        let port_selector = format!("src {} dst {} proto udp dport 7 dir {direction}", networks[0], networks[1]);
        let xfrm = |command: String| drop(self.host.xfrm(&command));
        let both_arrive = || [0, 1].iter().for_each(|at| self.assert_arrives(*at, 3000));
        both_arrive();
        xfrm(format!("policy add {selector} priority 10 {TEMPLATE}"));
        for at in [0, 1] {
            self.assert_dropped(at);
        }
        // A policy that lets packets pass has an effect before the other policy, and none after it.
        xfrm(format!("policy add {port_selector} priority 5"));
        self.assert_arrives(0, 3000);
        self.assert_dropped(1);
        xfrm(format!("policy update {port_selector} priority 15"));
        self.assert_dropped(0);
        // A template may be optional, and a policy may block.
        xfrm(format!("policy update {port_selector} priority 5 {TEMPLATE} level use"));
        self.assert_arrives(0, 100);
        xfrm(format!("policy update {port_selector} priority 5 action block"));
        self.assert_dropped(0);
        xfrm(format!("policy delete {selector}"));
        self.assert_dropped(0);
        // Other ports pass, even in fragments.
        self.assert_arrives(1, 3000);
        xfrm(format!("policy delete {port_selector}"));
        both_arrive();
        let other = if direction == "in" { "fwd" } else { "in" };
        xfrm(format!("policy add src {} dst {} dir {other} {TEMPLATE}", networks[0], networks[1]));
        both_arrive();
        xfrm("policy flush".to_owned());
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_to_this_host_that_arrive_in_clear_are_dropped() {
    let pair = pair();
    for family in [V4, V6] {
        let (near, far) = (pair.a.inner[family], pair.b.inner[family]);
        Programs::new(&pair.a, near, &pair.b, &pair.b.namespace, far).check_policies("in");
    }
    // The selector has a type of ICMP.
    let (near, far) = (pair.a.outer[V4], pair.b.outer[V4]);
    pair.b.xfrm(&format!(
        "policy add src {} dst {} proto icmp type 8 dir in {TEMPLATE}",
        one_address(near),
        one_address(far)
    ));
    let before = dropped(&pair.b);
    assert_eq!(pair.a.ping("-W 0.2", far).0, 0);
    wait_until("the request is dropped", || dropped(&pair.b) == before + 1);
    pair.b.pings(1, "", near);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn forwarded_packets_that_arrive_in_clear_are_dropped() {
    let pair = pair();
    let lan = host_behind(&pair.b, "vh", "10.13.0");
    Programs::new(&pair.a, pair.a.inner[V4], &pair.b, &lan, [10, 13, 0, 5].into()).check_policies("fwd");
    pair.b.namespace.ip("address add fd13::1/64 dev vh nodad");
    lan.ip("address add fd13::5/64 dev vhp nodad");
    lan.ip("-6 route add default via fd13::1");
    pair.b.namespace.sysctl("ipv6/conf/all/forwarding", "1");
    let far: IpAddr = "fd13::5".parse().unwrap();
    wait_until("the host is reached", || pair.a.ping(&format!("-W 0.2 -I {}", pair.a.inner[V6]), far).0 == 1);
    Programs::new(&pair.a, pair.a.inner[V6], &pair.b, &lan, far).check_policies("fwd");
}

/// ESP packets have the addresses of the policies, too. Other tests exchange ESP packets.
#[test]
#[ignore = "needs root and network namespaces"]
fn clear_packets_of_transport_mode_are_dropped_except_ike_and_neighbour_discovery() {
    let pair = pair();
    for family in [V4, V6] {
        let (near, far) = (pair.a.outer[family], pair.b.outer[family]);
        let programs = Programs::new(&pair.a, near, &pair.b, &pair.b.namespace, far);
        programs.assert_arrives(0, 100);
        let template = "tmpl proto esp reqid 1 mode transport";
        pair.b.xfrm(&format!("policy add src {} dst {} dir in {template}", one_address(near), one_address(far)));
        programs.assert_dropped(0);
        assert_eq!(pair.a.ping("-W 0.2", far).0, 0);
        let daemon = pair.b.udp(far, 500);
        let mut buffer = vec![0; 1 << 16];
        for bytes in [100, 3000] {
            programs.sender.send_to(&payload(bytes), daemon.local_addr().unwrap()).unwrap();
            assert_eq!(daemon.recv(&mut buffer).expect("IKE arrives"), bytes);
        }
        // The answer waits for the neighbour's address.
        pair.b.namespace.ip("neighbour flush dev vb");
        daemon.send_to(b"IKE", programs.sender.local_addr().unwrap()).unwrap();
        assert_eq!(programs.sender.recv(&mut buffer).expect("the answer arrives"), 3);
        // Packets of this host to itself are not for IPsec.
        let any = ["0.0.0.0/0", "::/0"][family];
        pair.b.xfrm(&format!("policy add src {any} dst {any} dir in {template}"));
        let (here, there) = (pair.b.udp(far, 0), pair.b.udp(pair.b.inner[family], 0));
        here.send_to(b"here", there.local_addr().unwrap()).unwrap();
        assert_eq!(there.recv(&mut buffer).expect("it arrives"), 4);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_in_clear_are_dropped_after_the_data_path_has_ended() {
    let mut pair = pair();
    let addresses = [pair.a.inner[V4], pair.b.inner[V4]];
    let selector = format!("src {} dst {} dir in", one_address(addresses[0]), one_address(addresses[1]));
    pair.b.xfrm(&format!("policy add {selector} {TEMPLATE}"));
    let check = |pair: &Pair, is_heard: bool| {
        let programs = Programs::new(&pair.a, addresses[0], &pair.b, &pair.b.namespace, addresses[1]);
        if is_heard { programs.assert_arrives(0, 100) } else { programs.assert_dropped(0) }
    };
    check(&pair, false);
    pair.b.kill();
    check(&pair, false);
    pair.b.serve(&Plan::default());
    check(&pair, false);
    // A new policy replaces the policy of the killed data path, so packets pass once the new policy is removed.
    pair.b.xfrm(&format!("policy add {selector} {TEMPLATE}"));
    pair.b.xfrm(&format!("policy delete {selector}"));
    check(&pair, true);
}

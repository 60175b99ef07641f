//! Once a data path has started, packets to protected networks and packets of tunnel policies leave as ESP or not at all. This holds
//! without SAs, and after the data path was killed. Other packets pass in clear.

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use gantry_lab::wait_until;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6, add_policies, install};
use crate::namespace::Namespace;
use crate::traffic::{Flow, MARKER, Udp, datagrams};
use crate::wire::{self, Listener};

/// Networks to which packets leave through the tunnel or not at all.
pub(crate) const PROTECTED: [&str; 2] = ["10.12.0.0/16", "fd12::/64"];

/// Listeners at both ends of the link.
pub(crate) struct Wire([Listener; 2]);

impl Wire {
    pub(crate) fn new(pair: &Pair) -> Self {
        Self([&pair.a, &pair.b].map(|host| Listener::start(&host.namespace, host.device)))
    }

    /// Panics if any frame was in clear. Returns the number of ESP frames. On a busy machine there are fewer frames than packets, because
    /// packets share frames (segmentation offload).
    pub(crate) fn count_sealed(self) -> usize {
        let [near, far] = self.0.map(|listener| wire::count_sealed(&listener.finish()));
        near.max(far)
    }

    /// Returns whether any frame was in clear.
    pub(crate) fn has_clear_frames(self) -> bool {
        self.0.map(|listener| wire::has_clear(&listener.finish())).contains(&true)
    }

    /// Returns whether an IPv4 datagram to a port was in clear, at either end. The frames stay for the next call.
    pub(crate) fn has_plaintext_to(&self, port: u16) -> bool {
        // The destination port is behind the headers of Ethernet and IPv4, and the source port.
        let is_one = |frame: &Vec<u8>| {
            frame.get(14 + 20 + 2..14 + 20 + 4) == Some(&port.to_be_bytes())
                && frame.windows(MARKER.len()).any(|part| part == MARKER)
        };
        self.0.iter().any(|listener| listener.peek().iter().any(is_one))
    }

    /// Returns whether a frame since the last call contained the [`MARKER`] in clear, at either end.
    pub(crate) fn take_has_plaintext(&self) -> bool {
        let clear = |frame: &Vec<u8>| frame.windows(MARKER.len()).any(|part| part == MARKER);
        self.0.iter().any(|listener| listener.take().iter().any(clear))
    }
}

/// Sends to the other end's inner addresses in every way that programs can. Ignores errors.
pub(crate) fn try_everything(host: &Host, to: &Host) {
    for family in [V4, V6] {
        let far = (to.inner[family], 9);
        let send = |socket: &UdpSocket| {
            let _ = socket.send_to(MARKER, far);
            let _ = socket.connect(far).and_then(|()| socket.send(MARKER));
        };
        send(&host.udp_unbound(family));
        // Sends on the device that leads to the other host, regardless of rules and routes.
        let bound = host.udp_unbound(family);
        setsockopt(&*bound, sockopt::BindToDevice, &host.device.into()).unwrap();
        send(&bound);
        send_on_device(&host.udp_unbound(family), far.into(), host.namespace.index(host.device));
        host.ping(&format!("-W 0.05 -I {}", host.device), to.inner[family]);
        for address in [host.inner[family], host.outer[family]] {
            send(&host.udp(address, 0));
        }
        let connect = || TcpStream::connect_timeout(&far.into(), Duration::from_millis(50));
        let _ = host.namespace.enter(connect);
        host.ping("-W 0.05", to.inner[family]);
    }
}

/// Sends one datagram on a given device (IP_PKTINFO, IPV6_PKTINFO).
fn send_on_device(socket: &UdpSocket, to: SocketAddr, index: u32) {
    let message = [IoSlice::new(MARKER)];
    let address = SockaddrStorage::from(to);
    let v4 = libc::in_pktinfo {
        ipi_ifindex: index.cast_signed(),
        ipi_spec_dst: libc::in_addr { s_addr: 0 },
        ipi_addr: libc::in_addr { s_addr: 0 },
    };
    let v6 = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: [0; 16] }, ipi6_ifindex: index };
    let control = if to.is_ipv4() { ControlMessage::Ipv4PacketInfo(&v4) } else { ControlMessage::Ipv6PacketInfo(&v6) };
    let _ = sendmsg(socket.as_raw_fd(), &message, &[control], MsgFlags::empty(), Some(&address));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn protected_packets_do_not_leave_before_there_is_a_policy() {
    let mut pair = Pair::linked();
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    wait_until("packets pass without a data path", || wire.take_has_plaintext());
    pair.a.serve(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
    wait_until("packets are refused", || pair.a.counter("unprotected") > 1);
    // Unprotected packets pass as usual.
    pair.a.pings(1, "", pair.b.outer[V4]);
    pair.a.pings(1, "", pair.b.outer[V6]);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_without_an_sa_lets_no_packet_leave() {
    let pair = Pair::with_data_paths(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    let keys = Keys::gcm();
    let (a_to_b, b_to_a) = (Sa::new(&pair.a, &pair.b, 1, &keys), Sa::new(&pair.b, &pair.a, 2, &keys));
    add_policies(&a_to_b, &b_to_a);
    try_everything(&pair.a, &pair.b);
    assert_eq!(wire.count_sealed(), 0);
    wait_until("packets wait for an SA", || pair.a.counter("without_sa") > 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn deleting_an_sa_under_traffic_stops_the_traffic() {
    let pair = Pair::with_tunnel(&Plan::default());
    let wire = Wire::new(&pair);
    let flows = [Flow::start(&pair.a, &pair.b, V4), Flow::start(&pair.b, &pair.a, V6)];
    wait_until("packets pass", || pair.b.counter("received_packets") > 20 && pair.a.counter("received_packets") > 20);
    pair.a.xfrm("state flush");
    wait_until("packets are held back", || pair.a.counter("without_sa") > 20);
    wait_until("packets of the deleted SA are dropped", || pair.a.counter("unknown_spi") > 0);
    pair.b.xfrm("state flush");
    wait_until("packets are held back", || pair.b.counter("without_sa") > 20);
    for (sent, got) in flows.map(Flow::finish) {
        assert!((20..sent as usize).contains(&got.len()), "{} of {sent}", got.len());
    }
    assert!(wire.count_sealed() > 4);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_rekey_under_traffic_loses_no_packet() {
    for outer in [V4, V6] {
        let pair = Pair::with_data_paths(&Plan::default());
        let wire = Wire::new(&pair);
        let sas = |round: u32| {
            let keys = Keys::gcm();
            let a_to_b = Sa { outer, ..Sa::new(&pair.a, &pair.b, 0x3001 + 2 * round, &keys) };
            [a_to_b, Sa { outer, ..Sa::new(&pair.b, &pair.a, 0x3002 + 2 * round, &keys.with_other_keys()) }]
        };
        let mut current = sas(0);
        current.iter().for_each(Sa::install);
        add_policies(&current[0], &current[1]);
        add_policies(&current[1], &current[0]);
        let flows = [
            Flow::start(&pair.a, &pair.b, V4),
            Flow::start(&pair.b, &pair.a, V4),
            Flow::start(&pair.a, &pair.b, V6),
            Flow::start(&pair.b, &pair.a, V6),
        ];
        for round in 1..=10 {
            let next = sas(round);
            next.iter().for_each(Sa::install);
            for sa in &next {
                wait_until("the new SA is in use", || {
                    let status = sa.to.status();
                    let mut all = status["sas"].as_array().unwrap().iter();
                    let spi = format!("{:#010x}", sa.spi);
                    all.any(|row| row["spi"] == *spi && row["packets"].as_u64() > Some(5))
                });
            }
            current.iter().for_each(Sa::remove);
            current = next;
        }
        flows.into_iter().for_each(Flow::assert_complete_and_in_order);
        assert!(wire.count_sealed() > 20);
        for host in [&pair.a, &pair.b] {
            assert_eq!(host.counter("without_sa") + host.counter("unknown_spi") + host.counter("replayed"), 0);
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_killed_data_path_leaves_no_way_around_the_tunnel() {
    let keys = Keys::gcm();
    let mut pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    let flow = Flow::start(&pair.a, &pair.b, V4);
    wait_until("packets pass", || pair.b.counter("received_packets") > 20);
    pair.a.kill();
    try_everything(&pair.a, &pair.b);
    pair.a.serve(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    try_everything(&pair.a, &pair.b);
    let (a_to_b, b_to_a) =
        (Sa::new(&pair.a, &pair.b, 0x4001, &keys), Sa::new(&pair.b, &pair.a, 0x4002, &keys.with_other_keys()));
    add_policies(&a_to_b, &b_to_a);
    try_everything(&pair.a, &pair.b);
    let before = pair.b.counter("received_packets");
    install(&[&a_to_b, &b_to_a]);
    wait_until("packets pass again", || pair.b.counter("received_packets") > before + 20);
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
    flow.finish();
    assert!(wire.count_sealed() > 4);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn leftovers_of_a_data_path_are_cleared_on_request() {
    let mut pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    pair.a.kill();
    // Settings of other programs stay.
    pair.a.namespace.ip("rule add priority 199 lookup 77");
    pair.a.namespace.ip("route add 10.99.0.0/16 dev va table 77");
    assert!(pair.a.namespace.enter(gantry_esp::clear_leftovers).unwrap() > 0);
    let leftovers = ["rule", "-6 rule", "route show table all", "-6 route show table all"].map(|arguments| {
        let text = pair.a.namespace.ip(arguments);
        text.lines().filter(|line| line.contains("4500") || line.contains("gantry")).count()
    });
    assert_eq!(leftovers, [0; 4]);
    assert!(pair.a.namespace.ip("rule").contains("199:\tfrom all lookup 77"));
    assert!(pair.a.namespace.ip("route show table 77").contains("10.99.0.0/16"));
    assert!(!pair.a.run("nft", "list table inet gantry_esp").status.success());
    assert_eq!(pair.a.namespace.enter(gantry_esp::clear_leftovers).unwrap(), 0);
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    wait_until("packets pass as without a data path", || wire.take_has_plaintext());
}

#[test]
#[ignore = "needs root and network namespaces"]
fn routes_of_other_programs_do_not_bypass_the_tunnel() {
    let pair = Pair::with_data_paths(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let wire = Wire::new(&pair);
    let keys = Keys::gcm();
    let (a_to_b, b_to_a) =
        (Sa::new(&pair.a, &pair.b, 1001, &keys), Sa::new(&pair.b, &pair.a, 1002, &keys.with_other_keys()));
    add_policies(&a_to_b, &b_to_a);
    add_policies(&b_to_a, &a_to_b);
    let ip = |arguments: &str| pair.a.namespace.ip(arguments);
    for (family, far) in [("-4", pair.b.inner[V4]), ("-6", pair.b.inner[V6])] {
        // Routes that charon sets with install_routes, and routes that an operator may set.
        ip(&format!("{family} rule add priority 220 lookup 220"));
        ip(&format!("{family} route add {far} dev va table 220"));
        ip(&format!("{family} route add {far} dev va metric 1"));
    }
    try_everything(&pair.a, &pair.b);
    install(&[&a_to_b, &b_to_a]);
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
    assert!(wire.count_sealed() >= 4);
}

/// Adds a host behind `host`, without a data path and with the address 10.13.0.5.
fn host_behind(host: &Host) -> Namespace {
    let other = Namespace::new();
    host.namespace.join("vh", &other, "vg");
    host.namespace.ip("address add 10.13.0.1/24 dev vh");
    other.ip("address add 10.13.0.5/24 dev vg");
    other.ip("route add default via 10.13.0.1");
    host.namespace.sysctl("ipv4/ip_forward", "1");
    other
}

#[test]
#[ignore = "needs root and network namespaces"]
fn forwarded_packets_take_the_tunnel_or_are_dropped() {
    let pair = Pair::with_data_paths(&Plan::default());
    let other = host_behind(&pair.a);
    let keys = Keys::gcm();
    let (a_to_b, b_to_a) =
        (Sa::new(&pair.a, &pair.b, 1001, &keys), Sa::new(&pair.b, &pair.a, 1002, &keys.with_other_keys()));
    let far = pair.b.inner[V4];
    let (out, arriving) = (format!("src 10.13.0.0/24 dst {far}/32"), format!("src {far}/32 dst 10.13.0.0/24"));
    for host in [&pair.a, &pair.b] {
        let (out_sa, in_sa) =
            if std::ptr::eq(host, &raw const pair.a) { (&a_to_b, &b_to_a) } else { (&b_to_a, &a_to_b) };
        let (out, arriving) = if std::ptr::eq(host, &raw const pair.a) { (&out, &arriving) } else { (&arriving, &out) };
        host.xfrm(&format!("policy add {out} dir out {}", out_sa.template()));
        // Forwarded packets need a policy of their own.
        let direction = if std::ptr::eq(host, &raw const pair.a) { "fwd" } else { "in" };
        host.xfrm(&format!("policy add {arriving} dir {direction} {}", in_sa.template()));
    }
    let wire = Wire::new(&pair);
    let program = Udp(other.enter(|| UdpSocket::bind("10.13.0.5:0")).unwrap());
    let server = pair.b.udp(far, 0);
    program.connect(server.local_addr().unwrap()).unwrap();
    program.send(MARKER).unwrap();
    pair.a.await_counter("without_sa", 1);
    install(&[&a_to_b, &b_to_a]);
    program.send(MARKER).unwrap();
    let mut buffer = [0; 64];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip()), (&MARKER[..], IpAddr::from([10, 13, 0, 5])));
    server.send_to(MARKER, from).unwrap();
    program.set_read_timeout(Some(crate::host::EVENT_TIMEOUT)).unwrap();
    assert_eq!(program.recv(&mut buffer).unwrap(), MARKER.len());
    pair.a.xfrm("state flush");
    program.send(MARKER).unwrap();
    pair.a.await_counter("without_sa", 2);
    assert_eq!(wire.count_sealed(), 2);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_pass_in_clear_when_their_policy_is_deleted() {
    let pair = Pair::with_tunnel(&Plan::default());
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    let wire = Wire::new(&pair);
    for host in [&pair.a, &pair.b] {
        host.xfrm("policy flush");
    }
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
    datagrams(&pair.a, &pair.b, V6, [100].into_iter());
    wait_until("packets are in clear", || wire.take_has_plaintext());
    pair.a.await_counter("sent_packets", 1);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_without_template_lets_only_its_own_packets_pass() {
    let mut pair = Pair::with_tunnel(&Plan { protect: PROTECTED.to_vec(), ..Plan::default() });
    let (near, far) = (pair.a.inner[V4], pair.b.inner[V4]);
    let selector = format!("src {near}/32 dst {far}/32 proto udp dport 5353");
    pair.a.xfrm(&format!("policy add {selector} dir out priority 0"));
    pair.b.xfrm(&format!("policy add {selector} dir in priority 0"));
    let program = pair.a.udp(near, 0);
    let [open, closed] = [5353, 5354].map(|port| pair.b.udp(far, port));
    let mut buffer = [0; 64];
    let mut send = |to: &UdpSocket, is_clear: bool| {
        let wire = Wire::new(&pair);
        program.send_to(MARKER, to.local_addr().unwrap()).unwrap();
        assert_eq!(to.recv(&mut buffer).unwrap(), MARKER.len());
        if is_clear {
            wait_until("the packet is in clear", || wire.take_has_plaintext());
        } else {
            assert_eq!(wire.count_sealed(), 1);
        }
    };
    send(&closed, false);
    send(&open, true);
    // With a worse priority than the tunnel's policy (9), a policy without a template has no effect.
    pair.a.xfrm(&format!("policy delete {selector} dir out"));
    pair.b.xfrm(&format!("policy delete {selector} dir in"));
    send(&open, false);
    pair.a.xfrm(&format!("policy add {selector} dir out priority 10"));
    let wire = Wire::new(&pair);
    try_everything(&pair.a, &pair.b);
    program.send_to(MARKER, open.local_addr().unwrap()).unwrap();
    assert!(wire.count_sealed() > 0);
    // The next data path takes over the selectors of tunnel policies only, so it drops the packets of this policy.
    pair.a.xfrm(&format!("policy update {selector} dir out priority 0"));
    pair.a.kill();
    pair.a.serve(&Plan::default());
    let wire = Wire::new(&pair);
    let _ = program.send_to(MARKER, open.local_addr().unwrap());
    assert_eq!(wire.count_sealed(), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_stream_continues_when_the_data_path_is_restarted() {
    let mut pair = Pair::with_tunnel(&Plan::default());
    let wire = Wire::new(&pair);
    let keys = Keys::gcm();
    // Borrows both hosts separately: the stream uses both, and one data path is restarted.
    let Pair { a, b } = &mut pair;
    let far = b.inner[V4];
    let listener = b.namespace.enter(|| std::net::TcpListener::bind((far, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let stream = a.namespace.enter(|| TcpStream::connect(address)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(crate::host::EVENT_TIMEOUT)).unwrap();
    let echo = |round: u8| {
        use std::io::{Read as _, Write as _};
        (&stream).write_all(&[round; 100]).unwrap();
        let mut got = [0; 100];
        (&accepted).read_exact(&mut got).map(|()| got)
    };
    assert_eq!(echo(1).unwrap(), [1; 100]);
    a.kill();
    a.serve(&Plan::default());
    let (a_to_b, b_to_a) = (Sa::new(a, b, 0x5001, &keys), Sa::new(b, a, 0x5002, &keys.with_other_keys()));
    add_policies(&a_to_b, &b_to_a);
    install(&[&a_to_b, &b_to_a]);
    assert_eq!(echo(2).unwrap(), [2; 100]);
    assert!(wire.count_sealed() > 4);
}

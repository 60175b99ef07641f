//! Policies steer exactly the packets that match their whole selector.

use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};

use gantry_lab::wait_until;

use crate::host::{EVENT_TIMEOUT, Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6, install};
use crate::namespace::Namespace;
use crate::plaintext::Wire;
use crate::traffic::{MARKER, Udp, datagrams, payload, stream};

/// Returns the SAs from `a` to `b` and from `b` to `a`.
pub(crate) fn sas(pair: &Pair) -> [Sa<'_>; 2] {
    let keys = Keys::gcm();
    [Sa::new(&pair.a, &pair.b, 0x1001, &keys), Sa::new(&pair.b, &pair.a, 0x1002, &keys.with_other_keys())]
}

/// Adds the SAs of both directions, and on both hosts the policies for packets between two networks. `to_far` is appended to the
/// selector of packets from `near` to `far`, and `to_near` to the selector of the other direction.
fn protect(pair: &Pair, near: &str, far: &str, [to_far, to_near]: [&str; 2]) {
    install(&sas(pair).each_ref());
    add_policies_between(pair, near, far, [to_far, to_near]);
}

/// Adds the policies of [`protect`].
pub(crate) fn add_policies_between(pair: &Pair, near: &str, far: &str, [to_far, to_near]: [&str; 2]) {
    let [a_to_b, b_to_a] = sas(pair);
    let (to_far, to_near) = (format!("src {near} dst {far} {to_far}"), format!("src {far} dst {near} {to_near}"));
    for (host, [sent, received], [outbound, inbound]) in
        [(&pair.a, [&to_far, &to_near], [&a_to_b, &b_to_a]), (&pair.b, [&to_near, &to_far], [&b_to_a, &a_to_b])]
    {
        host.xfrm(&format!("policy add {sent} dir out priority 10 {}", outbound.template()));
        for direction in ["in", "fwd"] {
            host.xfrm(&format!("policy add {received} dir {direction} priority 10 {}", inbound.template()));
        }
    }
}

/// Adds a host behind `host`, which reaches it by `device`. `network` has the first three bytes of both addresses, such as 10.13.0.
pub(crate) fn host_behind(host: &Host, device: &str, network: &str) -> Namespace {
    let (other, peer_device) = (Namespace::new(), format!("{device}p"));
    host.namespace.join(device, &other, &peer_device);
    host.namespace.ip(&format!("address add {network}.1/24 dev {device}"));
    other.ip(&format!("address add {network}.5/24 dev {peer_device}"));
    other.ip(&format!("route add default via {network}.1"));
    host.namespace.sysctl("ipv4/ip_forward", "1");
    other
}

/// Sends a datagram between two namespaces and back. Returns the address that the receiver sees.
fn exchange(from: (&Namespace, &str), to: (&Namespace, &str), port: u16) -> IpAddr {
    let socket = |(namespace, address): (&Namespace, &str), port: u16| {
        let socket = namespace.enter(|| UdpSocket::bind((address, port))).unwrap();
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        Udp(socket)
    };
    let (near, far) = (socket(from, 0), socket(to, port));
    let mut buffer = [0; 64];
    near.send_to(MARKER, (to.1, port)).unwrap();
    let (length, sender) = far.recv_from(&mut buffer).expect("the datagram arrives");
    assert_eq!(&buffer[..length], MARKER);
    far.send_to(MARKER, sender).unwrap();
    assert_eq!(near.recv(&mut buffer).expect("the answer arrives"), MARKER.len());
    sender.ip()
}

/// Returns whether a frame in clear crosses the wire between the hosts during `work`.
fn sends_in_clear<T>(pair: &Pair, work: impl FnOnce() -> T) -> bool {
    let wire = Wire::new(pair);
    work();
    wire.has_clear_frames()
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_gateway_keeps_its_own_addresses_and_its_other_networks() {
    let pair = Pair::with_data_paths(&Plan::default());
    let (lan, guests) = (host_behind(&pair.a, "vh", "10.13.0"), host_behind(&pair.a, "vg", "10.14.0"));
    let far = pair.b.outer[V4].to_string();
    protect(&pair, "10.13.0.0/24", "0.0.0.0/0", ["", ""]);
    assert!(!sends_in_clear(&pair, || exchange((&lan, "10.13.0.5"), (&pair.b.namespace, &far), 7)));
    assert!(sends_in_clear(&pair, || exchange((&guests, "10.14.0.5"), (&pair.b.namespace, &far), 7)));
    // Packets from and to the gateway itself stay in clear, whether or not the socket is bound to an address.
    let near = pair.a.outer[V4].to_string();
    assert!(sends_in_clear(&pair, || exchange((&pair.a.namespace, &near), (&pair.b.namespace, &far), 7)));
    assert!(sends_in_clear(&pair, || {
        assert_eq!(exchange((&pair.a.namespace, "0.0.0.0"), (&pair.b.namespace, &far), 7), pair.a.outer[V4]);
    }));
    assert!(sends_in_clear(&pair, || exchange((&pair.b.namespace, &far), (&pair.a.namespace, &near), 7)));
    // With a policy for packets within the network, the network reaches the gateway. None of these packets enters the TUN device.
    for direction in ["in", "out"] {
        pair.a.xfrm(&format!("policy add src 10.13.0.0/24 dst 10.13.0.0/24 dir {direction} priority 5"));
    }
    exchange((&lan, "10.13.0.5"), (&pair.a.namespace, "10.13.0.1"), 7);
    assert_eq!((pair.a.counter("unprotected"), pair.a.counter("without_sa")), (0, 0));
    // Without an SA the packets of the network are dropped, and packets of the guests still pass.
    pair.a.xfrm("state flush");
    let socket = lan.enter(|| UdpSocket::bind("10.13.0.5:0")).unwrap();
    assert!(!sends_in_clear(&pair, || {
        socket.send_to(MARKER, (pair.b.outer[V4], 9)).unwrap();
        pair.a.await_counter("without_sa", 1);
    }));
    assert!(sends_in_clear(&pair, || exchange((&guests, "10.14.0.5"), (&pair.b.namespace, &far), 7)));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_policy_for_one_port_leaves_pings_and_other_ports_alone() {
    let pair = Pair::with_data_paths(&Plan::default());
    for family in [V4, V6] {
        let bits = [32, 128][family];
        let [near, far] = [&pair.a, &pair.b].map(|host| format!("{}/{bits}", host.outer[family]));
        if family == V4 {
            protect(&pair, &near, &far, ["proto tcp dport 80", "proto tcp sport 80"]);
        } else {
            let [a_to_b, b_to_a] = sas(&pair);
            for (host, sent, received, [outbound, inbound]) in [
                (&pair.a, (&near, &far, "dport"), (&far, &near, "sport"), [&a_to_b, &b_to_a]),
                (&pair.b, (&far, &near, "sport"), (&near, &far, "dport"), [&b_to_a, &a_to_b]),
            ] {
                let selector =
                    |(source, destination, port)| format!("src {source} dst {destination} proto tcp {port} 80");
                host.xfrm(&format!("policy add {} dir out priority 10 {}", selector(sent), outbound.template()));
                host.xfrm(&format!("policy add {} dir in {}", selector(received), inbound.template()));
            }
        }
        let connect = |port: u16| {
            let address = (pair.b.outer[family], port);
            let listener = pair.b.namespace.enter(|| TcpListener::bind(address)).unwrap();
            pair.a.namespace.enter(|| TcpStream::connect_timeout(&address.into(), EVENT_TIMEOUT)).unwrap();
            listener.accept().unwrap();
        };
        assert!(!sends_in_clear(&pair, || connect(80)));
        assert!(sends_in_clear(&pair, || connect(22)));
        assert!(sends_in_clear(&pair, || pair.a.pings(1, "", pair.b.outer[family])));
        assert!(sends_in_clear(&pair, || pair.b.pings(1, "", pair.a.outer[family])));
    }
    assert_eq!(pair.a.counter("unprotected") + pair.b.counter("unprotected"), 0);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn policies_steer_by_icmp_type_and_gre_key() {
    let pair = Pair::with_data_paths(&Plan::default());
    let [near, far] = [&pair.a, &pair.b].map(|host| format!("{}/32", host.outer[V4]));
    let [a_to_b, _] = sas(&pair);
    pair.a.xfrm(&format!("policy add src {near} dst {far} proto icmp type 8 dir out {}", a_to_b.template()));
    assert!(!sends_in_clear(&pair, || {
        pair.a.ping("-W 0.2", pair.b.outer[V4]);
        pair.a.await_counter("without_sa", 1);
    }));
    // Answers have another type.
    assert!(sends_in_clear(&pair, || pair.b.pings(1, "", pair.a.outer[V4])));
    pair.a.xfrm(&format!("policy add src {near} dst {far} proto gre key 5 dir out {}", a_to_b.template()));
    let gre_packet = |key: u32, has_checksum: bool| {
        let flags: [u8; 4] = [if has_checksum { 0xA0 } else { 0x20 }, 0, 8, 0];
        [&flags[..], if has_checksum { &[0; 4] } else { &[] }, &key.to_be_bytes(), MARKER].concat()
    };
    let socket = pair.a.namespace.enter(|| raw_socket(47));
    for (has_checksum, dropped) in [(false, 2), (true, 3)] {
        assert!(!sends_in_clear(&pair, || {
            send_raw(&socket, &gre_packet(5, has_checksum), pair.b.outer[V4]);
            pair.a.await_counter("without_sa", dropped);
        }));
    }
    for has_checksum in [false, true] {
        let wire = Wire::new(&pair);
        send_raw(&socket, &gre_packet(6, has_checksum), pair.b.outer[V4]);
        wait_until("the packet is in clear", || wire.take_has_plaintext());
    }
}

/// Opens a raw socket of a protocol.
fn raw_socket(protocol: i32) -> std::os::fd::OwnedFd {
    use nix::libc;
    use std::os::fd::FromRawFd as _;
    // SAFETY: `socket` takes three numbers and returns a new descriptor, or an error, which the assertion finds.
    let descriptor = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    assert!(descriptor >= 0);
    // SAFETY: the descriptor is new and has no other owner.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) }
}

fn send_raw(socket: &std::os::fd::OwnedFd, payload: &[u8], to: IpAddr) {
    use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
    use std::os::fd::AsRawFd as _;
    let to = SockaddrStorage::from(std::net::SocketAddr::from((to, 0)));
    sendto(socket.as_raw_fd(), payload, &to, MsgFlags::empty()).unwrap();
}

/// Tests a policy for all packets together with a policy for the local network, as strongSwan's plugin bypass-lan adds it.
#[test]
#[ignore = "needs root and network namespaces"]
fn pass_and_block_policies_apply_by_their_priority() {
    let pair = Pair::with_data_paths(&Plan::default());
    let [near, far] = [&pair.a, &pair.b].map(|host| host.outer[V4].to_string());
    protect(&pair, "0.0.0.0/0", "0.0.0.0/0", ["", ""]);
    for host in [&pair.a, &pair.b] {
        for direction in ["in", "out"] {
            host.xfrm(&format!("policy add src 10.0.0.0/14 dst 10.0.0.0/14 dir {direction} priority 5"));
        }
    }
    // The socket is bound to an address, or to none.
    for from in [&*near, "0.0.0.0"] {
        assert!(sends_in_clear(&pair, || {
            assert_eq!(exchange((&pair.a.namespace, from), (&pair.b.namespace, &far), 7), pair.a.outer[V4]);
        }));
    }
    let inner = [&pair.a, &pair.b].map(|host| host.inner[V4].to_string());
    let between_inner = || exchange((&pair.a.namespace, &inner[0]), (&pair.b.namespace, &inner[1]), 7);
    assert!(!sends_in_clear(&pair, between_inner));
    // A block policy takes precedence over both policies.
    pair.a.xfrm(&format!("policy add src {near} dst {far} proto udp dport 9 dir out priority 1 action block"));
    let program = pair.a.udp(pair.a.outer[V4], 0);
    assert!(!sends_in_clear(&pair, || {
        let _ = program.send_to(MARKER, (pair.b.outer[V4], 9));
        wait_until("the datagram is refused", || pair.a.counter("unprotected") > 0);
    }));
    assert!(sends_in_clear(&pair, || exchange((&pair.a.namespace, &near), (&pair.b.namespace, &far), 7)));
    // With a worse priority than the policy for all packets, the policy for the local network has no effect.
    for host in [&pair.a, &pair.b] {
        for direction in ["in", "out"] {
            host.xfrm(&format!("policy update src 10.0.0.0/14 dst 10.0.0.0/14 dir {direction} priority 50"));
        }
    }
    let between_outer = || exchange((&pair.a.namespace, &near), (&pair.b.namespace, &far), 7);
    assert!(!sends_in_clear(&pair, between_outer));
    assert!(!sends_in_clear(&pair, between_inner));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_stream_between_protected_networks_finds_the_mtu_of_the_tunnel() {
    let pair = Pair::with_data_paths(&Plan::default());
    // The data path adds no route to these networks, so a stream begins with the MTU of the link.
    protect(&pair, "10.11.0.0/16", "10.12.0.0/16", ["", ""]);
    let [near, far] = [&pair.a, &pair.b].map(|host| host.inner[V4]);
    pair.a.namespace.ip(&format!("route add 10.12.0.0/16 via {} dev va onlink src {near}", pair.b.outer[V4]));
    pair.b.namespace.ip(&format!("route add 10.11.0.0/16 via {} dev vb onlink src {far}", pair.a.outer[V4]));
    assert!(!sends_in_clear(&pair, || {
        stream(&pair.a, &pair.b, V4, 4 << 20);
        stream(&pair.b, &pair.a, V4, 4 << 20);
        datagrams(&pair.a, &pair.b, V4, [100, 1400, 3000].into_iter());
    }));
}

/// Tests that the host looks up the policy before it fragments a datagram (RFC 4301, 7.3).
#[test]
#[ignore = "needs root and network namespaces"]
fn datagrams_beyond_the_mtu_match_a_policy_with_ports() {
    let pair = Pair::with_data_paths(&Plan::default());
    let [a_to_b, b_to_a] = sas(&pair);
    install(&[&a_to_b, &b_to_a]);
    for (host, [outbound, inbound], [sent_port, received_port]) in
        [(&pair.a, [&a_to_b, &b_to_a], ["dport", "sport"]), (&pair.b, [&b_to_a, &a_to_b], ["sport", "dport"])]
    {
        for family in [V4, V6] {
            let [sent, received] = [outbound, inbound].map(|sa| sa.selector(family));
            host.xfrm(&format!("policy add {sent} proto udp {sent_port} 5060 dir out {}", outbound.template()));
            host.xfrm(&format!("policy add {received} proto udp {received_port} 5060 dir in {}", inbound.template()));
        }
    }
    for family in [V4, V6] {
        let near = pair.a.udp(pair.a.inner[family], 0);
        let [sealed, open] = [5060, 5061].map(|port| pair.b.udp(pair.b.inner[family], port));
        let mut buffer = vec![0; 1 << 16];
        let mut exchange = |far: &Udp, bytes: usize| {
            let sent = payload(bytes);
            near.send_to(&sent, far.local_addr().unwrap()).unwrap();
            let (length, from) = far.recv_from(&mut buffer).unwrap_or_else(|error| panic!("{bytes} bytes: {error}"));
            assert!(buffer[..length] == sent, "{bytes} bytes");
            far.send_to(&sent, from).unwrap();
            assert_eq!(near.recv(&mut buffer).unwrap_or_else(|error| panic!("{bytes} bytes back: {error}")), bytes);
        };
        for bytes in [100, 1352, 1373, 1500, 3000, 20_000] {
            assert!(!sends_in_clear(&pair, || exchange(&sealed, bytes)), "{bytes} bytes");
        }
        // The policy does not match another port, not even in fragments.
        assert!(sends_in_clear(&pair, || exchange(&open, 3000)));
    }
    assert_eq!((pair.a.counter("unprotected"), pair.b.counter("unadmitted")), (0, 0));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn forwarded_fragments_follow_their_first_fragment() {
    let pair = Pair::with_data_paths(&Plan::default());
    let lan = host_behind(&pair.a, "vh", "10.13.0");
    protect(&pair, "10.13.0.0/24", "0.0.0.0/0", ["proto udp dport 5060", "proto udp sport 5060"]);
    let near = Udp(lan.enter(|| UdpSocket::bind("10.13.0.5:0")).unwrap());
    let far = pair.b.udp(pair.b.outer[V4], 5060);
    let mut buffer = vec![0; 1 << 16];
    assert!(!sends_in_clear(&pair, || {
        for bytes in [100, 1500, 3000, 20_000] {
            near.send_to(&payload(bytes), far.local_addr().unwrap()).unwrap();
            assert_eq!(far.recv(&mut buffer).unwrap_or_else(|error| panic!("{bytes} bytes: {error}")), bytes);
        }
    }));
    // A lone fragment does not pass, because its flow is unknown.
    assert!(!sends_in_clear(&pair, || {
        let socket = lan.enter(|| raw_socket(255));
        let mut packet = vec![0x45, 0, 0, 0, 0, 9, 0, 100, 64, 17, 0, 0, 10, 13, 0, 5];
        let IpAddr::V4(to) = pair.b.outer[V4] else { unreachable!() };
        packet.extend(to.octets());
        packet.extend([*MARKER, *MARKER].concat());
        send_raw(&socket, &packet, pair.b.outer[V4]);
        wait_until("the fragment is refused", || pair.a.counter("unprotected") == 1);
    }));
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_marked_by_another_program_take_its_route() {
    let pair = Pair::with_tunnel(&Plan::default());
    let other = Namespace::new();
    pair.a.namespace.join("vo", &other, "op");
    pair.a.namespace.ip("address add 10.15.0.1/24 dev vo");
    other.ip("address add 10.15.0.5/24 dev op");
    other.ip(&format!("address add {}/32 dev lo", pair.b.outer[V4]));
    other.ip("route add default via 10.15.0.1");
    // Another program routes packets with its mark to another host with the address of `pair.b`.
    pair.a.namespace.ip("rule add fwmark 7 priority 300 lookup 77");
    pair.a.namespace.ip("route add default via 10.15.0.5 table 77");
    let program = pair.a.udp(pair.a.outer[V4], 0);
    nix::sys::socket::setsockopt(&*program, nix::sys::socket::sockopt::Mark, &7).unwrap();
    let far = Udp(other.enter(|| UdpSocket::bind((pair.b.outer[V4], 7))).unwrap());
    far.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    program.send_to(MARKER, (pair.b.outer[V4], 7)).unwrap();
    assert_eq!(far.recv(&mut [0; 64]).expect("the mark routes the datagram to the other host"), MARKER.len());
    // A packet that matches a policy takes the tunnel, regardless of marks.
    let wire = Wire::new(&pair);
    let program = pair.a.udp(pair.a.inner[V4], 0);
    nix::sys::socket::setsockopt(&*program, nix::sys::socket::sockopt::Mark, &7).unwrap();
    let far = pair.b.udp(pair.b.inner[V4], 7);
    program.send_to(MARKER, (pair.b.inner[V4], 7)).unwrap();
    assert_eq!(far.recv(&mut [0; 64]).expect("the datagram arrives through the tunnel"), MARKER.len());
    assert_eq!(wire.count_sealed(), 1);
}

#[test]
#[ignore = "needs root and network namespaces"]
fn strict_reverse_path_filters_change_nothing() {
    let pair = Pair::with_data_paths(&Plan::default());
    let lan = host_behind(&pair.a, "vh", "10.13.0");
    let set_strict_filter = |host: &Host| {
        for device in ["all", "gantry0", host.device] {
            host.namespace.sysctl(&format!("ipv4/conf/{device}/rp_filter"), "1");
        }
    };
    set_strict_filter(&pair.a);
    set_strict_filter(&pair.b);
    pair.a.namespace.sysctl("ipv4/conf/vh/rp_filter", "1");
    let filtered_packets = || {
        let text = pair.a.namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/netstat")).unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, values) = (lines.next().unwrap().split(' '), lines.next().unwrap().split(' '));
        let value = names.zip(values).find(|(name, _)| *name == "IPReversePathFilter").unwrap().1;
        value.parse::<u64>().unwrap()
    };
    let near = pair.a.outer[V4].to_string();
    let far = pair.b.outer[V4].to_string();
    let lan_to_far = || exchange((&lan, "10.13.0.5"), (&pair.b.namespace, &far), 7);
    let own_to_far = || exchange((&pair.a.namespace, &near), (&pair.b.namespace, &far), 7);
    // A tunnel from a network to everywhere; the gateway's own packets stay in clear.
    protect(&pair, "10.13.0.0/24", "0.0.0.0/0", ["", ""]);
    assert!(!sends_in_clear(&pair, lan_to_far));
    assert!(sends_in_clear(&pair, own_to_far));
    assert!(!sends_in_clear(&pair, || exchange((&pair.b.namespace, &far), (&lan, "10.13.0.5"), 7)));
    // A tunnel between the hosts themselves, whose outer packets have the same addresses.
    pair.remove_tunnel();
    protect(&pair, &format!("{near}/32"), &format!("{far}/32"), ["", ""]);
    assert!(!sends_in_clear(&pair, own_to_far));
    // Daemons still exchange messages in clear at the ports of IKE.
    for port in [500, 4500] {
        let open_socket = |host: &Host| host.namespace.enter(|| ike_socket((host.outer[V4], port)));
        let (near, far) = (open_socket(&pair.a), open_socket(&pair.b));
        let message = [&[0; 4][..], MARKER, &[0; 20]].concat();
        assert!(sends_in_clear(&pair, || {
            near.send_to(&message, (pair.b.outer[V4], port)).unwrap();
            assert_eq!(far.recv(&mut [0; 64]).expect("IKE arrives"), message.len());
        }));
    }
    // A tunnel for everything, with policies that exempt packets to the network behind the gateway and packets from that network.
    pair.remove_tunnel();
    protect(&pair, "0.0.0.0/0", "0.0.0.0/0", ["", ""]);
    pair.a.xfrm("policy add src 0.0.0.0/0 dst 10.13.0.0/24 dir out priority 5");
    pair.a.xfrm("policy add src 10.13.0.0/24 dst 0.0.0.0/0 dir fwd priority 5");
    assert!(!sends_in_clear(&pair, own_to_far));
    assert!(!sends_in_clear(&pair, lan_to_far));
    assert_eq!(filtered_packets(), 0);
    // The filter still drops packets whose source is elsewhere.
    lan.ip("address add 10.99.0.1/32 dev lo");
    let _ = lan.enter(|| UdpSocket::bind("10.99.0.1:0")).unwrap().send_to(MARKER, "10.13.0.1:9");
    wait_until("the datagram is dropped", || filtered_packets() == 1);
}

/// Opens a socket with the mark and options of an IKE daemon's under `gantry esp exec`.
fn ike_socket(address: (IpAddr, u16)) -> UdpSocket {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
    use std::os::fd::AsRawFd as _;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&socket, sockopt::ReusePort, &true).unwrap();
    setsockopt(&socket, sockopt::Mark, &gantry_abi_xfrm::preload::EXEMPT_MARK).unwrap();
    bind(socket.as_raw_fd(), &SockaddrStorage::from(std::net::SocketAddr::from(address))).unwrap();
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    socket
}

#[test]
#[ignore = "needs root and network namespaces"]
fn policies_left_by_an_earlier_data_path_hold_packets_back() {
    let mut pair = Pair::with_data_paths(&Plan::default());
    protect(&pair, "10.11.0.0/16", "0.0.0.0/0", ["proto udp dport 5060", "proto udp sport 5060"]);
    let near = pair.a.inner[V4];
    let program = pair.a.udp(near, 0);
    let send = |port: u16| drop(program.send_to(MARKER, (pair.b.outer[V4], port)));
    let assert_blocked = |wire: Wire| {
        send(5060);
        send(5061);
        wait_until("the other port is in clear", || wire.has_plaintext_to(5061));
        assert!(!wire.has_plaintext_to(5060));
    };
    assert_blocked(Wire::new(&pair));
    pair.a.kill();
    assert_blocked(Wire::new(&pair));
    pair.a.serve(&Plan::default());
    assert_blocked(Wire::new(&pair));
    // A new policy with the same selector replaces the leftover policy. Packets pass once the new policy is deleted.
    let [a_to_b, _] = sas(&pair);
    let selector = "src 10.11.0.0/16 dst 0.0.0.0/0 proto udp dport 5060 dir out";
    pair.a.xfrm(&format!("policy add {selector} {}", a_to_b.template()));
    assert_blocked(Wire::new(&pair));
    pair.a.xfrm(&format!("policy delete {selector}"));
    let wire = Wire::new(&pair);
    send(5060);
    wait_until("the packet is in clear", || wire.has_plaintext_to(5060));
}

//! Packets in clear, as a listener on the wire sees them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

use crate::namespace::Namespace;

/// Excludes the gateways' own packets: ARP, neighbour discovery, IKE, ESP, and port-unreachable errors about ESP in UDP. All other
/// packets belong in the tunnel.
const CLEAR_PACKETS_FILTER: &str =
    "not arp and not ip6 multicast and not (icmp6 and ip6[40] >= 133) and not (udp port 500 or udp port 4500)
    and not esp and not (icmp[0] = 3 and icmp[17] = 17 and icmp[30:2] = 4500)";

/// tcpdump on a device. [`Wire::end`] fails if it has seen packets in clear.
#[derive(Debug)]
pub(crate) struct Wire {
    tcpdump: Child,
    lines: BufReader<ChildStdout>,
    /// Broadcasts on the device, which tcpdump shows.
    marker: UdpSocket,
}

/// The destination of the marker, as tcpdump prints address and port. Broadcasts pass in clear under every policy.
const MARKER: &str = "255.255.255.255.9";

impl Wire {
    pub(crate) fn capture(namespace: &Namespace, device: &str) -> Self {
        let mut command = Command::new("tcpdump");
        command
            .args(["-i", device, "-n", "-l", "--immediate-mode", "-s", "96", CLEAR_PACKETS_FILTER])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut tcpdump = namespace.enter(|| command.spawn()).expect("tcpdump is there");
        let mut errors = BufReader::new(tcpdump.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "tcpdump does not listen");
        }
        tcpdump.stderr = Some(errors.into_inner());
        let lines = BufReader::new(tcpdump.stdout.take().unwrap());
        let marker = namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
        marker.set_broadcast(true).unwrap();
        setsockopt(&marker, sockopt::BindToDevice, &device.into()).unwrap();
        Self { tcpdump, lines, marker }
    }

    /// Returns the packets in clear, one per line.
    pub(crate) fn captured(mut self) -> String {
        // tcpdump discards packets that it has not read by the time of the signal.
        self.marker.send_to(b"the last", "255.255.255.255:9").unwrap();
        let (mut text, mut line, mut counts) = (String::new(), String::new(), String::new());
        while !line.contains(MARKER) {
            text += &line;
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "tcpdump shows the last packet");
        }
        kill(Pid::from_raw(self.tcpdump.id().cast_signed()), Signal::SIGINT).unwrap();
        self.lines.read_to_string(&mut text).unwrap();
        self.tcpdump.stderr.take().unwrap().read_to_string(&mut counts).unwrap();
        let count = |counter| {
            let line = counts.lines().find(|line| line.ends_with(counter)).expect("tcpdump counts");
            line.split_whitespace().next().unwrap().to_owned()
        };
        let has_all_packets = count("captured") == count("received by filter") && count("dropped by kernel") == "0";
        assert!(has_all_packets, "the listener has not seen all packets: {counts}");
        // tcpdump ends the line in which a terminal would show the interrupt key.
        text.trim().to_owned()
    }

    /// Asserts that no packet was in clear.
    #[track_caller]
    pub(crate) fn end(self) {
        let captured = self.captured();
        assert!(captured.is_empty(), "in clear: {captured}");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_listener_sees_only_packets_in_clear() {
    if !crate::gateway::is_possible(&[]) {
        return;
    }
    let [a, b] = [Namespace::new(), Namespace::new()];
    a.join("wire", &b, "wire");
    a.ip("address add 10.1.0.1/24 dev wire");
    b.ip("address add 10.1.0.2/24 dev wire");
    let wire = Wire::capture(&a, "wire");
    let (receiver, sender) =
        (b.enter(|| UdpSocket::bind("10.1.0.2:0")).unwrap(), a.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap());
    // The first packet causes a port-unreachable error.
    sender.send_to(b"as ESP", "10.1.0.2:4500").unwrap();
    sender.send_to(b"in clear", receiver.local_addr().unwrap()).unwrap();
    receiver.recv(&mut [0; 9]).unwrap();
    let captured = wire.captured();
    assert!(captured.lines().count() == 1 && captured.contains("UDP, length 8"), "{captured}");
}

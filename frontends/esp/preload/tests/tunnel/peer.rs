//! The test as one end of a tunnel: it builds IP packets, and ESP around them.

use std::net::IpAddr;
use std::os::fd::AsRawFd as _;

use gantry_core::Gantry;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Inbound, Outbound};
use gantry_runtime::Config;
use nix::sys::socket::{setsockopt, sockopt};

use crate::host::{Pair, Plan};
use crate::keys::{Keys, Sa, V4, add_policies};
use crate::traffic::Udp;

/// A tunnel between a data path, which is `pair.b`, and the test, which has the address of `pair.a`.
pub(crate) struct Peer {
    pub(crate) pair: Pair,
    socket: Udp,
    out: Outbound,
    arriving: Inbound,
}

/// The SPI of packets that the test sends.
pub(crate) const OUTBOUND_SPI: u32 = 0x2001;
/// The SPI of packets that the test receives.
pub(crate) const INBOUND_SPI: u32 = 0x2002;

impl Peer {
    pub(crate) fn new(keys: &Keys, options: &str) -> Self {
        Self::with_queues(keys, options, 1)
    }

    pub(crate) fn with_queues(keys: &Keys, options: &str, queues: usize) -> Self {
        let mut pair = Pair::linked();
        pair.b.serve(&Plan { queues, ..Plan::default() });
        let socket = pair.a.udp(pair.a.outer[V4], 4500);
        socket.connect((pair.b.outer[V4], 4500)).unwrap();
        let others = keys.with_other_keys();
        let a_to_b = Sa { options, ..Sa::new(&pair.a, &pair.b, OUTBOUND_SPI, keys) };
        let b_to_a = Sa { options, ..Sa::new(&pair.b, &pair.a, INBOUND_SPI, &others) };
        pair.b.xfrm(&a_to_b.add_command());
        pair.b.xfrm(&b_to_a.add_command());
        add_policies(&b_to_a, &a_to_b);
        let gantry = gantry_runtime::open(Config::default()).unwrap();
        let (out, arriving) = (outbound(&gantry, keys), inbound(&gantry, &others));
        Self { pair, socket, out, arriving }
    }

    /// Returns the inner addresses of the test, and of the other end.
    pub(crate) fn inner(&self, family: usize) -> (IpAddr, IpAddr) {
        (self.pair.a.inner[family], self.pair.b.inner[family])
    }

    /// Seals an IP packet. Returns the ESP packet, to be sent in UDP.
    pub(crate) fn seal(&self, packet: &[u8]) -> Vec<u8> {
        let (head, tail) = self.out.overhead(packet.len());
        let mut buffer = vec![0; head + packet.len() + tail];
        buffer[head..head + packet.len()].copy_from_slice(packet);
        let mut packet = Packet::new(&mut buffer, head..head + packet.len());
        self.out.seal(&mut packet).unwrap();
        packet.data().to_vec()
    }

    /// Sends a datagram from the ESP port to the ESP port of the other end.
    pub(crate) fn send(&self, datagram: &[u8]) {
        self.socket.send(datagram).unwrap();
    }

    /// Returns the descriptor of the socket from which the test sends.
    pub(crate) fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Sends a datagram with a traffic class in its header.
    pub(crate) fn send_as(&self, class: u8, datagram: &[u8]) {
        setsockopt(&*self.socket, sockopt::Ipv4Tos, &class.into()).unwrap();
        self.send(datagram);
        setsockopt(&*self.socket, sockopt::Ipv4Tos, &0).unwrap();
    }

    /// Returns the IP packet in the next datagram.
    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        let length = self.socket.recv(&mut buffer).expect("a packet arrives");
        let mut packet = Packet::new(&mut buffer, 0..length);
        self.arriving.open(&mut packet).expect("the packet is authentic");
        packet.data().to_vec()
    }

    /// Returns the nonzero counters of the data path, except those of passed packets, and of packets that every stack sends to a
    /// new device.
    pub(crate) fn counted(&self) -> Vec<(String, u64)> {
        let status = self.pair.b.status();
        let all = status["counters"].as_object().unwrap();
        let all = all.iter().map(|(name, value)| (name.clone(), value.as_u64().unwrap()));
        let counts_passed_packets =
            |name: &str| name.starts_with("sent_") || name.starts_with("received_") || name == "unprotected";
        all.filter(|(name, value)| *value > 0 && !counts_passed_packets(name)).collect()
    }
}

/// Builds a UDP datagram from port 4000 to `port` in an IPv4 or IPv6 packet, with a traffic class.
pub(crate) fn udp((from, to): (IpAddr, IpAddr), port: u16, class: u8, payload: &[u8]) -> Vec<u8> {
    let ports = [4000_u16.to_be_bytes(), port.to_be_bytes()].concat();
    let length = (8 + payload.len()) as u16;
    let mut datagram = [&ports[..], &length.to_be_bytes(), &[0, 0], payload].concat();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            // Zero means that there is no checksum (RFC 768).
            let total = (20 + length).to_be_bytes();
            let mut header = vec![0x45, class, total[0], total[1], 0, 7, 0, 0, 64, 17, 0, 0];
            header.extend([from.octets(), to.octets()].concat());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum);
            [header, datagram].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let addresses = [from.octets(), to.octets()].concat();
            let pseudo = [&addresses[..], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 17], &datagram].concat();
            let sum = checksum(&pseudo);
            datagram[6..8].copy_from_slice(&sum);
            let [high, low] = length.to_be_bytes();
            let header = [0x60 | class >> 4, class << 4, 0, 0, high, low, 17, 64];
            [&header[..], &addresses, &datagram].concat()
        }
        _ => panic!("{from} and {to} are of different families"),
    }
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let sum: u64 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    (!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes()
}

fn outbound(gantry: &Gantry, keys: &Keys) -> Outbound {
    Association::new(OUTBOUND_SPI, keys.suite, &keys.key, &keys.integrity_key).outbound(gantry).unwrap()
}

fn inbound(gantry: &Gantry, keys: &Keys) -> Inbound {
    Association::new(INBOUND_SPI, keys.suite, &keys.key, &keys.integrity_key).inbound(gantry).unwrap()
}

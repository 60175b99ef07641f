//! Frames on a wire, captured by a packet socket of a device (packet(7)), and their kinds.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{self, AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, setsockopt, sockopt};

use crate::namespace::Namespace;
use crate::traffic::MARKER;

/// Captures everything that a device sends and receives.
#[derive(Debug)]
pub(crate) struct Listener {
    frames: Arc<Mutex<Vec<Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The kind of an Ethernet frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request for the address of a neighbour: ARP, with the IPv4 address of the neighbour, or neighbour discovery in IPv6.
    Neighbour(Option<IpAddr>),
    /// An ICMP error about a packet of the tunnel.
    Notice,
    Esp(Esp),
    /// A fragment of a datagram other than the first, which alone shows the kind of datagram.
    Fragment,
    /// A datagram of at least five bytes from or to port 4500 that is not ESP, such as an IKE message.
    Other4500,
    /// A frame that must not be seen outside the tunnel, including shorter datagrams, such as a keep-alive (RFC 3948, 2.3).
    Clear,
}

/// An ESP packet, in UDP or without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Esp {
    pub(crate) from: IpAddr,
    pub(crate) in_udp: bool,
    /// DSCP and ECN of the outer header.
    pub(crate) class: u8,
    pub(crate) spi: u32,
    /// The sequence number; in a frame with several packets, the number of the first packet.
    pub(crate) sequence_number: u32,
    /// Bytes of the whole frame.
    pub(crate) bytes: usize,
}

impl Listener {
    pub(crate) fn start(namespace: &Namespace, device: &str) -> Self {
        let socket = namespace.enter(|| open(device));
        let (frames, stop) = (Arc::default(), Arc::default());
        let thread = {
            let (frames, stop) = (Arc::clone(&frames), Arc::clone(&stop));
            Some(thread::spawn(move || listen(&socket, &frames, &stop)))
        };
        Self { frames, stop, thread }
    }

    /// Returns the frames seen since the last call.
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames.lock().unwrap())
    }

    /// Returns the frames seen so far, and keeps them.
    pub(crate) fn peek(&self) -> Vec<Vec<u8>> {
        self.frames.lock().unwrap().clone()
    }

    /// Ends the capture. Returns the remaining frames.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.take()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Panics if a frame must not be seen outside the tunnel. Returns the number of ESP frames.
pub(crate) fn count_sealed(frames: &[Vec<u8>]) -> usize {
    let mut count = 0;
    for frame in frames {
        assert!(!frame.windows(MARKER.len()).any(|part| part == MARKER), "in clear: {frame:02x?}");
        match kind(frame) {
            Kind::Clear => panic!("in clear: {frame:02x?}"),
            Kind::Neighbour(Some(IpAddr::V4(wanted))) => {
                // Outer addresses begin with 10.1 and 10.2, inner addresses with 10.11 and 10.12.
                assert!(wanted.octets()[1] < 10, "{wanted} is looked up outside the tunnel");
            }
            Kind::Esp(_) => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns whether any frame is in clear.
pub(crate) fn has_clear(frames: &[Vec<u8>]) -> bool {
    frames.iter().any(|frame| kind(frame) == Kind::Clear || frame.windows(MARKER.len()).any(|part| part == MARKER))
}

pub(crate) fn esp(frames: &[Vec<u8>]) -> Vec<Esp> {
    let of_esp = |frame: &Vec<u8>| match kind(frame) {
        Kind::Esp(esp) => Some(esp),
        _ => None,
    };
    frames.iter().filter_map(of_esp).collect()
}

fn kind(frame: &[u8]) -> Kind {
    const ARP: [u8; 2] = [8, 6];
    const IPV4: [u8; 2] = [8, 0];
    const IPV6: [u8; 2] = [0x86, 0xDD];
    let Some((header, packet)) = frame.split_at_checked(14) else { return Kind::Clear };
    let esp = |from: IpAddr, class: u8, in_udp: bool, packet: &[u8]| {
        let word = |at: usize| Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?));
        Some(Kind::Esp(Esp { from, in_udp, class, spi: word(0)?, sequence_number: word(4)?, bytes: frame.len() }))
    };
    let raw = |from, class, packet| esp(from, class, false, packet).unwrap_or(Kind::Clear);
    let datagram = |from: IpAddr, class: u8, payload: &[u8]| match payload {
        // A UDP header and fewer than five bytes.
        _ if payload.len() < 13 => Kind::Clear,
        // Port 4500 (0x1194). An SPI of zero marks IKE (RFC 3948, 2.2).
        [a, b, c, d, _, _, _, _, message @ ..] if [a, b] == [&0x11, &0x94] || [c, d] == [&0x11, &0x94] => {
            if message.starts_with(&[0; 4]) {
                Kind::Other4500
            } else {
                esp(from, class, true, message).unwrap_or(Kind::Other4500)
            }
        }
        _ => Kind::Clear,
    };
    match (&header[12..], packet) {
        (kind, _) if kind == ARP => {
            Kind::Neighbour(packet[24..].first_chunk::<4>().map(|address| IpAddr::from(*address)))
        }
        // The last fragment may be shorter than a header.
        (kind, [_, _, _, _, _, _, flags, offset, _, 17 | 50, ..])
            if kind == IPV4 && [flags & 0x1F, *offset] != [0; 2] =>
        {
            Kind::Fragment
        }
        (kind, [_, class, _, _, _, _, _, _, _, protocol, ..]) if kind == IPV4 && packet.len() >= 28 => {
            let from = IpAddr::from(*packet[12..].first_chunk::<4>().unwrap());
            match protocol {
                // The error quotes the packet that caused it, with its IP header.
                1 if packet[20] == 3 && packet[28..].get(9).copied().is_some_and(is_carrier) => Kind::Notice,
                50 => raw(from, *class, &packet[20..]),
                17 => datagram(from, *class, &packet[20..]),
                _ => Kind::Clear,
            }
        }
        (kind, [a, b, ..]) if kind == IPV6 && packet.len() >= 48 => {
            let from = IpAddr::from(*packet[8..].first_chunk::<16>().unwrap());
            match (packet[6], packet[40]) {
                // Neighbour discovery, and ICMP behind a hop-by-hop header.
                (58, 133..=137) | (0, 58) => Kind::Neighbour(None),
                (58, 2) if packet[48..].get(6).copied().is_some_and(is_carrier) => Kind::Notice,
                (44, 17 | 50) if packet[42] != 0 || packet[43] & 0xF8 != 0 => Kind::Fragment,
                (44, 17) => datagram(from, (a & 0xF) << 4 | b >> 4, &packet[48..]),
                (44, 50) => raw(from, (a & 0xF) << 4 | b >> 4, &packet[48..]),
                (50, _) => raw(from, (a & 0xF) << 4 | b >> 4, &packet[40..]),
                (17, _) => datagram(from, (a & 0xF) << 4 | b >> 4, &packet[40..]),
                _ => Kind::Clear,
            }
        }
        _ => Kind::Clear,
    }
}

/// Returns whether a protocol carries ESP.
fn is_carrier(protocol: u8) -> bool {
    matches!(protocol, 17 | 50)
}

/// Opens a packet socket, which captures from now on. Returns it with the index of the device.
fn open(device: &str) -> (OwnedFd, usize) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
    (socket, if_nametoindex(device).unwrap() as usize)
}

/// Stores the socket's frames of one device.
fn listen((socket, device): &(OwnedFd, usize), frames: &Mutex<Vec<Vec<u8>>>, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 17];
    loop {
        let poll = || poll(&mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)], 50_u16).unwrap();
        // The flag is loaded before the poll, so that earlier frames are not missed.
        let is_stopped = stop.load(Ordering::Relaxed);
        if poll() == 0 {
            if is_stopped {
                return;
            }
            continue;
        }
        // A device that goes down causes a read error, too.
        if let Ok((length, Some(address))) = socket::recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer)
            && address.ifindex() == *device
        {
            frames.lock().unwrap().push(buffer[..length].to_vec());
        }
    }
}

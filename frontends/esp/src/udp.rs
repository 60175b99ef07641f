//! Sockets of ESP: in UDP (RFC 3948), with bursts by GSO and GRO, and raw sockets (RFC 4303). Both expose the outer header's traffic class.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gantry_abi_xfrm::preload::EXEMPT_MARK;
use libc::c_int;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    setsockopt, sockopt,
};

use smallvec::{SmallVec, smallvec};

use crate::bpf::{Instruction, JUMP_IF_EQUAL, LOAD_AT, LOAD_INDEX, LOAD_IPV4_LENGTH, MODULO, RETURN, instruction};
use crate::sys;
use crate::sys::message_buffers::MessageBuffers;

/// Maximum bytes of a datagram, or of several datagrams that the kernel has merged.
pub(crate) const MAX_DATAGRAM_BYTES: usize = 65_535;
/// Datagrams per receive call. Each may be merged from many packets.
pub(crate) const DATAGRAMS_PER_RECEIVE: usize = 8;
/// Bytes that the kernel may buffer for a socket: some thousand packets.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// Path MTU discovery modes of the kernel (ip(7)): fragment packets that exceed the known path MTU, or refuse them; fragment to the MTU of
/// the device, and let routers fragment further.
const PMTUDISC_DONT: c_int = 0;
const PMTUDISC_DO: c_int = 2;
const PMTUDISC_OMIT: c_int = 5;

/// A socket of one family and one queue.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    is_v6: bool,
    /// The UDP port to which it is bound; `None` for a raw socket, whose packets have no UDP header.
    pub(crate) port: Option<u16>,
}

/// Packets of one sender, back to back in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedDatagram {
    /// Bytes before the first packet: the outer header, which raw sockets of IPv4 deliver (raw(7)).
    pub(crate) header_bytes: usize,
    /// Length in bytes of all packets and of the `header_bytes` bytes before them.
    pub(crate) bytes: usize,
    /// Bytes of each packet but the last.
    pub(crate) stride: usize,
    /// Sender of the packets.
    pub(crate) from: SocketAddr,
    /// DSCP and ECN of the outer header.
    pub(crate) class: u8,
}

/// Source and destination of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// One of this host's addresses; unspecified: the address that the routes select.
    pub(crate) from: IpAddr,
    pub(crate) to: SocketAddr,
}

/// A router's report about a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterReport {
    /// The path takes packets of at most `mtu` bytes, IP headers included.
    PathMtu { peer: IpAddr, mtu: usize },
    /// Any other report. The caller learns no more from it than from a peer that does not answer.
    Other,
}

impl Socket {
    /// Binds to an address that several sockets share.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let is_v6 = address.is_ipv6();
        let family = if is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(family, SockType::Datagram, flags, None)?;
        setsockopt(&fd, sockopt::ReusePort, &true)?;
        setsockopt(&fd, sockopt::UdpGroSegment, &true)?;
        if is_v6 {
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
        }
        let socket = Self::new(fd, is_v6, Some(address.port()))?;
        socket::bind(socket.fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(socket)
    }

    /// Opens a raw socket for the ESP packets of one queue: packets whose SPI has the remainder `queue` modulo `queues`.
    ///
    /// # Errors
    /// Errors of the system: EPERM without CAP_NET_RAW.
    pub(crate) fn raw(is_v6: bool, queue: u32, queues: u32) -> io::Result<Self> {
        let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        let fd = sys::socket(family, libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::IPPROTO_ESP)?;
        sys::attach_filter(&fd, &raw_socket_filter(is_v6, queue, queues))?;
        Self::new(fd, is_v6, None)
    }

    /// Sets the options that all sockets have.
    fn new(fd: OwnedFd, is_v6: bool, port: Option<u16>) -> io::Result<Self> {
        setsockopt(&fd, sockopt::Mark, &EXEMPT_MARK)?;
        // Without the privilege to exceed the limit, the default sizes remain.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES);
        let _ = setsockopt(&fd, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES);
        let (level, options) = if is_v6 {
            (libc::IPPROTO_IPV6, [libc::IPV6_RECVERR, libc::IPV6_RECVTCLASS, libc::IPV6_RECVPKTINFO])
        } else {
            (libc::IPPROTO_IP, [libc::IP_RECVERR, libc::IP_RECVTOS, libc::IP_PKTINFO])
        };
        options.into_iter().try_for_each(|option| sys::set_option(&fd, level, option, 1))?;
        let socket = Self { fd, is_v6, port };
        socket.set_mtu_discovery(PMTUDISC_DO)?;
        Ok(socket)
    }

    fn set_mtu_discovery(&self, mode: c_int) -> io::Result<()> {
        let (level, option) = if self.is_v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        };
        sys::set_option(&self.fd, level, option, mode)
    }

    /// Sends packets like [`send`](Self::send), but lets this host or a router fragment the packets. This host fragments to the
    /// known path MTU. With `by_routers` (in IPv4) it fragments to the MTU of the device, and routers fragment further. Only one thread
    /// sends on a socket.
    pub(crate) fn send_fragmentable(
        &self,
        packets: &[u8],
        stride: usize,
        endpoints: &Endpoints,
        class: u8,
        by_routers: bool,
    ) -> io::Result<bool> {
        self.set_mtu_discovery(if by_routers { PMTUDISC_OMIT } else { PMTUDISC_DONT })?;
        let sent = self.send(packets, stride, endpoints, class);
        self.set_mtu_discovery(PMTUDISC_DO)?;
        sent
    }

    /// Sends packets of `stride` bytes each in one call; the last one may be shorter. A raw socket sends one packet only. Returns `false`
    /// if the socket is full.
    pub(crate) fn send(&self, packets: &[u8], stride: usize, endpoints: &Endpoints, class: u8) -> io::Result<bool> {
        let (segment, class_v6) = (stride as u16, c_int::from(class));
        let class = if self.is_v6 { ControlMessage::Ipv6TClass(&class_v6) } else { ControlMessage::Ipv4Tos(&class) };
        let (v4, v6);
        let mut controls: SmallVec<[ControlMessage<'_>; 3]> = smallvec![class];
        match endpoints.from {
            from if from.is_unspecified() => {}
            IpAddr::V4(from) => {
                let address = libc::in_addr { s_addr: from.to_bits().to_be() };
                v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
                controls.push(ControlMessage::Ipv4PacketInfo(&v4));
            }
            IpAddr::V6(from) => {
                v6 = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
                controls.push(ControlMessage::Ipv6PacketInfo(&v6));
            }
        }
        if packets.len() > stride {
            controls.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let (to, pieces) = (SockaddrStorage::from(endpoints.to), [IoSlice::new(packets)]);
        loop {
            return match socket::sendmsg(self.fd.as_raw_fd(), &pieces, &controls, MsgFlags::empty(), Some(&to)) {
                Ok(_) => Ok(true),
                Err(Errno::EAGAIN) => Ok(false),
                Err(Errno::EINTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Receives into `buffer`, [`MAX_DATAGRAM_BYTES`] bytes for each receive. `into` then describes the received packets.
    pub(crate) fn receive(&self, buffer: &mut [u8], into: &mut Receiver) -> io::Result<()> {
        let controls = if self.is_v6 {
            [(libc::IPPROTO_IPV6, libc::IPV6_TCLASS), GRO]
        } else {
            [(libc::IPPROTO_IP, libc::IP_TOS), GRO]
        };
        let Receiver { messages, received } = into;
        received.clear();
        let count = match messages.receive(&self.fd, buffer.chunks_exact_mut(MAX_DATAGRAM_BYTES)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        for at in 0..count {
            let [class, stride] = controls.map(|(level, kind)| messages.control_number(at, level, kind));
            let bytes = messages.length(at);
            let class = class.and_then(|class| u8::try_from(class & 0xFF).ok()).unwrap_or(0);
            let stride = stride.and_then(|stride| usize::try_from(stride).ok()).unwrap_or(bytes).max(1);
            // A datagram without a sender counts as empty, so that the others keep their indexes.
            let from = messages.sender(at);
            let bytes = if from.is_some() { bytes } else { 0 };
            let header_bytes =
                self.outer_header_bytes(&buffer[at * MAX_DATAGRAM_BYTES..][..bytes.min(MAX_DATAGRAM_BYTES)]);
            let from = from.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
            received.push(ReceivedDatagram { header_bytes, bytes, stride, from, class });
        }
        Ok(())
    }

    /// Returns the length of the outer header of a received packet.
    fn outer_header_bytes(&self, received: &[u8]) -> usize {
        match received.first() {
            Some(first) if self.port.is_none() && !self.is_v6 => (usize::from(first & 0xF) * 4).min(received.len()),
            _ => 0,
        }
    }

    /// Takes one router report from the socket's error queue; `None` if there are no more.
    pub(crate) fn take_report(&self) -> io::Result<Option<RouterReport>> {
        let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, libc::sock_extended_err);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match socket::recvmsg::<SockaddrStorage>(self.fd.as_raw_fd(), &mut [], Some(&mut control), flags)
        {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Destination of the packet.
        let peer = message.address.as_ref().and_then(address).map(|address| address.ip());
        let mtu = message.cmsgs().into_iter().flatten().find_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                (error.ee_errno == Errno::EMSGSIZE as u32).then_some(error.ee_info as usize)
            }
            _ => None,
        });
        Ok(Some(match (peer, mtu) {
            (Some(peer), Some(mtu)) => RouterReport::PathMtu { peer, mtu },
            _ => RouterReport::Other,
        }))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Builds the filter of a raw socket. The kernel hands each packet to all raw sockets; the filters let one of them take it by its SPI. So
/// the packets of an SA stay in order.
fn raw_socket_filter(is_v6: bool, queue: u32, queues: u32) -> [Instruction; 6] {
    // In IPv4 the packet begins with its IP header.
    let to_esp = if is_v6 { LOAD_INDEX } else { LOAD_IPV4_LENGTH };
    [
        instruction(to_esp, 0, 0, 0),
        instruction(LOAD_AT, 0, 0, 0),
        instruction(MODULO, 0, 0, queues),
        instruction(JUMP_IF_EQUAL, 0, 1, queue),
        instruction(RETURN, 0, 0, u32::MAX),
        instruction(RETURN, 0, 0, 0),
    ]
}

/// Control message by which the kernel tells the length of each datagram that it has merged (linux/udp.h).
const GRO: (c_int, c_int) = (libc::SOL_UDP, libc::UDP_GRO);

/// Buffers of a receiving thread.
pub(crate) struct Receiver {
    messages: MessageBuffers,
    /// Result of the last receive, each in [`MAX_DATAGRAM_BYTES`] bytes of the buffer.
    pub(crate) received: Vec<ReceivedDatagram>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            messages: MessageBuffers::new(DATAGRAMS_PER_RECEIVE),
            received: Vec::with_capacity(DATAGRAMS_PER_RECEIVE),
        }
    }
}

impl Receiver {
    /// Returns the address of this host to which a datagram of the last receive was sent.
    pub(crate) fn destination(&self, at: usize) -> Option<IpAddr> {
        // The header's address is the last member of `struct in_pktinfo`, and the first of `struct in6_pktinfo`.
        let v4 = || self.messages.control_bytes(at, libc::IPPROTO_IP, libc::IP_PKTINFO)?.last_chunk::<4>();
        let v6 = || self.messages.control_bytes(at, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)?.first_chunk::<16>();
        v4().map(|octets| IpAddr::from(*octets)).or_else(|| v6().map(|octets| IpAddr::from(*octets)))
    }
}

/// Sends a datagram to a socket of this host, with the address of the datagram's original sender as its source.
pub(crate) fn send_with_source(datagram: &[u8], source: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let (family, level, transparent) = if source.is_ipv6() {
        (AddressFamily::Inet6, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)
    } else {
        (AddressFamily::Inet, libc::IPPROTO_IP, libc::IP_TRANSPARENT)
    };
    let fd = socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    setsockopt(&fd, sockopt::ReusePort, &true)?;
    setsockopt(&fd, sockopt::Mark, &EXEMPT_MARK)?;
    sys::set_option(&fd, level, transparent, 1)?;
    socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(source))?;
    socket::sendto(fd.as_raw_fd(), datagram, &SockaddrStorage::from(to), MsgFlags::empty())?;
    Ok(())
}

/// Returns the path MTU that the kernel knows for a peer; `None` if it has no route.
pub(crate) fn path_mtu(peer: SocketAddr) -> Option<usize> {
    let is_v6 = peer.is_ipv6();
    let family = if is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let fd = socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    setsockopt(&fd, sockopt::Mark, &EXEMPT_MARK).ok()?;
    socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(peer)).ok()?;
    let mtu = if is_v6 {
        sys::option(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        sys::option(&fd, libc::IPPROTO_IP, libc::IP_MTU)
    };
    mtu.ok().and_then(|mtu| usize::try_from(mtu).ok())
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || storage.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    let v6 = || storage.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into()));
    v4().or_else(v6)
}

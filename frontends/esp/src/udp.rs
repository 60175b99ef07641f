//! Sockets of ESP in UDP (RFC 3948): packets in trains, with the traffic class outside.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use gantry_abi_xfrm::private::EXEMPT_MARK;
use libc::c_int;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    setsockopt, sockopt,
};

use smallvec::{SmallVec, smallvec};

use crate::sys;
use crate::sys::messages::Messages;

/// Bytes of a datagram, or of as many as the kernel has put together.
pub(crate) const LARGEST: usize = 65_535;
/// Datagrams, perhaps of many packets each, that one receive takes.
pub(crate) const RECEIVES: usize = 8;
/// What the kernel may hold for a socket, in bytes: some thousand packets.
const BUFFER: usize = 8 << 20;
/// Path MTU discovery as the kernel does it: fragment what is too long for the path that is known; or never, and refuse it (ip(7)).
const PMTUDISC_DONT: c_int = 0;
const PMTUDISC_DO: c_int = 2;

/// A socket of one family and one queue.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    is_v6: bool,
}

/// What was received: packets of one sender, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes of all.
    pub(crate) bytes: usize,
    /// Bytes of each but the last.
    pub(crate) stride: usize,
    /// Who sent them.
    pub(crate) from: SocketAddr,
    /// DSCP and ECN of the header around them.
    pub(crate) class: u8,
}

/// From where to where datagrams go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// One of this host's addresses; unspecified: the one that routes say.
    pub(crate) from: IpAddr,
    pub(crate) to: SocketAddr,
}

/// What a router says of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The path takes no more than so many bytes, headers of IP included.
    Narrow { peer: IpAddr, mtu: usize },
    /// Anything else, which the peer's silence says as well.
    Other,
}

impl Socket {
    /// Binds to an address, as one of those that share it.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let is_v6 = address.is_ipv6();
        let family = if is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(family, SockType::Datagram, flags, None)?;
        setsockopt(&fd, sockopt::ReusePort, &true)?;
        setsockopt(&fd, sockopt::Mark, &EXEMPT_MARK)?;
        // Who may not have more than others has what all have.
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &BUFFER);
        let _ = setsockopt(&fd, sockopt::SndBufForce, &BUFFER);
        let (level, errors, class) = if is_v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::IPV6_RECVTCLASS)
        } else {
            (libc::IPPROTO_IP, libc::IP_RECVERR, libc::IP_RECVTOS)
        };
        sys::set_option(&fd, level, errors, 1)?;
        sys::set_option(&fd, level, class, 1)?;
        setsockopt(&fd, sockopt::UdpGroSegment, &true)?;
        if is_v6 {
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
        }
        let socket = Self { fd, is_v6 };
        socket.discover(PMTUDISC_DO)?;
        socket::bind(socket.fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        Ok(socket)
    }

    fn discover(&self, how: c_int) -> io::Result<()> {
        let (level, option) = if self.is_v6 {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        };
        sys::set_option(&self.fd, level, option, how)
    }

    /// Sends one packet, in fragments where the path takes less. One thread sends by a socket. `false`: the socket is full.
    pub(crate) fn send_cut(&self, packet: &[u8], way: &Way, class: u8) -> io::Result<bool> {
        self.discover(PMTUDISC_DONT)?;
        let sent = self.send(packet, packet.len(), way, class);
        self.discover(PMTUDISC_DO)?;
        sent
    }

    /// Sends packets of `stride` bytes each, of which the last may have less, in one call. `false`: the socket is full.
    pub(crate) fn send(&self, packets: &[u8], stride: usize, way: &Way, class: u8) -> io::Result<bool> {
        let (segment, class_v6) = (stride as u16, c_int::from(class));
        let class = if self.is_v6 { ControlMessage::Ipv6TClass(&class_v6) } else { ControlMessage::Ipv4Tos(&class) };
        let (v4, v6);
        let mut controls: SmallVec<[ControlMessage<'_>; 3]> = smallvec![class];
        match way.from {
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
        let (to, pieces) = (SockaddrStorage::from(way.to), [IoSlice::new(packets)]);
        loop {
            return match socket::sendmsg(self.fd.as_raw_fd(), &pieces, &controls, MsgFlags::empty(), Some(&to)) {
                Ok(_) => Ok(true),
                Err(Errno::EAGAIN) => Ok(false),
                Err(Errno::EINTR) => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Takes what has come into `buffer`, [`LARGEST`] bytes for each receive. What was received is in `into` then.
    pub(crate) fn receive(&self, buffer: &mut [u8], into: &mut Receiver) -> io::Result<()> {
        let controls = if self.is_v6 {
            [(libc::IPPROTO_IPV6, libc::IPV6_TCLASS), GRO]
        } else {
            [(libc::IPPROTO_IP, libc::IP_TOS), GRO]
        };
        let Receiver { messages, received } = into;
        received.clear();
        let got = match messages.receive(&self.fd, buffer.chunks_exact_mut(LARGEST)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        for at in 0..got {
            let [class, stride] = controls.map(|(level, kind)| messages.control(at, level, kind));
            let bytes = messages.bytes(at);
            let class = class.and_then(|class| u8::try_from(class & 0xFF).ok()).unwrap_or(0);
            let stride = stride.and_then(|stride| usize::try_from(stride).ok()).unwrap_or(bytes).max(1);
            // One without a sender has no bytes, so that the others keep their places.
            let from = messages.address(at);
            let bytes = if from.is_some() { bytes } else { 0 };
            received.push(Received { bytes, stride, from: from.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into()), class });
        }
        Ok(())
    }

    /// Takes one report of routers on the way out of the socket; `None` when there are no more.
    pub(crate) fn report(&self) -> io::Result<Option<Report>> {
        let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, libc::sock_extended_err);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match socket::recvmsg::<SockaddrStorage>(self.fd.as_raw_fd(), &mut [], Some(&mut control), flags)
        {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Whom the packet was for.
        let peer = message.address.as_ref().and_then(address).map(|address| address.ip());
        let mtu = message.cmsgs().into_iter().flatten().find_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                (error.ee_errno == Errno::EMSGSIZE as u32).then_some(error.ee_info as usize)
            }
            _ => None,
        });
        Ok(Some(match (peer, mtu) {
            (Some(peer), Some(mtu)) => Report::Narrow { peer, mtu },
            _ => Report::Other,
        }))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Where the kernel says how long the datagrams are that it has put together (linux/udp.h).
const GRO: (c_int, c_int) = (libc::SOL_UDP, libc::UDP_GRO);

/// What a thread needs to receive.
pub(crate) struct Receiver {
    messages: Messages,
    /// What the last receive brought, each in [`LARGEST`] bytes of the buffer.
    pub(crate) received: Vec<Received>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self { messages: Messages::new(RECEIVES), received: Vec::with_capacity(RECEIVES) }
    }
}

/// The path MTU that the kernel knows for a peer; `None` where it has no route.
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

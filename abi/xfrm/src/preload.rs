//! Messages between the preload library in a program and the server, on the same socket as XFRM messages. Their numbers are
//! higher than the numbers of all XFRM messages.
//!
//! A connection stands for one netlink socket. The library first sends [`PreloadMessage::Socket`], and sends it again when the program
//! joins groups or sets options. The server does not answer this message.
//!
//! Before the program binds a UDP socket, the library opens another connection and sends [`PreloadMessage::Binding`]. The server
//! answers [`PreloadMessage::Share`]. With `false`, or without an answer within a second, the library only binds.
//!
//! Before an answer of `true`, the server has attached a filter that picks the socket for each datagram. The library sets SO_REUSEPORT,
//! binds, and sends [`PreloadMessage::Bound`]. The server acknowledges with another [`PreloadMessage::Share`], for which the library waits
//! at most a second before it closes the connection.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::bytes::{Reader, Write};
use crate::netlink::{Datagram, Frame, Header};
use crate::{Error, Family};

/// SO_MARK of sockets that are exempt from policies: "GESP" in ASCII. IKE daemons exempt their own datagrams by IP_XFRM_POLICY or
/// IPV6_XFRM_POLICY, with a policy that lets them pass. The library sets the mark instead.
pub const EXEMPT_MARK: u32 = 0x4745_5350;

/// Number of [`PreloadMessage::Socket`].
pub const SOCKET: u16 = 0xff01;
/// Number of [`PreloadMessage::Binding`].
pub const BINDING: u16 = 0xff02;
/// Number of [`PreloadMessage::Share`].
pub const SHARE: u16 = 0xff03;
/// Number of [`PreloadMessage::Bound`].
pub const BOUND: u16 = 0xff04;

/// Number of [`PreloadMessage::Lost`].
pub const LOST: u16 = 0xff05;

/// A message between library and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadMessage {
    /// The parameters of the program's socket: three numbers of 32 bits.
    Socket {
        /// The socket's port, for `nlmsg_pid` of answers.
        port: u32,
        /// Bit n - 1 stands for group n of [`constants::group`](crate::constants::group).
        groups: u32,
        /// NETLINK_EXT_ACK: acknowledgements may have a text. On the wire it is bit 0 of the third number.
        texts: bool,
    },
    /// The program is about to bind a UDP socket to this address. On the wire: family and port (16 bits each),
    /// scope (32 bits), address (16 bytes).
    Binding(SocketAddr),
    /// True if the program is to share the port with the server. On the wire: a byte, 1 or 0.
    Share(bool),
    /// The result of the bind: the address of [`PreloadMessage::Binding`], and `errno` (32 bits), which is 0 if the socket is bound.
    Bound(SocketAddr, i32),
    /// A request was lost with its connection; the header contains the request's sequence number. The program still waits for an
    /// answer, so the server sends NLMSG_ERROR with ECONNREFUSED.
    Lost,
}

impl PreloadMessage {
    /// Parses a message. Any other number is [`Error::Unknown`].
    pub fn parse(frame: &Frame<'_>) -> Result<Self, Error> {
        let mut reader = Reader(frame.body());
        match frame.header.kind {
            SOCKET => {
                Ok(Self::Socket { port: reader.u32()?, groups: reader.u32()?, texts: reader.u32()? & TEXTS != 0 })
            }
            BINDING => Ok(Self::Binding(address(&mut reader)?)),
            SHARE => Ok(Self::Share(reader.u8()? != 0)),
            BOUND => Ok(Self::Bound(address(&mut reader)?, reader.u32()?.cast_signed())),
            LOST => Ok(Self::Lost),
            other => Err(Error::Unknown(other)),
        }
    }

    /// Returns the message's number in a header.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Socket { .. } => SOCKET,
            Self::Binding(_) => BINDING,
            Self::Share(_) => SHARE,
            Self::Bound(..) => BOUND,
            Self::Lost => LOST,
        }
    }
}

impl Datagram {
    /// Appends a message between library and server. Flags, sequence number and port of the header are 0, also for
    /// [`PreloadMessage::Lost`].
    pub fn push_preload_message(&mut self, message: &PreloadMessage) {
        self.begin(Header { kind: message.kind(), ..Header::default() });
        match *message {
            PreloadMessage::Socket { port, groups, texts } => {
                self.u32(port);
                self.u32(groups);
                self.u32(if texts { TEXTS } else { 0 });
            }
            PreloadMessage::Binding(address) => write_address(address, self),
            PreloadMessage::Share(share) => self.u8(share.into()),
            PreloadMessage::Bound(address, errno) => {
                write_address(address, self);
                self.u32(errno.cast_unsigned());
            }
            PreloadMessage::Lost => {}
        }
        self.end();
    }
}

/// Bit of [`PreloadMessage::Socket`]'s third number.
const TEXTS: u32 = 1;

fn address(reader: &mut Reader<'_>) -> Result<SocketAddr, Error> {
    let family = Family::parse(reader.u16()?)?;
    let port = reader.u16()?;
    let scope = reader.u32()?;
    Ok(match reader.address()?.to_ip(family) {
        IpAddr::V4(address) => SocketAddrV4::new(address, port).into(),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope).into(),
    })
}

fn write_address(address: SocketAddr, to: &mut Datagram) {
    to.u16(Family::of(address.ip()).number());
    to.u16(address.port());
    to.u32(if let SocketAddr::V6(address) = address { address.scope_id() } else { 0 });
    to.address(address.ip());
}

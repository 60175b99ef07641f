//! The UDP port of ESP, which IKE daemons use, too.
//!
//! All sockets bound to an address form a group. A classic BPF program picks the socket for each datagram by its index, in the order of
//! binding. The data path's sockets are bound first, and the daemon's sockets after them. When a socket is closed, the last socket takes
//! its index (net/core/sock_reuseport.c). So if a daemon's socket was bound first, the data path's sockets get the first indexes once that
//! daemon ends.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::bpf::{
    ADD, Instruction, JUMP_IF_ABOVE_INDEX, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD, LOAD_LENGTH, MODULO, RETURN,
    RETURN_ACCUMULATOR, TO_INDEX, instruction,
};
use crate::sys;
use crate::udp::Socket;

/// Maximum number of addresses that daemons may bind to. Each address costs a thread for each queue.
const MAX_ADDRESSES: usize = 64;

/// The sockets of an address.
struct AddressSockets {
    address: IpAddr,
    /// One socket for each queue.
    sockets: Vec<Arc<Socket>>,
}

/// The sockets of all addresses.
pub(crate) struct SharedPort {
    number: u16,
    queues: usize,
    all: Vec<AddressSockets>,
}

impl SharedPort {
    /// Binds to the wildcard address of IPv4 and, if the host has it, of IPv6.
    pub(crate) fn new(number: u16, queues: usize) -> io::Result<Self> {
        let mut port = Self { number, queues, all: Vec::new() };
        port.bind(Ipv4Addr::UNSPECIFIED.into())?;
        match port.bind(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
            bound => bound?,
        }
        Ok(port)
    }

    /// Returns the sockets of a queue that are bound to the wildcard addresses.
    pub(crate) fn wildcard_sockets(&self, queue: usize) -> [Option<Arc<Socket>>; 2] {
        [Ipv4Addr::UNSPECIFIED.into(), IpAddr::from(Ipv6Addr::UNSPECIFIED)]
            .map(|address| self.sockets_of(address).map(|bound| bound.sockets[queue].clone()))
    }

    /// Prepares for a daemon's socket that is bound after the data path's sockets. A daemon bound to a specific address would get all
    /// datagrams of that address, so some of the data path's sockets are bound to the address, too. Returns the new sockets, one for each
    /// queue, which the caller must read; none if the address was bound already.
    ///
    /// # Errors
    /// Errors of the system; ENOSPC if there are too many addresses.
    pub(crate) fn prepare_for_daemon(&mut self, address: IpAddr) -> io::Result<Vec<Arc<Socket>>> {
        if let Some(bound) = self.sockets_of(address) {
            // Daemons whose sockets were bound before ours have ended.
            sys::attach_reuseport_program(&*bound.sockets[0], &selection_program(0, self.queues as u32))?;
            return Ok(Vec::new());
        }
        if self.all.len() >= MAX_ADDRESSES {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.bind(address)?;
        Ok(self.sockets_of(address).map(|bound| bound.sockets.clone()).unwrap_or_default())
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn sockets_of(&self, address: IpAddr) -> Option<&AddressSockets> {
        self.all.iter().find(|bound| bound.address == address)
    }

    fn bind(&mut self, address: IpAddr) -> io::Result<()> {
        let foreign = count_foreign_sockets(address, self.number);
        let bind = || Socket::bind((address, self.number).into()).map(Arc::new);
        let sockets = (0..self.queues).map(|_| bind()).collect::<io::Result<Vec<_>>>()?;
        sys::attach_reuseport_program(&*sockets[0], &selection_program(foreign, self.queues as u32))?;
        self.all.push(AddressSockets { address, sockets });
        Ok(())
    }
}

/// Counts sockets of other programs that are bound to an address: daemons that started before us.
fn count_foreign_sockets(address: IpAddr, port: u16) -> u32 {
    let wanted = match SocketAddr::from((address, port)) {
        SocketAddr::V4(address) => format!("{:08X}:{port:04X}", address.ip().to_bits().to_be()),
        SocketAddr::V6(address) => {
            let octets = address.ip().octets();
            let (words, _) = octets.as_chunks::<4>();
            let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
            format!("{:08X}{:08X}{:08X}{:08X}:{port:04X}", words[0], words[1], words[2], words[3])
        }
    };
    // If the table cannot be read, no other sockets are assumed.
    let table = fs::read_to_string(if address.is_ipv6() { "/proc/net/udp6" } else { "/proc/net/udp" });
    let table = table.unwrap_or_default();
    table.lines().filter(|line| line.split_whitespace().nth(1) == Some(&wanted)).count() as u32
}

/// Builds the program that picks the socket for a datagram. The daemon gets a datagram that begins with IKE's marker, four zero bytes (RFC
/// 3948, 2.2). Every other datagram goes to a socket of the data path by its SPI, which keeps the packets of an association in order. A
/// datagram of less than four bytes ends the program with 0, which is harmless: NAT keep-alives need no reader.
///
/// A datagram that is longer than its message of IKE (RFC 7296, 3.1) may consist of several datagrams that the kernel has merged, with ESP
/// after the first datagram. The data path's socket splits the merged datagram.
fn selection_program(foreign: u32, ours: u32) -> [Instruction; 13] {
    /// Bytes of the marker, the offset of the message's length, and the end of that field.
    const MARKER_BYTES: u32 = 4;
    const LENGTH_OFFSET: u32 = MARKER_BYTES + 24;
    const LENGTH_END: u32 = LENGTH_OFFSET + 4;
    let daemon = if foreign > 0 { 0 } else { ours };
    [
        instruction(LOAD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 0, 8, 0),
        instruction(LOAD_LENGTH, 0, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 0, 5, LENGTH_END),
        instruction(LOAD, 0, 0, LENGTH_OFFSET),
        instruction(ADD, 0, 0, MARKER_BYTES),
        instruction(TO_INDEX, 0, 0, 0),
        instruction(LOAD_LENGTH, 0, 0, 0),
        instruction(JUMP_IF_ABOVE_INDEX, 1, 0, 0),
        instruction(RETURN, 0, 0, daemon),
        instruction(MODULO, 0, 0, ours),
        instruction(ADD, 0, 0, foreign),
        instruction(RETURN_ACCUMULATOR, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn sockets_that_are_bound_already_are_found() {
        let v4 = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = v4.local_addr().unwrap().port();
        assert_eq!(count_foreign_sockets([127, 0, 0, 1].into(), port), 1);
        assert_eq!(count_foreign_sockets([127, 0, 0, 2].into(), port), 0);
        // IPv6 may be absent.
        if let Ok(v6) = UdpSocket::bind("[::1]:0") {
            let port = v6.local_addr().unwrap().port();
            assert_eq!(count_foreign_sockets(Ipv6Addr::LOCALHOST.into(), port), 1);
            assert_eq!(count_foreign_sockets(Ipv6Addr::UNSPECIFIED.into(), port), 0);
        }
    }
}

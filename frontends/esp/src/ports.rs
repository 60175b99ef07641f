//! The port of ESP in UDP, which IKE daemons have, too.
//!
//! All sockets of an address are a group, in which a program of classic BPF names the one that gets a datagram: by its place in the order
//! of binding. Ours are bound first, the daemon's is the next. When a socket is closed, the last one takes its place
//! (net/core/sock_reuseport.c), so that ours are the first again when a daemon that was there before them ends.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::sys;
use crate::udp::Socket;

/// Addresses that daemons may bind to, each of which costs a thread for each queue.
const MOST: usize = 64;

/// The sockets of an address.
struct Bound {
    address: IpAddr,
    /// One for each queue.
    sockets: Vec<Arc<Socket>>,
}

/// All of them.
pub(crate) struct Ports {
    number: u16,
    queues: usize,
    all: Vec<Bound>,
}

impl Ports {
    /// Binds to every address, of IPv4 and, where the host has it, of IPv6.
    pub(crate) fn new(number: u16, queues: usize) -> io::Result<Self> {
        let mut ports = Self { number, queues, all: Vec::new() };
        ports.bind(Ipv4Addr::UNSPECIFIED.into())?;
        match ports.bind(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
            bound => bound?,
        }
        Ok(ports)
    }

    /// The sockets of a queue that are bound to every address.
    pub(crate) fn of(&self, queue: usize) -> [Option<Arc<Socket>>; 2] {
        [Ipv4Addr::UNSPECIFIED.into(), IpAddr::from(Ipv6Addr::UNSPECIFIED)]
            .map(|address| self.bound(address).map(|bound| bound.sockets[queue].clone()))
    }

    /// Makes place for a daemon's socket behind ours. What a daemon binds to one address gets the datagrams of that address: so some of
    /// ours are bound to it, too. They are new, one for each queue, and somebody has to read them; or there are none.
    ///
    /// # Errors
    /// What the system says; ENOSPC where there are too many addresses.
    pub(crate) fn expect(&mut self, address: IpAddr) -> io::Result<Vec<Arc<Socket>>> {
        if let Some(bound) = self.bound(address) {
            // None that was there before is there any more.
            sys::choose_by(&*bound.sockets[0], &program(0, self.queues as u32))?;
            return Ok(Vec::new());
        }
        if self.all.len() >= MOST {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.bind(address)?;
        Ok(self.bound(address).map(|bound| bound.sockets.clone()).unwrap_or_default())
    }

    /// The number of the port.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn bound(&self, address: IpAddr) -> Option<&Bound> {
        self.all.iter().find(|bound| bound.address == address)
    }

    fn bind(&mut self, address: IpAddr) -> io::Result<()> {
        let before = others(address, self.number);
        let bind = || Socket::bind((address, self.number).into()).map(Arc::new);
        let sockets = (0..self.queues).map(|_| bind()).collect::<io::Result<Vec<_>>>()?;
        sys::choose_by(&*sockets[0], &program(before, self.queues as u32))?;
        self.all.push(Bound { address, sockets });
        Ok(())
    }
}

/// Sockets of others that are bound to an address: daemons that were there before.
fn others(address: IpAddr, port: u16) -> u32 {
    let wanted = match SocketAddr::from((address, port)) {
        SocketAddr::V4(address) => format!("{:08X}:{port:04X}", address.ip().to_bits().to_be()),
        SocketAddr::V6(address) => {
            let octets = address.ip().octets();
            let (words, _) = octets.as_chunks::<4>();
            let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
            format!("{:08X}{:08X}{:08X}{:08X}:{port:04X}", words[0], words[1], words[2], words[3])
        }
    };
    // Where it cannot be read, there are none that share the port with us.
    let table = fs::read_to_string(if address.is_ipv6() { "/proc/net/udp6" } else { "/proc/net/udp" });
    let table = table.unwrap_or_default();
    table.lines().filter(|line| line.split_whitespace().nth(1) == Some(&wanted)).count() as u32
}

/// Who gets a datagram: the daemon's socket if it begins with the marker of IKE, four bytes of zeros (RFC 3948, 2.2), else one of ours, by its
/// SPI, so that the packets of an association stay in their order. A datagram of less than four bytes ends the program with 0, which is
/// right: what keeps a NAT alive needs no reader.
fn program(before: u32, ours: u32) -> [libc::sock_filter; 6] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const MODULO: u16 = 0x94;
    const ADD: u16 = 0x04;
    const RETURN_ACCUMULATOR: u16 = 0x16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let daemon = if before > 0 { 0 } else { ours };
    [
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, 0),
        step(RETURN, 0, 0, daemon),
        step(MODULO, 0, 0, ours),
        step(ADD, 0, 0, before),
        step(RETURN_ACCUMULATOR, 0, 0, 0),
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
        assert_eq!(others([127, 0, 0, 1].into(), port), 1);
        assert_eq!(others([127, 0, 0, 2].into(), port), 0);
        // A host may be without IPv6.
        if let Ok(v6) = UdpSocket::bind("[::1]:0") {
            let port = v6.local_addr().unwrap().port();
            assert_eq!(others(Ipv6Addr::LOCALHOST.into(), port), 1);
            assert_eq!(others(Ipv6Addr::UNSPECIFIED.into(), port), 0);
        }
    }
}

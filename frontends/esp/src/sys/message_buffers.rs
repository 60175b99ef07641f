//! Receives by recvmmsg(2). The wrapper of `nix` passes the lengths of the previous call again, which truncates control messages.

use std::io;
use std::mem;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{c_int, iovec, mmsghdr, sockaddr_in, sockaddr_in6, sockaddr_storage};

/// Bytes for the control messages of one datagram: room for three integers or addresses.
const CONTROL_BYTES: usize = 96;

/// Buffers for receiving several datagrams per call.
pub(crate) struct MessageBuffers {
    /// The headers. Each call rewrites their pointers into the other fields.
    headers: Box<[mmsghdr]>,
    pieces: Box<[iovec]>,
    addresses: Box<[sockaddr_storage]>,
    controls: Box<[Control]>,
}

/// A buffer with the alignment of control message headers.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: the pointers in the headers are followed only in `receive`, which writes them first; they point into the boxes and into the
// caller's buffers.
unsafe impl Send for MessageBuffers {}

impl MessageBuffers {
    /// Allocates room for `count` datagrams per call.
    pub(crate) fn new(count: usize) -> Self {
        // SAFETY: the structures consist of integers and pointers, for which all zeros are valid.
        let (header, address): (mmsghdr, sockaddr_storage) = unsafe { (mem::zeroed(), mem::zeroed()) };
        let piece = iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            headers: vec![header; count].into(),
            pieces: vec![piece; count].into(),
            addresses: vec![address; count].into(),
            controls: vec![Control([0; CONTROL_BYTES]); count].into(),
        }
    }

    /// Receives datagrams without waiting, one into each buffer, and returns their number.
    pub(crate) fn receive<'b>(
        &mut self,
        socket: impl AsFd,
        buffers: impl Iterator<Item = &'b mut [u8]>,
    ) -> io::Result<usize> {
        let Self { headers, pieces, addresses, controls } = self;
        let mut count = 0;
        let parts = headers.iter_mut().zip(&mut *pieces).zip(&mut *addresses).zip(&mut *controls);
        for ((((header, piece), address), control), buffer) in parts.zip(buffers) {
            *piece = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut header.msg_hdr;
            header.msg_name = ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<sockaddr_storage>() as _;
            header.msg_iov = ptr::from_mut(piece);
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
            count += 1;
        }
        // SAFETY: the first `count` headers were written above. Each points to an address, a control buffer and one of the caller's
        // buffers, with their lengths; all are borrowed for the duration of the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Returns the length in bytes of a datagram of the last call.
    pub(crate) fn length(&self, at: usize) -> usize {
        self.headers[at].msg_len as usize
    }

    /// Returns the sender of a datagram of the last call.
    pub(crate) fn sender(&self, at: usize) -> Option<SocketAddr> {
        let (address, length) = (&raw const self.addresses[at], self.headers[at].msg_hdr.msg_namelen as usize);
        match c_int::from(self.addresses[at].ss_family) {
            libc::AF_INET if length >= size_of::<sockaddr_in>() => {
                // SAFETY: the kernel wrote an address of this family, a structure of integers; the storage is large and aligned enough for
                // it.
                let address = unsafe { &*address.cast::<sockaddr_in>() };
                let ip = u32::from_be(address.sin_addr.s_addr);
                Some(SocketAddrV4::new(ip.into(), u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
                // SAFETY: as above, for an IPv6 address.
                let address = unsafe { &*address.cast::<sockaddr_in6>() };
                let (ip, port) = (address.sin6_addr.s6_addr, u16::from_be(address.sin6_port));
                Some(SocketAddrV6::new(ip.into(), port, 0, address.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// Returns the value of a control message of a datagram: an integer of one or four bytes.
    pub(crate) fn control_number(&self, at: usize, level: c_int, kind: c_int) -> Option<c_int> {
        match *self.control_bytes(at, level, kind)? {
            [byte] => Some(byte.into()),
            ref data => data.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)),
        }
    }

    /// Returns the content of a control message of a datagram.
    pub(crate) fn control_bytes(&self, at: usize, level: c_int, kind: c_int) -> Option<&[u8]> {
        /// Bytes of `struct cmsghdr`, a multiple of its alignment.
        const HEADER: usize = size_of::<libc::cmsghdr>();
        // Some C libraries use other types for lengths.
        #[allow(clippy::unnecessary_cast)]
        let length = self.headers[at].msg_hdr.msg_controllen as usize;
        let mut rest = self.controls[at].0.get(..length)?;
        while rest.len() >= HEADER {
            // SAFETY: `rest` has at least `HEADER` bytes, and a header is a structure of integers.
            let header = unsafe { rest.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            #[allow(clippy::unnecessary_cast)]
            let length = (header.cmsg_len as usize).max(HEADER);
            let data = rest.get(HEADER..length)?;
            if (header.cmsg_level, header.cmsg_type) == (level, kind) {
                return Some(data);
            }
            rest = rest.get(length.next_multiple_of(align_of::<usize>())..).unwrap_or_default();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn datagrams_come_with_sender_and_class_in_every_call() {
        let (to, from) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        crate::sys::set_option(&to, libc::IPPROTO_IP, libc::IP_RECVTOS, 1).unwrap();
        let mut messages = MessageBuffers::new(4);
        for round in 1..4_u8 {
            crate::sys::set_option(&from, libc::IPPROTO_IP, libc::IP_TOS, c_int::from(round) << 2).unwrap();
            for at in 0..round {
                from.send_to(&vec![at; 10 + usize::from(at)], to.local_addr().unwrap()).unwrap();
            }
            let mut buffer = [0xEE; 400];
            assert_eq!(messages.receive(&to, buffer.chunks_exact_mut(100)).unwrap(), usize::from(round));
            for at in 0..usize::from(round) {
                assert_eq!((messages.length(at), messages.sender(at)), (10 + at, from.local_addr().ok()));
                assert_eq!(messages.control_number(at, libc::IPPROTO_IP, libc::IP_TOS), Some(c_int::from(round) << 2));
                assert_eq!(messages.control_number(at, libc::SOL_UDP, libc::UDP_GRO), None);
                assert_eq!(buffer[at * 100..at * 100 + 10], [at as u8; 10]);
            }
        }
        let none = messages.receive(&to, [&mut [0; 10][..]].into_iter()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }
}

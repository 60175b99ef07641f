//! The program's UDP sockets, which carry IKE.
//!
//! The data path uses the daemon's port for ESP in UDP (RFC 3948). So data path and daemon both bind the port with SO_REUSEPORT,
//! and a filter of the server assigns each datagram to a socket. SO_REUSEPORT works only if set before `bind`, and the filter
//! numbers sockets in the order of binding. So the library notifies the server before and after each `bind`. The server must run
//! with the program's user ID, because Linux shares a port only among the sockets of one user.
//!
//! The options by which a daemon sets up the kernel's ESP on such a socket are intercepted. UDP_ENCAP would let the kernel
//! consume ESP packets. UDP_GRO, which strongSwan sets together with UDP_ENCAP, would merge IKE datagrams. Instead of a socket
//! policy that exempts the daemon's own datagrams, the library sets a mark, which the server's routing rules exempt.

use std::ffi::{c_int, c_void};

use gantry_abi_xfrm::preload;
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::server::{self, ANSWER_TIMEOUT_MS, Message};
use crate::{errno, fail, real};

/// UDP_ENCAP of `linux/udp.h`.
const UDP_ENCAP: c_int = 100;
/// IP_XFRM_POLICY of `linux/in.h`.
const IP_XFRM_POLICY: c_int = 17;
/// IPV6_XFRM_POLICY of `linux/in6.h`.
const IPV6_XFRM_POLICY: c_int = 35;
/// Bytes of `struct xfrm_userpolicy_info`, the value of these options. Templates, if there are any, follow the structure.
const POLICY_BYTES: usize = 168;
/// Offset of `action` in `struct xfrm_userpolicy_info`.
const POLICY_ACTION_OFFSET: usize = 161;

/// Binds a socket of the program. A UDP socket shares its port if the server requests that.
///
/// # Safety
///
/// `address` has `length` bytes, as for `bind`.
pub(crate) unsafe fn bind(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller guarantees the address.
    let connection =
        unsafe { encode_address(address, length) }.filter(|_| is_udp(descriptor)).and_then(|encoded_address| {
            let connection = server::connect(libc::SOCK_CLOEXEC)?;
            let mut question = Message::<40>::new(preload::BINDING, 0);
            question.write_at(16, &encoded_address);
            if question.send(connection) && await_share(connection) {
                return Some((connection, encoded_address));
            }
            server::close(connection);
            None
        });
    if connection.is_some() {
        let one: c_int = 1;
        let (value, size) = ((&raw const one).cast(), size_of_val(&one) as socklen_t);
        // SAFETY: the value is an integer of this size. If the call fails, `bind` reports the conflict.
        unsafe { real::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_REUSEPORT, value, size) };
    }
    // SAFETY: the caller guarantees the address.
    let result = unsafe { real::bind(descriptor, address, length) };
    if let Some((connection, encoded_address)) = connection {
        let code = if result == 0 { 0 } else { errno() };
        let mut report = Message::<44>::new(preload::BOUND, 0);
        report.write_at(16, &encoded_address);
        report.write_at(40, &code.to_ne_bytes());
        if report.send(connection) {
            // The filter is in force once the server has answered.
            await_share(connection);
        }
        server::close(connection);
        if result != 0 {
            fail(code);
        }
    }
    result
}

/// Handles the options that concern the kernel's IPsec. Returns `None` for other options, which the C library is to handle.
///
/// # Safety
///
/// `value` has `length` bytes, as for `setsockopt`.
pub(crate) unsafe fn set_option(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> Option<c_int> {
    match (level, name) {
        (libc::SOL_UDP, UDP_ENCAP | libc::UDP_GRO) => Some(0),
        (libc::IPPROTO_IP, IP_XFRM_POLICY) | (libc::IPPROTO_IPV6, IPV6_XFRM_POLICY) => {
            // SAFETY: the caller guarantees the value.
            if !unsafe { passes_unprotected(value, length as usize) } {
                // Only the kernel could enforce a socket policy that asks for IPsec.
                return Some(fail(libc::EOPNOTSUPP) as c_int);
            }
            let mark = preload::EXEMPT_MARK;
            let (value, size) = ((&raw const mark).cast(), size_of_val(&mark) as socklen_t);
            // SAFETY: the value is an integer of this size.
            Some(unsafe { real::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_MARK, value, size) })
        }
        _ => None,
    }
}

/// Returns whether a socket policy lets datagrams pass unprotected: XFRM_POLICY_ALLOW without templates.
///
/// # Safety
///
/// `policy` has `length` bytes.
unsafe fn passes_unprotected(policy: *const c_void, length: usize) -> bool {
    if policy.is_null() || length != POLICY_BYTES {
        return false;
    }
    // SAFETY: the structure is complete, and the field is a byte of it.
    unsafe { policy.cast::<u8>().add(POLICY_ACTION_OFFSET).read() == 0 }
}

/// Encodes family, port, scope and address for [`preload::BINDING`]; `None` for another family, or a port chosen by the
/// kernel.
///
/// # Safety
///
/// `address` is null or has `length` bytes.
unsafe fn encode_address(address: *const sockaddr, length: socklen_t) -> Option<[u8; 24]> {
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the address has at least a family; it may be unaligned.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    let (port, scope, bytes, count) = match c_int::from(family) {
        libc::AF_INET if length >= size_of::<sockaddr_in>() => {
            // SAFETY: the address has the size of the structure.
            let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let [a, b, c, d] = address.sin_addr.s_addr.to_ne_bytes();
            (address.sin_port, 0, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 4)
        }
        libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
            // SAFETY: the address has the size of the structure.
            let address = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            (address.sin6_port, address.sin6_scope_id, address.sin6_addr.s6_addr, 16)
        }
        _ => return None,
    };
    let port = u16::from_be(port);
    let mut encoded_address = [0; 24];
    let fields: [(usize, &[u8]); 4] =
        [(0, &family.to_ne_bytes()), (2, &port.to_ne_bytes()), (4, &scope.to_ne_bytes()), (8, &bytes[..count])];
    for (at, bytes) in fields {
        for (to, from) in encoded_address.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    (port != 0).then_some(encoded_address)
}

/// Receives the server's answer, [`preload::SHARE`]. Returns `true` if the port is to be shared, and `false` if no answer arrives in
/// time.
fn await_share(connection: c_int) -> bool {
    let mut answer = [0_u8; 32];
    if server::wait(connection, libc::POLLIN, ANSWER_TIMEOUT_MS) <= 0 {
        return false;
    }
    // SAFETY: the buffer has `answer.len()` bytes.
    let received = unsafe { real::recv(connection, (&raw mut answer).cast(), answer.len(), libc::MSG_DONTWAIT) };
    received >= 17 && answer[4..6] == preload::SHARE.to_ne_bytes() && answer[16] != 0
}

fn is_udp(descriptor: c_int) -> bool {
    option(descriptor, libc::SO_TYPE) == libc::SOCK_DGRAM && option(descriptor, libc::SO_PROTOCOL) == libc::IPPROTO_UDP
}

/// Returns an integer option of SOL_SOCKET; negative on failure.
fn option(descriptor: c_int, name: c_int) -> c_int {
    let mut value: c_int = -1;
    let mut size = size_of_val(&value) as socklen_t;
    let previous_errno = errno();
    // SAFETY: the value is an integer of this size.
    let result =
        unsafe { libc::getsockopt(descriptor, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut size) };
    if result != 0 {
        fail(previous_errno);
        return -1;
    }
    value
}

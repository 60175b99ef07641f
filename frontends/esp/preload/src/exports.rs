//! The functions that programs call. Each one handles descriptors that lead to the server, and otherwise calls its namesake
//! in the C library with the same arguments. `bind` and `setsockopt` also treat UDP sockets (`udp.rs`). `_FORTIFY_SOURCE`
//! replaces some functions by their `__*_chk` variants.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use libc::{iovec, msghdr, size_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use crate::sockets::{self, Socket};
use crate::{fail, netlink, real, server, udp};

/// NETLINK_EXT_ACK of `linux/netlink.h`.
const NETLINK_EXT_ACK: c_int = 11;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == libc::NETLINK_XFRM && server::is_enabled() {
        return server::open(kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK));
    }
    // SAFETY: `socket` has no preconditions.
    unsafe { real::socket(domain, kind, protocol) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if let Some(socket) = sockets::find(fd) {
        // SAFETY: the program passes an address of `length` bytes.
        let Some(address) = (unsafe { netlink_address(address, length) }) else {
            return fail(libc::EINVAL) as c_int;
        };
        if address.nl_pid != 0 {
            socket.port.store(address.nl_pid, Ordering::Relaxed);
        }
        socket.groups.store(address.nl_groups, Ordering::Relaxed);
        server::send_settings(fd, socket);
        return 0;
    }
    if server::is_enabled() {
        // SAFETY: the arguments are those of `bind`.
        return unsafe { udp::bind(fd, address, length) };
    }
    // SAFETY: the arguments are the program's.
    unsafe { real::bind(fd, address, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if sockets::find(fd).is_some() {
        // The server stands for the kernel, which has port 0, and the socket is connected to it already.
        // SAFETY: the program passes an address of `length` bytes.
        let address = unsafe { netlink_address(address, length) };
        return if address.is_some_and(|address| address.nl_pid == 0) { 0 } else { fail(libc::ECONNREFUSED) as c_int };
    }
    // SAFETY: the arguments are the program's.
    unsafe { real::connect(fd, address, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if let Some(socket) = sockets::find(fd) {
        if address.is_null() || length.is_null() {
            return fail(libc::EFAULT) as c_int;
        }
        let (port, groups) = (socket.port.load(Ordering::Relaxed), socket.groups.load(Ordering::Relaxed));
        // SAFETY: the program lets `length` be read and written, and the address has room for `*length` bytes.
        unsafe { *length = netlink::kernel_address(port, groups, address.cast(), *length) };
        return 0;
    }
    // SAFETY: the arguments are the program's.
    unsafe { real::getsockname(fd, address, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if level == libc::SOL_NETLINK
        && let Some(socket) = sockets::find(fd)
    {
        if value.is_null() || (length as usize) < size_of::<c_int>() {
            return fail(libc::EINVAL) as c_int;
        }
        // SAFETY: the value has at least the size of an integer, checked above; it may be unaligned.
        return set_netlink_option(fd, socket, name, unsafe { value.cast::<c_int>().read_unaligned() });
    }
    if matches!(level, libc::SOL_UDP | libc::IPPROTO_IP | libc::IPPROTO_IPV6)
        && server::is_enabled()
        // SAFETY: the arguments are those of `setsockopt`.
        && let Some(result) = unsafe { udp::set_option(fd, level, name, value, length) }
    {
        return result;
    }
    // SAFETY: the arguments are the program's.
    unsafe { real::setsockopt(fd, level, name, value, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes.
        Some(socket) => unsafe { send_buffer(socket, buffer, length, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::send(fd, buffer, length, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    to: *const sockaddr,
    size: socklen_t,
) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes.
        Some(socket) => unsafe { send_buffer(socket, buffer, length, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::sendto(fd, buffer, length, flags, to, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        Some(_) if message.is_null() => fail(libc::EFAULT),
        // SAFETY: the message is one that the program passes to `sendmsg`.
        Some(socket) => unsafe { netlink::send(socket, &*message, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::sendmsg(fd, message, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes.
        Some(socket) => unsafe { send_buffer(socket, buffer, length, 0) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::write(fd, buffer, length) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes.
        Some(socket) => unsafe { receive_buffer(socket, buffer, length, flags, None) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::recv(fd, buffer, length, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    from: *mut sockaddr,
    size: *mut socklen_t,
) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes, and room for an address of `*size` bytes.
        Some(socket) => unsafe { receive_buffer(socket, buffer, length, flags, Some((from, size))) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::recvfrom(fd, buffer, length, flags, from, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        Some(_) if message.is_null() => fail(libc::EFAULT),
        // SAFETY: the message is one that the program passes to `recvmsg`, and no other thread uses it during the call.
        Some(socket) => unsafe { netlink::receive(socket, &mut *message, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::recvmsg(fd, message, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the program passes a buffer of `length` bytes.
        Some(socket) => unsafe { receive_buffer(socket, buffer, length, 0, None) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::read(fd, buffer, length) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer has `room` bytes, at least `length`.
        Some(socket) if length <= room => unsafe { receive_buffer(socket, buffer, length, flags, None) },
        // SAFETY: the arguments are the program's. The function aborts a program whose buffer is too short.
        _ => unsafe { real::__recv_chk(fd, buffer, length, room, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    size: *mut socklen_t,
) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer has `room` bytes, at least `length`; the address has room for `*size` bytes.
        Some(socket) if length <= room => unsafe { receive_buffer(socket, buffer, length, flags, Some((from, size))) },
        // SAFETY: the arguments are the program's. The function aborts a program whose buffer is too short.
        _ => unsafe { real::__recvfrom_chk(fd, buffer, length, room, flags, from, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer has `room` bytes, at least `length`.
        Some(socket) if length <= room => unsafe { receive_buffer(socket, buffer, length, 0, None) },
        // SAFETY: the arguments are the program's. The function aborts a program whose buffer is too short.
        _ => unsafe { real::__read_chk(fd, buffer, length, room) },
    }
}

/// Handles an option of SOL_NETLINK. Options for the behaviour of the kernel succeed without effect.
fn set_netlink_option(fd: c_int, socket: &Socket, name: c_int, value: c_int) -> c_int {
    match name {
        libc::NETLINK_ADD_MEMBERSHIP | libc::NETLINK_DROP_MEMBERSHIP => {
            let group = value.checked_sub(1).and_then(|bit| 1_u32.checked_shl(bit.cast_unsigned()));
            let Some(group) = group else { return fail(libc::EINVAL) as c_int };
            if name == libc::NETLINK_ADD_MEMBERSHIP {
                socket.groups.fetch_or(group, Ordering::Relaxed);
            } else {
                socket.groups.fetch_and(!group, Ordering::Relaxed);
            }
            server::send_settings(fd, socket);
        }
        NETLINK_EXT_ACK => {
            socket.wants_texts.store(value != 0, Ordering::Relaxed);
            server::send_settings(fd, socket);
        }
        _ => {}
    }
    0
}

/// Sends one buffer.
///
/// # Safety
///
/// `buffer` has `length` bytes.
unsafe fn send_buffer(socket: &Socket, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    let mut part = iovec { iov_base: buffer.cast_mut(), iov_len: length };
    // SAFETY: the message has one buffer, which is only read.
    unsafe { netlink::send(socket, &message_of(&mut part), flags) }
}

/// Receives into one buffer.
///
/// # Safety
///
/// `buffer` has `length` bytes, and the address has room for `*size` bytes.
unsafe fn receive_buffer(
    socket: &Socket,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    from: Option<(*mut sockaddr, *mut socklen_t)>,
) -> ssize_t {
    let mut part = iovec { iov_base: buffer, iov_len: length };
    let mut message = message_of(&mut part);
    let from = from.filter(|(from, size)| !from.is_null() && !size.is_null());
    if let Some((from, size)) = from {
        // SAFETY: the program lets `size` be read.
        (message.msg_name, message.msg_namelen) = (from.cast(), unsafe { *size });
    }
    // SAFETY: the message has one buffer, and room for an address of the given length.
    let received = unsafe { netlink::receive(socket, &mut message, flags) };
    if let Some((_, size)) = from.filter(|_| received >= 0) {
        // SAFETY: the program lets `size` be written.
        unsafe { *size = message.msg_namelen };
    }
    received
}

fn message_of(part: &mut iovec) -> msghdr {
    // SAFETY: a `msghdr` consists of integers and pointers, for which zeros are valid.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    message
}

/// Reads `struct sockaddr_nl`; `None` for an address of another family or length.
///
/// # Safety
///
/// `address` is null or has `length` bytes.
unsafe fn netlink_address(address: *const sockaddr, length: socklen_t) -> Option<sockaddr_nl> {
    if address.is_null() || (length as usize) < size_of::<sockaddr_nl>() {
        return None;
    }
    // SAFETY: the address has at least the size of the structure, checked above; it may be unaligned.
    let address = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    (c_int::from(address.nl_family) == libc::AF_NETLINK).then_some(address)
}

//! The functions that programs call. Each looks whether the descriptor leads to the server, and otherwise calls its namesake
//! of the C library with the same arguments. The `__*_chk` functions are what `_FORTIFY_SOURCE` makes of their likes.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use libc::{iovec, msghdr, size_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use crate::sockets::{self, Socket};
use crate::{fail, netlink, real, server, udp};

/// NETLINK_EXT_ACK of `linux/netlink.h`.
const NETLINK_EXT_ACK: c_int = 11;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK && protocol == libc::NETLINK_XFRM && server::wanted() {
        return server::open(kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK));
    }
    // SAFETY: `socket` has no conditions.
    unsafe { real::socket(domain, kind, protocol) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if let Some(socket) = sockets::find(fd) {
        // SAFETY: the address is as long as the program says.
        let Some(address) = (unsafe { netlink_address(address, length) }) else {
            return fail(libc::EINVAL) as c_int;
        };
        if address.nl_pid != 0 {
            socket.port.store(address.nl_pid, Ordering::Relaxed);
        }
        socket.groups.store(address.nl_groups, Ordering::Relaxed);
        server::tell(fd, socket);
        return 0;
    }
    if server::wanted() {
        // SAFETY: the arguments are those of `bind`.
        return unsafe { udp::bind(fd, address, length) };
    }
    // SAFETY: the arguments are the program's.
    unsafe { real::bind(fd, address, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if sockets::find(fd).is_some() {
        // It leads to the kernel, port 0, already.
        // SAFETY: the address is as long as the program says.
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
        // SAFETY: the length is the program's to read and write, and the address as long as it says.
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
        // SAFETY: the value has as many bytes. It need not be aligned.
        return set_netlink_option(fd, socket, name, unsafe { value.cast::<c_int>().read_unaligned() });
    }
    if matches!(level, libc::SOL_UDP | libc::IPPROTO_IP | libc::IPPROTO_IPV6)
        && server::wanted()
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
        // SAFETY: the buffer is as long as the program says.
        Some(socket) => unsafe { send_one(socket, buffer, length, flags) },
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
        // SAFETY: the buffer is as long as the program says.
        Some(socket) => unsafe { send_one(socket, buffer, length, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::sendto(fd, buffer, length, flags, to, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        Some(_) if message.is_null() => fail(libc::EFAULT),
        // SAFETY: the message is the program's, for `sendmsg`.
        Some(socket) => unsafe { netlink::send(socket, &*message, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::sendmsg(fd, message, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer is as long as the program says.
        Some(socket) => unsafe { send_one(socket, buffer, length, 0) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::write(fd, buffer, length) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer is as long as the program says.
        Some(socket) => unsafe { receive_one(socket, buffer, length, flags, None) },
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
        // SAFETY: the buffer and the room for an address are as long as the program says.
        Some(socket) => unsafe { receive_one(socket, buffer, length, flags, Some((from, size))) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::recvfrom(fd, buffer, length, flags, from, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    match sockets::find(fd) {
        Some(_) if message.is_null() => fail(libc::EFAULT),
        // SAFETY: the message is the program's, for `recvmsg`, which no other thread uses meanwhile.
        Some(socket) => unsafe { netlink::receive(socket, &mut *message, flags) },
        // SAFETY: the arguments are the program's.
        None => unsafe { real::recvmsg(fd, message, flags) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer is as long as the program says.
        Some(socket) => unsafe { receive_one(socket, buffer, length, 0, None) },
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
        // SAFETY: the buffer has the length, because it has the room.
        Some(socket) if length <= room => unsafe { receive_one(socket, buffer, length, flags, None) },
        // SAFETY: the arguments are the program's. The function ends a program whose buffer is too short.
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
        // SAFETY: the buffer has the length, because it has the room; the address is as long as the program says.
        Some(socket) if length <= room => unsafe { receive_one(socket, buffer, length, flags, Some((from, size))) },
        // SAFETY: the arguments are the program's. The function ends a program whose buffer is too short.
        _ => unsafe { real::__recvfrom_chk(fd, buffer, length, room, flags, from, size) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    match sockets::find(fd) {
        // SAFETY: the buffer has the length, because it has the room.
        Some(socket) if length <= room => unsafe { receive_one(socket, buffer, length, 0, None) },
        // SAFETY: the arguments are the program's. The function ends a program whose buffer is too short.
        _ => unsafe { real::__read_chk(fd, buffer, length, room) },
    }
}

/// An option of SOL_NETLINK. Those that say how the kernel is to behave succeed.
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
            server::tell(fd, socket);
        }
        NETLINK_EXT_ACK => {
            socket.texts.store(value != 0, Ordering::Relaxed);
            server::tell(fd, socket);
        }
        _ => {}
    }
    0
}

/// # Safety
///
/// `buffer` has `length` bytes.
unsafe fn send_one(socket: &Socket, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    let mut part = iovec { iov_base: buffer.cast_mut(), iov_len: length };
    // SAFETY: the message has one buffer, which is only read.
    unsafe { netlink::send(socket, &message_of(&mut part), flags) }
}

/// # Safety
///
/// `buffer` has `length` bytes, and an address the room that its size says.
unsafe fn receive_one(
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
        // SAFETY: the size is the program's to be read.
        (message.msg_name, message.msg_namelen) = (from.cast(), unsafe { *size });
    }
    // SAFETY: the message has one buffer, and room for an address as long as it says.
    let received = unsafe { netlink::receive(socket, &mut message, flags) };
    if let Some((_, size)) = from.filter(|_| received >= 0) {
        // SAFETY: the size is the program's to be written.
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

/// `struct sockaddr_nl`, if it is one.
///
/// # Safety
///
/// `address` is null or has `length` bytes.
unsafe fn netlink_address(address: *const sockaddr, length: socklen_t) -> Option<sockaddr_nl> {
    if address.is_null() || (length as usize) < size_of::<sockaddr_nl>() {
        return None;
    }
    // SAFETY: as many bytes are there. The address need not be aligned.
    let address = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    (c_int::from(address.nl_family) == libc::AF_NETLINK).then_some(address)
}

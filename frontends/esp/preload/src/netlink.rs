//! Sending and receiving on sockets that lead to the server.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use gantry_abi_xfrm::constants::{flag, message as number};
use gantry_abi_xfrm::{Header, frames};
use libc::{iovec, msghdr, sockaddr_nl, socklen_t};

use crate::server::{self, ANSWER_TIMEOUT_MS};
use crate::sockets::{MAX_UNANSWERED, Socket};
use crate::{errno, fail, real};

/// Sends a netlink datagram. Its address and control messages are ignored.
///
/// # Safety
///
/// `message` is valid for `sendmsg`.
pub(crate) unsafe fn send(socket: &Socket, message: &msghdr, flags: c_int) -> isize {
    // SAFETY: a `msghdr` consists of integers and pointers, for which zeros are valid.
    let mut plain: msghdr = unsafe { std::mem::zeroed() };
    (plain.msg_iov, plain.msg_iovlen) = (message.msg_iov, message.msg_iovlen);
    if socket.is_silent.load(Ordering::Acquire) && !server::reconnect(socket) {
        return fail(libc::ECONNREFUSED);
    }
    for _ in 0..2 {
        // A request is remembered before it is sent, because the answer may arrive before `sendmsg` returns.
        // SAFETY: the caller passes buffers that may be read.
        unsafe {
            each_header(message, usize::MAX, |header| {
                if wants_answer(header) {
                    socket.remember(header.sequence);
                }
            });
        }
        // SAFETY: the buffers are the caller's.
        let sent = unsafe { real::sendmsg(socket.descriptor(), &raw const plain, flags | libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return sent;
        }
        let code = errno();
        // SAFETY: as above.
        unsafe { each_header(message, usize::MAX, |header| socket.forget(header.sequence)) };
        let (can_retry, failure) = match code {
            // Programs do not expect EAGAIN, because the kernel takes a netlink request at once. So the library waits for room.
            libc::EAGAIN => (server::wait(socket.descriptor(), libc::POLLOUT, ANSWER_TIMEOUT_MS) > 0, libc::ENOBUFS),
            libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => (server::reconnect(socket), libc::ECONNREFUSED),
            other => (false, other),
        };
        if !can_retry {
            return fail(failure);
        }
    }
    fail(libc::ENOBUFS)
}

/// Receives a netlink datagram. The sender's address is that of the kernel, and there are no control messages.
///
/// # Safety
///
/// `message` is valid for `recvmsg`.
pub(crate) unsafe fn receive(socket: &Socket, message: &mut msghdr, flags: c_int) -> isize {
    let descriptor = socket.descriptor();
    // SAFETY: this command of `fcntl` has no preconditions.
    let is_nonblocking =
        flags & libc::MSG_DONTWAIT != 0 || unsafe { libc::fcntl(descriptor, libc::F_GETFL) } & libc::O_NONBLOCK != 0;
    while !is_nonblocking && socket.is_silent.load(Ordering::Acquire) && !server::reconnect(socket) {
        // Looks for a server about once a second. The silent socket never becomes readable, but a signal may interrupt the wait.
        if server::wait(descriptor, libc::POLLIN, ANSWER_TIMEOUT_MS) < 0 {
            return -1;
        }
    }
    let (name, name_length) = (message.msg_name, message.msg_namelen);
    let mut has_waited = false;
    loop {
        (message.msg_name, message.msg_namelen) = (std::ptr::null_mut(), 0);
        // SAFETY: the buffers are the caller's.
        let received = unsafe { real::recvmsg(descriptor, &raw mut *message, flags) };
        (message.msg_name, message.msg_namelen) = (name, name_length);
        // A result of 0 means that the connection has ended, except where buffers of 0 bytes truncate a message to 0 bytes.
        if received > 0 || (received == 0 && flags & libc::MSG_TRUNC == 0 && buffer_bytes(message) == 0) {
            if flags & libc::MSG_PEEK == 0 {
                // SAFETY: `recvmsg` has written `received` bytes.
                unsafe {
                    each_header(message, received.cast_unsigned(), |header| {
                        if ends_answer(header) {
                            socket.forget(header.sequence);
                        }
                    });
                };
            }
            // SAFETY: the program's address has room for `name_length` bytes.
            message.msg_namelen = unsafe { kernel_address(0, 0, name, name_length) };
            return received;
        }
        let has_ended = received == 0 || errno() == libc::ECONNRESET;
        if has_ended {
            // SAFETY: the buffers and the room for an address are the caller's.
            return unsafe { handle_server_end(socket, message, flags) };
        }
        // Programs do not wait for answers, because the kernel queues an answer before `sendmsg` returns.
        let expects_answer =
            is_nonblocking && !has_waited && errno() == libc::EAGAIN && socket.unanswered().next().is_some();
        if !expects_answer {
            return -1;
        }
        if server::wait(descriptor, libc::POLLIN, ANSWER_TIMEOUT_MS) <= 0 {
            return fail(libc::EAGAIN);
        }
        has_waited = true;
    }
}

/// Writes `struct sockaddr_nl`, truncated to the room, and returns its full length.
///
/// # Safety
///
/// `to` is null or has `room` bytes.
pub(crate) unsafe fn kernel_address(port: u32, groups: u32, to: *mut c_void, room: socklen_t) -> socklen_t {
    if to.is_null() {
        return 0;
    }
    // SAFETY: a `sockaddr_nl` consists of integers, for which zeros are valid.
    let mut address: sockaddr_nl = unsafe { std::mem::zeroed() };
    (address.nl_family, address.nl_pid, address.nl_groups) = (libc::AF_NETLINK as u16, port, groups);
    let length = size_of::<sockaddr_nl>();
    // SAFETY: the address has `length` bytes, and the caller's room is not exceeded.
    unsafe { std::ptr::copy_nonoverlapping((&raw const address).cast::<u8>(), to.cast(), length.min(room as usize)) };
    length as socklen_t
}

/// Bytes of NLMSG_ERROR: its header, an error number, and the header of the request.
const REFUSAL_BYTES: usize = 16 + 4 + 16;

/// Handles a connection that the server has ended. Answers all unanswered requests with refusals in one datagram. Without
/// such requests, fails with ENOBUFS, by which netlink reports lost messages.
///
/// # Safety
///
/// `message` is valid for `recvmsg`.
unsafe fn handle_server_end(socket: &Socket, message: &mut msghdr, flags: c_int) -> isize {
    let mut refusals = [0; REFUSAL_BYTES * MAX_UNANSWERED];
    let mut length = 0;
    for (sequence, refusal) in socket.unanswered().zip(refusals.chunks_exact_mut(REFUSAL_BYTES)) {
        write_refusal(refusal, sequence, socket.port.load(Ordering::Relaxed));
        length += REFUSAL_BYTES;
    }
    // A peek leaves the refusals to the next receive.
    let is_peek = flags & libc::MSG_PEEK != 0;
    if !is_peek || length == 0 {
        socket.forget_all();
        server::reconnect(socket);
    }
    if length == 0 {
        return fail(libc::ENOBUFS);
    }
    let mut rest = &refusals[..length];
    // SAFETY: the caller passes buffers that may be written.
    for part in unsafe { buffers(message) } {
        let count = part.iov_len.min(rest.len());
        // SAFETY: a buffer of the caller has `iov_len` bytes, and does not overlap that of this function.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), part.iov_base.cast(), count) };
        rest = &rest[count..];
    }
    message.msg_flags = if rest.is_empty() { 0 } else { libc::MSG_TRUNC };
    message.msg_controllen = 0;
    // SAFETY: the program's address has room for `msg_namelen` bytes.
    message.msg_namelen = unsafe { kernel_address(0, 0, message.msg_name, message.msg_namelen) };
    let written = if flags & libc::MSG_TRUNC != 0 { length } else { length - rest.len() };
    written.cast_signed()
}

/// Writes NLMSG_ERROR with ECONNREFUSED. The request's header in it lacks kind and flags, which are not remembered.
fn write_refusal(to: &mut [u8], sequence: u32, port: u32) {
    let flags = flag::CAPPED;
    let refused = (-libc::ECONNREFUSED).to_ne_bytes();
    let fields: [(usize, &[u8]); 9] = [
        (0, &(REFUSAL_BYTES as u32).to_ne_bytes()),
        (4, &number::ERROR.to_ne_bytes()),
        (6, &flags.to_ne_bytes()),
        (8, &sequence.to_ne_bytes()),
        (12, &port.to_ne_bytes()),
        (16, &refused),
        (20, &16u32.to_ne_bytes()),
        (28, &sequence.to_ne_bytes()),
        (32, &port.to_ne_bytes()),
    ];
    for (at, bytes) in fields {
        for (to, from) in to.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
}

/// Returns whether a request is certain to be answered. MIGRATE always is, because the server refuses it. libreswan probes the
/// kernel with MIGRATE, and expects the answer at once.
fn wants_answer(header: Header) -> bool {
    let requests_data = matches!(
        header.kind,
        number::GETSA
            | number::GETPOLICY
            | number::ALLOCSPI
            | number::GETAE
            | number::GETSADINFO
            | number::GETSPDINFO
            | number::GETDEFAULT
            | number::MIGRATE
    );
    header.flags & flag::REQUEST != 0 && (requests_data || header.wants_ack())
}

/// Returns whether a message is the last one in answer to its request.
fn ends_answer(header: Header) -> bool {
    matches!(header.kind, number::ERROR | number::DONE) || header.flags & flag::MULTI == 0
}

/// Calls `act` for the header of each message in the first `length` bytes. Each buffer starts with a header.
///
/// # Safety
///
/// The buffers of `message` are initialized, at least their first `length` bytes together.
unsafe fn each_header(message: &msghdr, mut length: usize, mut act: impl FnMut(Header)) {
    // SAFETY: the caller guarantees the buffers.
    for part in unsafe { buffers(message) } {
        let count = part.iov_len.min(length);
        length -= count;
        if !part.iov_base.is_null() && count > 0 {
            // SAFETY: a buffer has `iov_len` bytes, of which the first `count` are initialized.
            let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), count) };
            frames(bytes).for_each(|frame| act(frame.header));
        }
    }
}

/// Returns the total length of the buffers.
fn buffer_bytes(message: &msghdr) -> usize {
    // SAFETY: the caller passed this array of buffers to `recvmsg`, which has just read it.
    unsafe { buffers(message) }.iter().map(|part| part.iov_len).sum()
}

/// Returns the buffers of a message.
///
/// # Safety
///
/// `msg_iov` has `msg_iovlen` entries.
unsafe fn buffers(message: &msghdr) -> &[iovec] {
    if message.msg_iov.is_null() || message.msg_iovlen == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees `msg_iovlen` entries.
    unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

//! Connections to the server, and notifications by the messages of `gantry_abi_xfrm::preload`.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use gantry_abi_xfrm::preload;

use crate::sockets::{self, Socket};
use crate::{errno, fail, real};

/// The time that a server has to accept a connection, to take a request or to answer, in milliseconds.
pub(crate) const ANSWER_TIMEOUT_MS: c_int = 1000;

/// Returns whether GANTRY_XFRM names a server. All XFRM sockets then belong to that server, even if it is not running.
pub(crate) fn is_enabled() -> bool {
    server_address().is_some()
}

/// Opens an XFRM socket, with SOCK_CLOEXEC and SOCK_NONBLOCK of `flags`.
pub(crate) fn open(flags: c_int) -> c_int {
    let Some(descriptor) = connect(flags) else {
        // The result of `socket` on a kernel without XFRM, regardless of the reason.
        return fail(libc::EPROTONOSUPPORT) as c_int;
    };
    // SAFETY: `getpid` has no preconditions.
    let port = unsafe { libc::getpid() }.cast_unsigned();
    let Some(socket) = sockets::add(descriptor, port) else {
        close(descriptor);
        return fail(libc::EMFILE) as c_int;
    };
    send_settings(descriptor, socket);
    descriptor
}

/// Connects to the server; sets `errno` on failure.
pub(crate) fn connect(flags: c_int) -> Option<c_int> {
    let address = server_address()?;
    let kind = libc::SOCK_SEQPACKET | (flags & libc::SOCK_CLOEXEC);
    // SAFETY: `socket` has no preconditions.
    let descriptor = unsafe { real::socket(libc::AF_UNIX, kind, 0) };
    if descriptor < 0 {
        return None;
    }
    // A hanging server accepts no connection. The send timeout also limits the wait in `connect`.
    let is_ready = set_send_timeout(descriptor, ANSWER_TIMEOUT_MS)
        // SAFETY: the address is a complete one of its family, with this length.
        && unsafe { real::connect(descriptor, (&raw const *address).cast(), size_of_val(address) as u32) } == 0
        && set_send_timeout(descriptor, 0)
        && (flags & libc::SOCK_NONBLOCK == 0 || set_nonblocking(descriptor));
    if !is_ready {
        let code = errno();
        close(descriptor);
        fail(code);
        return None;
    }
    Some(descriptor)
}

/// Tells the server the program's settings of the socket.
pub(crate) fn send_settings(descriptor: c_int, socket: &Socket) {
    let mut message = Message::<28>::new(preload::SOCKET, 0);
    message.write_at(16, &socket.port.load(Ordering::Relaxed).to_ne_bytes());
    message.write_at(20, &socket.groups.load(Ordering::Relaxed).to_ne_bytes());
    message.write_at(24, &u32::from(socket.wants_texts.load(Ordering::Relaxed)).to_ne_bytes());
    message.send(descriptor);
}

/// Reconnects a socket whose server has disappeared, and then all other sockets without a server. Returns whether the first
/// socket found a server.
pub(crate) fn reconnect(socket: &Socket) -> bool {
    let is_connected = reconnect_one(socket);
    if is_connected {
        for other in sockets::all().filter(|other| other.is_silent.load(Ordering::Acquire) && other.is_valid()) {
            reconnect_one(other);
        }
    }
    is_connected
}

fn reconnect_one(socket: &Socket) -> bool {
    if socket.is_replacing.swap(true, Ordering::AcqRel) {
        // Another thread is reconnecting the socket. The wait is bounded, because in a child of `fork` that thread may not exist.
        for _ in 0..ANSWER_TIMEOUT_MS {
            if !socket.is_replacing.load(Ordering::Acquire) {
                break;
            }
            // `poll` ignores a descriptor of -1, and so only waits for a millisecond.
            wait(-1, 0, 1);
        }
        return !socket.is_silent.load(Ordering::Acquire);
    }
    let descriptor = socket.descriptor();
    // SAFETY: this command of `fcntl` has no preconditions.
    let is_nonblocking = unsafe { libc::fcntl(descriptor, libc::F_GETFL) } & libc::O_NONBLOCK != 0;
    let flags = if is_nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    let connection = connect(libc::SOCK_CLOEXEC | flags);
    if let Some(connection) = connection {
        send_settings(connection, socket);
        for sequence in socket.unanswered() {
            // The requests were lost with the old connection. LOST makes the new server refuse each of them.
            Message::<16>::new(preload::LOST, sequence).send(connection);
        }
        replace_descriptor(socket, connection);
        socket.is_silent.store(false, Ordering::Release);
    } else if !socket.is_silent.load(Ordering::Acquire) {
        // A datagram socket without address never becomes readable. A SOCK_SEQPACKET socket would report POLLHUP.
        // SAFETY: `socket` has no preconditions.
        let silent = unsafe { real::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | flags, 0) };
        if silent >= 0 {
            replace_descriptor(socket, silent);
            socket.is_silent.store(true, Ordering::Release);
        }
    }
    socket.is_replacing.store(false, Ordering::Release);
    connection.is_some()
}

/// Makes the program's descriptor refer to `other`, and closes `other`.
fn replace_descriptor(socket: &Socket, other: c_int) {
    let descriptor = socket.descriptor();
    socket.replace_socket(other, || {
        // SAFETY: this command of `fcntl` has no preconditions.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        let cloexec = if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
        // SAFETY: both are descriptors of this library; the program's keeps its number.
        flags >= 0 && unsafe { libc::dup3(other, descriptor, cloexec) } >= 0
    });
    close(other);
}

/// Returns the address of the server; `None` if GANTRY_XFRM is unset, empty or ignored. For a path that is too long, returns an
/// address at which no server listens.
fn server_address() -> Option<&'static libc::sockaddr_un> {
    static ADDRESS: OnceLock<Option<libc::sockaddr_un>> = OnceLock::new();
    let address = ADDRESS.get_or_init(|| {
        // SAFETY: the name ends in a NUL.
        let value = unsafe { libc::getenv(c"GANTRY_XFRM".as_ptr()) };
        if value.is_null() || gantry_rights::has_elevated_rights() {
            return None;
        }
        // SAFETY: a value of the environment ends in a NUL, and is copied before the program may change it.
        let path = unsafe { CStr::from_ptr(value) }.to_bytes();
        let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
        if path.len() < address.sun_path.len() {
            for (to, from) in address.sun_path.iter_mut().zip(path) {
                *to = libc::c_char::from_ne_bytes([*from]);
            }
        }
        (!path.is_empty()).then_some(address)
    });
    address.as_ref()
}

/// A message between library and server, in native byte order.
pub(crate) struct Message<const N: usize>([u8; N]);

impl<const N: usize> Message<N> {
    pub(crate) fn new(kind: u16, sequence: u32) -> Self {
        let mut message = Self([0; N]);
        message.write_at(0, &(N as u32).to_ne_bytes());
        message.write_at(4, &kind.to_ne_bytes());
        message.write_at(8, &sequence.to_ne_bytes());
        message
    }

    /// Writes bytes at an offset, truncated at the end.
    pub(crate) fn write_at(&mut self, at: usize, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }

    pub(crate) fn send(&self, descriptor: c_int) -> bool {
        // SAFETY: the array has `N` bytes.
        unsafe { real::send(descriptor, (&raw const self.0).cast(), N, libc::MSG_NOSIGNAL) == N.cast_signed() }
    }
}

/// Limits the time for connecting and sending; 0 means no limit.
fn set_send_timeout(descriptor: c_int, milliseconds: c_int) -> bool {
    let time = libc::timeval { tv_sec: (milliseconds / 1000).into(), tv_usec: (milliseconds % 1000 * 1000).into() };
    let (value, length) = ((&raw const time).cast::<c_void>(), size_of_val(&time) as u32);
    // SAFETY: the value is a complete `timeval`, of this length.
    unsafe { real::setsockopt(descriptor, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, length) == 0 }
}

fn set_nonblocking(descriptor: c_int) -> bool {
    // SAFETY: these commands of `fcntl` have no preconditions.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    }
}

/// Waits for `events` on the descriptor. Returns a positive number once there is one, 0 after the timeout, and a negative number on
/// failure, with an `errno` such as EINTR.
pub(crate) fn wait(descriptor: c_int, events: i16, milliseconds: c_int) -> c_int {
    let mut poll = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: the pointer refers to one structure.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds) }
}

pub(crate) fn close(descriptor: c_int) {
    // SAFETY: this library has opened the descriptor, and shares it with no other code.
    unsafe { libc::close(descriptor) };
}

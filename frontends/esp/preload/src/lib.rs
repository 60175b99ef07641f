//! `libgantry_xfrm.so`: redirects a program's XFRM sockets to a server in user space.
//!
//! The library is preloaded into an IKE daemon or `ip`. With `GANTRY_XFRM` in the environment, `socket(AF_NETLINK, _,
//! NETLINK_XFRM)` returns a SOCK_SEQPACKET socket connected to the server at that path, and netlink datagrams pass through it
//! unchanged. If no server answers, the call fails as on a kernel without XFRM. It never falls back to the kernel's XFRM: a
//! daemon would then install SAs where no packets pass. Without the variable each function only calls its namesake. The
//! variable is read once, and is ignored in programs with more rights than their caller ([`gantry_rights::has_elevated_rights`]).
//!
//! Such a socket behaves like netlink in these points:
//!
//! * `bind`, `getsockname`, `connect` and the sender's address use `struct sockaddr_nl`; the server is port 0, the kernel.
//! * Options of SOL_NETLINK succeed. Groups and NETLINK_EXT_ACK are forwarded to the server.
//! * An answer is available once its request has been sent: a non-blocking receive waits for it, for at most a second.
//! * A socket never reports its end. When the server disappears, unanswered requests get ECONNREFUSED. Without such requests a
//!   receive fails once with ENOBUFS, by which netlink reports lost messages. The descriptor then leads to the next server if
//!   there is one. Otherwise it stays silent, so that poll loops sleep. Each later request looks for a server again.
//!
//! UDP sockets of the program change, too, because its IKE sockets share ports and rules with the server's data path: see
//! `udp.rs`.
//!
//! Only 64-bit programs are supported. 32-bit programs with a 64-bit `time_t` call variants such as `__recvmsg64`, which this
//! library lacks.
//!
//! Stack frames of this library have no destructors while they wait: programs cancel waiting threads
//! (`pthread_cancel`), which unwinds through these frames.
//!
//! | file | content |
//! |---|---|
//! | `real.rs` | the functions of the C library that this library overrides |
//! | `sockets.rs` | the table of descriptors that lead to the server |
//! | `server.rs` | connections to the server: opening, reconnecting, notifying |
//! | `netlink.rs` | sending and receiving |
//! | `udp.rs` | binding and options of UDP sockets |
//! | `exports.rs` | the functions that programs call |

mod exports;
mod netlink;
mod real;
mod server;
mod sockets;
mod udp;

/// The alignment of `u64` decides the layout of XFRM messages. A 32-bit x86 program would not understand a 64-bit server.
const _: () = assert!(align_of::<u64>() == 8, "not for 32-bit x86: its XFRM messages have another layout");

/// Sets `errno`, and returns -1, the failure value of C functions.
fn fail(errno: libc::c_int) -> isize {
    // SAFETY: the C library gives each thread its own `errno`, which lives as long as the thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn errno() -> libc::c_int {
    // SAFETY: as in `fail`.
    unsafe { *libc::__errno_location() }
}

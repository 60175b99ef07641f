//! `libgantry_xfrm.so`: leads XFRM sockets of a program to a server in user space.
//!
//! The library is preloaded into an IKE daemon or `ip`. With `GANTRY_XFRM` in the environment, `socket(AF_NETLINK, _,
//! NETLINK_XFRM)` gives a SOCK_SEQPACKET socket that is connected to the server at that path, and datagrams of netlink pass
//! through it unchanged. Where no server answers, the call fails as on a kernel without XFRM. It never falls back to the
//! kernel's XFRM, because a daemon would then put SAs where no packets pass. Without the variable each function calls the
//! one that it stands for, and nothing else. The variable is read once, and not in programs with borrowed rights
//! ([`gantry_rights::borrowed`]).
//!
//! Such a socket behaves like netlink in these points:
//!
//! * `bind`, `getsockname`, `connect` and the sender's address have `struct sockaddr_nl`; the server is port 0, the kernel.
//! * Options of SOL_NETLINK succeed. Groups and NETLINK_EXT_ACK are told to the server.
//! * An answer is there when the request has been sent: a receive that does not wait waits for it, at most a second.
//! * A socket never ends. When the server goes, requests without answer get ECONNREFUSED; without such requests a receive fails
//!   once with ENOBUFS, which in netlink says that messages were lost. The descriptor then leads to the next server if there
//!   is one, and otherwise stays silent, so that poll loops rest. Each later request looks for a server again.
//!
//! UDP sockets of the program change, too, because its IKE sockets share ports and rules with the server's data path: see
//! `udp.rs`.
//!
//! Only 64-bit programs are supported. 32-bit ones with a 64-bit `time_t` call `recvmsg` and others by names of their own
//! (`__recvmsg64`), which are not here.
//!
//! The frames of this library have no destructors while they wait, because programs cancel threads that wait
//! (`pthread_cancel`), which unwinds through them.
//!
//! | file | content |
//! |---|---|
//! | `real.rs` | the functions of the C library behind these |
//! | `sockets.rs` | which descriptors are the server's |
//! | `server.rs` | connections: first ones, lost ones, what the server is told |
//! | `netlink.rs` | sending and receiving |
//! | `udp.rs` | binding and options of UDP sockets |
//! | `exports.rs` | the functions that programs call |

mod exports;
mod netlink;
mod real;
mod server;
mod sockets;
mod udp;

/// Alignment of `u64` decides the layout of XFRM messages, and a 32-bit x86 program would not understand a 64-bit server.
const _: () = assert!(align_of::<u64>() == 8, "not for 32-bit x86: its XFRM messages have another layout");

/// Sets `errno` and returns what a function of C returns then.
fn fail(errno: libc::c_int) -> isize {
    // SAFETY: the C library gives each thread its own `errno`, which is there as long as the thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn errno() -> libc::c_int {
    // SAFETY: as in `fail`.
    unsafe { *libc::__errno_location() }
}

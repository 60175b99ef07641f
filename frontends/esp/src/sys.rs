//! System calls for which the crate `nix` has no suitable function, each behind a safe function.

#![allow(unsafe_code)]

pub(crate) mod message_buffers;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_short, c_ulong};

use crate::bpf::Instruction;

/// Numbers of ioctl(2) requests to TUN devices (linux/if_tun.h).
const TUNSETIFF: c_ulong = 0x4004_54CA;
const TUNSETOFFLOAD: c_ulong = 0x4004_54D0;
const TUNSETVNETHDRSZ: c_ulong = 0x4004_54D8;

/// Attaches an open `/dev/net/tun` to the TUN device `name`. The file then carries IP packets, each after a virtio-net header. Returns the
/// name of the device, in which the kernel has replaced `%d` by a number.
pub(crate) fn attach_tun(file: &File, name: &str, is_multi_queue: bool) -> io::Result<String> {
    // SAFETY: the structure has integer fields only, for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "network device names have at most 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let multi_queue = if is_multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | multi_queue) as c_short;
    // SAFETY: the kernel reads and writes the structure, which has the size that the request expects.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok(request.ifr_name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(byte.to_ne_bytes()[0])).collect())
}

/// Sets the length of the virtio-net header, and the work that the kernel's network stack may leave to the device (`TUN_F_*`).
pub(crate) fn set_tun_offload(file: &File, header: usize, flags: u32) -> io::Result<()> {
    let header = c_int::try_from(header).unwrap_or(c_int::MAX);
    // SAFETY: the kernel reads one integer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETVNETHDRSZ as _, &raw const header) })?;
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, c_ulong::from(flags)) })
}

/// Opens a socket whose protocol the crate `nix` cannot name.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes three numbers and no memory.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    check(fd)?;
    // SAFETY: the call has just created the descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an integer option of a socket.
pub(crate) fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes, the size of the integer.
    check(unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), length) })
}

/// Reads an integer option of a socket.
pub(crate) fn option(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let (mut value, mut length): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` bytes, the size of the integer.
    check(unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Attaches a classic BPF program that picks the socket for each datagram among the sockets that share a port (socket(7),
/// SO_ATTACH_REUSEPORT_CBPF).
pub(crate) fn attach_reuseport_program(socket: impl AsFd, program: &[Instruction]) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Attaches a classic BPF program that returns how many bytes of each packet the socket receives; 0 drops it (socket(7),
/// SO_ATTACH_FILTER).
pub(crate) fn attach_filter(socket: impl AsFd, program: &[Instruction]) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_FILTER, program)
}

fn attach_program(socket: impl AsFd, option: c_int, program: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel copies the program, which has at least the given length and outlives the call. The kernel writes nothing.
    check(unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, option, (&raw const program).cast(), length)
    })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

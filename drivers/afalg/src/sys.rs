//! The system calls of AF_ALG (linux/if_alg.h), and all `unsafe` of this crate.
//!
//! Every call gets pointers and lengths of slices that are borrowed for the call, and the kernel does not use the slices after the call
//! returns. Sockets are closed on `exec`.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// A bound socket: an algorithm with its key. Operations are accepted from it.
#[derive(Debug)]
pub(crate) struct Transform(OwnedFd);

impl Transform {
    /// Binds to the algorithm or driver `name`, of the type `hash`, `skcipher`, `aead` or `rng`. The kernel may load modules.
    pub(crate) fn bind(kind: &str, name: &str) -> io::Result<Self> {
        // SAFETY: all arguments are numbers.
        let fd = unsafe { libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        // SAFETY: nothing else owns the descriptor.
        let socket = unsafe { take_ownership(fd) }?;
        // SAFETY: every field is a number, for which zero is valid.
        let mut address: libc::sockaddr_alg = unsafe { zeroed() };
        address.salg_family = libc::AF_ALG as u16;
        // The last byte stays zero.
        if kind.len() >= address.salg_type.len() || name.len() >= address.salg_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        address.salg_type[..kind.len()].copy_from_slice(kind.as_bytes());
        address.salg_name[..name.len()].copy_from_slice(name.as_bytes());
        let length = size_of::<libc::sockaddr_alg>() as libc::socklen_t;
        // SAFETY: the address has the length that is passed.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        Ok(Self(socket))
    }

    pub(crate) fn set_key(&self, key: &[u8]) -> io::Result<()> {
        self.set_option(libc::ALG_SET_KEY, key.as_ptr(), key.len())
    }

    /// Sets the length of the tag. The kernel takes the length of the option as the length of the tag, and reads no value.
    pub(crate) fn set_tag_length(&self, bytes: usize) -> io::Result<()> {
        self.set_option(libc::ALG_SET_AEAD_AUTHSIZE, ptr::null(), bytes)
    }

    fn set_option(&self, option: c_int, value: *const u8, length: usize) -> io::Result<()> {
        let length = libc::socklen_t::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `value` has `length` bytes, or is null for the option that reads none.
        check(unsafe { libc::setsockopt(self.0.as_raw_fd(), libc::SOL_ALG, option, value.cast(), length) })
    }

    /// Opens an operation socket.
    pub(crate) fn accept(&self) -> io::Result<Channel> {
        accept(self.0.as_raw_fd())
    }
}

/// An operation socket: takes one request at a time.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Sends the parts with the control messages. If `more` is true, a later call continues the hashed message.
    pub(crate) fn send(&self, control: &ControlMessages, parts: &[IoSlice<'_>], more: bool) -> io::Result<()> {
        // SAFETY: every field is a number or a pointer, for which zero is valid.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        if control.length > 0 {
            message.msg_control = control.bytes.as_ptr().cast_mut().cast();
            message.msg_controllen = control.length as _;
        }
        let flags = if more { libc::MSG_MORE } else { 0 };
        let total = parts.iter().map(|part| part.len()).sum::<usize>();
        let sent = retry_if_interrupted(|| {
            // SAFETY: IoSlice is an iovec; the kernel reads parts and control, which are borrowed.
            unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, flags) }
        })?;
        // A partly sent request cannot be completed, so this error makes the caller close the socket.
        if sent == total { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Completes the request that was sent, and receives its result. Fails unless the result fills the parts.
    pub(crate) fn receive(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let total = parts.iter().map(|part| part.len()).sum::<usize>();
        // The kernel verifies no tag in a read of 0 bytes, so an empty message is read into one spare byte.
        let mut spare = [0];
        let received = retry_if_interrupted(|| match &mut *parts {
            _ if total == 0 => self.receive_one(&mut spare),
            [one] => self.receive_one(one),
            parts => {
                // SAFETY: every field is a number or a pointer, for which zero is valid.
                let mut message: libc::msghdr = unsafe { zeroed() };
                message.msg_iov = parts.as_mut_ptr().cast();
                message.msg_iovlen = parts.len() as _;
                // SAFETY: IoSliceMut is an iovec; the kernel writes into the parts, which are borrowed.
                unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) }
            }
        })?;
        if received == total { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Receives into one buffer. This is cheaper than `read`, which goes through the file system first.
    fn receive_one(&self, part: &mut [u8]) -> isize {
        // SAFETY: the buffer has the length that is passed.
        unsafe { libc::recv(self.0.as_raw_fd(), part.as_mut_ptr().cast(), part.len(), 0) }
    }

    /// Returns a second socket with a copy of this hash's state.
    pub(crate) fn duplicate(&self) -> io::Result<Channel> {
        accept(self.0.as_raw_fd())
    }

    /// Returns the maximum bytes of a request: the smaller of the send and the receive buffer.
    pub(crate) fn capacity(&self) -> io::Result<usize> {
        let send = self.read_option(libc::SO_SNDBUF)?;
        let receive = self.read_option(libc::SO_RCVBUF)?;
        let page = page_size();
        // The kernel counts in whole pages.
        Ok(send.min(receive) / page * page)
    }

    fn read_option(&self, name: c_int) -> io::Result<usize> {
        let mut value: c_int = 0;
        let mut length = size_of::<c_int>() as libc::socklen_t;
        // SAFETY: `value` is a number with the size that is passed.
        check(unsafe {
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
        })?;
        Ok(usize::try_from(value).unwrap_or(0))
    }
}

/// The control messages of a request (cmsg(3)). Each has a length, a level, a type, and a value that is padded to the size of a pointer.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlMessages {
    /// Room for operation, IV and length of the associated data.
    bytes: [u8; 96],
    length: usize,
}

impl ControlMessages {
    /// No control message, for a hash.
    pub(crate) const NONE: ControlMessages = ControlMessages { bytes: [0; 96], length: 0 };

    /// Makes the messages for a cipher or AEAD. `iv` is empty where the algorithm has none, and has at most 16 bytes.
    #[inline]
    pub(crate) fn new(decrypt: bool, iv: &[u8], aad_len: usize) -> Self {
        let mut control = Self::NONE;
        control.push(libc::ALG_SET_OP, u32::from(!decrypt), &[]);
        if !iv.is_empty() {
            control.push(libc::ALG_SET_IV, iv.len() as u32, iv);
        }
        if aad_len > 0 {
            control.push(libc::ALG_SET_AEAD_ASSOCLEN, aad_len as u32, &[]);
        }
        control
    }

    /// Appends a message whose value is a number, followed by `rest`.
    #[inline]
    fn push(&mut self, kind: c_int, number: u32, rest: &[u8]) {
        const WORD: usize = size_of::<usize>();
        const HEADER: usize = WORD + 2 * size_of::<c_int>();
        let length = HEADER + 4 + rest.len();
        let message = &mut self.bytes[self.length..][..length];
        message[..WORD].copy_from_slice(&length.to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&libc::SOL_ALG.to_ne_bytes());
        message[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        message[HEADER..HEADER + 4].copy_from_slice(&number.to_ne_bytes());
        message[HEADER + 4..].copy_from_slice(rest);
        self.length += length.next_multiple_of(WORD);
    }
}

/// Returns the size of a memory page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: all arguments are numbers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn accept(fd: RawFd) -> io::Result<Channel> {
    // SAFETY: no address is asked for.
    let accepted = retry_if_interrupted(|| unsafe {
        libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC) as isize
    })?;
    let accepted = c_int::try_from(accepted).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: nothing else owns the descriptor.
    Ok(Channel(unsafe { take_ownership(accepted) }?))
}

/// # Safety
///
/// `fd` is negative, which reports an error, or a descriptor that nothing else owns.
unsafe fn take_ownership(fd: c_int) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Repeats a call as long as a signal interrupts it. An interrupted call had no effect.
fn retry_if_interrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(result) = usize::try_from(call()) {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the layout with the macros of the C library.
    #[test]
    fn control_messages_have_the_kernels_layout() {
        let iv = [7; 16];
        let control = ControlMessages::new(true, &iv, 40);
        // SAFETY: all arguments are numbers.
        let space = |bytes| unsafe { libc::CMSG_SPACE(bytes) } as usize;
        assert_eq!(control.length, space(4) + space(20) + space(4));
        // SAFETY: every field is a number or a pointer, for which zero is valid.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_control = control.bytes.as_ptr().cast_mut().cast();
        message.msg_controllen = control.length as _;
        let mut found = Vec::new();
        // SAFETY: the block reads the control message through the C library's macros, which keep to its length.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                let first = libc::CMSG_DATA(header).cast::<u32>().read_unaligned();
                found.push(((*header).cmsg_level, (*header).cmsg_type, first));
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        let level = libc::SOL_ALG;
        assert_eq!(
            found,
            [(level, libc::ALG_SET_OP, 0), (level, libc::ALG_SET_IV, 16), (level, libc::ALG_SET_AEAD_ASSOCLEN, 40)]
        );
        assert_eq!(ControlMessages::new(false, &[], 0).length, space(4));
    }
}

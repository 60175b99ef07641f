//! The protocol of /dev/cuse: the few FUSE messages that a character device gets (facts from `linux/fuse.h` and
//! `fs/fuse/cuse.c`).
//!
//! The server speaks the protocol directly. For seven messages, libfuse3 would be a C library to link and an unsafe interface to wrap,
//! and it leaves the hard part of ioctls (nested pointers) to its user anyway.

use std::fs::File;
use std::io::{self, IoSlice, Write};

use gantry_abi_cryptodev::Width;
use nix::errno::Errno;

/// Most bytes of one message: the most that the kernel copies for an ioctl in each direction, with room for headers.
pub(crate) const MAX_MESSAGE_BYTES: usize = (128 << 10) + 4096;

/// The caller of a request, and the ID for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// ID of the request; the answer carries it, too.
    pub(crate) unique: u64,
    pub(crate) uid: u32,
    /// The thread that waits for the answer.
    pub(crate) pid: i32,
}

#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// The first request.
    Init,
    Open,
    Release {
        file: u64,
    },
    Ioctl(Ioctl<'a>),
    Poll,
    /// A message without an answer.
    Interrupt,
    /// A request that neither this device nor the kernel module supports.
    Other,
}

/// An ioctl in the retry protocol: first with the address alone, then with the requested ranges.
#[derive(Debug)]
pub(crate) struct Ioctl<'a> {
    /// ID of the open file.
    pub(crate) file: u64,
    pub(crate) code: u32,
    pub(crate) address: u64,
    pub(crate) width: Width,
    /// The requested ranges, one after the other.
    pub(crate) input: &'a [u8],
    /// Bytes of the ranges that the answer may fill.
    pub(crate) output_bytes: usize,
}

const HEADER_BYTES: usize = 40;
const FUSE_OPEN: u32 = 14;
const FUSE_RELEASE: u32 = 18;
const FUSE_INTERRUPT: u32 = 36;
const FUSE_IOCTL: u32 = 39;
const FUSE_POLL: u32 = 40;
const CUSE_INIT: u32 = 4096;

const FUSE_IOCTL_COMPAT: u32 = 1 << 0;
const FUSE_IOCTL_RETRY: u32 = 1 << 2;

/// Parses one message; `None` for malformed ones, which the kernel never sends.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Header, Message<'_>)> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let opcode = u32_at(header, 4)?;
    let caller =
        Header { unique: u64_at(header, 8)?, uid: u32_at(header, 24)?, pid: i32::try_from(u32_at(header, 32)?).ok()? };
    let message = match opcode {
        CUSE_INIT => Message::Init,
        FUSE_OPEN => Message::Open,
        FUSE_RELEASE => Message::Release { file: u64_at(body, 0)? },
        FUSE_IOCTL => {
            let flags = u32_at(body, 8)?;
            let is_32_bit = flags & FUSE_IOCTL_COMPAT != 0 || cfg!(target_pointer_width = "32");
            let (input_bytes, output_bytes) = (u32_at(body, 24)? as usize, u32_at(body, 28)? as usize);
            Message::Ioctl(Ioctl {
                file: u64_at(body, 0)?,
                code: u32_at(body, 12)?,
                address: u64_at(body, 16)?,
                width: if is_32_bit { Width::W32 } else { Width::W64 },
                input: body.get(32..32 + input_bytes)?,
                output_bytes,
            })
        }
        FUSE_POLL => Message::Poll,
        FUSE_INTERRUPT => Message::Interrupt,
        _ => Message::Other,
    };
    Some((caller, message))
}

/// A range in the memory of the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
}

/// The device file that takes the answers.
#[derive(Debug)]
pub(crate) struct Kernel(pub(crate) File);

impl Kernel {
    /// Creates the device `name`, which programs can open from now on.
    pub(crate) fn answer_init(&self, unique: u64, name: &str) -> io::Result<()> {
        const MAJOR: u32 = 7;
        // Since minor version 31 the kernel has the ioctl flags used here; all current kernels have it.
        const MINOR: u32 = 31;
        const CUSE_UNRESTRICTED_IOCTL: u32 = 1;
        const MAX_TRANSFER_BYTES: u32 = 128 << 10;
        let mut body: Vec<u8> =
            [MAJOR, MINOR, 0, CUSE_UNRESTRICTED_IOCTL, MAX_TRANSFER_BYTES, MAX_TRANSFER_BYTES, 0, 0]
                .into_iter()
                .chain([0; 10])
                .flat_map(u32::to_ne_bytes)
                .collect();
        body.extend(format!("DEVNAME={name}\0").bytes());
        self.send(unique, 0, &[&body])
    }

    pub(crate) fn answer_open(&self, unique: u64, file: u64) -> io::Result<()> {
        self.send(unique, 0, &[&file.to_ne_bytes(), &[0; 8]])
    }

    /// Answers a poll like the kernel module for a file without asynchronous requests: a request can be submitted.
    pub(crate) fn answer_poll(&self, unique: u64) -> io::Result<()> {
        let events = (libc::POLLOUT | libc::POLLWRNORM) as u32;
        self.send(unique, 0, &[&events.to_ne_bytes(), &[0; 4]])
    }

    pub(crate) fn answer_empty(&self, unique: u64) -> io::Result<()> {
        self.send(unique, 0, &[])
    }

    pub(crate) fn answer_error(&self, unique: u64, errno: Errno) -> io::Result<()> {
        self.send(unique, -(errno as i32), &[])
    }

    /// Answers an ioctl with return value 0. `output` fills the requested ranges, one after the other.
    pub(crate) fn answer_ioctl(&self, unique: u64, output: &[&[u8]]) -> io::Result<()> {
        let parts: Vec<&[u8]> = std::iter::once(&[0; 16][..]).chain(output.iter().copied()).collect();
        self.send(unique, 0, &parts)
    }

    /// Requests the same ioctl again, with these ranges of the caller's memory.
    pub(crate) fn request_retry(&self, unique: u64, input: &[Range], output: &[Range]) -> io::Result<()> {
        let mut body: Vec<u8> = [0, FUSE_IOCTL_RETRY, input.len() as u32, output.len() as u32]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        for range in input.iter().chain(output) {
            body.extend(range.address.to_ne_bytes());
            body.extend((range.bytes as u64).to_ne_bytes());
        }
        self.send(unique, 0, &[&body])
    }

    /// Sends an answer, which must be a single write.
    fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) -> io::Result<()> {
        let mut header = [0; 16];
        let length = 16 + parts.iter().map(|part| part.len()).sum::<usize>();
        header[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&error.to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        let parts: Vec<IoSlice<'_>> =
            std::iter::once(&header[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
        match (&self.0).write_vectored(&parts) {
            // The caller was interrupted, and no longer waits.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result.map(|_| ()),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a message in the kernel's layout.
    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [HEADER_BYTES as u32 + body.len() as u32, opcode].into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(0_u64.to_ne_bytes());
        bytes.extend([1000_u32, 100, 4321, 0].into_iter().flat_map(u32::to_ne_bytes));
        bytes.extend(body);
        bytes
    }

    #[test]
    fn an_ioctl_is_parsed_with_its_caller_and_input() {
        let mut body = 5_u64.to_ne_bytes().to_vec();
        body.extend([FUSE_IOCTL_COMPAT, 0xc01c_6368].into_iter().flat_map(u32::to_ne_bytes));
        body.extend(0x1000_u64.to_ne_bytes());
        body.extend([3_u32, 9].into_iter().flat_map(u32::to_ne_bytes));
        body.extend(b"abc");
        let bytes = message(FUSE_IOCTL, &body);
        let (header, message) = parse(&bytes).unwrap();
        assert_eq!((header.unique, header.uid, header.pid), (77, 1000, 4321));
        let Message::Ioctl(ioctl) = message else { panic!("{message:?}") };
        assert_eq!((ioctl.file, ioctl.code, ioctl.address, ioctl.output_bytes), (5, 0xc01c_6368, 0x1000, 9));
        assert_eq!((ioctl.width, ioctl.input), (Width::W32, &b"abc"[..]));
        assert!(parse(&bytes[..bytes.len() - 1]).is_none(), "truncated");
        assert!(parse(&bytes[..HEADER_BYTES - 1]).is_none());
    }

    #[test]
    fn answers_are_single_writes_with_their_length_and_request_id() {
        use std::io::{Read, Seek};
        let mut file = std::fs::File::from(temporary_file());
        let kernel = Kernel(file.try_clone().unwrap());
        kernel.answer_error(9, Errno::EINVAL).unwrap();
        kernel.request_retry(10, &[Range { address: 1, bytes: 2 }], &[]).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let (failed, retry) = bytes.split_at(16);
        assert_eq!(u32_at(failed, 0), Some(16));
        assert_eq!(u32_at(failed, 4), Some((-22_i32).cast_unsigned()));
        assert_eq!(u64_at(failed, 8), Some(9));
        assert_eq!((u32_at(retry, 0), retry.len()), (Some(48), 48));
        assert_eq!(
            (u32_at(retry, 20), u32_at(retry, 24), u64_at(retry, 32)),
            (Some(FUSE_IOCTL_RETRY), Some(1), Some(1))
        );
    }

    fn temporary_file() -> std::os::fd::OwnedFd {
        let path = std::env::temp_dir().join(format!("gantry-cuse-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.into()
    }
}

//! A pending ioctl: the bytes read from the caller's memory, and the ranges to write.

use std::io;

use gantry_abi_cryptodev::Ioctl;
use nix::errno::Errno;

use crate::fuse::{Header, Kernel, Range};
use crate::memory::{self, AccessError};
use crate::plan::{Call, RequestedRange};
use crate::wiped::Wiped;

/// A pending ioctl.
pub(crate) struct PendingIoctl {
    pub(crate) caller: Header,
    pub(crate) file: u64,
    pub(crate) call: Call,
    /// Bytes that the kernel copied in, and number of bytes that it will copy out, by the retry protocol.
    pub(crate) input: Wiped,
    pub(crate) output: usize,
}

/// Returns the session that a call uses, once its structure has been read. The structures of both ioctls begin with the session ID.
pub(crate) fn session_of(call: Call, input_bytes: &[u8]) -> Option<u32> {
    let bytes = input_bytes.get(..4).filter(|_| matches!(call.ioctl, Ioctl::Crypt | Ioctl::AuthCrypt))?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns the ranges that have not been read yet. Plans read whole ranges.
pub(crate) fn missing(requested: &[RequestedRange], input_bytes: usize) -> &[RequestedRange] {
    let mut end = 0;
    let read = requested.iter().take_while(|requested| {
        end += requested.range.bytes;
        end <= input_bytes
    });
    &requested[read.count()..]
}

pub(crate) fn ranges(requested: &[RequestedRange]) -> Vec<Range> {
    requested.iter().map(|requested| requested.range).filter(|range| range.bytes > 0).collect()
}

pub(crate) enum Refusal {
    Denied,
    Errno(Errno),
}

pub(crate) fn read(pending: &PendingIoctl, missing: &[RequestedRange], input_bytes: &mut Wiped) -> Result<(), Refusal> {
    let all: Vec<Range> = missing.iter().map(|requested| requested.range).collect();
    memory::read(pending.caller.pid, &all, input_bytes).map_err(|error| refusal(error, missing))
}

fn refusal(error: AccessError, requested: &[RequestedRange]) -> Refusal {
    match error {
        AccessError::Denied => Refusal::Denied,
        AccessError::Fault(place) => {
            Refusal::Errno(requested.get(place).map_or(Errno::EFAULT, |requested| requested.errno))
        }
    }
}

/// Gives a result to the caller. Returns `false` if it could not be written into the caller's memory.
pub(crate) fn answer(
    kernel: &Kernel,
    direct: bool,
    pending: &PendingIoctl,
    outputs: &[RequestedRange],
    result: Result<Vec<&[u8]>, Errno>,
) -> io::Result<bool> {
    let unique = pending.caller.unique;
    let parts = match result {
        Ok(parts) => parts,
        Err(errno) => return kernel.failed(unique, errno).map(|()| true),
    };
    if !direct {
        return kernel.ioctl(unique, &parts).map(|()| true);
    }
    let all: Vec<Range> = outputs.iter().map(|requested| requested.range).collect();
    match memory::write(pending.caller.pid, &all, &parts).map_err(|error| refusal(error, outputs)) {
        Ok(()) => kernel.ioctl(unique, &[]).map(|()| true),
        Err(Refusal::Errno(errno)) => kernel.failed(unique, errno).map(|()| false),
        // The memory was readable a moment ago, so the caller is exiting.
        Err(Refusal::Denied) => kernel.failed(unique, Errno::EFAULT).map(|()| false),
    }
}

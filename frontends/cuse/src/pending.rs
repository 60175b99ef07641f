//! A pending ioctl: the bytes read from the caller's memory, and the ranges to write.

use std::io;

use gantry_abi_cryptodev::Ioctl;
use nix::errno::Errno;

use crate::fuse::{Header, Kernel, Range};
use crate::memory::{self, AccessError};
use crate::plan::{Call, RequestedRange};
use crate::wiped_bytes::WipedBytes;

/// A pending ioctl.
pub(crate) struct PendingIoctl {
    pub(crate) caller: Header,
    pub(crate) file: u64,
    pub(crate) call: Call,
    /// Bytes that the kernel copied in, and number of bytes that it will copy out, by the retry protocol.
    pub(crate) input: WipedBytes,
    pub(crate) output_bytes: usize,
}

/// Returns the session that a call uses, once its structure has been read. The structures of both ioctls begin with the session ID.
pub(crate) fn session_id_of(call: Call, input_bytes: &[u8]) -> Option<u32> {
    let bytes = input_bytes.get(..4).filter(|_| matches!(call.ioctl, Ioctl::Crypt | Ioctl::AuthCrypt))?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns the ranges that have not been read yet. Plans read whole ranges.
pub(crate) fn unread_ranges(requested: &[RequestedRange], input_bytes: usize) -> &[RequestedRange] {
    let mut end = 0;
    let already_read = requested.iter().take_while(|requested| {
        end += requested.range.bytes;
        end <= input_bytes
    });
    &requested[already_read.count()..]
}

pub(crate) fn nonempty_ranges(requested: &[RequestedRange]) -> Vec<Range> {
    requested.iter().map(|requested| requested.range).filter(|range| range.bytes > 0).collect()
}

pub(crate) enum AccessFailure {
    Denied,
    Errno(Errno),
}

pub(crate) fn read_ranges(
    pending: &PendingIoctl,
    unread_ranges: &[RequestedRange],
    input_bytes: &mut WipedBytes,
) -> Result<(), AccessFailure> {
    let all: Vec<Range> = unread_ranges.iter().map(|requested| requested.range).collect();
    memory::read(pending.caller.pid, &all, input_bytes).map_err(|error| access_failure(error, unread_ranges))
}

fn access_failure(error: AccessError, requested: &[RequestedRange]) -> AccessFailure {
    match error {
        AccessError::Denied => AccessFailure::Denied,
        AccessError::Fault(index) => {
            AccessFailure::Errno(requested.get(index).map_or(Errno::EFAULT, |requested| requested.errno))
        }
    }
}

/// Gives a result to the caller. Returns `false` if it could not be written into the caller's memory.
pub(crate) fn answer_caller(
    kernel: &Kernel,
    has_direct_access: bool,
    pending: &PendingIoctl,
    outputs: &[RequestedRange],
    result: Result<Vec<&[u8]>, Errno>,
) -> io::Result<bool> {
    let unique = pending.caller.unique;
    let parts = match result {
        Ok(parts) => parts,
        Err(errno) => return kernel.answer_error(unique, errno).map(|()| true),
    };
    if !has_direct_access {
        return kernel.answer_ioctl(unique, &parts).map(|()| true);
    }
    let all: Vec<Range> = outputs.iter().map(|requested| requested.range).collect();
    match memory::write(pending.caller.pid, &all, &parts).map_err(|error| access_failure(error, outputs)) {
        Ok(()) => kernel.answer_ioctl(unique, &[]).map(|()| true),
        Err(AccessFailure::Errno(errno)) => kernel.answer_error(unique, errno).map(|()| false),
        // The memory was readable a moment ago, so the caller is exiting.
        Err(AccessFailure::Denied) => kernel.answer_error(unique, Errno::EFAULT).map(|()| false),
    }
}

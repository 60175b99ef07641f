//! The memory of the calling thread, which waits in its ioctl for the answer.
//!
//! With CAP_SYS_PTRACE (or as the same user, where ptrace is permitted) the server accesses the memory directly: one round trip
//! for each ioctl, of any size. Otherwise the kernel copies the ranges that the server requests: three round trips (the
//! address, the structure, the data), and at most 128 KiB each way. Guessing the data's ranges on the first trip would save
//! a round trip, but a wrong guess fails with EFAULT in the caller.

use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::fuse::Range;
use crate::wiped_bytes::WipedBytes;

/// The reason why memory could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// The server may not access the memory.
    Denied,
    /// The range with this index is not mapped.
    Fault(usize),
}

/// Appends the ranges of a thread's memory to `into`.
pub(crate) fn read(thread: i32, ranges: &[Range], into: &mut WipedBytes) -> Result<(), AccessError> {
    let before = into.len();
    let total: usize = ranges.iter().map(|range| range.bytes).sum();
    into.resize(before + total);
    if total == 0 {
        return Ok(());
    }
    let local = &mut [IoSliceMut::new(&mut into[before..])];
    check(process_vm_readv(Pid::from_raw(thread), local, &remote(ranges)), ranges, total)
}

/// Writes `parts`, each as long as its range.
pub(crate) fn write(thread: i32, ranges: &[Range], parts: &[&[u8]]) -> Result<(), AccessError> {
    let total: usize = ranges.iter().map(|range| range.bytes).sum();
    if total == 0 {
        return Ok(());
    }
    let local: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    check(process_vm_writev(Pid::from_raw(thread), &local, &remote(ranges)), ranges, total)
}

fn remote(ranges: &[Range]) -> Vec<RemoteIoVec> {
    let range = |range: &Range| RemoteIoVec { base: range.address as usize, len: range.bytes };
    ranges.iter().map(range).collect()
}

/// Checks the result of process_vm_readv(2) or process_vm_writev(2): the number of bytes before the first inaccessible byte.
fn check(result: nix::Result<usize>, ranges: &[Range], total: usize) -> Result<(), AccessError> {
    let bytes_done = match result {
        Ok(bytes_done) if bytes_done == total => return Ok(()),
        Ok(bytes_done) => bytes_done,
        Err(Errno::EFAULT) => 0,
        // EINVAL means that a range exceeds the address space.
        Err(Errno::EINVAL) => return Err(AccessError::Fault(wrapping_range(ranges))),
        // EPERM, or ESRCH for a thread in a foreign namespace.
        Err(_) => return Err(AccessError::Denied),
    };
    let mut end = 0;
    let fault = ranges.iter().position(|range| {
        end += range.bytes;
        end > bytes_done
    });
    Err(AccessError::Fault(fault.unwrap_or_default()))
}

fn wrapping_range(ranges: &[Range]) -> usize {
    let wraps = |range: &Range| range.address.checked_add(range.bytes as u64).is_none();
    ranges.iter().position(wraps).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(bytes: &[u8]) -> Range {
        Range { address: bytes.as_ptr().addr() as u64, bytes: bytes.len() }
    }

    #[test]
    fn memory_is_read_and_written_and_unmapped_ranges_are_reported() {
        let me = Pid::this().as_raw();
        let (one, two) = (*b"one", *b"other");
        let bad = Range { address: 8, bytes: 4 };
        let mut input_bytes = WipedBytes::from(vec![b'>']);
        if read(me, &[range(&one), range(&two)], &mut input_bytes) == Err(AccessError::Denied) {
            return; // a sandbox without these calls: the server would use the retry protocol
        }
        assert_eq!(&input_bytes[..], b">oneother");
        assert_eq!(read(me, &[range(&one), bad, range(&two)], &mut WipedBytes::default()), Err(AccessError::Fault(1)));
        assert_eq!(
            read(me, &[Range { address: u64::MAX - 1, bytes: 4 }], &mut WipedBytes::default()),
            Err(AccessError::Fault(0))
        );
        let mut target = [0_u8; 5];
        let to = Range { address: (&raw mut target).addr() as u64, bytes: 5 };
        assert_eq!(write(me, &[to], &[b"abcde"]), Ok(()));
        assert_eq!(std::hint::black_box(&mut target), b"abcde");
        assert_eq!(write(me, &[to, bad], &[b"abcde", b"1234"]), Err(AccessError::Fault(1)));
    }
}

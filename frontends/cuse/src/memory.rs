//! The memory of the thread that asks, which waits in its ioctl for our answer.
//!
//! With CAP_SYS_PTRACE (or the same user, where ptrace is open to it) the server reads and writes it directly: one trip
//! through the kernel for each ioctl, of any size. Without, the kernel is told the ranges and copies them: three trips (the
//! address, the structure, the data), and at most 128 KiB each way. Guessing the data's ranges on the first trip would save
//! one, but a wrong guess is EFAULT for the caller.

use std::io::{IoSlice, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::fuse::Range;
use crate::wiped::Wiped;

/// Why memory was not read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is not ours to look at.
    Denied,
    /// This one of the ranges is not there.
    Fault(usize),
}

/// Appends the ranges of a thread's memory to `into`.
pub(crate) fn read(thread: i32, ranges: &[Range], into: &mut Wiped) -> Result<(), Trouble> {
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
pub(crate) fn write(thread: i32, ranges: &[Range], parts: &[&[u8]]) -> Result<(), Trouble> {
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

/// Both calls say how many bytes they did before the first that they could not.
fn check(result: nix::Result<usize>, ranges: &[Range], total: usize) -> Result<(), Trouble> {
    let done = match result {
        Ok(done) if done == total => return Ok(()),
        Ok(done) => done,
        Err(Errno::EFAULT) => 0,
        // EINVAL is an address with more bytes behind it than there are addresses.
        Err(Errno::EINVAL) => return Err(Trouble::Fault(longest(ranges))),
        // EPERM, and ESRCH for a thread in a namespace that is not ours.
        Err(_) => return Err(Trouble::Denied),
    };
    let mut end = 0;
    let fault = ranges.iter().position(|range| {
        end += range.bytes;
        end > done
    });
    Err(Trouble::Fault(fault.unwrap_or_default()))
}

fn longest(ranges: &[Range]) -> usize {
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
    fn memory_is_read_and_written_and_the_range_that_is_not_there_is_named() {
        let me = Pid::this().as_raw();
        let (one, two) = (*b"one", *b"other");
        let bad = Range { address: 8, bytes: 4 };
        let mut got = Wiped::from(vec![b'>']);
        if read(me, &[range(&one), range(&two)], &mut got) == Err(Trouble::Denied) {
            return; // a sandbox without these calls: the retry protocol it is
        }
        assert_eq!(&got[..], b">oneother");
        assert_eq!(read(me, &[range(&one), bad, range(&two)], &mut Wiped::default()), Err(Trouble::Fault(1)));
        assert_eq!(
            read(me, &[Range { address: u64::MAX - 1, bytes: 4 }], &mut Wiped::default()),
            Err(Trouble::Fault(0))
        );
        let mut target = [0_u8; 5];
        let to = Range { address: (&raw mut target).addr() as u64, bytes: 5 };
        assert_eq!(write(me, &[to], &[b"abcde"]), Ok(()));
        assert_eq!(std::hint::black_box(&mut target), b"abcde");
        assert_eq!(write(me, &[to, bad], &[b"abcde", b"1234"]), Err(Trouble::Fault(1)));
    }
}

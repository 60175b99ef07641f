//! An ioctl that waits for its answer, and the memory of its caller: what was read of it, and what is written.

use std::io;

use gantry_abi_cryptodev::Ioctl;
use nix::errno::Errno;

use crate::fuse::{Header, Kernel, Range};
use crate::memory::{self, Trouble};
use crate::plan::{Call, Wanted};
use crate::wiped::Wiped;

/// An ioctl that waits for its answer.
pub(crate) struct Ask {
    pub(crate) who: Header,
    pub(crate) file: u64,
    pub(crate) call: Call,
    /// What the kernel brought along, and how much it will take back: of the retry protocol.
    pub(crate) input: Wiped,
    pub(crate) output: usize,
}

/// The session whose state a call needs, once its structure has been read. Both structures begin with it.
pub(crate) fn worked_on(call: Call, got: &[u8]) -> Option<u32> {
    let bytes = got.get(..4).filter(|_| matches!(call.ioctl, Ioctl::Crypt | Ioctl::AuthCrypt))?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Those of the ranges that have not been read: plans read whole ranges.
pub(crate) fn missing(wanted: &[Wanted], got: usize) -> &[Wanted] {
    let mut end = 0;
    let read = wanted.iter().take_while(|wanted| {
        end += wanted.range.bytes;
        end <= got
    });
    &wanted[read.count()..]
}

pub(crate) fn ranges(wanted: &[Wanted]) -> Vec<Range> {
    wanted.iter().map(|wanted| wanted.range).filter(|range| range.bytes > 0).collect()
}

pub(crate) enum Refusal {
    Denied,
    Errno(Errno),
}

pub(crate) fn read(ask: &Ask, missing: &[Wanted], got: &mut Wiped) -> Result<(), Refusal> {
    let all: Vec<Range> = missing.iter().map(|wanted| wanted.range).collect();
    memory::read(ask.who.pid, &all, got).map_err(|trouble| refusal(trouble, missing))
}

fn refusal(trouble: Trouble, wanted: &[Wanted]) -> Refusal {
    match trouble {
        Trouble::Denied => Refusal::Denied,
        Trouble::Fault(place) => Refusal::Errno(wanted.get(place).map_or(Errno::EFAULT, |wanted| wanted.errno)),
    }
}

/// Gives a result to its caller; false when the caller's memory did not take it.
pub(crate) fn answer(
    kernel: &Kernel,
    direct: bool,
    ask: &Ask,
    outputs: &[Wanted],
    result: Result<Vec<&[u8]>, Errno>,
) -> io::Result<bool> {
    let unique = ask.who.unique;
    let parts = match result {
        Ok(parts) => parts,
        Err(errno) => return kernel.failed(unique, errno).map(|()| true),
    };
    if !direct {
        return kernel.ioctl(unique, &parts).map(|()| true);
    }
    let all: Vec<Range> = outputs.iter().map(|wanted| wanted.range).collect();
    match memory::write(ask.who.pid, &all, &parts).map_err(|trouble| refusal(trouble, outputs)) {
        Ok(()) => kernel.ioctl(unique, &[]).map(|()| true),
        Err(Refusal::Errno(errno)) => kernel.failed(unique, errno).map(|()| false),
        // It could be read a moment ago: the caller is on its way out.
        Err(Refusal::Denied) => kernel.failed(unique, Errno::EFAULT).map(|()| false),
    }
}

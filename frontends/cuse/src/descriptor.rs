//! CRIOGET: a second descriptor, which only the caller itself can make.
//!
//! A server can neither put a descriptor into another process nor answer an ioctl with one. So it becomes the caller's tracer,
//! with the right by which it reads the caller's memory. The ioctl is answered, and the caller stops on its way back to its
//! program; there it is sent to the instruction that made the system call once more, now for dup(2). Then it gets back all of its
//! registers, with the result of the ioctl in their place. Nothing of this is seen by the program, but a signal may come before
//! the dup: then the ioctl begins anew behind the signal's handler.
//!
//! **Threads.** What traces is a thread, and only this one may command the caller. So each CRIOGET has a thread of its own, which
//! also waits for callers that do not run (a frozen cgroup). When it ends, the kernel lets go of the caller, and hands it the
//! signal that it had stopped for, with all that belongs to it. A wait that took notice of the stop would take the signal, too; hence
//! WNOWAIT.

use gantry_abi_cryptodev::Width;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::fuse::{Kernel, Range};
use crate::memory;
use crate::registers::{self, Overwritten, Registers};
use crate::wiped::Wiped;

/// Who asks, in an ioctl that waits for its answer.
pub(crate) struct Caller {
    pub(crate) unique: u64,
    pub(crate) thread: i32,
    pub(crate) width: Width,
    /// Where the number goes.
    pub(crate) place: Range,
}

/// Answers a CRIOGET.
pub(crate) fn give(kernel: &Kernel, caller: &Caller) {
    match caller.stop() {
        Ok(overwritten) => {
            // It runs into its stop with this.
            if kernel.ioctl(caller.unique, &[]).is_ok() {
                // Who is gone by now needs no descriptor.
                let _ = caller.duplicate(overwritten);
            }
        }
        // There is nobody to tell it where this fails.
        Err(errno) => _ = kernel.failed(caller.unique, errno),
    }
}

/// Why a caller has stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Because we interrupted it, or its process stops or goes on.
    Event,
    /// On its way into a system call or out of it.
    Call,
    /// For a signal that it is about to get.
    Signal,
}

impl Caller {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.thread)
    }

    /// Makes the caller stop as soon as its ioctl is answered; gives what that answer overwrites.
    fn stop(&self) -> Result<Overwritten, Errno> {
        let overwritten = registers::overwritten(self.pid(), self.width).ok_or(Errno::EINVAL)?;
        // Where the number has no place, nothing is made.
        memory::write(self.thread, &[self.place], &[&[0; 4]]).map_err(|trouble| match trouble {
            memory::Trouble::Denied => Errno::EINVAL,
            memory::Trouble::Fault(_) => Errno::EFAULT,
        })?;
        // EPERM where somebody traces it already.
        let seized = ptrace::seize(self.pid(), Options::PTRACE_O_TRACESYSGOOD);
        seized.and_then(|()| ptrace::interrupt(self.pid())).map_err(|_| Errno::EINVAL)?;
        Ok(overwritten)
    }

    /// The caller, which is about to stop behind its ioctl, duplicates the descriptor that the ioctl came by.
    fn duplicate(&self, overwritten: Overwritten) -> nix::Result<()> {
        if self.wait()? != Stop::Event {
            // A signal was there first.
            return registers::write(self.pid(), registers::read(self.pid())?.again(overwritten));
        }
        let registers = registers::read(self.pid())?;
        let mut instruction = Wiped::default();
        let way = memory::read(self.thread, &[registers.instruction()], &mut instruction);
        let Some(dup) = way.ok().and_then(|()| registers.dup(&instruction, overwritten)) else {
            return self.leave(&registers.with_result(Err(Errno::EINVAL)));
        };
        registers::write(self.pid(), dup)?;
        // Into the call, and out of it.
        if !(self.reaches_a_call()? && self.reaches_a_call()?) {
            return registers::write(self.pid(), registers.again(overwritten));
        }
        let result = registers::read(self.pid())?.result().and_then(|number| {
            let written = memory::write(self.thread, &[self.place], &[&number.to_ne_bytes()]);
            written.map_err(|_| Errno::EFAULT)
        });
        self.leave(&registers.with_result(result))
    }

    /// Lets the caller run to the next edge of a system call; false when a signal comes before.
    fn reaches_a_call(&self) -> nix::Result<bool> {
        loop {
            ptrace::syscall(self.pid(), None)?;
            match self.wait()? {
                Stop::Call => return Ok(true),
                Stop::Signal => return Ok(false),
                // Its whole process is to stop or to go on, which concerns it when nobody traces it.
                Stop::Event => {}
            }
        }
    }

    fn leave(&self, registers: &Registers) -> nix::Result<()> {
        registers::write(self.pid(), *registers)?;
        ptrace::detach(self.pid(), None)
    }

    /// The next stop of the caller; an error when it has ended.
    fn wait(&self) -> nix::Result<Stop> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
        loop {
            return match waitid(Id::Pid(self.pid()), flags) {
                Err(Errno::EINTR) => continue,
                // A real-time signal, which has no name in `nix`.
                Ok(WaitStatus::PtraceEvent(_, _, 0)) | Err(Errno::EINVAL) => Ok(Stop::Signal),
                Ok(WaitStatus::PtraceEvent(..)) => Ok(Stop::Event),
                Ok(WaitStatus::PtraceSyscall(_)) => Ok(Stop::Call),
                Ok(_) => Err(Errno::ESRCH),
                Err(errno) => Err(errno),
            };
        }
    }
}

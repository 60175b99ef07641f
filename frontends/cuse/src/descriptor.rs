//! CRIOGET: a second descriptor, which only the caller itself can create.
//!
//! A server can neither put a descriptor into another process nor answer an ioctl with one. So it becomes the caller's tracer, by the
//! same privilege that lets it read the caller's memory. It answers the ioctl, and the caller stops on its way back to user space.
//! There the tracer sends the caller back to the system call instruction, this time for dup(2). Then it restores all registers, with
//! the result of the ioctl, so the program does not notice. If a signal arrives before the dup, the ioctl is restarted after the
//! signal's handler.
//!
//! **Threads.** The tracer is a thread, and only that thread may control the caller. So each CRIOGET has a thread of its own, which
//! also waits for callers that do not run (a frozen cgroup). When the thread ends, the kernel detaches the caller, and delivers the
//! signal for which it had stopped, with all its data. A wait that consumed the stop would consume the signal, too; hence WNOWAIT.

use gantry_abi_cryptodev::Width;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::fuse::{Kernel, Range};
use crate::memory;
use crate::registers::{self, Overwritten, Registers};
use crate::wiped_bytes::WipedBytes;

/// The caller of a pending ioctl.
pub(crate) struct Caller {
    pub(crate) unique: u64,
    pub(crate) thread: i32,
    pub(crate) width: Width,
    /// Destination of the descriptor number.
    pub(crate) destination: Range,
}

/// Answers a CRIOGET.
pub(crate) fn give_descriptor(kernel: &Kernel, caller: &Caller) {
    match caller.stop_after_ioctl() {
        Ok(overwritten) => {
            // The answer lets the caller run to its stop.
            if kernel.answer_ioctl(caller.unique, &[]).is_ok() {
                // A caller that has exited needs no descriptor.
                let _ = caller.duplicate(overwritten);
            }
        }
        // If this fails, the error cannot be reported either.
        Err(errno) => _ = kernel.answer_error(caller.unique, errno),
    }
}

/// The reason why a caller has stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopReason {
    /// The tracer interrupted the caller, or the caller's process stops or continues.
    Event,
    /// The caller enters or leaves a system call.
    Call,
    /// A signal is about to be delivered.
    Signal,
}

impl Caller {
    fn pid(&self) -> Pid {
        Pid::from_raw(self.thread)
    }

    /// Makes the caller stop as soon as its ioctl is answered. Returns the registers that the answer overwrites.
    fn stop_after_ioctl(&self) -> Result<Overwritten, Errno> {
        let overwritten = registers::read_overwritten(self.pid(), self.width).ok_or(Errno::EINVAL)?;
        // If the number cannot be written, no descriptor is created.
        memory::write(self.thread, &[self.destination], &[&[0; 4]]).map_err(|error| match error {
            memory::AccessError::Denied => Errno::EINVAL,
            memory::AccessError::Fault(_) => Errno::EFAULT,
        })?;
        // EPERM means that the caller is traced already.
        let seized = ptrace::seize(self.pid(), Options::PTRACE_O_TRACESYSGOOD);
        seized.and_then(|()| ptrace::interrupt(self.pid())).map_err(|_| Errno::EINVAL)?;
        Ok(overwritten)
    }

    /// Makes the caller, which is about to stop after its ioctl, duplicate the ioctl's descriptor.
    fn duplicate(&self, overwritten: Overwritten) -> nix::Result<()> {
        if self.wait_for_stop()? != StopReason::Event {
            // A signal came first.
            return registers::write(self.pid(), registers::read(self.pid())?.restart(overwritten));
        }
        let registers = registers::read(self.pid())?;
        let mut instruction = WipedBytes::default();
        let read = memory::read(self.thread, &[registers.system_call_instruction()], &mut instruction);
        let Some(dup) = read.ok().and_then(|()| registers.dup(&instruction, overwritten)) else {
            return self.restore_and_detach(&registers.with_result(Err(Errno::EINVAL)));
        };
        registers::write(self.pid(), dup)?;
        // One stop at the entry of the call, and one at its exit.
        if !(self.run_to_system_call()? && self.run_to_system_call()?) {
            return registers::write(self.pid(), registers.restart(overwritten));
        }
        let result = registers::read(self.pid())?.result().and_then(|number| {
            let written = memory::write(self.thread, &[self.destination], &[&number.to_ne_bytes()]);
            written.map_err(|_| Errno::EFAULT)
        });
        self.restore_and_detach(&registers.with_result(result))
    }

    /// Runs the caller to the next entry or exit of a system call. Returns `false` if a signal comes first.
    fn run_to_system_call(&self) -> nix::Result<bool> {
        loop {
            ptrace::syscall(self.pid(), None)?;
            match self.wait_for_stop()? {
                StopReason::Call => return Ok(true),
                StopReason::Signal => return Ok(false),
                // A stop or continue of its whole process takes effect once the tracer has detached.
                StopReason::Event => {}
            }
        }
    }

    fn restore_and_detach(&self, registers: &Registers) -> nix::Result<()> {
        registers::write(self.pid(), *registers)?;
        ptrace::detach(self.pid(), None)
    }

    /// Waits for the next stop of the caller; an error if it has ended.
    fn wait_for_stop(&self) -> nix::Result<StopReason> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
        loop {
            return match waitid(Id::Pid(self.pid()), flags) {
                Err(Errno::EINTR) => continue,
                // A real-time signal, which has no name in `nix`.
                Ok(WaitStatus::PtraceEvent(_, _, 0)) | Err(Errno::EINVAL) => Ok(StopReason::Signal),
                Ok(WaitStatus::PtraceEvent(..)) => Ok(StopReason::Event),
                Ok(WaitStatus::PtraceSyscall(_)) => Ok(StopReason::Call),
                Ok(_) => Err(Errno::ESRCH),
                Err(errno) => Err(errno),
            };
        }
    }
}

//! The registers of a thread that has stopped behind a system call, and what it takes to make it go back and do another one.

pub(crate) use machine::{Overwritten, Registers, overwritten, read, write};

#[cfg(target_arch = "x86_64")]
mod machine {
    use gantry_abi_cryptodev::Width;
    use nix::errno::Errno;
    use nix::sys::ptrace;
    use nix::unistd::Pid;

    use super::as_the_kernel_says;
    use crate::fuse::Range;

    /// What of a system call's arguments its result overwrites: nothing.
    #[derive(Clone, Copy)]
    pub(crate) struct Overwritten;

    #[derive(Clone, Copy)]
    pub(crate) struct Registers(libc::user_regs_struct);

    /// No system call that the kernel may restart.
    const NONE: u64 = u64::MAX;

    /// Of a thread that waits in a system call of this width.
    #[expect(clippy::unnecessary_wraps, reason = "with other registers it cannot always be known")]
    pub(crate) fn overwritten(_: Pid, _: Width) -> Option<Overwritten> {
        Some(Overwritten)
    }

    pub(crate) fn read(thread: Pid) -> nix::Result<Registers> {
        ptrace::getregs(thread).map(Registers)
    }

    pub(crate) fn write(thread: Pid, Registers(registers): Registers) -> nix::Result<()> {
        ptrace::setregs(thread, registers)
    }

    impl Registers {
        /// Where the kernel goes back to when it restarts a system call. All instructions that make one have two bytes; behind
        /// SYSENTER the kernel sees to it that there is an INT 0x80.
        pub(crate) fn instruction(self) -> Range {
            Range { address: self.0.rip.wrapping_sub(2), bytes: 2 }
        }

        /// To the instruction once more, for a dup(2) of the first argument; `None` when it is none that we know.
        pub(crate) fn dup(mut self, instruction: &[u8], _: Overwritten) -> Option<Self> {
            // Each instruction has its own list of system calls.
            self.0.rax = match instruction {
                [0x0F, 0x05] => 32,
                [0xCD, 0x80] => 41,
                _ => return None,
            };
            Some(self.back())
        }

        /// To the instruction once more, for the same system call.
        pub(crate) fn again(mut self, _: Overwritten) -> Self {
            self.0.rax = self.0.orig_rax;
            self.back()
        }

        fn back(mut self) -> Self {
            self.0.rip = self.0.rip.wrapping_sub(2);
            self.0.orig_rax = NONE;
            self
        }

        pub(crate) fn result(self) -> Result<i32, Errno> {
            let result = self.0.rax as i32;
            if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(result) }
        }

        pub(crate) fn with_result(mut self, result: Result<(), Errno>) -> Self {
            self.0.rax = as_the_kernel_says(result);
            self
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    use gantry_abi_cryptodev::Width;
    use nix::errno::Errno;
    use nix::sys::ptrace;
    use nix::unistd::Pid;

    use super::as_the_kernel_says;
    use crate::fuse::Range;

    /// What of a system call's arguments its result overwrites: the first.
    #[derive(Clone, Copy)]
    pub(crate) struct Overwritten(i32);

    #[derive(Clone, Copy)]
    pub(crate) struct Registers(libc::user_regs_struct);

    /// Of a thread that waits in a system call of this width; `None` where this is not ours to see, and of 32-bit programs,
    /// which have other registers.
    pub(crate) fn overwritten(thread: Pid, width: Width) -> Option<Overwritten> {
        if width == Width::W32 {
            return None;
        }
        for _ in 0..1000 {
            // Open to root and to the thread's own user; the right to trace it is not enough.
            let text = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
            if text.starts_with("running") {
                // It is on its way to sleep.
                std::thread::yield_now();
                continue;
            }
            let first = text.split(' ').nth(1)?.strip_prefix("0x")?;
            return i32::from_str_radix(first, 16).ok().map(Overwritten);
        }
        None
    }

    pub(crate) fn read(thread: Pid) -> nix::Result<Registers> {
        ptrace::getregs(thread).map(Registers)
    }

    pub(crate) fn write(thread: Pid, Registers(registers): Registers) -> nix::Result<()> {
        ptrace::setregs(thread, registers)
    }

    impl Registers {
        /// Where the kernel goes back to when it restarts a system call.
        pub(crate) fn instruction(self) -> Range {
            Range { address: self.0.pc.wrapping_sub(4), bytes: 4 }
        }

        /// To the instruction once more, for a dup(2) of the first argument; `None` when it is none that we know.
        pub(crate) fn dup(mut self, instruction: &[u8], overwritten: Overwritten) -> Option<Self> {
            self.0.regs[8] = 23;
            // SVC 0
            (*instruction == 0xD400_0001_u32.to_le_bytes()).then(|| self.again(overwritten))
        }

        /// To the instruction once more, for the same system call.
        pub(crate) fn again(mut self, Overwritten(number): Overwritten) -> Self {
            self.0.regs[0] = u64::from(number.cast_unsigned());
            self.0.pc = self.0.pc.wrapping_sub(4);
            self
        }

        pub(crate) fn result(self) -> Result<i32, Errno> {
            let result = self.0.regs[0] as i32;
            if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(result) }
        }

        pub(crate) fn with_result(mut self, result: Result<(), Errno>) -> Self {
            self.0.regs[0] = as_the_kernel_says(result);
            self
        }
    }
}

/// Others have no second descriptors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod machine {
    use gantry_abi_cryptodev::Width;
    use nix::errno::Errno;
    use nix::unistd::Pid;

    use crate::fuse::Range;

    #[derive(Clone, Copy)]
    pub(crate) struct Overwritten(());

    #[derive(Clone, Copy)]
    pub(crate) struct Registers(());

    pub(crate) fn overwritten(_: Pid, _: Width) -> Option<Overwritten> {
        None
    }

    pub(crate) fn read(_: Pid) -> nix::Result<Registers> {
        Err(Errno::ENOSYS)
    }

    pub(crate) fn write(_: Pid, _: Registers) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }

    impl Registers {
        pub(crate) fn instruction(self) -> Range {
            Range { address: 0, bytes: 0 }
        }

        pub(crate) fn dup(self, _: &[u8], _: Overwritten) -> Option<Self> {
            None
        }

        pub(crate) fn again(self, _: Overwritten) -> Self {
            self
        }

        pub(crate) fn result(self) -> Result<i32, Errno> {
            Err(Errno::ENOSYS)
        }

        pub(crate) fn with_result(self, _: Result<(), Errno>) -> Self {
            self
        }
    }
}

/// The result of a system call in its register.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn as_the_kernel_says(result: Result<(), nix::errno::Errno>) -> u64 {
    result.map_or_else(|errno| -i64::from(errno as i32), |()| 0).cast_unsigned()
}

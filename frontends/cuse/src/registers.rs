//! The registers of a thread that has stopped after a system call, and the changes that make it execute another system call.

pub(crate) use machine::{Overwritten, Registers, read, read_overwritten, write};

#[cfg(target_arch = "x86_64")]
mod machine {
    use gantry_abi_cryptodev::Width;
    use nix::errno::Errno;
    use nix::sys::ptrace;
    use nix::unistd::Pid;

    use super::encode_result;
    use crate::fuse::Range;

    /// The arguments that a system call's result overwrites: none.
    #[derive(Clone, Copy)]
    pub(crate) struct Overwritten;

    #[derive(Clone, Copy)]
    pub(crate) struct Registers(libc::user_regs_struct);

    /// Marks that the kernel must not restart a system call.
    const NO_SYSTEM_CALL: u64 = u64::MAX;

    /// Returns the overwritten arguments of a thread that waits in a system call of this width.
    #[expect(clippy::unnecessary_wraps, reason = "it can fail on other architectures")]
    pub(crate) fn read_overwritten(_: Pid, _: Width) -> Option<Overwritten> {
        Some(Overwritten)
    }

    pub(crate) fn read(thread: Pid) -> nix::Result<Registers> {
        ptrace::getregs(thread).map(Registers)
    }

    pub(crate) fn write(thread: Pid, Registers(registers): Registers) -> nix::Result<()> {
        ptrace::setregs(thread, registers)
    }

    impl Registers {
        /// Returns the place of the system call instruction, to which the kernel returns for a restart. All such instructions
        /// have two bytes; after SYSENTER the kernel returns to an INT 0x80.
        pub(crate) fn system_call_instruction(self) -> Range {
            Range { address: self.0.rip.wrapping_sub(2), bytes: 2 }
        }

        /// Sends the thread back to the instruction, for a dup(2) of the first argument. Returns `None` for an unknown instruction.
        pub(crate) fn dup(mut self, instruction: &[u8], _: Overwritten) -> Option<Self> {
            // Each instruction has its own table of system calls.
            self.0.rax = match instruction {
                [0x0F, 0x05] => 32,
                [0xCD, 0x80] => 41,
                _ => return None,
            };
            Some(self.rewind())
        }

        /// Sends the thread back to the instruction, for the same system call.
        pub(crate) fn restart(mut self, _: Overwritten) -> Self {
            self.0.rax = self.0.orig_rax;
            self.rewind()
        }

        fn rewind(mut self) -> Self {
            self.0.rip = self.0.rip.wrapping_sub(2);
            self.0.orig_rax = NO_SYSTEM_CALL;
            self
        }

        pub(crate) fn result(self) -> Result<i32, Errno> {
            let result = self.0.rax as i32;
            if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(result) }
        }

        pub(crate) fn with_result(mut self, result: Result<(), Errno>) -> Self {
            self.0.rax = encode_result(result);
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

    use super::encode_result;
    use crate::fuse::Range;

    /// The arguments that a system call's result overwrites: the first.
    #[derive(Clone, Copy)]
    pub(crate) struct Overwritten(i32);

    #[derive(Clone, Copy)]
    pub(crate) struct Registers(libc::user_regs_struct);

    /// Returns the overwritten argument of a thread that waits in a system call of this width. `None` if it cannot be read,
    /// and for 32-bit programs, which have other registers.
    pub(crate) fn read_overwritten(thread: Pid, width: Width) -> Option<Overwritten> {
        if width == Width::W32 {
            return None;
        }
        for _ in 0..1000 {
            // Readable by root and the thread's own user; the right to trace the thread is not enough.
            let text = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
            if text.starts_with("running") {
                // The thread is about to sleep.
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
        /// Returns the place of the system call instruction, to which the kernel returns for a restart.
        pub(crate) fn system_call_instruction(self) -> Range {
            Range { address: self.0.pc.wrapping_sub(4), bytes: 4 }
        }

        /// Sends the thread back to the instruction, for a dup(2) of the first argument. Returns `None` for an unknown instruction.
        pub(crate) fn dup(mut self, instruction: &[u8], overwritten: Overwritten) -> Option<Self> {
            self.0.regs[8] = 23;
            // SVC 0
            (*instruction == 0xD400_0001_u32.to_le_bytes()).then(|| self.restart(overwritten))
        }

        /// Sends the thread back to the instruction, for the same system call.
        pub(crate) fn restart(mut self, Overwritten(number): Overwritten) -> Self {
            self.0.regs[0] = u64::from(number.cast_unsigned());
            self.0.pc = self.0.pc.wrapping_sub(4);
            self
        }

        pub(crate) fn result(self) -> Result<i32, Errno> {
            let result = self.0.regs[0] as i32;
            if result < 0 { Err(Errno::from_raw(-result)) } else { Ok(result) }
        }

        pub(crate) fn with_result(mut self, result: Result<(), Errno>) -> Self {
            self.0.regs[0] = encode_result(result);
            self
        }
    }
}

/// Other architectures do not support second descriptors.
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

    pub(crate) fn read_overwritten(_: Pid, _: Width) -> Option<Overwritten> {
        None
    }

    pub(crate) fn read(_: Pid) -> nix::Result<Registers> {
        Err(Errno::ENOSYS)
    }

    pub(crate) fn write(_: Pid, _: Registers) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }

    impl Registers {
        pub(crate) fn system_call_instruction(self) -> Range {
            Range { address: 0, bytes: 0 }
        }

        pub(crate) fn dup(self, _: &[u8], _: Overwritten) -> Option<Self> {
            None
        }

        pub(crate) fn restart(self, _: Overwritten) -> Self {
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

/// Encodes the result of a system call for its register.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn encode_result(result: Result<(), nix::errno::Errno>) -> u64 {
    result.map_or_else(|errno| -i64::from(errno as i32), |()| 0).cast_unsigned()
}

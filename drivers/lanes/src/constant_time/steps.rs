//! Runs a kernel one instruction after the other (ptrace(2)) with other secrets in the same memory, and looks at the registers that
//! branches and addresses are made of: general ones and flags. Where these are the same before every instruction, nothing was decided by
//! a secret. For instructions that valgrind does not have.

use core::arch::asm;
use std::cell::Cell;
use std::{hint, ptr};

/// What has run of a program: before each instruction its address, the general registers, and the flags.
type Trace = Vec<[u64; 18]>;

/// `prepare` puts the secrets of run 0 or 1 in their place; `work` is traced.
pub(crate) fn traces(mut prepare: impl FnMut(usize), mut work: impl FnMut()) -> [Trace; 2] {
    // SAFETY: the child of a process with threads uses what they may have locked in no way but for the memory that `prepare` and `work`
    // allocate, which the C library makes good for it.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let end = End;
        // SAFETY: calls without pointers that are followed.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) != 0 {
                drop(end);
            }
            // What is only done at first is done in a run that is not looked at. The number of the run is in no register meanwhile.
            let run = Cell::new(0);
            while hint::black_box(&run).get() < 3 {
                unseen(&mut prepare, 1 - run.get() % 2);
                libc::raise(libc::SIGSTOP);
                work();
                libc::raise(libc::SIGSTOP);
                run.set(hint::black_box(&run).get() + 1);
            }
            libc::_exit(0);
        }
    }
    let mut stop = stopped(child);
    assert_eq!(stop, libc::SIGSTOP, "programs may not trace each other here (ptrace)");
    // SAFETY: the child is ours, and has stopped. It is not to outlive a test that fails.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, ptr::null_mut::<u8>(), libc::PTRACE_O_EXITKILL) };
    let mut all = [(); 3].map(|()| {
        // Before the work; at its end the child stops itself again.
        assert_eq!(stop, libc::SIGSTOP);
        let mut trace = Trace::new();
        while resume(child, libc::PTRACE_SINGLESTEP) == libc::SIGTRAP {
            trace.push(registers(child));
        }
        stop = resume(child, libc::PTRACE_CONT);
        trace
    });
    assert_eq!(stop, 0);
    [std::mem::take(&mut all[1]), std::mem::take(&mut all[2])]
}

/// Ends a child before it goes on as the test that it is a copy of: when it panics, too.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: a call without pointers.
        unsafe { libc::_exit(1) }
    }
}

/// Leaves nothing of it in the registers.
#[inline(never)]
fn unseen(prepare: &mut impl FnMut(usize), run: usize) {
    prepare(run);
    // SAFETY: the registers are declared, and nothing else is changed.
    unsafe {
        asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi", "xor r8, r8", "xor r9, r9",
            "xor r10, r10", "xor r11, r11",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _,
            out("r11") _, options(nomem, nostack),
        );
    }
}

/// Lets the child go on from where it has stopped, to its next stop.
fn resume(child: libc::pid_t, how: libc::c_uint) -> libc::c_int {
    // SAFETY: the child is ours, and has stopped.
    let resumed = unsafe { libc::ptrace(how, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
    assert_eq!(resumed, 0, "{}", std::io::Error::last_os_error());
    stopped(child)
}

/// Waits for the child, and returns the signal that has stopped it, or 0 when it has ended.
fn stopped(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: the child is ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", std::io::Error::last_os_error());
    if libc::WIFSTOPPED(status) { libc::WSTOPSIG(status) } else { 0 }
}

fn registers(child: libc::pid_t) -> [u64; 18] {
    // SAFETY: a structure of numbers; the child has stopped.
    let r = unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, child, ptr::null_mut::<u8>(), &raw mut registers), 0);
        registers
    };
    [
        r.rip, r.eflags, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ]
}

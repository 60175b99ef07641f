//! Detects decisions that depend on a secret, for instructions that valgrind does not support.
//!
//! Single-steps a kernel (ptrace(2)) twice, with different secrets in the same memory, and records the registers that determine branches
//! and addresses: general registers and flags. If both runs have equal registers before every instruction, no decision depends on a secret.

use core::arch::asm;
use std::cell::Cell;
use std::{hint, ptr};

/// The instructions that a program executed: the address of each, with the general registers and the flags before it.
type Trace = Vec<[u64; 18]>;

/// Returns the traces of `work` with the secrets of run 0 and of run 1. `prepare` stores the secrets of a run.
pub(crate) fn record_traces(mut prepare: impl FnMut(usize), mut work: impl FnMut()) -> [Trace; 2] {
    // SAFETY: another thread of the parent may hold a lock during the fork. The child takes no lock except the allocator's, in `prepare`
    // and `work`, and the C library resets that lock in the child.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let end = ExitOnDrop;
        // SAFETY: these calls do not dereference their pointers.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) != 0 {
                drop(end);
            }
            // The first of three runs is not compared: it performs all one-time initialisation. `black_box` keeps the number of the run
            // out of the registers during `work`.
            let run = Cell::new(0);
            while hint::black_box(&run).get() < 3 {
                prepare_and_clear_registers(&mut prepare, 1 - run.get() % 2);
                libc::raise(libc::SIGSTOP);
                work();
                libc::raise(libc::SIGSTOP);
                run.set(hint::black_box(&run).get() + 1);
            }
            libc::_exit(0);
        }
    }
    let mut stop = wait_for_stop(child);
    assert_eq!(stop, libc::SIGSTOP, "ptrace is not permitted here");
    // SAFETY: the child is ours, and has stopped. The option kills it if the test fails.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, ptr::null_mut::<u8>(), libc::PTRACE_O_EXITKILL) };
    let mut all = [(); 3].map(|()| {
        // The child has stopped before `work`; it stops itself again afterwards.
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

/// Ends the child on any exit, including a panic, so that it does not continue as a copy of the test.
struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        // SAFETY: the call takes no pointers.
        unsafe { libc::_exit(1) }
    }
}

/// Calls `prepare`, and clears the registers it may have left secrets in.
#[inline(never)]
fn prepare_and_clear_registers(prepare: &mut impl FnMut(usize), run: usize) {
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

/// Resumes the child until its next stop.
fn resume(child: libc::pid_t, how: libc::c_uint) -> libc::c_int {
    // SAFETY: the child is ours, and has stopped.
    let resumed = unsafe { libc::ptrace(how, child, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) };
    assert_eq!(resumed, 0, "{}", std::io::Error::last_os_error());
    wait_for_stop(child)
}

/// Waits for the child. Returns the signal that stopped it, or 0 if it ended.
fn wait_for_stop(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: the child is ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", std::io::Error::last_os_error());
    if libc::WIFSTOPPED(status) { libc::WSTOPSIG(status) } else { 0 }
}

fn registers(child: libc::pid_t) -> [u64; 18] {
    // SAFETY: the structure holds only integers, so zeros are valid; the child has stopped.
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

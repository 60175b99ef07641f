use std::sync::OnceLock;

use gantry_core::Process;

static STARTED_IN: OnceLock<Process> = OnceLock::new();

/// Returns whether this process is a child of the one that started DPDK. Costs no system call.
pub(crate) fn is_forked_child() -> bool {
    STARTED_IN.get().is_some_and(|process| !process.is_current())
}

/// Records the process that starts DPDK. Call it before DPDK starts.
pub(crate) fn record_process() {
    STARTED_IN.get_or_init(Process::current);
}

/// Returns the result of `check` in a child of this process. `check` must not allocate: another thread may have held the
/// allocator's lock at the fork.
#[cfg(test)]
pub(crate) fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `check` and ends without unwinding or exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_good = check();
        // SAFETY: the call only ends the child.
        unsafe { libc::_exit(i32::from(!is_good)) }
    }
    let mut status = -1;
    // SAFETY: the call waits for the child above, and `status` is memory for its status.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ended == child && status == 0
}

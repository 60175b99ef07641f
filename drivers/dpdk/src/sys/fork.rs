use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a child of the one that started DPDK. Costs no system call.
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// To be called before DPDK starts. `false` when memory ran out.
pub(crate) fn watch_forks() -> bool {
    extern "C" fn child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static WATCHING: OnceLock<bool> = OnceLock::new();
    *WATCHING.get_or_init(|| {
        // SAFETY: a function that lives as long as this code does; the C library forgets it when that is unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(child as unsafe extern "C" fn())) == 0 }
    })
}

/// What `check` says in a child of this process. It must not allocate: another thread may have held that lock.
#[cfg(test)]
pub(crate) fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `check` and ends without unwinding or exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = check();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!good)) }
    }
    let mut status = -1;
    // SAFETY: the child above, and memory for its status.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ended == child && status == 0
}

//! A child of `fork`.

/// Whether something holds in a child of `fork`. It may call nothing that another thread may have locked.
pub(crate) fn holds_in_a_child(what: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `what`, which touches no lock, and leaves at once.
    match unsafe { libc::fork() } {
        0 => {
            let holds = what();
            // SAFETY: it ends the process.
            unsafe { libc::_exit(i32::from(!holds)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: the child is ours, and the status a number.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

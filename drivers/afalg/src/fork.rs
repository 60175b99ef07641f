//! Whether the process has forked: a child shares the sockets of its parent, and must not use them beside it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Changes with each `fork`, in the child. Costs no system call.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// To be called before the first [`generation`] that anybody remembers. `false` when memory ran out.
pub(crate) fn watch() -> bool {
    static WATCHING: OnceLock<bool> = OnceLock::new();
    *WATCHING.get_or_init(|| sys::at_fork(child))
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

//! Whether a process is still the one in which something was made.

#![allow(unsafe_code, reason = "what is called in a child of `fork`")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the first of its family that [counts](count) them.
pub static GENERATION: AtomicU32 = AtomicU32::new(0);

/// From now on, children of this process know that they are: by [`GENERATION`], and by counting in rows of their own, because they must not
/// write to those of their parent.
pub fn count() {
    static ONCE: Once = Once::new();
    extern "C" fn child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        gantry::stats::forked();
    }
    ONCE.call_once(|| {
        // SAFETY: a function that adds to two numbers. With this module it goes, for the C library forgets what a library has registered
        // when that is unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
}

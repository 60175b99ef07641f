//! The few calls of the C library.

/// Whether the process runs with other rights than its user's.
pub(crate) fn secure() -> bool {
    // SAFETY: without conditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

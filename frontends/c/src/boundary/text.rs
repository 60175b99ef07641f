//! Functions without handles.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::memory::{bytes, check_bytes};
use crate::{code, last_error};

/// `gantry_version`.
#[unsafe(no_mangle)]
pub extern "C" fn gantry_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}

/// `gantry_strerror`.
#[unsafe(no_mangle)]
pub extern "C" fn gantry_strerror(error: c_int) -> *const c_char {
    code::description(error).as_ptr()
}

/// `gantry_last_error`.
#[unsafe(no_mangle)]
pub extern "C" fn gantry_last_error() -> *const c_char {
    last_error::message()
}

/// `gantry_tags_equal`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_tags_equal(one: *const c_void, other: *const c_void, len: usize) -> c_int {
    // Returns 0 instead of a negative error, because a caller may take any non-zero result to mean that the tags are equal.
    if check_bytes(one, len).and(check_bytes(other, len)).is_err() {
        return 0;
    }
    // SAFETY: the call, and lengths were checked.
    let (one, other) = unsafe { (bytes(one, len), bytes(other, len)) };
    c_int::from(gantry_core::tags_equal(one, other))
}

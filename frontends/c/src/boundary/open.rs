//! Opens and closes the framework.

use std::ffi::{c_char, c_int};

use gantry_runtime::{Config, Error};

use super::handle::GantryHandle;
use super::memory::{bytes_mut, check_bytes, check_pointer, str_from_c};
use super::{catch_panic, catch_panic_void};
use crate::code::Code;

/// The name of the configuration in error messages, in place of a file name.
const SOURCE_NAME: &str = "configuration";

/// `gantry_open`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_open(
    configuration: *const c_char,
    out: *mut *mut GantryHandle,
    message: *mut c_char,
    message_len: usize,
) -> c_int {
    catch_panic(|| {
        check_pointer(out)?;
        let message_len = if message.is_null() { 0 } else { message_len };
        check_bytes(message.cast_const().cast(), message_len)?;
        // SAFETY: the call; no reference to the configuration, which may overlap, is in use while the message is written.
        let report = |problem: &str| unsafe { write_message(problem, bytes_mut(message.cast(), message_len)) };
        report("");
        let config = if configuration.is_null() {
            Config::from_env()
        } else {
            // SAFETY: the call.
            match unsafe { str_from_c(configuration, Code::Configuration) } {
                Ok(text) => Config::from_toml(text, SOURCE_NAME),
                Err(code) => {
                    report("the configuration is not UTF-8");
                    return Err(code);
                }
            }
        };
        let gantry = config.and_then(gantry_runtime::open).map_err(|error: Error| {
            report(&error.to_string());
            Code::Configuration
        })?;
        // SAFETY: the call.
        unsafe { GantryHandle::create(gantry, out) }
    })
}

/// `gantry_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_close(handle: *mut GantryHandle) {
    // SAFETY: the handle.
    catch_panic_void(|| drop(unsafe { GantryHandle::take(handle) }));
}

/// Writes as much of a text as fits, in whole characters, with a terminating 0.
fn write_message(text: &str, into: &mut [u8]) {
    let Some(max_len) = into.len().checked_sub(1) else { return };
    let len = text.floor_char_boundary(max_len);
    into[..len].copy_from_slice(&text.as_bytes()[..len]);
    into[len] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_truncated_between_characters_and_terminated() {
        for (size, expected) in [(0, ""), (1, "\0"), (2, "a\0"), (3, "a\0"), (4, "aé\0"), (9, "aéb\0")] {
            let mut buffer = vec![0xff; size];
            write_message("aéb", &mut buffer);
            assert_eq!(&buffer[..expected.len()], expected.as_bytes(), "{size}");
        }
    }
}

//! The framework.

use std::ffi::{c_char, c_int};

use gantry_runtime::{Config, Error};

use super::handle::GantryHandle;
use super::memory::{bytes_mut, check_bytes, check_pointer, text};
use super::{guard, quiet};
use crate::code::Code;

/// What messages name as the place of a mistake in a configuration that is no file.
const PLACE: &str = "configuration";

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
    guard(|| {
        check_pointer(out)?;
        let message_len = if message.is_null() { 0 } else { message_len };
        check_bytes(message.cast_const().cast(), message_len)?;
        // SAFETY: the call; the configuration is not read any more when this is written.
        let tell = |problem: &str| unsafe { say(problem, bytes_mut(message.cast(), message_len)) };
        tell("");
        let config = if configuration.is_null() {
            Config::from_env()
        } else {
            // SAFETY: the call.
            match unsafe { text(configuration, Code::Configuration) } {
                Ok(text) => Config::from_toml(text, PLACE),
                Err(code) => {
                    tell("the configuration is not UTF-8");
                    return Err(code);
                }
            }
        };
        let gantry = config.and_then(gantry_runtime::open).map_err(|error: Error| {
            tell(&error.to_string());
            Code::Configuration
        })?;
        // SAFETY: the call.
        unsafe { GantryHandle::give(gantry, out) }
    })
}

/// `gantry_close`.
///
/// # Safety
/// As `gantry.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gantry_close(handle: *mut GantryHandle) {
    // SAFETY: the handle.
    quiet(|| drop(unsafe { GantryHandle::take(handle) }));
}

/// As much of a text as there is room for, whole characters, with a 0 at its end.
fn say(text: &str, into: &mut [u8]) {
    let Some(most) = into.len().checked_sub(1) else { return };
    let len = text.floor_char_boundary(most);
    into[..len].copy_from_slice(&text.as_bytes()[..len]);
    into[len] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_between_characters_and_ends_in_0() {
        for (room, said) in [(0, ""), (1, "\0"), (2, "a\0"), (3, "a\0"), (4, "aé\0"), (9, "aéb\0")] {
            let mut buffer = vec![0xff; room];
            say("aéb", &mut buffer);
            assert_eq!(&buffer[..said.len()], said.as_bytes(), "{room}");
        }
    }
}

//! The message of a thread's last error, for `gantry_last_error`.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt::{self, Display, Write};

/// Bytes of a message with its terminating 0; a longer message is truncated.
const MESSAGE_BYTES: usize = 256;

// The types have no destructors, so the variables remain usable while a thread ends.
thread_local! {
    static MESSAGE: Cell<[u8; MESSAGE_BYTES]> = const { Cell::new([0; MESSAGE_BYTES]) };
    /// True if the current call has set its message.
    static IS_SET: Cell<bool> = const { Cell::new(false) };
}

/// Begins a call, which has set no message yet. The message of an earlier call remains readable.
pub(crate) fn reset() {
    IS_SET.set(false);
}

/// Sets the message of the current call.
pub(crate) fn set(error: &impl Display) {
    let mut text = TruncatedText { bytes: [0; MESSAGE_BYTES], len: 0 };
    // A message that exceeds the space is truncated.
    let _ = write!(text, "{error}");
    MESSAGE.set(text.bytes);
    IS_SET.set(true);
}

/// Sets the message to the description of the call's error, unless the call has set a message.
pub(crate) fn set_default(description: &CStr) {
    if !IS_SET.get() {
        set(&description.to_string_lossy());
    }
}

/// Returns the message, which the thread's next error overwrites.
pub(crate) fn message() -> *const c_char {
    MESSAGE.with(Cell::as_ptr).cast_const().cast()
}

struct TruncatedText {
    bytes: [u8; MESSAGE_BYTES],
    len: usize,
}

impl Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fitting = &text[..text.floor_char_boundary(MESSAGE_BYTES - 1 - self.len)];
        self.bytes[self.len..][..fitting.len()].copy_from_slice(fitting.as_bytes());
        self.len += fitting.len();
        // An error ends the message, so that no later part follows a gap.
        if fitting.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let bytes = MESSAGE.get();
        String::from_utf8(bytes.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
    }

    #[test]
    fn a_message_is_the_calls_own_or_the_description_of_its_error() {
        reset();
        set(&"aes-128-gcm: a key of 15 bytes; it takes 16");
        set_default(c"the algorithm does not accept this key");
        assert_eq!(text(), "aes-128-gcm: a key of 15 bytes; it takes 16");
        reset();
        set_default(c"the queue is full");
        assert_eq!(text(), "the queue is full");
        set(&"é".repeat(MESSAGE_BYTES));
        assert_eq!(text(), "é".repeat((MESSAGE_BYTES - 1) / 2));
    }
}

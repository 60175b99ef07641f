//! Errors as numbers: one table for `gantry_strerror`, and one translation for each kind of error in Rust.

use std::ffi::{CStr, c_int};

use gantry_core::{Error, Misuse, Outcome};

use crate::abi::result;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)+) => {
        /// An error of `gantry.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)+
        }

        impl Code {
            /// All of them, with the names that they have in the header behind `GANTRY_E_`.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code::$name, stringify!($name))),+];

            const TEXTS: &'static [(c_int, &'static CStr)] = &[$(($number, $text)),+];
        }
    };
}

codes! {
    /// A pointer, a length or a reserved field.
    Argument = -1, c"a pointer is NULL or not aligned, a length is absurd, or a reserved field is not 0";
    /// The size of a struct.
    Version = -2, c"a struct has the size of another version of the library";
    /// A handle.
    Handle = -3, c"not a handle of this type, or one that was closed";
    /// Buffers.
    Overlap = -4, c"a buffer that is written overlaps another one";
    /// What `gantry_open` was given or found.
    Configuration = -5, c"the configuration is wrong";
    /// A name.
    Algorithm = -6, c"no digest, MAC, cipher or AEAD has this name";
    /// A key.
    Key = -7, c"the algorithm does not take this key";
    /// An IV, a tag, an output, offsets of a column.
    Length = -8, c"an IV, tag, output or column has a length that does not fit";
    /// What a session does not do.
    Operation = -9, c"the session has no such operation";
    /// No device takes it.
    Unserved = -10, c"no device serves the request";
    /// Devices failed.
    Device = -11, c"every device that could serve the request failed";
    /// A queue.
    Full = -12, c"the queue is full";
    /// Another thread.
    Busy = -13, c"another thread is using the handle, or a call names it twice";
    /// An allocation.
    Memory = -14, c"there is no memory for the requests";
    /// A system call.
    System = -15, c"the process has no file descriptor left";
    /// A queue of another process.
    Forked = -16, c"the queue belongs to the parent of this process";
    /// A panic.
    Internal = -17, c"a defect of the library";
}

/// What a number means.
pub(crate) fn text(number: c_int) -> &'static CStr {
    match number {
        0 => c"no error",
        _ => Code::TEXTS.iter().find(|(known, _)| *known == number).map_or(c"unknown error", |(_, text)| text),
    }
}

impl From<Misuse> for Code {
    fn from(misuse: Misuse) -> Self {
        match misuse {
            Misuse::KeyLength { .. } | Misuse::MacKeyLength { .. } | Misuse::XtsKeyHalves { .. } => Code::Key,
            Misuse::IvLength { .. } | Misuse::TagLength { .. } | Misuse::OutputLength { .. } => Code::Length,
            Misuse::Operation { .. } | Misuse::Stream { .. } => Code::Operation,
            Misuse::Forked => Code::Forked,
            _ => Code::Argument,
        }
    }
}

impl From<Error> for Code {
    fn from(error: Error) -> Self {
        match error {
            Error::Misuse(misuse) => misuse.into(),
            Error::Unserved { .. } => Code::Unserved,
            Error::Device { .. } => Code::Device,
            _ => Code::Internal,
        }
    }
}

/// Mistakes in columns.
impl From<gantry_digest::Error> for Code {
    fn from(_: gantry_digest::Error) -> Self {
        Code::Length
    }
}

/// The result of a request that has one. The operations of this interface have no other outcomes.
pub(crate) fn of_outcome(outcome: Outcome) -> c_int {
    match outcome {
        Outcome::Done => result::DONE,
        Outcome::BadTag => result::BAD_TAG,
        Outcome::BadLength => result::BAD_LENGTH,
        _ => Code::Internal as c_int,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> = Code::ALL.iter().map(|(code, _)| text(*code as c_int)).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(!texts.contains(text(-1000)) && text(-1000) == text(7) && text(0) == c"no error");
    }
}

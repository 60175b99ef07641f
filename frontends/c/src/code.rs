//! Errors as numbers: a table for `gantry_strerror`, and a conversion for each kind of error in Rust.

use std::ffi::{CStr, c_int};

use gantry_core::{Error, Misuse, Outcome, UnknownAlgorithm};

use crate::abi::result;
use crate::last_error;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)+) => {
        /// An error of `gantry.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $($(#[$doc])* $name = $number,)+
        }

        impl Code {
            /// All errors with their names. In the header, a name is in capitals, after `GANTRY_E_`.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code::$name, stringify!($name))),+];

            const DESCRIPTIONS: &'static [(c_int, &'static CStr)] = &[$(($number, $text)),+];
        }
    };
}

codes! {
    /// A wrong pointer, length or reserved field.
    Argument = -1, c"a pointer is NULL or not aligned, a length is too large, or a reserved field is not 0";
    /// The size of another version's struct.
    Version = -2, c"a struct has the size of another version of the library";
    /// Not a handle of the required type.
    Handle = -3, c"not a handle of this type, or already closed";
    /// Overlapping buffers.
    Overlap = -4, c"a buffer that is written overlaps another one";
    /// The configuration of `gantry_open`.
    Configuration = -5, c"the configuration is invalid";
    /// An unknown algorithm name.
    Algorithm = -6, c"no digest, MAC, cipher or AEAD has this name";
    /// An invalid key.
    Key = -7, c"the algorithm does not accept this key";
    /// A wrong length of an IV, tag, output or column.
    Length = -8, c"an IV, tag, output or column has a length that does not fit";
    /// An operation that the session does not have.
    Operation = -9, c"the session has no such operation";
    /// No device serves the request.
    Unserved = -10, c"no device serves the request";
    /// All devices failed.
    Device = -11, c"every device that could serve the request failed";
    /// The queue is full.
    Full = -12, c"the queue is full";
    /// Another thread uses the handle.
    Busy = -13, c"another thread is using the handle, or the call names it twice";
    /// An allocation failed.
    Memory = -14, c"not enough memory for the requests";
    /// A system call failed.
    System = -15, c"the process has no file descriptors left";
    /// The queue belongs to another process.
    Forked = -16, c"the queue belongs to the parent of this process";
    /// A panic.
    Internal = -17, c"a bug in the library";
}

/// Returns the description of an error, or of a request's result.
pub(crate) fn description(number: c_int) -> &'static CStr {
    match number {
        result::DONE => c"no error",
        result::BAD_TAG => c"the tag does not match the data",
        result::BAD_LENGTH => c"the algorithm does not accept data of this length",
        result::NOT_RUN => c"not run, because another request of the call is invalid",
        _ => Code::DESCRIPTIONS.iter().find(|(code, _)| *code == number).map_or(c"unknown error", |(_, text)| text),
    }
}

impl From<Misuse> for Code {
    fn from(misuse: Misuse) -> Self {
        last_error::set(&misuse);
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
        last_error::set(&error);
        match error {
            Error::Misuse(misuse) => misuse.into(),
            Error::Unserved { .. } => Code::Unserved,
            Error::Device { .. } => Code::Device,
            _ => Code::Internal,
        }
    }
}

/// Converts an error in a column, such as decreasing offsets.
impl From<gantry_digest::Error> for Code {
    fn from(error: gantry_digest::Error) -> Self {
        last_error::set(&error);
        Code::Length
    }
}

impl From<UnknownAlgorithm> for Code {
    fn from(error: UnknownAlgorithm) -> Self {
        last_error::set(&error);
        Code::Algorithm
    }
}

/// Returns the number that C gets for an outcome. No operation of this interface has an outcome other than the three named here.
pub(crate) fn outcome_code(outcome: Outcome) -> c_int {
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
    fn descriptions_of_errors_are_distinct() {
        let texts: std::collections::BTreeSet<_> =
            Code::ALL.iter().map(|(code, _)| description(*code as c_int)).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(
            !texts.contains(description(-1000))
                && description(-1000) == description(7)
                && description(0) == c"no error"
        );
        let results = [0, 1, 2, 3].map(description);
        assert!(results.iter().all(|text| *text != description(7)) && results[1] != results[2], "{results:?}");
    }
}

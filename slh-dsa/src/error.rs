//! Errors.

use core::fmt;

/// An invalid argument or signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A key, the seeds, the random bytes or the digest of a message has a wrong length.
    Length {
        /// The name of the argument.
        argument: &'static str,
        /// The required length in bytes.
        needed: usize,
        /// The actual length in bytes.
        found: usize,
    },
    /// A context has more than 255 bytes.
    Context,
    /// The signature is not valid for this message, context and key, or has a wrong length.
    Signature,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Length { argument, needed, found } => write!(f, "{argument} must have {needed} bytes, not {found}"),
            Error::Context => f.write_str("the context has more than 255 bytes"),
            Error::Signature => f.write_str("the signature is not valid"),
        }
    }
}

impl core::error::Error for Error {}

/// Checks the length of an argument.
pub(crate) fn check_length(argument: &'static str, bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() == needed { Ok(()) } else { Err(Error::Length { argument, needed, found: bytes.len() }) }
}

//! Errors.

use core::fmt;

/// What is wrong with a call, or with a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A key, seeds, random numbers or the digest of a message have another length in bytes.
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// Bytes that it should have.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// A context has more than 255 bytes.
    Context,
    /// The signature is not one of this message, this context and this key, or has another length.
    Signature,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Length { what, needed, found } => write!(f, "{what}: {found} bytes instead of {needed}"),
            Error::Context => f.write_str("the context has more than 255 bytes"),
            Error::Signature => f.write_str("the signature is not valid"),
        }
    }
}

impl core::error::Error for Error {}

/// Checks the length of an operand.
pub(crate) fn check_length(what: &'static str, bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() == needed { Ok(()) } else { Err(Error::Length { what, needed, found: bytes.len() }) }
}

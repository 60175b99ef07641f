//! Errors, each with the number of the value that is wrong, from 0.

use core::fmt;

/// A mistake of the caller. Nothing has been written to the output then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The output has `found` bytes instead of `needed`.
    OutputLength {
        /// Bytes of all digests.
        needed: usize,
        /// Bytes of the output.
        found: usize,
    },
    /// All digests together would have more bytes than `usize` counts.
    TooMany,
    /// There are no offsets: those of `n` values are `n + 1` numbers.
    NoOffsets,
    /// The offset behind this value lies before the one in front of it.
    OffsetsBackwards {
        /// The number of the value.
        index: usize,
    },
    /// This value begins before the data.
    OffsetNegative {
        /// The number of the value.
        index: usize,
    },
    /// This value ends beyond the data.
    OffsetBeyondData {
        /// The number of the value.
        index: usize,
        /// Bytes of the data.
        data: usize,
    },
    /// The bitmap has `found` bits behind its offset, for `needed` values.
    ValidityLength {
        /// How many values there are.
        needed: usize,
        /// Bits behind the offset.
        found: usize,
    },
    /// There are so many keys for so many messages.
    KeyCount {
        /// How many messages there are.
        messages: usize,
        /// How many keys there are.
        keys: usize,
    },
    /// This key or hasher is of another algorithm than the first.
    Mixed {
        /// Its number.
        index: usize,
    },
    /// Blocks have no bytes.
    BlockSize,
    /// A derivation has no iterations: the least is one.
    NoIterations,
    /// A derived key has more bytes than the function gives.
    KeyLength {
        /// The most bytes.
        most: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::OutputLength { needed, found } => write!(f, "the output has {found} bytes instead of {needed}"),
            Error::TooMany => f.write_str("the digests have more bytes together than there are addresses"),
            Error::NoOffsets => f.write_str("there are no offsets: a column of n values has n + 1"),
            Error::OffsetsBackwards { index } => write!(f, "value {index}: its offsets run backwards"),
            Error::OffsetNegative { index } => write!(f, "value {index}: its offset is negative"),
            Error::OffsetBeyondData { index, data } => {
                write!(f, "value {index}: it ends beyond the data, which have {data} bytes")
            }
            Error::ValidityLength { needed, found } => {
                write!(f, "the validity bitmap has {found} bits for {needed} values")
            }
            Error::KeyCount { messages, keys } => write!(f, "there are {keys} keys for {messages} messages"),
            Error::Mixed { index } => write!(f, "number {index} is of another algorithm than the first"),
            Error::BlockSize => f.write_str("a block has at least one byte"),
            Error::NoIterations => f.write_str("a derivation has at least one iteration"),
            Error::KeyLength { most } => write!(f, "a derived key has at most {most} bytes"),
        }
    }
}

impl core::error::Error for Error {}

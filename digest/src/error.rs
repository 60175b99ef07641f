//! Errors. An index counts from 0.

use core::fmt;

/// A mistake of the caller. The output is left unchanged.
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
    /// The digests together need more bytes than `usize` can count.
    TooManyMessages,
    /// There are no offsets. A column of `n` values has `n + 1` of them.
    NoOffsets,
    /// A value ends before it begins.
    DecreasingOffsets {
        /// The index of the value.
        index: usize,
    },
    /// A value begins before the data.
    OffsetNegative {
        /// The index of the value.
        index: usize,
    },
    /// A value ends beyond the data.
    OffsetBeyondData {
        /// The index of the value.
        index: usize,
        /// Bytes of the data.
        data: usize,
    },
    /// The bitmap has `found` bits after its offset, for `needed` values.
    ValidityLength {
        /// Number of values.
        needed: usize,
        /// Bits after the offset.
        found: usize,
    },
    /// The number of keys differs from the number of messages.
    KeyCount {
        /// Number of messages.
        messages: usize,
        /// Number of keys.
        keys: usize,
    },
    /// A key, hasher or derivation uses a different algorithm than the first.
    MixedAlgorithms {
        /// The index of the key, hasher or derivation.
        index: usize,
    },
    /// The block size is 0.
    ZeroBlockSize,
    /// The number of nodes is odd, so they do not form pairs.
    OddNodes {
        /// Number of nodes.
        nodes: usize,
    },
    /// The number of leaves is no power of two.
    NotAPowerOfTwo {
        /// Number of leaves.
        leaves: usize,
    },
    /// The tree has too few leaves.
    TooFewLeaves {
        /// Number of leaves that the call needs.
        needed: usize,
        /// Number of leaves.
        found: usize,
    },
    /// The iteration count is 0.
    NoIterations,
    /// A derived key is longer than the function allows.
    KeyLength {
        /// The longest key, in bytes.
        max: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::OutputLength { needed, found } => write!(f, "the output has {found} bytes instead of {needed}"),
            Error::TooManyMessages => f.write_str("the digests together would exceed the address space"),
            Error::NoOffsets => f.write_str("there are no offsets; a column of n values has n + 1 of them"),
            Error::DecreasingOffsets { index } => write!(f, "value {index}: its offsets run backwards"),
            Error::OffsetNegative { index } => write!(f, "value {index}: its offset is negative"),
            Error::OffsetBeyondData { index, data } => {
                write!(f, "value {index}: it ends beyond the data of {data} bytes")
            }
            Error::ValidityLength { needed, found } => {
                write!(f, "the validity bitmap has {found} bits for {needed} values")
            }
            Error::KeyCount { messages, keys } => write!(f, "there are {keys} keys for {messages} messages"),
            Error::MixedAlgorithms { index } => write!(f, "entry {index} uses a different algorithm than the first"),
            Error::ZeroBlockSize => f.write_str("the block size must be at least one byte"),
            Error::OddNodes { nodes } => write!(f, "{nodes} nodes are no pairs"),
            Error::NotAPowerOfTwo { leaves } => write!(f, "{leaves} leaves are no power of two"),
            Error::TooFewLeaves { needed, found } => write!(f, "there are {found} leaves instead of {needed}"),
            Error::NoIterations => f.write_str("the iteration count must be at least one"),
            Error::KeyLength { max } => write!(f, "a derived key may have at most {max} bytes"),
        }
    }
}

impl core::error::Error for Error {}

//! Errors of columns.

use crate::names::type_name;

/// An invalid structure of the producer, or a column of an unsupported type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The structure was released, or another consumer took it.
    #[error("the Arrow structure was already released or consumed")]
    Released,
    /// The type has no strings or byte strings.
    #[error("values of type {} are not strings or byte strings{hint}", type_name(.format))]
    Type {
        /// The format string.
        format: String,
        /// Advice to the caller, with a separator in front; may be empty.
        hint: &'static str,
    },
    /// The structure contradicts the layout of its type.
    #[error("the Arrow array is malformed: {0}")]
    Malformed(&'static str),
    /// The end offset of this value is below its start offset, or one of them is negative.
    #[error("value {index}: its offsets run backwards")]
    InvertedOffsets {
        /// The number of the value, from 0.
        index: usize,
    },
    /// This value ends beyond its buffer.
    #[error("value {index}: it ends beyond the data of {data} bytes")]
    OutOfBounds {
        /// The number of the value, from 0.
        index: usize,
        /// The length of the buffer in bytes.
        data: usize,
    },
    /// The view of this value has a buffer number out of range, or a negative length or offset.
    #[error("value {index}: its view is malformed")]
    View {
        /// The number of the value, from 0.
        index: usize,
    },
    /// The strings have more than 2147483647 bytes in all, the maximum of 32-bit offsets.
    #[error("an array of strings holds at most 2147483647 bytes; use the stream of arrays")]
    TooLong,
    /// The producer of a stream failed.
    #[error("{0}")]
    Stream(String),
}

impl Error {
    /// Adds `before` to the number of the value. `before` is the number of values in the stream before this column.
    #[must_use]
    pub fn offset_index(self, before: usize) -> Self {
        match self {
            Self::InvertedOffsets { index } => Self::InvertedOffsets { index: before + index },
            Self::OutOfBounds { index, data } => Self::OutOfBounds { index: before + index, data },
            Self::View { index } => Self::View { index: before + index },
            other => other,
        }
    }
}

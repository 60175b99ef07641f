//! What can be wrong with a column.

/// A mistake of the producer, or a column that holds no strings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The structure was released, or moved away by another consumer.
    #[error("the Arrow structure was released or consumed before")]
    Released,
    /// The format string is of a type that has no bytes to read.
    #[error("values of Arrow's type '{format}' are not strings or byte strings{hint}")]
    Type {
        /// The format string.
        format: String,
        /// What would help, with a separator in front.
        hint: &'static str,
    },
    /// The structure contradicts the layout of its type.
    #[error("the Arrow array is malformed: {0}")]
    Malformed(&'static str),
    /// The offset behind this value lies before the one in front of it, or that one before the data.
    #[error("value {index}: its offsets run backwards")]
    Backwards {
        /// The number of the value, from 0.
        index: usize,
    },
    /// This value ends beyond its buffer.
    #[error("value {index}: it ends beyond the data, which have {data} bytes")]
    Beyond {
        /// The number of the value, from 0.
        index: usize,
        /// Bytes of the buffer.
        data: usize,
    },
    /// The view of this value names a buffer that is not there, or a negative length.
    #[error("value {index}: its view is malformed")]
    View {
        /// The number of the value, from 0.
        index: usize,
    },
    /// All offsets together are more than 32 bits tell.
    #[error("one array of strings holds no more than 2147483647 bytes; take the stream of arrays")]
    TooLong,
    /// The producer of a stream failed.
    #[error("{0}")]
    Stream(String),
}

impl Error {
    /// The same, counted from the first value of a stream in which so many values come before this column.
    #[must_use]
    pub fn behind(self, before: usize) -> Self {
        match self {
            Self::Backwards { index } => Self::Backwards { index: before + index },
            Self::Beyond { index, data } => Self::Beyond { index: before + index, data },
            Self::View { index } => Self::View { index: before + index },
            other => other,
        }
    }
}

//! The location of a request's data: a buffer, or segments.

use std::fmt;

use zeroize::Zeroizing;

use super::iobuf::IoBuf;
use super::{Segment, Segments};

/// The data of a [`Submission`](crate::Submission), which owns them.
pub enum Data {
    /// A vector: the fast path.
    Vec(Vec<u8>),
    /// Another contiguous buffer.
    Buffer(Box<dyn IoBuf>),
    /// Pieces of regions, in the order of the data.
    Segments(Segments),
}

#[allow(clippy::len_without_is_empty, reason = "an amount of work, not a container")]
impl Data {
    /// Makes data from any contiguous buffer.
    pub fn buffer(buffer: impl IoBuf) -> Self {
        Data::Buffer(Box::new(buffer))
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Data::Vec(data) => data.len(),
            Data::Buffer(data) => data.as_slice().len(),
            Data::Segments(segments) => segments.bytes(),
        }
    }

    /// Returns the bytes of a buffer. Returns an empty slice for segments, whose bytes must be [read](Segments::read).
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Data::Vec(data) => data,
            Data::Buffer(data) => data.as_slice(),
            Data::Segments(_) => &[],
        }
    }

    pub(crate) fn segments(&self) -> Option<&Segments> {
        if let Data::Segments(segments) = self { Some(segments) } else { None }
    }
}

impl Clone for Data {
    /// Copies the bytes of a buffer. The copy is wiped when it is dropped, unless the buffer is a vector. Cloned segments refer to the same
    /// memory.
    fn clone(&self) -> Self {
        match self {
            Data::Vec(data) => Data::Vec(data.clone()),
            Data::Buffer(data) => Data::buffer(Zeroizing::new(data.as_slice().to_vec())),
            Data::Segments(segments) => Data::Segments(segments.clone()),
        }
    }
}

impl fmt::Debug for Data {
    /// Shows no data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Segments(segments) => segments.fmt(f),
            data => write!(f, "{} bytes", data.len()),
        }
    }
}

impl From<Vec<u8>> for Data {
    #[inline]
    fn from(data: Vec<u8>) -> Self {
        Data::Vec(data)
    }
}

impl From<Box<[u8]>> for Data {
    fn from(data: Box<[u8]>) -> Self {
        Data::Vec(data.into())
    }
}

impl From<Zeroizing<Vec<u8>>> for Data {
    fn from(data: Zeroizing<Vec<u8>>) -> Self {
        Data::buffer(data)
    }
}

impl From<Segments> for Data {
    fn from(segments: Segments) -> Self {
        Data::Segments(segments)
    }
}

impl From<Segment> for Data {
    fn from(segment: Segment) -> Self {
        Data::Segments(segment.into())
    }
}

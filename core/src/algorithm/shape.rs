//! The properties of a request on which routes, limits and counters depend.

use super::operation::Operation;

/// A request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) operation: Operation,
    /// Bytes of data.
    pub(crate) bytes: usize,
    /// Input and output are the same memory.
    pub(crate) in_place: bool,
}

impl Shape {
    pub(crate) const NOTHING: Shape = Shape { operation: Operation::Digest, bytes: 0, in_place: false };

    /// Makes the shape of a request that does not work in place.
    #[inline]
    pub(crate) fn new(operation: Operation, bytes: usize) -> Self {
        Self { operation, bytes, in_place: false }
    }
}

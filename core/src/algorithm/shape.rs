//! What routes, limits and counters need to know of a request.

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

    /// Of a request whose result goes elsewhere than its data.
    #[inline]
    pub(crate) fn new(operation: Operation, bytes: usize) -> Self {
        Self { operation, bytes, in_place: false }
    }
}

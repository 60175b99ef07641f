//! Contiguous buffers that a request can own.

use std::any::Any;

use zeroize::Zeroizing;

/// A contiguous buffer that a [`Submission`](crate::Submission) can own. `Any` lets the caller get the buffer back in its own type.
///
/// Each call of either method must return the same bytes, as long as only the request has access to the buffer. The length of a request is
/// the length that its buffer has at submission.
pub trait IoBuf: Any + Send + Sync {
    /// Returns all bytes.
    fn as_slice(&self) -> &[u8];

    /// Returns the same bytes for writing.
    fn as_mut_slice(&mut self) -> &mut [u8];
}

macro_rules! buffers {
    ($($buffer:ty),+) => {
        $(impl IoBuf for $buffer {
            fn as_slice(&self) -> &[u8] {
                self
            }

            fn as_mut_slice(&mut self) -> &mut [u8] {
                self
            }
        })+
    };
}

buffers!(Vec<u8>, Box<[u8]>, Zeroizing<Vec<u8>>);

//! Contiguous buffers that a request can own.

use std::any::Any;

use zeroize::Zeroizing;

/// A contiguous buffer that a [`Submission`](crate::Submission) can own. `Any` lets its owner have it back as what it was.
///
/// Both methods give the same bytes, as long as nobody else has the buffer: a request is of the length that its buffer had when
/// it was submitted.
pub trait IoBuf: Any + Send + Sync {
    /// All of its bytes.
    fn as_slice(&self) -> &[u8];

    /// The same bytes, to be written.
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

//! Keys of HMAC (RFC 2104).

use alloc::boxed::Box;
use core::fmt;

use crate::algorithm::Algorithm;
use crate::family::{Start, plain};
use crate::internal::wipe::{in_own_frame, overwrite};
use crate::level::Level;

/// Stack bytes overwritten after work with keys. The deepest user is SHA-512 with words made ahead: 40 KiB.
const STACK: usize = 48 << 10;

/// A prepared key of HMAC: the chaining values after the inner and the outer key block. A message of one block takes two
/// compressions instead of four. It is zeroized on drop.
pub struct HmacKey {
    algorithm: Algorithm,
    start: Box<Start>,
}

impl HmacKey {
    /// Prepares a key of any length. Leaves no copy of it on the stack.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let start = with_stack_wiped(|| Box::new(plain(algorithm).hmac(Level::in_use(), key)));
        HmacKey { algorithm, start }
    }

    /// The hash function.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn start(&self) -> &Start {
        &self.start
    }
}

impl fmt::Debug for HmacKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Runs work with keys, then overwrites the stack it used.
pub(crate) fn with_stack_wiped<T>(work: impl FnOnce() -> T) -> T {
    let result = in_own_frame(work);
    overwrite::<STACK>();
    result
}

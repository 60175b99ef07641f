//! Keys of HMAC (RFC 2104).

use alloc::boxed::Box;
use core::fmt;

use crate::algorithm::Algorithm;
use crate::family::{Start, plain};
use crate::level::Level;
use crate::wipe::{below, overwrite};

/// Bytes of the stack that preparing a key may use, or a batch: the most is that of SHA-512 with words made ahead, 40 KiB.
const STACK: usize = 48 << 10;

/// A key of HMAC, prepared: the chaining values behind the inner and the outer key block. A message of one block takes two compressions
/// instead of four.
///
/// It is zeroized when it is dropped.
pub struct HmacKey {
    algorithm: Algorithm,
    start: Box<Start>,
}

impl HmacKey {
    /// Prepares a key of any length. Leaves no copy of it on the stack.
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let start = after_keys(|| Box::new(plain(algorithm).hmac(Level::in_use(), key)));
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
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Runs what works with keys, and overwrites what it leaves on the stack.
pub(crate) fn after_keys<T>(work: impl FnOnce() -> T) -> T {
    let result = below(work);
    overwrite::<STACK>();
    result
}

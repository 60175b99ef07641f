//! Key types: an algorithm and a key of a valid length.

use gantry_core::{Algorithm, Lengths, Misuse, Result};
use zeroize::Zeroizing;

/// Copies a key, if the algorithm takes its length.
pub(crate) fn copy_checked(algorithm: Algorithm, bytes: &[u8], takes: Lengths) -> Result<Zeroizing<Vec<u8>>> {
    if takes.allows(bytes.len()) {
        return Ok(Zeroizing::new(bytes.to_vec()));
    }
    Err(Misuse::KeyLength { algorithm, got: bytes.len(), takes }.into())
}

/// Defines a key type. `$lengths` is the field of [`AlgorithmInfo`](gantry_core::AlgorithmInfo) with the valid lengths.
macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $algorithm:ident, $lengths:ident) => {
        $(#[$doc])*
        ///
        /// Zeroized on drop. `Debug` prints only the algorithm and the length.
        #[derive(Clone)]
        pub struct $name {
            algorithm: $algorithm,
            bytes: zeroize::Zeroizing<Vec<u8>>,
        }

        impl $name {
            /// Copies a key.
            ///
            /// # Errors
            /// [`Misuse::KeyLength`](gantry_core::Misuse::KeyLength), with the length of `bytes` and the lengths that the algorithm takes.
            pub fn new(algorithm: $algorithm, bytes: &[u8]) -> gantry_core::Result<Self> {
                let id = algorithm.algorithm();
                Ok(Self { algorithm, bytes: crate::key::copy_checked(id, bytes, id.info().$lengths)? })
            }

            /// Returns the algorithm of the key.
            pub fn algorithm(&self) -> $algorithm {
                self.algorithm
            }

            /// Returns the bytes of the key, for storage.
            pub fn as_bytes(&self) -> &[u8] {
                &self.bytes
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({}, {} bytes)", stringify!($name), self.algorithm, self.bytes.len())
            }
        }
    };
}

pub(crate) use key;

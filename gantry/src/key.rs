//! Key types: an algorithm, and bytes of a length that it takes.

use gantry_core::{Algorithm, Lengths, Misuse, Result};
use zeroize::Zeroizing;

/// Copies a key, if its length is one that the algorithm takes.
pub(crate) fn checked(algorithm: Algorithm, bytes: &[u8], takes: Lengths) -> Result<Zeroizing<Vec<u8>>> {
    if takes.allows(bytes.len()) {
        return Ok(Zeroizing::new(bytes.to_vec()));
    }
    Err(Misuse::KeyLength { algorithm, got: bytes.len(), takes }.into())
}

/// Writes a key type. `$lengths` is the field of core's row that has its lengths.
macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $algorithm:ident, $lengths:ident) => {
        $(#[$doc])*
        ///
        /// It is zeroized on drop, and prints its algorithm and its length only.
        #[derive(Clone)]
        pub struct $name {
            algorithm: $algorithm,
            bytes: zeroize::Zeroizing<Vec<u8>>,
        }

        impl $name {
            /// Copies a key.
            ///
            /// # Errors
            /// [`Misuse::KeyLength`](gantry_core::Misuse::KeyLength) names the length of `bytes`, and the lengths that the algorithm takes.
            pub fn new(algorithm: $algorithm, bytes: &[u8]) -> gantry_core::Result<Self> {
                let id = algorithm.algorithm();
                Ok(Self { algorithm, bytes: crate::key::checked(id, bytes, id.info().$lengths)? })
            }

            /// The algorithm that it is for.
            pub fn algorithm(&self) -> $algorithm {
                self.algorithm
            }

            /// The bytes, to store them.
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

//! Key derivation from secrets and passwords.
//!
//! `gantry-digest` derives the keys on the calling thread. No route is involved: no device serves such a chain of hashes.

use gantry_digest::{Algorithm, hkdf, pbkdf2};

pub use gantry_digest::Error;

macro_rules! functions {
    ($($variant:ident)+) => {
        /// The hash function of a key derivation, which serves both HKDF and PBKDF2.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kdf {
            $(
                #[doc = concat!("HMAC with [`Algorithm::", stringify!($variant), "`](gantry_digest::Algorithm::", stringify!($variant), ").")]
                $variant,
            )+
        }

        impl Kdf {
            /// All variants.
            pub const ALL: &'static [Kdf] = &[$(Kdf::$variant),+];

            const fn algorithm(self) -> Algorithm {
                match self {
                    $(Kdf::$variant => Algorithm::$variant),+
                }
            }
        }
    };
}

functions! { Sha1 Sha224 Sha256 Sha384 Sha512 Sha512_256 Sha3_224 Sha3_256 Sha3_384 Sha3_512 }

/// A handle that derives keys.
#[derive(Clone, Copy, Debug)]
pub struct Derivation(Algorithm);

impl Derivation {
    pub(crate) fn new(function: Kdf) -> Self {
        Self(function.algorithm())
    }

    /// HKDF (RFC 5869): fills `output` from a secret with enough entropy. Different values of `info` give independent keys.
    ///
    /// # Errors
    /// `output` is longer than 255 digests.
    pub fn hkdf(&self, secret: &[u8], salt: &[u8], info: &[u8], output: &mut [u8]) -> Result<(), Error> {
        hkdf(self.0, secret, salt, info, output)
    }

    /// PBKDF2 (RFC 8018): fills `output` from a password.
    ///
    /// # Errors
    /// `iterations` is 0, or `output` is longer than 2^32 - 1 digests.
    pub fn pbkdf2(&self, password: &[u8], salt: &[u8], iterations: u64, output: &mut [u8]) -> Result<(), Error> {
        pbkdf2(self.0, password, salt, iterations, output)
    }
}

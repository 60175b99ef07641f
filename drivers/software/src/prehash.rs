//! Hash functions for messages that are hashed before they are signed (FIPS 204, 5.4; FIPS 205, 10.2.2).

use std::ptr;

use aws_lc_sys as lc;
use gantry_core::Algorithm;

use crate::owned::Owned;

/// Bytes of the longest digest.
pub(crate) const MAX_DIGEST_BYTES: usize = 64;

/// An AWS-LC hash function, with the length of its digest in bytes.
#[derive(Clone, Copy)]
pub(crate) struct HashFunction {
    table: *const lc::EVP_MD,
    digest_len: usize,
}

// SAFETY: the table is a constant.
unsafe impl Send for HashFunction {}
// SAFETY: as above.
unsafe impl Sync for HashFunction {}

impl HashFunction {
    pub(crate) fn of(algorithm: Algorithm) -> Option<Self> {
        // SAFETY: the functions have no preconditions, and return pointers to static tables.
        let (table, digest_len) = unsafe {
            match algorithm {
                Algorithm::Sha224 => (lc::EVP_sha224(), 28),
                Algorithm::Sha256 => (lc::EVP_sha256(), 32),
                Algorithm::Sha384 => (lc::EVP_sha384(), 48),
                Algorithm::Sha512 => (lc::EVP_sha512(), 64),
                Algorithm::Sha512_256 => (lc::EVP_sha512_256(), 32),
                Algorithm::Sha3_224 => (lc::EVP_sha3_224(), 28),
                Algorithm::Sha3_256 => (lc::EVP_sha3_256(), 32),
                Algorithm::Sha3_384 => (lc::EVP_sha3_384(), 48),
                Algorithm::Sha3_512 => (lc::EVP_sha3_512(), 64),
                Algorithm::Shake128 => (lc::EVP_shake128(), 32),
                Algorithm::Shake256 => (lc::EVP_shake256(), 64),
                _ => return None,
            }
        };
        Some(Self { table, digest_len })
    }

    /// Returns the length of a digest in bytes.
    pub(crate) fn digest_len(self) -> usize {
        self.digest_len
    }

    /// Hashes the concatenated parts. The digest is in the first bytes of the result.
    pub(crate) fn digest(self, parts: &[&[u8]]) -> Option<[u8; MAX_DIGEST_BYTES]> {
        let mut digest = [0; MAX_DIGEST_BYTES];
        // SAFETY: the context is new, the parts have the lengths that are passed, and the buffer has room for the longest digest.
        unsafe {
            let context = Owned::new(lc::EVP_MD_CTX_new(), lc::EVP_MD_CTX_free)?;
            let context = context.as_ptr();
            let mut good = lc::EVP_DigestInit_ex(context, self.table, ptr::null_mut()) == 1;
            for part in parts {
                good = good && lc::EVP_DigestUpdate(context, part.as_ptr().cast(), part.len()) == 1;
            }
            let is_xof = lc::EVP_MD_flags(self.table) & lc::EVP_MD_FLAG_XOF as u32 != 0;
            good = good
                && if is_xof {
                    lc::EVP_DigestFinalXOF(context, digest.as_mut_ptr(), self.digest_len) == 1
                } else {
                    lc::EVP_DigestFinal_ex(context, digest.as_mut_ptr(), ptr::null_mut()) == 1
                };
            good.then_some(digest)
        }
    }
}

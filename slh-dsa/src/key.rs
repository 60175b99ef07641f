//! Keys, which sign and verify messages (FIPS 205, section 10).

use alloc::vec::Vec;
use core::fmt;

use gantry_digest::internal::wipe::{in_own_frame, overwrite_stack};
use zeroize::Zeroizing;

use crate::error::{Error, check_length};
use crate::parameters::ParameterSet;
use crate::prehash::PreHash;
use crate::scheme::{self, Secret};

/// Bytes of the stack to overwrite after signing. Signing uses at most 40 KiB of them, with SHA-512 and precomputed words.
const STACK_BYTES: usize = 64 << 10;

/// Maximum bytes of a context.
const MAX_CONTEXT_BYTES: usize = 255;

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    set: ParameterSet,
    /// PK.seed and PK.root.
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a key of [`ParameterSet::public_key_bytes`]: PK.seed and PK.root. Fails with [`Error::Length`] if `bytes` has another length.
    pub fn from_bytes(set: ParameterSet, bytes: &[u8]) -> Result<Self, Error> {
        check_length("a public key", bytes, set.public_key_bytes())?;
        Ok(PublicKey { set, bytes: bytes.to_vec() })
    }

    /// Returns the parameter set.
    pub fn parameter_set(&self) -> ParameterSet {
        self.set
    }

    /// Returns PK.seed and PK.root.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Verifies a signature of a message with its context (algorithm 24, slh_verify).
    pub fn verify(&self, message: &[u8], context: &[u8], signature: &[u8]) -> Result<(), Error> {
        self.verify_framed(&[&header(0, context)?, context, message], signature)
    }

    /// Verifies a signature of a prehashed message, by its digest and context (algorithm 25, hash_slh_verify).
    pub fn verify_digest(&self, hash: PreHash, digest: &[u8], context: &[u8], signature: &[u8]) -> Result<(), Error> {
        check_length("a digest", digest, hash.digest_bytes())?;
        self.verify_framed(&[&header(1, context)?, context, &hash.identifier(), digest], signature)
    }

    /// Verifies a signature of an already framed message, given in parts (algorithm 20, slh_verify_internal). For tests, and for callers
    /// that frame messages themselves.
    pub fn verify_framed(&self, message: &[&[u8]], signature: &[u8]) -> Result<(), Error> {
        let is_valid = signature.len() == self.set.signature_bytes()
            && scheme::verify(self.set.parameters(), &self.bytes, message, signature);
        if is_valid { Ok(()) } else { Err(Error::Signature) }
    }
}

/// A private key, with its public key. Zeroized on drop.
#[derive(Clone)]
pub struct PrivateKey {
    /// SK.seed and SK.prf.
    secret: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl PrivateKey {
    /// Makes a key from SK.seed, SK.prf and PK.seed: [`ParameterSet::seed_bytes`] random bytes (algorithm 18, slh_keygen_internal).
    pub fn generate(set: ParameterSet, seeds: &[u8]) -> Result<Self, Error> {
        check_length("the seeds of a key", seeds, set.seed_bytes())?;
        let (secret, public_seed) = seeds.split_at(2 * set.n());
        let root = with_stack_wiped(|| scheme::root(set.parameters(), &secret[..set.n()], public_seed));
        let public = PublicKey { set, bytes: [public_seed, &root].concat() };
        Ok(PrivateKey { secret: Zeroizing::new(secret.to_vec()), public })
    }

    /// Reads a key of [`ParameterSet::private_key_bytes`]: SK.seed, SK.prf, PK.seed and PK.root. Does not check PK.root against the seeds,
    /// because this check takes as long as generating the key.
    pub fn from_bytes(set: ParameterSet, bytes: &[u8]) -> Result<Self, Error> {
        check_length("a private key", bytes, set.private_key_bytes())?;
        let (secret, public) = bytes.split_at(2 * set.n());
        Ok(PrivateKey { secret: Zeroizing::new(secret.to_vec()), public: PublicKey { set, bytes: public.to_vec() } })
    }

    /// Returns SK.seed, SK.prf, PK.seed and PK.root.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.secret[..], &self.public.bytes].concat())
    }

    /// Returns the public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message with a context of at most 255 bytes (algorithm 22, slh_sign). `randomness` is [`ParameterSet::n`] random bytes;
    /// without it the signature is deterministic.
    pub fn sign(&self, message: &[u8], context: &[u8], randomness: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        self.sign_framed(&[&header(0, context)?, context, message], randomness)
    }

    /// Signs a prehashed message, by its digest and a context (algorithm 23, hash_slh_sign).
    pub fn sign_digest(
        &self,
        hash: PreHash,
        digest: &[u8],
        context: &[u8],
        randomness: Option<&[u8]>,
    ) -> Result<Vec<u8>, Error> {
        check_length("a digest", digest, hash.digest_bytes())?;
        self.sign_framed(&[&header(1, context)?, context, &hash.identifier(), digest], randomness)
    }

    /// Signs an already framed message, given in parts (algorithm 19, slh_sign_internal). For tests, and for callers that frame messages
    /// themselves.
    pub fn sign_framed(&self, message: &[&[u8]], randomness: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let PublicKey { set, bytes: public } = &self.public;
        let randomness = randomness.unwrap_or(&public[..set.n()]);
        check_length("random numbers", randomness, set.n())?;
        let (seed, prf) = self.secret.split_at(set.n());
        Ok(with_stack_wiped(|| scheme::sign(set.parameters(), &Secret { seed, prf }, public, message, randomness)))
    }
}

impl fmt::Debug for PrivateKey {
    /// Formats the key without its secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Returns the two bytes before the context: 1 for a prehashed message, otherwise 0, and the length of the context.
fn header(prehashed: u8, context: &[u8]) -> Result<[u8; 2], Error> {
    if context.len() > MAX_CONTEXT_BYTES { Err(Error::Context) } else { Ok([prehashed, context.len() as u8]) }
}

/// Runs `work`, and then overwrites the secrets that it left on the stack.
fn with_stack_wiped<T>(work: impl FnOnce() -> T) -> T {
    let result = in_own_frame(work);
    overwrite_stack::<STACK_BYTES>();
    result
}

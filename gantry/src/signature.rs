//! Signatures.
//!
//! Handles take whole messages. For algorithms that sign digests (ECDSA, RSA), the handle hashes each message first, with SHA-256 unless
//! [`with_hash`](SigningKey::with_hash) names another function. Keys are raw numbers or byte strings as in the standards; for the layout of
//! RSA keys see [`gantry_core::rsa`]. PEM is not supported.

/// RustCrypto's traits of the crate `signature`.
#[cfg(feature = "signature")]
mod rustcrypto;

use std::borrow::Cow;
use std::fmt;

use gantry_core::{Algorithm, Gantry, Misuse, Operation, Prehash, Request, Result, Session, SessionParams};
use zeroize::Zeroizing;

use crate::algorithms::{Digest, Signature};
use crate::batch;
use crate::digest;
use crate::key::copy_checked;

pub use crate::bytes::Output as SignatureBytes;

/// Parameters on which signer and verifier must agree, in addition to the keys.
#[derive(Clone, Debug, Default)]
struct SignatureOptions {
    context: Vec<u8>,
    hash: Option<Digest>,
}

macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $lengths:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            algorithm: Signature,
            bytes: Zeroizing<Vec<u8>>,
            options: SignatureOptions,
        }

        impl $name {
            /// Copies a key.
            ///
            /// # Errors
            /// [`Misuse::KeyLength`], with the length of `bytes` and the lengths that the algorithm takes.
            pub fn new(algorithm: Signature, bytes: &[u8]) -> Result<Self> {
                let id = algorithm.algorithm();
                Ok(Self { algorithm, bytes: copy_checked(id, bytes, id.info().$lengths)?, options: SignatureOptions::default() })
            }

            /// Hashes each message with this function before it is signed or verified. ECDSA and RSA always hash: with SHA-256 by default,
            /// or with SHA-384 or SHA-512. ML-DSA and SLH-DSA become HashML-DSA and HashSLH-DSA (FIPS 204 and 205). Ed25519 has no such
            /// mode. A function that the algorithm does not allow gives [`Misuse::Prehash`] when the handle is made.
            #[must_use]
            pub fn with_hash(mut self, hash: Digest) -> Self {
                self.options.hash = Some(hash);
                self
            }

            /// Binds the signatures of ML-DSA and SLH-DSA to a context of at most 255 bytes.
            #[must_use]
            pub fn with_context(mut self, context: &[u8]) -> Self {
                self.options.context = context.to_vec();
                self
            }

            /// Returns the algorithm of the key.
            pub fn algorithm(&self) -> Signature {
                self.algorithm
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}, {} bytes)", stringify!($name), self.algorithm, self.bytes.len())
            }
        }
    };
}

key! {
    /// A private key. Zeroized on drop; prints its algorithm and length only.
    SigningKey, key
}

key! {
    /// A public key.
    VerifyingKey, public_key
}

impl SignatureOptions {
    /// Creates the session that signs or verifies and, if needed, the session that hashes.
    fn sessions(&self, gantry: &Gantry, algorithm: Algorithm, key: &[u8], operation: Operation) -> Result<Sessions> {
        let params = SessionParams::new(algorithm, key).with_direction(operation).with_context(&self.context);
        let signs_digests = algorithm.info().context.max == 0 && algorithm != Algorithm::Ed25519;
        if !signs_digests {
            let prehash = self.hash.map_or(Prehash::Pure, |hash| Prehash::Hash(hash.algorithm()));
            return Ok(Sessions { session: gantry.session(params.with_prehash(prehash))?, hash: None });
        }
        let hash = self.hash.unwrap_or(Digest::Sha256);
        if !matches!(hash, Digest::Sha256 | Digest::Sha384 | Digest::Sha512) {
            return Err(Misuse::Prehash { algorithm }.into());
        }
        Ok(Sessions { session: gantry.session(params)?, hash: Some(digest::Session::new(gantry, hash)?) })
    }
}

#[derive(Clone, Debug)]
struct Sessions {
    session: Session,
    /// The hash, for algorithms that sign digests.
    hash: Option<digest::Session>,
}

impl Sessions {
    /// Returns the input to the signature algorithm: the message or its digest.
    fn signing_input<'m>(&self, message: &'m [u8]) -> Result<Cow<'m, [u8]>> {
        match &self.hash {
            Some(hash) => Ok(Cow::Owned(hash.digest(message)?.into())),
            None => Ok(Cow::Borrowed(message)),
        }
    }

    /// Returns the inputs for many messages, hashed side by side.
    fn signing_inputs<'m, M: AsRef<[u8]> + 'm>(
        &self,
        messages: impl Iterator<Item = &'m M>,
    ) -> Result<Vec<Cow<'m, [u8]>>> {
        match &self.hash {
            Some(hash) => {
                let digests = hash.digest_many(&messages.collect::<Vec<_>>())?;
                Ok(digests.into_iter().map(|digest| Cow::Owned(digest.into())).collect())
            }
            None => Ok(messages.map(|message| Cow::Borrowed(message.as_ref())).collect()),
        }
    }
}

/// A handle that signs with a private key.
#[derive(Clone, Debug)]
pub struct Signer(Sessions);

impl Signer {
    pub(crate) fn new(gantry: &Gantry, key: &SigningKey) -> Result<Self> {
        key.options.sessions(gantry, key.algorithm.algorithm(), &key.bytes, Operation::Sign).map(Self)
    }

    /// Returns a signer without randomness: a message always has the same signature.
    ///
    /// # Errors
    /// The session cannot be made.
    pub fn deterministic(&self) -> Result<Self> {
        let Sessions { session, hash } = &self.0;
        let session = session.gantry().session(session.params().clone().deterministic())?;
        Ok(Self(Sessions { session, hash: hash.clone() }))
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<SignatureBytes> {
        let session = &self.0.session;
        let mut signature = SignatureBytes::zeros(session.params().tag_len());
        session.sign(&self.0.signing_input(message)?, signature.as_mut_bytes())?;
        Ok(signature)
    }

    /// Signs many messages.
    pub fn sign_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<SignatureBytes>> {
        let inputs = self.0.signing_inputs(messages.iter())?;
        let mut signatures = vec![SignatureBytes::zeros(self.0.session.params().tag_len()); messages.len()];
        let pairs = inputs.iter().zip(&mut signatures);
        let mut requests: Vec<_> =
            pairs.map(|(message, signature)| Request::sign(message, signature.as_mut_bytes())).collect();
        batch::run_all(&self.0.session, &mut requests)?;
        Ok(signatures)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions. With ECDSA and RSA, its input is a digest.
    pub fn session(&self) -> &Session {
        &self.0.session
    }
}

/// A handle that verifies signatures with a public key.
#[derive(Clone, Debug)]
pub struct Verifier(Sessions);

impl Verifier {
    pub(crate) fn new(gantry: &Gantry, key: &VerifyingKey) -> Result<Self> {
        key.options.sessions(gantry, key.algorithm.algorithm(), &key.bytes, Operation::Verify).map(Self)
    }

    /// Verifies the signature of a message.
    ///
    /// # Errors
    /// [`Outcome::BadTag`](gantry_core::Outcome::BadTag) as [`Error::Refused`](gantry_core::Error::Refused) if the signature is wrong.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        self.0.session.verify(&self.0.signing_input(message)?, signature)
    }

    /// Verifies many messages with their signatures. Each message has its own result.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn verify_many<M: AsRef<[u8]>, S: AsRef<[u8]>>(&self, messages: &[(M, S)]) -> Result<Vec<Result<()>>> {
        let inputs = self.0.signing_inputs(messages.iter().map(|(message, _)| message))?;
        let pairs = inputs.iter().zip(messages);
        let mut requests: Vec<_> =
            pairs.map(|(message, (_, signature))| Request::verify(message, signature.as_ref())).collect();
        batch::run_each(&self.0.session, &mut requests)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions. With ECDSA and RSA, its input is a digest.
    pub fn session(&self) -> &Session {
        &self.0.session
    }
}

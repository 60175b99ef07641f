//! Signatures.
//!
//! Messages are messages: where an algorithm signs digests (ECDSA, RSA), the handle hashes each message first, with SHA-256 unless
//! [`with_hash`](SigningKey::with_hash) names another function. Keys are numbers or strings as the standards write them
//! ([`gantry_core::rsa`] says how those of RSA lie in memory); Gantry reads no PEM.

/// The traits of RustCrypto's crate `signature`.
#[cfg(feature = "signature")]
mod rustcrypto;

use std::borrow::Cow;
use std::fmt;

use gantry_core::{Algorithm, Direction, Gantry, Misuse, Prehash, Request, Result, Session, SessionParams};
use zeroize::Zeroizing;

use crate::algorithms::{Digest, Signature};
use crate::batch;
use crate::digest;
use crate::key::checked;

pub use crate::bytes::Output as SignatureBytes;

/// What signer and verifier have to agree on besides the keys.
#[derive(Clone, Debug, Default)]
struct Terms {
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
            terms: Terms,
        }

        impl $name {
            /// Copies a key.
            ///
            /// # Errors
            /// [`Misuse::KeyLength`] names the length of `bytes`, and the lengths that the algorithm takes.
            pub fn new(algorithm: Signature, bytes: &[u8]) -> Result<Self> {
                let id = algorithm.algorithm();
                Ok(Self { algorithm, bytes: checked(id, bytes, id.info().$lengths)?, terms: Terms::default() })
            }

            /// Messages are hashed with this function before they are signed. ECDSA and RSA always hash: with SHA-256 unless this is called
            /// with SHA-384 or SHA-512. ML-DSA and SLH-DSA become HashML-DSA and HashSLH-DSA (FIPS 204 and 205).
            #[must_use]
            pub fn with_hash(mut self, hash: Digest) -> Self {
                self.terms.hash = Some(hash);
                self
            }

            /// Binds the signatures of ML-DSA and SLH-DSA to a purpose: 255 bytes at most.
            #[must_use]
            pub fn with_context(mut self, context: &[u8]) -> Self {
                self.terms.context = context.to_vec();
                self
            }

            /// The algorithm that it is for.
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
    /// A private key. It is zeroized on drop, and prints its algorithm and its length only.
    SigningKey, key
}

key! {
    /// A public key.
    VerifyingKey, public_key
}

impl Terms {
    /// The session that signs or verifies, and the one that hashes before.
    fn sessions(&self, gantry: &Gantry, algorithm: Algorithm, key: &[u8], way: Direction) -> Result<Sessions> {
        let params = SessionParams::new(algorithm, key).direction(way).context(&self.context);
        let signs_digests = algorithm.info().context.max == 0 && algorithm != Algorithm::Ed25519;
        if !signs_digests {
            let prehash = self.hash.map_or(Prehash::Pure, |hash| Prehash::Hash(hash.algorithm()));
            return Ok(Sessions { session: gantry.session(params.prehash(prehash))?, hash: None });
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
    /// Of algorithms that sign digests.
    hash: Option<digest::Session>,
}

impl Sessions {
    /// What the session signs of a message.
    fn signed<'m>(&self, message: &'m [u8]) -> Result<Cow<'m, [u8]>> {
        match &self.hash {
            Some(hash) => Ok(Cow::Owned(hash.digest(message)?.into())),
            None => Ok(Cow::Borrowed(message)),
        }
    }

    /// The same of many messages, hashed side by side.
    fn signed_many<'m, M: AsRef<[u8]> + 'm>(
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

/// Signs under a private key.
#[derive(Clone, Debug)]
pub struct Signer(Sessions);

impl Signer {
    pub(crate) fn new(gantry: &Gantry, key: &SigningKey) -> Result<Self> {
        key.terms.sessions(gantry, key.algorithm.algorithm(), &key.bytes, Direction::Encrypt).map(Self)
    }

    /// Makes signatures without a random number, so that those of one message are alike.
    ///
    /// # Errors
    /// The session cannot be made.
    pub fn deterministic(&self) -> Result<Self> {
        let Sessions { session, hash } = &self.0;
        let session = session.gantry().session(session.params().clone().deterministic())?;
        Ok(Self(Sessions { session, hash: hash.clone() }))
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> Result<SignatureBytes> {
        let session = &self.0.session;
        let mut signature = SignatureBytes::zeros(session.params().tag_length());
        session.sign(&self.0.signed(message)?, signature.room())?;
        Ok(signature)
    }

    /// The signatures of many messages.
    pub fn sign_many<M: AsRef<[u8]>>(&self, messages: &[M]) -> Result<Vec<SignatureBytes>> {
        let signed = self.0.signed_many(messages.iter())?;
        let mut signatures = vec![SignatureBytes::zeros(self.0.session.params().tag_length()); messages.len()];
        let pairs = signed.iter().zip(&mut signatures);
        let mut requests: Vec<_> = pairs.map(|(message, signature)| Request::sign(message, signature.room())).collect();
        batch::all(&self.0.session, &mut requests)?;
        Ok(signatures)
    }

    /// The session below, for queues, routes and batches of several sessions. Those of ECDSA and RSA take digests.
    pub fn session(&self) -> &Session {
        &self.0.session
    }
}

/// Verifies signatures under a public key.
#[derive(Clone, Debug)]
pub struct Verifier(Sessions);

impl Verifier {
    pub(crate) fn new(gantry: &Gantry, key: &VerifyingKey) -> Result<Self> {
        key.terms.sessions(gantry, key.algorithm.algorithm(), &key.bytes, Direction::Decrypt).map(Self)
    }

    /// Verifies the signature of a message.
    ///
    /// # Errors
    /// [`Outcome::BadTag`](gantry_core::Outcome::BadTag) as [`Error::Refused`](gantry_core::Error::Refused).
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        self.0.session.verify(&self.0.signed(message)?, signature)
    }

    /// Verifies many messages with their signatures. Each has its own verdict.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn verify_many<M: AsRef<[u8]>, S: AsRef<[u8]>>(&self, messages: &[(M, S)]) -> Result<Vec<Result<()>>> {
        let signed = self.0.signed_many(messages.iter().map(|(message, _)| message))?;
        let pairs = signed.iter().zip(messages);
        let mut requests: Vec<_> =
            pairs.map(|(message, (_, signature))| Request::verify(message, signature.as_ref())).collect();
        batch::each(&self.0.session, &mut requests)
    }

    /// The session below, for queues, routes and batches of several sessions. Those of ECDSA and RSA take digests.
    pub fn session(&self) -> &Session {
        &self.0.session
    }
}

//! Key encapsulation (FIPS 203).
//!
//! The one side [generates](Encapsulator::generate) a pair of keys and sends the public one. The other side
//! [encapsulates](Encapsulator::encapsulate): it gets a secret, and a ciphertext to send back. The first side
//! [decapsulates](Decapsulator::decapsulate) the same secret.

use gantry_core::{Direction, Gantry, Request, Result, Session, SessionParams};
use zeroize::Zeroizing;

use crate::algorithms::Kem;
use crate::batch;
use crate::key::key;

pub use crate::bytes::Secret;

key! {
    /// The public key, with which anybody encapsulates.
    EncapsulationKey, Kem, public_key
}

key! {
    /// The private key, with which its owner decapsulates: the seed `d ‖ z`, or `dk` as FIPS 203 writes it out.
    DecapsulationKey, Kem, key
}

/// Makes pairs of keys, and encapsulates secrets: needs no key of its own.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    session: Session,
    algorithm: Kem,
}

impl Encapsulator {
    pub(crate) fn new(gantry: &Gantry, algorithm: Kem) -> Result<Self> {
        let params = SessionParams::new(algorithm.algorithm(), &[]).direction(Direction::Encrypt);
        Ok(Self { session: gantry.session(params)?, algorithm })
    }

    /// A pair of keys. The private one is a seed.
    pub fn generate(&self) -> Result<(DecapsulationKey, EncapsulationKey)> {
        let info = self.algorithm.algorithm().info();
        let (mut private, mut public) =
            (Zeroizing::new(vec![0; info.key.min]), Zeroizing::new(vec![0; info.public_key.max]));
        self.session.key_gen(&mut private, &mut public)?;
        let algorithm = self.algorithm;
        Ok((DecapsulationKey { algorithm, bytes: private }, EncapsulationKey { algorithm, bytes: public }))
    }

    /// A new secret, after the ciphertext that tells it to the owner of `peer`.
    ///
    /// # Errors
    /// [`Outcome::BadKey`](gantry_core::Outcome::BadKey) as [`Error::Refused`](gantry_core::Error::Refused) where `peer` is no key.
    pub fn encapsulate(&self, peer: &EncapsulationKey) -> Result<(Vec<u8>, Secret)> {
        let (mut ciphertext, mut secret) = self.room();
        self.session.encapsulate(&peer.bytes, &mut ciphertext, secret.room())?;
        Ok((ciphertext, secret))
    }

    /// The same for many peers.
    ///
    /// # Errors
    /// One of the keys is no key, and no secret is returned.
    pub fn encapsulate_many(&self, peers: &[EncapsulationKey]) -> Result<Vec<(Vec<u8>, Secret)>> {
        let mut results: Vec<_> = peers.iter().map(|_| self.room()).collect();
        let pairs = peers.iter().zip(&mut results);
        let mut requests: Vec<_> = pairs
            .map(|(peer, (ciphertext, secret))| Request::encapsulate(&peer.bytes, &[], ciphertext, secret.room()))
            .collect();
        batch::all(&self.session, &mut requests)?;
        Ok(results)
    }

    /// The handle of the owner of a private key.
    ///
    /// # Errors
    /// No session can be made from the key.
    pub fn decapsulator(&self, key: &DecapsulationKey) -> Result<Decapsulator> {
        let params = SessionParams::new(key.algorithm.algorithm(), &key.bytes).direction(Direction::Decrypt);
        self.session.gantry().session(params).map(Decapsulator)
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn room(&self) -> (Vec<u8>, Secret) {
        let (ciphertext, _) = self.algorithm.algorithm().info().encapsulation;
        (vec![0; ciphertext], Secret::zeros(self.session.params().tag_length()))
    }
}

/// Decapsulates secrets under a private key.
#[derive(Clone, Debug)]
pub struct Decapsulator(Session);

impl Decapsulator {
    /// The secret of a ciphertext. A ciphertext that was not made for this key has a secret, too, which nobody else knows.
    ///
    /// # Errors
    /// [`Outcome::BadLength`](gantry_core::Outcome::BadLength) as [`Error::Refused`](gantry_core::Error::Refused).
    pub fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        let mut secret = Secret::zeros(self.0.params().tag_length());
        self.0.decapsulate(ciphertext, secret.room())?;
        Ok(secret)
    }

    /// The secrets of many ciphertexts. Each has a result of its own.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn decapsulate_many<C: AsRef<[u8]>>(&self, ciphertexts: &[C]) -> Result<Vec<Result<Secret>>> {
        let mut secrets = vec![Secret::zeros(self.0.params().tag_length()); ciphertexts.len()];
        let pairs = ciphertexts.iter().zip(&mut secrets);
        let mut requests: Vec<_> =
            pairs.map(|(ciphertext, secret)| Request::decapsulate(ciphertext.as_ref(), secret.room())).collect();
        let results = batch::each(&self.0, &mut requests)?;
        Ok(results.into_iter().zip(secrets).map(|(result, secret)| result.map(|()| secret)).collect())
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.0
    }
}

//! Key encapsulation (FIPS 203).
//!
//! One side [generates](Encapsulator::generate) a key pair and sends the public key. The other side
//! [encapsulates](Encapsulator::encapsulate) a secret and sends back the ciphertext. The first side
//! [decapsulates](Decapsulator::decapsulate) the same secret.

use gantry_core::{Gantry, Operation, Request, Result, Session, SessionParams};
use zeroize::Zeroizing;

use crate::algorithms::Kem;
use crate::batch;
use crate::key::key;

pub use crate::bytes::Secret;

key! {
    /// A public key, for encapsulation.
    EncapsulationKey, Kem, public_key
}

key! {
    /// A private key, for decapsulation: the seed `d ‖ z`, or the expanded key `dk` of FIPS 203.
    DecapsulationKey, Kem, key
}

/// A handle that generates key pairs and encapsulates secrets. It has no key of its own.
#[derive(Clone, Debug)]
pub struct Encapsulator {
    session: Session,
    algorithm: Kem,
}

impl Encapsulator {
    pub(crate) fn new(gantry: &Gantry, algorithm: Kem) -> Result<Self> {
        let params = SessionParams::new(algorithm.algorithm(), &[]).with_direction(Operation::Encapsulate);
        Ok(Self { session: gantry.session(params)?, algorithm })
    }

    /// Generates a key pair. The private key is a seed.
    pub fn generate(&self) -> Result<(DecapsulationKey, EncapsulationKey)> {
        let info = self.algorithm.algorithm().info();
        let (mut private, mut public) =
            (Zeroizing::new(vec![0; info.key.min]), Zeroizing::new(vec![0; info.public_key.max]));
        self.session.key_gen(&mut private, &mut public)?;
        let algorithm = self.algorithm;
        Ok((DecapsulationKey { algorithm, bytes: private }, EncapsulationKey { algorithm, bytes: public }))
    }

    /// Encapsulates a fresh secret to `peer`. Returns the ciphertext and the secret.
    ///
    /// # Errors
    /// [`Outcome::BadKey`](gantry_core::Outcome::BadKey) as [`Error::Refused`](gantry_core::Error::Refused) if `peer` is not a valid key,
    /// and [`Outcome::BadLength`](gantry_core::Outcome::BadLength) if it is a key of another algorithm.
    pub fn encapsulate(&self, peer: &EncapsulationKey) -> Result<(Vec<u8>, Secret)> {
        let (mut ciphertext, mut secret) = self.zeroed_outputs();
        self.session.encapsulate(&peer.bytes, &mut ciphertext, secret.as_mut_bytes())?;
        Ok((ciphertext, secret))
    }

    /// Encapsulates a fresh secret to each of many peers.
    ///
    /// # Errors
    /// No secrets are returned if a key is not valid.
    pub fn encapsulate_many(&self, peers: &[EncapsulationKey]) -> Result<Vec<(Vec<u8>, Secret)>> {
        let mut results: Vec<_> = peers.iter().map(|_| self.zeroed_outputs()).collect();
        let pairs = peers.iter().zip(&mut results);
        let mut requests: Vec<_> = pairs
            .map(|(peer, (ciphertext, secret))| {
                Request::encapsulate(&peer.bytes, &[], ciphertext, secret.as_mut_bytes())
            })
            .collect();
        batch::run_all(&self.session, &mut requests)?;
        Ok(results)
    }

    /// Creates a handle that decapsulates with a private key.
    ///
    /// # Errors
    /// No session can be made from the key.
    pub fn decapsulator(&self, key: &DecapsulationKey) -> Result<Decapsulator> {
        let params = SessionParams::new(key.algorithm.algorithm(), &key.bytes).with_direction(Operation::Decapsulate);
        self.session.gantry().session(params).map(Decapsulator)
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.session
    }

    fn zeroed_outputs(&self) -> (Vec<u8>, Secret) {
        let (ciphertext, _) = self.algorithm.algorithm().info().encapsulation;
        (vec![0; ciphertext], Secret::zeros(self.session.params().tag_len()))
    }
}

/// A handle that decapsulates secrets with a private key.
#[derive(Clone, Debug)]
pub struct Decapsulator(Session);

impl Decapsulator {
    /// Returns the encapsulated secret. An invalid ciphertext yields a pseudorandom secret (implicit rejection).
    ///
    /// # Errors
    /// [`Outcome::BadLength`](gantry_core::Outcome::BadLength) as [`Error::Refused`](gantry_core::Error::Refused) if the ciphertext has a
    /// wrong length.
    pub fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        let mut secret = Secret::zeros(self.0.params().tag_len());
        self.0.decapsulate(ciphertext, secret.as_mut_bytes())?;
        Ok(secret)
    }

    /// Decapsulates many ciphertexts. Each ciphertext has its own result.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn decapsulate_many<C: AsRef<[u8]>>(&self, ciphertexts: &[C]) -> Result<Vec<Result<Secret>>> {
        let mut secrets = vec![Secret::zeros(self.0.params().tag_len()); ciphertexts.len()];
        let pairs = ciphertexts.iter().zip(&mut secrets);
        let mut requests: Vec<_> = pairs
            .map(|(ciphertext, secret)| Request::decapsulate(ciphertext.as_ref(), secret.as_mut_bytes()))
            .collect();
        let results = batch::run_each(&self.0, &mut requests)?;
        Ok(results.into_iter().zip(secrets).map(|(result, secret)| result.map(|()| secret)).collect())
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &Session {
        &self.0
    }
}

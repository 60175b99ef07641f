//! Key agreement: one's own private key and a peer's public key yield a shared secret.

use gantry_core::{Gantry, Request, Result, SessionParams};

use crate::algorithms::Agreement;
use crate::batch;
use crate::key::key;

pub use crate::bytes::Secret;

key! {
    /// A private key.
    PrivateKey, Agreement, key
}

/// A handle that agrees on secrets with a private key.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &Gantry, key: &PrivateKey) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes)).map(Self)
    }

    /// Computes the secret shared with the owner of the public key `peer`.
    ///
    /// # Errors
    /// [`Outcome::BadKey`](gantry_core::Outcome::BadKey) or [`Outcome::BadLength`](gantry_core::Outcome::BadLength) as
    /// [`Error::Refused`](gantry_core::Error::Refused) if `peer` is not a valid key.
    pub fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let mut secret = Secret::zeros(self.0.params().tag_len());
        self.0.derive(peer, secret.as_mut_bytes())?;
        Ok(secret)
    }

    /// Computes the secrets shared with many peers. Each peer has its own result.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn agree_many<P: AsRef<[u8]>>(&self, peers: &[P]) -> Result<Vec<Result<Secret>>> {
        let mut secrets = vec![Secret::zeros(self.0.params().tag_len()); peers.len()];
        let pairs = peers.iter().zip(&mut secrets);
        let mut requests: Vec<_> =
            pairs.map(|(peer, secret)| Request::derive(peer.as_ref(), secret.as_mut_bytes())).collect();
        let results = batch::run_each(&self.0, &mut requests)?;
        Ok(results.into_iter().zip(secrets).map(|(result, secret)| result.map(|()| secret)).collect())
    }

    /// Returns the underlying session, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}

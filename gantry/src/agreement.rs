//! Key agreement: a private key of one's own and the public key of a peer make a secret that both know.

use gantry_core::{Gantry, Request, Result, SessionParams};

use crate::algorithms::Agreement;
use crate::batch;
use crate::key::key;

pub use crate::bytes::Secret;

key! {
    /// A private key.
    PrivateKey, Agreement, key
}

/// Agrees on secrets under a private key.
#[derive(Clone, Debug)]
pub struct Session(gantry_core::Session);

impl Session {
    pub(crate) fn new(gantry: &Gantry, key: &PrivateKey) -> Result<Self> {
        gantry.session(SessionParams::new(key.algorithm.algorithm(), &key.bytes)).map(Self)
    }

    /// The secret shared with the owner of the public key `peer`.
    ///
    /// # Errors
    /// [`Outcome::BadKey`](gantry_core::Outcome::BadKey) or [`Outcome::BadLength`](gantry_core::Outcome::BadLength) as
    /// [`Error::Refused`](gantry_core::Error::Refused) where `peer` is no key.
    pub fn agree(&self, peer: &[u8]) -> Result<Secret> {
        let mut secret = Secret::zeros(self.0.params().tag_length());
        self.0.derive(peer, secret.room())?;
        Ok(secret)
    }

    /// The secrets shared with many peers. Each has a result of its own.
    ///
    /// # Errors
    /// The batch as a whole cannot be run.
    pub fn agree_many<P: AsRef<[u8]>>(&self, peers: &[P]) -> Result<Vec<Result<Secret>>> {
        let mut secrets = vec![Secret::zeros(self.0.params().tag_length()); peers.len()];
        let pairs = peers.iter().zip(&mut secrets);
        let mut requests: Vec<_> = pairs.map(|(peer, secret)| Request::derive(peer.as_ref(), secret.room())).collect();
        let results = batch::each(&self.0, &mut requests)?;
        Ok(results.into_iter().zip(secrets).map(|(result, secret)| result.map(|()| secret)).collect())
    }

    /// The session below, for queues, routes and batches of several sessions.
    pub fn session(&self) -> &gantry_core::Session {
        &self.0
    }
}

//! The framework with its typed handles.

use std::fmt;

use gantry_core::Result;
use gantry_runtime::Config;

use crate::algorithms::{Compression, Digest, Kem};
use crate::kdf::Kdf;
use crate::{aead, agreement, cipher, compression, digest, kdf, kem, mac, shared, signature};

/// The devices of this machine, a policy over them, and typed handles for requests. Cheap to clone; clones share everything.
///
/// A handle is an algorithm with its key, checked when it is made. Handles are `Send` and `Sync`.
#[derive(Clone)]
pub struct Gantry(gantry_core::Gantry);

impl Gantry {
    /// Finds the devices of this machine, and puts the configured policy over them.
    ///
    /// # Errors
    /// The configuration names a device that does not exist, or puts one that is turned off into the policy.
    pub fn open(config: Config) -> std::result::Result<Self, gantry_runtime::Error> {
        gantry_runtime::open(config).map(Self)
    }

    /// Opens with the configuration files and the environment.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and a file or variable that cannot be read.
    pub fn from_env() -> std::result::Result<Self, gantry_runtime::Error> {
        Self::open(Config::from_env()?)
    }

    /// The one framework that the adapters for RustCrypto's traits share, because those traits have no place for one. It is opened at the
    /// first call, from the environment, or with the default configuration where that is wrong.
    pub fn shared() -> Self {
        Self(shared::shared().clone())
    }

    /// The framework below, for statistics, routes, queues, and batches of several sessions.
    pub fn framework(&self) -> &gantry_core::Gantry {
        &self.0
    }

    /// Hashes.
    pub fn digest(&self, algorithm: Digest) -> Result<digest::Session> {
        digest::Session::new(&self.0, algorithm)
    }

    /// Authenticates messages.
    pub fn mac(&self, key: &mac::Key) -> Result<mac::Session> {
        mac::Session::new(&self.0, key)
    }

    /// Encrypts without integrity.
    pub fn cipher(&self, key: &cipher::Key) -> Result<cipher::Session> {
        cipher::Session::new(&self.0, key)
    }

    /// Seals and opens messages.
    pub fn aead(&self, key: &aead::Key) -> Result<aead::Session> {
        aead::Session::new(&self.0, key)
    }

    /// Signs.
    pub fn signer(&self, key: &signature::SigningKey) -> Result<signature::Signer> {
        signature::Signer::new(&self.0, key)
    }

    /// Verifies signatures.
    pub fn verifier(&self, key: &signature::VerifyingKey) -> Result<signature::Verifier> {
        signature::Verifier::new(&self.0, key)
    }

    /// Makes pairs of keys, and encapsulates secrets for the owners of public ones.
    pub fn kem(&self, algorithm: Kem) -> Result<kem::Encapsulator> {
        kem::Encapsulator::new(&self.0, algorithm)
    }

    /// Agrees on secrets with the owners of public keys.
    pub fn agreement(&self, key: &agreement::PrivateKey) -> Result<agreement::Session> {
        agreement::Session::new(&self.0, key)
    }

    /// Compresses and decompresses.
    pub fn compressor(&self, algorithm: Compression) -> Result<compression::Compressor> {
        compression::Compressor::new(&self.0, algorithm)
    }

    /// Derives keys.
    pub fn kdf(&self, function: Kdf) -> kdf::Derivation {
        kdf::Derivation::new(function)
    }
}

/// One that was put together otherwise: with devices of the program's own, or with another clock.
impl From<gantry_core::Gantry> for Gantry {
    fn from(gantry: gantry_core::Gantry) -> Self {
        Self(gantry)
    }
}

impl fmt::Debug for Gantry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.devices().iter().map(gantry_core::RegisteredDevice::name)).finish()
    }
}

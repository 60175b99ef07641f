//! The framework with its typed handles.

use std::fmt;

use gantry_core::Result;
use gantry_runtime::Config;

use crate::algorithms::{Compression, Digest, Kem};
use crate::kdf::Kdf;
use crate::{aead, agreement, cipher, compression, digest, kdf, kem, mac, shared, signature};

/// The devices of this machine, a routing policy, and typed handles for requests. Cheap to clone; clones share everything.
///
/// A handle is an algorithm with its key, checked when the handle is made. Handles are `Send` and `Sync`.
#[derive(Clone)]
pub struct Gantry(gantry_core::Gantry);

impl Gantry {
    /// Discovers the devices of this machine and applies the configured policy.
    ///
    /// # Errors
    /// The configuration names a device that does not exist, or requires a validated device and there is none. Or the policy names a device
    /// that is turned off.
    pub fn open(config: Config) -> std::result::Result<Self, gantry_runtime::Error> {
        gantry_runtime::open(config).map(Self)
    }

    /// Opens the framework with the configuration from files and environment variables.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), and a file or variable that cannot be read.
    pub fn from_env() -> std::result::Result<Self, gantry_runtime::Error> {
        Self::open(Config::from_env()?)
    }

    /// Returns the framework that the adapters for RustCrypto's traits share, because those traits cannot pass one. The first call opens it
    /// as `from_env` does, or with the default configuration if that fails.
    pub fn shared() -> Self {
        Self(shared::shared().clone())
    }

    /// Returns the underlying framework, for statistics, routes, queues, and batches of several sessions.
    pub fn framework(&self) -> &gantry_core::Gantry {
        &self.0
    }

    /// Creates a handle that hashes messages.
    pub fn digest(&self, algorithm: Digest) -> Result<digest::Session> {
        digest::Session::new(&self.0, algorithm)
    }

    /// Creates a handle that authenticates messages.
    pub fn mac(&self, key: &mac::Key) -> Result<mac::Session> {
        mac::Session::new(&self.0, key)
    }

    /// Creates a handle that encrypts without integrity.
    pub fn cipher(&self, key: &cipher::Key) -> Result<cipher::Session> {
        cipher::Session::new(&self.0, key)
    }

    /// Creates a handle that seals and opens messages.
    pub fn aead(&self, key: &aead::Key) -> Result<aead::Session> {
        aead::Session::new(&self.0, key)
    }

    /// Creates a handle that signs.
    pub fn signer(&self, key: &signature::SigningKey) -> Result<signature::Signer> {
        signature::Signer::new(&self.0, key)
    }

    /// Creates a handle that verifies signatures.
    pub fn verifier(&self, key: &signature::VerifyingKey) -> Result<signature::Verifier> {
        signature::Verifier::new(&self.0, key)
    }

    /// Creates a handle that generates key pairs and encapsulates secrets to public keys.
    pub fn kem(&self, algorithm: Kem) -> Result<kem::Encapsulator> {
        kem::Encapsulator::new(&self.0, algorithm)
    }

    /// Creates a handle that agrees on secrets with peers, given their public keys.
    pub fn agreement(&self, key: &agreement::PrivateKey) -> Result<agreement::Session> {
        agreement::Session::new(&self.0, key)
    }

    /// Creates a handle that compresses and decompresses.
    pub fn compressor(&self, algorithm: Compression) -> Result<compression::Compressor> {
        compression::Compressor::new(&self.0, algorithm)
    }

    /// Creates a handle that derives keys.
    pub fn kdf(&self, function: Kdf) -> kdf::Derivation {
        kdf::Derivation::new(function)
    }
}

/// Wraps a framework built with [`GantryBuilder`](gantry_core::GantryBuilder), for example with the program's own devices or clock.
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

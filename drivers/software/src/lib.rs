//! The reference device: AWS-LC on the calling thread. Every machine has it, and it is never excluded.
//!
//! A session holds prepared keys and nothing that changes: many threads share it, and a request allocates nothing and
//! takes no lock; of signatures and secrets on P-256, of RSA, ML-KEM and ML-DSA, AWS-LC allocates what it computes with, as does `gantry-slh-dsa`. Most of AWS-LC's functions
//! take their keys as constants, so that is free. The few that need a context of their own (XTS, CCM, CMAC, SHA-3, SHAKE) take a
//! prepared one from a pool in the session.
//!
//! TurboSHAKE and KT128 are RustCrypto's, and SLH-DSA is that of `gantry-slh-dsa`, whose hashes run side by side in SIMD registers. libdeflate and zstd compress, in contexts that a session keeps for its next request. What else AWS-LC lacks is said in [`LACKS`], not made up for.

use std::sync::Arc;

use gantry_core::driver::{Driver, Found};

/// Authenticated encryption: GCM, CCM, the two ChaCha20-Poly1305.
mod aead;
/// Ciphers that need no context: AES but for XTS, triple DES, ChaCha20.
mod cipher;
/// AWS-LC's contexts, and the pool that shares them between threads.
mod context;
/// Ed25519 and X25519.
mod curve;
/// DEFLATE, zlib and gzip, by libdeflate.
mod deflate;
/// What the device offers: one row per algorithm.
mod device;
/// Digests.
mod digest;
/// Packets of ESP.
mod esp;
/// Encrypt then authenticate: AES-CBC or AES-CTR, then HMAC.
mod eta;
/// Key encapsulation: ML-KEM.
mod kem;
/// Authentication codes: HMAC, CMAC, GMAC, Poly1305.
mod mac;
/// Signatures of ML-DSA.
mod mldsa;
/// Objects of AWS-LC that have to be freed.
mod owned;
/// ECDSA and ECDH on P-256.
mod p256;
/// Hash functions of messages that are hashed before they are signed.
mod prehash;
/// Keys of RSA, and its signatures.
mod rsa;
/// Encryption of RSA.
mod rsaes;
/// What sessions of every kind share: keys that vanish, buffers as AWS-LC wants them, failures.
mod session;
/// Signatures of SLH-DSA.
mod slhdsa;
/// Contexts that are kept for the next request.
mod spare;
/// TurboSHAKE and KT128.
mod turbo;
/// XTS.
mod xts;
/// Zstandard, by its own library.
mod zstd;

pub use device::LACKS;

/// Discovers the one software device that every machine has.
#[derive(Debug, Default)]
pub struct SoftwareDriver;

impl Driver for SoftwareDriver {
    fn name(&self) -> &'static str {
        "software"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(device::SoftwareDevice::new()))]
    }
}

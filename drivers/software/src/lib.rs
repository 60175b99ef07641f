//! The reference device: AWS-LC on the calling thread. Every machine has it, and it is never excluded.
//!
//! Many threads share a session, which holds prepared keys. Most requests allocate nothing and take no lock. P-256, RSA, ML-KEM, ML-DSA and
//! SLH-DSA allocate temporary memory, and AWS-LC locks RSA keys. Most of AWS-LC's functions take their keys as constants. The few that need
//! a context of their own (XTS, CCM, CMAC, SHA-3, SHAKE, BLAKE2b) borrow a prepared one from a pool in the session.
//!
//! TurboSHAKE and KT128 come from RustCrypto. SLH-DSA comes from `gantry-slh-dsa`, whose hashes run side by side in SIMD registers.
//! Compression uses libdeflate and zstd, in contexts that a session keeps behind a lock for its next request. [`UNSERVED`] lists the
//! algorithms that the device does not serve.

use std::sync::Arc;

use gantry_core::driver::{Driver, Found};

/// Authenticated encryption: GCM, CCM, ChaCha20-Poly1305, XChaCha20-Poly1305.
mod aead;
/// Ciphers that need no context: AES in ECB, CBC, CTR, OFB and CFB mode, triple DES, and ChaCha20.
mod cipher;
/// AWS-LC's contexts, and the pool that shares them between threads.
mod context;
/// Ed25519 and X25519.
mod curve;
/// DEFLATE, zlib and gzip, by libdeflate.
mod deflate;
/// The capabilities of the device: one row per algorithm.
mod device;
/// Digests.
mod digest;
/// Encrypt then authenticate: AES-CBC or AES-CTR, then HMAC.
mod etm;
/// Contexts kept for the next request.
mod free_list;
/// gzip's headers, and zeros after its last member.
mod gzip;
/// Key encapsulation: ML-KEM.
mod kem;
/// Authentication codes: HMAC, CMAC, GMAC, Poly1305.
mod mac;
/// ML-DSA signatures.
mod mldsa;
/// Owned objects of C libraries.
mod owned;
/// ECDSA and ECDH on P-256.
mod p256;
/// Hash functions for messages that are hashed before they are signed.
mod prehash;
/// RSA keys and signatures.
mod rsa;
/// RSA encryption.
mod rsaes;
/// Parts of sessions of every kind: keys that are zeroized, buffers as AWS-LC needs them, failures.
mod session;
/// SLH-DSA signatures.
mod slhdsa;
/// TurboSHAKE and KT128.
mod turbo;
/// XTS.
mod xts;
/// Zstandard, by its own library.
mod zstd;

pub use device::UNSERVED;

/// Discovers the software device, which every machine has.
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

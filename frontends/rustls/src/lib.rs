//! A [`CryptoProvider`] for rustls 0.23 that encrypts TLS records in SIMD lanes, where they are faster on this CPU.
//!
//! ```
//! gantry_rustls::default_provider().install_default().unwrap();
//! # let roots = rustls::RootCertStore::empty();
//! let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth(); // and so on, as without Gantry
//! # drop(config);
//! ```
//!
//! The suites with AES-GCM of TLS 1.2 and 1.3 seal and open their records in the lanes of [Gantry](gantry_runtime), once its measurements
//! show that lanes are faster than AWS-LC. Everything else is [`rustls::crypto::aws_lc_rs`]'s: ChaCha20-Poly1305, key exchange
//! (X25519MLKEM768 first), signatures, verification, HKDF, random numbers, and the keys of QUIC. [`CryptoProvider::fips`] is `false`.
//!
//! **Start.** [`default_provider`] opens the framework with the operator's configuration, and reads the stored costs of AES-GCM, or
//! measures and stores them. Records then open no file and start no thread. So a program may filter its system calls (seccomp) from then
//! on, if it permits the calls for memory and threads, and `clock_gettime`. If opening fails, or `/proc/self/status` shows an earlier
//! filter, aws-lc-rs serves all records.
//!
//! **A key** starts with aws-lc-rs. It moves to a session of Gantry once the time lost by staying equals the time to open a session, so
//! short connections and handshakes open none. A key never moves back. aws-lc-rs and the session make the same records, with the nonces of
//! RFC 8446 (5.3) and RFC 5288 (3).
//!
//! **Route.** `policy = "pin:lanes"` in Gantry's configuration, or `GANTRY_POLICY=pin:lanes`, sends every key to the lanes from its first
//! record of at least 256 bytes. With `pin:software`, every key stays with aws-lc-rs. `gantry top` shows the records of lanes.
//!
//! | file | content |
//! |---|---|
//! | `framework.rs` | the framework of the process |
//! | `record_key.rs` | a key, and its session once lanes are faster |
//! | `tls13.rs`, `tls12.rs` | the records |

#![forbid(unsafe_code)]

mod framework;
mod record_key;
mod tls12;
mod tls13;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use framework::Framework;
use gantry_core::Algorithm;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, SupportedCipherSuite};

/// Returns the provider: that of aws-lc-rs, with lanes for AES-GCM. The first call in a process opens the framework. In a child of a fork,
/// records of new connections stay with aws-lc-rs until the child calls this function.
pub fn default_provider() -> CryptoProvider {
    Framework::open();
    CryptoProvider { cipher_suites: SUITES.clone(), ..aws_lc_rs::default_provider() }
}

static SUITES: LazyLock<Vec<SupportedCipherSuite>> =
    LazyLock::new(|| aws_lc_rs::DEFAULT_CIPHER_SUITES.iter().copied().map(with_lanes).collect());

/// Returns the suite with lanes for its records. Called once per suite, because a suite lives as long as the process.
fn with_lanes(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    match (gcm_algorithm(suite.suite()), suite) {
        (None, suite) => suite,
        (Some(algorithm), SupportedCipherSuite::Tls13(suite)) => tls13::suite(suite, algorithm).into(),
        (Some(algorithm), SupportedCipherSuite::Tls12(suite)) => tls12::suite(suite, algorithm).into(),
    }
}

/// Returns the algorithm of a suite with AES-GCM.
fn gcm_algorithm(suite: CipherSuite) -> Option<Algorithm> {
    use CipherSuite as C;
    match suite {
        C::TLS13_AES_128_GCM_SHA256
        | C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(Algorithm::Aes128Gcm),
        C::TLS13_AES_256_GCM_SHA384
        | C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(Algorithm::Aes256Gcm),
        _ => None,
    }
}

/// Compiles and runs the Rust of the README in `cargo test`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

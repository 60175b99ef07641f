//! A provider for OpenSSL 3.x and 4.x: `gantry.so`.
//!
//! It wraps the default provider of the program that loads it. Each algorithm has the same names here, with the property
//! `provider=gantry`; each context holds one of the default provider's for as long as it may need it, to which everything goes, but
//! for requests that are faster on another device. It links no libcrypto: all that it needs, the core hands to it.
//!
//! One request, followed through the files: an entry in `boundary` is called; the state machine of the algorithm's mode
//! (`aead`, `chain`, `cipher`, `kdf`, `pair`) asks `framework` whose turn it is, which asks the core what devices
//! save; and the request goes to the default provider's function, or to a `gantry_core::Session`.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs`, `table.rs`, `config.rs` | the provider interface as data, the algorithms, the section of openssl.cnf |
//! | `boundary/` | where C calls and is called: `provider.rs` the provider, `wrapped.rs` the default provider's algorithms with ours in front, `host_*.rs` what the host does for nobody's program, `default.rs` finds the default provider, `stack.rs` whether the stack has room for devices, `slhdsa.rs` signatures of SLH-DSA |
//! | `aead.rs`, `chain.rs`, `cipher.rs`, `kdf.rs`, `pipes.rs`, `pair.rs` | for each mode, when a context can leave the host's |
//! | `framework.rs`, `gate.rs` | whether it should: the core knows what a device saves (`gantry_core::Beside`), for the host is one of its devices |
//! | `measure.rs` | by how much a device is faster, measured for `gantry advise` |
//! | `derivations.rs` | PBKDF2 in lanes, where threads meet: no device has it, so nothing is to be chosen |
//! | `host.rs`, `report.rs` | the host as a device, and what was done |

pub use config::{KEYS, MEASURE, MEASURED, RETIRED};
pub use table::measured_names;

/// OpenSSL's provider interface as data.
mod abi;
/// AEADs whose messages come in pieces.
mod aead;
/// Where C and Rust meet.
mod boundary;
/// Modes that chain blocks.
mod chain;
/// Ciphers by mode.
mod cipher;
/// The section of `openssl.cnf`.
mod config;
/// Key derivations in lanes, and where threads meet.
mod derivations;
/// Devices, opened when they are needed.
mod framework;
/// Sizes of requests.
mod gate;
/// The host as a device.
mod host;
/// Key derivations.
mod kdf;
/// A key that is kept.
mod key;
/// A key of a cipher, and requests under it.
mod keyed;
/// By how much a device is faster.
mod measure;
/// Key pairs.
mod pair;
/// Many messages of a chained mode at a time.
mod pipes;
/// What was done, for others to read.
mod report;
/// The algorithms.
mod table;

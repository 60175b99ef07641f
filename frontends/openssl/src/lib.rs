//! A provider for OpenSSL 3.x and 4.x: `gantry.so`.
//!
//! It wraps the default provider of the program that loads it. Each algorithm has the same names here, with the property
//! `provider=gantry`; each context holds one of the default provider's for as long as it may need it, to which everything goes, but
//! for requests that are faster on another device. It links no libcrypto: all that it needs, the core hands to it.
//!
//! One request, followed through the files: an entry in `boundary` is called; the state machine of the algorithm's mode
//! (`aead`, `chain`, `cipher`, `digest`, `mac`, `pair`) asks `framework` whose turn it is; `choice` knows what was faster; and
//! the request goes to the default provider's function, or to a `gantry::Session`.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs`, `table.rs`, `config.rs` | the provider interface as data, the algorithms, the section of openssl.cnf |
//! | `boundary/` | where C calls and is called: `default.rs` finds the default provider, `jobs.rs` messages of a thread's jobs, `stack.rs` room on the stack for devices, `idle.rs` contexts of digests between two messages, `digested.rs` signatures of digests, `rsa.rs` padding, `encoders.rs` keys of the type EC |
//! | `aead.rs`, `ccm.rs`, `chain.rs`, `cipher.rs`, `digest.rs`, `mac.rs`, `pipes.rs`, `pair.rs` | for each mode, when a context can leave the host's |
//! | `framework.rs`, `choice.rs`, `trial.rs`, `company.rs` | whether it should: the faster side, and how that is measured |
//! | `host.rs`, `der.rs`, `report.rs` | the host as a device, signatures as programs have them, what was done |

pub use config::{KEYS, MEASURE, MEASURED};
pub use table::measured_names;

/// OpenSSL's provider interface as data.
mod abi;
/// AEADs whose messages come in pieces.
mod aead;
/// Where C and Rust meet.
mod boundary;
/// CCM, whose messages are whole.
mod ccm;
/// Modes that chain blocks.
mod chain;
/// Host or device, by size.
mod choice;
/// Ciphers by mode.
mod cipher;
/// What several threads gain together.
mod company;
/// The section of `openssl.cnf`.
mod config;
/// Signatures in DER.
mod der;
/// Digests.
mod digest;
/// Devices, opened when they are needed.
mod framework;
/// The host as a device.
mod host;
/// A key that is kept.
mod key;
/// MACs.
mod mac;
/// Key pairs.
mod pair;
/// Many messages of a chained mode at a time.
mod pipes;
/// What was done, for others to read.
mod report;
/// The algorithms.
mod table;
/// Which of two devices is faster.
mod trial;

//! A provider for OpenSSL 3.x and 4.x: `gantry.so`.
//!
//! It wraps the default provider of the program that loads it. Each algorithm keeps its names, with the property `provider=gantry`. Each
//! context holds a context of the default provider and forwards everything to it, except requests that are faster on another device. The
//! library does not link libcrypto: OpenSSL's core passes in every function that the library calls.
//!
//! One request, followed through the files: OpenSSL calls an entry in `boundary`. The state machine of the algorithm's mode in
//! `modes` asks `framework` which side serves the request. `framework` asks `gantry_core` how much time a device saves. The request
//! then goes to the default provider's function in `libcrypto` or to a `gantry_core::Session`.
//!
//! Each row imports only the rows above it:
//!
//! | file | content |
//! |---|---|
//! | `abi.rs`, `table.rs`, `groups.rs`, `config.rs` | the provider interface as data, the algorithms, the TLS groups, the section of openssl.cnf |
//! | `libcrypto/` | OpenSSL's objects. `core.rs` and `default.rs` find the default provider, and `functions.rs` has its functions. `cipher.rs`, `keys.rs` and `kdf.rs` also have contexts for known answers and measurements, and `curve.rs` key exchange for hybrid groups. `params.rs` and `io.rs` read and write a call's data. `stack.rs` checks that the stack has room for devices |
//! | `derivations.rs` | PBKDF2 in SIMD lanes, shared by threads: no device has it, so there is no route to choose |
//! | `startup.rs` | the system calls of the module, made when it is loaded |
//! | `driver.rs`, `framework.rs`, `size_filter.rs` | the default provider as a device, and whether a request should leave it: `gantry_core::CallerDevice` knows how much time a device saves |
//! | `counters.rs`, `provider/` | the statistics, and the provider. `wrapped_algorithm.rs` has the default provider's algorithms behind our entries, and `group_backends.rs` the implementations of TLS groups |
//! | `modes/` | for each mode, when a request can leave the default provider; `group.rs` has the keys of TLS groups |
//! | `measure.rs`, `report.rs` | measures for `gantry advise` how much faster a device is |
//! | `boundary/` | the functions that OpenSSL calls. `entry.rs` is the module's entry point, `context.rs` is shared by all contexts, and `tables.rs` has the dispatch tables. `group_keys.rs` and `kem.rs` have the TLS groups that OpenSSL lacks before 3.5, and `hybrid_kem.rs` and `peer_share.rs` those that it has |

#![deny(unsafe_code)]

pub use config::{CONFIG_KEYS, MEASURED_ALGORITHMS_VARIABLE, REPORT_FILE_VARIABLE, RETIRED_CONFIG_KEYS};
pub use table::measured_names;

mod abi;
mod boundary;
mod config;
mod counters;
mod derivations;
mod driver;
mod framework;
mod groups;
mod libcrypto;
mod measure;
mod modes;
mod provider;
mod report;
mod size_filter;
mod startup;
mod table;

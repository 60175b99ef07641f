//! `libgantry.so.0`: Gantry for C and C++. `include/gantry.h` describes the interface.
//!
//! The library is this crate, linked with the version script `gantry.map` by `scripts/c-library`.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs` | the structures and numbers of `gantry.h` |
//! | `boundary/` | the functions for C: `open.rs`, `session.rs` (with batches), `many.rs` (messages and columns), `stream.rs`, `queue.rs`, `text.rs`; `memory.rs` and `handle.rs` check the arguments |
//! | `code.rs` | errors as numbers |
//! | `last_error.rs` | the message of a thread's last error |
//! | `ranges.rs` | checks that buffers do not overlap |

#![deny(unsafe_code)]

pub mod abi;
/// The C interface.
mod boundary;
/// Errors as numbers.
mod code;
/// The message of the last error.
mod last_error;
/// Checks for overlapping buffers.
mod ranges;

pub use boundary::*;
pub use code::Code;

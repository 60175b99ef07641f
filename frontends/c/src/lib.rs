//! `libgantry.so.0`: Gantry for C and C++. `include/gantry.h` describes the interface.
//!
//! The library is this crate, linked with the version script `gantry.map` by `scripts/c-library`.
//!
//! | file | content |
//! |---|---|
//! | `abi.rs` | the structures and numbers of `gantry.h` |
//! | `boundary/` | what C calls: `open.rs`, `session.rs` (with batches), `many.rs` (messages and columns), `stream.rs`, `queue.rs`, `text.rs`; `memory.rs` and `handle.rs` look at what C passes |
//! | `code.rs` | errors as numbers |
//! | `ranges.rs` | whether buffers lie apart |

#![deny(unsafe_code)]

pub mod abi;
/// Where C and Rust meet.
mod boundary;
/// Errors as numbers.
mod code;
/// Buffers that overlap.
mod ranges;

pub use boundary::*;
pub use code::Code;

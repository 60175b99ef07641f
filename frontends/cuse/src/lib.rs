//! `/dev/crypto` without a kernel module: a CUSE server that offers every device of Gantry to programs written for cryptodev.
//!
//! The path of a request through the files: `fuse.rs` parses the request from /dev/cuse. `plan.rs` determines the parts of the
//! caller's memory that the request needs, and the action. `memory.rs` reads these parts. `task.rs` performs the action in steps on
//! a session of the file (`session.rs`). `server.rs` is the loop that calls these files, and `workers.rs` has the threads for long
//! requests. `pending.rs` is the pending ioctl that these files pass on, `limits.rs` accounts for each user's resources, and
//! `wiped_bytes.rs` is the memory for all bytes that are read. `descriptor.rs` makes a caller duplicate its descriptor, by changes to
//! the caller's registers (`registers.rs`).
//! `gantry-protocols` searches TLS records for the MAC.
//!
//! **Batching.** The server reads all pending requests, and turns them into tasks. It passes the requests of all tasks that
//! can share a batch to core together: requests of one algorithm run side by side, across programs and keys.
//!
//! **No request delays the request of another caller.** A long request goes to a thread of its own with the state of its session.
//! Meanwhile requests of that session wait in order, and all others proceed.

#![forbid(unsafe_code)]

mod descriptor;
mod fuse;
#[cfg(test)]
mod hostile;
mod limits;
mod memory;
mod pending;
mod plan;
mod registers;
mod server;
mod session;
mod task;
mod wiped_bytes;
mod workers;

pub use limits::Limits;
pub use server::Server;

//! `/dev/crypto` without a kernel module: a CUSE server that offers every device of Gantry to programs written for cryptodev.
//!
//! One request, followed through the files: `fuse.rs` reads it from /dev/cuse, `plan.rs` says what it needs of its caller's
//! memory and what it is to do, `memory.rs` reads that, `task.rs` does it in steps on the `session.rs` of the file, `server.rs` is
//! the loop around them, and `workers.rs` has the threads for what takes long. `ask.rs` is the ioctl that all of them pass on,
//! `limits.rs` counts what each user has, and `wiped.rs` is the memory of all that is read. `descriptor.rs` makes a caller
//! duplicate its descriptor, by its `registers.rs`. The search for the MAC in a TLS record is that of `gantry-protocols`.
//!
//! **Gathering.** The server reads every request that is waiting, makes tasks of them, and hands the requests of all tasks
//! that can share a batch to core together: requests of one algorithm run side by side, of any programs and under any keys.
//! **Nobody waits for somebody else.** What is long goes to a thread of its own with the state of its session; meanwhile
//! requests of that session wait in order, and all others go on.

#![forbid(unsafe_code)]

mod ask;
mod descriptor;
mod fuse;
#[cfg(test)]
mod hostile;
mod limits;
mod memory;
mod plan;
mod registers;
mod server;
mod session;
mod task;
mod wiped;
mod workers;

pub use limits::Limits;
pub use server::Server;

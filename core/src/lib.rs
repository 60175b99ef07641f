//! Gantry gathers cryptographic requests and sends each one to the engine of the machine that serves it best.
//!
//! This crate is the framework. It holds no cryptography, and of the operating system it uses threads only.
//! Devices come from driver crates; `gantry-runtime` assembles both.
//!
//! One request, followed through the files: [`Session`] checks it, a [`Policy`] answers with a [`Route`], the route
//! names a [`Device`](driver::Device), and the device gives back an [`Outcome`].

#![deny(unsafe_code)]

/// The algorithms: one table, one row each.
mod algorithm;
/// Requests that wait for a device that is full.
mod backlog;
/// Time, real and simulated.
mod clock;
/// Enums with a code for each value.
mod coded;
/// From routes to devices and back.
mod dispatch;
/// What can go wrong, grouped by whose fault it is.
mod error;
/// Requests as futures.
#[cfg(feature = "futures")]
mod future;
/// Company for requests that come one at a time.
mod gather;
/// Calls into drivers that survive their panics.
mod guard;
/// The trust in a device.
mod health;
/// Tables of bytes.
mod hex;
/// Where requests come back to.
mod inbox;
/// Requests that change hands.
mod job;
/// A device shows that it computes what it should before it serves anybody.
mod kat;
mod kat_vectors;
/// What requests have to look like.
mod limits;
/// A thread's line to a device.
mod line;
/// What a session is made from: an algorithm, a direction, keys.
mod params;
/// A caller's own way to submit and complete.
mod queue;
/// What tests of races need.
#[cfg(all(test, loom))]
mod races;
/// The devices of a process, their state, and the policy between them.
mod registry;
/// One operation on a session, with its buffers.
mod request;
/// The choice of a device, with its reason.
pub mod route;
/// How keys of RSA lie in memory.
pub mod rsa;
/// Direct and batch dispatch.
mod session;
/// The memory of a queue's requests.
mod slots;
/// Requests that any thread puts down and one picks up.
mod stack;
// What has been done, where, and how long it took.
pub mod stats;
/// Messages that arrive in pieces.
mod stream;
/// A request that owns its buffers.
mod submission;
/// What several threads touch.
mod sync;
/// Whether company is worth it by what gets done.
mod trial;
/// A second look at some of the results.
mod verify;

// The contract between the framework and a driver: the one file a driver author reads.
pub mod driver;

pub use algorithm::{Algorithm, AlgorithmInfo, Kind, Lengths, Operation, UnknownAlgorithm};
pub use backlog::Priority;
pub use clock::{Clock, RealClock, VirtualClock};
pub use error::{Error, Fault, Misuse, Refusal, Result, Unsupported};
#[cfg(feature = "futures")]
pub use future::{Running, TaskQueue};
pub use gather::{Beginning, Presence};
pub use params::{Direction, SessionParams};
pub use queue::{Queue, QueueOptions, Rejected, Ticket, Why};
pub use registry::{DeviceState, Gantry, GantryBuilder, RegisteredDevice, WeakGantry};
pub use request::{Buffers, Outcome, Request};
pub use route::{Policy, Route};
pub use session::Session;
pub use stream::{AeadStream, CipherStream, Stream};
pub use submission::{Completion, Submission};

/// Compares two tags in a time that depends on their lengths only.
///
/// Everything that compares secrets, in core and in drivers, does it here.
#[must_use]
pub fn tags_equal(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}

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
/// What can go wrong, grouped by whose fault it is.
mod error;
/// Requests in the hands of a device.
mod job;
/// A device shows that it computes what it should before it serves anybody.
mod kat;
mod kat_vectors;
/// What a session is made from: an algorithm, a direction, keys.
mod params;
/// The devices of a process, their state, and the policy between them.
mod registry;
/// One operation on a session, with its buffers.
mod request;
/// The choice of a device, with its reason.
pub mod route;
/// Direct and batch dispatch.
mod session;
/// Messages that arrive in pieces.
mod stream;

// The contract between the framework and a driver: the one file a driver author reads.
pub mod driver;

pub use algorithm::{Algorithm, AlgorithmInfo, Kind, Lengths, Operation, UnknownAlgorithm};
pub use error::{Error, Fault, Misuse, Result, Unsupported};
pub use params::{Direction, SessionParams};
pub use registry::{DeviceState, Gantry, GantryBuilder, RegisteredDevice};
pub use request::{Buffers, Outcome, Request};
pub use route::{Policy, Route};
pub use session::Session;
pub use stream::{CipherStream, Stream};

/// Compares two tags in a time that depends on their lengths only.
///
/// Everything that compares secrets, in core and in drivers, does it here.
#[must_use]
pub fn tags_equal(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}

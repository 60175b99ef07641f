//! Gantry takes cryptographic requests and sends each one to the engine of the machine that serves it best.
//!
//! This crate is the framework. It holds no cryptography. It uses threads and clocks of the operating system, and a page of memory that
//! distinguishes a process from its children ([`Process`]). Devices come from driver crates; `gantry-runtime` joins them to a framework.
//!
//! ```
//! use gantry_core::{Algorithm, Gantry, SessionParams};
//!
//! # fn hash(gantry: &Gantry) -> gantry_core::Result<()> {
//! let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[]))?;
//! let mut digest = [0; 32];
//! session.digest(b"abc", &mut digest)?;
//! # Ok(()) }
//! ```
//!
//! The folders of the source are layers, and each uses only those before it: `process`, `algorithm`, `driver`, `stats`, `route`, `trust`,
//! `request`, `devices`, `dispatch`, `api`. A request passes through them: its [`Session`] checks it, a [`Policy`] answers with a
//! [`Route`], the route names a [`Device`](driver::Device), and the device gives back an [`Outcome`].

#![deny(unsafe_code)]

/// Algorithms, operations, parameters and errors.
mod algorithm;
/// The interface for programs.
mod api;
/// Time.
mod clock;
/// Enums that have a name for each value, in tables and JSON.
mod coded;
/// Devices: their queue pairs, backlogs, costs and health.
mod devices;
/// From requests to devices and back.
mod dispatch;
/// Requests.
mod request;
// The contract between the framework and drivers.
pub mod driver;
/// The process that runs this code.
mod process;
// The choice of a device, with its reason.
pub mod route;
/// Simulated time.
#[cfg(any(test, feature = "simulation"))]
mod simulation;
// Counts and times of requests.
pub mod stats;
/// Primitives that threads share, from the standard library or from loom.
mod sync;
/// Tests of devices and their results.
mod trust;

pub use algorithm::{
    Algorithm, AlgorithmInfo, Buffers, Data, DeviceHandles, Direction, Error, Esp, Fault, FieldLength, IoBuf, Kind,
    Lengths, Misuse, Operation, OperationInfo, Origin, Outcome, Prehash, Refusal, Region, Result, Segment, Segments,
    SessionParams, UnknownAlgorithm, Unsupported, esp, rsa, same_name, tags_equal,
};
pub use api::{
    AeadStream, CallerDevice, CipherStream, Completion, GantryBuilder, Queue, QueueOptions, RejectReason, Rejected,
    Session, Stream, Ticket,
};
#[cfg(feature = "futures")]
pub use api::{RequestFuture, TaskQueue};
pub use clock::{Clock, RealClock};
pub use devices::{DeviceState, Priority, RegisteredDevice};
pub use dispatch::{Gantry, WeakGantry};
pub use process::Process;
pub use request::{Request, Submission};
pub use route::{Policy, Route};
#[cfg(any(test, feature = "simulation"))]
pub use simulation::VirtualClock;
pub use sync::cpus;
pub use trust::{sample_key, sample_params, sample_text};

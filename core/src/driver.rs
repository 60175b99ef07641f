//! The contract between the framework and a driver. A driver author reads this file.
//!
//! A [`Driver`] discovers devices. A [`Device`] says in data what it can ([`DeviceInfo`], [`Capability`]), opens
//! sessions, and hands out queues. A request reaches it in one of two ways:
//!
//! * **direct**, [`DeviceSession::run`]: one request on the calling thread, done when the call returns. Only if the
//!   capability says [`direct`](Capability::direct).
//! * **in a batch**, [`DeviceQueue::submit`]: as many as there are, taken as [`Job`]s, completed now or in a later
//!   [`poll`](DeviceQueue::poll). A device that computes in the calling thread and gains nothing from company returns
//!   [`Inline`] and is done: a batch of one session then goes request by request to `DeviceSession::run`.
//!
//! What a device owes, in five rules:
//!
//! 1. *Full is not a failure.* Take what fits; leave the rest in the batch.
//! 2. *A result is not a failure either.* A bad tag is an [`Outcome`], and then no plaintext leaves: the output stays as
//!    it was or becomes zeros.
//! 3. *A failure is a [`Fault`].* Core runs the request elsewhere. So that it can, a device that offers
//!    [`in_place`](Capability::in_place) leaves the data of an in-place request as it was when it reports a fault. A panic
//!    is a fault, too, but promises nothing: a request that the driver had in hand in place then ends with an error.
//! 4. *Limits are stated, not hidden.* Core routes around them; a driver never copies data silently. A limit that no
//!    capability can state (nonces of one length only) is a [`Fault::Declined`] of the requests beyond it.
//! 5. *Every job comes back*, in time or when its queue is dropped. A dropped [`Job`] is reported as [`Fault::Lost`]. A device
//!    that is too late is quarantined, its queue is dropped, and what was in it runs elsewhere. A job that is kept even then, or
//!    forgotten, is the one thing by which a driver can hold a caller for ever:
//!    [`Session::process`](crate::Session::process) has lent it the caller's buffers, and cannot return before it is gone. (A
//!    [`Queue`](crate::Queue) owns its buffers and can be dropped; then they are never freed.)
//!
//! Core has checked keys, IVs, lengths and directions before a device sees them. Keys that a device keeps, it zeroizes.
//! Tags are compared with [`tags_equal`](crate::tags_equal).
//!
//! `drivers/null` is the smallest complete driver.

use std::any::Any;
use std::sync::Arc;
use std::task::Waker;

pub use crate::error::{Refusal, Unsupported};
pub use crate::job::{Batch, Completions, Job};
pub use crate::request::{Buffers, Operands};
use crate::{Algorithm, Fault, Operation, Outcome, SessionParams};

/// Code that discovers devices of one kind.
pub trait Driver: Send + Sync {
    /// One lower-case word.
    fn name(&self) -> &'static str;

    /// Called once, when a framework is built. May look at the machine, and starts nothing that goes on by itself.
    fn discover(&self) -> Vec<Found>;
}

/// What a driver found.
pub enum Found {
    /// A device that is ready for its known-answer tests.
    Device(Arc<dyn Device>),
    /// A device that is not to be used on this machine.
    Excluded {
        /// The name it would have.
        name: String,
        /// The class it would have.
        class: Class,
        /// Why not, for the operator.
        reason: String,
    },
}

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A cryptographic library on the CPU.
    Software,
    /// Many requests side by side in the registers of the CPU.
    Simd,
    /// A driver of the operating system's kernel.
    Kernel,
    /// A crypto card or engine.
    Hardware,
    /// A GPU.
    Gpu,
    /// Not an engine, but the model of one.
    Model,
}

impl Class {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Software => "software",
            Class::Simd => "simd",
            Class::Kernel => "kernel",
            Class::Hardware => "hardware",
            Class::Gpu => "gpu",
            Class::Model => "model",
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A device as data: nothing here changes while it lives.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Unique in a framework, for people and configuration files: `software`, `lanes`, `cuda:0`.
    pub name: String,
    /// The kind of engine.
    pub class: Class,
    /// One line for people: the model, the instruction set.
    pub description: String,
    /// Of the code or hardware behind it; what was measured of another version is not believed.
    pub version: String,
    /// One for each algorithm that it serves.
    pub capabilities: Vec<Capability>,
}

/// What a device offers for one algorithm. `..Capability::new(algorithm)` fills in what is usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Which of its operations.
    pub operations: &'static [Operation],
    /// Requests that run side by side at hardly any extra time; 1 for plain software.
    pub lanes: usize,
    /// Requests that can be in the device at once; `usize::MAX` when only memory ends it.
    pub ring: usize,
    /// Most bytes of data in one request.
    pub max_bytes: usize,
    /// Requests in hand from which the device is worth its start: the break-even against plain software. `usize::MAX` where plain
    /// software is better at any number.
    pub break_even: usize,
    /// The device works in the calling thread: [`DeviceSession::run`] works, and what a queue is given is done when it returns.
    pub direct: bool,
    /// Requests may have input and output in the same buffer.
    pub in_place: bool,
    /// [`DeviceSession::digest_stream`], [`DeviceSession::cipher_stream`] or [`DeviceSession::aead_stream`] works: the one of
    /// the algorithm's kind.
    pub streaming: bool,
}

impl Capability {
    /// Every operation, one at a time, in the calling thread, in place or not, without limits and without streams.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            operations: algorithm.kind().operations(),
            lanes: 1,
            ring: usize::MAX,
            max_bytes: usize::MAX,
            break_even: 1,
            direct: true,
            in_place: true,
            streaming: false,
        }
    }
}

/// One engine.
pub trait Device: Send + Sync {
    /// What it is and can.
    fn info(&self) -> &DeviceInfo;

    /// Prepares keys. Called once for each session that a route leads here, from any thread; may block.
    /// [`Refusal::Unsupported`] says what about these very parameters the device cannot do; the route then leads elsewhere, for
    /// good. With a [`Refusal::Fault`] it leads elsewhere until the device has come back from its quarantine.
    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal>;

    /// A queue for one thread at a time: its lanes, its ring, its stream. Core keeps it and calls again when several
    /// threads work at once; may block. All of a device's queues are [`Inline`], or none. A fault is the device's, as that of a request.
    fn attach(&self) -> Result<Box<dyn DeviceQueue>, Fault> {
        Ok(Box::new(Inline))
    }
}

/// A session on a device: immutable, shared by threads.
pub trait DeviceSession: Send + Sync + Any {
    /// Runs one request on the calling thread. Never called with `Update` and `Finish`: those reach the stream itself, or,
    /// in a batch, a queue of the device's own. Allocates nothing, waits for nobody.
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault>;

    /// The start of a message that comes in pieces, of a digest or MAC.
    fn digest_stream(&self) -> Result<Box<dyn DigestStream>, Unsupported> {
        Err(Unsupported::because("no streams"))
    }

    /// The start of data that comes in pieces, of a cipher. `iv` has been checked.
    fn cipher_stream(&self, operation: Operation, iv: &[u8]) -> Result<Box<dyn CipherStream>, Unsupported> {
        let _ = (operation, iv);
        Err(Unsupported::because("no streams"))
    }

    /// Messages of an AEAD that come in pieces, one after the other.
    fn aead_stream(&self, operation: Operation) -> Result<Box<dyn AeadStream>, Unsupported> {
        let _ = operation;
        Err(Unsupported::because("no streams"))
    }
}

/// The state of a digest or MAC between two pieces of its message. Zeroized when dropped.
pub trait DigestStream: Send + Any {
    /// [`Operation::Digest`] or [`Operation::Mac`].
    fn operation(&self) -> Operation;

    /// Takes the next piece.
    fn update(&mut self, input: &[u8]) -> Result<(), Fault>;

    /// Writes the digest or MAC, and stands at the beginning of the next message.
    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn DigestStream>;
}

/// The state of a cipher between two pieces of its data. Zeroized when dropped.
pub trait CipherStream: Send + Any {
    /// Takes the next piece, whose length is a multiple of the algorithm's block.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn CipherStream>;
}

/// The state of an AEAD between two pieces of its message. Zeroized when dropped.
///
/// Opening, it gives out plaintext before the tag is known to be good. Only an interface that cannot be served otherwise
/// asks for it, and whoever asks answers for what happens to the plaintext.
pub trait AeadStream: Send + Any {
    /// A new message, whatever became of the last one. `iv` has been checked.
    fn begin(&mut self, iv: &[u8], aad: &[u8]) -> Result<(), Fault>;

    /// Takes the next piece, of any length.
    fn update(&mut self, data: Buffers<'_>) -> Result<(), Fault>;

    /// Writes the whole tag of what went by, sealing.
    fn seal(&mut self, tag: &mut [u8]) -> Result<(), Fault>;

    /// Compares the tag, whole or cut, with that of what went by, opening: [`Outcome::Done`] or [`Outcome::BadTag`].
    fn open(&mut self, tag: &[u8]) -> Result<Outcome, Fault>;

    /// A second stream that stands where this one does.
    fn duplicate(&self) -> Box<dyn AeadStream>;
}

/// A thread's way into a device.
///
/// Dropping it takes back what is in the device: the device touches none of these jobs any more, and they are dropped.
/// This is how core gets its requests back from a device that does not answer in time.
pub trait DeviceQueue: Send + Any {
    /// Takes jobs from the front of the batch while there is room, and may complete them right away. Does not wait for
    /// room: what is left in the batch is offered again after a `poll`. The jobs are of one algorithm and one operation;
    /// their sessions may differ.
    fn submit(&mut self, batch: &mut Batch<'_>);

    /// Completes what is ready, without waiting. Returns how many jobs of this queue are still in the device.
    fn poll(&mut self, done: &mut Completions) -> usize;

    /// Wakes `waker` once when the next job of this queue is ready, or at once if one is. `false` from a device that cannot:
    /// it has to be polled.
    fn arm(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }
}

/// The queue of a device that has none: runs each job where it stands.
#[derive(Debug)]
pub struct Inline;

impl DeviceQueue for Inline {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        while let Some(mut job) = batch.take() {
            let result = job.run_direct();
            batch.complete(job, result);
        }
    }

    fn poll(&mut self, _done: &mut Completions) -> usize {
        0
    }
}

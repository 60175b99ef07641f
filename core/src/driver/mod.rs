//! The contract between the framework and a driver, whole: a driver author reads this folder and nothing else.
//!
//! A [`Driver`] discovers devices. A [`Device`] says in data what it can ([`DeviceInfo`], [`Capability`]), opens sessions,
//! and hands out queue pairs. A request reaches it in one of two ways:
//!
//! * **direct**, [`DeviceSession::run`]: one request on the calling thread, done when the call returns. Only if the
//!   capability says [`direct`](Capability::direct).
//! * **in a batch**, [`QueuePair::submit`]: a burst of requests, completed at once or in a later
//!   [`poll`](QueuePair::poll). A device that computes in the calling thread, and gains nothing from several requests at a
//!   time, returns [`Inline`]: a batch of one session then goes request by request to `DeviceSession::run`.
//!
//! What a device owes, in five rules:
//!
//! 1. *Full is not a failure.* Take what fits; leave the rest in the batch. A device without a free queue pair says so
//!    (`Ok(None)` of [`Device::attach`]), and threads share those that it has.
//! 2. *A result is not a failure either.* A bad tag is an [`Outcome`](crate::Outcome), and then no plaintext leaves: the output stays as it
//!    was or becomes zeros.
//! 3. *A failure is a [`Fault`](crate::Fault).* Core runs the request elsewhere. So that it can, a device that offers
//!    [`in_place`](Capability::in_place) leaves the data of an in-place request as it was when it reports a fault. A panic
//!    is a fault, too, but promises nothing: a request that was being changed in place then ends with an error.
//! 4. *Limits are stated, not hidden.* Core routes around them; a driver never copies data silently. A limit that no
//!    capability can state (nonces of one length only) is a [`Fault::Declined`](crate::Fault::Declined) of the requests beyond it.
//! 5. *Every job comes back*, in time or when its queue pair is dropped. A dropped [`Job`] is reported as [`Fault::Lost`](crate::Fault::Lost). A
//!    device that is late is quarantined, its queue pair is dropped, and its requests run elsewhere. A driver that leaks a
//!    `Job` blocks [`Session::process`](crate::Session::process) forever, because that call has lent the caller's buffers.
//!    (A [`Queue`](crate::Queue) owns its buffers and can be dropped; they are then never freed.)
//!
//! Data reach a device in contiguous buffers, unless its [`DeviceLimits`] say that its queue pairs take segments of regions:
//! [`Job::segments`] then has them, by the rule of [`DeviceLimits::takes`]. Whatever is outside of that rule core copies, and counts
//! in [`Event::Copied`](crate::stats::Event::Copied); no other data are ever copied. The five rules hold for segments as for
//! buffers: with a bad tag those of the output stay as they were or become zeros, and a device that offers in-place requests leaves
//! them as they were when it reports a fault. [`DeviceSession::run`] never gets segments.
//!
//! Core has checked keys, IVs, lengths and directions before a device sees them. Keys that a device keeps, it zeroizes.
//! Tags are compared with [`tags_equal`](crate::tags_equal).
//!
//! `drivers/null` is the smallest complete driver.

mod capability;
mod device;
pub(crate) mod entry;
mod guard;
mod job;
mod operands;
mod queue_pair;
mod session;
mod stream;

use std::sync::Arc;

pub use capability::Capability;
pub use device::{Class, Device, DeviceInfo, DeviceLimits, MemoryKinds};
pub(crate) use guard::{guarded, survived};
pub use job::{Batch, Completions, Job, Offer};
pub use operands::{Fields, Operands, Results, Scattered, View};
pub use queue_pair::{Inline, QueuePair};
pub use session::DeviceSession;
pub use stream::{AeadStream, CipherStream, DigestStream};

pub use crate::algorithm::{
    Answer, Buffers, DeviceHandles, Origin, Refusal, Region, Segment, Segments, Unregistered, Unsupported,
};

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

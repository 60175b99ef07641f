//! The complete contract between the framework and a driver: a driver author reads only this folder.
//!
//! A [`Driver`] discovers devices. A [`Device`] describes itself as data ([`DeviceInfo`], [`Capability`]), opens sessions,
//! and provides queue pairs. A request reaches a device in one of two ways:
//!
//! * **direct**, [`DeviceSession::run`]: one request on the calling thread, done when the call returns. Core uses this way
//!   only if the capability is [`synchronous`](Capability::synchronous).
//! * **in a batch**, [`QueuePair::submit`]: a burst of requests, completed at once or in a later [`poll`](QueuePair::poll).
//!   A device that computes in the calling thread, and gains nothing from batches, returns [`Inline`]: core then passes
//!   each request of a batch to `DeviceSession::run`. A device that runs requests side by side in the calling thread
//!   implements [`DeviceSession::run_batch`], and its queue pair calls [`Batch::run_direct`].
//!
//! A device follows five rules:
//!
//! 1. *Full is not a failure.* Take the requests that fit; leave the rest in the batch. If no queue pair is free,
//!    [`Device::attach`] returns `Ok(None)`, and threads share the existing ones.
//! 2. *A result is not a failure either.* A bad tag is an [`Outcome`](crate::Outcome), and no plaintext is released: the
//!    output stays unchanged or becomes zeros.
//! 3. *A failure is a [`Fault`](crate::Fault).* Core runs the request on another device. Therefore a device that offers
//!    [`in_place`](Capability::in_place) leaves the data of an in-place request unchanged when it reports a fault. A panic
//!    is also a fault, but gives no such guarantee: a request that was being changed in place then ends with an error.
//! 4. *Limits are declared.* Core routes around them; a driver never copies data silently. If a capability cannot
//!    express a limit (such as one nonce length), requests beyond it get [`Fault::Declined`](crate::Fault::Declined).
//! 5. *Every job comes back*, in time or when its queue pair is dropped. A dropped [`Job`] is reported as
//!    [`Fault::Lost`](crate::Fault::Lost). A device that is late is quarantined, its queue pair is dropped, and its
//!    requests run elsewhere. A driver that leaks a `Job` blocks [`Session::process`](crate::Session::process) forever,
//!    because that call has lent the caller's buffers. A [`Queue`](crate::Queue) owns its buffers and can be dropped; the
//!    buffers of a leaked job are then never freed.
//!
//! Data reach a device in contiguous buffers, unless its [`DeviceLimits`] say that its queue pairs take segments of
//! regions. [`Job::segments`] then returns the segments if [`DeviceLimits::takes`] allows it. Core copies the data of all
//! other segments, and counts the bytes in [`Event::Copied`](crate::stats::Event::Copied). Core copies other data only for
//! requests that it verifies in software. The five rules also hold for segments. With a bad tag, output segments stay
//! unchanged or become zeros. A device that offers in-place requests leaves the segments unchanged when it reports a fault.
//! [`DeviceSession::run`] never gets segments.
//!
//! Core checks keys, IVs, lengths and directions before a device sees them. A device zeroizes the keys that it keeps, and
//! compares tags with [`tags_equal`](crate::tags_equal).
//!
//! `drivers/null` is the smallest complete driver.

mod capability;
pub(crate) mod chain;
mod device;
pub(crate) mod entry;
mod guard;
mod job;
mod operands;
mod queue_pair;
mod stream;

use std::sync::Arc;

pub use capability::Capability;
pub use device::{Class, Device, DeviceInfo, DeviceLimits, MemoryKinds};
pub use entry::{DeviceSession, Offer};
pub(crate) use guard::{call_guarded, catch_panic};
pub use job::{Batch, Completions, Job};
pub use operands::{Fields, Operands, Results, Scattered, View};
pub use queue_pair::{Inline, QueuePair};
pub use stream::{AeadStream, CipherStream, DigestStream};

pub use crate::algorithm::{
    Answer, Buffers, DeviceHandles, Origin, Refusal, Region, RegistrationError, Segment, Segments, Unsupported,
};

/// Code that discovers devices of one kind.
pub trait Driver: Send + Sync {
    /// Returns the name: one lower-case word.
    fn name(&self) -> &'static str;

    /// Finds the devices of this machine. Called once, when a framework is built. Must not start background activity.
    fn discover(&self) -> Vec<Found>;
}

/// A result of discovery.
pub enum Found {
    /// A device that is ready for its known-answer tests.
    Device(Arc<dyn Device>),
    /// A device that must not be used on this machine.
    Excluded {
        /// The name of the device.
        name: String,
        /// The class of the device.
        class: Class,
        /// The reason, for the operator.
        reason: String,
    },
}

//! A device: its description as data, its sessions and its queue pairs.

use std::fmt;
use std::sync::Arc;

use super::capability::Capability;
use super::entry::DeviceSession;
use super::operands::Scattered;
use super::queue_pair::{Inline, QueuePair};
use crate::algorithm::{Fault, Origin, Refusal, Segment, SessionParams};

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// A cryptographic library on the CPU.
    Software,
    /// SIMD code that processes many requests side by side.
    Simd,
    /// A driver of the operating system's kernel.
    Kernel,
    /// A crypto card or another hardware accelerator.
    Hardware,
    /// A GPU.
    Gpu,
    /// A model of an engine.
    Model,
}

impl Class {
    /// Returns the name in tables and JSON.
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

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A device as data, constant while the device lives. `..DeviceInfo::new(name, class)` fills in the usual values.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Unique in a framework, for people and configuration files: `software`, `lanes`, `dpdk:crypto_openssl`.
    pub name: String,
    /// The kind of engine.
    pub class: Class,
    /// One line for people: the model, the instruction set.
    pub description: String,
    /// The version of the code or hardware behind the device. Measurements of another version are discarded.
    pub version: String,
    /// The engine itself says that it is a FIPS 140 validated module, in its approved mode. Its certificate lists the approved algorithms.
    pub validated: bool,
    /// One entry for each supported algorithm.
    pub capabilities: Vec<Capability>,
    /// The limits of the device.
    pub limits: DeviceLimits,
}

impl DeviceInfo {
    /// Describes a device without description, version, capabilities and limits.
    pub fn new(name: impl Into<String>, class: Class) -> Self {
        Self {
            name: name.into(),
            class,
            description: String::new(),
            version: String::new(),
            validated: false,
            capabilities: Vec::new(),
            limits: DeviceLimits::default(),
        }
    }
}

/// The limits of a device. `usize::MAX` means that only memory limits the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Maximum attached queue pairs. Threads share queue pairs if there are fewer queue pairs than CPUs.
    pub queue_pairs: usize,
    /// Maximum open sessions. At the limit, core closes the least recently used session and reopens it for its next
    /// request.
    pub sessions: usize,
    /// Maximum input segments in one job, and maximum output segments if the job does not work in place.
    pub segments: usize,
    /// The required alignment of each segment's address, in bytes. Contiguous buffers have any alignment.
    pub alignment: usize,
    /// Memory that a queue pair takes in addition to contiguous Rust buffers.
    pub memory: MemoryKinds,
}

/// Memory that a queue pair takes in addition to contiguous Rust buffers, which every device takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKinds {
    /// Segments of regions: a job then [has them](super::Job::segments) instead of buffers.
    pub regions: bool,
    /// Segments that other processes, guests or devices may write at any time. A device with this flag reads each input byte
    /// only once, so that it decrypts the same bytes as it authenticates.
    pub foreign: bool,
}

impl Default for DeviceLimits {
    fn default() -> Self {
        let memory = MemoryKinds::default();
        Self { queue_pairs: usize::MAX, sessions: usize::MAX, segments: 1, alignment: 1, memory }
    }
}

impl DeviceLimits {
    /// Returns true if core can pass these segments to the device without a copy. The queue pairs must take regions of each
    /// segment's origin, the number of segments must be within the limit, and every segment must be aligned. Otherwise core
    /// copies the data once into its own buffer, and the device processes the copy.
    pub fn takes(&self, scattered: &Scattered<'_>) -> bool {
        let Self { segments, alignment, memory, .. } = *self;
        let takes = |list: &[Segment]| {
            list.len() <= segments
                && list.iter().all(|segment| {
                    let is_allowed = memory.foreign || segment.region().origin() == Origin::Trusted;
                    is_allowed && segment.address().addr().get() % alignment.max(1) == 0
                })
        };
        memory.regions && takes(scattered.input.list()) && takes(scattered.output.list())
    }
}

/// One engine.
pub trait Device: Send + Sync {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Prepares keys for a session. May block, and may be called from any thread.
    ///
    /// Core calls this function when a request of the session is first routed to this device, or earlier for
    /// [`Session::prepare`](crate::Session::prepare). Core calls it again after closing the session because of
    /// [`DeviceLimits::sessions`].
    ///
    /// # Errors
    ///
    /// [`Refusal::Unsupported`] names the parameter that the device does not support; the session never uses the device
    /// again. [`Refusal::Fault`] quarantines the device, unless the fault is [`Fault::Declined`]. Core calls this function
    /// again for a later request.
    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal>;

    /// Returns a queue pair, which one thread at a time uses; `None` if all are taken. May block.
    ///
    /// Core keeps the queue pair, and calls this function again when several threads work at once. Either every queue pair
    /// of a device is [`Inline`] or none is.
    ///
    /// # Errors
    ///
    /// Returning a [`Fault`] other than [`Fault::Declined`] quarantines the device.
    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Inline)))
    }
}

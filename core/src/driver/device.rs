//! A device: what it is, as data, and how it hands out sessions and queue pairs.

use std::fmt;
use std::sync::Arc;

use super::capability::Capability;
use super::operands::Scattered;
use super::queue_pair::{Inline, QueuePair};
use super::session::DeviceSession;
use crate::algorithm::{Fault, Origin, Refusal, Segment, SessionParams};

/// The kind of engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
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

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A device as data: nothing here changes while it lives. `..DeviceInfo::new(name, class)` fills in what is usual.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Unique in a framework, for people and configuration files: `software`, `lanes`, `dpdk:crypto_openssl`.
    pub name: String,
    /// The kind of engine.
    pub class: Class,
    /// One line for people: the model, the instruction set.
    pub description: String,
    /// Of the code or hardware behind it; what was measured of another version is not believed.
    pub version: String,
    /// One for each algorithm that it serves.
    pub capabilities: Vec<Capability>,
    /// How much of it there is.
    pub limits: DeviceLimits,
}

impl DeviceInfo {
    /// A device without description, version and capabilities, and without limits.
    pub fn new(name: impl Into<String>, class: Class) -> Self {
        Self {
            name: name.into(),
            class,
            description: String::new(),
            version: String::new(),
            capabilities: Vec::new(),
            limits: DeviceLimits::default(),
        }
    }
}

/// How much of a device there is. `usize::MAX` means that only memory ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Queue pairs that can be attached at once. Threads share them where there are fewer than CPUs.
    pub queue_pairs: usize,
    /// Sessions that can be open at once. Core closes the one that was not used for longest, and opens it again when its
    /// next request comes.
    pub sessions: usize,
    /// Most segments of input, and of output where that is elsewhere, that a queue pair takes in one job.
    pub segments: usize,
    /// What the address of each segment is a multiple of. Other buffers come as the caller has them.
    pub alignment: usize,
    /// Memory that a queue pair takes besides contiguous buffers of Rust's.
    pub memory: MemoryKinds,
}

/// Memory that a queue pair takes besides contiguous buffers of Rust's, which every device takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKinds {
    /// Segments of regions: a job then [has them](super::Job::segments) instead of buffers.
    pub regions: bool,
    /// Such segments even if others may write them at any time. The device reads each byte of input once, so that what it
    /// authenticates is what it decrypts, and believes nothing that it reads a second time.
    pub foreign: bool,
}

impl Default for DeviceLimits {
    fn default() -> Self {
        let memory = MemoryKinds::default();
        Self { queue_pairs: usize::MAX, sessions: usize::MAX, segments: 1, alignment: 1, memory }
    }
}

impl DeviceLimits {
    /// The rule by which core hands segments to a device as they are: its queue pairs take regions, of the origin that each
    /// has; there are no more segments than it takes; and all are aligned. Whatever breaks the rule is copied, once, into a
    /// buffer of core's, and the copy is what is processed.
    pub fn takes(&self, scattered: &Scattered<'_>) -> bool {
        let Self { segments, alignment, memory, .. } = *self;
        let takes = |list: &[Segment]| {
            list.len() <= segments
                && list.iter().all(|segment| {
                    let kind = memory.foreign || segment.region().origin() == Origin::Trusted;
                    kind && segment.address().addr().get() % alignment.max(1) == 0
                })
        };
        memory.regions && takes(scattered.input.list()) && takes(scattered.output.list())
    }
}

/// One engine.
pub trait Device: Send + Sync {
    /// What it is and can.
    fn info(&self) -> &DeviceInfo;

    /// Prepares keys. Called for a session when a route first leads it here, or ahead of that
    /// ([`Session::prepare`](crate::Session::prepare)), and again where the device has a limit of sessions and this one was
    /// closed; from any thread; may block. [`Refusal::Unsupported`] says what about these very parameters the device cannot
    /// do; the route then leads elsewhere, for good. With a [`Refusal::Fault`] it leads elsewhere until the device has come
    /// back from its quarantine.
    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal>;

    /// A queue pair for one thread at a time: its lanes, its ring, its stream. `None` while all are taken. Core keeps it, and
    /// calls again when several threads work at once; may block. Either every queue pair of a device is [`Inline`] or none
    /// is. A fault quarantines the device.
    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(Inline)))
    }
}

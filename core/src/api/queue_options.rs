//! What a queue is like.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use crate::devices::Priority;

/// What a queue is like.
#[derive(Clone)]
pub struct QueueOptions {
    /// Most requests that are in the queue or in devices at once: 1 to 65536.
    pub depth: usize,
    /// Most bytes of them. A single request may be larger, when nothing else is there.
    pub bytes: usize,
    /// How urgent the requests are, where a device has too little room for all.
    pub class: Priority,
    /// The share of such a device, relative to other queues of the class: 1 to 1024.
    pub weight: u32,
    /// How long a request waits for others to go with at most. With zero it goes with those that are there when `complete` is
    /// called.
    pub coalesce: Duration,
    /// Called for each completion as soon as this queue finds it, instead of by [`Queue::complete`](crate::Queue::complete).
    pub immediate: Option<Arc<dyn Fn(Completion) + Send + Sync>>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            depth: 256,
            bytes: 64 << 20,
            class: Priority::default(),
            weight: 1,
            coalesce: Duration::from_micros(20),
            immediate: None,
        }
    }
}

impl fmt::Debug for QueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { depth, bytes, class, weight, coalesce, immediate } = self;
        let immediate = immediate.is_some();
        write!(f, "depth {depth}, {bytes} bytes, {class:?}, weight {weight}, {coalesce:?}, immediate {immediate}")
    }
}

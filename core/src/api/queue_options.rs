//! Options of a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use crate::devices::Priority;

/// Options of a queue.
#[derive(Clone)]
pub struct QueueOptions {
    /// Maximum number of requests in the queue and in devices: 1 to 65536.
    pub depth: usize,
    /// Maximum bytes of the requests in the queue and in devices. A larger request is taken if the queue is empty.
    pub bytes: usize,
    /// Priority of the requests on a device with too little room for all requests.
    pub class: Priority,
    /// Share of a device with too little room, relative to other queues of the class: 1 to 1024.
    pub weight: u32,
    /// Longest time that a request waits to be batched. With zero, each call of `complete` sends the requests that are waiting.
    pub coalesce: Duration,
    /// Called for each completion as soon as a method of this queue finds it. [`Queue::complete`](crate::Queue::complete) then has none to
    /// deliver, and [`Queue::wait`](crate::Queue::wait) returns 0 when no request is in flight.
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

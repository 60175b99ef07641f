//! Queue pairs, through which a thread's bursts enter a device and come back.

use std::any::Any;
use std::task::Waker;

use super::job::{Batch, Completions};

/// A queue pair of a device. One thread at a time uses it.
///
/// Dropping the queue pair takes back all jobs in the device: the device no longer touches them, and they are dropped. In this way core
/// gets its requests back from a device that does not answer in time.
pub trait QueuePair: Send + Any {
    /// Takes jobs from the front of the batch while there is room, and may complete them at once. Does not wait for room: core offers the
    /// remaining jobs again after a `poll`. All jobs have the same algorithm and operation; their sessions may differ.
    fn submit(&mut self, batch: &mut Batch<'_>);

    /// Notifies the device of new descriptors, for example by a write to a register. Called after one or more `submit`s.
    fn doorbell(&mut self) {}

    /// Completes finished jobs, in any order, without waiting. Returns the number of jobs of this queue pair that are still in the device.
    fn poll(&mut self, done: &mut Completions) -> usize;

    /// Wakes `waker` once when the next job of this queue pair is ready, or at once if a job is ready already. Returns `false` if the
    /// device cannot notify, and must be polled.
    fn arm(&mut self, waker: &Waker) -> bool {
        let _ = waker;
        false
    }
}

/// The queue pair of a device that needs no queue: it runs each job on the calling thread.
#[derive(Debug)]
pub struct Inline;

impl QueuePair for Inline {
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

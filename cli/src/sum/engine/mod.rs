//! Hashes many files at once, on all cores, and reports their digests in the order in which the files were named.
//!
//! The calling thread feeds a [`Pipeline`] and receives the results in order through its [`Sink`]. Workers take files from
//! the [`Queue`], read them piece by piece and hash the pieces of all their files together. Which device hashes a file is
//! the framework's choice. Memory is bounded by the pieces and by the window, which is the distance between the first
//! unreported file and the last that a worker may take.
//!
//! A caller must not notice that files are read early. A pipe, a terminal, `-`, and anything else that is not a regular
//! file is left to the calling thread, which opens it when everything before it has been reported, as a sequential tool
//! would. Files behind it may have been read by then; those that changed since are read again. `tee copy | sum - copy`
//! depends on it.
//!
//! Files: [`pipeline`] feeds and reports, [`queue`] holds files and results, [`worker`] hashes many files in rounds,
//! [`single`] hashes one, [`read`] reads.

mod pipeline;
mod queue;
mod read;
mod single;
mod worker;

use std::thread::{Builder, available_parallelism};

use gantry_core::{Operation, Session};
use indicatif::ProgressBar;

use super::digest::Digest;
use super::function::{By, Functions};
use crate::io::sys;

pub(super) use pipeline::{Pipeline, Sink};
use queue::Queue;
use read::PIECE;
pub(in crate::sum) use read::Stamp;
use worker::Worker;

/// Files that a worker reads side by side, within these bounds: fewer would make small batches of small files; the pieces of more
/// would not fit into the cache.
const LEAST_SLOTS: usize = 8;
const MOST_SLOTS: usize = 16;
/// More workers would only wait for the file system, and each may hold [`MOST_SLOTS`] files open.
const MOST_WORKERS: usize = 16;
/// File descriptors that are left to the rest of the process.
const OTHER_DESCRIPTORS: usize = 16;

/// Shared by all threads of a run.
pub(super) struct Engine {
    workers: usize,
    /// Files that each worker reads side by side.
    slots: usize,
    progress: ProgressBar,
    queue: Queue,
}

/// What was found out about a file.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Of each function, in its order.
    pub(super) digests: Vec<Digest>,
    /// Bytes that were read.
    pub(super) bytes: u64,
    /// Of a regular file, its state before it was read.
    pub(super) stamp: Option<Stamp>,
    /// The digests are those of an earlier run.
    pub(super) cached: bool,
}

impl Engine {
    /// An engine for up to `files` files, of at most `threads` threads; without a number, one for each CPU. `functions` are those of all
    /// files, if that is known. Bytes that have been hashed are added to `progress`.
    pub(super) fn new(
        functions: Option<&Functions>,
        files: usize,
        threads: Option<usize>,
        progress: ProgressBar,
    ) -> Self {
        // A single file gains nothing from a worker.
        if files <= 1 {
            return Self { workers: 0, slots: 0, progress, queue: Queue::new(0) };
        }
        let most_open = sys::most_open_files().saturating_sub(OTHER_DESCRIPTORS).max(1);
        let threads = threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let workers = threads.min(MOST_WORKERS).min(most_open).min(files);
        let slots = functions.map_or(MOST_SLOTS, most_slots).min(most_open / workers);
        Self { workers, slots, progress, queue: Queue::new(workers * slots) }
    }

    /// Runs `feed` and returns when every result has been reported.
    pub(super) fn run<N, S: Sink<N>>(&self, sink: &mut S, feed: impl FnOnce(&mut Pipeline<'_, N, S>)) {
        std::thread::scope(|scope| {
            // Unwinding must close the queue, too: the scope waits for the workers.
            let _close = Close(&self.queue);
            let spawn = |_: &usize| Builder::new().spawn_scoped(scope, || Worker::new(self).run()).is_ok();
            // If the system refuses a thread, the workers that there are do all the work.
            let workers = (0..self.workers).take_while(spawn).count();
            self.queue.remove_slots((self.workers - workers) * self.slots);
            let mut pipeline = Pipeline::new(self, sink, workers > 0);
            feed(&mut pipeline);
            pipeline.drain();
        });
    }
}

/// Files side by side for the function with the most lanes.
fn most_slots(functions: &Functions) -> usize {
    let of_each = functions.iter().map(|function| match &function.by {
        By::Session(session) => slots(lanes(session)),
        By::Blake2b512 | By::Blake3 => LEAST_SLOTS,
    });
    of_each.max().unwrap_or(LEAST_SLOTS)
}

/// How many pieces the device that the framework chooses for many of them hashes side by side.
fn lanes(session: &Session) -> usize {
    let route = session.route(Operation::Digest, PIECE, MOST_SLOTS);
    let device = route.map(|route| &session.gantry().devices()[route.device]);
    device.and_then(|device| device.capability(session.params().algorithm())).map_or(1, |capability| capability.lanes)
}

/// Files side by side for so many lanes: a multiple, or the last lanes of each round would be idle.
fn slots(lanes: usize) -> usize {
    LEAST_SLOTS.next_multiple_of(lanes).min(MOST_SLOTS)
}

/// Closes the queue when it goes out of scope.
struct Close<'e>(&'e Queue);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_side_by_side_fill_all_lanes() {
        for (lanes, files) in [(1, 8), (2, 8), (4, 8), (6, 12), (8, 8), (16, 16), (32, 16)] {
            assert_eq!(slots(lanes), files);
        }
    }
}

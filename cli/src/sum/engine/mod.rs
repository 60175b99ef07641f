//! Hashes many files at once, on all cores, and reports their digests in the order of the files.
//!
//! The calling thread feeds a [`Pipeline`] and receives the results in order through its [`Sink`]. Workers take files from the [`Queue`],
//! read them piece by piece, and hash the pieces of all their files together. The framework chooses the device for each file. Memory is
//! bounded by the pieces and by the window: the distance between the first unreported file and the last that a worker may take.
//!
//! Users must not notice that files are read early. The calling thread reads `-`, pipes, terminals, and other inputs that are not regular
//! files. It opens each of them only after all inputs before it have been reported, as a sequential tool does. Workers may have read later
//! files by then; files that changed since are read again. `tee copy | sum - copy` depends on this.
//!
//! Files: [`pipeline`] feeds and reports, [`queue`] holds files and results, [`worker`] hashes many files in rounds, [`single`] hashes one,
//! [`read`] reads.

mod pipeline;
mod queue;
mod read;
mod single;
mod worker;

use std::thread::{Builder, available_parallelism};

use gantry_core::{Operation, Session};
use indicatif::ProgressBar;

use super::digest::Digest;
use super::function::{Functions, Implementation};
use crate::io::sys;

pub(super) use pipeline::{Pipeline, Sink};
use queue::Queue;
use read::PIECE_SIZE;
pub(in crate::sum) use read::Stamp;
pub(super) use single::hash_single;
use worker::Worker;

/// Least and most files that a worker reads side by side: fewer would make small batches of small files, and the pieces of more would not
/// fit into the cache.
const MIN_SLOTS: usize = 8;
const MAX_SLOTS: usize = 16;
/// Most workers: more would only wait for the file system, and each may hold [`MAX_SLOTS`] files open.
const MAX_WORKERS: usize = 16;
/// File descriptors reserved for the rest of the process.
const RESERVED_DESCRIPTORS: usize = 16;

/// State shared by all threads of a run.
pub(super) struct Engine {
    workers: usize,
    /// Files that each worker reads side by side.
    slots_per_worker: usize,
    progress: ProgressBar,
    queue: Queue,
}

/// Results for a file.
#[derive(Clone, Debug)]
pub(super) struct HashedFile {
    /// One digest for each function, in the order of the functions.
    pub(super) digests: Vec<Digest>,
    /// Bytes that were read.
    pub(super) bytes: u64,
    /// The state of a regular file before it was read.
    pub(super) stamp: Option<Stamp>,
    /// True if the digests are from the cache.
    pub(super) cached: bool,
}

impl Engine {
    /// Creates an engine for up to `files` files and at most `threads` threads; `None` means one for each CPU. `functions` are the
    /// functions of all files, if known. Adds the hashed bytes to `progress`.
    pub(super) fn new(
        functions: Option<&Functions>,
        files: usize,
        threads: Option<usize>,
        progress: ProgressBar,
    ) -> Self {
        // A single file does not gain from a worker.
        if files <= 1 {
            return Self { workers: 0, slots_per_worker: 0, progress, queue: Queue::new(0) };
        }
        let max_open = sys::max_open_files().saturating_sub(RESERVED_DESCRIPTORS).max(1);
        let threads = threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let workers = threads.min(MAX_WORKERS).min(max_open).min(files);
        let slots_per_worker = functions.map_or(MAX_SLOTS, max_slots).min(max_open / workers);
        Self { workers, slots_per_worker, progress, queue: Queue::new(workers * slots_per_worker) }
    }

    /// Runs `feed` and returns when every result has been reported.
    pub(super) fn run<N, S: Sink<N>>(&self, sink: &mut S, feed: impl FnOnce(&mut Pipeline<'_, N, S>)) {
        std::thread::scope(|scope| {
            // Closes the queue even on unwinding, because the scope waits for the workers.
            let _close = CloseOnDrop(&self.queue);
            let spawn = |_: &usize| Builder::new().spawn_scoped(scope, || Worker::new(self).run()).is_ok();
            // If the system refuses a thread, the other workers do all the work.
            let workers = (0..self.workers).take_while(spawn).count();
            self.queue.remove_slots((self.workers - workers) * self.slots_per_worker);
            let mut pipeline = Pipeline::new(self, sink, workers > 0);
            feed(&mut pipeline);
            pipeline.drain();
        });
    }
}

/// Returns the number of files per worker for the function with the most lanes.
fn max_slots(functions: &Functions) -> usize {
    let of_each = functions.iter().map(|function| match &function.implementation {
        Implementation::Session(session) => slots_for(lanes(session)),
        Implementation::Blake2b512 | Implementation::Blake3 | Implementation::RustCrypto(_) => MIN_SLOTS,
    });
    of_each.max().unwrap_or(MIN_SLOTS)
}

/// Returns the number of lanes of the device that the framework chooses for many pieces.
fn lanes(session: &Session) -> usize {
    let route = session.route(Operation::Digest, PIECE_SIZE, MAX_SLOTS);
    let device = route.map(|route| &session.gantry().devices()[route.device]);
    device.and_then(|device| device.capability(session.params().algorithm())).map_or(1, |capability| capability.lanes)
}

/// Returns the number of files per worker: a multiple of `lanes`, so that no lane is idle at the end of a round.
fn slots_for(lanes: usize) -> usize {
    MIN_SLOTS.next_multiple_of(lanes).min(MAX_SLOTS)
}

/// Closes the queue when dropped.
struct CloseOnDrop<'e>(&'e Queue);

impl Drop for CloseOnDrop<'_> {
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
            assert_eq!(slots_for(lanes), files);
        }
    }
}

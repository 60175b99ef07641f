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

use gantry::{Operation, Session};
use indicatif::ProgressBar;

use super::digest::Digest;
use super::sys;

pub(super) use pipeline::{Pipeline, Sink};
use queue::Queue;
use read::PIECE;
pub(crate) use read::read_full;
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
    session: Session,
    /// A digest of the session's length, to be written over.
    blank: Digest,
    workers: usize,
    /// Files that each worker reads side by side.
    slots: usize,
    progress: ProgressBar,
    queue: Queue,
}

impl Engine {
    /// An engine for up to `files` files, of at most `threads` threads; without a number, one for each CPU. Bytes that have been
    /// hashed are added to `progress`.
    pub(super) fn new(session: Session, files: usize, threads: Option<usize>, progress: ProgressBar) -> Self {
        let blank = Digest::zero(session.params().tag_length());
        // A single file gains nothing from a worker.
        if files <= 1 {
            return Self { session, blank, workers: 0, slots: 0, progress, queue: Queue::new(0) };
        }
        let most_open = sys::most_open_files().saturating_sub(OTHER_DESCRIPTORS).max(1);
        let threads = threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let workers = threads.min(MOST_WORKERS).min(most_open).min(files);
        let slots = slots(lanes(&session)).min(most_open / workers);
        Self { session, blank, workers, slots, progress, queue: Queue::new(workers * slots) }
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

//! Feeds files in order, and reports their results in order.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;

use super::queue::{FinishedJob, Job, JobOutcome};
use super::read::Stamp;
use super::single::hash_single;
use super::{Engine, HashedFile};
use crate::io::sys;
use crate::sum::function::Functions;

/// Most files between the first unreported one and the last that a worker may take.
const MAX_WINDOW_ENTRIES: usize = 32 << 10;
/// Most bytes of the names of these files.
const MAX_WINDOW_NAME_BYTES: usize = 8 << 20;
/// Files that are added to the queue under one lock.
const MAX_PENDING_JOBS: usize = 64;

/// Receives the results.
pub(in crate::sum) trait Sink<N> {
    /// Receives the result of a file.
    fn on_file(&mut self, name: OsString, note: N, result: io::Result<HashedFile>);
    /// Receives a note without a file, in its place among the files.
    fn on_note(&mut self, note: N);
    /// Shows buffered output, because no result is ready.
    fn on_wait(&mut self);
}

/// Takes files and reports their results in the same order.
pub(in crate::sum) struct Pipeline<'p, N, S> {
    engine: &'p Engine,
    sink: &'p mut S,
    has_workers: bool,
    /// Entries that were fed but not reported.
    entries: VecDeque<Entry<N>>,
    /// Bytes of the names in `entries`.
    name_bytes: usize,
    /// Files that are not in the queue yet.
    pending: Vec<Job>,
    /// Number of files that were fed.
    fed_files: u64,
    /// Results that have left the queue.
    ready: VecDeque<FinishedJob>,
    /// Number of files that were reported.
    reported_files: u64,
    /// Files before this number may have been read too early: before the end of a pipe on which their content depends.
    speculative_end: u64,
    stdin_ended: bool,
}

enum Entry<N> {
    /// The next file, with the length of its name.
    File(N, usize),
    Note(N),
    /// A file whose result is known.
    Known(N, OsString, HashedFile),
}

impl<'p, N, S: Sink<N>> Pipeline<'p, N, S> {
    pub(super) fn new(engine: &'p Engine, sink: &'p mut S, has_workers: bool) -> Self {
        Self {
            engine,
            sink,
            has_workers,
            entries: VecDeque::new(),
            name_bytes: 0,
            pending: Vec::with_capacity(MAX_PENDING_JOBS),
            fed_files: 0,
            ready: VecDeque::new(),
            reported_files: 0,
            speculative_end: 0,
            stdin_ended: false,
        }
    }

    /// Feeds a file. `-` is stdin.
    pub(in crate::sum) fn feed_file(&mut self, name: OsString, functions: Functions, note: N) {
        self.make_room(name.len());
        self.name_bytes += name.len();
        self.entries.push_back(Entry::File(note, name.len()));
        self.pending.push(Job { number: self.fed_files, name, functions });
        self.fed_files += 1;
        if self.pending.len() == MAX_PENDING_JOBS {
            self.hand_out();
        }
    }

    /// Feeds a note, which is reported in its place among the files.
    pub(in crate::sum) fn feed_note(&mut self, note: N) {
        self.make_room(0);
        self.entries.push_back(Entry::Note(note));
    }

    /// Feeds a file whose result is known, which is reported in its place.
    pub(in crate::sum) fn feed_known(&mut self, name: OsString, found: HashedFile, note: N) {
        self.make_room(name.len());
        self.name_bytes += name.len();
        self.entries.push_back(Entry::Known(note, name, found));
    }

    /// Reports everything that was fed.
    pub(in crate::sum) fn drain(&mut self) {
        self.hand_out();
        while !self.entries.is_empty() {
            self.report();
        }
        self.sink.on_wait();
    }

    /// Reports entries until the window has room for one more with a name of `name` bytes.
    fn make_room(&mut self, name: usize) {
        while self.entries.len() >= MAX_WINDOW_ENTRIES
            || (self.name_bytes + name > MAX_WINDOW_NAME_BYTES && !self.entries.is_empty())
        {
            self.hand_out();
            self.report();
        }
    }

    /// Moves the collected files to the queue.
    fn hand_out(&mut self) {
        if !self.pending.is_empty() {
            let has_workers = self.has_workers;
            self.engine.queue.append(self.pending.drain(..), |job| has_workers && job.name != "-");
        }
    }

    /// Reports the first entry; waits for its result if necessary.
    fn report(&mut self) {
        match self.entries.pop_front() {
            Some(Entry::Note(note)) => self.sink.on_note(note),
            Some(Entry::Known(note, name, found)) => {
                self.name_bytes -= name.len();
                self.sink.on_file(name, note, Ok(found));
            }
            Some(Entry::File(note, length)) => {
                self.name_bytes -= length;
                let mut done = self.next_done();
                let result = self.result(&mut done);
                self.reported_files += 1;
                self.sink.on_file(done.name, note, result);
            }
            None => {}
        }
    }

    fn next_done(&mut self) -> FinishedJob {
        loop {
            if let Some(done) = self.ready.pop_front() {
                return done;
            }
            self.engine.queue.collect(&mut self.ready, || self.sink.on_wait());
        }
    }

    /// Returns the worker's result if a sequential tool would get the same result now; otherwise reads the file now.
    fn result(&mut self, done: &mut FinishedJob) -> io::Result<HashedFile> {
        let in_time = self.reported_files >= self.speculative_end;
        let holds = |found: &HashedFile, name| found.stamp.is_some_and(|stamp| stamp.is_current(name));
        match std::mem::replace(&mut done.outcome, JobOutcome::ReadInTurn) {
            JobOutcome::Hashed(found) if in_time || holds(&found, &done.name) => Ok(found),
            JobOutcome::Failed(error) if in_time => Err(error),
            JobOutcome::Hashed(_) | JobOutcome::Failed(_) => self.hash_now(done),
            JobOutcome::ReadInTurn => {
                self.sink.on_wait();
                let result = self.hash_now(done);
                self.speculative_end = self.speculative_end.max(self.engine.queue.taken_end());
                result
            }
        }
    }

    /// Reads and hashes a file on this thread.
    fn hash_now(&mut self, done: &FinishedJob) -> io::Result<HashedFile> {
        let functions = &done.functions;
        let mut stamp = None;
        let (digests, bytes) = if done.name != "-" {
            let file = File::open(&done.name)?;
            stamp = file.metadata().ok().filter(Metadata::is_file).map(|data| Stamp::new(&data));
            hash_single(file, functions, &self.engine.progress)?
        } else if self.stdin_ended {
            // After the end of stdin, every further `-` is empty, even on a terminal.
            hash_single(io::empty(), functions, &self.engine.progress)?
        } else {
            let found = hash_single(sys::stdin()?, functions, &self.engine.progress)?;
            self.stdin_ended = true;
            found
        };
        Ok(HashedFile { digests, bytes, stamp, cached: false })
    }
}

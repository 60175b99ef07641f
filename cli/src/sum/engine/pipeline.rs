//! Feeds files in order, and reports their results in order.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;

use super::queue::{Done, Job, Outcome};
use super::read::Stamp;
use super::single::hash_single;
use super::{Engine, HashedFile};
use crate::io::sys;
use crate::sum::function::Functions;

/// Most files between the first unreported one and the last that a worker may take.
const WINDOW: usize = 32 << 10;
/// Most bytes of the names of these files.
const WINDOW_NAMES: usize = 8 << 20;
/// Files that are added to the queue under one lock.
const PENDING_JOBS: usize = 64;

/// Receives the results.
pub(in crate::sum) trait Sink<N> {
    /// Receives the result of a file.
    fn file(&mut self, name: OsString, note: N, result: io::Result<HashedFile>);
    /// Receives a note without a file, in its place among the files.
    fn note(&mut self, note: N);
    /// Shows buffered output, because no result is ready.
    fn waiting(&mut self);
}

/// Takes files and reports their results in the same order.
pub(in crate::sum) struct Pipeline<'p, N, S> {
    engine: &'p Engine,
    sink: &'p mut S,
    has_workers: bool,
    /// Entries that were fed but not reported.
    entries: VecDeque<Entry<N>>,
    /// Bytes of the names in `entries`.
    names: usize,
    /// Files that are not in the queue yet.
    pending: Vec<Job>,
    /// Number of files that were fed.
    files: u64,
    /// Results that have left the queue.
    ready: VecDeque<Done>,
    /// Number of files that were reported.
    reported: u64,
    /// Files before this number may have been read too early: before the end of a pipe on which their content depends.
    speculative: u64,
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
            names: 0,
            pending: Vec::with_capacity(PENDING_JOBS),
            files: 0,
            ready: VecDeque::new(),
            reported: 0,
            speculative: 0,
            stdin_ended: false,
        }
    }

    /// Feeds a file. `-` is stdin.
    pub(in crate::sum) fn file(&mut self, name: OsString, functions: Functions, note: N) {
        self.make_room(name.len());
        self.names += name.len();
        self.entries.push_back(Entry::File(note, name.len()));
        self.pending.push(Job { number: self.files, name, functions });
        self.files += 1;
        if self.pending.len() == PENDING_JOBS {
            self.hand_out();
        }
    }

    /// Feeds a note, which is reported in its place among the files.
    pub(in crate::sum) fn note(&mut self, note: N) {
        self.make_room(0);
        self.entries.push_back(Entry::Note(note));
    }

    /// Feeds a file whose result is known, which is reported in its place.
    pub(in crate::sum) fn known(&mut self, name: OsString, found: HashedFile, note: N) {
        self.make_room(name.len());
        self.names += name.len();
        self.entries.push_back(Entry::Known(note, name, found));
    }

    /// Reports everything that was fed.
    pub(in crate::sum) fn drain(&mut self) {
        self.hand_out();
        while !self.entries.is_empty() {
            self.report();
        }
        self.sink.waiting();
    }

    /// Reports entries until the window has room for one more with a name of `name` bytes.
    fn make_room(&mut self, name: usize) {
        while self.entries.len() >= WINDOW || (self.names + name > WINDOW_NAMES && !self.entries.is_empty()) {
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
            Some(Entry::Note(note)) => self.sink.note(note),
            Some(Entry::Known(note, name, found)) => {
                self.names -= name.len();
                self.sink.file(name, note, Ok(found));
            }
            Some(Entry::File(note, length)) => {
                self.names -= length;
                let mut done = self.next_done();
                let result = self.result(&mut done);
                self.reported += 1;
                self.sink.file(done.name, note, result);
            }
            None => {}
        }
    }

    fn next_done(&mut self) -> Done {
        loop {
            if let Some(done) = self.ready.pop_front() {
                return done;
            }
            self.engine.queue.collect(&mut self.ready, || self.sink.waiting());
        }
    }

    /// Returns the worker's result if a sequential tool would get the same result now; otherwise reads the file now.
    fn result(&mut self, done: &mut Done) -> io::Result<HashedFile> {
        let in_time = self.reported >= self.speculative;
        let holds = |found: &HashedFile, name| found.stamp.is_some_and(|stamp| stamp.still_holds(name));
        match std::mem::replace(&mut done.outcome, Outcome::InTurn) {
            Outcome::Hashed(found) if in_time || holds(&found, &done.name) => Ok(found),
            Outcome::Failed(error) if in_time => Err(error),
            Outcome::Hashed(_) | Outcome::Failed(_) => self.hash_now(done),
            Outcome::InTurn => {
                self.sink.waiting();
                let result = self.hash_now(done);
                self.speculative = self.speculative.max(self.engine.queue.taken());
                result
            }
        }
    }

    /// Reads and hashes a file on this thread.
    fn hash_now(&mut self, done: &Done) -> io::Result<HashedFile> {
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

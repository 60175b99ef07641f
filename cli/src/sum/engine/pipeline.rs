//! Files are fed in order, and their results are reported in order.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;

use super::queue::{Done, Finding, Job};
use super::read::Stamp;
use super::{Engine, Found};
use crate::io::sys;
use crate::sum::function::Functions;

/// Files between the first unreported one and the last that a worker may take.
const WINDOW: usize = 32 << 10;
/// Bytes that the names of these files may take.
const WINDOW_NAMES: usize = 8 << 20;
/// Files that are handed to the workers under one lock.
const HANDFUL: usize = 64;

/// Receives the results.
pub(in crate::sum) trait Sink<N> {
    /// The result of a file.
    fn file(&mut self, name: OsString, note: N, result: io::Result<Found>);
    /// A note without a file, in its place among the files.
    fn note(&mut self, note: N);
    /// No result is ready: what was printed should be seen now.
    fn waiting(&mut self);
}

/// Takes files in order, gives their results in order.
pub(in crate::sum) struct Pipeline<'p, N, S> {
    engine: &'p Engine,
    sink: &'p mut S,
    has_workers: bool,
    /// What was fed and not reported.
    entries: VecDeque<Entry<N>>,
    /// Bytes of the names in `entries`.
    names: usize,
    /// Files that are not in the queue yet.
    handful: Vec<Job>,
    /// Files that were fed.
    files: u64,
    /// Results that have left the queue.
    ready: VecDeque<Done>,
    /// Files that were reported.
    reported: u64,
    /// Files before this number may have been read too early: before the end of a pipe that their content depends on.
    speculative: u64,
    stdin_ended: bool,
}

enum Entry<N> {
    /// The next file, with the length of its name.
    File(N, usize),
    Note(N),
    /// A file that has its result already.
    Known(N, OsString, Found),
}

impl<'p, N, S: Sink<N>> Pipeline<'p, N, S> {
    pub(super) fn new(engine: &'p Engine, sink: &'p mut S, has_workers: bool) -> Self {
        Self {
            engine,
            sink,
            has_workers,
            entries: VecDeque::new(),
            names: 0,
            handful: Vec::with_capacity(HANDFUL),
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
        self.handful.push(Job { number: self.files, name, functions });
        self.files += 1;
        if self.handful.len() == HANDFUL {
            self.hand_out();
        }
    }

    /// Feeds a note, which is reported in its place among the files.
    pub(in crate::sum) fn note(&mut self, note: N) {
        self.make_room(0);
        self.entries.push_back(Entry::Note(note));
    }

    /// Feeds a file whose result is known, which is reported in its place.
    pub(in crate::sum) fn known(&mut self, name: OsString, found: Found, note: N) {
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

    /// Reports entries until one more, with a name of so many bytes, fits into the window.
    fn make_room(&mut self, name: usize) {
        while self.entries.len() >= WINDOW || (self.names + name > WINDOW_NAMES && !self.entries.is_empty()) {
            self.hand_out();
            self.report();
        }
    }

    /// Puts the files of the handful into the queue.
    fn hand_out(&mut self) {
        if !self.handful.is_empty() {
            let has_workers = self.has_workers;
            self.engine.queue.append(self.handful.drain(..), |job| has_workers && job.name != "-");
        }
    }

    /// Reports the first entry, and waits for its result if it must.
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

    /// A worker's finding, if a sequential tool would find the same now; otherwise the file is read now.
    fn result(&mut self, done: &mut Done) -> io::Result<Found> {
        let in_time = self.reported >= self.speculative;
        let holds = |found: &Found, name| found.stamp.is_some_and(|stamp| stamp.still_holds(name));
        match std::mem::replace(&mut done.finding, Finding::InTurn) {
            Finding::Found(found) if in_time || holds(&found, &done.name) => Ok(found),
            Finding::Failed(error) if in_time => Err(error),
            Finding::Found(_) | Finding::Failed(_) => self.hash_now(done),
            Finding::InTurn => {
                self.sink.waiting();
                let result = self.hash_now(done);
                self.speculative = self.speculative.max(self.engine.queue.taken());
                result
            }
        }
    }

    /// Reads and hashes a file on this thread.
    fn hash_now(&mut self, done: &Done) -> io::Result<Found> {
        let functions = &done.functions;
        let mut stamp = None;
        let (digests, bytes) = if done.name != "-" {
            let file = File::open(&done.name)?;
            stamp = file.metadata().ok().filter(Metadata::is_file).map(|data| Stamp::new(&data));
            self.engine.hash_single(file, functions)?
        } else if self.stdin_ended {
            // The end of a terminal's input is an end, however often stdin is named.
            self.engine.hash_single(io::empty(), functions)?
        } else {
            let found = self.engine.hash_single(sys::stdin()?, functions)?;
            self.stdin_ended = true;
            found
        };
        Ok(Found { digests, bytes, stamp, cached: false })
    }
}

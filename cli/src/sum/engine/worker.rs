//! A worker hashes files side by side: it reads a piece of each, and hands all pieces to the session as one batch, so that
//! the lanes of a device stay full.

use std::fs::{File, Metadata};

use gantry::{Request, Stream};

use super::Engine;
use super::queue::{Done, Finding, Job};
use super::read::{PIECE, Reader, Stamp};
use crate::sum::digest::Digest;

/// From one piece to the next: not a power of two, or all of them would share the same few sets of the caches.
const STRIDE: usize = PIECE + 192;

/// Hashes files side by side.
pub(super) struct Worker<'e> {
    engine: &'e Engine,
    slots: Vec<Slot>,
    /// One piece for each slot.
    pieces: Vec<u8>,
    results: Vec<(u64, Done)>,
    jobs: Vec<Job>,
}

/// A place for one file.
struct Slot {
    state: State,
    /// Bytes in the slot's piece.
    length: usize,
    digest: Digest,
}

enum State {
    Empty,
    /// The piece is the whole file.
    Whole(Job, Stamp),
    /// The piece is the next of a file.
    Piece(Open),
}

/// A file that is read piece by piece.
struct Open {
    job: Job,
    reader: Reader,
    stream: Stream,
    /// Its lanes were to be left.
    left: bool,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.queue.break_off();
        }
    }
}

/// The room of each slot's piece.
fn pieces_of(pieces: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    pieces.chunks_exact_mut(STRIDE).map(|room| &mut room[..PIECE])
}

impl<'e> Worker<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        let slot = || Slot { state: State::Empty, length: 0, digest: engine.blank };
        Self {
            engine,
            slots: std::iter::repeat_with(slot).take(engine.slots).collect(),
            pieces: Vec::new(),
            results: Vec::with_capacity(engine.slots),
            jobs: Vec::with_capacity(engine.slots),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let active = self.slots.iter().filter(|slot| !matches!(slot.state, State::Empty)).count();
            let room = self.slots.len() - active;
            let freed = self.results.len();
            self.engine.queue.exchange(&mut self.results, (room, freed), &mut self.jobs, active == 0);
            if active == 0 && self.jobs.is_empty() {
                return;
            }
            if self.pieces.is_empty() {
                self.pieces = vec![0; self.slots.len() * STRIDE];
            }
            if self.jobs.is_empty() && room > 0 {
                self.leave_lanes();
            }
            self.read_on();
            self.start_jobs();
            self.hash();
        }
    }

    /// Reads the next piece of every file in hand.
    fn read_on(&mut self) {
        for (slot, piece) in self.slots.iter_mut().zip(pieces_of(&mut self.pieces)) {
            slot.state = match std::mem::replace(&mut slot.state, State::Empty) {
                State::Piece(mut open) => match open.reader.next_piece(piece) {
                    Ok(length) => {
                        slot.length = length;
                        State::Piece(open)
                    }
                    Err(error) => {
                        self.results.push(open.job.done(Finding::Failed(error)));
                        State::Empty
                    }
                },
                other => other,
            };
        }
    }

    /// Opens the files that were taken, and reads the first piece of each.
    fn start_jobs(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let looked_at: Vec<_> = self.jobs.drain(..).map(|job| (std::fs::metadata(&job.name).ok(), job)).collect();
        let large = |data: &Option<Metadata>| data.as_ref().is_some_and(|data| data.len() >= PIECE as u64);
        let streams = self.slots.iter().filter(|slot| matches!(slot.state, State::Piece(_))).count();
        let company = streams + looked_at.iter().filter(|(data, _)| large(data)).count();
        let mut empty = self.slots.iter_mut().zip(pieces_of(&mut self.pieces));
        for (data, job) in looked_at {
            // There is one for each job: that many were asked for.
            let Some((slot, piece)) = empty.find(|(slot, _)| matches!(slot.state, State::Empty)) else { break };
            self.results.extend(self.engine.start(job, data, company, slot, piece));
        }
    }

    /// Hashes all pieces in hand as one batch.
    fn hash(&mut self) {
        let engine = self.engine;
        let mut bytes = 0;
        // Streams that do without company stay by themselves, for they would take whole messages to their device.
        let (mut together, mut apart, mut ends) = (Vec::with_capacity(self.slots.len()), Vec::new(), Vec::new());
        for (slot, piece) in self.slots.iter_mut().zip(self.pieces.chunks_exact(STRIDE)) {
            let piece = &piece[..slot.length];
            match &mut slot.state {
                State::Empty => continue,
                State::Whole(..) => together.push(Request::digest(piece, slot.digest.bytes_mut())),
                State::Piece(open) => {
                    let lanes = engine.company[open.stream.route().device].lanes > 1;
                    let batch = if lanes { &mut together } else { &mut apart };
                    batch.push(Request::update(&mut open.stream, piece));
                }
            }
            bytes += piece.len();
        }
        let mut processed = engine.process(together) & engine.process(apart);
        for slot in &mut self.slots {
            if let State::Piece(open) = &mut slot.state
                && open.reader.ended()
            {
                ends.push(Request::finish(&mut open.stream, slot.digest.bytes_mut()));
            }
        }
        processed &= engine.process(ends);
        engine.progress.inc(bytes as u64);
        for slot in &mut self.slots {
            let (job, stamp) = match std::mem::replace(&mut slot.state, State::Empty) {
                State::Empty => continue,
                State::Piece(open) if processed && !open.reader.ended() => {
                    slot.state = State::Piece(open);
                    continue;
                }
                State::Piece(open) => (open.job, open.reader.stamp()),
                State::Whole(job, stamp) => (job, stamp),
            };
            // After a failure of the device the file is begun anew, on what is left.
            let finding = if processed { Finding::Digest { digest: slot.digest, stamp } } else { Finding::InTurn };
            self.results.push(job.done(finding));
        }
    }

    /// Begins the last files of a run anew where one at a time is faster, when that still pays.
    ///
    /// A device with lanes computes `break_even` streams in the time in which plain software computes one after the
    /// other, and fewer in the same time still.
    fn leave_lanes(&mut self) {
        let (mut streams, mut total, mut longest, mut break_even) = (0, 0, 0, 1);
        for slot in &self.slots {
            if let State::Piece(open) = &slot.state {
                streams += 1;
                total += open.reader.size();
                longest = longest.max(open.reader.left());
                break_even = break_even.max(self.engine.company[open.stream.route().device].break_even);
            }
        }
        if streams >= break_even || total >= longest.saturating_mul(break_even as u64) {
            return;
        }
        for slot in &mut self.slots {
            let State::Piece(open) = &mut slot.state else { continue };
            // Once: its next device may have lanes, too, and nothing would ever be read to its end.
            if !std::mem::replace(&mut open.left, true)
                && let Ok(stream) = self.engine.session.stream(1)
                && stream.route().device != open.stream.route().device
                && open.reader.rewind()
            {
                open.stream = stream;
            }
        }
    }
}

impl Engine {
    /// False when a device failed, and no other could do it.
    fn process(&self, mut requests: Vec<Request<'_>>) -> bool {
        requests.is_empty() || self.session.process(&mut requests).is_ok()
    }

    /// Opens a file and reads its first piece into a slot, unless it has a result already. `company` is the number of files
    /// that are read piece by piece beside it.
    fn start(
        &self,
        job: Job,
        data: Option<Metadata>,
        company: usize,
        slot: &mut Slot,
        piece: &mut [u8],
    ) -> Option<(u64, Done)> {
        if data.as_ref().is_some_and(|data| !data.is_file() && !data.is_dir()) {
            return Some(job.done(Finding::InTurn));
        }
        let file = match File::open(&job.name) {
            Ok(file) => file,
            // Not for want of this file, but because of all the others that are open: it gets its turn.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Some(job.done(Finding::InTurn));
            }
            Err(error) => return Some(job.done(Finding::Failed(error))),
        };
        // It appeared just now.
        let Some(data) = data else { return Some(job.done(Finding::InTurn)) };
        let mut reader = Reader::new(file, &data);
        slot.length = match reader.next_piece(piece) {
            Ok(length) => length,
            Err(error) => return Some(job.done(Finding::Failed(error))),
        };
        if reader.ended() {
            slot.state = State::Whole(job, reader.stamp());
            return None;
        }
        let Ok(stream) = self.session.stream(company) else { return Some(job.done(Finding::InTurn)) };
        slot.state = State::Piece(Open { job, reader, stream, left: false });
        None
    }
}

//! A worker hashes many files side by side, in rounds.
//!
//! A round reads one piece of each file in the worker's slots and hashes all of them together. A file that ends within its first piece is a
//! whole message. A longer file is a stream. The end of a stream is computed in the round after its last piece, so that it needs no batch
//! of its own.
//!
//! The framework chooses the device: for whole messages with each round, for a stream when it opens. A round is one batch.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;

use gantry_core::{Operation, Request, Session};

use super::queue::{FinishedJob, Job, JobOutcome};
use super::read::{PIECE_SIZE, Reader, Stamp};
use super::{Engine, HashedFile};
use crate::sum::digest::Digest;
use crate::sum::function::{Function, Implementation, LocalHash, RunningHash};

/// Distance between the buffers of two slots. Not a power of two, because all buffers would then share a few sets of the caches.
const BUFFER_STRIDE: usize = PIECE_SIZE + 192;

/// Hashes files side by side.
pub(super) struct Worker<'e> {
    engine: &'e Engine,
    slots: Vec<Slot>,
    /// A buffer of [`BUFFER_STRIDE`] bytes for each slot.
    buffers: Vec<u8>,
    /// Files that have left their slots, because their last piece has been hashed.
    finishing: Vec<FinishingFile>,
    /// Number of this worker's slots that the queue counts as empty.
    free_slots: usize,
    results: Vec<(u64, FinishedJob)>,
    jobs: Vec<Job>,
}

/// A place for one file.
#[derive(Default)]
struct Slot {
    content: Content,
    /// Bytes in the slot's buffer.
    length: usize,
}

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Whole(WholeFile),
    Streamed(StreamedFile),
}

/// A file that ended within its first piece.
struct WholeFile {
    job: Job,
    stamp: Stamp,
    bytes: u64,
    /// State of each function.
    running: Vec<RunningHash>,
    digests: Vec<Digest>,
}

/// A file of several pieces.
struct StreamedFile {
    job: Job,
    reader: Reader,
    /// State of each function.
    running: Vec<RunningHash>,
    /// The number of parallel streams for which the framework chose the device.
    batch_size: usize,
    /// True after an attempt to move the file to another device. There is at most one attempt.
    was_moved: bool,
}

/// A file whose digests are computed in the next round.
struct FinishingFile {
    job: Job,
    stamp: Stamp,
    bytes: u64,
    running: Vec<RunningHash>,
    digests: Vec<Digest>,
}

impl<'e> Worker<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            slots: std::iter::repeat_with(Slot::default).take(engine.slots_per_worker).collect(),
            buffers: Vec::new(),
            finishing: Vec::with_capacity(engine.slots_per_worker),
            free_slots: engine.slots_per_worker,
            results: Vec::with_capacity(engine.slots_per_worker),
            jobs: Vec::with_capacity(engine.slots_per_worker),
        }
    }

    /// Works until there are no more files.
    pub(super) fn run(mut self) {
        loop {
            let free_slots = self.slots.iter().filter(|slot| matches!(slot.content, Content::Empty)).count();
            let idle = free_slots == self.slots.len() && self.finishing.is_empty();
            let freed = free_slots - self.free_slots;
            self.engine.queue.exchange(&mut self.results, (free_slots, freed), &mut self.jobs, idle);
            self.free_slots = free_slots - self.jobs.len();
            if idle && self.jobs.is_empty() {
                return;
            }
            if self.buffers.is_empty() {
                self.buffers = vec![0; self.slots.len() * BUFFER_STRIDE];
            }
            if free_slots > 0 && self.jobs.is_empty() {
                self.move_last_files();
            }
            self.read_next_pieces();
            self.start_jobs();
            self.hash_round();
        }
    }

    /// Reads the next piece of every streamed file.
    fn read_next_pieces(&mut self) {
        for (slot, buffer) in self.slots.iter_mut().zip(buffers_of(&mut self.buffers)) {
            let Some(file) = slot.streamed_mut() else { continue };
            match file.reader.next_piece(buffer) {
                Ok(0) => self.finishing.extend(slot.take_streamed().map(StreamedFile::into_finishing)),
                Ok(length) => slot.length = length,
                Err(error) => {
                    let failed = slot.take_streamed().map(|file| file.job.finish(JobOutcome::Failed(error)));
                    self.results.extend(failed);
                }
            }
        }
    }

    /// Opens the new files, and reads the first piece of each.
    fn start_jobs(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let looked_at: Vec<_> = self.jobs.drain(..).map(|job| (std::fs::metadata(&job.name).ok(), job)).collect();
        let large = |data: &Option<Metadata>| data.as_ref().is_some_and(|data| data.len() >= PIECE_SIZE as u64);
        let streams = self.slots.iter().filter(|slot| slot.streamed().is_some()).count();
        let batch_size = streams + looked_at.iter().filter(|(data, _)| large(data)).count();
        let mut empty = self.slots.iter_mut().zip(buffers_of(&mut self.buffers));
        for (data, job) in looked_at {
            // The queue hands out at most as many files as there are empty slots.
            let Some((slot, buffer)) = empty.find(|(slot, _)| matches!(slot.content, Content::Empty)) else { break };
            self.results.extend(start(job, data, batch_size, slot, buffer));
        }
    }

    /// Hashes all pieces of the round, and collects the results.
    fn hash_round(&mut self) {
        let hashed = self.process_round();
        // If a device failed, the calling thread reads these files again in turn.
        let outcome = |digests, stamp, bytes| {
            let found = HashedFile { digests, bytes, stamp: Some(stamp), cached: false };
            if hashed { JobOutcome::Hashed(found) } else { JobOutcome::ReadInTurn }
        };
        for file in self.finishing.drain(..) {
            self.results.push(file.job.finish(outcome(file.digests, file.stamp, file.bytes)));
        }
        for slot in &mut self.slots {
            match std::mem::take(&mut slot.content) {
                Content::Empty => {}
                Content::Whole(file) => {
                    self.results.push(file.job.finish(outcome(file.digests, file.stamp, file.bytes)));
                }
                Content::Streamed(file) if !hashed => self.results.push(file.job.finish(JobOutcome::ReadInTurn)),
                Content::Streamed(file) if file.reader.has_ended() => self.finishing.push(file.into_finishing()),
                streamed @ Content::Streamed(_) => slot.content = streamed,
            }
        }
    }

    /// Processes the round. Returns false if a device failed and no other device could take over.
    fn process_round(&mut self) -> bool {
        let most = self.slots.len() + self.finishing.len();
        let (mut sessions, mut requests) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut pieces = Vec::new();
        let mut bytes = 0;
        // Put the ends of streams first, because they are short: a lane that has finished an end continues with a piece.
        for file in &mut self.finishing {
            for ((function, running), digest) in file.job.functions.iter().zip(&mut file.running).zip(&mut file.digests)
            {
                if let (Implementation::Session(session), RunningHash::Stream(stream)) =
                    (&function.implementation, running)
                {
                    sessions.push(session);
                    requests.push(Request::finish(stream, digest.bytes_mut()));
                }
            }
        }
        for (slot, buffer) in self.slots.iter_mut().zip(self.buffers.chunks_exact(BUFFER_STRIDE)) {
            let piece = &buffer[..slot.length];
            let (job, running, mut digests) = match &mut slot.content {
                Content::Empty => continue,
                Content::Whole(file) => (&file.job, &mut file.running, file.digests.as_mut_slice()),
                Content::Streamed(file) => (&file.job, &mut file.running, &mut [][..]),
            };
            for (function, running) in job.functions.iter().zip(running) {
                let digest = digests.split_off_first_mut();
                match (&function.implementation, running) {
                    (_, RunningHash::LocalHash(local)) => pieces.push((local, piece)),
                    (Implementation::Session(session), RunningHash::Stream(stream)) => {
                        sessions.push(session);
                        requests.push(Request::update(stream, piece));
                    }
                    (Implementation::Session(session), RunningHash::OnePiece) => {
                        sessions.push(session);
                        requests.push(Request::digest(piece, digest.map_or(&mut [], Digest::bytes_mut)));
                    }
                    // Functions outside the framework have no streams or messages.
                    (Implementation::Blake2b512 | Implementation::Blake3 | Implementation::RustCrypto(_), _) => {}
                }
            }
            bytes += piece.len();
        }
        let processed = LocalHash::update_all(pieces).is_ok()
            & Session::process_each(&sessions, &mut requests).is_ok()
            & requests.iter_mut().all(|request| request.result().is_ok());
        self.engine.progress.inc(bytes as u64);
        processed & self.finish_local_hashes()
    }

    /// Finishes messages of functions outside the framework.
    fn finish_local_hashes(&mut self) -> bool {
        let finishing = self.finishing.iter_mut().map(|file| (&mut file.running, &mut file.digests));
        let whole = self.slots.iter_mut().filter_map(|slot| match &mut slot.content {
            Content::Whole(file) => Some((&mut file.running, &mut file.digests)),
            _ => None,
        });
        let pairs = finishing.chain(whole).flat_map(|(running, digests)| running.iter_mut().zip(digests));
        let ends = pairs.filter_map(|(running, digest)| match running {
            RunningHash::LocalHash(local) => Some((local, digest.bytes_mut())),
            _ => None,
        });
        LocalHash::finish_all(ends.collect()).is_ok()
    }

    /// Moves the last files of a run to another device, if the framework prefers that device for few files, and if restarting the files
    /// pays.
    fn move_last_files(&mut self) {
        let devices: BTreeSet<usize> = self
            .slots
            .iter()
            .filter_map(Slot::streamed)
            .filter_map(|file| file.stream().map(|(_, device)| device))
            .collect();
        for device in devices {
            if let Some(files) = self.files_to_move(device) {
                self.move_away(device, files);
            }
        }
    }

    /// Returns the number of files with streams on `device`, if they should be moved.
    fn files_to_move(&self, device: usize) -> Option<usize> {
        let on_device = || self.slots.iter().filter_map(Slot::streamed).filter(|file| file.is_on(device));
        let files = on_device().count();
        let (session, _) = on_device().next()?.stream()?;
        // The device was chosen for a larger number of files.
        on_device().find(|file| file.batch_size > files && !file.was_moved)?;
        // A round on this device takes about as long with empty lanes as with full ones. If the framework sends `pieces` pieces elsewhere,
        // they take at most as long there as a round takes here. Moving therefore pays if the bytes of all files from their beginning are
        // at most `pieces` times the bytes that are left of the longest file.
        let left = on_device().map(|file| file.reader.bytes_left()).max()?;
        let anew = on_device().map(|file| file.reader.size()).sum::<u64>();
        let pieces = usize::try_from(anew / left.max(1)).ok()?.saturating_add(1).max(files);
        let elsewhere = |pieces: usize| {
            session.route(Operation::Digest, PIECE_SIZE, pieces).is_some_and(|route| route.device != device)
        };
        (pieces <= self.slots.len() && (files..=pieces).all(elsewhere)).then_some(files)
    }

    /// Restarts the files of a device on the device that the framework chooses for `files` files.
    fn move_away(&mut self, device: usize, files: usize) {
        for file in self.slots.iter_mut().filter_map(Slot::streamed_mut).filter(|file| file.is_on(device)) {
            // Move a file at most once: a policy that takes turns would restart it forever.
            if !std::mem::replace(&mut file.was_moved, true)
                && let Some((session, _)) = file.stream()
                && let Ok(stream) = session.stream(files)
                && stream.route().device != device
                && file.reader.rewind()
            {
                (file.running, file.batch_size) = (vec![RunningHash::Stream(stream)], files);
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.queue.record_panic();
        }
    }
}

/// Returns the buffers of the slots.
fn buffers_of(buffers: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    buffers.chunks_exact_mut(BUFFER_STRIDE).map(|buffer| &mut buffer[..PIECE_SIZE])
}

impl Slot {
    fn streamed(&self) -> Option<&StreamedFile> {
        if let Content::Streamed(file) = &self.content { Some(file) } else { None }
    }

    fn streamed_mut(&mut self) -> Option<&mut StreamedFile> {
        if let Content::Streamed(file) = &mut self.content { Some(file) } else { None }
    }

    /// Empties the slot of a streamed file.
    fn take_streamed(&mut self) -> Option<StreamedFile> {
        if let Content::Streamed(file) = std::mem::take(&mut self.content) { Some(file) } else { None }
    }
}

impl StreamedFile {
    /// Returns the session and the device of the file's stream, if the file has a single digest and a device computes it.
    fn stream(&self) -> Option<(&Session, usize)> {
        match (&*self.job.functions, &*self.running) {
            ([Function { implementation: Implementation::Session(session), .. }], [RunningHash::Stream(stream)]) => {
                Some((session, stream.route().device))
            }
            _ => None,
        }
    }

    /// True if the file could be moved away from `device`. Files with several digests stay, because all digests would have to restart.
    fn is_on(&self, device: usize) -> bool {
        self.stream().is_some_and(|(_, on)| on == device)
    }

    /// Turns into a file whose pieces have all been hashed, and closes it.
    fn into_finishing(self) -> FinishingFile {
        let digests = self.job.functions.iter().map(Function::zero_digest).collect();
        let (stamp, bytes) = (self.reader.stamp(), self.reader.bytes_read());
        FinishingFile { job: self.job, stamp, bytes, running: self.running, digests }
    }
}

/// Opens a file and reads its first piece into a slot. Returns the result if it is known already. `batch_size` is the number of parallel
/// streams.
fn start(
    job: Job,
    data: Option<Metadata>,
    batch_size: usize,
    slot: &mut Slot,
    buffer: &mut [u8],
) -> Option<(u64, FinishedJob)> {
    if data.as_ref().is_some_and(|data| !data.is_file() && !data.is_dir()) {
        return Some(job.finish(JobOutcome::ReadInTurn));
    }
    let file = match File::open(&job.name) {
        Ok(file) => file,
        Err(error) if is_shortage(&error) => return Some(job.finish(JobOutcome::ReadInTurn)),
        Err(error) => return Some(job.finish(JobOutcome::Failed(error))),
    };
    // The file appeared after its metadata was queried.
    let Some(data) = data else { return Some(job.finish(JobOutcome::ReadInTurn)) };
    let mut reader = Reader::new(file, &data);
    match reader.next_piece(buffer) {
        Ok(length) => slot.length = length,
        Err(error) => return Some(job.finish(JobOutcome::Failed(error))),
    }
    let ended = reader.has_ended();
    let begin = |function: &Function| if ended { function.begin_one_piece() } else { function.begin(batch_size) };
    let begun = job.functions.iter().map(begin).collect();
    let Ok(running) = begun else { return Some(job.finish(JobOutcome::ReadInTurn)) };
    slot.content = if ended {
        let digests = job.functions.iter().map(Function::zero_digest).collect();
        Content::Whole(WholeFile { job, stamp: reader.stamp(), bytes: reader.bytes_read(), running, digests })
    } else {
        Content::Streamed(StreamedFile { job, reader, running, batch_size, was_moved: false })
    };
    None
}

/// True if a file could not be opened because too many others are open.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

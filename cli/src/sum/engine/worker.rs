//! A worker hashes many files side by side, in rounds.
//!
//! A round reads one piece of each file in the worker's slots and hashes all of them together. A file that ends within its
//! first piece is a whole message. A longer one is a stream, and the end of a stream is a step of the round after its last
//! piece, so that it costs no batch of its own.
//!
//! The framework decides which device does the work: for whole messages when a batch is processed, for a stream when it
//! opens. A round is therefore one batch for each device on which streams live, nearly always a single one.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;

use gantry_core::{Algorithm, Operation, Request, Session};

use super::queue::{Done, Finding, Job};
use super::read::{PIECE, Reader, Stamp};
use super::{Engine, Found};
use crate::sum::digest::Digest;
use crate::sum::function::{By, Function, Own, Running};

/// Distance between the buffers of two slots: not a power of two, or all buffers would share a few sets of the caches.
const STRIDE: usize = PIECE + 192;

/// Hashes files side by side.
pub(super) struct Worker<'e> {
    engine: &'e Engine,
    slots: Vec<Slot>,
    /// A buffer of [`STRIDE`] bytes for each slot.
    buffers: Vec<u8>,
    /// Files whose last piece has been hashed. They need no slot any more.
    finishing: Vec<Finishing>,
    /// Empty slots that the queue knows of.
    free: usize,
    results: Vec<(u64, Done)>,
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
    Whole(Whole),
    Streamed(Streamed),
}

/// A file that ended within its first piece.
struct Whole {
    job: Job,
    stamp: Stamp,
    bytes: u64,
    /// Of each function.
    running: Vec<Running>,
    digests: Vec<Digest>,
}

/// A file of several pieces.
struct Streamed {
    job: Job,
    reader: Reader,
    /// Of each function.
    running: Vec<Running>,
    /// The number of streams side by side for which the framework chose the device.
    batch_size: usize,
    /// It was to be moved to another device. That happens once.
    moved: bool,
}

/// A file whose digests are the next step.
struct Finishing {
    job: Job,
    stamp: Stamp,
    bytes: u64,
    running: Vec<Running>,
    digests: Vec<Digest>,
}

/// The requests of a round.
struct Batches<'a> {
    /// For each algorithm and device the requests of its streams, with whole messages among them; under `None` only messages.
    batches: Vec<Batch<'a>>,
    /// Requests for which a batch has room from the start: all files of the round.
    size: usize,
}

struct Batch<'a> {
    session: &'a Session,
    device: Option<usize>,
    requests: Vec<Request<'a>>,
}

impl<'a> Batches<'a> {
    #[inline]
    fn add(&mut self, session: &'a Session, device: Option<usize>, request: Request<'a>) {
        let belongs = |batch: &&mut Batch| batch.device == device && same_algorithm(batch.session, session);
        if let Some(batch) = self.batches.iter_mut().find(belongs) {
            batch.requests.push(request);
            return;
        }
        let mut requests = Vec::with_capacity(self.size);
        requests.push(request);
        self.batches.push(Batch { session, device, requests });
    }
}

fn same_algorithm(one: &Session, other: &Session) -> bool {
    one.params().algorithm() == other.params().algorithm()
}

impl<'e> Worker<'e> {
    pub(super) fn new(engine: &'e Engine) -> Self {
        Self {
            engine,
            slots: std::iter::repeat_with(Slot::default).take(engine.slots).collect(),
            buffers: Vec::new(),
            finishing: Vec::with_capacity(engine.slots),
            free: engine.slots,
            results: Vec::with_capacity(engine.slots),
            jobs: Vec::with_capacity(engine.slots),
        }
    }

    /// Works until there are no more files.
    pub(super) fn run(mut self) {
        loop {
            let free = self.slots.iter().filter(|slot| matches!(slot.content, Content::Empty)).count();
            let idle = free == self.slots.len() && self.finishing.is_empty();
            let freed = free - self.free;
            self.engine.queue.exchange(&mut self.results, (free, freed), &mut self.jobs, idle);
            self.free = free - self.jobs.len();
            if idle && self.jobs.is_empty() {
                return;
            }
            if self.buffers.is_empty() {
                self.buffers = vec![0; self.slots.len() * STRIDE];
            }
            if free > 0 && self.jobs.is_empty() {
                self.move_last_files();
            }
            self.read_on();
            self.start_jobs();
            self.hash();
        }
    }

    /// Reads the next piece of every streamed file.
    fn read_on(&mut self) {
        for (slot, buffer) in self.slots.iter_mut().zip(buffers_of(&mut self.buffers)) {
            let Some(file) = slot.streamed_mut() else { continue };
            match file.reader.next_piece(buffer) {
                Ok(0) => self.finishing.extend(slot.take_streamed().map(Streamed::finishing)),
                Ok(length) => slot.length = length,
                Err(error) => {
                    let failed = slot.take_streamed().map(|file| file.job.done(Finding::Failed(error)));
                    self.results.extend(failed);
                }
            }
        }
    }

    /// Opens the files that were taken, and reads the first piece of each.
    fn start_jobs(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let looked_at: Vec<_> = self.jobs.drain(..).map(|job| (std::fs::metadata(&job.name).ok(), job)).collect();
        let large = |data: &Option<Metadata>| data.as_ref().is_some_and(|data| data.len() >= PIECE as u64);
        let streams = self.slots.iter().filter(|slot| slot.streamed().is_some()).count();
        let batch_size = streams + looked_at.iter().filter(|(data, _)| large(data)).count();
        let mut empty = self.slots.iter_mut().zip(buffers_of(&mut self.buffers));
        for (data, job) in looked_at {
            // The queue gives no more files than there are empty slots.
            let Some((slot, buffer)) = empty.find(|(slot, _)| matches!(slot.content, Content::Empty)) else { break };
            self.results.extend(start(job, data, batch_size, slot, buffer));
        }
    }

    /// Hashes all pieces in hand, and takes the results.
    fn hash(&mut self) {
        let hashed = self.process();
        // What a failed device had in hand is read again in turn, and hashed by what is left.
        let finding = |digests, stamp, bytes| {
            let found = Found { digests, bytes, stamp: Some(stamp), cached: false };
            if hashed { Finding::Found(found) } else { Finding::InTurn }
        };
        for file in self.finishing.drain(..) {
            self.results.push(file.job.done(finding(file.digests, file.stamp, file.bytes)));
        }
        for slot in &mut self.slots {
            match std::mem::take(&mut slot.content) {
                Content::Empty => {}
                Content::Whole(file) => {
                    self.results.push(file.job.done(finding(file.digests, file.stamp, file.bytes)));
                }
                Content::Streamed(file) if !hashed => self.results.push(file.job.done(Finding::InTurn)),
                Content::Streamed(file) if file.reader.ended() => self.finishing.push(file.finishing()),
                streamed @ Content::Streamed(_) => slot.content = streamed,
            }
        }
    }

    /// Processes everything in hand. False when a device failed, and no other could do its part.
    fn process(&mut self) -> bool {
        let with = self.devices_of_messages();
        let mut batches = Batches { batches: Vec::with_capacity(1), size: self.slots.len() + self.finishing.len() };
        let mut pieces = Vec::new();
        let mut bytes = 0;
        // First, because they are short: a lane that is done with one goes on with a piece.
        for file in &mut self.finishing {
            for ((function, running), digest) in file.job.functions.iter().zip(&mut file.running).zip(&mut file.digests)
            {
                if let (By::Session(session), Running::Stream(stream)) = (&function.by, running) {
                    let device = stream.route().device;
                    batches.add(session, Some(device), Request::finish(stream, digest.bytes_mut()));
                }
            }
        }
        for (slot, buffer) in self.slots.iter_mut().zip(self.buffers.chunks_exact(STRIDE)) {
            let piece = &buffer[..slot.length];
            let (job, running, mut digests) = match &mut slot.content {
                Content::Empty => continue,
                Content::Whole(file) => (&file.job, &mut file.running, file.digests.as_mut_slice()),
                Content::Streamed(file) => (&file.job, &mut file.running, &mut [][..]),
            };
            for (function, running) in job.functions.iter().zip(running) {
                let digest = digests.split_off_first_mut();
                match (&function.by, running) {
                    (_, Running::Own(own)) => pieces.push((own, piece)),
                    (By::Session(session), Running::Stream(stream)) => {
                        let device = stream.route().device;
                        batches.add(session, Some(device), Request::update(stream, piece));
                    }
                    (By::Session(session), Running::Message) => {
                        let device = with.iter().find(|(algorithm, _)| *algorithm == session.params().algorithm());
                        let device = device.and_then(|(_, device)| *device);
                        batches.add(session, device, Request::digest(piece, digest.map_or(&mut [], Digest::bytes_mut)));
                    }
                    // Other functions have messages of their own.
                    (By::Blake2b512 | By::Blake3, _) => {}
                }
            }
            bytes += piece.len();
        }
        // Every batch is processed, whatever becomes of the others.
        let mut processed = Own::update_all(pieces).is_ok();
        for batch in &mut batches.batches {
            processed &= batch.session.process(&mut batch.requests).is_ok();
        }
        self.engine.progress.inc(bytes as u64);
        processed & self.finish_own()
    }

    /// Ends the messages of functions that are no device's.
    fn finish_own(&mut self) -> bool {
        let finishing = self.finishing.iter_mut().map(|file| (&mut file.running, &mut file.digests));
        let whole = self.slots.iter_mut().filter_map(|slot| match &mut slot.content {
            Content::Whole(file) => Some((&mut file.running, &mut file.digests)),
            _ => None,
        });
        let pairs = finishing.chain(whole).flat_map(|(running, digests)| running.iter_mut().zip(digests));
        let ends = pairs.filter_map(|(running, digest)| match running {
            Running::Own(own) => Some((own, digest.bytes_mut())),
            _ => None,
        });
        Own::finish_all(ends.collect()).is_ok()
    }

    /// For each algorithm of whole messages, the device whose streams they join, because the framework would choose it for everything
    /// in hand. `None` where no streams are in hand: then the framework divides the messages among devices as it likes.
    fn devices_of_messages(&self) -> Vec<(Algorithm, Option<usize>)> {
        let (mut messages, mut bytes, mut streams) = (0, 0, 0);
        let mut found: Vec<(Algorithm, Option<usize>)> = Vec::new();
        for slot in &self.slots {
            match &slot.content {
                Content::Empty => {}
                Content::Whole(_) => {
                    messages += 1;
                    bytes += slot.length;
                }
                Content::Streamed(_) => streams += 1,
            }
        }
        if messages == 0 || streams + self.finishing.len() == 0 {
            return found;
        }
        for slot in &self.slots {
            let Content::Whole(file) = &slot.content else { continue };
            for function in file.job.functions.iter() {
                let By::Session(session) = &function.by else { continue };
                let algorithm = session.params().algorithm();
                if found.iter().all(|(other, _)| *other != algorithm) {
                    let route = session.route(Operation::Digest, bytes / messages, messages + streams);
                    found.push((algorithm, route.map(|route| route.device)));
                }
            }
        }
        found
    }

    /// Moves the last files of a run to another device if the framework prefers that one for so few of them, and if it
    /// pays to begin them anew.
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

    /// The number of files whose streams live on a device, if these should be moved.
    fn files_to_move(&self, device: usize) -> Option<usize> {
        let on_device = || self.slots.iter().filter_map(Slot::streamed).filter(|file| file.is_on(device));
        let files = on_device().count();
        let (session, _) = on_device().next()?.stream()?;
        // The device was chosen for more.
        on_device().find(|file| file.batch_size > files && !file.moved)?;
        // A round on this device takes about as long whether it has many pieces or few, because its lanes are empty then. As
        // long as the framework would send `pieces` pieces elsewhere, they take no longer there than a round does here. So
        // what is left of the longest file takes as long as `pieces` times its bytes elsewhere, where all files begin anew.
        let left = on_device().map(|file| file.reader.left()).max()?;
        let anew = on_device().map(|file| file.reader.size()).sum::<u64>();
        let pieces = usize::try_from(anew / left.max(1)).ok()?.saturating_add(1).max(files);
        let elsewhere =
            |pieces: usize| session.route(Operation::Digest, PIECE, pieces).is_some_and(|route| route.device != device);
        (pieces <= self.slots.len() && (files..=pieces).all(elsewhere)).then_some(files)
    }

    /// Begins the files on a device anew on the one that the framework chooses for so many.
    fn move_away(&mut self, device: usize, files: usize) {
        for file in self.slots.iter_mut().filter_map(Slot::streamed_mut).filter(|file| file.is_on(device)) {
            // Once: under a policy that takes turns, files would begin anew for ever.
            if !std::mem::replace(&mut file.moved, true)
                && let Some((session, _)) = file.stream()
                && let Ok(stream) = session.stream(files)
                && stream.route().device != device
                && file.reader.rewind()
            {
                (file.running, file.batch_size) = (vec![Running::Stream(stream)], files);
            }
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.queue.break_off();
        }
    }
}

/// The buffer of each slot.
fn buffers_of(buffers: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    buffers.chunks_exact_mut(STRIDE).map(|buffer| &mut buffer[..PIECE])
}

impl Slot {
    fn streamed(&self) -> Option<&Streamed> {
        if let Content::Streamed(file) = &self.content { Some(file) } else { None }
    }

    fn streamed_mut(&mut self) -> Option<&mut Streamed> {
        if let Content::Streamed(file) = &mut self.content { Some(file) } else { None }
    }

    /// Empties the slot of a streamed file.
    fn take_streamed(&mut self) -> Option<Streamed> {
        if let Content::Streamed(file) = std::mem::take(&mut self.content) { Some(file) } else { None }
    }
}

impl Streamed {
    /// Its session, and the device on which the stream lives: of a file with one digest, by a device.
    fn stream(&self) -> Option<(&Session, usize)> {
        match (&*self.job.functions, &*self.running) {
            ([Function { by: By::Session(session), .. }], [Running::Stream(stream)]) => {
                Some((session, stream.route().device))
            }
            _ => None,
        }
    }

    /// Whether it could be moved away from a device. Files of several digests stay: all of these would begin anew.
    fn is_on(&self, device: usize) -> bool {
        self.stream().is_some_and(|(_, on)| on == device)
    }

    /// The file when all of its pieces have been hashed; it is closed here.
    fn finishing(self) -> Finishing {
        let digests = self.job.functions.iter().map(Function::blank).collect();
        let (stamp, bytes) = (self.reader.stamp(), self.reader.read());
        Finishing { job: self.job, stamp, bytes, running: self.running, digests }
    }
}

/// Opens a file and reads its first piece into a slot, unless it has a result already. `batch_size` is the
/// number of files that are streamed side by side.
fn start(
    job: Job,
    data: Option<Metadata>,
    batch_size: usize,
    slot: &mut Slot,
    buffer: &mut [u8],
) -> Option<(u64, Done)> {
    if data.as_ref().is_some_and(|data| !data.is_file() && !data.is_dir()) {
        return Some(job.done(Finding::InTurn));
    }
    let file = match File::open(&job.name) {
        Ok(file) => file,
        Err(error) if is_shortage(&error) => return Some(job.done(Finding::InTurn)),
        Err(error) => return Some(job.done(Finding::Failed(error))),
    };
    // A file without data has appeared in this moment.
    let Some(data) = data else { return Some(job.done(Finding::InTurn)) };
    let mut reader = Reader::new(file, &data);
    match reader.next_piece(buffer) {
        Ok(length) => slot.length = length,
        Err(error) => return Some(job.done(Finding::Failed(error))),
    }
    let ended = reader.ended();
    let begin = |function: &Function| if ended { function.begin_message() } else { function.begin(batch_size) };
    let begun = job.functions.iter().map(begin).collect();
    let Ok(running) = begun else { return Some(job.done(Finding::InTurn)) };
    slot.content = if ended {
        let digests = job.functions.iter().map(Function::blank).collect();
        Content::Whole(Whole { job, stamp: reader.stamp(), bytes: reader.read(), running, digests })
    } else {
        Content::Streamed(Streamed { job, reader, running, batch_size, moved: false })
    };
    None
}

/// Whether a file could not be opened because too many others are open.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

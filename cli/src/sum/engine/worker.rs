//! A worker hashes many files side by side, in rounds.
//!
//! A round reads one piece of each file in the worker's slots and hashes all of them together. A file that ends within its
//! first piece is a whole message. A longer one is a stream, and the end of a stream is a step of the round after its last
//! piece, so that it costs no batch of its own.
//!
//! The framework decides which device does the work: for whole messages when a batch is processed, for a stream when it
//! opens. A round is therefore one batch for each device on which streams live, nearly always a single one.

use std::fs::{File, Metadata};
use std::io;

use gantry::{Operation, Request, Stream};

use super::Engine;
use super::queue::{Done, Finding, Job};
use super::read::{PIECE, Reader, Stamp};
use crate::sum::digest::Digest;

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
    digest: Digest,
}

/// A file of several pieces.
struct Streamed {
    job: Job,
    reader: Reader,
    stream: Stream,
    /// The number of streams side by side for which the framework chose the device.
    batch_size: usize,
    /// It was to be moved to another device. That happens once.
    moved: bool,
}

/// A file whose digest is the next step.
struct Finishing {
    job: Job,
    stamp: Stamp,
    stream: Stream,
    digest: Digest,
}

/// The requests of a round.
struct Batches<'a> {
    /// For each device the requests of its streams, with whole messages among them; under `None` only messages.
    by_device: Vec<(Option<usize>, Vec<Request<'a>>)>,
    /// Requests for which a batch has room from the start: all of the round.
    size: usize,
}

impl<'a> Batches<'a> {
    #[inline]
    fn add(&mut self, device: Option<usize>, request: Request<'a>) {
        if let Some((_, requests)) = self.by_device.iter_mut().find(|(other, _)| *other == device) {
            requests.push(request);
            return;
        }
        let mut requests = Vec::with_capacity(self.size);
        requests.push(request);
        self.by_device.push((device, requests));
    }
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
        let blank = self.engine.blank;
        for (slot, buffer) in self.slots.iter_mut().zip(buffers_of(&mut self.buffers)) {
            let Some(file) = slot.streamed_mut() else { continue };
            match file.reader.next_piece(buffer) {
                Ok(0) => self.finishing.extend(slot.take_streamed().map(|file| file.finishing(blank))),
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
            self.results.extend(self.engine.start(job, data, batch_size, slot, buffer));
        }
    }

    /// Hashes all pieces in hand, and takes the results.
    fn hash(&mut self) {
        let hashed = self.process();
        // What a failed device had in hand is read again in turn, and hashed by what is left.
        let finding = |digest, stamp| if hashed { Finding::Digest { digest, stamp } } else { Finding::InTurn };
        for file in self.finishing.drain(..) {
            self.results.push(file.job.done(finding(file.digest, file.stamp)));
        }
        for slot in &mut self.slots {
            match std::mem::take(&mut slot.content) {
                Content::Empty => {}
                Content::Whole(file) => self.results.push(file.job.done(finding(file.digest, file.stamp))),
                Content::Streamed(file) if !hashed => self.results.push(file.job.done(Finding::InTurn)),
                Content::Streamed(file) if file.reader.ended() => {
                    self.finishing.push(file.finishing(self.engine.blank));
                }
                streamed @ Content::Streamed(_) => slot.content = streamed,
            }
        }
    }

    /// Processes everything in hand. False when a device failed, and no other could do its part.
    fn process(&mut self) -> bool {
        let engine = self.engine;
        let with = self.device_of_messages();
        let mut batches = Batches { by_device: Vec::with_capacity(1), size: self.slots.len() + self.finishing.len() };
        let mut bytes = 0;
        // First, because they are short: a lane that is done with one goes on with a piece.
        for file in &mut self.finishing {
            let device = file.stream.route().device;
            batches.add(Some(device), Request::finish(&mut file.stream, file.digest.bytes_mut()));
        }
        for (slot, buffer) in self.slots.iter_mut().zip(self.buffers.chunks_exact(STRIDE)) {
            let piece = &buffer[..slot.length];
            match &mut slot.content {
                Content::Empty => continue,
                Content::Whole(file) => batches.add(with, Request::digest(piece, file.digest.bytes_mut())),
                Content::Streamed(file) => {
                    let device = file.stream.route().device;
                    batches.add(Some(device), Request::update(&mut file.stream, piece));
                }
            }
            bytes += piece.len();
        }
        // Every batch is processed, whatever becomes of the others.
        let mut processed = true;
        for (_, requests) in &mut batches.by_device {
            processed &= engine.session.process(requests).is_ok();
        }
        engine.progress.inc(bytes as u64);
        processed
    }

    /// The device whose streams the whole messages join, because the framework would choose it for everything in hand.
    /// `None` where no streams are in hand: then the framework divides the messages among devices as it likes.
    fn device_of_messages(&self) -> Option<usize> {
        let (mut messages, mut bytes, mut streams) = (0, 0, 0);
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
            return None;
        }
        let route = self.engine.session.route(Operation::Digest, bytes / messages, messages + streams);
        route.map(|route| route.device)
    }

    /// Moves the last files of a run to another device if the framework prefers that one for so few of them, and if it
    /// pays to begin them anew.
    fn move_last_files(&mut self) {
        for device in 0..self.engine.session.gantry().devices().len() {
            if let Some(files) = self.files_to_move(device) {
                self.move_away(device, files);
            }
        }
    }

    /// The number of files whose streams live on a device, if these should be moved.
    fn files_to_move(&self, device: usize) -> Option<usize> {
        let on_device = || self.slots.iter().filter_map(Slot::streamed).filter(|file| file.device() == device);
        let files = on_device().count();
        // The device was chosen for more.
        on_device().find(|file| file.batch_size > files && !file.moved)?;
        // A round on this device takes about as long whether it has many pieces or few, because its lanes are empty then. As
        // long as the framework would send `pieces` pieces elsewhere, they take no longer there than a round does here. So
        // what is left of the longest file takes as long as `pieces` times its bytes elsewhere, where all files begin anew.
        let left = on_device().map(|file| file.reader.left()).max()?;
        let anew = on_device().map(|file| file.reader.size()).sum::<u64>();
        let pieces = usize::try_from(anew / left.max(1)).ok()?.saturating_add(1).max(files);
        let session = &self.engine.session;
        let elsewhere =
            |pieces: usize| session.route(Operation::Digest, PIECE, pieces).is_some_and(|route| route.device != device);
        (pieces <= self.slots.len() && (files..=pieces).all(elsewhere)).then_some(files)
    }

    /// Begins the files on a device anew on the one that the framework chooses for so many.
    fn move_away(&mut self, device: usize, files: usize) {
        for file in self.slots.iter_mut().filter_map(Slot::streamed_mut).filter(|file| file.device() == device) {
            // Once: under a policy that takes turns, files would begin anew for ever.
            if !std::mem::replace(&mut file.moved, true)
                && let Ok(stream) = self.engine.session.stream(files)
                && stream.route().device != device
                && file.reader.rewind()
            {
                (file.stream, file.batch_size) = (stream, files);
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
    /// The device on which the stream lives.
    fn device(&self) -> usize {
        self.stream.route().device
    }

    /// The file when all of its pieces have been hashed; it is closed here.
    fn finishing(self, digest: Digest) -> Finishing {
        Finishing { job: self.job, stamp: self.reader.stamp(), stream: self.stream, digest }
    }
}

impl Engine {
    /// Opens a file and reads its first piece into a slot, unless it has a result already. `batch_size` is the
    /// number of files that are streamed side by side.
    fn start(
        &self,
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
        slot.content = if reader.ended() {
            Content::Whole(Whole { job, stamp: reader.stamp(), digest: self.blank })
        } else {
            let Ok(stream) = self.session.stream(batch_size) else { return Some(job.done(Finding::InTurn)) };
            Content::Streamed(Streamed { job, reader, stream, batch_size, moved: false })
        };
        None
    }
}

/// Whether a file could not be opened because too many others are open.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

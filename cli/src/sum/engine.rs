//! Many files at once: read and hashed by all cores, reported in the order in which they were named.
//!
//! The calling thread feeds a [`Pipeline`] and gets results back in order through its [`Sink`]. Workers take files from
//! it, read them piece by piece and hand the pieces of all their files to the session as one batch, so that the lanes of
//! a device stay full. Memory is bounded by the size of the pieces and of the window: how far the last file that a worker
//! may take is ahead of the first whose result has not been reported.
//!
//! A caller must not notice that files are read early. What is not a regular file (a pipe, a terminal, `-`) is left to
//! the calling thread, which opens it when everything before it has been reported, as a sequential tool would. Files
//! behind it may have been read by then; those that changed since are read again. `tee copy | sum - copy` depends on it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Builder;
use std::time::{SystemTime, UNIX_EPOCH};

use gantry::driver::Capability;
use gantry::{Operation, Request, Session, Stream};
use indicatif::ProgressBar;

use super::digest::Digest;
use super::sys;

/// Bytes of a file that are read at a time, and hashed with the pieces of other files. Large enough that the calls do
/// not count, small enough that the pieces of one worker stay in a core's second-level cache.
const PIECE: usize = 64 << 10;
/// From one piece to the next: not a power of two, or all of them would share the same few sets of the caches.
const STRIDE: usize = PIECE + 192;
/// Files that a worker has in hand at once: as many as the device has lanes, within these bounds. With fewer, small files
/// would come in small batches; with more, the pieces would not fit into the cache.
const LEAST_SLOTS: usize = 8;
const MOST_SLOTS: usize = 16;
/// Files between the first unreported one and the last that a worker may take.
const WINDOW: usize = 32 << 10;
/// Bytes that the names of these files may take.
const WINDOW_NAMES: usize = 8 << 20;
/// Files that are handed to the workers under one lock.
const HANDFUL: usize = 64;
/// Most workers; more would wait for the file system, and each may hold [`MOST_SLOTS`] files open.
const MOST_WORKERS: usize = 16;
/// Bytes that are read at a time of a file that is hashed alone.
const ALONE_PIECE: usize = 256 << 10;
/// Pieces of such a file that are read ahead.
const ALONE_AHEAD: usize = 3;
/// A file that changed so shortly before it was read may have changed again under the same time stamp, which the kernel
/// takes from its timer tick.
const TICK_NANOSECONDS: i128 = 50_000_000;

/// Who gets the results.
pub(super) trait Sink<N> {
    /// The result of a file.
    fn file(&mut self, name: OsString, note: N, result: io::Result<Digest>);
    /// A note without a file, in its place among the files.
    fn note(&mut self, note: N);
    /// Nothing is ready now: what was printed should be seen.
    fn waiting(&mut self);
}

/// What all threads of a run share.
pub(super) struct Engine {
    session: Session,
    digest: Digest,
    /// By the place of the device in the framework.
    company: Vec<Company>,
    workers: usize,
    slots: usize,
    progress: ProgressBar,
    ring: Mutex<Ring>,
    /// There are files to take, or there will be none.
    work: Condvar,
    /// The first result is there.
    ready: Condvar,
}

struct Ring {
    todo: VecDeque<Job>,
    /// Results in order, from the first that was not reported on.
    results: VecDeque<Option<Done>>,
    /// The number of the first of them.
    first: u64,
    /// The number after the last that a worker took.
    taken: u64,
    /// Places for files that the workers have empty, all together.
    room: usize,
    /// Workers that wait for files.
    idle: usize,
    closed: bool,
    /// A worker panicked, and its files will never have results.
    broken: bool,
}

/// A file to hash.
struct Job {
    number: u64,
    name: OsString,
}

/// A file with its result.
struct Done {
    name: OsString,
    finding: Finding,
}

/// What a device makes of several files at once.
struct Company {
    lanes: usize,
    break_even: usize,
}

enum Finding {
    Digest {
        digest: Digest,
        stamp: Stamp,
    },
    Failed(io::Error),
    /// Not a file for a worker.
    Alone,
}

/// Tells whether a file is still what it was when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: i128,
    /// The last change was long enough before the reading to have a time stamp of its own.
    settled: bool,
}

impl Stamp {
    fn new(data: &Metadata) -> Self {
        let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos().cast_signed());
        let settled = changed + TICK_NANOSECONDS < now;
        Self { device: data.dev(), inode: data.ino(), size: data.size(), changed, settled }
    }
}

impl Engine {
    /// An engine of at most so many threads. Bytes that have been hashed are added to `progress`.
    pub(super) fn new(session: Session, threads: usize, progress: ProgressBar) -> Self {
        let algorithm = session.params().algorithm();
        let of = |capability: &Capability| Company { lanes: capability.lanes, break_even: capability.break_even };
        let devices = session.gantry().devices().iter();
        let company: Vec<Company> = devices
            .map(|device| device.capability(algorithm).map_or(Company { lanes: 1, break_even: 1 }, of))
            .collect();
        let route = session.route(Operation::Digest, PIECE, MOST_SLOTS);
        let slots = route.map_or(1, |route| company[route.device].lanes).clamp(LEAST_SLOTS, MOST_SLOTS);
        let workers = threads.min(MOST_WORKERS);
        // Some descriptors are the process's own.
        let files = sys::most_open_files().saturating_sub(16).max(1);
        let workers = workers.min(files);
        let slots = slots.min(files / workers);
        let ring = Ring {
            todo: VecDeque::new(),
            results: VecDeque::new(),
            first: 0,
            taken: 0,
            room: workers * slots,
            idle: 0,
            closed: false,
            broken: false,
        };
        Self {
            digest: Digest::zero(session.params().tag_length()),
            company,
            workers,
            slots,
            session,
            progress,
            ring: Mutex::new(ring),
            work: Condvar::new(),
            ready: Condvar::new(),
        }
    }

    /// Runs `feed`, which may name up to `files` files, and returns when every result has been reported.
    pub(super) fn run<N, S: Sink<N>>(&self, sink: &mut S, files: usize, feed: impl FnOnce(&mut Pipeline<'_, N, S>)) {
        std::thread::scope(|scope| {
            // Also when unwinding: the scope waits for the workers.
            let _close = Close(self);
            // A single file gains nothing from a worker.
            let wanted = if files > 1 { self.workers.min(files) } else { 0 };
            let spawn = |_: &usize| Builder::new().spawn_scoped(scope, || Worker::new(self).run()).is_ok();
            // Where the system gives no more threads, those that there are do.
            let workers = (0..wanted).take_while(spawn).count();
            // What the others would have had.
            self.ring().room -= (self.workers - workers) * self.slots;
            let mut pipeline = Pipeline {
                engine: self,
                sink,
                workers,
                entries: VecDeque::new(),
                names: 0,
                handful: Vec::with_capacity(HANDFUL),
                files: 0,
                ready: VecDeque::new(),
                reported: 0,
                speculative: 0,
                stdin_ended: false,
            };
            feed(&mut pipeline);
            pipeline.drain();
        });
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // A ring is consistent whenever it is unlocked.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives results and takes up to `room` files. With `wait`, waits for files; none then means that there will be none.
    fn exchange(&self, results: &mut Vec<(u64, Done)>, room: usize, jobs: &mut Vec<Job>, wait: bool) {
        let mut ring = self.ring();
        ring.room += results.len();
        let first = ring.first;
        let mut ready = false;
        for (number, done) in results.drain(..) {
            ring.results[(number - first) as usize] = Some(done);
            ready |= number == first;
        }
        if ready {
            self.ready.notify_one();
        }
        while wait && ring.todo.is_empty() && !ring.closed {
            ring.idle += 1;
            ring = self.work.wait(ring).unwrap_or_else(PoisonError::into_inner);
            ring.idle -= 1;
        }
        // By the room that it has, so that the last files of a run occupy all workers, and as many lanes of each at once.
        let share = (ring.todo.len() * room).div_ceil(ring.room.max(1)).min(room);
        ring.room -= share;
        jobs.extend(ring.todo.drain(..share));
        if let Some(last) = jobs.last() {
            ring.taken = last.number + 1;
        }
    }
}

struct Close<'e>(&'e Engine);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.ring().broken = true;
            self.engine.ready.notify_one();
        }
    }
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.ring().closed = true;
        self.0.work.notify_all();
    }
}

/// Takes files in order, gives their results in order.
pub(super) struct Pipeline<'p, N, S> {
    engine: &'p Engine,
    sink: &'p mut S,
    workers: usize,
    /// What was fed and not reported.
    entries: VecDeque<Entry<N>>,
    /// Bytes of the names of these.
    names: usize,
    /// Files that the workers do not know of yet.
    handful: Vec<Job>,
    /// Files that were fed.
    files: u64,
    /// Results that left the ring.
    ready: VecDeque<Done>,
    /// Files that were reported.
    reported: u64,
    /// Results of files before this number were found before something was read that they might depend on.
    speculative: u64,
    stdin_ended: bool,
}

enum Entry<N> {
    /// The next file, with the length of its name.
    File(N, usize),
    Note(N),
}

impl<N, S: Sink<N>> Pipeline<'_, N, S> {
    /// Feeds a file. `-` is stdin.
    pub(super) fn file(&mut self, name: OsString, note: N) {
        self.make_room(name.len());
        self.names += name.len();
        self.entries.push_back(Entry::File(note, name.len()));
        self.handful.push(Job { number: self.files, name });
        self.files += 1;
        if self.handful.len() == HANDFUL {
            self.hand_out();
        }
    }

    /// Feeds a note, which is reported in its place among the files.
    pub(super) fn note(&mut self, note: N) {
        self.make_room(0);
        self.entries.push_back(Entry::Note(note));
    }

    /// Reports everything that was fed.
    pub(super) fn drain(&mut self) {
        self.hand_out();
        while !self.entries.is_empty() {
            self.report();
        }
        self.sink.waiting();
    }

    fn make_room(&mut self, name: usize) {
        while self.entries.len() >= WINDOW || (self.names + name > WINDOW_NAMES && !self.entries.is_empty()) {
            self.hand_out();
            self.report();
        }
    }

    /// Lets the workers know of the files that were gathered.
    fn hand_out(&mut self) {
        if self.handful.is_empty() {
            return;
        }
        let mut ring = self.engine.ring();
        for job in self.handful.drain(..) {
            // Without workers, and with stdin, the reporting thread does it.
            if self.workers == 0 || job.name == "-" {
                ring.results.push_back(Some(Done { name: job.name, finding: Finding::Alone }));
            } else {
                ring.results.push_back(None);
                ring.todo.push_back(job);
            }
        }
        if ring.idle > 0 {
            self.engine.work.notify_all();
        }
    }

    /// Reports the first entry, and waits for its result if it must.
    fn report(&mut self) {
        match self.entries.pop_front() {
            Some(Entry::Note(note)) => self.sink.note(note),
            Some(Entry::File(note, length)) => {
                self.names -= length;
                let done = self.next_done();
                let result = self.result(&done);
                self.reported += 1;
                self.sink.file(done.name, note, result);
            }
            None => {}
        }
    }

    fn next_done(&mut self) -> Done {
        if let Some(done) = self.ready.pop_front() {
            return done;
        }
        let engine = self.engine;
        let mut ring = engine.ring();
        if !matches!(ring.results.front(), Some(Some(_))) {
            drop(ring);
            self.sink.waiting();
            ring = engine.ring();
        }
        loop {
            while let Some(Some(_)) = ring.results.front() {
                self.ready.extend(ring.results.pop_front().flatten());
                ring.first += 1;
            }
            match self.ready.pop_front() {
                Some(done) => return done,
                None if ring.broken => panic!("a worker panicked"),
                None => ring = engine.ready.wait(ring).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// What a worker found, if that is what a sequential tool would find now.
    fn result(&mut self, done: &Done) -> io::Result<Digest> {
        let unchanged = |stamp: &Stamp| {
            stamp.settled && std::fs::metadata(&done.name).is_ok_and(|data| Stamp::new(&data) == *stamp)
        };
        match &done.finding {
            Finding::Digest { digest, stamp } if self.reported >= self.speculative || unchanged(stamp) => Ok(*digest),
            Finding::Failed(error) if self.reported >= self.speculative => Err(same_error(error)),
            Finding::Digest { .. } | Finding::Failed(_) => self.alone(&done.name),
            Finding::Alone => {
                self.sink.waiting();
                let result = self.alone(&done.name);
                self.speculative = self.speculative.max(self.engine.ring().taken);
                result
            }
        }
    }

    /// Hashes one file on this thread.
    fn alone(&mut self, name: &OsStr) -> io::Result<Digest> {
        if name != "-" {
            return self.engine.hash_alone(File::open(name)?);
        }
        if self.stdin_ended {
            // The end of a terminal's input is an end, however often stdin is named.
            return self.engine.hash_alone(io::empty());
        }
        let digest = self.engine.hash_alone(sys::stdin()?)?;
        self.stdin_ended = true;
        Ok(digest)
    }
}

fn same_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

impl Engine {
    /// The digest of one file on this thread, while another one reads ahead if there is much to read.
    fn hash_alone(&self, mut file: impl Read + Send) -> io::Result<Digest> {
        let mut digest = self.digest;
        let mut piece = vec![0; ALONE_PIECE];
        let length = read_full(&mut file, &mut piece)?;
        if length < ALONE_PIECE {
            self.session.digest(&piece[..length], digest.bytes_mut()).map_err(io::Error::other)?;
            self.progress.inc(length as u64);
            return Ok(digest);
        }
        let mut stream = self.session.stream(1).map_err(io::Error::other)?;
        let (read, pieces) = mpsc::sync_channel::<io::Result<(Vec<u8>, usize)>>(ALONE_AHEAD);
        let (give_back, empty) = mpsc::channel();
        for _ in 0..ALONE_AHEAD {
            let _ = give_back.send(vec![0; ALONE_PIECE]);
        }
        let _ = read.send(Ok((piece, length)));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while let Ok(mut piece) = empty.recv() {
                    let result = read_full(&mut file, &mut piece);
                    let last = !matches!(result, Ok(ALONE_PIECE));
                    if read.send(result.map(|length| (piece, length))).is_err() || last {
                        break;
                    }
                }
            });
            for piece in pieces {
                let (piece, length) = piece?;
                stream.update(&piece[..length]).map_err(io::Error::other)?;
                self.progress.inc(length as u64);
                // The reader is gone when this was the last piece.
                let _ = give_back.send(piece);
            }
            Ok::<_, io::Error>(())
        })?;
        stream.finish(digest.bytes_mut()).map_err(io::Error::other)?;
        Ok(digest)
    }
}

/// The room of each slot's piece.
fn pieces_of(pieces: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    pieces.chunks_exact_mut(STRIDE).map(|room| &mut room[..PIECE])
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Hashes files side by side.
struct Worker<'e> {
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
    stamp: Stamp,
    file: File,
    stream: Stream,
    read: u64,
    /// Nothing comes after the piece in hand.
    ended: bool,
    /// Its lanes were to be left.
    left: bool,
}

impl Open {
    fn next_piece(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let (length, ended) = read_piece(&mut self.file, piece, self.stamp.size.wrapping_sub(self.read))?;
        self.read += length as u64;
        self.ended = ended;
        Ok(length)
    }
}

/// Fills the buffer, or reads to the end of the file; true when it is known to have ended. `left` is what the file's size
/// promises: a short read that ends just there spares the one that says so.
fn read_piece(file: &mut File, piece: &mut [u8], left: u64) -> io::Result<(usize, bool)> {
    let mut length = 0;
    while length < piece.len() {
        match file.read(&mut piece[length..]) {
            Ok(0) => return Ok((length, true)),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if length as u64 == left && length < piece.len() {
            return Ok((length, true));
        }
    }
    Ok((length, false))
}

impl<'e> Worker<'e> {
    fn new(engine: &'e Engine) -> Self {
        let slot = || Slot { state: State::Empty, length: 0, digest: engine.digest };
        Self {
            engine,
            slots: std::iter::repeat_with(slot).take(engine.slots).collect(),
            pieces: Vec::new(),
            results: Vec::with_capacity(engine.slots),
            jobs: Vec::with_capacity(engine.slots),
        }
    }

    fn run(mut self) {
        loop {
            let active = self.slots.iter().filter(|slot| !matches!(slot.state, State::Empty)).count();
            let room = self.slots.len() - active;
            self.engine.exchange(&mut self.results, room, &mut self.jobs, active == 0);
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
                State::Piece(mut open) => match open.next_piece(piece) {
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
                && open.ended
            {
                ends.push(Request::finish(&mut open.stream, slot.digest.bytes_mut()));
            }
        }
        processed &= engine.process(ends);
        engine.progress.inc(bytes as u64);
        for slot in &mut self.slots {
            let (job, stamp) = match std::mem::replace(&mut slot.state, State::Empty) {
                State::Empty => continue,
                State::Piece(open) if processed && !open.ended => {
                    slot.state = State::Piece(open);
                    continue;
                }
                State::Piece(open) => (open.job, open.stamp),
                State::Whole(job, stamp) => (job, stamp),
            };
            // After a failure of the device the file is begun anew, on what is left.
            let finding = if processed { Finding::Digest { digest: slot.digest, stamp } } else { Finding::Alone };
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
                total += open.stamp.size;
                longest = longest.max(open.stamp.size.saturating_sub(open.read));
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
                && open.file.rewind().is_ok()
            {
                (open.stream, open.read) = (stream, 0);
            }
        }
    }
}

impl Job {
    fn done(self, finding: Finding) -> (u64, Done) {
        (self.number, Done { name: self.name, finding })
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
            return Some(job.done(Finding::Alone));
        }
        let mut file = match File::open(&job.name) {
            Ok(file) => file,
            // Not for want of this file, but because of all the others that are open: it gets its turn.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                return Some(job.done(Finding::Alone));
            }
            Err(error) => return Some(job.done(Finding::Failed(error))),
        };
        // It appeared just now.
        let Some(data) = data else { return Some(job.done(Finding::Alone)) };
        let stamp = Stamp::new(&data);
        let ended;
        (slot.length, ended) = match read_piece(&mut file, piece, stamp.size) {
            Ok(read) => read,
            Err(error) => return Some(job.done(Finding::Failed(error))),
        };
        if ended {
            slot.state = State::Whole(job, stamp);
            return None;
        }
        let Ok(stream) = self.session.stream(company) else { return Some(job.done(Finding::Alone)) };
        let read = slot.length as u64;
        slot.state = State::Piece(Open { job, stamp, file, stream, read, ended, left: false });
        None
    }
}

//! Operations of DPDK as requests of the framework.

#![allow(unsafe_code, reason = "operations are pointers and lengths")]

use std::slice;

use gantry::{Algorithm, Buffers, Operation, Outcome, Request, Session, tags_equal};
use zeroize::Zeroize;

use crate::abi::{Op, Status};
use crate::keys::{Keys, Step};

/// Bytes of the longest tag, MAC or digest: HMAC-SHA-512.
pub(crate) const LONGEST_TAG: usize = 64;

/// The steps that an operation has at most.
const STEPS: usize = 2;

/// Memory of one queue pair, kept from burst to burst.
#[derive(Default)]
pub(crate) struct Batch {
    /// Empty between two calls of `process`, as are the next two.
    requests: Vec<Request<'static>>,
    sessions: Vec<&'static Session>,
    /// The operations of the requests.
    places: Vec<usize>,
    /// By operation. Tags are made here and checked here, so that no request writes to where a program keeps one.
    tags: Vec<[u8; LONGEST_TAG]>,
}

impl Batch {
    /// Runs operations, each with the steps of its keys, and writes their statuses.
    ///
    /// # Safety
    ///
    /// The operations are as `gantry_pmd.h` says.
    pub(crate) unsafe fn run(&mut self, ops: &mut [Op]) {
        self.tags.resize(ops.len().max(self.tags.len()), [0; LONGEST_TAG]);
        for op in &mut *ops {
            op.status = Status::Done;
        }
        let alike = ops.windows(2).all(|pair| pair[0].keys == pair[1].keys && pair[0].joint == pair[1].joint);
        for number in 0..STEPS {
            if alike {
                // SAFETY: as the caller promises.
                unsafe { self.run_alike(ops, number) };
            } else {
                // SAFETY: as the caller promises.
                unsafe { self.run_assorted(ops, number) };
            }
        }
    }

    /// One step of operations of one session: one batch.
    ///
    /// # Safety
    ///
    /// That of [`run`](Self::run); and all have the same keys, and are joint or not.
    unsafe fn run_alike(&mut self, ops: &mut [Op], number: usize) {
        // SAFETY: the keys outlive the call, as the caller promises.
        let Some(step) = ops.first().and_then(|op| unsafe { op.step(number) }) else { return };
        for (place, op) in ops.iter().enumerate() {
            if number == 0 || op.status == Status::Done {
                // SAFETY: as the caller promises.
                unsafe { self.add(place, op, step) };
            }
        }
        // A misuse has no outcomes, and these are looked at.
        let _ = step.session.process(&mut self.requests);
        // SAFETY: as the caller promises.
        unsafe { self.end(ops, number) };
    }

    /// One step of operations of many sessions: a batch for each algorithm.
    ///
    /// # Safety
    ///
    /// That of [`run`](Self::run).
    unsafe fn run_assorted(&mut self, ops: &mut [Op], number: usize) {
        let mut done: Vec<(Algorithm, Operation)> = Vec::new();
        let kind = |step: &Step| (step.session.params().algorithm(), step.operation);
        for first in 0..ops.len() {
            // SAFETY: the keys outlive the call, as the caller promises.
            let Some(wanted) = unsafe { ops[first].step(number) }.map(kind) else { continue };
            if done.contains(&wanted) {
                continue;
            }
            done.push(wanted);
            for (place, op) in ops.iter().enumerate().skip(first) {
                // SAFETY: as above.
                let step = unsafe { op.step(number) };
                if let Some(step) = step.filter(|step| op.status == Status::Done && kind(step) == wanted) {
                    // SAFETY: as the caller promises.
                    unsafe { self.add(place, op, step) };
                    self.sessions.push(&step.session);
                }
            }
            let _ = Session::process_each(&self.sessions, &mut self.requests);
            self.sessions.clear();
            // SAFETY: as the caller promises.
            unsafe { self.end(ops, number) };
        }
    }

    /// The request of an operation's step.
    ///
    /// # Safety
    ///
    /// That of [`run`](Self::run). The request has to be gone before the operation's memory may be.
    #[inline]
    unsafe fn add(&mut self, place: usize, op: &Op, step: &Step) {
        let length = step.session.params().tag_length().min(LONGEST_TAG);
        // SAFETY: `run` has made room for each operation's, and the memory does not move while there are requests.
        let tag: &'static mut [u8] = unsafe { &mut (&mut *self.tags.as_mut_ptr().add(place))[..length] };
        // SAFETY: lengths and pointers are the operation's, which lives until the requests are gone. Nothing that is written overlaps
        // anything else of the operation, apart from data in place, which are one slice.
        let request = unsafe {
            match step.operation {
                Operation::Seal => {
                    Request::seal(bytes(op.iv, step.iv), bytes(op.aad, op.aad_length as usize), op.data(), tag)
                }
                Operation::Open => {
                    tag.copy_from_slice(bytes(op.tag, length));
                    Request::open(bytes(op.iv, step.iv), bytes(op.aad, op.aad_length as usize), op.data(), tag)
                }
                Operation::Encrypt => Request::encrypt(bytes(op.iv, step.iv), op.data()),
                Operation::Decrypt => Request::decrypt(bytes(op.iv, step.iv), op.data()),
                Operation::Digest => Request::digest(bytes(op.auth, op.auth_length as usize), tag),
                // There are no others (`Step::new`).
                _ => Request::mac_with_iv(bytes(op.auth_iv, step.iv), bytes(op.auth, op.auth_length as usize), tag),
            }
        };
        self.requests.push(request);
        self.places.push(place);
    }

    /// Takes in how the requests of a step ended, and forgets them.
    ///
    /// # Safety
    ///
    /// That of [`run`](Self::run).
    #[inline]
    unsafe fn end(&mut self, ops: &mut [Op], number: usize) {
        let tags = self.tags.as_mut_ptr();
        for (request, place) in self.requests.drain(..).zip(self.places.drain(..)) {
            let op = &mut ops[place];
            match request.outcome() {
                Some(Outcome::Done) => {}
                Some(Outcome::BadTag) => op.status = Status::BadTag,
                Some(Outcome::BadLength) => op.status = Status::BadArguments,
                _ => op.status = Status::Error,
            }
            drop(request);
            // SAFETY: the request is gone that had the tag; others have other ones.
            let tag = unsafe { &mut *tags.add(place) };
            // SAFETY: the keys outlive the call, and the operation's memory is nobody else's.
            unsafe { op.take(number, tag) };
        }
    }
}

impl Op {
    /// # Safety
    ///
    /// `keys` is one that `gantry_pmd_session_new` has given out and that lives as long as the answer.
    #[inline]
    unsafe fn step(&self, number: usize) -> Option<&'static Step> {
        // SAFETY: as the caller promises.
        let keys: &'static Keys = unsafe { &*self.keys };
        keys.step(self.joint != 0, number)
    }

    /// # Safety
    ///
    /// Input and output are as `gantry_pmd.h` says, and nobody else uses them as long as the answer lives.
    #[inline]
    unsafe fn data(&self) -> Buffers<'static> {
        let length = self.length as usize;
        if self.input == self.output.cast_const() {
            // SAFETY: as the caller promises.
            return Buffers::InPlace(unsafe { slice::from_raw_parts_mut(self.output, length) });
        }
        // SAFETY: as the caller promises; they do not overlap.
        let output = unsafe { slice::from_raw_parts_mut(self.output, length) };
        // SAFETY: as above.
        Buffers::Separate { input: unsafe { bytes(self.input, length) }, output }
    }

    /// Writes the tag that a step has made to its place, or compares it with the one that came.
    ///
    /// # Safety
    ///
    /// That of [`Batch::run`].
    #[inline]
    unsafe fn take(&mut self, number: usize, tag: &mut [u8; LONGEST_TAG]) {
        // SAFETY: as the caller promises.
        let Some(step) = (unsafe { self.step(number) }) else { return };
        let tag = &mut tag[..step.session.params().tag_length().min(LONGEST_TAG)];
        match step.operation {
            Operation::Encrypt | Operation::Decrypt | Operation::Open => {}
            _ if step.verifies => {
                // SAFETY: a tag that came has the length that the session has.
                if self.status == Status::Done && !tags_equal(tag, unsafe { bytes(self.tag, tag.len()) }) {
                    self.status = Status::BadTag;
                }
                // The right tag of a message is nobody's to know who sent a wrong one.
                tag.zeroize();
            }
            // SAFETY: room for a tag of the session's length.
            _ if self.status == Status::Done => unsafe { self.tag.copy_from_nonoverlapping(tag.as_ptr(), tag.len()) },
            _ => {}
        }
        // SAFETY: as the caller promises.
        if self.status != Status::Done && number > 0 && unsafe { &*self.keys }.reveals() {
            // SAFETY: `output` has `length` bytes.
            unsafe { slice::from_raw_parts_mut(self.output, self.length as usize) }.zeroize();
        }
    }
}

/// # Safety
///
/// `at` points to `length` bytes that nobody writes to as long as the answer lives; of none it may point anywhere.
#[inline]
unsafe fn bytes(at: *const u8, length: usize) -> &'static [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(at, length) }
}

#[cfg(test)]
mod tests;

//! The work of devices on a burst of packets, whatever the protocol: one batch for each step.

use std::ops::Range;

use gantry_core::driver::Operands;
use gantry_core::esp::write_trailer;
use gantry_core::{Buffers, Error, Operation, Outcome, Request, Session, tags_equal};
use smallvec::SmallVec;
use zeroize::Zeroize;

use crate::packet::Refused;
use crate::whole::{self, Content};

/// The keys of one direction of an association.
#[derive(Debug)]
pub(crate) enum Keys {
    /// One operation encrypts and authenticates.
    Joint(Session),
    /// One encrypts, if any does, and another authenticates what came of it.
    Apart {
        /// Encrypts.
        cipher: Option<Session>,
        /// Authenticates.
        mac: Session,
    },
    /// A device does the whole packet, where that takes less time than its parts.
    Whole {
        /// Does all of it.
        whole: Session,
        /// The parts, in one operation.
        parts: Box<Keys>,
    },
    /// One authenticates, and another encrypts the data with the MAC behind them.
    Within {
        /// Encrypts.
        cipher: Session,
        /// Authenticates.
        mac: Session,
    },
}

impl Keys {
    /// Bytes of an integrity check value.
    pub(crate) fn tag(&self) -> usize {
        let session = match self {
            Keys::Joint(session)
            | Keys::Apart { mac: session, .. }
            | Keys::Whole { whole: session, .. }
            | Keys::Within { mac: session, .. } => session,
        };
        session.params().tag_length()
    }
}

/// Bytes of the longest integrity check value: that of HMAC-SHA-384 in TLS.
const LONGEST_TAG: usize = 48;

/// Bytes of an IV that nobody may be able to tell before: AES-CBC's.
pub(crate) const RANDOM_IV: usize = 16;

/// A few bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Short {
    bytes: [u8; 16],
    length: u8,
}

impl Short {
    /// The bytes of two fields, and perhaps of a third. Their lengths are fixed, because to copy four bytes costs less than to ask how
    /// many they are.
    pub(crate) fn of<const N: usize>(first: [u8; 4], second: [u8; 8], third: [u8; N]) -> Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&first);
        bytes[4..12].copy_from_slice(&second);
        bytes[12..12 + N].copy_from_slice(&third);
        Self { bytes, length: (12 + N) as u8 }
    }

    /// One field, of a whole block at most.
    pub(crate) fn field<const N: usize>(field: [u8; N]) -> Self {
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&field);
        Self { bytes, length: N as u8 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// What is authenticated beside the data.
#[derive(Clone)]
pub(crate) enum Aad {
    /// Bytes of the packet, before the data.
    Packet(Range<usize>),
    /// Bytes that are not in the packet as they are.
    Other(Short),
}

/// The work on one packet.
pub(crate) struct Work {
    /// IV or nonce.
    pub(crate) iv: Short,
    /// Of joint keys.
    pub(crate) aad: Aad,
    /// Where the data lie that are encrypted.
    pub(crate) data: Range<usize>,
    /// What the MAC covers, of keys that have one. A MAC within comes behind it.
    pub(crate) covered: Range<usize>,
    /// The integrity check value: made by [`seal`], checked by [`open`].
    pub(crate) tag: [u8; LONGEST_TAG],
    /// Of a packet that a device may do as a whole, what it is told, or tells.
    pub(crate) content: Content,
    /// Why nothing is done, or nothing more.
    pub(crate) refused: Option<Refused>,
}

impl Default for Work {
    fn default() -> Self {
        let (iv, aad) = (Short::default(), Aad::Packet(0..0));
        let content = Content::default();
        Self { iv, aad, data: 0..0, covered: 0..0, tag: [0; LONGEST_TAG], content, refused: None }
    }
}

/// A packet with its work.
pub(crate) struct Task<'p> {
    pub(crate) keys: &'p Keys,
    /// The packet, with its integrity check value.
    pub(crate) packet: &'p mut [u8],
    pub(crate) work: &'p mut Work,
}

/// The packets of a burst that have work. As many as a burst has in most programs need no memory from the heap.
pub(crate) type Tasks<'p> = SmallVec<[Task<'p>; 32]>;

/// What is done with a packet in one operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Seal,
    Open,
    Encrypt,
    Decrypt,
    Mac,
    /// The MAC that is encrypted with the data.
    MacWithin,
    /// All of it.
    Protect,
    /// All of it.
    Unprotect,
}

/// Lets devices do the whole of the packets of a burst where that takes less time than the parts.
pub(crate) fn choose(tasks: &mut [Task<'_>], operation: Operation) {
    let (mut requests, mut bytes) = (0, 0);
    for task in tasks.iter().filter(|task| task.is_whole()) {
        (requests, bytes) = (requests + 1, bytes + task.packet.len());
    }
    for task in tasks {
        if let Keys::Whole { whole, parts } = task.keys
            && let Keys::Joint(joint) = &**parts
            && !whole::pays(whole, joint, operation, requests, bytes / requests)
        {
            task.keys = parts;
        }
    }
}

/// Draws the IVs that nobody may be able to tell before: of the packets whose data have `header` bytes and such an IV before them.
pub(crate) fn randomize(tasks: &mut [Task<'_>], header: usize) {
    let wants = |task: &&mut Task<'_>| task.work.data.start == header + RANDOM_IV && !task.is_whole();
    let count = tasks.iter_mut().filter(wants).count();
    if count == 0 {
        return;
    }
    let mut drawn = SmallVec::<[u8; 32 * RANDOM_IV]>::from_elem(0, count * RANDOM_IV);
    let result = getrandom::fill(&mut drawn);
    for (task, iv) in tasks.iter_mut().filter(wants).zip(drawn.as_chunks::<RANDOM_IV>().0) {
        if result.is_err() {
            task.work.refused = Some(Refused::Entropy);
        }
        task.work.iv = Short::field(*iv);
        // Of a MAC within, the place is not free yet.
        if !task.is_within() {
            task.place_iv();
        }
    }
}

/// Encrypts the data of every packet, and writes the tags to their places.
pub(crate) fn seal(tasks: &mut [Task<'_>]) {
    run(tasks, Step::Protect);
    run(tasks, Step::MacWithin);
    for task in tasks.iter_mut().filter(|task| task.is_within()) {
        let (place, length) = (task.work.covered.end, task.keys.tag());
        task.packet[place..place + length].copy_from_slice(&task.work.tag[..length]);
        task.place_iv();
    }
    for step in [Step::Seal, Step::Encrypt, Step::Mac] {
        run(tasks, step);
    }
    for Task { keys, packet, work } in tasks.iter_mut().filter(|task| !task.is_within() && !task.is_whole()) {
        let (length, place) = (keys.tag(), packet.len() - keys.tag());
        packet[place..].copy_from_slice(&work.tag[..length]);
    }
}

/// Checks every tag, and decrypts the data of the packets whose tag is right. A MAC within is not looked for: whoever has such keys
/// does that next.
pub(crate) fn open(tasks: &mut [Task<'_>]) {
    run(tasks, Step::Unprotect);
    for task in tasks.iter_mut().filter(|task| task.is_whole() && task.work.refused.is_none()) {
        // A device tells what it found, and need not leave the trailer there.
        let Content { payload, next_header, .. } = task.work.content;
        write_trailer(&mut task.packet[task.work.data.clone()], payload, next_header);
    }
    run(tasks, Step::Open);
    if tasks.iter().all(|task| matches!(task.keys, Keys::Joint(_) | Keys::Whole { .. })) {
        return;
    }
    // The tag that came makes room for the one that it has to be.
    let came: SmallVec<[_; 32]> = tasks.iter().map(|task| task.work.tag).collect();
    run(tasks, Step::Mac);
    for (task, came) in tasks.iter_mut().zip(came) {
        let length = task.keys.tag();
        if task.is_apart() && task.work.refused.is_none() && !tags_equal(&task.work.tag[..length], &came[..length]) {
            task.work.refused = Some(Refused::Forged);
        }
        // The right one of a packet is nobody's to know who sent a wrong one.
        task.work.tag.zeroize();
    }
    run(tasks, Step::Decrypt);
}

impl<'p> Task<'p> {
    fn is_apart(&self) -> bool {
        matches!(self.keys, Keys::Apart { .. })
    }

    fn is_whole(&self) -> bool {
        matches!(self.keys, Keys::Whole { .. })
    }

    fn is_within(&self) -> bool {
        matches!(self.keys, Keys::Within { .. })
    }

    /// Writes the IV before the data.
    fn place_iv(&mut self) {
        let (iv, end) = (self.work.iv.bytes(), self.work.data.start);
        self.packet[end - iv.len()..end].copy_from_slice(iv);
    }

    /// The IV, what is authenticated beside the data, the data, and the tag.
    fn parts(&mut self) -> (&[u8], &[u8], &mut [u8], &mut [u8]) {
        let work = &mut *self.work;
        let (before, data) = self.packet.split_at_mut(work.data.start);
        let aad = match &work.aad {
            Aad::Packet(range) => &before[range.clone()],
            Aad::Other(bytes) => bytes.bytes(),
        };
        (work.iv.bytes(), aad, &mut data[..work.data.len()], &mut work.tag[..self.keys.tag()])
    }

    /// The session for a step, if it is one of these keys and the packet is not refused already.
    fn session(&self, step: Step) -> Option<&'p Session> {
        let session = match (self.keys, step) {
            (Keys::Joint(session), Step::Seal | Step::Open) => Some(session),
            (Keys::Whole { whole, .. }, Step::Protect | Step::Unprotect) => Some(whole),
            (Keys::Apart { cipher, .. }, Step::Encrypt | Step::Decrypt) => cipher.as_ref(),
            (Keys::Within { cipher, .. }, Step::Encrypt | Step::Decrypt) => Some(cipher),
            (Keys::Apart { mac, .. }, Step::Mac) | (Keys::Within { mac, .. }, Step::MacWithin) => Some(mac),
            _ => None,
        };
        // Nothing is encrypted in a packet of a header alone.
        let is_empty = matches!(step, Step::Encrypt | Step::Decrypt) && self.work.data.is_empty();
        session.filter(|_| self.work.refused.is_none() && !is_empty)
    }

    fn operands(&mut self, step: Step) -> Operands<'_> {
        if matches!(step, Step::Mac | Step::MacWithin) {
            let length = self.keys.tag();
            let Work { covered, tag, .. } = &mut *self.work;
            return Operands::Mac { iv: &[], input: &self.packet[covered.clone()], output: &mut tag[..length] };
        }
        if matches!(step, Step::Protect | Step::Unprotect) {
            let operation = if step == Step::Protect { Operation::Protect } else { Operation::Unprotect };
            let Content { number, payload, next_header } = &mut self.work.content;
            return Operands::Packet { operation, number: *number, packet: self.packet, payload, next_header };
        }
        let (iv, aad, data, tag) = self.parts();
        let data = Buffers::InPlace(data);
        match step {
            Step::Seal => Operands::Seal { iv, aad, data, tag },
            Step::Open => Operands::Open { iv, aad, data, tag },
            Step::Encrypt => Operands::Cipher { operation: Operation::Encrypt, iv, data },
            _ => Operands::Cipher { operation: Operation::Decrypt, iv, data },
        }
    }

    /// Notes how a step ended.
    fn end(&mut self, result: Result<Outcome, Error>) {
        self.work.refused = match result {
            Ok(Outcome::Done) => return,
            Ok(Outcome::BadTag) => Some(Refused::Forged),
            Ok(Outcome::Malformed) => Some(Refused::Malformed("padding that is none")),
            Ok(Outcome::BadLength) => Some(Refused::Malformed("a length that the cipher does not have")),
            Ok(outcome) => Some(Refused::Device(Error::Refused(outcome))),
            Err(error) => Some(Refused::Device(error)),
        };
    }
}

/// Runs one step of all packets that have it, side by side.
fn run(tasks: &mut [Task<'_>], step: Step) {
    if let [task] = tasks {
        if let Some(session) = task.session(step) {
            let result = session.run(task.operands(step));
            task.end(result);
        }
        return;
    }
    let sessions: SmallVec<[&Session; 32]> = tasks.iter().filter_map(|task| task.session(step)).collect();
    if sessions.is_empty() {
        return;
    }
    let has_one = |task: &&mut Task<'_>| task.session(step).is_some();
    let mut requests = Vec::with_capacity(sessions.len());
    requests.extend(tasks.iter_mut().filter(has_one).map(|task| Request::from(task.operands(step))));
    // An error of the call is the result of each request, too.
    let _ = Session::process_each(&sessions, &mut requests);
    let results: SmallVec<[_; 32]> = requests.iter_mut().map(Request::result).collect();
    drop(requests);
    for (task, result) in tasks.iter_mut().filter(has_one).zip(results) {
        task.end(result);
    }
}

//! GCM and ChaCha20-Poly1305: a message begins with its nonce, associated data follows, then data in pieces, then the tag.
//!
//! The host's context is told every key, nonce and parameter, so a message can become the host's at any moment before its
//! first byte of data. Which way it goes is decided then: the first piece says how much there is. Associated data waits
//! here until then. A record of TLS 1.2 is one piece with everything in it.

mod record;

use gantry_core::route::{SizeSet, Worth};
use gantry_core::{AeadStream, Operation, SessionParams};

use crate::boundary::{Answers, Host, Io, Questions, Way, Wrapped, with_room};
use crate::framework::{Engine, Side};
use crate::key::Key;
use crate::table::Aead;

/// The only length of nonces that is led elsewhere; all protocols have it.
const NONCE: usize = 12;

/// Associated data that waits; more makes the message the host's. TLS has 5 or 13 bytes, ESP and SSH fewer than this.
const WAITING: usize = 64;

/// The tag, and the associated data of a TLS 1.2 record.
const TAG: usize = 16;
const HEADER: usize = 13;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The message is the host's, or there is none.
    #[default]
    Host,
    /// The nonce is known, and no data has come yet.
    Begun,
    /// The message is a device's.
    Ours,
    /// It was, and its tag has been made or checked. A nonce of GCM is used up.
    Ended,
    /// It was, and the device failed.
    Broken,
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "four facts, each by itself")]
pub(crate) struct Sealed {
    aead: Aead,
    /// A nonce is for as many messages as the program likes, one after the other.
    reusable: bool,
    phase: Phase,
    seal: bool,
    key: Key,
    iv: [u8; NONCE],
    waiting: [u8; WAITING],
    waiting_len: usize,
    /// The host has it already, with the nonce: the message before was the host's, and this one may be, too.
    host_knows: bool,
    /// The message before was the host's.
    leaves: bool,
    /// Computed when sealing, given when opening.
    tag: [u8; TAG],
    tag_len: usize,
    /// Of the TLS 1.2 record that comes next.
    header: Option<[u8; HEADER]>,
    /// ChaCha20-Poly1305: what the nonces of records are made from.
    fixed: Option<[u8; NONCE]>,
    /// GCM: the host was told what the nonces of records begin with.
    is_fixed: bool,
    /// A message has ended since the last nonce came.
    has_ended: bool,
    stream: Option<AeadStream>,
    engine: Engine,
    /// The length of nonces that the host knows.
    iv_len: usize,
    /// First pieces of other sizes are the host's, without a question.
    elsewhere: SizeSet,
}

impl Sealed {
    #[inline(always)]
    pub(crate) fn new(aead: Aead, wrapped: &Wrapped) -> Self {
        Self {
            aead,
            // OpenSSL 4.0 refuses what its predecessors did.
            reusable: aead == Aead::ChaCha && wrapped.version() < (4, 0),
            phase: Phase::default(),
            seal: false,
            key: Key::default(),
            iv: [0; NONCE],
            waiting: [0; WAITING],
            waiting_len: 0,
            host_knows: false,
            leaves: false,
            tag: [0; TAG],
            tag_len: 0,
            header: None,
            fixed: None,
            is_fixed: false,
            has_ended: false,
            stream: None,
            engine: Engine::default(),
            iv_len: NONCE,
            elsewhere: wrapped.asked(),
        }
    }

    /// The host has been initialised.
    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, seal: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        if key.is_some() || seal != self.seal {
            self.close();
        }
        if let Some(key) = key {
            self.key.set(key);
            self.engine.new_key();
            self.seal = seal;
            if let Some(worth) = self.worth(wrapped) {
                worth.new_key();
                self.elsewhere = worth.sizes();
            }
        }
        if seal != self.seal && self.aead == Aead::ChaCha {
            self.tag_len = 0;
        }
        if seal != self.seal && self.header.take().is_some() {
            self.phase = Phase::Host;
        }
        self.seal = seal;
        match iv.map(<&[u8; NONCE]>::try_from) {
            Some(Ok(iv)) => self.restarted(iv),
            Some(Err(_)) => {
                self.iv_len = iv.map_or(0, <[u8]>::len);
                self.phase = Phase::Host;
            }
            // A key alone. GCM: a message that has begun goes on under it, a nonce that is used up stays so.
            None if self.aead == Aead::ChaCha && key.is_some() => match self.phase {
                Phase::Ended if !self.reusable => {}
                // Of a message that was refused in its middle, only the host knows the nonce.
                Phase::Host | Phase::Broken => self.phase = Phase::Host,
                _ => self.begin(),
            },
            // What the host has seen of the message makes it the host's.
            None if self.phase == Phase::Begun && self.host_knows => self.phase = Phase::Host,
            None => {}
        }
    }

    /// The length of nonces that can come alone in this direction.
    #[inline(always)]
    pub(crate) fn nonce_alone(&self, seal: bool) -> Option<usize> {
        (self.seal == seal).then_some(NONCE)
    }

    /// Whether the host has this key.
    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.is(key)
    }

    /// The host has a new nonce.
    #[inline(always)]
    pub(crate) fn restarted(&mut self, iv: &[u8; NONCE]) {
        if self.aead == Aead::ChaCha {
            self.header = None;
        }
        (self.iv, self.fixed) = (*iv, Some(*iv));
        (self.iv_len, self.has_ended) = (NONCE, false);
        self.begin();
    }

    /// The host has refused an initialisation.
    pub(crate) fn refused(&mut self, key: bool) {
        self.phase = if self.phase == Phase::Ours { Phase::Broken } else { Phase::Host };
        // It may have taken the nonce.
        self.fixed = None;
        if key {
            self.close();
            self.key.set(&[]);
            self.engine.new_key();
        }
    }

    /// The stream is of no use any more. The one of a fork's parent is left alone.
    fn close(&mut self) {
        let stream = self.stream.take();
        if !self.engine.is_of_this_process() {
            std::mem::forget(stream);
        }
    }

    #[inline(always)]
    fn begin(&mut self) {
        (self.waiting_len, self.host_knows) = (0, false);
        self.phase = if self.elsewhere == SizeSet::NONE { Phase::Host } else { Phase::Begun };
    }

    fn worth<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Worth> {
        Some(wrapped.opened()?.worth(wrapped.algorithm()?, self.operation()))
    }

    fn operation(&self) -> Operation {
        if self.seal { Operation::Seal } else { Operation::Open }
    }

    /// Whether the host has all of this message so far.
    #[inline(always)]
    pub(crate) fn is_hosts(&self) -> bool {
        let has_all = match self.phase {
            Phase::Host => true,
            Phase::Begun => self.host_knows,
            Phase::Ours | Phase::Ended | Phase::Broken => false,
        };
        has_all && self.header.is_none()
    }

    /// Calls with other numbers of bytes can go straight to the host.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> SizeSet {
        match self.phase {
            _ if !self.is_hosts() => SizeSet::ALL,
            Phase::Begun => self.elsewhere,
            _ => SizeSet::NONE,
        }
    }

    /// The host, which has all of the message, was to end it, and did or did not.
    #[inline(always)]
    pub(crate) fn leave_all(&mut self, has_ended: bool) {
        self.phase = Phase::Host;
        self.has_ended |= has_ended;
    }

    /// The tag of a message that a device has sealed.
    #[inline(always)]
    pub(crate) fn made_tag(&self) -> Option<&[u8; TAG]> {
        (self.seal && self.phase == Phase::Ended).then_some(&self.tag)
    }

    /// The tag to open with, when nothing else is said.
    #[inline(always)]
    pub(crate) fn expect(&mut self, tag: &[u8]) {
        if let Some(place) = self.tag.get_mut(..tag.len()) {
            copy(place, tag);
            self.tag_len = tag.len();
        }
    }

    /// The length of nonces, where it is known here.
    pub(crate) fn iv_len(&self) -> Option<usize> {
        Some(self.iv_len).filter(|length| self.aead == Aead::Gcm || *length == NONCE)
    }

    /// Another message may follow under the same nonce, of which the host has seen nothing yet.
    fn again(&mut self) {
        if self.reusable && self.phase == Phase::Ended {
            self.begin();
        }
    }

    /// What can be said without a question: associated data waits, a small piece makes the message the host's.
    #[inline(always)]
    pub(crate) fn quick(&mut self, host: &Host, io: &mut Io<'_>) -> Option<i32> {
        if self.phase != Phase::Begun || self.header.is_some() || io.is_empty() {
            return None;
        }
        if !io.has_output() {
            self.host_knows |= self.leaves && self.waiting_len == 0;
            return self.wait(host, Way::Update, io);
        }
        (!self.elsewhere.has(io.len())).then(|| self.leave(host, Way::Update, io))
    }

    /// Associated data waits, and goes to the host at once if that had all of it so far. `None` if there is no room for it.
    #[inline(always)]
    fn wait(&mut self, host: &Host, way: Way, io: &mut Io<'_>) -> Option<i32> {
        let place = self.waiting.get_mut(self.waiting_len..self.waiting_len.wrapping_add(io.len()))?;
        copy(place, io.input());
        self.waiting_len += io.len();
        if !self.host_knows {
            return Some(io.done(io.len()));
        }
        let result = host.data(way, io);
        if result != 1 {
            self.phase = Phase::Host;
        }
        Some(result)
    }

    /// The next piece of data, or of associated data when there is no output; the end when there is no input.
    /// `fed` bytes went straight to the host before.
    pub(crate) fn data(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>, fed: usize) -> i32 {
        if let Some(header) = self.header.take() {
            return self.record(wrapped, host, way, io, header);
        }
        self.again();
        if self.phase == Phase::Begun && self.host_knows && fed != 0 {
            self.phase = Phase::Host;
        }
        if way == Way::Cipher && !io.has_input() {
            return match self.phase {
                Phase::Host => host.data(way, io),
                Phase::Begun => self.leave(host, way, io),
                Phase::Ours | Phase::Ended | Phase::Broken => self.end(io),
            };
        }
        match self.phase {
            Phase::Host => {
                if io.has_output() {
                    wrapped.count(self.operation(), Side::Host, io.len());
                }
                host.data(way, io)
            }
            // Once more with the same nonce, or associated data after data: what the host refuses, too.
            Phase::Ended | Phase::Broken => io.refused(),
            Phase::Ours if !io.has_output() => io.refused(),
            Phase::Begun | Phase::Ours if io.is_empty() => io.done(0),
            Phase::Begun if !io.has_output() => self.wait(host, way, io).unwrap_or_else(|| self.leave(host, way, io)),
            Phase::Begun => self.first(wrapped, host, way, io),
            Phase::Ours => {
                let bytes = io.len();
                let fed = self.stream.as_mut().zip(io.buffers());
                let fed = fed.is_some_and(|(stream, data)| with_room(|| stream.update(data).is_ok()).unwrap_or(false));
                wrapped.count(self.operation(), Side::Device, bytes);
                if fed { io.done(bytes) } else { self.broken(io) }
            }
        }
    }

    /// The first piece of data.
    fn first(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let (bytes, operation) = (io.len(), self.operation());
        // A tag that comes later may be a part of one, which only the host takes.
        let whole = self.aead == Aead::Gcm || self.seal || self.tag_len == TAG;
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()).filter(|_| whole) else {
            wrapped.count(operation, Side::Host, bytes);
            return self.leave(host, way, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if !self.engine.is_of(framework) {
            // After a fork it is the parent's.
            std::mem::forget(self.stream.take());
        }
        let worth = framework.worth(algorithm, operation);
        let side = self.engine.side(framework, operation, bytes, params, algorithm);
        self.elsewhere = worth.sizes();
        if side == Side::Device {
            let in_place = io.in_place();
            if self.stream.is_none() {
                self.stream = self.engine.open(worth, |session| session.aead_stream(operation));
            }
            if let (Some(stream), Some(data)) = (self.stream.as_mut(), io.buffers()) {
                let aad = &self.waiting[..self.waiting_len];
                if stream.begin_with(&self.iv, aad, data).is_ok() {
                    wrapped.count(operation, Side::Device, bytes);
                    (self.phase, self.leaves) = (Phase::Ours, false);
                    return io.done(bytes);
                }
                // Half of it may be done, and then the host could not begin again.
                self.stream = None;
                self.engine.give_up();
                if in_place {
                    return self.broken(io);
                }
            }
        }
        let result = self.leave(host, way, io);
        wrapped.count(operation, Side::Host, bytes);
        result
    }

    /// The message is the host's from here on: it gets the associated data that waited, then this call.
    fn leave(&mut self, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        if self.hand_over(host) { host.data(way, io) } else { io.refused() }
    }

    /// The host gets the associated data that waited.
    fn hand_over(&mut self, host: &Host) -> bool {
        self.phase = Phase::Host;
        // The other AEAD may have another message under the same nonce, of which the host must not have seen anything.
        self.leaves = self.aead == Aead::Gcm;
        let waiting = &self.waiting[..self.waiting_len];
        self.host_knows || waiting.is_empty() || host.associated(waiting) == 1
    }

    /// A device failed in the middle of a message: nothing comes of it.
    fn broken(&mut self, io: &mut Io<'_>) -> i32 {
        self.phase = Phase::Broken;
        io.refused()
    }

    pub(crate) fn finish(&mut self, host: &Host, io: &mut Io<'_>) -> i32 {
        self.again();
        let result = match self.phase {
            Phase::Host => host.finish(io),
            Phase::Begun => {
                if self.hand_over(host) {
                    host.finish(io)
                } else {
                    io.refused()
                }
            }
            Phase::Ours | Phase::Ended | Phase::Broken => self.end(io),
        };
        self.has_ended |= result == 1;
        result
    }

    /// The end of a message of a device's.
    fn end(&mut self, io: &mut Io<'_>) -> i32 {
        let Some(stream) = self.stream.as_mut().filter(|_| self.phase == Phase::Ours) else { return io.refused() };
        self.phase = Phase::Ended;
        let result = if self.seal {
            self.tag_len = TAG;
            with_room(|| stream.seal(&mut self.tag).is_ok())
        } else {
            with_room(|| stream.open(&self.tag[..self.tag_len]).is_ok())
        };
        if result == Some(true) { io.done(0) } else { io.refused() }
    }

    /// The host has taken these parameters.
    pub(crate) fn told(&mut self, host: &Host, told: Answers<'_>) {
        if let Some(tag) = told.octets(c"tag") {
            self.expect(tag);
        }
        if let Some(header) = told.octets(c"tlsaad") {
            self.header = header.try_into().ok();
            if self.aead == Aead::ChaCha {
                // The host has the nonce of this record now.
                self.phase = Phase::Host;
            }
        }
        if let Some(fixed) = told.octets(c"tlsivfixed") {
            self.fixed = fixed.try_into().ok();
            self.is_fixed = true;
        }
        if let Some(length) = told.number(c"ivlen") {
            self.iv_len = length;
        }
        // Another length of nonces, or one that the host counts: what is known of the nonce is old.
        let is_other = told.number(c"ivlen").is_some_and(|length| length != NONCE);
        let is_counted = self.aead == Aead::Gcm && (told.has(c"tlsivfixed") || told.has(c"tlsivinv"));
        let is_begun = self.phase == Phase::Begun;
        if is_counted || (is_begun && (is_other || told.has(c"tlsivfixed"))) {
            self.phase = Phase::Host;
        } else if is_other && self.aead == Aead::Gcm && self.phase == Phase::Ours {
            // The nonce is gone, and the message cannot go on without one (CVE-2023-5363).
            self.phase = Phase::Broken;
        }
        // SSH, opening: the nonce was just put together from its two parts.
        if told.has(c"tlsivinv")
            && let Some(iv) = host.octets(c"iv")
        {
            self.iv = iv;
            self.begin();
        }
    }

    /// Answers, through the host where it knows.
    pub(crate) fn ask(&mut self, host: &Host, mut questions: Questions<'_>) -> i32 {
        // SSH: the host counts the nonce on, and the message has the one before.
        if questions.has(c"tlsivgen") {
            let iv = host.octets(c"iv");
            let result = host.ask(questions);
            self.phase = Phase::Host;
            if let (Some(iv), 1) = (iv, result) {
                self.iv = iv;
                self.begin();
            }
            return result;
        }
        if matches!(self.phase, Phase::Ended | Phase::Broken) && questions.has(c"tag") {
            if !self.seal || self.phase == Phase::Broken {
                return 0;
            }
            return questions.answer(c"tag", &self.tag, |others| host.ask(others));
        }
        host.ask(questions)
    }
}

/// Slices of one length, most of them short: two words that overlap take less time than a loop or a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last), Some((at, _))) =
        (from.first_chunk(), from.last_chunk(), to.split_first_chunk_mut())
        && from.len() <= 2 * size_of::<u64>()
    {
        let (first, last): (&[u8; 8], &[u8; 8]) = (first, last);
        *at = *first;
        if let Some(at) = to.last_chunk_mut() {
            *at = *last;
        }
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

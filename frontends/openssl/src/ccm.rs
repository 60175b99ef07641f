//! CCM: a message is whole. Its length is announced, associated data may follow, then all of its data at once.
//!
//! The host's context is told everything but the data of a message that a device takes. Then it gets a message without data
//! in place of that one, and stands where it would: what may come next, and how that ends, is always its own to say. What
//! it cannot say is the tag of what a device has sealed, which is put in place of its answer. Whatever is not certain here is the
//! host's, too.

use gantry_core::driver::{Buffers, Operands};
use gantry_core::{Operation, Outcome, SessionParams};

use crate::boundary::{Answers, Host, Io, Questions, Wrapped};
use crate::cipher::Way;
use crate::framework::{Done, Engine, Side};
use crate::gains::Gain;
use crate::key::Key;
use crate::sizes::Sizes;

/// The longest nonce and tag.
const NONCE: usize = 13;
const TAG: usize = 16;

/// Associated data that is kept; more makes the message the host's.
const KEPT: usize = 1 << 16;

/// A TLS 1.2 record (RFC 6655): the explicit nonce before the data, the fixed one, and the associated data.
const EXPLICIT: usize = 8;
const FIXED: usize = 4;
const HEADER: usize = 13;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// There is no message, and no nonce for one.
    #[default]
    Over,
    /// There is a nonce. No length is announced: the data says it.
    Fresh,
    /// So much data will come.
    Announced(usize),
    /// Only the host knows.
    Host,
}

/// What the host has made of a key. It goes on with that, whatever is set later, until the next key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schedule {
    seal: bool,
    /// `None`: those that are in force, as long as nobody has asked.
    lengths: Option<Lengths>,
}

/// The bytes of nonces and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    nonce: usize,
    tag: usize,
}

impl Lengths {
    /// Those that are in force.
    fn of(host: &Host) -> Option<Self> {
        let [nonce, tag] = host.numbers([c"ivlen", c"taglen"])?;
        let lengths = Self { nonce, tag };
        (lengths.nonce <= NONCE && lengths.tag <= TAG).then_some(lengths)
    }
}

#[derive(Clone, Default)]
pub(crate) struct Ccm {
    phase: Phase,
    seal: bool,
    key: Key,
    schedule: Option<Schedule>,
    /// Before a key comes together with parameters, which are in force for the next one.
    lengths: Option<Lengths>,
    /// The length of nonces that the host knows, where it was told.
    nonce: Option<usize>,
    /// Data of other lengths is the host's, without a question.
    elsewhere: Sizes,
    engine: Engine,
    /// Of the announced message.
    aad: Vec<u8>,
    /// The tag to open with.
    expected: Option<([u8; TAG], usize)>,
    /// The tag of what a device has sealed, while the host would have it.
    sealed: Option<[u8; TAG]>,
    /// From the first record on, everything is one.
    records: bool,
    /// The associated data of a record, as the host has it.
    header: Option<[u8; HEADER]>,
}

impl Ccm {
    /// The host will be told parameters, perhaps with a key.
    pub(crate) fn before_params(&mut self, host: &Host, key: bool) {
        if key {
            self.lengths = Lengths::of(host);
        } else {
            self.ask_lengths(host);
        }
    }

    /// The lengths that the host's key was set for.
    fn ask_lengths(&mut self, host: &Host) -> Option<Lengths> {
        let schedule = self.schedule.as_mut()?;
        schedule.lengths = schedule.lengths.or_else(|| Lengths::of(host));
        if schedule.lengths.is_none() {
            self.schedule = None;
        }
        self.schedule?.lengths
    }

    /// The host has been initialised.
    pub(crate) fn initialised(&mut self, wrapped: &Wrapped, seal: bool, key: Option<&[u8]>, iv: Option<&[u8]>) {
        self.seal = seal;
        if let Some(key) = key {
            self.key.set(key);
            self.engine.new_key();
            self.schedule = Some(Schedule { seal, lengths: self.lengths.take() });
            let opened = wrapped.opened().zip(wrapped.algorithm());
            let gain = opened.map(|(framework, algorithm)| framework.gain(algorithm, self.operation()));
            if let Some(gain) = gain {
                gain.new_key();
            }
            self.elsewhere = gain.map_or(wrapped.asked(), Gain::elsewhere);
        }
        match self.phase {
            Phase::Over if iv.is_some() => self.phase = Phase::Fresh,
            _ if key.is_some() || iv.is_some() => self.interrupted(),
            _ => {}
        }
    }

    /// Whether a nonce can come alone in this direction, with [`restarted`](Self::restarted) all that is to be done about it.
    #[inline(always)]
    pub(crate) fn takes_nonce(&self, seal: bool) -> bool {
        self.seal == seal
    }

    /// The host has a new nonce.
    #[inline(always)]
    pub(crate) fn restarted(&mut self) {
        if self.phase == Phase::Over {
            self.phase = Phase::Fresh;
        } else {
            self.interrupted();
        }
    }

    /// The length of nonces, where it is known here.
    #[inline(always)]
    pub(crate) fn iv_len(&self) -> Option<usize> {
        self.nonce
    }

    /// The host has refused a key or parameters, of which some may be in force.
    pub(crate) fn refused(&mut self, keyed: bool) {
        self.phase = Phase::Host;
        (self.expected, self.header, self.nonce) = (None, None, None);
        if keyed {
            self.schedule = None;
        }
    }

    /// What was announced goes on under the old nonce, or not at all.
    fn interrupted(&mut self) {
        if matches!(self.phase, Phase::Announced(_)) {
            self.phase = Phase::Host;
        }
    }

    /// The host has taken these parameters.
    pub(crate) fn told(&mut self, host: &Host, told: Answers<'_>) {
        let ([tag, nonce, fixed, header], _) = told.of([c"tag", c"ivlen", c"tlsivfixed", c"tlsaad"]);
        if let Some(tag) = tag.octets() {
            self.expect(tag);
        }
        if nonce.is_there() {
            self.nonce = nonce.number();
        }
        if nonce.is_there() || fixed.is_there() {
            self.interrupted();
        }
        if let Some(header) = header.octets() {
            self.records = true;
            self.header = host.number(c"taglen").and_then(|tag| self.shortened(header.try_into().ok()?, tag));
        }
    }

    /// The tag to open with.
    #[inline(always)]
    pub(crate) fn expect(&mut self, tag: &[u8]) {
        let mut expected = [0; TAG];
        let place = expected.get_mut(..tag.len());
        self.expected = place.map(|place| place.copy_from_slice(tag)).map(|()| (expected, tag.len()));
        self.header = None;
    }

    /// The associated data of a record, with the length of its data alone.
    fn shortened(&self, mut header: [u8; HEADER], tag: usize) -> Option<[u8; HEADER]> {
        let [.., high, low] = &mut header;
        let around = EXPLICIT + if self.seal { 0 } else { tag };
        let bytes = usize::from(u16::from_be_bytes([*high, *low])).checked_sub(around)?;
        [*high, *low] = (bytes as u16).to_be_bytes();
        Some(header)
    }

    /// Answers, through the host.
    pub(crate) fn ask(&mut self, host: &Host, mut questions: Questions<'_>) -> i32 {
        let asks_tag = questions.has(c"tag");
        let result = host.ask(questions.again());
        if asks_tag && result == 1 {
            if let Some(tag) = self.sealed.take() {
                questions.overwrite(c"tag", &tag);
            }
            self.over();
        }
        result
    }

    /// Whether the tag that is asked for is another one than the host's.
    #[inline(always)]
    pub(crate) fn has_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// The host has given out the tag, with which a message is over; a tag to open with is forgotten.
    #[inline(always)]
    pub(crate) fn over(&mut self) {
        (self.phase, self.expected) = (Phase::Over, None);
    }

    fn operation(&self) -> Operation {
        if self.seal { Operation::Seal } else { Operation::Open }
    }

    /// A length without anything, associated data without output, or the data.
    pub(crate) fn data(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        if self.records {
            return self.record(wrapped, host, way, io);
        }
        match (io.has_output(), io.has_input()) {
            (true, true) => self.whole(wrapped, host, way, io),
            (true, false) => self.ends(host.data(way, io)),
            // A length to some releases of the host, the end to others.
            (false, false) if way == Way::Cipher => self.ends(host.data(way, io)),
            (false, false) => self.announce(host, way, io),
            (false, true) if io.is_empty() => host.data(way, io),
            (false, true) => self.associated(host, way, io),
        }
    }

    /// What needs no question: everything but data that may be a device's.
    #[inline(always)]
    pub(crate) fn quick(&mut self, host: &Host, io: &mut Io<'_>) -> Option<i32> {
        match (io.has_output(), io.has_input()) {
            _ if self.records || io.is_empty() => None,
            (true, true) if self.elsewhere.has(io.len()) => None,
            (true, true) => Some(self.hosts(host, Way::Update, io)),
            (true, false) => None,
            (false, false) => Some(self.announce(host, Way::Update, io)),
            (false, true) => Some(self.associated(host, Way::Update, io)),
        }
    }

    /// So much data will come.
    #[inline(always)]
    fn announce(&mut self, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let bytes = io.len();
        let result = host.data(way, io);
        self.phase = if result == 1 { Phase::Announced(bytes) } else { Phase::Host };
        self.aad.clear();
        result
    }

    #[inline(always)]
    fn associated(&mut self, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let result = host.data(way, io);
        // Said again, it is as if nothing had been said before.
        self.aad.clear();
        if result == 1 {
            self.sealed = None;
        }
        let is_hosts = matches!(self.phase, Phase::Announced(bytes) if !self.elsewhere.has(bytes));
        if result == 1 && io.len() <= KEPT && !is_hosts {
            self.aad.extend_from_slice(io.input());
        } else {
            self.phase = Phase::Host;
        }
        result
    }

    /// Data of which the host gets all.
    #[inline(always)]
    fn hosts(&mut self, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let result = host.data(way, io);
        self.phase = Phase::Host;
        self.failed_if(result != 1);
        if result == 1 {
            self.sealed = None;
            if !self.seal {
                self.opened();
            }
        }
        result
    }

    /// The data of a message.
    fn whole(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let (bytes, operation) = (io.len(), self.operation());
        if let Some(result) = self.led(wrapped, host, io) {
            wrapped.count(operation, Side::Device, bytes);
            return result;
        }
        let result = self.hosts(host, way, io);
        wrapped.count(operation, Side::Host, bytes);
        result
    }

    /// The host has opened a message.
    fn opened(&mut self) {
        (self.phase, self.expected) = (Phase::Over, None);
    }

    /// Runs a message on a device, if it is better there and all about it is known: the result.
    fn led(&mut self, wrapped: &Wrapped, host: &Host, io: &mut Io<'_>) -> Option<i32> {
        let (bytes, operation) = (io.len(), self.operation());
        self.schedule.filter(|schedule| schedule.seal == self.seal)?;
        let lengths = self.ask_lengths(host)?;
        let expected = self.expected.filter(|(_, length)| *length == lengths.tag);
        if matches!(self.phase, Phase::Over | Phase::Host) || (!self.seal && expected.is_none()) {
            return None;
        }
        if !self.is_devices(wrapped, bytes, lengths) || Lengths::of(host) != Some(lengths) {
            return None;
        }
        let iv = host.octets::<NONCE>(c"iv")?;
        let iv = &iv[..lengths.nonce];
        let in_place = io.in_place();
        let data = io.buffers()?;
        if self.phase == Phase::Fresh {
            self.aad.clear();
            if host.announce(bytes) != 1 {
                return Some(io.refused());
            }
            self.phase = Phase::Announced(bytes);
        }
        if self.phase != Phase::Announced(bytes) {
            return None;
        }
        let session = self.engine.session_now()?;
        let (mut tag, aad) = ([0; TAG], &self.aad);
        let outcome = match operation {
            Operation::Seal => session.run(Operands::Seal { iv, aad, data, tag: &mut tag[..lengths.tag] }),
            _ => session.run(Operands::Open { iv, aad, data, tag: &expected?.0[..lengths.tag] }),
        };
        match outcome {
            Ok(Outcome::Done) if self.seal => {
                self.phase = Phase::Host;
                if !host.nothing(!aad.is_empty()) {
                    return Some(io.refused());
                }
                self.sealed = Some(tag);
                Some(io.done(bytes))
            }
            Ok(Outcome::Done) => {
                self.sealed = None;
                self.opened();
                if !host.opened_nothing(lengths.tag) {
                    io.wipe();
                    return Some(io.refused());
                }
                Some(io.done(bytes))
            }
            Ok(Outcome::BadTag) => {
                (self.phase, self.sealed) = (Phase::Host, None);
                io.wipe();
                host.nothing(!aad.is_empty());
                Some(io.refused())
            }
            Ok(_) => {
                self.engine.give_up();
                None
            }
            Err(error) => (self.engine.failed(&error, in_place) == Done::Bad).then(|| {
                self.phase = Phase::Host;
                // Nobody knows what they are, and nobody has verified them.
                io.wipe();
                io.refused()
            }),
        }
    }

    /// Whether a device is better; then there is a session.
    fn is_devices(&mut self, wrapped: &Wrapped, bytes: usize, lengths: Lengths) -> bool {
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) else { return false };
        let (key, operation) = (&self.key, self.operation());
        let params = || SessionParams::new(algorithm, &key.bytes()).tag_len(lengths.tag);
        let side = self.engine.side(framework, operation, bytes, params, algorithm);
        self.elsewhere = framework.gain(algorithm, operation).elsewhere();
        side == Side::Device
    }

    pub(crate) fn finish(&mut self, host: &Host, io: &mut Io<'_>) -> i32 {
        self.ends(host.finish(io))
    }

    /// The host has ended a message with `result`. To some of its releases that is a message without data, if there was none.
    fn ends(&mut self, result: i32) -> i32 {
        if self.phase != Phase::Over {
            (self.phase, self.expected) = (Phase::Host, None);
        }
        self.failed_if(result != 1);
        result
    }

    /// Where the length was not that of the data, the host has lost what it made of the key.
    fn failed_if(&mut self, failed: bool) {
        if failed {
            self.schedule = None;
        }
    }

    /// A record of TLS 1.2, in place: explicit nonce, data, tag.
    fn record(&mut self, wrapped: &Wrapped, host: &Host, way: Way, io: &mut Io<'_>) -> i32 {
        let (bytes, operation) = (io.len(), self.operation());
        let led = self.led_record(wrapped, host, io);
        wrapped.count(operation, if led.is_some() { Side::Device } else { Side::Host }, bytes);
        led.unwrap_or_else(|| host.data(way, io))
    }

    /// As [`Ccm::led`] does with messages.
    fn led_record(&mut self, wrapped: &Wrapped, host: &Host, io: &mut Io<'_>) -> Option<i32> {
        let header = self.header?;
        self.schedule.filter(|schedule| schedule.seal == self.seal)?;
        let lengths = self.ask_lengths(host)?;
        let bytes = io.len().checked_sub(EXPLICIT + lengths.tag)?;
        if !io.in_place()
            || lengths.nonce != FIXED + EXPLICIT
            || !self.is_devices(wrapped, bytes, lengths)
            || Lengths::of(host) != Some(lengths)
        {
            return None;
        }
        let mut iv = host.octets::<{ FIXED + EXPLICIT }>(c"iv")?;
        let mut data = io.buffers()?;
        let (explicit, rest) = data.output().split_at_mut(EXPLICIT);
        let (text, tag) = rest.split_at_mut(bytes);
        if self.seal {
            explicit.copy_from_slice(&header[..EXPLICIT]);
        }
        iv[FIXED..].copy_from_slice(explicit);
        let session = self.engine.session_now()?;
        let outcome = if self.seal {
            session.run(Operands::Seal { iv: &iv, aad: &header, data: Buffers::InPlace(text), tag })
        } else {
            session.run(Operands::Open { iv: &iv, aad: &header, data: Buffers::InPlace(text), tag })
        };
        let written = match outcome {
            Ok(Outcome::Done) if self.seal => EXPLICIT + bytes + lengths.tag,
            Ok(Outcome::Done) => bytes,
            Ok(Outcome::BadTag) => {
                text.fill(0);
                0
            }
            Ok(_) => {
                self.engine.give_up();
                return None;
            }
            Err(error) => {
                let bad = self.engine.failed(&error, true) == Done::Bad;
                if bad {
                    text.fill(0);
                }
                return bad.then(|| io.refused());
            }
        };
        // The nonce that can be asked for is the last record's.
        let good = host.restart(self.seal, &iv) == 1 && matches!(outcome, Ok(Outcome::Done));
        Some(if good { io.done(written) } else { io.refused() })
    }
}

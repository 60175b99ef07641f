//! Host or another device, for requests of each size: asked of the policy once, tried out, then known.
//!
//! The policy says which device would serve a request. Whether that is faster than the host's own code on this very machine is
//! tried out when a request of a size first comes: a few requests on either side, in turn, of which the shortest times
//! count. That takes some ten microseconds for each size; what was the host's is tried again now and then.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use gantry::{Algorithm, Kind, Operation};

/// Requests of fewer bytes are the host's without a question, unless the operator named the policy: what a route costs is more than
/// there is to gain. With messages of GCM there may be more, so some are asked about all the same.
const LOWEST: u32 = 8;
pub(crate) const SMALLEST: usize = 1 << LOWEST;

/// Requests of more bytes are like these: a trial has to end soon.
const HIGHEST: u32 = 14;
const CLASSES: usize = HIGHEST as usize + 1;

/// What a device has to be faster by, in percent: less may be chance.
const MARGIN: u64 = 4;

/// The same in nanoseconds: the question itself and what a call costs on its way to a device are not in what is tried. In a trial the
/// host takes longer than for a program, which has its context ready; less so with messages that have a tag, because these are several
/// calls either way.
const fn slack_ns(kind: Kind) -> u32 {
    match kind {
        Kind::Aead => 100,
        _ => 200,
    }
}

/// Sessions under new keys after which what was the host's is tried again.
const FORGET: u32 = 4096;

/// The same after which opening a session is thought to take an eighth less than it was seen to take.
const DOUBT: u32 = 64;

/// Sizes of requests, up to a factor of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes(u32);

impl Sizes {
    pub(crate) const NONE: Sizes = Sizes(0);
    pub(crate) const ALL: Sizes = Sizes((2 << HIGHEST) - 1);
    /// Those of which it may pay to ask.
    pub(crate) const LARGE: Sizes = Sizes((2 << HIGHEST) - (1 << LOWEST));
    /// Those that may meet others of other threads: 16 KiB and more. With less, what the question costs is as much as there is to gain.
    pub(crate) const COMPANY: Sizes = Sizes(1 << HIGHEST);
    /// Those that may meet others of other jobs: 4 KiB and more.
    pub(crate) const JOBS: Sizes = Sizes((2 << HIGHEST) - (1 << 12));

    /// These and those.
    #[inline(always)]
    pub(crate) fn and(self, others: Sizes) -> Self {
        Self(self.0 | others.0)
    }

    /// These without those.
    #[inline(always)]
    pub(crate) fn but(self, others: Sizes) -> Self {
        Self(self.0 & !others.0)
    }

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        self.0 >> place(bytes) & 1 != 0
    }
}

/// The same, for who asks with every call: most requests that are too small need one comparison.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    sizes: Sizes,
    /// The first number of bytes that is among them.
    from: usize,
}

impl From<Sizes> for Gate {
    #[inline(always)]
    fn from(sizes: Sizes) -> Self {
        let from = match sizes.0.trailing_zeros() {
            0 => 0,
            u32::BITS => usize::MAX,
            first => 1 << first,
        };
        Self { sizes, from }
    }
}

impl Gate {
    /// Without that comparison: where the sizes are others with every call, it takes longer to make than it saves.
    #[inline(always)]
    pub(crate) fn passing(sizes: Sizes) -> Self {
        Self { sizes, from: 0 }
    }

    #[inline(always)]
    pub(crate) fn has(self, bytes: usize) -> bool {
        !self.is_below(bytes) && self.sizes.has(bytes)
    }

    /// Whether it is the host's, and one comparison says so.
    #[inline(always)]
    pub(crate) fn is_below(self, bytes: usize) -> bool {
        bytes < self.from
    }
}

/// The choices of a framework.
pub(crate) struct Choices(Box<[Choice]>);

impl Choices {
    /// Requests of other sizes than `asked` are the host's.
    pub(crate) fn new(asked: impl Fn(Algorithm) -> Sizes) -> Self {
        Self(
            (0..Algorithm::PLACES)
                .map(|place| Algorithm::at_place(place).0)
                .map(|algorithm| Choice::new(asked(algorithm), algorithm.kind()))
                .collect(),
        )
    }

    pub(crate) fn of(&self, algorithm: Algorithm, operation: Operation) -> &Choice {
        &self.0[algorithm.place(operation)]
    }
}

/// One operation of one algorithm.
pub(crate) struct Choice {
    classes: [Class; CLASSES],
    /// What is not the host's, one bit for each class.
    elsewhere: AtomicU32,
    /// What opening a session is thought to take, in nanoseconds.
    open_ns: AtomicU32,
    keys: AtomicU32,
    slack_ns: u32,
}

/// Requests of one size, up to a factor of two.
struct Class {
    state: AtomicU8,
    gain_ns: AtomicU32,
}

/// What is known about a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing yet.
    Unasked = 0,
    /// The host is faster, or alone.
    Host,
    /// A device is faster, or named by the operator.
    Device,
    /// The host is faster, or alone, with one request; a device may be with those of several threads.
    Company,
}

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Host,
    Device,
}

/// A guess, until a session was seen to be opened: of some algorithms none ever is.
const OPEN_NS: u32 = 3000;

/// No session is thought to be opened in less.
const OPEN_NS_AT_LEAST: u32 = 256;

impl Choice {
    fn new(asked: Sizes, kind: Kind) -> Self {
        let class = |_| Class { state: AtomicU8::new(State::Unasked as u8), gain_ns: AtomicU32::new(0) };
        Self {
            classes: std::array::from_fn(class),
            elsewhere: AtomicU32::new(asked.0),
            open_ns: AtomicU32::new(OPEN_NS),
            keys: AtomicU32::new(0),
            slack_ns: slack_ns(kind),
        }
    }

    /// Requests of other sizes are the host's, without a question.
    pub(crate) fn elsewhere(&self) -> Sizes {
        Sizes(self.elsewhere.load(Relaxed))
    }

    pub(crate) fn state(&self, bytes: usize) -> State {
        match self.class(bytes).state.load(Relaxed) {
            0 => State::Unasked,
            2 => State::Device,
            3 => State::Company,
            _ => State::Host,
        }
    }

    /// Requests of so many bytes are asked about from now on, until it is known whose they are.
    pub(crate) fn wonder(&self, bytes: usize) {
        if self.state(bytes) == State::Unasked {
            self.set(bytes, State::Unasked);
        }
    }

    /// The bytes of the requests with which the class of `bytes` is tried out.
    pub(crate) fn sample(bytes: usize) -> usize {
        1 << place(bytes)
    }

    /// What the policy has said about requests of so many bytes.
    pub(crate) fn set(&self, bytes: usize, state: State) {
        let class = self.class(bytes);
        class.gain_ns.store(if state == State::Device { u32::MAX } else { 0 }, Relaxed);
        class.state.store(state as u8, Relaxed);
        let bit = 1 << place(bytes);
        if state == State::Host {
            self.elsewhere.fetch_and(!bit, Relaxed);
        } else {
            self.elsewhere.fetch_or(bit, Relaxed);
        }
    }

    /// What a trial has shown, in nanoseconds.
    pub(crate) fn tried(&self, bytes: usize, host: u32, device: u32) {
        let faster = u64::from(device.saturating_add(self.slack_ns)) * (100 + MARGIN) < u64::from(host) * 100;
        self.set(bytes, if faster { State::Device } else { State::Host });
        self.class(bytes).gain_ns.store(host.saturating_sub(device), Relaxed);
    }

    /// Nanoseconds that the device saves in one request; everything, if the operator named it.
    pub(crate) fn gain_ns(&self, bytes: usize) -> u32 {
        self.class(bytes).gain_ns.load(Relaxed)
    }

    /// Nanoseconds that opening a session takes.
    pub(crate) fn open_ns(&self) -> u32 {
        self.open_ns.load(Relaxed)
    }

    /// A session was opened in so many nanoseconds.
    pub(crate) fn opened_in(&self, ns: u32) {
        // The first one may include the known-answer test, and any one a moment of another program's; later ones put it right.
        let (known, ns) = (self.open_ns.load(Relaxed), ns.clamp(OPEN_NS_AT_LEAST, 10 * OPEN_NS));
        let now = if known == OPEN_NS { ns } else { ns.min(known + known / 8) };
        self.open_ns.store(now, Relaxed);
    }

    /// A context has a new key: now and then, what was the host's is tried again.
    pub(crate) fn new_key(&self) {
        // Threads that come at the same time may count as one: nothing hangs on the exact number.
        let keys = self.keys.load(Relaxed);
        self.keys.store(keys.wrapping_add(1), Relaxed);
        // Or else, where each key has a few messages, it might never be known better.
        let known = self.open_ns.load(Relaxed);
        if keys % DOUBT == DOUBT - 1 && known != OPEN_NS {
            self.open_ns.store(OPEN_NS_AT_LEAST.max(known - known / 8), Relaxed);
        }
        if keys % FORGET == FORGET - 1 {
            for (place, class) in self.classes.iter().enumerate() {
                if class.state.load(Relaxed) == State::Host as u8 {
                    self.set(1 << place, State::Unasked);
                }
            }
        }
    }

    fn class(&self, bytes: usize) -> &Class {
        &self.classes[place(bytes) as usize]
    }
}

/// Jobs that go on at once, because nothing was gained by waiting, before one waits again.
const TURNED_AWAY: u32 = 256;

/// Whether it pays for a thread's jobs to wait for each other: by size, as it was the last time.
#[derive(Default)]
pub(crate) struct Company {
    /// One bit for each class in which nothing was gained.
    vain: u32,
    turned_away: u32,
}

impl Company {
    /// Whether a request of so many bytes had better wait.
    pub(crate) fn may_come(&mut self, bytes: usize) -> bool {
        let likely = self.vain >> place(bytes) & 1 == 0;
        if !likely {
            self.turned_away += 1;
            if self.turned_away == TURNED_AWAY {
                self.turned_away = 0;
                return true;
            }
        }
        likely
    }

    /// Requests of so many bytes have waited for each other.
    pub(crate) fn came(&mut self, bytes: usize, gained: bool) {
        let bit = 1 << place(bytes);
        self.vain = if gained { self.vain & !bit } else { self.vain | bit };
    }
}

/// The bit of a class.
#[inline(always)]
fn place(bytes: usize) -> u32 {
    (bytes | 1).ilog2().min(HIGHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_side_wins_and_ties_are_the_hosts() {
        let choice = Choice::new(Sizes::LARGE, Kind::Cipher);
        choice.tried(16384, 3000, 1300);
        assert_eq!((choice.state(16384), choice.gain_ns(1 << 20)), (State::Device, 1700));
        for device in [300, 297, 230] {
            choice.tried(1024, 300, device);
            assert_eq!(choice.state(1024), State::Host, "that may be chance");
        }
        assert_eq!(choice.state(2000), State::Host, "sizes up to a factor of two are one class");
        assert_eq!(choice.state(2048), State::Unasked);
    }

    #[test]
    fn messages_with_a_tag_need_less_to_gain() {
        for (kind, state) in [(Kind::Cipher, State::Host), (Kind::Aead, State::Device)] {
            let choice = Choice::new(Sizes::LARGE, kind);
            choice.tried(16, 283, 111);
            assert_eq!(choice.state(16), state);
        }
    }

    #[test]
    fn small_requests_are_asked_about_when_somebody_wonders() {
        let choice = Choice::new(Sizes::LARGE, Kind::Aead);
        assert!(!choice.elsewhere().has(16));
        choice.wonder(16);
        assert!(choice.elsewhere().has(16) && choice.elsewhere().has(31) && !choice.elsewhere().has(32));
        choice.tried(16, 283, 270);
        choice.wonder(16);
        assert!(!choice.elsewhere().has(16), "that is known");
        choice.tried(64, 283, 111);
        assert!(choice.elsewhere().has(64));
    }

    /// A first session that took long is not the last one, however few messages a key has.
    #[test]
    fn what_opening_takes_is_doubted_and_seen_again() {
        let choice = Choice::new(Sizes::LARGE, Kind::Cipher);
        choice.opened_in(u32::MAX);
        let mut keys = 0;
        while choice.open_ns() > 2000 {
            choice.new_key();
            keys += 1;
        }
        assert!(keys < 2000, "{keys} keys");
        choice.opened_in(900);
        assert_eq!(choice.open_ns(), 900);
        choice.opened_in(u32::MAX);
        assert!(choice.open_ns() < 1100, "that may be chance");
        (0..20).for_each(|_| choice.opened_in(1700));
        assert_eq!(choice.open_ns(), 1700, "that is not");
        // However many keys come under which none is opened.
        (0..100_000).for_each(|_| choice.new_key());
        (0..20).for_each(|_| choice.opened_in(1700));
        assert_eq!(choice.open_ns(), 1700);
    }

    #[test]
    fn what_is_not_seen_to_be_opened_stays_a_guess() {
        let choice = Choice::new(Sizes::LARGE, Kind::Cipher);
        (0..100_000).for_each(|_| choice.new_key());
        assert_eq!(choice.open_ns(), OPEN_NS);
    }

    #[test]
    fn sizes_that_are_the_hosts_need_no_question() {
        let choice = Choice::new(Sizes::LARGE, Kind::Cipher);
        let elsewhere = |bytes| choice.elsewhere().has(bytes);
        assert!(!elsewhere(0) && !elsewhere(255) && elsewhere(256) && elsewhere(usize::MAX));
        choice.set(1024, State::Host);
        assert!(elsewhere(1023) && !elsewhere(1024) && !elsewhere(2047) && elsewhere(2048));
        for class in LOWEST..=HIGHEST {
            choice.set(1 << class, State::Host);
        }
        assert_eq!(choice.elsewhere(), Sizes::NONE);
        choice.set(usize::MAX, State::Device);
        assert!(elsewhere(1 << 14) && !elsewhere(1 << 13));
    }

    #[test]
    fn a_gate_lets_the_same_sizes_through() {
        let several = [Sizes::NONE, Sizes::ALL, Sizes::LARGE, Sizes::COMPANY, Sizes(0b1010), Sizes(1)];
        for (sizes, shift) in several.into_iter().flat_map(|sizes| (0..64).map(move |shift| (sizes, shift))) {
            for bytes in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1, usize::MAX] {
                for gate in [Gate::from(sizes), Gate::passing(sizes)] {
                    assert_eq!(gate.has(bytes), sizes.has(bytes), "{sizes:?}, {bytes}");
                }
            }
        }
    }

    #[test]
    fn small_requests_are_asked_about_where_they_all_are() {
        let choice = Choice::new(Sizes::ALL, Kind::Cipher);
        choice.set(1, State::Device);
        choice.set(31, State::Host);
        assert_eq!((choice.state(1), choice.state(16), choice.state(32)), (State::Device, State::Host, State::Unasked));
        let elsewhere = |bytes| choice.elsewhere().has(bytes);
        assert!(elsewhere(0) && elsewhere(15) && !elsewhere(16) && elsewhere(32));
    }

    #[test]
    fn what_may_meet_others_is_asked_about_each_time() {
        let choice = Choice::new(Sizes::COMPANY, Kind::Cipher);
        let elsewhere = |bytes| choice.elsewhere().has(bytes);
        assert!(!elsewhere(16383) && elsewhere(16384) && elsewhere(1 << 20));
        choice.set(16384, State::Company);
        assert_eq!((choice.state(20000), choice.gain_ns(20000)), (State::Company, 0));
        assert!(elsewhere(20000), "company may come with the next one");
    }

    #[test]
    fn jobs_wait_as_long_as_they_gain_and_now_and_then() {
        let mut company = Company::default();
        assert!(company.may_come(16384));
        company.came(16384, false);
        assert!(company.may_come(4096), "sizes are apart");
        let waited = (0..4 * TURNED_AWAY).filter(|_| company.may_come(16384)).count();
        assert_eq!(waited, 4);
        company.came(20000, true);
        assert!((0..4 * TURNED_AWAY).all(|_| company.may_come(16384)));
    }

    #[test]
    fn what_was_the_hosts_is_tried_again() {
        let choice = Choice::new(Sizes::LARGE, Kind::Cipher);
        choice.tried(16384, 1000, 2000);
        choice.tried(4096, 2000, 1000);
        for _ in 0..FORGET {
            choice.new_key();
        }
        assert_eq!((choice.state(16384), choice.state(4096)), (State::Unasked, State::Device));
    }
}

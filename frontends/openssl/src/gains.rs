//! What a device saves in requests of each size, which are the host's otherwise. The framework has learned it: here is what it comes to,
//! for who asks with every call.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use gantry_core::{Algorithm, Operation};

use crate::sizes::{CLASSES, Sizes, class};

/// Sessions under new keys after which it is asked for again.
const FORGET: u32 = 4096;

/// The same after which opening a session is thought to take an eighth less than it was seen to take.
const DOUBT: u32 = 64;

/// What opening a session takes in nanoseconds, until one was seen to be opened: of some algorithms none ever is.
const OPEN_NS: u32 = 3000;

/// No session is thought to be opened in less.
const OPEN_NS_AT_LEAST: u32 = 256;

/// The operator named the policy, which leads here: whatever it saves.
pub(crate) const NAMED: u32 = u32::MAX;

/// The gains of a framework's devices.
pub(crate) struct Gains(Box<[Gain]>);

impl Gains {
    /// Requests of other sizes than `asked` are the host's as long as nothing is known.
    pub(crate) fn new(asked: Sizes) -> Self {
        Self((0..Algorithm::PLACES).map(|_| Gain::new(asked)).collect())
    }

    pub(crate) fn of(&self, algorithm: Algorithm, operation: Operation) -> &Gain {
        &self.0[algorithm.place(operation)]
    }
}

/// Of one operation of one algorithm.
pub(crate) struct Gain {
    /// Nanoseconds that a device saves in a request, by class of sizes; 0 where it is the host's.
    saved_ns: [AtomicU32; CLASSES],
    /// Classes of which that is known, as bits.
    known: AtomicU32,
    /// Sizes that are not the host's, or of which it is not known.
    elsewhere: AtomicU32,
    asked: Sizes,
    open_ns: AtomicU32,
    keys: AtomicU32,
}

impl Gain {
    fn new(asked: Sizes) -> Self {
        Self {
            saved_ns: std::array::from_fn(|_| AtomicU32::new(0)),
            known: AtomicU32::new(0),
            elsewhere: AtomicU32::new(asked.0),
            asked,
            open_ns: AtomicU32::new(OPEN_NS),
            keys: AtomicU32::new(0),
        }
    }

    /// Requests of other sizes are the host's, without a question.
    #[inline(always)]
    pub(crate) fn elsewhere(&self) -> Sizes {
        Sizes(self.elsewhere.load(Relaxed))
    }

    /// Nanoseconds that a device saves in a request of so many bytes; `None` while that is not known.
    pub(crate) fn saved_ns(&self, bytes: usize) -> Option<u32> {
        let class = class(bytes);
        (self.known.load(Relaxed) >> class & 1 != 0).then(|| self.saved_ns[class].load(Relaxed))
    }

    /// It is known of requests like these.
    pub(crate) fn learn(&self, bytes: usize, saved_ns: u32) {
        let class = class(bytes);
        let bit = 1 << class;
        self.saved_ns[class].store(saved_ns, Relaxed);
        self.known.fetch_or(bit, Relaxed);
        if saved_ns == 0 {
            self.elsewhere.fetch_and(!bit, Relaxed);
        } else {
            self.elsewhere.fetch_or(bit, Relaxed);
        }
    }

    /// It is known of requests of all sizes.
    pub(crate) fn learn_all(&self, saved_ns: impl Fn(usize) -> u32) {
        (0..CLASSES).map(|class| 1 << class).for_each(|bytes| self.learn(bytes, saved_ns(bytes)));
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

    /// A context has a new key: now and then, what was found out is asked for again.
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
            self.known.store(0, Relaxed);
            self.elsewhere.fetch_or(self.asked.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_saves_nothing_is_the_hosts_without_a_question() {
        let gain = Gain::new(Sizes::LARGE);
        assert!(gain.elsewhere() == Sizes::LARGE && gain.saved_ns(4096).is_none());
        gain.learn_all(|bytes| if bytes >= 1024 { bytes as u32 } else { 0 });
        assert_eq!(
            (gain.saved_ns(1000), gain.saved_ns(5000), gain.saved_ns(1 << 20)),
            (Some(0), Some(4096), Some(16384))
        );
        assert_eq!(gain.elsewhere().smallest(), 1024);
        gain.learn_all(|_| 0);
        assert_eq!(gain.elsewhere(), Sizes::NONE);
    }

    /// A first session that took long is not the last one, however few messages a key has.
    #[test]
    fn what_opening_takes_is_doubted_and_seen_again() {
        let gain = Gain::new(Sizes::LARGE);
        gain.opened_in(u32::MAX);
        let mut keys = 0;
        while gain.open_ns() > 2000 {
            gain.new_key();
            keys += 1;
        }
        assert!(keys < 2000, "{keys} keys");
        gain.opened_in(900);
        assert_eq!(gain.open_ns(), 900);
        gain.opened_in(u32::MAX);
        assert!(gain.open_ns() < 1100, "that may be chance");
        (0..20).for_each(|_| gain.opened_in(1700));
        assert_eq!(gain.open_ns(), 1700, "that is not");
        // However many keys come under which none is opened.
        (0..100_000).for_each(|_| gain.new_key());
        (0..20).for_each(|_| gain.opened_in(1700));
        assert_eq!(gain.open_ns(), 1700);
    }

    #[test]
    fn what_is_not_seen_to_be_opened_stays_a_guess() {
        let gain = Gain::new(Sizes::LARGE);
        (0..100_000).for_each(|_| gain.new_key());
        assert_eq!(gain.open_ns(), OPEN_NS);
    }

    #[test]
    fn what_was_the_hosts_is_asked_for_again() {
        let gain = Gain::new(Sizes::LARGE);
        gain.learn_all(|_| 0);
        (0..FORGET).for_each(|_| gain.new_key());
        assert!(gain.saved_ns(16384).is_none() && gain.elsewhere() == Sizes::LARGE);
    }
}

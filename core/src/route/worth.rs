//! The time that Gantry's devices save a caller that can also run the requests itself, such as OpenSSL's own provider. One look-up by
//! the size of a request finds this time.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Requests of 2^HIGHEST bytes or more are in the last class.
const HIGHEST: u32 = 14;
/// Classes of sizes, each up to twice the one before.
const CLASSES: usize = HIGHEST as usize + 1;
/// Requests of fewer than 2^LOWEST bytes are not worth a question while no savings are known.
const LOWEST: u32 = 8;

/// Sessions under new keys after which the answer is asked for again.
const FORGET: u32 = 4096;
/// New keys after which the estimated time of opening a session is lowered by an eighth.
const DOUBT: u32 = 64;
/// Assumed nanoseconds of opening a session before the first opening. Sessions of some algorithms are never opened.
const OPEN_NS: u32 = 3000;
/// Minimum estimate of the nanoseconds of opening a session.
const OPEN_NS_AT_LEAST: u32 = 256;

/// Returns the class of a size.
#[inline(always)]
fn class(bytes: usize) -> usize {
    (bytes | 1).ilog2().min(HIGHEST) as usize
}

/// A set of classes of sizes of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeSet(u32);

impl SizeSet {
    /// No size.
    pub const NONE: SizeSet = SizeSet(0);
    /// Every size.
    pub const ALL: SizeSet = SizeSet((2 << HIGHEST) - 1);
    /// Sizes that are worth a question while no savings are known.
    pub const LARGE: SizeSet = SizeSet((2 << HIGHEST) - (1 << LOWEST));
    /// The smallest size in [`LARGE`](Self::LARGE), in bytes.
    pub const SMALLEST: usize = 1 << LOWEST;

    /// Returns whether requests of this size are included.
    #[inline(always)]
    pub fn has(self, bytes: usize) -> bool {
        self.0 >> class(bytes) & 1 != 0
    }

    /// Returns the smallest size in the set, in bytes.
    #[inline(always)]
    pub fn smallest(self) -> usize {
        match self.0.trailing_zeros() {
            0 => 0,
            u32::BITS => usize::MAX,
            first => 1 << first,
        }
    }
}

/// The savings for one operation of one algorithm.
pub struct Worth {
    /// Nanoseconds that a device saves in a request, by class of sizes; 0 if the request stays with the caller.
    saved_ns: [AtomicU32; CLASSES],
    /// Bit mask of the classes whose savings are known.
    known: AtomicU32,
    /// Sizes that may be worth it.
    sizes: AtomicU32,
    initial: SizeSet,
    open_ns: AtomicU32,
    keys: AtomicU32,
}

impl Worth {
    pub(crate) fn new(initial: SizeSet) -> Self {
        Self {
            saved_ns: std::array::from_fn(|_| AtomicU32::new(0)),
            known: AtomicU32::new(0),
            sizes: AtomicU32::new(initial.0),
            initial,
            open_ns: AtomicU32::new(OPEN_NS),
            keys: AtomicU32::new(0),
        }
    }

    /// Returns the sizes that may be worth a question. Requests of other sizes stay with the caller.
    #[inline(always)]
    pub fn sizes(&self) -> SizeSet {
        SizeSet(self.sizes.load(Relaxed))
    }

    /// Returns the nanoseconds that a device saves in a request; `None` while they are not known.
    pub fn saved_ns(&self, bytes: usize) -> Option<u32> {
        let class = class(bytes);
        (self.known.load(Relaxed) >> class & 1 != 0).then(|| self.saved_ns[class].load(Relaxed))
    }

    pub(crate) fn learn(&self, bytes: usize, saved_ns: u32) {
        let class = class(bytes);
        let bit = 1 << class;
        self.saved_ns[class].store(saved_ns, Relaxed);
        self.known.fetch_or(bit, Relaxed);
        if saved_ns == 0 {
            self.sizes.fetch_and(!bit, Relaxed);
        } else {
            self.sizes.fetch_or(bit, Relaxed);
        }
    }

    pub(crate) fn learn_all(&self, saved_ns: impl Fn(usize) -> u32) {
        (0..CLASSES).map(|class| 1 << class).for_each(|bytes| self.learn(bytes, saved_ns(bytes)));
    }

    /// Returns the nanoseconds that opening a session takes.
    pub fn open_ns(&self) -> u32 {
        self.open_ns.load(Relaxed)
    }

    /// Counts the opening of a session that took `ns` nanoseconds.
    pub fn opened_in(&self, ns: u32) {
        // The first opening may include the known-answer test, and any opening the time of another program; later openings correct the
        // estimate.
        let (estimate, ns) = (self.open_ns.load(Relaxed), ns.clamp(OPEN_NS_AT_LEAST, 10 * OPEN_NS));
        let new_estimate = if estimate == OPEN_NS { ns } else { ns.min(estimate + estimate / 8) };
        self.open_ns.store(new_estimate, Relaxed);
    }

    /// Counts a new key of the caller. Forgets all savings after every 4096 keys, so that the caller asks again.
    pub fn new_key(&self) {
        // Simultaneous threads may count as one: nothing depends on the exact number.
        let keys = self.keys.load(Relaxed);
        self.keys.store(keys.wrapping_add(1), Relaxed);
        // If each key has few messages, a high estimate prevents the openings that would correct it. So it decreases.
        let estimate = self.open_ns.load(Relaxed);
        if keys % DOUBT == DOUBT - 1 && estimate != OPEN_NS {
            self.open_ns.store(OPEN_NS_AT_LEAST.max(estimate - estimate / 8), Relaxed);
        }
        if keys % FORGET == FORGET - 1 {
            self.known.store(0, Relaxed);
            self.sizes.fetch_or(self.initial.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_without_savings_leave_the_set() {
        let worth = Worth::new(SizeSet::LARGE);
        assert!(worth.sizes() == SizeSet::LARGE && worth.saved_ns(4096).is_none());
        worth.learn_all(|bytes| if bytes >= 1024 { bytes as u32 } else { 0 });
        assert_eq!([1000, 5000, 1 << 20].map(|bytes| worth.saved_ns(bytes)), [Some(0), Some(4096), Some(16384)]);
        assert_eq!(worth.sizes().smallest(), 1024);
        worth.learn_all(|_| 0);
        assert_eq!(worth.sizes(), SizeSet::NONE);
    }

    /// A slow first opening does not prevent further ones, even if each key has few messages.
    #[test]
    fn the_opening_time_decays_and_is_learned_again() {
        let worth = Worth::new(SizeSet::LARGE);
        worth.opened_in(u32::MAX);
        let mut keys = 0;
        while worth.open_ns() > 2000 {
            worth.new_key();
            keys += 1;
        }
        assert!(keys < 2000, "{keys} keys");
        worth.opened_in(900);
        assert_eq!(worth.open_ns(), 900);
        worth.opened_in(u32::MAX);
        assert!(worth.open_ns() < 1100, "one slow opening may be chance");
        (0..20).for_each(|_| worth.opened_in(1700));
        assert_eq!(worth.open_ns(), 1700, "many slow openings are not chance");
        // Any number of keys may pass without an opening.
        (0..100_000).for_each(|_| worth.new_key());
        (0..20).for_each(|_| worth.opened_in(1700));
        assert_eq!(worth.open_ns(), 1700);
    }

    #[test]
    fn the_opening_time_without_measurements_stays_the_default() {
        let worth = Worth::new(SizeSet::LARGE);
        (0..100_000).for_each(|_| worth.new_key());
        assert_eq!(worth.open_ns(), OPEN_NS);
    }

    #[test]
    fn savings_are_forgotten_periodically() {
        let worth = Worth::new(SizeSet::LARGE);
        worth.learn_all(|_| 0);
        (0..FORGET).for_each(|_| worth.new_key());
        assert!(worth.saved_ns(16384).is_none() && worth.sizes() == SizeSet::LARGE);
    }

    #[test]
    fn all_large_sizes_are_in_the_last_class() {
        let largest = SizeSet(1 << HIGHEST);
        assert!(largest.has(1 << 14) && largest.has(usize::MAX) && !largest.has((1 << 14) - 1));
        let smallest = SizeSet::SMALLEST;
        assert!(SizeSet::LARGE.has(smallest) && !SizeSet::LARGE.has(smallest - 1) && SizeSet::ALL.has(0));
    }
}

//! The time that Gantry's devices save a caller that can also run the requests itself, such as OpenSSL's own provider. One look-up by
//! the size of a request finds this time.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Requests of 2^MAX_SIZE_LOG2 bytes or more are in the last class.
const MAX_SIZE_LOG2: u32 = 14;
/// Number of classes of sizes. Each class begins at twice the size of the one before.
const SIZE_CLASSES: usize = MAX_SIZE_LOG2 as usize + 1;
/// Requests of fewer than 2^MIN_LARGE_LOG2 bytes are not worth a question while no savings are known.
const MIN_LARGE_LOG2: u32 = 8;

/// New keys of the caller after which all savings are forgotten, so that the caller asks again.
const KEYS_UNTIL_FORGOTTEN: u32 = 4096;
/// New keys after which the estimated time of opening a session is lowered by an eighth.
const KEYS_PER_DECAY: u32 = 64;
/// Assumed nanoseconds of opening a session before the first opening. An estimate of exactly this value counts as not yet measured.
const INITIAL_OPEN_NS: u32 = 3000;
/// Minimum estimate of the nanoseconds of opening a session.
const MIN_OPEN_NS: u32 = 256;

/// Returns the class of a size.
#[inline(always)]
fn size_class(bytes: usize) -> usize {
    (bytes | 1).ilog2().min(MAX_SIZE_LOG2) as usize
}

/// A set of classes of sizes of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeSet(u32);

impl SizeSet {
    /// No size.
    pub const NONE: SizeSet = SizeSet(0);
    /// Every size.
    pub const ALL: SizeSet = SizeSet((2 << MAX_SIZE_LOG2) - 1);
    /// Sizes that are worth a question while no savings are known.
    pub const LARGE: SizeSet = SizeSet((2 << MAX_SIZE_LOG2) - (1 << MIN_LARGE_LOG2));
    /// The smallest size in [`LARGE`](Self::LARGE), in bytes.
    pub const SMALLEST: usize = 1 << MIN_LARGE_LOG2;

    /// Returns whether requests of this size are included.
    #[inline(always)]
    pub fn has(self, bytes: usize) -> bool {
        self.0 >> size_class(bytes) & 1 != 0
    }

    /// Returns the smallest size in the set, in bytes; `usize::MAX` if the set is empty.
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
pub struct Savings {
    /// Nanoseconds that a device saves in a request, by class of sizes; 0 if the request stays with the caller.
    saved_ns: [AtomicU32; SIZE_CLASSES],
    /// Bit mask of the classes whose savings are known.
    known_classes: AtomicU32,
    /// The [`SizeSet`] of the sizes that may be worth a question.
    sizes: AtomicU32,
    initial: SizeSet,
    open_ns: AtomicU32,
    key_count: AtomicU32,
}

impl Savings {
    pub(crate) fn new(initial: SizeSet) -> Self {
        Self {
            saved_ns: std::array::from_fn(|_| AtomicU32::new(0)),
            known_classes: AtomicU32::new(0),
            sizes: AtomicU32::new(initial.0),
            initial,
            open_ns: AtomicU32::new(INITIAL_OPEN_NS),
            key_count: AtomicU32::new(0),
        }
    }

    /// Returns the sizes that may be worth a question. Requests of other sizes stay with the caller.
    #[inline(always)]
    pub fn sizes(&self) -> SizeSet {
        SizeSet(self.sizes.load(Relaxed))
    }

    /// Returns the nanoseconds that a device saves in a request; `None` while they are not known.
    pub fn saved_ns(&self, bytes: usize) -> Option<u32> {
        let class = size_class(bytes);
        (self.known_classes.load(Relaxed) >> class & 1 != 0).then(|| self.saved_ns[class].load(Relaxed))
    }

    pub(crate) fn learn(&self, bytes: usize, saved_ns: u32) {
        let class = size_class(bytes);
        let bit = 1 << class;
        self.saved_ns[class].store(saved_ns, Relaxed);
        self.known_classes.fetch_or(bit, Relaxed);
        if saved_ns == 0 {
            self.sizes.fetch_and(!bit, Relaxed);
        } else {
            self.sizes.fetch_or(bit, Relaxed);
        }
    }

    pub(crate) fn learn_all(&self, saved_ns: impl Fn(usize) -> u32) {
        (0..SIZE_CLASSES).map(|class| 1 << class).for_each(|bytes| self.learn(bytes, saved_ns(bytes)));
    }

    /// Returns the nanoseconds that opening a session takes.
    pub fn open_ns(&self) -> u32 {
        self.open_ns.load(Relaxed)
    }

    /// Counts the opening of a session that took `ns` nanoseconds.
    pub fn record_opening(&self, ns: u32) {
        // The first opening may include the known-answer test, and every opening may include time of another program. Later openings
        // correct the estimate.
        let (estimate, ns) = (self.open_ns.load(Relaxed), ns.clamp(MIN_OPEN_NS, 10 * INITIAL_OPEN_NS));
        let new_estimate = if estimate == INITIAL_OPEN_NS { ns } else { ns.min(estimate + estimate / 8) };
        self.open_ns.store(new_estimate, Relaxed);
    }

    /// Counts a new key of the caller. Forgets all savings after every 4096 keys, so that the caller asks again.
    pub fn count_key(&self) {
        // Simultaneous threads may count as one: nothing depends on the exact number.
        let keys = self.key_count.load(Relaxed);
        self.key_count.store(keys.wrapping_add(1), Relaxed);
        // If each key has few messages, a high estimate prevents the openings that would correct it. So it decreases.
        let estimate = self.open_ns.load(Relaxed);
        if keys % KEYS_PER_DECAY == KEYS_PER_DECAY - 1 && estimate != INITIAL_OPEN_NS {
            self.open_ns.store(MIN_OPEN_NS.max(estimate - estimate / 8), Relaxed);
        }
        if keys % KEYS_UNTIL_FORGOTTEN == KEYS_UNTIL_FORGOTTEN - 1 {
            self.known_classes.store(0, Relaxed);
            self.sizes.fetch_or(self.initial.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_without_savings_leave_the_set() {
        let savings = Savings::new(SizeSet::LARGE);
        assert!(savings.sizes() == SizeSet::LARGE && savings.saved_ns(4096).is_none());
        savings.learn_all(|bytes| if bytes >= 1024 { bytes as u32 } else { 0 });
        assert_eq!([1000, 5000, 1 << 20].map(|bytes| savings.saved_ns(bytes)), [Some(0), Some(4096), Some(16384)]);
        assert_eq!(savings.sizes().smallest(), 1024);
        savings.learn_all(|_| 0);
        assert_eq!(savings.sizes(), SizeSet::NONE);
    }

    /// A slow first opening does not prevent further ones, even if each key has few messages.
    #[test]
    fn the_opening_time_decays_and_is_learned_again() {
        let savings = Savings::new(SizeSet::LARGE);
        savings.record_opening(u32::MAX);
        let mut keys = 0;
        while savings.open_ns() > 2000 {
            savings.count_key();
            keys += 1;
        }
        assert!(keys < 2000, "{keys} keys");
        savings.record_opening(900);
        assert_eq!(savings.open_ns(), 900);
        savings.record_opening(u32::MAX);
        assert!(savings.open_ns() < 1100, "one slow opening may be chance");
        (0..20).for_each(|_| savings.record_opening(1700));
        assert_eq!(savings.open_ns(), 1700, "many slow openings are not chance");
        // Any number of keys may pass without an opening.
        (0..100_000).for_each(|_| savings.count_key());
        (0..20).for_each(|_| savings.record_opening(1700));
        assert_eq!(savings.open_ns(), 1700);
    }

    #[test]
    fn the_opening_time_without_measurements_stays_the_default() {
        let savings = Savings::new(SizeSet::LARGE);
        (0..100_000).for_each(|_| savings.count_key());
        assert_eq!(savings.open_ns(), INITIAL_OPEN_NS);
    }

    #[test]
    fn savings_are_forgotten_periodically() {
        let savings = Savings::new(SizeSet::LARGE);
        savings.learn_all(|_| 0);
        (0..KEYS_UNTIL_FORGOTTEN).for_each(|_| savings.count_key());
        assert!(savings.saved_ns(16384).is_none() && savings.sizes() == SizeSet::LARGE);
    }

    #[test]
    fn all_large_sizes_are_in_the_last_class() {
        let largest = SizeSet(1 << MAX_SIZE_LOG2);
        assert!(largest.has(1 << 14) && largest.has(usize::MAX) && !largest.has((1 << 14) - 1));
        let smallest = SizeSet::SMALLEST;
        assert!(SizeSet::LARGE.has(smallest) && !SizeSet::LARGE.has(smallest - 1) && SizeSet::ALL.has(0));
    }
}

//! The anti-replay window of RFC 6479, of any size.

/// The bits of a word.
const WORD_BITS: u64 = u64::BITS as u64;

/// A window that ends at the highest number received. It refuses numbers before the window, and accepts each number in the window once.
#[derive(Debug)]
pub(crate) struct Window {
    /// A ring of bits with at least one word more than the window, so that old bits are cleared a word at a time.
    ring: Box<[u64]>,
    size: u64,
    /// The highest number received; `None` before the first.
    highest: Option<u64>,
}

impl Window {
    /// The largest size in numbers, more than any network reorders. Its ring takes 8 MiB.
    pub(crate) const MAX_SIZE: u32 = 1 << 25;

    pub(crate) fn new(size: u32) -> Self {
        let words = u64::from(size).div_ceil(WORD_BITS) + 1;
        Self { ring: vec![0; words.next_power_of_two() as usize].into(), size: size.into(), highest: None }
    }

    /// Returns a window whose highest number is `number`, and which counts all earlier numbers as received.
    pub(crate) fn with_received(size: u32, number: u64) -> Self {
        let mut window = Self::new(size);
        window.ring.fill(u64::MAX);
        let index = window.word_index(number / WORD_BITS);
        window.ring[index] = u64::MAX >> (WORD_BITS - 1 - number % WORD_BITS);
        window.highest = Some(number);
        window
    }

    /// Returns the count of numbers that the window covers.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the highest number received.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns whether a number is new: after the window, or in it and not yet received.
    pub(crate) fn admits(&self, number: u64) -> bool {
        match self.highest {
            Some(top) if number <= top => {
                top - number < self.size && self.ring[self.word_index(number / WORD_BITS)] & bit(number) == 0
            }
            _ => true,
        }
    }

    /// Marks a number as received. Returns whether it was [new](Self::admits).
    pub(crate) fn mark_received(&mut self, number: u64) -> bool {
        if !self.admits(number) {
            return false;
        }
        let top = self.highest.unwrap_or(0);
        if self.highest.is_none_or(|top| number > top) {
            let last = number / WORD_BITS;
            let words = (last - top / WORD_BITS).min(self.ring.len() as u64);
            for word in last + 1 - words..=last {
                let index = self.word_index(word);
                self.ring[index] = 0;
            }
            self.highest = Some(number);
        }
        let index = self.word_index(number / WORD_BITS);
        self.ring[index] |= bit(number);
        true
    }

    fn word_index(&self, word: u64) -> usize {
        word as usize & (self.ring.len() - 1)
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A window without a ring, as the reference.
    #[derive(Default)]
    struct ReferenceWindow {
        received: HashSet<u64>,
        highest: Option<u64>,
    }

    impl ReferenceWindow {
        fn mark_received(&mut self, number: u64, size: u64) -> bool {
            let in_window = self.highest.is_none_or(|top| number > top || top - number < size);
            let new = in_window && self.received.insert(number);
            if new {
                self.highest = self.highest.max(Some(number));
            }
            new
        }
    }

    #[test]
    fn accepts_every_number_once_in_windows_of_any_size() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for size in [1, 31, 32, 33, 63, 64, 65, 100, 128, 1000, 1024, 4096] {
            for from in [0, 1, u64::from(u32::MAX) - 5000, u64::MAX - 200_000] {
                let (mut window, mut reference) = (Window::new(size), ReferenceWindow::default());
                let mut at = from;
                for _ in 0..20_000 {
                    at = at.saturating_add(if random(100) == 0 { random(3 * u64::from(size)) } else { random(3) });
                    let number = at.saturating_sub(random(u64::from(size) + 70)).max(from);
                    assert_eq!(window.admits(number), {
                        let before = reference.received.contains(&number);
                        !before && reference.highest.is_none_or(|top| number > top || top - number < u64::from(size))
                    });
                    assert_eq!(
                        window.mark_received(number),
                        reference.mark_received(number, size.into()),
                        "{number} of {size}"
                    );
                    assert_eq!(window.highest(), reference.highest);
                }
            }
        }
    }

    #[test]
    fn with_received_counts_all_earlier_numbers_as_received() {
        for size in [1, 32, 64, 100, 1024] {
            for from in [1, 63, 64, 5000, (1 << 40) + 7, u64::MAX - 3] {
                let mut window = Window::with_received(size, from);
                assert!((from.saturating_sub(2000)..=from).all(|number| !window.mark_received(number)), "{from}");
                assert!(
                    window.mark_received(from + 2)
                        && window.mark_received(from + 1) == (size > 1)
                        && !window.mark_received(from + 2)
                );
            }
        }
    }

    #[test]
    fn accepts_the_highest_number() {
        let mut window = Window::new(64);
        assert!(window.mark_received(u64::MAX - 1) && window.mark_received(u64::MAX));
        assert!(
            !window.mark_received(u64::MAX)
                && window.mark_received(u64::MAX - 63)
                && !window.mark_received(u64::MAX - 64)
        );
    }

    #[test]
    fn a_jump_past_the_whole_ring_clears_it() {
        let mut window = Window::new(32);
        assert!(window.mark_received(5) && window.mark_received(5 + (1 << 40)));
        for number in (1 << 40) - 26..(1 << 40) + 5 {
            assert!(window.mark_received(number), "{number}");
        }
        assert!(!window.mark_received(5));
    }
}

//! The anti-replay window of RFC 6479, of any size.

/// The bits of a word.
const WORD: u64 = u64::BITS as u64;

/// A window that ends at the highest number received. It refuses numbers before the window, and accepts each number in the window once.
#[derive(Debug)]
pub(crate) struct Window {
    /// A ring of bits with at least one word more than the window, so that old bits are cleared a word at a time.
    ring: Box<[u64]>,
    size: u64,
    /// The highest number received; `None` before the first.
    top: Option<u64>,
}

impl Window {
    /// The largest size: 2^31 / 64, more than any network reorders.
    pub(crate) const MAX_SIZE: u32 = 1 << 25;

    pub(crate) fn new(size: u32) -> Self {
        let words = u64::from(size).div_ceil(WORD) + 1;
        Self { ring: vec![0; words.next_power_of_two() as usize].into(), size: size.into(), top: None }
    }

    /// Returns a window whose highest number is `number`, and which counts all earlier numbers as received.
    pub(crate) fn with_received(size: u32, number: u64) -> Self {
        let mut window = Self::new(size);
        window.ring.fill(u64::MAX);
        let place = window.place(number / WORD);
        window.ring[place] = u64::MAX >> (WORD - 1 - number % WORD);
        window.top = Some(number);
        window
    }

    /// Returns the count of numbers that the window covers.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the highest number received.
    pub(crate) fn top(&self) -> Option<u64> {
        self.top
    }

    /// Returns whether a number is new.
    pub(crate) fn admits(&self, number: u64) -> bool {
        match self.top {
            Some(top) if number <= top => {
                top - number < self.size && self.ring[self.place(number / WORD)] & bit(number) == 0
            }
            _ => true,
        }
    }

    /// Marks a number as received. Returns whether it was [new](Self::admits).
    pub(crate) fn mark_received(&mut self, number: u64) -> bool {
        if !self.admits(number) {
            return false;
        }
        let top = self.top.unwrap_or(0);
        if self.top.is_none_or(|top| number > top) {
            let last = number / WORD;
            let words = (last - top / WORD).min(self.ring.len() as u64);
            for word in last + 1 - words..=last {
                let place = self.place(word);
                self.ring[place] = 0;
            }
            self.top = Some(number);
        }
        let place = self.place(number / WORD);
        self.ring[place] |= bit(number);
        true
    }

    fn place(&self, word: u64) -> usize {
        word as usize & (self.ring.len() - 1)
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A window without a ring, as the reference.
    #[derive(Default)]
    struct Plain {
        received: HashSet<u64>,
        top: Option<u64>,
    }

    impl Plain {
        fn mark_received(&mut self, number: u64, size: u64) -> bool {
            let in_window = self.top.is_none_or(|top| number > top || top - number < size);
            let new = in_window && self.received.insert(number);
            if new {
                self.top = self.top.max(Some(number));
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
                let (mut window, mut plain) = (Window::new(size), Plain::default());
                let mut at = from;
                for _ in 0..20_000 {
                    at = at.saturating_add(if random(100) == 0 { random(3 * u64::from(size)) } else { random(3) });
                    let number = at.saturating_sub(random(u64::from(size) + 70)).max(from);
                    assert_eq!(window.admits(number), {
                        let before = plain.received.contains(&number);
                        !before && plain.top.is_none_or(|top| number > top || top - number < u64::from(size))
                    });
                    assert_eq!(
                        window.mark_received(number),
                        plain.mark_received(number, size.into()),
                        "{number} of {size}"
                    );
                    assert_eq!(window.top(), plain.top);
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

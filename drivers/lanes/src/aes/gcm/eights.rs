//! Eight lines after the other.

use super::*;

/// Eight lines after the other, with the GHASH of eight beside the AES of eight: the same ones where they are decrypted, otherwise
/// those before.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ. There are eight lines, which can be read and written, and the counter of the first
/// has the remainder of a message's first.
#[inline(always)]
pub(super) unsafe fn eights<R: Wide, K: Keys<R>, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    mut data: Data<'_>,
) {
    // SAFETY: the instructions are there, and the rest is the caller's promise.
    unsafe {
        let keys = K::new(key.keys.as_blocks().as_ptr());
        let counter = block(&message.counter);
        let mut state = Eight {
            keys,
            hash: block(&message.hash),
            base: R::zero(),
            counter: R::repeat(counter.counted(FIRST_OF_DATA.wrapping_neg())),
            lines: [R::zero(); REGISTERS],
        };
        state.base = state.next_base();
        let rounds = data.bytes / (REGISTERS * R::LINE);
        if DECRYPT {
            for _ in 0..rounds {
                state.step::<ROUNDS, DECRYPT, true, true>(&key.powers, &mut data);
            }
        } else {
            state.step::<ROUNDS, DECRYPT, true, false>(&key.powers, &mut data);
            for _ in 1..rounds {
                state.step::<ROUNDS, DECRYPT, true, true>(&key.powers, &mut data);
            }
            state.step::<ROUNDS, DECRYPT, false, true>(&key.powers, &mut data);
        }
        set(&mut message.hash, state.hash);
        set(&mut message.counter, counter.counted(blocks::<R>().wrapping_mul(rounds as u32)));
    }
}

/// The blocks of eight lines.
const fn blocks<R: Wide>() -> u32 {
    (REGISTERS * R::BLOCKS) as u32
}

/// What [`eights()`] has in registers.
struct Eight<R, K> {
    keys: K,
    hash: Xmm,
    /// The counter whose lowest bits are zeros, below those of the eight lines at hand: everywhere the same, its first key added.
    base: R,
    /// The one after that, its bytes turned around.
    counter: R,
    /// Ciphertext that is to be hashed, its bytes turned around.
    lines: [R; REGISTERS],
}

/// The lowest bits of the counters of eight lines of the widest registers, or of narrower ones.
#[repr(align(64))]
struct Lowest([[u8; BLOCK]; REGISTERS * WIDEST / BLOCK]);

impl Lowest {
    const fn of(blocks: u32) -> Self {
        let mut lowest = [[0; BLOCK]; REGISTERS * WIDEST / BLOCK];
        let mut i = 0;
        while i < blocks {
            lowest[i as usize][BLOCK - 1] = ((FIRST_OF_DATA + i) % blocks) as u8;
            i += 1;
        }
        Lowest(lowest)
    }
}

const _: () = assert!(FIRST_OF_DATA == 2, "the last two blocks of eight lines have the next base");

impl<R: Wide, K: Keys<R>> Eight<R, K> {
    /// # Safety
    /// That of [`eights()`].
    #[inline(always)]
    unsafe fn next_base(&mut self) -> R {
        // SAFETY: the instructions are there, and the keys.
        let base = unsafe { self.counter.turned().xor(self.keys.get(0, 0)) };
        self.counter = self.counter.counted(blocks::<R>());
        base
    }

    /// Encrypts or decrypts eight lines (`CRYPT`), and hashes eight (`HASH`).
    ///
    /// # Safety
    /// That of [`eights()`]. To encrypt or decrypt, there are so many lines, which can be read and written.
    #[inline(always)]
    unsafe fn step<const ROUNDS: usize, const DECRYPT: bool, const CRYPT: bool, const HASH: bool>(
        &mut self,
        powers: &Powers,
        data: &mut Data<'_>,
    ) {
        // SAFETY: as above.
        unsafe {
            let mut x = [R::zero(); REGISTERS];
            if CRYPT {
                let next = self.next_base();
                let lowest = const { &Lowest::of(blocks::<R>()) };
                for (r, x) in x.iter_mut().enumerate() {
                    let base = if r < REGISTERS - 1 { self.base } else { self.base.with_last_two(next) };
                    *x = base.xor(R::load(lowest.0.as_ptr().add(r * R::BLOCKS)));
                }
                self.base = next;
            }
            self.keys = self.keys.afresh();
            let mut sum = Sum::new(powers);
            // A loop of 13 would stay one, with all of its conditions.
            macro_rules! rounds {
                ($($round:literal)*) => { $(
                    if CRYPT && $round < ROUNDS {
                        let key = self.keys.get($round, 0);
                        for x in &mut x {
                            *x = x.round(key).in_order();
                        }
                    }
                    if HASH && let Some(r) = hashed_beside($round, ROUNDS) {
                        let mut line =
                            if DECRYPT { R::load(data.from.add(r * R::LINE).cast()).turned() } else { self.lines[r] };
                        if r == 0 {
                            line = line.xor(R::from_first(self.hash));
                        }
                        sum.add(line, (REGISTERS - r) * R::BLOCKS);
                    }
                )* };
            }
            rounds!(1 2 3 4 5 6 7 8 9 10 11 12 13);
            if HASH {
                self.hash = sum.reduced();
            }
            if CRYPT {
                let last = self.keys.get(ROUNDS, 0);
                // All lines of input are read before one is written.
                for (r, x) in x.iter_mut().enumerate() {
                    let input = R::load(data.from.add(r * R::LINE).cast());
                    *x = x.last_round(input.xor(last));
                }
                for (r, x) in x.into_iter().enumerate() {
                    x.store(data.to.add(r * R::LINE).cast());
                    if !DECRYPT {
                        self.lines[r] = x.turned();
                    }
                }
                data.skip(REGISTERS * R::LINE);
            }
        }
    }
}

/// Which of the eight lines is hashed beside a round of AES: from the second on, and last the first, which waits for the hash of those
/// before.
const fn hashed_beside(round: usize, rounds: usize) -> Option<usize> {
    let mut place = 0;
    while place < REGISTERS {
        if place * (rounds - 1) / REGISTERS + 1 == round {
            return Some((place + 1) % REGISTERS);
        }
        place += 1;
    }
    None
}

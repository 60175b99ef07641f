//! The main loop: eight lines at a time.

use super::*;

/// Encrypts or decrypts eight lines at a time, with their AES rounds and GHASH interleaved. Decryption hashes the lines that it decrypts;
/// encryption hashes the eight lines before them.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ. `data` has at least eight lines, which can be read and written. The counter of the
/// first block equals [`DATA_COUNTER`] modulo the number of blocks in eight lines.
#[inline(always)]
pub(super) unsafe fn eight_lines<R: WideRegister, K: KernelKeys<R>, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut GcmState,
    mut data: RawBuffers<'_>,
) {
    // SAFETY: the caller promises the instructions and the data.
    unsafe {
        let keys = K::new(key.keys.as_blocks().as_ptr());
        let counter = load_block(&message.counter);
        let mut state = EightLinesState {
            keys,
            hash: load_block(&message.hash),
            base: R::zero(),
            counter: R::repeat(counter.advance_counter(DATA_COUNTER.wrapping_neg())),
            lines: [R::zero(); REGISTERS],
        };
        state.base = state.next_base();
        let rounds = data.bytes / (REGISTERS * R::LINE_BYTES);
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
        store_block(&mut message.hash, state.hash);
        store_block(&mut message.counter, counter.advance_counter(blocks::<R>().wrapping_mul(rounds as u32)));
    }
}

/// Returns the number of blocks in eight lines.
const fn blocks<R: WideRegister>() -> u32 {
    (REGISTERS * R::BLOCKS) as u32
}

/// The state of [`eight_lines()`], in registers as far as the CPU has enough.
struct EightLinesState<R, K> {
    keys: K,
    hash: Xmm,
    /// The first counter of the current eight lines minus [`DATA_COUNTER`], so that its lowest bits are zero. Then the first round key is
    /// added. Repeated for each block.
    base: R,
    /// The counter for the next `base`, with reversed bytes.
    counter: R,
    /// Ciphertext to be hashed, with reversed bytes; only for encryption.
    lines: [R; REGISTERS],
}

/// The lowest bits of the counters of eight lines, to be added to the base. The array has room for the widest registers.
#[repr(align(64))]
struct LowestCounters([[u8; BLOCK_LEN]; REGISTERS * MAX_LINE_BYTES / BLOCK_LEN]);

impl LowestCounters {
    const fn new(blocks: u32) -> Self {
        let mut lowest = [[0; BLOCK_LEN]; REGISTERS * MAX_LINE_BYTES / BLOCK_LEN];
        let mut i = 0;
        while i < blocks {
            lowest[i as usize][BLOCK_LEN - 1] = ((DATA_COUNTER + i) % blocks) as u8;
            i += 1;
        }
        LowestCounters(lowest)
    }
}

const _: () = assert!(DATA_COUNTER == 2, "the last two blocks of eight lines have the next base");

impl<R: WideRegister, K: KernelKeys<R>> EightLinesState<R, K> {
    /// Returns the base for `counter`, and advances `counter` by eight lines.
    ///
    /// # Safety
    /// As for [`eight_lines()`].
    #[inline(always)]
    unsafe fn next_base(&mut self) -> R {
        // SAFETY: the caller promises the instructions, and `keys` has all round keys.
        let base = unsafe { self.counter.reverse_bytes().xor(self.keys.get(0, 0)) };
        self.counter = self.counter.advance_counter(blocks::<R>());
        base
    }

    /// Encrypts or decrypts eight lines if `CRYPT`, and hashes eight lines if `HASH`.
    ///
    /// # Safety
    /// As for [`eight_lines()`]. With `CRYPT`, or with `HASH` and `DECRYPT`, `data` has at least eight lines.
    #[inline(always)]
    unsafe fn step<const ROUNDS: usize, const DECRYPT: bool, const CRYPT: bool, const HASH: bool>(
        &mut self,
        powers: &Powers,
        data: &mut RawBuffers<'_>,
    ) {
        // SAFETY: as above.
        unsafe {
            let mut x = [R::zero(); REGISTERS];
            if CRYPT {
                let next = self.next_base();
                let lowest = const { &LowestCounters::new(blocks::<R>()) };
                for (r, x) in x.iter_mut().enumerate() {
                    let base = if r < REGISTERS - 1 { self.base } else { self.base.with_last_two(next) };
                    *x = base.xor(R::load(lowest.0.as_ptr().add(r * R::BLOCKS)));
                }
                self.base = next;
            }
            self.keys = self.keys.reload();
            let mut sum = Sum::new(powers);
            // The compiler would not unroll a loop of 13 rounds, and the loop would check its conditions in each round.
            macro_rules! rounds {
                ($($round:literal)*) => { $(
                    if CRYPT && $round < ROUNDS {
                        let key = self.keys.get($round, 0);
                        for x in &mut x {
                            *x = x.round(key).keep_order();
                        }
                    }
                    if HASH && let Some(r) = line_hashed_in_round($round, ROUNDS) {
                        let mut line =
                            if DECRYPT { R::load(data.from.add(r * R::LINE_BYTES).cast()).reverse_bytes() } else { self.lines[r] };
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
                    let input = R::load(data.from.add(r * R::LINE_BYTES).cast());
                    *x = x.last_round(input.xor(last));
                }
                for (r, x) in x.into_iter().enumerate() {
                    x.store(data.to.add(r * R::LINE_BYTES).cast());
                    if !DECRYPT {
                        self.lines[r] = x.reverse_bytes();
                    }
                }
                data.skip(REGISTERS * R::LINE_BYTES);
            }
        }
    }
}

/// Returns the line to hash during a round of AES, if any. The first line comes last, because it depends on the previous hash.
const fn line_hashed_in_round(round: usize, rounds: usize) -> Option<usize> {
    let mut index = 0;
    while index < REGISTERS {
        if index * (rounds - 1) / REGISTERS + 1 == round {
            return Some((index + 1) % REGISTERS);
        }
        index += 1;
    }
    None
}

//! SHA-512 of one message. The rounds run in general registers, while vector registers make the words of the next blocks.
//!
//! A round is 22 or 24 arithmetic instructions and two moves. Their order decides how well the CPU uses its units. On Zen 4, which has
//! four, 80 rounds take between 458 and more than 580 cycles with the same instructions. The assembly below has the fastest of several
//! thousand orders that were measured.

use core::arch::asm;
use core::hint::black_box;
use core::mem::MaybeUninit;

use super::sha2::{K512, Sha512};
use super::{Compression, OuterHash, Segment};
use crate::internal::vector::Vector;

/// Maximum number of blocks whose words are made side by side.
const MAX_LANES: usize = 8;

/// A row for each of the 80 words, and a column for each block. A word is uninitialized until it is made.
#[repr(align(64))]
struct Words(MaybeUninit<[[u64; MAX_LANES]; 80]>);

impl Words {
    const fn new() -> Self {
        Words(MaybeUninit::uninit())
    }

    /// Returns the row of word `t`, which is below 80.
    #[inline(always)]
    fn row(&mut self, t: usize) -> *mut u64 {
        self.0.as_mut_ptr().cast::<u64>().wrapping_add(t * MAX_LANES)
    }
}

/// One round (FIPS 180-4, 6.4.2, step 3) with the word of row `row`. Variables change their names instead of their registers.
///
/// `bc` holds b xor c. `ab` first holds Ch(e, f, g), and in the end a xor b, which is b xor c of the next round. This version has the
/// fewest instructions, for CPUs with four or five units.
macro_rules! round_with_fewest_instructions {
    () => {
        "mov \\ab, \\f
         add \\h, [rax + 64 * \\row]
         xor \\ab, \\g
         and \\ab, \\e
         rorx rdx, \\e, 18
         rorx rcx, \\e, 14
         xor rcx, rdx
         xor \\ab, \\g
         add \\h, \\ab
         mov \\ab, \\a
         rorx rdx, \\e, 41
         xor \\ab, \\b
         xor rcx, rdx
         add \\h, rcx
         rorx rcx, \\a, 28
         rorx rdx, \\a, 34
         xor rcx, rdx
         rorx rdx, \\a, 39
         add \\d, \\h
         and \\bc, \\ab
         xor \\bc, \\b
         add \\h, \\bc
         xor rcx, rdx
         add \\h, rcx"
    };
}

/// The round for CPUs with six units, whose vector instructions take two cycles. It has two sums more, which shortens the chain from
/// one `e` to the next by one instruction.
macro_rules! round_with_shortest_chain {
    () => {
        "rorx rdx, \\e, 18
         add \\h, [rax + 64 * \\row]
         mov \\ab, \\f
         xor \\ab, \\g
         and \\ab, \\e
         add \\d, \\h
         xor \\ab, \\g
         add \\h, \\ab
         add \\d, \\ab
         mov \\ab, \\a
         xor \\ab, \\b
         and \\bc, \\ab
         xor \\bc, \\b
         rorx rcx, \\e, 14
         xor rcx, rdx
         rorx rdx, \\e, 41
         xor rcx, rdx
         rorx rdx, \\a, 34
         add \\d, rcx
         add \\h, rcx
         add \\h, \\bc
         rorx rcx, \\a, 28
         xor rcx, rdx
         rorx rdx, \\a, 39
         xor rcx, rdx
         add \\h, rcx"
    };
}

/// The variables of the rounds, and b xor c.
#[derive(Clone, Copy)]
struct Variables {
    chain: [u64; 8],
    bc: u64,
}

impl Variables {
    /// Runs eight rounds with the words of one column, from `words` on.
    ///
    /// # Safety
    /// The column of [`Words`] is readable for eight rows from `words` on, and the CPU has BMI2.
    #[inline(always)]
    unsafe fn eight_rounds<V: Vector>(&mut self, words: *const u64) {
        let [a, b, c, d, e, f, g, h] = &mut self.chain;
        macro_rules! eight {
            ($round:ident) => {
                // The registers are fixed, so that the compiler does not move variables between two calls.
                // SAFETY: the caller promises the words and BMI2; all registers that change are named.
                unsafe {
                    asm!(
                        ".macro gantry_round a b c d e f g h bc ab row",
                        $round!(),
                        ".endm",
                        "gantry_round r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi 0",
                        "gantry_round r15 r8 r9 r10 r11 r12 r13 r14 rsi rdi 1",
                        "gantry_round r14 r15 r8 r9 r10 r11 r12 r13 rdi rsi 2",
                        "gantry_round r13 r14 r15 r8 r9 r10 r11 r12 rsi rdi 3",
                        "gantry_round r12 r13 r14 r15 r8 r9 r10 r11 rdi rsi 4",
                        "gantry_round r11 r12 r13 r14 r15 r8 r9 r10 rsi rdi 5",
                        "gantry_round r10 r11 r12 r13 r14 r15 r8 r9 rdi rsi 6",
                        "gantry_round r9 r10 r11 r12 r13 r14 r15 r8 rsi rdi 7",
                        ".purgem gantry_round",
                        in("rax") words,
                        inout("r8") *a,
                        inout("r9") *b,
                        inout("r10") *c,
                        inout("r11") *d,
                        inout("r12") *e,
                        inout("r13") *f,
                        inout("r14") *g,
                        inout("r15") *h,
                        inout("rdi") self.bc,
                        out("rsi") _,
                        out("rcx") _,
                        out("rdx") _,
                        options(pure, readonly, nostack),
                    )
                }
            };
        }
        if V::LATENCY > 1 {
            eight!(round_with_shortest_chain);
        } else {
            eight!(round_with_fewest_instructions);
        }
    }
}

/// The words of the next blocks while they are made, with one block in each lane.
struct Schedule<'w, V> {
    /// The words of the standard.
    plain_words: &'w mut Words,
    /// The words plus the constants of their rounds.
    round_words: &'w mut Words,
    /// The last two words, on which the next ones depend.
    last_words: [V; 2],
}

impl<'w, V: Vector<Word = u64>> Schedule<'w, V> {
    /// Words made after every eight of a block's first 64 rounds. `V::LANES` blocks thus make all 64 words.
    const WORDS_PER_EIGHT_ROUNDS: usize = 8 / V::LANES;

    /// Begins with the 16 message words of `blocks` blocks: at least one, and at most `V::LANES`.
    ///
    /// # Safety
    /// `message` is readable for `blocks` blocks, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin(message: *const u8, blocks: usize, plain_words: &'w mut Words, round_words: &'w mut Words) -> Self {
        // Lanes without a block get the last one again.
        let mut lanes = [message; MAX_LANES];
        for (lane, block) in lanes.iter_mut().enumerate() {
            *block = message.wrapping_add(lane.min(blocks - 1) * Sha512::BLOCK_SIZE);
        }
        // SAFETY: as above.
        unsafe {
            let message = V::gather(lanes.as_ptr(), 0, true);
            let mut schedule = Self { plain_words, round_words, last_words: [message[0]; 2] };
            for (t, word) in message.into_iter().enumerate() {
                schedule.store_word(t, word);
            }
            schedule
        }
    }

    /// Makes word `t`, at least 16, from the words before it (FIPS 180-4, 6.4.2, step 1).
    ///
    /// # Safety
    /// The words before it were made, `t` is between 16 and 79, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn make_word(&mut self, t: usize) {
        let plain_words = &mut *self.plain_words;
        let mut before = |distance: usize| {
            // SAFETY: as above; a row is no shorter than a register.
            unsafe { V::load(plain_words.row(t - distance)) }
        };
        let (low, high) = (before(15), self.last_words[0]);
        let low = low.rotate_left::<63>().xor3(low.rotate_left::<56>(), low.shift_right::<7>());
        let high = high.rotate_left::<45>().xor3(high.rotate_left::<3>(), high.shift_right::<6>());
        let word = before(16).add(before(7)).add(low).add(high);
        // SAFETY: as above.
        unsafe { self.store_word(t, word) }
    }

    /// Stores word `t`, without and with its constant.
    ///
    /// # Safety
    /// `t` is below 80, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn store_word(&mut self, t: usize, word: V) {
        self.last_words = [self.last_words[1], word];
        // SAFETY: as above; a row is no shorter than a register.
        unsafe {
            word.store(self.plain_words.row(t));
            word.add(V::splat(*K512.get_unchecked(t))).store(self.round_words.row(t));
        }
    }
}

/// Runs the rounds of one block, whose words are the column of [`Words`] from `words` on. With `next`, also makes words of the next blocks,
/// from the given number on, after every eight of the first 64 rounds.
///
/// The rounds are a loop, because the cache for decoded instructions holds only a few thousand. Zen 5 took 461 cycles for a block with the
/// loop, and 516 with the rounds of two blocks unrolled.
///
/// # Safety
/// All words of the column were made, as were the words of `next` before the given number. The CPU has BMI2 and the instructions of `V`.
#[inline(always)]
unsafe fn compress_block<V: Vector<Word = u64>>(
    chain: &mut [u64; 8],
    mut words: *const u64,
    next: Option<(&mut Schedule<'_, V>, usize)>,
) {
    let mut variables = Variables { chain: *chain, bc: chain[1] ^ chain[2] };
    let mut eight_rounds = || {
        // SAFETY: the caller promises all 80 rows of the column and BMI2; this is called ten times, for eight rows each.
        unsafe { variables.eight_rounds::<V>(words) };
        words = words.wrapping_add(8 * MAX_LANES);
    };
    // The compiler would unroll loops with known bounds.
    let (scheduling_groups, all_groups) = black_box((8, 10));
    let mut done = 0;
    if let Some((schedule, mut t)) = next {
        while done < scheduling_groups {
            for _ in 0..2 {
                eight_rounds();
                for _ in 0..Schedule::<V>::WORDS_PER_EIGHT_ROUNDS {
                    // SAFETY: guaranteed by the caller.
                    unsafe { schedule.make_word(t) };
                    t += 1;
                }
            }
            done += 2;
        }
    }
    while done < all_groups {
        eight_rounds();
        eight_rounds();
        done += 2;
    }
    for (old, new) in chain.iter_mut().zip(variables.chain) {
        *old = old.wrapping_add(new);
    }
}

/// The compression function for one message.
///
/// # Safety
/// As for [`CompressKernel`](super::CompressKernel) with one lane, and the CPU has BMI2 and the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn sha512<V: Vector<Word = u64>>(
    state: *mut u64,
    mut segments: &[Segment],
    outer: Option<&OuterHash<Sha512>>,
) {
    // One block gains nothing: making its words takes as long as making the words of all lanes.
    while let Some((segment, others)) = segments.split_first()
        && segment.blocks > 1
    {
        // SAFETY: guaranteed by the caller.
        unsafe { compress_blocks::<V>(state, segment) };
        segments = others;
    }
    // SAFETY: the caller promises the rest; a scalar needs no particular instructions.
    unsafe { super::compress_segments::<Sha512, u64>(state, segments, outer) }
}

/// Compresses at least two blocks. Makes the words of `V::LANES` blocks at a time.
///
/// # Safety
/// As for [`sha512`].
#[inline(always)]
unsafe fn compress_blocks<V: Vector<Word = u64>>(state: *mut u64, segment: &Segment) {
    const { assert!(V::LANES == 8 || V::LANES == 4, "the rounds of `V::LANES` blocks make all words of the next blocks") };
    let Segment { messages, blocks } = *segment;
    let (mut plain_words, mut words) = (Words::new(), [Words::new(), Words::new()]);
    let [mut current, mut next] = words.each_mut();
    // SAFETY: the caller promises eight words at `state`, and `blocks` blocks of the message; no more are read.
    unsafe {
        let mut chain: [u64; 8] = state.cast::<[u64; 8]>().read();
        let mut message = *messages;
        let mut ready = blocks.min(V::LANES);
        let mut remaining = blocks - ready;
        let mut first = Schedule::<V>::begin(message, ready, &mut plain_words, current);
        for t in 16..80 {
            first.make_word(t);
        }
        while remaining > 0 {
            message = message.wrapping_add(V::LANES * Sha512::BLOCK_SIZE);
            ready = remaining.min(V::LANES);
            remaining -= ready;
            let mut schedule = Schedule::<V>::begin(message, ready, &mut plain_words, next);
            for lane in 0..V::LANES {
                let first = 16 + lane * 8 * Schedule::<V>::WORDS_PER_EIGHT_ROUNDS;
                compress_block::<V>(&mut chain, current.row(0).wrapping_add(lane), Some((&mut schedule, first)));
            }
            (current, next) = (next, current);
        }
        for lane in 0..ready {
            compress_block::<V>(&mut chain, current.row(0).wrapping_add(lane), None);
        }
        state.cast::<[u64; 8]>().write(chain);
    }
}

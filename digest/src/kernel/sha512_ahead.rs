//! One message of SHA-512, whose rounds run on general registers while vector registers make the words of its next blocks.
//!
//! A round is 22 or 24 instructions of arithmetic and two moves, and in which order they stand decides how well the CPU keeps its units
//! busy: on a Zen 4, which has four, 80 rounds take from 458 cycles to more than 580 with the same instructions. So they are written here
//! one by one, in the order that was the fastest of some thousand that were tried.

use core::arch::asm;
use core::hint::black_box;
use core::mem::MaybeUninit;

use super::sha2::{K512, Sha512};
use super::{Hash, Outer, Segment};
use crate::vector::Vector;

/// Most blocks whose words are made side by side.
const MAX_LANES: usize = 8;

/// A row for each of the 80 words, with one block in each column; those are there that were made.
#[repr(align(64))]
struct Words(MaybeUninit<[[u64; MAX_LANES]; 80]>);

impl Words {
    const fn new() -> Self {
        Words(MaybeUninit::uninit())
    }

    /// The row of word `t`, below 80.
    #[inline(always)]
    fn row(&mut self, t: usize) -> *mut u64 {
        self.0.as_mut_ptr().cast::<u64>().wrapping_add(t * MAX_LANES)
    }
}

/// One round (FIPS 180-4, 6.4.2, step 3) with the word in this row, as in the standard, but that the variables stay where they are and
/// change their names. `bc` holds b xor c, `ab` will hold a xor b, which is the next round's b xor c; it holds what is chosen from `f`
/// and `g` before. Here each unit counts, of four or five.
macro_rules! round_of_fewest {
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

/// The same for the six units of CPUs whose vector instructions take two cycles: two sums more, so that from one `e` to the next is one
/// less to wait for. Its order is the fastest of some thousand, too.
macro_rules! round_of_shortest {
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
    /// Eight rounds, with the words of one column from `words` on.
    ///
    /// # Safety
    /// Eight rows of [`Words`] can be read from `words` on, and the CPU has BMI2.
    #[inline(always)]
    unsafe fn eight_rounds<V: Vector>(&mut self, words: *const u64) {
        let [a, b, c, d, e, f, g, h] = &mut self.chain;
        macro_rules! eight {
            ($round:ident) => {
                // SAFETY: as the caller promises; all registers that change are named. The registers are chosen so that the compiler
                // has no reason to move variables between two calls.
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
            eight!(round_of_shortest);
        } else {
            eight!(round_of_fewest);
        }
    }
}

/// Words in the making, one block in each lane.
struct Schedule<'w, V> {
    /// As the standard has them.
    plain: &'w mut Words,
    /// With the constants of their rounds.
    words: &'w mut Words,
    /// The last two, for which the next ones wait.
    last: [V; 2],
}

impl<'w, V: Vector<Word = u64>> Schedule<'w, V> {
    /// Words that a block has made for it between every eight rounds of the first 64: with as many blocks as lanes, all that there are.
    const EACH: usize = 8 / V::LANES;

    /// Begins with the words of the message itself, of at most as many blocks as there are lanes, and at least one.
    ///
    /// # Safety
    /// `message` has so many `blocks`, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin(message: *const u8, blocks: usize, plain: &'w mut Words, words: &'w mut Words) -> Self {
        // Lanes that have no block get the last one again.
        let mut lanes = [message; MAX_LANES];
        for (lane, block) in lanes.iter_mut().enumerate() {
            *block = message.wrapping_add(lane.min(blocks - 1) * Sha512::BLOCK);
        }
        // SAFETY: as above.
        unsafe {
            let message = V::gather(lanes.as_ptr(), 0, true);
            let mut schedule = Self { plain, words, last: [message[0]; 2] };
            for (t, word) in message.into_iter().enumerate() {
                schedule.keep(t, word);
            }
            schedule
        }
    }

    /// Makes word `t`, from 16 on, of those before it (FIPS 180-4, 6.4.2, step 1).
    ///
    /// # Safety
    /// Those were made, `t` is below 80, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn make(&mut self, t: usize) {
        let plain = &mut *self.plain;
        let mut before = |distance: usize| {
            // SAFETY: as above; a row is no shorter than a register.
            unsafe { V::load(plain.row(t - distance)) }
        };
        let (low, high) = (before(15), self.last[0]);
        let low = low.rotate_left::<63>().xor3(low.rotate_left::<56>(), low.shift_right::<7>());
        let high = high.rotate_left::<45>().xor3(high.rotate_left::<3>(), high.shift_right::<6>());
        let word = before(16).add(before(7)).add(low).add(high);
        // SAFETY: as above.
        unsafe { self.keep(t, word) }
    }

    /// Keeps word `t`, without and with its constant.
    ///
    /// # Safety
    /// `t` is below 80, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn keep(&mut self, t: usize, word: V) {
        self.last = [self.last[1], word];
        // SAFETY: as above; a row is no shorter than a register.
        unsafe {
            word.store(self.plain.row(t));
            word.add(V::splat(*K512.get_unchecked(t))).store(self.words.row(t));
        }
    }
}

/// The rounds of one block, whose words are the column of [`Words`] from `words` on. After each eight of the first 64 some words of the
/// next blocks are made, from word `first` on.
///
/// It is a loop, because CPUs keep no more than some thousand instructions as they have decoded them: with the rounds of two blocks and
/// what is around them one after the other a Zen 5 took 516 cycles for a block, and with the loop 461.
///
/// # Safety
/// All words of the column were made, as were those of the next blocks before `first`, and the CPU has BMI2 and the instructions of `V`.
#[inline(always)]
unsafe fn block<V: Vector<Word = u64>>(
    chain: &mut [u64; 8],
    mut words: *const u64,
    next: Option<(&mut Schedule<'_, V>, usize)>,
) {
    let mut variables = Variables { chain: *chain, bc: chain[1] ^ chain[2] };
    let mut eight_rounds = || {
        // SAFETY: as the caller promises; the last of ten times eight rounds end with the last row.
        unsafe { variables.eight_rounds::<V>(words) };
        words = words.wrapping_add(8 * MAX_LANES);
    };
    // The compiler would write out a loop of which it knows the end.
    let (making, all) = black_box((8, 10));
    let mut done = 0;
    if let Some((schedule, mut t)) = next {
        while done < making {
            for _ in 0..2 {
                eight_rounds();
                for _ in 0..Schedule::<V>::EACH {
                    // SAFETY: as the caller promises.
                    unsafe { schedule.make(t) };
                    t += 1;
                }
            }
            done += 2;
        }
    }
    while done < all {
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
/// That of [`Compress`](super::Compress) with one lane, and the CPU has BMI2 and the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn sha512<V: Vector<Word = u64>>(
    state: *mut u64,
    mut segments: &[Segment],
    outer: Option<&Outer<Sha512>>,
) {
    // Nothing is gained for one block: making its words takes as long as those of all lanes.
    while let Some((segment, others)) = segments.split_first()
        && segment.blocks > 1
    {
        // SAFETY: as the caller promises.
        unsafe { long::<V>(state, segment) };
        segments = others;
    }
    // SAFETY: as the caller promises; a scalar needs no instructions of its own.
    unsafe { super::run::<Sha512, u64>(state, segments, outer) }
}

/// At least two blocks, as many at a time as `V` has lanes.
///
/// # Safety
/// As [`sha512`].
#[inline(always)]
unsafe fn long<V: Vector<Word = u64>>(state: *mut u64, segment: &Segment) {
    const { assert!(V::LANES == 8 || V::LANES == 4, "words are made in as many rounds as there are") };
    let Segment { messages, blocks } = *segment;
    let (mut plain, mut words) = (Words::new(), [Words::new(), Words::new()]);
    let [mut now, mut later] = words.each_mut();
    // SAFETY: the caller promises eight words behind `state`, and behind the pointer `blocks` blocks, of which no more are read.
    unsafe {
        let mut chain: [u64; 8] = state.cast::<[u64; 8]>().read();
        let mut message = *messages;
        let mut ready = blocks.min(V::LANES);
        let mut left = blocks - ready;
        let mut first = Schedule::<V>::begin(message, ready, &mut plain, now);
        for t in 16..80 {
            first.make(t);
        }
        while left > 0 {
            message = message.wrapping_add(V::LANES * Sha512::BLOCK);
            ready = left.min(V::LANES);
            left -= ready;
            let mut schedule = Schedule::<V>::begin(message, ready, &mut plain, later);
            for lane in 0..V::LANES {
                let first = 16 + lane * 8 * Schedule::<V>::EACH;
                block::<V>(&mut chain, now.row(0).wrapping_add(lane), Some((&mut schedule, first)));
            }
            (now, later) = (later, now);
        }
        for lane in 0..ready {
            block::<V>(&mut chain, now.row(0).wrapping_add(lane), None);
        }
        state.cast::<[u64; 8]>().write(chain);
    }
}

//! One message of SHA-512, whose rounds run on general registers while vector registers make the words of its next blocks.
//!
//! A round is 22 instructions of arithmetic and two moves, and in which order they stand decides how well the CPU keeps its four
//! units busy: on a Zen 4, 80 rounds take from 458 cycles to more than 580 with the same instructions. So they are written here one
//! by one, in the order that was the fastest of some thousand that were tried.

use core::arch::asm;
use core::mem::MaybeUninit;

use super::sha2::{K512, Sha512};
use super::{Hash, Outer, Segment};
use crate::vector::Vector;

/// Most blocks whose words are made side by side.
const MAX_LANES: usize = 8;

/// The words of the rounds with their constants, for one block in each column; those are there that were made.
#[repr(align(64))]
struct Words(MaybeUninit<[[u64; MAX_LANES]; 80]>);

impl Words {
    /// The row of word `t`, below 80.
    #[inline(always)]
    fn row(&mut self, t: usize) -> *mut u64 {
        self.0.as_mut_ptr().cast::<u64>().wrapping_add(t * MAX_LANES)
    }
}

/// One round (FIPS 180-4, 6.4.2, step 3) with the word in row `$row`, as in the standard, but that the variables stay where they are
/// and change their names. `$bc` holds b xor c, `$ab` will hold a xor b, which is the next round's b xor c; it holds what is chosen
/// from `f` and `g` before.
macro_rules! round {
    ($a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal $bc:literal $ab:literal, $row:literal) => {
        concat!(
            "mov ",
            $ab,
            ", ",
            $f,
            "\n",
            "add ",
            $h,
            ", [rax + 64 * ",
            $row,
            "]\n",
            "xor ",
            $ab,
            ", ",
            $g,
            "\n",
            "and ",
            $ab,
            ", ",
            $e,
            "\n",
            "rorx rdx, ",
            $e,
            ", 18\n",
            "rorx rcx, ",
            $e,
            ", 14\n",
            "xor rcx, rdx\n",
            "xor ",
            $ab,
            ", ",
            $g,
            "\n",
            "add ",
            $h,
            ", ",
            $ab,
            "\n",
            "mov ",
            $ab,
            ", ",
            $a,
            "\n",
            "rorx rdx, ",
            $e,
            ", 41\n",
            "xor ",
            $ab,
            ", ",
            $b,
            "\n",
            "xor rcx, rdx\n",
            "add ",
            $h,
            ", rcx\n",
            "rorx rcx, ",
            $a,
            ", 28\n",
            "rorx rdx, ",
            $a,
            ", 34\n",
            "xor rcx, rdx\n",
            "rorx rdx, ",
            $a,
            ", 39\n",
            "add ",
            $d,
            ", ",
            $h,
            "\n",
            "and ",
            $bc,
            ", ",
            $ab,
            "\n",
            "xor ",
            $bc,
            ", ",
            $b,
            "\n",
            "add ",
            $h,
            ", ",
            $bc,
            "\n",
            "xor rcx, rdx\n",
            "add ",
            $h,
            ", rcx\n",
        )
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
    unsafe fn eight_rounds(&mut self, words: *const u64) {
        let [a, b, c, d, e, f, g, h] = &mut self.chain;
        // SAFETY: as the caller promises; all registers that change are named. The registers are chosen so that the compiler has
        // no reason to move variables between two calls.
        unsafe {
            asm!(
                round!("r8" "r9" "r10" "r11" "r12" "r13" "r14" "r15" "rdi" "rsi", "0"),
                round!("r15" "r8" "r9" "r10" "r11" "r12" "r13" "r14" "rsi" "rdi", "1"),
                round!("r14" "r15" "r8" "r9" "r10" "r11" "r12" "r13" "rdi" "rsi", "2"),
                round!("r13" "r14" "r15" "r8" "r9" "r10" "r11" "r12" "rsi" "rdi", "3"),
                round!("r12" "r13" "r14" "r15" "r8" "r9" "r10" "r11" "rdi" "rsi", "4"),
                round!("r11" "r12" "r13" "r14" "r15" "r8" "r9" "r10" "rsi" "rdi", "5"),
                round!("r10" "r11" "r12" "r13" "r14" "r15" "r8" "r9" "rdi" "rsi", "6"),
                round!("r9" "r10" "r11" "r12" "r13" "r14" "r15" "r8" "rsi" "rdi", "7"),
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
            );
        }
    }
}

/// Words in the making: those of the last sixteen rounds, one block in each lane.
struct Schedule<'w, V> {
    last: [V; 16],
    /// Where they go with their constants.
    words: &'w mut Words,
}

impl<'w, V: Vector<Word = u64>> Schedule<'w, V> {
    /// Begins with the words of the message itself, of at most as many blocks as there are lanes, and at least one.
    ///
    /// # Safety
    /// `message` has so many `blocks`, and the CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn begin(message: *const u8, blocks: usize, words: &'w mut Words) -> Self {
        // Lanes that have no block get the last one again.
        let mut lanes = [message; MAX_LANES];
        for (lane, block) in lanes.iter_mut().enumerate() {
            *block = message.wrapping_add(lane.min(blocks - 1) * Sha512::BLOCK);
        }
        // SAFETY: as above; a row of `words` is no shorter than a register.
        unsafe {
            let last = V::gather(lanes.as_ptr(), 0, true);
            for (t, word) in last.iter().enumerate() {
                word.add(V::splat(K512[t])).store(words.row(t));
            }
            Self { last, words }
        }
    }

    /// Makes word `sixteen + i` in place of the one sixteen rounds before (FIPS 180-4, 6.4.2, step 1), and with its constant in
    /// `words`. `sixteen` is a multiple of 16; when `i` is known to the compiler, `last` needs no addresses.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn next(&mut self, sixteen: usize, i: usize) {
        let last = &mut self.last;
        let (low, high) = (last[(i + 1) % 16], last[(i + 14) % 16]);
        let low = low.rotate_left::<63>().xor3(low.rotate_left::<56>(), low.shift_right::<7>());
        let high = high.rotate_left::<45>().xor3(high.rotate_left::<3>(), high.shift_right::<6>());
        let word = last[i % 16].add(last[(i + 9) % 16]).add(low).add(high);
        last[i % 16] = word;
        let t = sixteen + i;
        // SAFETY: as above; a row of `words` is no shorter than a register.
        unsafe { word.add(V::splat(K512[t])).store(self.words.row(t)) };
    }
}

/// The rounds of one block, whose words are the column of [`Words`] from `words` on. After each eight of the first 64 some words of the next blocks are
/// made, from word `sixteen + FIRST` on.
///
/// # Safety
/// All words of the column were made, and the CPU has BMI2 and the instructions of `V`.
#[inline(always)]
unsafe fn block<V: Vector<Word = u64>, const FIRST: usize>(
    chain: &mut [u64; 8],
    words: *const u64,
    mut next: Option<(&mut Schedule<'_, V>, usize)>,
) {
    let mut variables = Variables { chain: *chain, bc: chain[1] ^ chain[2] };
    let each = 8 / V::LANES;
    macro_rules! part {
        ($part:literal) => {
            // SAFETY: as the caller promises; the last of ten parts ends with the last row.
            unsafe { variables.eight_rounds(words.wrapping_add(8 * $part * MAX_LANES)) };
            if let (0..8, Some((schedule, sixteen))) = ($part, &mut next) {
                for i in 0..each {
                    // SAFETY: as the caller promises.
                    unsafe { schedule.next(*sixteen, FIRST + each * $part + i) };
                }
            }
        };
    }
    part!(0);
    part!(1);
    part!(2);
    part!(3);
    part!(4);
    part!(5);
    part!(6);
    part!(7);
    part!(8);
    part!(9);
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
    let mut words = [const { Words(MaybeUninit::uninit()) }; 2];
    let [mut now, mut later] = words.each_mut();
    // SAFETY: the caller promises eight words behind `state`, and behind the pointer `blocks` blocks, of which no more are read.
    unsafe {
        let mut chain: [u64; 8] = state.cast::<[u64; 8]>().read();
        let mut message = *messages;
        let mut ready = blocks.min(V::LANES);
        let mut left = blocks - ready;
        let mut first = Schedule::<V>::begin(message, ready, now);
        for sixteen in [16, 32, 48, 64] {
            for i in 0..16 {
                first.next(sixteen, i);
            }
        }
        while left > 0 {
            message = message.wrapping_add(V::LANES * Sha512::BLOCK);
            ready = left.min(V::LANES);
            left -= ready;
            let mut schedule = Schedule::<V>::begin(message, ready, later);
            // Sixteen words at a time: with eight lanes a block makes half of them, with four lanes all.
            for part in 0..4 {
                let (column, sixteen) = (now.row(0).wrapping_add(part * V::LANES / 4), 16 * (part + 1));
                block::<V, 0>(&mut chain, column, Some((&mut schedule, sixteen)));
                if V::LANES == 8 {
                    block::<V, 8>(&mut chain, column.wrapping_add(1), Some((&mut schedule, sixteen)));
                }
            }
            (now, later) = (later, now);
        }
        for lane in 0..ready {
            block::<V, 0>(&mut chain, now.row(0).wrapping_add(lane), None);
        }
        state.cast::<[u64; 8]>().write(chain);
    }
}

//! BLAKE3's compression function (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3", 2020, section 2.2).

use super::MAX_HASH_LANES;
use super::sha2::INITIAL_256;
use crate::internal::vector::Vector;

/// Bytes of a block.
pub(crate) const BLOCK_SIZE: usize = 64;

/// The chaining value without a key: the initial value of SHA-256.
pub(crate) const INITIAL: [u32; 8] = INITIAL_256;

/// A word of each lane.
pub(crate) type Row = [u32; MAX_HASH_LANES];

/// The chaining values and parameters of all lanes, word-major: word `i` of lane `l` at `[i][l]`.
#[derive(Clone, Copy, Default)]
pub(crate) struct LaneStates {
    pub(crate) chains: [Row; 8],
    /// The chunk's number, its low half first.
    pub(crate) counters: [Row; 2],
    /// Input bytes in each block; the rest of the block is zeros.
    pub(crate) lengths: Row,
    /// Flags of all blocks of a call.
    pub(crate) flags: Row,
    /// Further flags of the next block alone; the kernel clears them afterwards.
    pub(crate) next_flags: Row,
}

/// Advances the chaining values over `blocks` blocks of each lane.
///
/// # Safety
/// The CPU supports the level the function was compiled for. There is one pointer per lane, readable for the blocks.
pub(crate) type AdvanceKernel = unsafe fn(states: &mut LaneStates, messages: *const *const u8, blocks: usize);

/// [`AdvanceKernel`], with `V::LANES` lanes.
///
/// # Safety
/// As for `AdvanceKernel`, and the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn advance<V: Vector<Word = u32>>(
    states: &mut LaneStates,
    messages: *const *const u8,
    blocks: usize,
) {
    // SAFETY: the caller guarantees the instructions and the messages. A row has room for the lanes of any vector.
    unsafe {
        let mut chain = [V::splat(0); 8];
        for (word, row) in chain.iter_mut().zip(&states.chains) {
            *word = V::load(row.as_ptr());
        }
        let flags = V::load(states.flags.as_ptr());
        let mut parameters = [
            V::load(states.counters[0].as_ptr()),
            V::load(states.counters[1].as_ptr()),
            V::load(states.lengths.as_ptr()),
            flags.or(V::load(states.next_flags.as_ptr())),
        ];
        for block in 0..blocks {
            compress(&mut chain, &V::gather(messages, block * BLOCK_SIZE, false), &parameters);
            parameters[3] = flags;
        }
        for (word, row) in chain.iter().zip(&mut states.chains) {
            word.store(row.as_mut_ptr());
        }
        V::splat(0).store(states.next_flags.as_mut_ptr());
    }
}

/// The compression function, without the second half of its output. The first half is the next chaining value.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn compress<V: Vector<Word = u32>>(chain: &mut [V; 8], m: &[V; 16], parameters: &[V; 4]) {
    let mut v = [chain[0]; 16];
    v[..8].copy_from_slice(chain);
    for (word, initial) in v[8..12].iter_mut().zip(INITIAL) {
        // SAFETY: guaranteed by the caller.
        *word = unsafe { V::splat(initial) };
    }
    v[12..].copy_from_slice(parameters);
    // The function G. Rotations to the right by 16, 12, 8 and 7 bits are written as rotations to the left.
    macro_rules! g {
        ($a:literal $b:literal $c:literal $d:literal, $x:literal $y:literal) => {
            v[$a] = v[$a].add(v[$b]).add(m[$x]);
            v[$d] = v[$d].xor(v[$a]).rotate_left::<16>();
            v[$c] = v[$c].add(v[$d]);
            v[$b] = v[$b].xor(v[$c]).rotate_left::<20>();
            v[$a] = v[$a].add(v[$b]).add(m[$y]);
            v[$d] = v[$d].xor(v[$a]).rotate_left::<24>();
            v[$c] = v[$c].add(v[$d]);
            v[$b] = v[$b].xor(v[$c]).rotate_left::<25>();
        };
    }
    // One round. The arguments are the order of the message words. The permutation of table 2 turns the order of one round into the next.
    macro_rules! round {
        ($s0:literal $s1:literal $s2:literal $s3:literal $s4:literal $s5:literal $s6:literal $s7:literal
         $s8:literal $s9:literal $s10:literal $s11:literal $s12:literal $s13:literal $s14:literal $s15:literal) => {
            g!(0 4 8 12, $s0 $s1);
            g!(1 5 9 13, $s2 $s3);
            g!(2 6 10 14, $s4 $s5);
            g!(3 7 11 15, $s6 $s7);
            g!(0 5 10 15, $s8 $s9);
            g!(1 6 11 12, $s10 $s11);
            g!(2 7 8 13, $s12 $s13);
            g!(3 4 9 14, $s14 $s15);
        };
    }
    round!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    round!(2 6 3 10 7 0 4 13 1 11 12 5 9 14 15 8);
    round!(3 4 10 12 13 2 7 14 6 5 9 0 11 15 8 1);
    round!(10 7 12 9 14 3 13 15 4 0 11 2 5 8 1 6);
    round!(12 13 9 11 15 10 14 8 7 2 5 3 0 1 6 4);
    round!(9 14 11 5 8 12 15 1 13 3 0 10 2 6 4 7);
    round!(11 15 5 0 1 9 8 6 14 10 2 12 3 4 7 13);
    for i in 0..8 {
        chain[i] = v[i].xor(v[i + 8]);
    }
}

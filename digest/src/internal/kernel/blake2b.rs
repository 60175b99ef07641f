//! BLAKE2b's compression function (RFC 7693), without a key.

use super::absorb::{self, Absorption, States, row_stride};
use super::sha2::INITIAL_512;
use crate::internal::vector::LoadPair;

/// Words of a lane: the chaining value, the counter of bytes, and the flag of the last block.
const WORDS: usize = 10;
const COUNTER_INDEX: usize = 8;
const FLAG_INDEX: usize = 9;

/// Bytes of a block.
const BLOCK_SIZE: usize = 128;

/// BLAKE2b.
pub struct Blake2b;

impl Blake2b {
    /// Returns the state before the first block, for a digest of `digest` bytes (RFC 7693, 2.5 and 3.3). The initial values are the
    /// initial values of SHA-512 (2.6).
    pub const fn initial(digest: usize) -> [u64; absorb::STATE_WORDS] {
        let mut state = [0; absorb::STATE_WORDS];
        let mut i = 0;
        while i < INITIAL_512.len() {
            state[i] = INITIAL_512[i];
            i += 1;
        }
        state[0] ^= 0x0101_0000 ^ digest as u64;
        state
    }
}

impl Absorption for Blake2b {
    const BLOCK_SIZE: usize = BLOCK_SIZE;
    const WORDS: usize = WORDS;
    const ROUNDS: usize = 12;

    /// The last block is flagged, even if it is full. So a full block waits until the message continues or ends.
    fn whole_blocks(bytes: usize) -> usize {
        bytes.saturating_sub(1) / BLOCK_SIZE
    }

    /// The padding is zeros, which the block already holds.
    fn pad(_: &mut [u8], _: usize, _: u8) {}

    /// Sets the flag, and corrects the counter: the kernel counts the last block as full.
    fn prepare_last<const N: usize>(states: &mut States<N>, lane: usize, rest_len: usize) {
        let counter = states.word(COUNTER_INDEX, lane);
        *counter = counter.wrapping_add(rest_len as u64).wrapping_sub(BLOCK_SIZE as u64);
        *states.word(FLAG_INDEX, lane) = u64::MAX;
    }
}

/// Compresses blocks.
///
/// # Safety
/// As for [`AbsorbKernel`](super::absorb::AbsorbKernel), and the CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn compress<V: LoadPair>(
    state: *mut u64,
    messages: *const *const u8,
    blocks: usize,
    _: usize,
    _: usize,
) {
    // SAFETY: the caller guarantees the preconditions of `load`, `splat`, `gather` and `store`.
    unsafe {
        let at = |i: usize| state.add(i * row_stride(V::LANES));
        let mut chain = [V::load(state); WORDS];
        for (i, word) in chain.iter_mut().enumerate() {
            *word = V::load(at(i));
        }
        for block in 0..blocks {
            let words = V::gather(messages, block * BLOCK_SIZE, false);
            chain[COUNTER_INDEX] = chain[COUNTER_INDEX].add(V::splat(BLOCK_SIZE as u64));
            mix(&mut chain, &words);
        }
        for (i, word) in chain.iter().enumerate() {
            word.store(at(i));
        }
    }
}

/// The function F (RFC 7693, 3.2). The high word of the counter is always zero: messages are shorter than 2^64 bytes.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn mix<V: LoadPair>(chain: &mut [V; WORDS], m: &[V; 16]) {
    // SAFETY: guaranteed by the caller.
    let initial = INITIAL_512.map(|word| unsafe { V::splat(word) });
    let mut v = [chain[0]; 16];
    v[..8].copy_from_slice(&chain[..8]);
    v[8..].copy_from_slice(&initial);
    v[12] = v[12].xor(chain[COUNTER_INDEX]);
    v[14] = v[14].xor(chain[FLAG_INDEX]);
    // In builds without optimization, variables need fewer instructions than elements of an array.
    #[rustfmt::skip]
    let [
        mut v0, mut v1, mut v2, mut v3, mut v4, mut v5, mut v6, mut v7,
        mut v8, mut v9, mut v10, mut v11, mut v12, mut v13, mut v14, mut v15,
    ] = v;
    // The function G (3.1). Rotations to the right by 32, 24, 16 and 63 bits are written as rotations to the left.
    macro_rules! g {
        ($a:ident $b:ident $c:ident $d:ident, $x:literal $y:literal) => {
            $a = $a.add(m[$x].add($b));
            $d = $d.xor($a).rotate_left::<32>();
            $c = $c.add($d);
            $b = $b.xor($c).rotate_left::<40>();
            $a = $a.add(m[$y].add($b));
            $d = $d.xor($a).rotate_left::<48>();
            $c = $c.add($d);
            $b = $b.xor($c).rotate_left::<1>();
        };
    }
    // One round. The arguments are a row of SIGMA (2.7).
    macro_rules! round {
        ($s0:literal $s1:literal $s2:literal $s3:literal $s4:literal $s5:literal $s6:literal $s7:literal
         $s8:literal $s9:literal $s10:literal $s11:literal $s12:literal $s13:literal $s14:literal $s15:literal) => {
            g!(v0 v4 v8 v12, $s0 $s1);
            g!(v1 v5 v9 v13, $s2 $s3);
            g!(v2 v6 v10 v14, $s4 $s5);
            g!(v3 v7 v11 v15, $s6 $s7);
            g!(v0 v5 v10 v15, $s8 $s9);
            g!(v1 v6 v11 v12, $s10 $s11);
            g!(v2 v7 v8 v13, $s12 $s13);
            g!(v3 v4 v9 v14, $s14 $s15);
        };
    }
    round!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    round!(14 10 4 8 9 15 13 6 1 12 0 2 11 7 5 3);
    round!(11 8 12 0 5 2 15 13 10 14 3 6 7 1 9 4);
    round!(7 9 3 1 13 12 11 14 2 6 5 10 4 0 15 8);
    round!(9 0 5 7 2 4 10 15 14 1 11 12 6 8 3 13);
    round!(2 12 6 10 0 11 8 3 4 13 7 5 15 14 1 9);
    round!(12 5 1 15 14 13 4 10 0 7 6 3 9 2 8 11);
    round!(13 11 7 14 12 1 3 9 5 0 15 4 8 6 2 10);
    round!(6 15 14 9 11 3 0 8 12 2 13 7 1 4 10 5);
    round!(10 2 8 4 7 6 1 5 15 11 9 14 3 12 13 0);
    // Rounds 10 and 11 use the first two rows again.
    round!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    round!(14 10 4 8 9 15 13 6 1 12 0 2 11 7 5 3);
    let (low, high) = ([v0, v1, v2, v3, v4, v5, v6, v7], [v8, v9, v10, v11, v12, v13, v14, v15]);
    for i in 0..8 {
        chain[i] = chain[i].xor3(low[i], high[i]);
    }
}

//! Keccak-p\[1600\], and the absorption of blocks by a sponge (FIPS 202, RFC 9861).

use super::absorb::{Absorption, STATE_WORDS, States, row_stride};
use crate::internal::vector::LoadPair;

/// The state before the first block.
pub const INITIAL: [u64; STATE_WORDS] = [0; STATE_WORDS];

/// The byte that follows a message of Keccak as submitted to the competition, and of Ethereum's Keccak-256: the first 1 bit of the padding.
pub const DOMAIN_KECCAK: u8 = 0x01;
/// The byte that follows a message of SHA-3: the bits of its domain, and the first 1 bit of the padding (FIPS 202, 6.1).
pub const DOMAIN_SHA3: u8 = 0x06;
/// The byte that follows a message of SHAKE (FIPS 202, 6.2), and by default of TurboSHAKE.
pub const DOMAIN_SHAKE: u8 = 0x1f;

/// Keccak with blocks of `RATE` bytes and the last `ROUNDS` of the 24 rounds.
///
/// SHA-3 has blocks of 144, 136, 104 or 72 bytes for digests of 28, 32, 48 or 64 bytes. SHAKE has blocks of 168 or 136 bytes; so has
/// TurboSHAKE, with twelve rounds.
pub struct Keccak<const RATE: usize, const ROUNDS: usize = 24>;

impl<const RATE: usize, const ROUNDS: usize> Absorption for Keccak<RATE, ROUNDS> {
    const BLOCK_SIZE: usize = RATE;
    const WORDS: usize = STATE_WORDS;
    const ROUNDS: usize = ROUNDS;

    fn whole_blocks(bytes: usize) -> usize {
        bytes / RATE
    }

    /// Appends `domain`, and sets the last 1 bit of the padding (FIPS 202, 5.1). `domain` includes the first 1 bit, and the block already
    /// has the zeros between them.
    fn pad(block: &mut [u8], rest_len: usize, domain: u8) {
        block[rest_len] = domain;
        block[RATE - 1] |= 0x80;
    }

    /// The state does not depend on the length.
    fn prepare_last<const N: usize>(_: &mut States<N>, _: usize, _: usize) {}
}

/// The round constants. A shift register yields their bits 0, 1, 3, 7, 15, 31 and 63 (FIPS 202, 3.2.5).
const ROUND_CONSTANTS: [u64; 24] = {
    let mut constants = [0; 24];
    let mut register = 1u16;
    let mut round = 0;
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            constants[round] |= (register as u64 & 1) << ((1 << j) - 1);
            register = register << 1 ^ if register & 0x80 == 0 { 0 } else { 0x171 };
            j += 1;
        }
        round += 1;
    }
    constants
};

/// Absorbs blocks of `rate` bytes.
///
/// # Safety
/// As for [`AbsorbKernel`](super::absorb::AbsorbKernel), and the CPU has the instructions of `V`. `rate` is a block size that [`Keccak`]
/// lists.
#[inline(always)]
pub(crate) unsafe fn absorb<V: LoadPair>(
    state: *mut u64,
    messages: *const *const u8,
    blocks: usize,
    rate: usize,
    rounds: usize,
) {
    let constants = &ROUND_CONSTANTS.as_chunks::<2>().0[(ROUND_CONSTANTS.len() - rounds) / 2..];
    // SAFETY: the caller guarantees the preconditions of `load`, `store` and `xor_block`.
    unsafe {
        let mut words = [V::load(state); STATE_WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = V::load(state.add(i * row_stride(V::LANES)));
        }
        for block in 0..blocks {
            let offset = block * rate;
            // The number of words in a block is a constant, so that the compiler can keep words in registers.
            match rate {
                168 => xor_block::<V, 21>(&mut words, messages, offset),
                144 => xor_block::<V, 18>(&mut words, messages, offset),
                136 => xor_block::<V, 17>(&mut words, messages, offset),
                104 => xor_block::<V, 13>(&mut words, messages, offset),
                _ => xor_block::<V, 9>(&mut words, messages, offset),
            }
            for constants in constants {
                // Two rounds at a time save copying the words at the end.
                let between = round(&words, V::splat(constants[0]));
                words = round(&between, V::splat(constants[1]));
            }
        }
        for (i, word) in words.iter().enumerate() {
            word.store(state.add(i * row_stride(V::LANES)));
        }
    }
}

/// XORs a block of `COUNT` words into the state.
///
/// # Safety
/// The CPU has the instructions of `V`; each message is readable for `COUNT` words from `offset` on.
#[inline(always)]
unsafe fn xor_block<V: LoadPair, const COUNT: usize>(
    words: &mut [V; STATE_WORDS],
    messages: *const *const u8,
    offset: usize,
) {
    for i in 0..COUNT / 2 {
        // SAFETY: the caller promises the instructions, and these two words, which lie within the block.
        let [even, odd] = unsafe { V::load_pair(messages, offset + 16 * i) };
        words[2 * i] = words[2 * i].xor(even);
        words[2 * i + 1] = words[2 * i + 1].xor(odd);
    }
    if COUNT % 2 == 1 {
        // The message may end with the block, so this pair starts one word earlier.
        // SAFETY: the caller promises the instructions, and these two words, which are the last of the block.
        let [_, last] = unsafe { V::load_pair(messages, offset + 8 * (COUNT - 2)) };
        words[COUNT - 1] = words[COUNT - 1].xor(last);
    }
}

/// One round (FIPS 202, 3.2). Word `x + 5y` is the standard's lane (x, y).
#[inline(always)]
fn round<V: LoadPair>(a: &[V; STATE_WORDS], constant: V) -> [V; STATE_WORDS] {
    // Theta.
    let column = |x: usize| a[x].xor3(a[x + 5], a[x + 10]).xor3(a[x + 15], a[x + 20]);
    let c = [column(0), column(1), column(2), column(3), column(4)];
    let d = |x: usize| c[(x + 4) % 5].xor(c[(x + 1) % 5].rotate_left::<1>());
    let d = [d(0), d(1), d(2), d(3), d(4)];
    let mut result = *a;
    // Rho and pi bring five words into a plane, and chi mixes them.
    macro_rules! plane {
        ($y:literal, $first:expr, $($i:literal by $n:literal),+) => {
            let b = [$first, $(a[$i].xor(d[$i % 5]).rotate_left::<$n>()),+];
            for x in 0..5 {
                result[5 * $y + x] = b[x].xor_not_and(b[(x + 1) % 5], b[(x + 2) % 5]);
            }
        };
    }
    plane!(0, a[0].xor(d[0]), 6 by 44, 12 by 43, 18 by 21, 24 by 14);
    plane!(1, a[3].xor(d[3]).rotate_left::<28>(), 9 by 20, 10 by 3, 16 by 45, 22 by 61);
    plane!(2, a[1].xor(d[1]).rotate_left::<1>(), 7 by 6, 13 by 25, 19 by 8, 20 by 18);
    plane!(3, a[4].xor(d[4]).rotate_left::<27>(), 5 by 36, 11 by 10, 17 by 15, 23 by 56);
    plane!(4, a[2].xor(d[2]).rotate_left::<62>(), 8 by 55, 14 by 39, 15 by 41, 21 by 2);
    // Iota.
    result[0] = result[0].xor(constant);
    result
}

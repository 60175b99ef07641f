//! SHA-1, SHA-256 and SHA-512 with the SHA instructions of ARMv8, for one message or two at a time. Most of these instructions take
//! several cycles; a second message fills the gaps.

use core::arch::aarch64::*;

use super::sha1::{self, Sha1};
use super::sha2::{K256, K512, Sha256, Sha512};
use super::{OuterHash, Segment, row_stride};

/// Converts the words of a register to bytes of a message.
macro_rules! message_bytes {
    (u32 $words:expr) => {
        vrev32q_u8(vreinterpretq_u8_u32($words))
    };
    (u64 $words:expr) => {
        vrev64q_u8(vreinterpretq_u8_u64($words))
    };
}

/// SHA-1 of `N` messages.
///
/// # Safety
/// As for [`super::CompressKernel`] with `N` lanes.
#[target_feature(enable = "sha2")]
pub(crate) unsafe fn sha1<const N: usize>(state: *mut u32, segments: &[Segment], mut outer: Option<&OuterHash<Sha1>>) {
    // SAFETY: the instructions are enabled here; the caller promises a state of `N` lanes, and messages as long as the segments.
    unsafe {
        let zero = vdupq_n_u32(0);
        // The lowest word of the register is a.
        macro_rules! chain {
            ($word:expr) => {
                (vld1q_u32([$word(0), $word(1), $word(2), $word(3)].as_ptr()), $word(4))
            };
        }
        let (mut abcd, mut e) = ([zero; N], [0; N]);
        for l in 0..N {
            let word = |i: usize| *state.add(i * row_stride(N) + l);
            (abcd[l], e[l]) = chain!(word);
        }
        let mut outer_blocks = [[vdupq_n_u8(0); 4]; N];
        let mut pointers = [core::ptr::null(); N];
        let mut segments = segments.iter();
        loop {
            let Segment { messages, blocks } = match (segments.next(), &mut outer) {
                (Some(segment), _) => *segment,
                (None, outer) => {
                    let Some(outer) = outer.take() else { break };
                    let word = |i: usize| outer.chain[i];
                    let frame = |part: usize| vld1q_u8(outer.frame.as_ptr().add(16 * part));
                    for l in 0..N {
                        // The words after e are padding.
                        let last = vsetq_lane_u32::<0>(e[l].swap_bytes(), vreinterpretq_u32_u8(frame(1)));
                        outer_blocks[l] = [message_bytes!(u32 abcd[l]), vreinterpretq_u8_u32(last), frame(2), frame(3)];
                        pointers[l] = outer_blocks[l].as_ptr().cast();
                        (abcd[l], e[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before, e_before) = (abcd, e);
                let mut w = [[zero; N]; 4];
                macro_rules! four {
                    ($i:literal, $rounds:ident, $k:ident) => {
                        for l in 0..N {
                            w[$i % 4][l] = if $i < 4 {
                                let part = vld1q_u8((*messages.add(l)).add(64 * block + 16 * $i));
                                vreinterpretq_u32_u8(vrev32q_u8(part))
                            } else {
                                let mixed = vsha1su0q_u32(w[$i % 4][l], w[($i + 1) % 4][l], w[($i + 2) % 4][l]);
                                vsha1su1q_u32(mixed, w[($i + 3) % 4][l])
                            };
                            let next = vsha1h_u32(vgetq_lane_u32::<0>(abcd[l]));
                            abcd[l] = $rounds(abcd[l], e[l], vaddq_u32(w[$i % 4][l], $k));
                            e[l] = next;
                        }
                    };
                }
                macro_rules! twenty {
                    ($round:literal $rounds:ident, $i0:literal $i1:literal $i2:literal $i3:literal $i4:literal) => {
                        let k = vdupq_n_u32(sha1::K[$round]);
                        four!($i0, $rounds, k);
                        four!($i1, $rounds, k);
                        four!($i2, $rounds, k);
                        four!($i3, $rounds, k);
                        four!($i4, $rounds, k);
                    };
                }
                twenty!(0 vsha1cq_u32, 0 1 2 3 4);
                twenty!(1 vsha1pq_u32, 5 6 7 8 9);
                twenty!(2 vsha1mq_u32, 10 11 12 13 14);
                twenty!(3 vsha1pq_u32, 15 16 17 18 19);
                for l in 0..N {
                    abcd[l] = vaddq_u32(abcd[l], before[l]);
                    e[l] = e[l].wrapping_add(e_before[l]);
                }
            }
        }
        for l in 0..N {
            let put = |i: usize, word: u32| *state.add(i * row_stride(N) + l) = word;
            put(0, vgetq_lane_u32::<0>(abcd[l]));
            put(1, vgetq_lane_u32::<1>(abcd[l]));
            put(2, vgetq_lane_u32::<2>(abcd[l]));
            put(3, vgetq_lane_u32::<3>(abcd[l]));
            put(4, e[l]);
        }
    }
}

/// SHA-256 (and SHA-224) of `N` messages.
///
/// # Safety
/// As for [`super::CompressKernel`] with `N` lanes.
#[target_feature(enable = "sha2")]
pub(crate) unsafe fn sha256<const N: usize>(
    state: *mut u32,
    segments: &[Segment],
    mut outer: Option<&OuterHash<Sha256>>,
) {
    // SAFETY: SHA-256's instructions are enabled here. All accesses are to the caller's state of `N` lanes, to its messages, and to the
    // blocks made here.
    unsafe {
        let zero = vdupq_n_u32(0);
        macro_rules! chain {
            ($word:expr) => {
                (
                    vld1q_u32([$word(0), $word(1), $word(2), $word(3)].as_ptr()),
                    vld1q_u32([$word(4), $word(5), $word(6), $word(7)].as_ptr()),
                )
            };
        }
        let (mut abcd, mut efgh) = ([zero; N], [zero; N]);
        for l in 0..N {
            let word = |i: usize| *state.add(i * row_stride(N) + l);
            (abcd[l], efgh[l]) = chain!(word);
        }
        let mut outer_blocks = [[vdupq_n_u8(0); 4]; N];
        let mut pointers = [core::ptr::null(); N];
        let mut segments = segments.iter();
        loop {
            let Segment { messages, blocks } = match (segments.next(), &mut outer) {
                (Some(segment), _) => *segment,
                (None, outer) => {
                    let Some(outer) = outer.take() else { break };
                    let word = |i: usize| outer.chain[i];
                    let frame = |part: usize| vld1q_u8(outer.frame.as_ptr().add(16 * part));
                    for l in 0..N {
                        let mut second = vreinterpretq_u32_u8(message_bytes!(u32 efgh[l]));
                        if outer.digest_size < 32 {
                            // A digest of SHA-224 does not include h.
                            second = vcopyq_laneq_u32::<3, 3>(second, vreinterpretq_u32_u8(frame(1)));
                        }
                        outer_blocks[l] =
                            [message_bytes!(u32 abcd[l]), vreinterpretq_u8_u32(second), frame(2), frame(3)];
                        pointers[l] = outer_blocks[l].as_ptr().cast();
                        (abcd[l], efgh[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before0, before1) = (abcd, efgh);
                let mut w = [[zero; N]; 4];
                macro_rules! four {
                    ($($i:literal)*) => { $(
                        let k = vld1q_u32(K256.as_ptr().add(4 * $i));
                        for l in 0..N {
                            w[$i % 4][l] = if $i < 4 {
                                let part = vld1q_u8((*messages.add(l)).add(64 * block + 16 * $i));
                                vreinterpretq_u32_u8(vrev32q_u8(part))
                            } else {
                                let mixed = vsha256su0q_u32(w[$i % 4][l], w[($i + 1) % 4][l]);
                                vsha256su1q_u32(mixed, w[($i + 2) % 4][l], w[($i + 3) % 4][l])
                            };
                            let sum = vaddq_u32(w[$i % 4][l], k);
                            let old = abcd[l];
                            abcd[l] = vsha256hq_u32(old, efgh[l], sum);
                            efgh[l] = vsha256h2q_u32(efgh[l], old, sum);
                        }
                    )* };
                }
                four!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
                for l in 0..N {
                    abcd[l] = vaddq_u32(abcd[l], before0[l]);
                    efgh[l] = vaddq_u32(efgh[l], before1[l]);
                }
            }
        }
        for l in 0..N {
            for (half, words) in [abcd[l], efgh[l]].into_iter().enumerate() {
                let put = |i: usize, word: u32| *state.add((4 * half + i) * row_stride(N) + l) = word;
                put(0, vgetq_lane_u32::<0>(words));
                put(1, vgetq_lane_u32::<1>(words));
                put(2, vgetq_lane_u32::<2>(words));
                put(3, vgetq_lane_u32::<3>(words));
            }
        }
    }
}

/// SHA-512 (and its truncated variants) of `N` messages.
///
/// # Safety
/// As for [`super::CompressKernel`] with `N` lanes.
#[target_feature(enable = "sha3")]
pub(crate) unsafe fn sha512<const N: usize>(
    state: *mut u64,
    segments: &[Segment],
    mut outer: Option<&OuterHash<Sha512>>,
) {
    // SAFETY: the feature `sha3` includes SHA-512's instructions. The caller promises `N` lanes of state, and the messages. There are
    // 80 round constants.
    unsafe {
        let zero = vdupq_n_u64(0);
        // The variables ab, cd, ef and gh of each message.
        let mut pairs = [[zero; N]; 4];
        for (i, pair) in pairs.iter_mut().enumerate() {
            for (l, pair) in pair.iter_mut().enumerate() {
                let word = |half: usize| *state.add((2 * i + half) * row_stride(N) + l);
                *pair = vcombine_u64(vcreate_u64(word(0)), vcreate_u64(word(1)));
            }
        }
        let mut outer_blocks = [[vdupq_n_u8(0); 8]; N];
        let mut pointers = [core::ptr::null(); N];
        let mut segments = segments.iter();
        loop {
            let Segment { messages, blocks } = match (segments.next(), &mut outer) {
                (Some(segment), _) => *segment,
                (None, outer) => {
                    let Some(outer) = outer.take() else { break };
                    for l in 0..N {
                        for (part, bytes) in outer_blocks[l].iter_mut().enumerate() {
                            // A digest consists of whole pairs of words.
                            *bytes = match pairs.get(part) {
                                Some(pair) if 16 * part < outer.digest_size => message_bytes!(u64 pair[l]),
                                _ => vld1q_u8(outer.frame.as_ptr().add(16 * part)),
                            };
                        }
                        pointers[l] = outer_blocks[l].as_ptr().cast();
                    }
                    for (pair, words) in pairs.iter_mut().zip(outer.chain.as_chunks::<2>().0) {
                        *pair = [vld1q_u64(words.as_ptr()); N];
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let before = pairs;
                let mut w = [[zero; N]; 8];
                // Two rounds. The pairs change their names instead of their registers: gh becomes ab.
                macro_rules! two {
                    ($words:ident, $t:expr, $i:literal) => {
                        let k = vld1q_u64(K512.as_ptr().add($t + 2 * $i));
                        let [ab, cd, ef, gh] = [(8 - $i) % 4, (9 - $i) % 4, (10 - $i) % 4, (11 - $i) % 4];
                        for l in 0..N {
                            w[$i][l] = $words!($i, l);
                            let sum = vaddq_u64(w[$i][l], k);
                            let sum = vaddq_u64(vextq_u64::<1>(sum, sum), pairs[gh][l]);
                            let (de, fg) = (
                                vextq_u64::<1>(pairs[cd][l], pairs[ef][l]),
                                vextq_u64::<1>(pairs[ef][l], pairs[gh][l]),
                            );
                            let sum = vsha512hq_u64(sum, fg, de);
                            pairs[gh][l] = vsha512h2q_u64(sum, pairs[cd][l], pairs[ab][l]);
                            pairs[cd][l] = vaddq_u64(pairs[cd][l], sum);
                        }
                    };
                }
                macro_rules! message_words {
                    ($i:literal, $l:ident) => {{
                        let part = vld1q_u8((*messages.add($l)).add(128 * block + 16 * $i));
                        vreinterpretq_u64_u8(vrev64q_u8(part))
                    }};
                }
                // Makes two words, which replace the words of sixteen rounds before.
                macro_rules! next_words {
                    ($i:literal, $l:ident) => {{
                        let mixed = vsha512su0q_u64(w[$i][$l], w[($i + 1) % 8][$l]);
                        let middle = vextq_u64::<1>(w[($i + 4) % 8][$l], w[($i + 5) % 8][$l]);
                        vsha512su1q_u64(mixed, w[($i + 7) % 8][$l], middle)
                    }};
                }
                macro_rules! sixteen {
                    ($words:ident, $t:expr) => {
                        two!($words, $t, 0);
                        two!($words, $t, 1);
                        two!($words, $t, 2);
                        two!($words, $t, 3);
                        two!($words, $t, 4);
                        two!($words, $t, 5);
                        two!($words, $t, 6);
                        two!($words, $t, 7);
                    };
                }
                sixteen!(message_words, 0);
                sixteen!(next_words, 16);
                sixteen!(next_words, 32);
                sixteen!(next_words, 48);
                sixteen!(next_words, 64);
                for (pair, before) in pairs.iter_mut().zip(before) {
                    for (pair, before) in pair.iter_mut().zip(before) {
                        *pair = vaddq_u64(*pair, before);
                    }
                }
            }
        }
        for (i, pair) in pairs.into_iter().enumerate() {
            for (l, words) in pair.into_iter().enumerate() {
                let put = |half: usize, word: u64| *state.add((2 * i + half) * row_stride(N) + l) = word;
                put(0, vgetq_lane_u64::<0>(words));
                put(1, vgetq_lane_u64::<1>(words));
            }
        }
    }
}

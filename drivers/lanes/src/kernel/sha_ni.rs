//! SHA-1 and SHA-256 with the SHA instructions of x86-64, for one message or for two at a time: the instructions take
//! several cycles each, and a second message fills the gaps that the first one leaves.

use core::arch::x86_64::*;

use super::sha1::Sha1;
use super::sha2::{K256, Sha256};
use super::{Outer, Segment, row};

/// SHA-1 of `N` messages.
///
/// # Safety
/// That of [`super::Compress`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(super) unsafe fn sha1<const N: usize>(state: *mut u32, segments: &[Segment], mut outer: Option<&Outer<Sha1>>) {
    // SAFETY: the instructions are on here; state and messages are the caller's promise.
    unsafe {
        let zero = _mm_setzero_si128();
        let reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
        // The registers hold a in the highest word.
        macro_rules! chain {
            ($word:expr) => {
                (_mm_set_epi32($word(0), $word(1), $word(2), $word(3)), _mm_set_epi32($word(4), 0, 0, 0))
            };
        }
        let (mut abcd, mut e) = ([zero; N], [zero; N]);
        for l in 0..N {
            let word = |i: usize| (*state.add(i * row(N) + l)).cast_signed();
            (abcd[l], e[l]) = chain!(word);
        }
        let mut own = [[zero; 4]; N];
        let mut pointers = [core::ptr::null(); N];
        let mut segments = segments.iter();
        loop {
            let Segment { messages, blocks } = match (segments.next(), &mut outer) {
                (Some(segment), _) => *segment,
                (None, outer) => {
                    let Some(outer) = outer.take() else { break };
                    let word = |i: usize| outer.chain[i].cast_signed();
                    let frame = |part: usize| _mm_loadu_si128(outer.frame.as_ptr().add(16 * part).cast());
                    for l in 0..N {
                        // Behind e there is padding.
                        let last = _mm_blend_epi16::<0xc0>(_mm_shuffle_epi8(frame(1), reverse), e[l]);
                        own[l] =
                            [_mm_shuffle_epi8(abcd[l], reverse), _mm_shuffle_epi8(last, reverse), frame(2), frame(3)];
                        pointers[l] = own[l].as_ptr().cast();
                        (abcd[l], e[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before, e_before) = (abcd, e);
                let mut w = [[zero; N]; 4];
                macro_rules! four {
                    ($i:literal, $round:literal) => {
                        for l in 0..N {
                            if $i < 4 {
                                let part = (*messages.add(l)).add(64 * block + 16 * $i);
                                w[$i % 4][l] = _mm_shuffle_epi8(_mm_loadu_si128(part.cast()), reverse);
                            } else {
                                let mixed = _mm_sha1msg1_epu32(w[$i % 4][l], w[($i + 1) % 4][l]);
                                let mixed = _mm_xor_si128(mixed, w[($i + 2) % 4][l]);
                                w[$i % 4][l] = _mm_sha1msg2_epu32(mixed, w[($i + 3) % 4][l]);
                            }
                            let word = w[$i % 4][l];
                            let sum = if $i == 0 { _mm_add_epi32(e[l], word) } else { _mm_sha1nexte_epu32(e[l], word) };
                            e[l] = abcd[l];
                            abcd[l] = _mm_sha1rnds4_epu32::<$round>(abcd[l], sum);
                        }
                    };
                }
                macro_rules! twenty {
                    ($round:literal, $i0:literal $i1:literal $i2:literal $i3:literal $i4:literal) => {
                        four!($i0, $round);
                        four!($i1, $round);
                        four!($i2, $round);
                        four!($i3, $round);
                        four!($i4, $round);
                    };
                }
                twenty!(0, 0 1 2 3 4);
                twenty!(1, 5 6 7 8 9);
                twenty!(2, 10 11 12 13 14);
                twenty!(3, 15 16 17 18 19);
                for l in 0..N {
                    e[l] = _mm_sha1nexte_epu32(e[l], e_before[l]);
                    abcd[l] = _mm_add_epi32(abcd[l], before[l]);
                }
            }
        }
        for l in 0..N {
            let put = |i: usize, word: i32| *state.add(i * row(N) + l) = word.cast_unsigned();
            put(0, _mm_extract_epi32::<3>(abcd[l]));
            put(1, _mm_extract_epi32::<2>(abcd[l]));
            put(2, _mm_extract_epi32::<1>(abcd[l]));
            put(3, _mm_extract_epi32::<0>(abcd[l]));
            put(4, _mm_extract_epi32::<3>(e[l]));
        }
    }
}

/// SHA-256 (and SHA-224) of `N` messages.
///
/// # Safety
/// That of [`super::Compress`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(super) unsafe fn sha256<const N: usize>(state: *mut u32, segments: &[Segment], mut outer: Option<&Outer<Sha256>>) {
    // SAFETY: the instructions are on here; state and messages are the caller's promise.
    unsafe {
        let zero = _mm_setzero_si128();
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        // The instructions want the chaining value as a b e f and c d g h, from the highest word down.
        macro_rules! chain {
            ($word:expr) => {
                (
                    _mm_set_epi32($word(0), $word(1), $word(4), $word(5)),
                    _mm_set_epi32($word(2), $word(3), $word(6), $word(7)),
                )
            };
        }
        let (mut abef, mut cdgh) = ([zero; N], [zero; N]);
        for l in 0..N {
            let word = |i: usize| (*state.add(i * row(N) + l)).cast_signed();
            (abef[l], cdgh[l]) = chain!(word);
        }
        let mut own = [[zero; 4]; N];
        let mut pointers = [core::ptr::null(); N];
        let mut segments = segments.iter();
        loop {
            let Segment { messages, blocks } = match (segments.next(), &mut outer) {
                (Some(segment), _) => *segment,
                (None, outer) => {
                    let Some(outer) = outer.take() else { break };
                    let word = |i: usize| outer.chain[i].cast_signed();
                    let frame = |part: usize| _mm_loadu_si128(outer.frame.as_ptr().add(16 * part).cast());
                    for l in 0..N {
                        let (upper, lower) = (_mm_castsi128_ps(abef[l]), _mm_castsi128_ps(cdgh[l]));
                        let abcd = _mm_castps_si128(_mm_shuffle_ps::<0b10_11_10_11>(upper, lower));
                        let efgh = _mm_castps_si128(_mm_shuffle_ps::<0b00_01_00_01>(upper, lower));
                        let (abcd, mut efgh) = (_mm_shuffle_epi8(abcd, swap), _mm_shuffle_epi8(efgh, swap));
                        if outer.digest < 32 {
                            // SHA-224 leaves h out.
                            efgh = _mm_blend_epi16::<0xc0>(efgh, frame(1));
                        }
                        own[l] = [abcd, efgh, frame(2), frame(3)];
                        pointers[l] = own[l].as_ptr().cast();
                        (abef[l], cdgh[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before0, before1) = (abef, cdgh);
                let mut w = [[zero; N]; 4];
                macro_rules! four {
                    ($($i:literal)*) => { $(
                        let k = _mm_loadu_si128(K256.as_ptr().add(4 * $i).cast());
                        for l in 0..N {
                            if $i < 4 {
                                let part = (*messages.add(l)).add(64 * block + 16 * $i);
                                w[$i % 4][l] = _mm_shuffle_epi8(_mm_loadu_si128(part.cast()), swap);
                            } else {
                                let mixed = _mm_sha256msg1_epu32(w[$i % 4][l], w[($i + 1) % 4][l]);
                                let middle = _mm_alignr_epi8::<4>(w[($i + 3) % 4][l], w[($i + 2) % 4][l]);
                                w[$i % 4][l] = _mm_sha256msg2_epu32(_mm_add_epi32(mixed, middle), w[($i + 3) % 4][l]);
                            }
                            let sum = _mm_add_epi32(w[$i % 4][l], k);
                            cdgh[l] = _mm_sha256rnds2_epu32(cdgh[l], abef[l], sum);
                            abef[l] = _mm_sha256rnds2_epu32(abef[l], cdgh[l], _mm_shuffle_epi32::<0x0e>(sum));
                        }
                    )* };
                }
                four!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
                for l in 0..N {
                    abef[l] = _mm_add_epi32(abef[l], before0[l]);
                    cdgh[l] = _mm_add_epi32(cdgh[l], before1[l]);
                }
            }
        }
        for l in 0..N {
            let put = |i: usize, word: i32| *state.add(i * row(N) + l) = word.cast_unsigned();
            put(0, _mm_extract_epi32::<3>(abef[l]));
            put(1, _mm_extract_epi32::<2>(abef[l]));
            put(4, _mm_extract_epi32::<1>(abef[l]));
            put(5, _mm_extract_epi32::<0>(abef[l]));
            put(2, _mm_extract_epi32::<3>(cdgh[l]));
            put(3, _mm_extract_epi32::<2>(cdgh[l]));
            put(6, _mm_extract_epi32::<1>(cdgh[l]));
            put(7, _mm_extract_epi32::<0>(cdgh[l]));
        }
    }
}

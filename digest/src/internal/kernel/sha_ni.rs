//! SHA-1 and SHA-256 with the SHA instructions of x86-64, for one message or several at a time. These instructions take several
//! cycles; more messages fill the gaps.

use core::arch::x86_64::*;

use super::iterate::ChainRows;
use super::sha1::Sha1;
use super::sha2::{K256, Sha256};
use super::{OuterHash, Segment, row_stride};

/// The rounds of SHA-1 for one block of each message. `$word(l, i)` is quarter `i` of the block of message `l`, with the first word
/// highest. The caller adds the chaining value before the block.
macro_rules! sha1_rounds {
    ($lanes:expr, $abcd:ident, $e:ident, $word:ident) => {
        let mut w = [[_mm_setzero_si128(); $lanes]; 4];
        macro_rules! four {
            ($i:literal, $round:literal) => {
                for l in 0..$lanes {
                    if $i < 4 {
                        w[$i % 4][l] = $word(l, $i);
                    } else {
                        let mixed = _mm_sha1msg1_epu32(w[$i % 4][l], w[($i + 1) % 4][l]);
                        let mixed = _mm_xor_si128(mixed, w[($i + 2) % 4][l]);
                        w[$i % 4][l] = _mm_sha1msg2_epu32(mixed, w[($i + 3) % 4][l]);
                    }
                    let word = w[$i % 4][l];
                    let sum = if $i == 0 { _mm_add_epi32($e[l], word) } else { _mm_sha1nexte_epu32($e[l], word) };
                    $e[l] = $abcd[l];
                    $abcd[l] = _mm_sha1rnds4_epu32::<$round>($abcd[l], sum);
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
    };
}

/// As `sha1_rounds`, for SHA-256, and with the first word of a quarter lowest.
macro_rules! sha256_rounds {
    ($lanes:expr, $abef:ident, $cdgh:ident, $word:ident) => {
        let mut w = [[_mm_setzero_si128(); $lanes]; 4];
        macro_rules! four {
            ($i:literal) => {
                let k = _mm_loadu_si128(K256.as_ptr().add(4 * $i).cast());
                for l in 0..$lanes {
                    if $i < 4 {
                        w[$i % 4][l] = $word(l, $i);
                    } else {
                        let mixed = _mm_sha256msg1_epu32(w[$i % 4][l], w[($i + 1) % 4][l]);
                        let middle = _mm_alignr_epi8::<4>(w[($i + 3) % 4][l], w[($i + 2) % 4][l]);
                        w[$i % 4][l] = _mm_sha256msg2_epu32(_mm_add_epi32(mixed, middle), w[($i + 3) % 4][l]);
                    }
                    let sum = _mm_add_epi32(w[$i % 4][l], k);
                    $cdgh[l] = _mm_sha256rnds2_epu32($cdgh[l], $abef[l], sum);
                    $abef[l] = _mm_sha256rnds2_epu32($abef[l], $cdgh[l], _mm_shuffle_epi32::<0x0e>(sum));
                }
            };
        }
        macro_rules! sixteen {
            ($i0:literal $i1:literal $i2:literal $i3:literal) => {
                four!($i0);
                four!($i1);
                four!($i2);
                four!($i3);
            };
        }
        sixteen!(0 1 2 3);
        sixteen!(4 5 6 7);
        sixteen!(8 9 10 11);
        sixteen!(12 13 14 15);
    };
}

// The module uses the macros above, so it follows them.
mod equal_length;

pub(crate) use equal_length::{sha256_after_prefix, sha256_nodes};

/// SHA-1 of `N` messages.
///
/// # Safety
/// As for [`super::CompressKernel`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn sha1<const N: usize>(state: *mut u32, segments: &[Segment], mut outer: Option<&OuterHash<Sha1>>) {
    // SAFETY: the instructions are enabled here; the caller promises state and messages.
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
            let word = |i: usize| (*state.add(i * row_stride(N) + l)).cast_signed();
            (abcd[l], e[l]) = chain!(word);
        }
        let mut outer_blocks = [[zero; 4]; N];
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
                        // The words after e are padding.
                        let last = _mm_blend_epi16::<0xc0>(_mm_shuffle_epi8(frame(1), reverse), e[l]);
                        outer_blocks[l] =
                            [_mm_shuffle_epi8(abcd[l], reverse), _mm_shuffle_epi8(last, reverse), frame(2), frame(3)];
                        pointers[l] = outer_blocks[l].as_ptr().cast();
                        (abcd[l], e[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before, e_before) = (abcd, e);
                let word = |l: usize, i: usize| {
                    let part = (*messages.add(l)).add(64 * block + 16 * i);
                    _mm_shuffle_epi8(_mm_loadu_si128(part.cast()), reverse)
                };
                sha1_rounds!(N, abcd, e, word);
                for l in 0..N {
                    e[l] = _mm_sha1nexte_epu32(e[l], e_before[l]);
                    abcd[l] = _mm_add_epi32(abcd[l], before[l]);
                }
            }
        }
        for l in 0..N {
            let put = |i: usize, word: i32| *state.add(i * row_stride(N) + l) = word.cast_unsigned();
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
/// As for [`super::CompressKernel`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn sha256<const N: usize>(
    state: *mut u32,
    segments: &[Segment],
    mut outer: Option<&OuterHash<Sha256>>,
) {
    // SAFETY: the instructions are enabled here; the caller promises state and messages.
    unsafe {
        let zero = _mm_setzero_si128();
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        // The instructions take the chaining value as abef and cdgh, from the highest word down.
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
            let word = |i: usize| (*state.add(i * row_stride(N) + l)).cast_signed();
            (abef[l], cdgh[l]) = if N == 1 {
                to_registers(_mm_loadu_si128(state.cast()), _mm_loadu_si128(state.add(4).cast()))
            } else {
                chain!(word)
            };
        }
        let mut outer_blocks = [[zero; 4]; N];
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
                        let (abcd, efgh) = to_words(abef[l], cdgh[l]);
                        let (abcd, mut efgh) = (_mm_shuffle_epi8(abcd, swap), _mm_shuffle_epi8(efgh, swap));
                        if outer.digest_size < 32 {
                            // A digest of SHA-224 does not include h.
                            efgh = _mm_blend_epi16::<0xc0>(efgh, frame(1));
                        }
                        outer_blocks[l] = [abcd, efgh, frame(2), frame(3)];
                        pointers[l] = outer_blocks[l].as_ptr().cast();
                        (abef[l], cdgh[l]) = chain!(word);
                    }
                    Segment { messages: pointers.as_ptr(), blocks: 1 }
                }
            };
            for block in 0..blocks {
                let (before0, before1) = (abef, cdgh);
                let word = |l: usize, i: usize| {
                    let part = (*messages.add(l)).add(64 * block + 16 * i);
                    _mm_shuffle_epi8(_mm_loadu_si128(part.cast()), swap)
                };
                sha256_rounds!(N, abef, cdgh, word);
                for l in 0..N {
                    abef[l] = _mm_add_epi32(abef[l], before0[l]);
                    cdgh[l] = _mm_add_epi32(cdgh[l], before1[l]);
                }
            }
        }
        if N == 1 {
            let (abcd, efgh) = to_words(abef[0], cdgh[0]);
            _mm_storeu_si128(state.cast(), abcd);
            _mm_storeu_si128(state.add(4).cast(), efgh);
            return;
        }
        for l in 0..N {
            let put = |i: usize, word: i32| *state.add(i * row_stride(N) + l) = word.cast_unsigned();
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

/// Advances `N` chains of HMAC-SHA-1.
///
/// # Safety
/// As for [`IterateKernel`](super::iterate::IterateKernel) with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn iterate_sha1<const N: usize>(chains: &mut ChainRows<'_, Sha1>, steps: u64) {
    // SAFETY: the instructions are enabled here; the caller promises the rows.
    unsafe {
        let zero = _mm_setzero_si128();
        let reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
        let frame =
            |part: usize| _mm_shuffle_epi8(_mm_loadu_si128(chains.frame.as_ptr().add(16 * part).cast()), reverse);
        let (padding, third, fourth) = (frame(1), frame(2), frame(3));
        // One register holds a to d, with a in the highest word; another holds e in the highest word.
        let load = |rows: *const u32, l: usize| {
            let word = |i: usize| (*rows.add(i * row_stride(N) + l)).cast_signed();
            (_mm_set_epi32(word(0), word(1), word(2), word(3)), _mm_set_epi32(word(4), 0, 0, 0))
        };
        let keys = chains.keys.map(|rows| core::array::from_fn::<_, N, _>(|l| load(rows, l)));
        let mut digests: [_; N] = core::array::from_fn(|l| load(chains.digests, l));
        let mut sums: [_; N] = core::array::from_fn(|l| load(chains.sums, l));
        for _ in 0..steps {
            for key in &keys {
                let (mut abcd, mut e) = ([zero; N], [zero; N]);
                let words = digests.map(|(abcd, e)| [abcd, _mm_blend_epi16::<0xc0>(padding, e), third, fourth]);
                for l in 0..N {
                    (abcd[l], e[l]) = key[l];
                }
                let word = |l: usize, i: usize| words[l][i];
                sha1_rounds!(N, abcd, e, word);
                for l in 0..N {
                    digests[l] = (_mm_add_epi32(abcd[l], key[l].0), _mm_sha1nexte_epu32(e[l], key[l].1));
                }
            }
            for (sum, digest) in sums.iter_mut().zip(&digests) {
                *sum = (_mm_xor_si128(sum.0, digest.0), _mm_xor_si128(sum.1, digest.1));
            }
        }
        for (rows, values) in [(chains.digests, digests), (chains.sums, sums)] {
            for (l, (abcd, e)) in values.into_iter().enumerate() {
                let put = |i: usize, word: i32| *rows.add(i * row_stride(N) + l) = word.cast_unsigned();
                put(0, _mm_extract_epi32::<3>(abcd));
                put(1, _mm_extract_epi32::<2>(abcd));
                put(2, _mm_extract_epi32::<1>(abcd));
                put(3, _mm_extract_epi32::<0>(abcd));
                put(4, _mm_extract_epi32::<3>(e));
            }
        }
    }
}

/// Advances `N` chains of HMAC-SHA-256 or HMAC-SHA-224.
///
/// # Safety
/// As for [`IterateKernel`](super::iterate::IterateKernel) with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn iterate_sha256<const N: usize>(chains: &mut ChainRows<'_, Sha256>, steps: u64) {
    // SAFETY: the instructions are enabled here; the caller promises the rows.
    unsafe {
        let zero = _mm_setzero_si128();
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let frame = |part: usize| _mm_shuffle_epi8(_mm_loadu_si128(chains.frame.as_ptr().add(16 * part).cast()), swap);
        let (padding, third, fourth) = (frame(1), frame(2), frame(3));
        // A digest of SHA-224 does not include h.
        let has_h = chains.digest_size == 32;
        // Words in order, with the first one lowest.
        let load = |rows: *const u32, l: usize| {
            let word = |i: usize| (*rows.add(i * row_stride(N) + l)).cast_signed();
            let four = |i: usize| _mm_set_epi32(word(i + 3), word(i + 2), word(i + 1), word(i));
            (four(0), four(4))
        };
        // The instructions take abef and cdgh, from the highest word down.
        let keys = chains.keys.map(|rows| {
            core::array::from_fn::<_, N, _>(|l| {
                let word = |i: usize| (*rows.add(i * row_stride(N) + l)).cast_signed();
                (_mm_set_epi32(word(0), word(1), word(4), word(5)), _mm_set_epi32(word(2), word(3), word(6), word(7)))
            })
        });
        let mut digests: [_; N] = core::array::from_fn(|l| load(chains.digests, l));
        let mut sums: [_; N] = core::array::from_fn(|l| load(chains.sums, l));
        for _ in 0..steps {
            for key in &keys {
                let (mut abef, mut cdgh) = ([zero; N], [zero; N]);
                let words = digests.map(|(abcd, efgh)| {
                    let efgh = if has_h { efgh } else { _mm_blend_epi16::<0xc0>(efgh, padding) };
                    [abcd, efgh, third, fourth]
                });
                for l in 0..N {
                    (abef[l], cdgh[l]) = key[l];
                }
                let word = |l: usize, i: usize| words[l][i];
                sha256_rounds!(N, abef, cdgh, word);
                for l in 0..N {
                    digests[l] = to_words(_mm_add_epi32(abef[l], key[l].0), _mm_add_epi32(cdgh[l], key[l].1));
                }
            }
            for (sum, digest) in sums.iter_mut().zip(&digests) {
                *sum = (_mm_xor_si128(sum.0, digest.0), _mm_xor_si128(sum.1, digest.1));
            }
        }
        for (rows, values) in [(chains.digests, digests), (chains.sums, sums)] {
            for (l, (abcd, efgh)) in values.into_iter().enumerate() {
                let put = |i: usize, word: i32| *rows.add(i * row_stride(N) + l) = word.cast_unsigned();
                for (i, four) in [(0, abcd), (4, efgh)] {
                    put(i, _mm_extract_epi32::<0>(four));
                    put(i + 1, _mm_extract_epi32::<1>(four));
                    put(i + 2, _mm_extract_epi32::<2>(four));
                    put(i + 3, _mm_extract_epi32::<3>(four));
                }
            }
        }
    }
}

/// Arranges a chaining value, whose first word is lowest, as the instructions take it: abef and cdgh, from the highest word down.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn to_registers(abcd: __m128i, efgh: __m128i) -> (__m128i, __m128i) {
    let cdab = _mm_shuffle_epi32::<0b10_11_00_01>(abcd);
    let efgh = _mm_shuffle_epi32::<0b00_01_10_11>(efgh);
    (_mm_alignr_epi8::<8>(cdab, efgh), _mm_blend_epi16::<0xf0>(efgh, cdab))
}

/// The reverse of [`to_registers`].
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn to_words(abef: __m128i, cdgh: __m128i) -> (__m128i, __m128i) {
    let (upper, lower) = (_mm_castsi128_ps(abef), _mm_castsi128_ps(cdgh));
    (
        _mm_castps_si128(_mm_shuffle_ps::<0b10_11_10_11>(upper, lower)),
        _mm_castps_si128(_mm_shuffle_ps::<0b00_01_00_01>(upper, lower)),
    )
}

//! SHA-1 and SHA-256 with the SHA instructions of x86-64, for one message or for two at a time: the instructions take
//! several cycles each, and a second message fills the gaps that the first one leaves.

use core::arch::x86_64::*;

use super::behind::Spaced;
use super::iterate::{Iterate, Iteration};
use super::sha1::Sha1;
use super::sha2::{K256, Sha256};
use super::{Outer, Segment, row};
use crate::level::Level;

/// The rounds of SHA-1 for one block of each message, whose quarter `i` is `$word(l, i)`, the first word highest. The sum with the chaining
/// value in front of the block is left to the caller.
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

/// The same of SHA-256, the first word of a quarter lowest.
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

/// Chains of HMAC-SHA-1 in registers: one, or two.
pub(super) fn chains_of_sha1(level: Level, chains: usize) -> Option<(usize, Iterate<Sha1>)> {
    let kernel: (usize, Iterate<Sha1>) = if chains > 1 { (2, iterate_sha1::<2>) } else { (1, iterate_sha1::<1>) };
    level.sha().then_some(kernel)
}

/// Chains of HMAC-SHA-256 in registers: four take less time than two and one.
pub(super) fn chains_of_sha256(level: Level, chains: usize) -> Option<(usize, Iterate<Sha256>)> {
    let kernel: (usize, Iterate<Sha256>) = match chains {
        ..2 => (1, iterate_sha256::<1>),
        2 => (2, iterate_sha256::<2>),
        3.. => (4, iterate_sha256::<4>),
    };
    level.sha().then_some(kernel)
}

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

/// Steps of HMAC-SHA-1 of `N` chains.
///
/// # Safety
/// That of [`Iterate`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(super) unsafe fn iterate_sha1<const N: usize>(iteration: &mut Iteration<'_, Sha1>, steps: u64) {
    // SAFETY: the instructions are on here; the rows are the caller's promise.
    unsafe {
        let zero = _mm_setzero_si128();
        let reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
        let frame =
            |part: usize| _mm_shuffle_epi8(_mm_loadu_si128(iteration.frame.as_ptr().add(16 * part).cast()), reverse);
        let (padding, third, fourth) = (frame(1), frame(2), frame(3));
        // The registers hold a in the highest word, and e there in one of its own.
        let load = |rows: *const u32, l: usize| {
            let word = |i: usize| (*rows.add(i * row(N) + l)).cast_signed();
            (_mm_set_epi32(word(0), word(1), word(2), word(3)), _mm_set_epi32(word(4), 0, 0, 0))
        };
        let keys = iteration.keys.map(|rows| core::array::from_fn::<_, N, _>(|l| load(rows, l)));
        let mut digests: [_; N] = core::array::from_fn(|l| load(iteration.digests, l));
        let mut sums: [_; N] = core::array::from_fn(|l| load(iteration.sums, l));
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
        for (rows, values) in [(iteration.digests, digests), (iteration.sums, sums)] {
            for (l, (abcd, e)) in values.into_iter().enumerate() {
                let put = |i: usize, word: i32| *rows.add(i * row(N) + l) = word.cast_unsigned();
                put(0, _mm_extract_epi32::<3>(abcd));
                put(1, _mm_extract_epi32::<2>(abcd));
                put(2, _mm_extract_epi32::<1>(abcd));
                put(3, _mm_extract_epi32::<0>(abcd));
                put(4, _mm_extract_epi32::<3>(e));
            }
        }
    }
}

/// The same of HMAC-SHA-256, and of HMAC-SHA-224.
///
/// # Safety
/// That of [`Iterate`] with `N` lanes.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(super) unsafe fn iterate_sha256<const N: usize>(iteration: &mut Iteration<'_, Sha256>, steps: u64) {
    // SAFETY: the instructions are on here; the rows are the caller's promise.
    unsafe {
        let zero = _mm_setzero_si128();
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let frame =
            |part: usize| _mm_shuffle_epi8(_mm_loadu_si128(iteration.frame.as_ptr().add(16 * part).cast()), swap);
        let (padding, third, fourth) = (frame(1), frame(2), frame(3));
        // SHA-224 leaves h out.
        let has_h = iteration.digest == 32;
        // Words in their order, the first one lowest.
        let load = |rows: *const u32, l: usize| {
            let word = |i: usize| (*rows.add(i * row(N) + l)).cast_signed();
            let four = |i: usize| _mm_set_epi32(word(i + 3), word(i + 2), word(i + 1), word(i));
            (four(0), four(4))
        };
        // The instructions want a b e f and c d g h, from the highest word down.
        let keys = iteration.keys.map(|rows| {
            core::array::from_fn::<_, N, _>(|l| {
                let word = |i: usize| (*rows.add(i * row(N) + l)).cast_signed();
                (_mm_set_epi32(word(0), word(1), word(4), word(5)), _mm_set_epi32(word(2), word(3), word(6), word(7)))
            })
        });
        let mut digests: [_; N] = core::array::from_fn(|l| load(iteration.digests, l));
        let mut sums: [_; N] = core::array::from_fn(|l| load(iteration.sums, l));
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
                    let upper = _mm_castsi128_ps(_mm_add_epi32(abef[l], key[l].0));
                    let lower = _mm_castsi128_ps(_mm_add_epi32(cdgh[l], key[l].1));
                    digests[l] = (
                        _mm_castps_si128(_mm_shuffle_ps::<0b10_11_10_11>(upper, lower)),
                        _mm_castps_si128(_mm_shuffle_ps::<0b00_01_00_01>(upper, lower)),
                    );
                }
            }
            for (sum, digest) in sums.iter_mut().zip(&digests) {
                *sum = (_mm_xor_si128(sum.0, digest.0), _mm_xor_si128(sum.1, digest.1));
            }
        }
        for (rows, values) in [(iteration.digests, digests), (iteration.sums, sums)] {
            for (l, (abcd, efgh)) in values.into_iter().enumerate() {
                let put = |i: usize, word: i32| *rows.add(i * row(N) + l) = word.cast_unsigned();
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

/// [`Behind`](super::behind::Behind), four messages at a time.
///
/// # Safety
/// That of `Behind`.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(super) unsafe fn sha256_behind(chain: &[u32; 8], messages: &Spaced) {
    const N: usize = 4;
    let Spaced { blocks, to, to_stride, size, count, .. } = *messages;
    // SAFETY: the instructions are on here; what is read and written is the caller's promise. What is left of the lanes digests the first
    // message of the group once more and is not written.
    unsafe {
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let word = |i: usize| chain[i].cast_signed();
        let first =
            [_mm_set_epi32(word(0), word(1), word(4), word(5)), _mm_set_epi32(word(2), word(3), word(6), word(7))];
        for group in (0..count).step_by(N) {
            let left = N.min(count - group);
            let at: [_; N] = messages.group(group);
            let (mut abef, mut cdgh) = ([first[0]; N], [first[1]; N]);
            for block in 0..blocks {
                let (before0, before1) = (abef, cdgh);
                let word =
                    |l: usize, i: usize| _mm_shuffle_epi8(_mm_loadu_si128(at[l].add(64 * block + 16 * i).cast()), swap);
                sha256_rounds!(N, abef, cdgh, word);
                for l in 0..N {
                    abef[l] = _mm_add_epi32(abef[l], before0[l]);
                    cdgh[l] = _mm_add_epi32(cdgh[l], before1[l]);
                }
            }
            for l in 0..left {
                let (upper, lower) = (_mm_castsi128_ps(abef[l]), _mm_castsi128_ps(cdgh[l]));
                let abcd = _mm_shuffle_epi8(_mm_castps_si128(_mm_shuffle_ps::<0b10_11_10_11>(upper, lower)), swap);
                let efgh = _mm_shuffle_epi8(_mm_castps_si128(_mm_shuffle_ps::<0b00_01_00_01>(upper, lower)), swap);
                let to = to.add((group + l) * to_stride);
                if size >= 16 {
                    _mm_storeu_si128(to.cast(), abcd);
                } else {
                    _mm_storel_epi64(to.cast(), abcd);
                }
                if size == 32 {
                    _mm_storeu_si128(to.add(16).cast(), efgh);
                } else if size == 24 {
                    _mm_storel_epi64(to.add(16).cast(), efgh);
                }
            }
        }
    }
}

//! SHA-256 of many messages of equal length in one call.

use core::arch::x86_64::*;

use super::{to_registers, to_words};
use crate::internal::kernel::after_prefix::StridedMessages;
use crate::internal::kernel::node::{AFTER_DIGEST, DIGEST_SIZE, PADDING_SCHEDULE};
use crate::internal::kernel::sha2::{INITIAL_256, K256};

/// [`PrefixedKernel`](crate::internal::kernel::after_prefix::PrefixedKernel), four messages at a time, and the last ones two at a time or
/// alone.
///
/// # Safety
/// As for `PrefixedKernel`.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn sha256_after_prefix(chain: &[u32; 8], messages: &StridedMessages) {
    let mut first = 0;
    while first < messages.count {
        // SAFETY: the instructions are enabled here; the caller promises the messages and the places of digests.
        first += unsafe {
            match messages.count - first {
                1 => sha256_group::<1>(chain, messages, first),
                2 | 3 => sha256_group::<2>(chain, messages, first),
                _ => sha256_group::<4>(chain, messages, first),
            }
        };
    }
}

/// Digests up to `N` messages from `first` on. Returns `N`. A lane without a message hashes message `first` again and stores nothing.
///
/// # Safety
/// As for `PrefixedKernel`, and `first` is below the count.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn sha256_group<const N: usize>(chain: &[u32; 8], messages: &StridedMessages, first: usize) -> usize {
    let StridedMessages { blocks, to, to_stride, digest_size, count, .. } = *messages;
    // SAFETY: the instructions are enabled here; the caller promises the messages and the places of digests.
    unsafe {
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let before = to_registers(_mm_loadu_si128(chain.as_ptr().cast()), _mm_loadu_si128(chain[4..].as_ptr().cast()));
        let at: [_; N] = messages.group(first);
        let (mut abef, mut cdgh) = ([before.0; N], [before.1; N]);
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
        for l in 0..N.min(count - first) {
            let (abcd, efgh) = to_words(abef[l], cdgh[l]);
            let (abcd, efgh) = (_mm_shuffle_epi8(abcd, swap), _mm_shuffle_epi8(efgh, swap));
            let to = to.add((first + l) * to_stride);
            if digest_size >= 16 {
                _mm_storeu_si128(to.cast(), abcd);
            } else {
                _mm_storel_epi64(to.cast(), abcd);
            }
            if digest_size == 32 {
                _mm_storeu_si128(to.add(16).cast(), efgh);
            } else if digest_size == 24 {
                _mm_storel_epi64(to.add(16).cast(), efgh);
            }
        }
    }
    N
}

/// [`NodeKernel`](crate::internal::kernel::node::NodeKernel), four pairs at a time, and the last ones two at a time or alone.
///
/// # Safety
/// As for `NodeKernel`.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub(crate) unsafe fn sha256_nodes(pairs: *const u8, to: *mut u8, count: usize, twice: bool) {
    let mut first = 0;
    while first < count {
        // SAFETY: the instructions are enabled here; the caller promises the pairs and places. A group is read before its digests are
        // written, and its digests lie before the next group.
        unsafe {
            let (pairs, to) = (pairs.add(2 * DIGEST_SIZE * first), to.add(DIGEST_SIZE * first));
            first += match count - first {
                1 => sha256_node_group::<1>(pairs, to, twice),
                2 | 3 => sha256_node_group::<2>(pairs, to, twice),
                _ => sha256_node_group::<4>(pairs, to, twice),
            };
        }
    }
}

/// Digests `N` pairs. Returns `N`.
///
/// # Safety
/// As for `NodeKernel`, with `N` pairs.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn sha256_node_group<const N: usize>(pairs: *const u8, to: *mut u8, twice: bool) -> usize {
    // SAFETY: the instructions are enabled here; the caller promises the pairs and places.
    unsafe {
        let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
        let load = |words: &[u32]| _mm_loadu_si128(words.as_ptr().cast());
        let initial = to_registers(load(&INITIAL_256[..4]), load(&INITIAL_256[4..]));
        let (mut abef, mut cdgh) = ([initial.0; N], [initial.1; N]);
        let word = |l: usize, i: usize| _mm_shuffle_epi8(_mm_loadu_si128(pairs.add(64 * l + 16 * i).cast()), swap);
        sha256_rounds!(N, abef, cdgh, word);
        for l in 0..N {
            abef[l] = _mm_add_epi32(abef[l], initial.0);
            cdgh[l] = _mm_add_epi32(cdgh[l], initial.1);
        }
        let (before0, before1) = (abef, cdgh);
        for sum in PADDING_SCHEDULE.as_chunks::<4>().0 {
            let sum = load(sum);
            let upper = _mm_shuffle_epi32::<0x0e>(sum);
            for l in 0..N {
                cdgh[l] = _mm_sha256rnds2_epu32(cdgh[l], abef[l], sum);
            }
            for l in 0..N {
                abef[l] = _mm_sha256rnds2_epu32(abef[l], cdgh[l], upper);
            }
        }
        for l in 0..N {
            abef[l] = _mm_add_epi32(abef[l], before0[l]);
            cdgh[l] = _mm_add_epi32(cdgh[l], before1[l]);
        }
        if twice {
            let mut blocks = [[load(&AFTER_DIGEST[8..12]), load(&AFTER_DIGEST[12..])]; N]
                .map(|[third, fourth]| [third, fourth, third, fourth]);
            for l in 0..N {
                (blocks[l][0], blocks[l][1]) = to_words(abef[l], cdgh[l]);
                (abef[l], cdgh[l]) = initial;
            }
            let word = |l: usize, i: usize| blocks[l][i];
            sha256_rounds!(N, abef, cdgh, word);
            for l in 0..N {
                abef[l] = _mm_add_epi32(abef[l], initial.0);
                cdgh[l] = _mm_add_epi32(cdgh[l], initial.1);
            }
        }
        for l in 0..N {
            let (abcd, efgh) = to_words(abef[l], cdgh[l]);
            _mm_storeu_si128(to.add(DIGEST_SIZE * l).cast(), _mm_shuffle_epi8(abcd, swap));
            _mm_storeu_si128(to.add(DIGEST_SIZE * l + 16).cast(), _mm_shuffle_epi8(efgh, swap));
        }
    }
    N
}

//! The conditions that a block meets if a disturbance vector fits it (Stevens and Shumow, section 4).
//!
//! A condition compares two bits of the expanded message. It belongs to a group of disturbance vectors that differ only in K, the first
//! of the sixteen steps that define a vector. Its words are at fixed distances from step K. So the bits are first transposed: a word holds
//! one bit of all steps, and a condition is tested for all K of its group at once.

use super::counterpart::{FIRST_K, GROUPS, k_set};
use crate::internal::kernel::sha1::STEPS;
use crate::internal::vector::Vector;

/// The first step whose word has conditions; `LAST_STEP` is the last one.
const FIRST_STEP: usize = 35;
const LAST_STEP: usize = 64;

/// Returns the disturbance vectors whose conditions are all met: for each group, bit `K - FIRST_K` is set for such a vector. Takes the
/// words of all steps.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn candidates<V: Vector<Word = u32>>(words: &[V; STEPS]) -> [V; GROUPS.len()] {
    // SAFETY: guaranteed by the caller.
    let splat = |word: u32| unsafe { V::splat(word) };
    // SAFETY: guaranteed by the caller.
    let columns = unsafe { transpose(&words[FIRST_STEP..=LAST_STEP]) };
    let mut violated = GROUPS.map(|group| splat(!group.k_set));

    // Arguments: the group; the two bits, each as its step relative to K and its place in the word; and the K to which the condition
    // applies. The bits are equal or differ.
    macro_rules! conditions {
        ($($group:literal: ($t:literal, $bit:literal) $equal:tt ($u:literal, $other:literal), $first:literal..=$last:literal;)*) => {
            $({
                let k_set = splat(const { k_set($first, $last) });
                let other = shift_steps::<V, { ($u - $t) as u32 }>(columns[column($other)]);
                let differ = columns[column($bit)].xor(other);
                // Moves the bit of step K + t to bit K - FIRST_K.
                let differ = rotate::<V, { ((FIRST_STEP + 64 - FIRST_K).wrapping_add_signed(-$t) % 32) as u32 }>(differ);
                violated[$group] = violated[$group].or(k_set.and(conditions!(@ $equal differ)));
            })*
        };
        (@ == $differ:ident) => { $differ };
        (@ != $differ:ident) => { $differ.not() };
    }
    // Equivalent to the conditions of `ubc_check_verify.c` in sha1collisiondetection, a program by Stevens. There, some conditions
    // use other words for some K of a group.
    conditions! {
        // Type I, bit 0.
        0: (-16, 3) == (-12, 28), 51..=51;
        0: (-14, 4) != (-13, 4), 50..=52;
        0: (-13, 4) == (-9, 29), 48..=52;
        0: (-10, 4) == (-6, 29), 45..=52;
        0: (-8, 29) == (-7, 29), 48..=52;
        0: (-7, 29) == (-6, 29), 47..=52;
        0: (-6, 4) != (-4, 4), 43..=52;
        0: (-4, 4) != (-4, 29), 44..=52;
        0: (-4, 4) != (-3, 29), 43..=52;
        0: (-3, 29) == (-2, 4), 43..=52;
        0: (-2, 4) != (-1, 29), 43..=52;
        0: (-1, 29) == (0, 4), 43..=52;
        0: (0, 4) != (1, 29), 43..=52;
        0: (1, 29) != (3, 29), 43..=52;
        0: (3, 29) == (4, 29), 43..=52;
        0: (15, 0) != (16, 5), 43..=48;
        0: (16, 5) == (20, 30), 43..=44;
        0: (18, 1) != (19, 6), 43..=45;
        // Type I, bit 2.
        1: (-16, 5) == (-12, 30), 51..=51;
        1: (-14, 1) == (-14, 6), 51..=51;
        1: (-14, 1) != (-13, 6), 49..=51;
        1: (-11, 1) != (-10, 6), 46..=51;
        1: (-10, 6) == (-9, 1), 49..=51;
        1: (-7, 1) != (-6, 6), 46..=51;
        1: (-6, 6) == (-4, 6), 46..=51;
        1: (-4, 6) == (-2, 6), 46..=51;
        1: (-2, 6) == (0, 6), 46..=51;
        1: (0, 6) == (1, 1), 46..=51;
        1: (15, 2) != (16, 7), 46..=48;
        // Type II, bit 0.
        2: (-18, 4) != (-16, 4), 54..=56;
        2: (-16, 4) != (-16, 29), 56..=56;
        2: (-16, 4) != (-15, 29), 55..=56;
        2: (-16, 4) != (-14, 4), 52..=56;
        2: (-14, 4) != (-13, 29), 53..=56;
        2: (-13, 30) != (-12, 3), 48..=52;
        2: (-12, 3) == (-8, 28), 47..=56;
        2: (-12, 4) == (-8, 29), 47..=56;
        2: (-9, 4) == (-5, 29), 45..=56;
        2: (-7, 29) == (-6, 29), 47..=56;
        2: (-6, 29) == (-5, 29), 46..=56;
        2: (-4, 4) == (-2, 29), 45..=56;
        2: (-2, 29) == (-1, 29), 45..=56;
        2: (-1, 29) == (0, 29), 45..=56;
        2: (2, 4) == (4, 29), 45..=55;
        2: (4, 4) != (4, 29), 45..=53;
        2: (4, 4) == (8, 29), 45..=56;
        2: (4, 29) == (5, 29), 45..=54;
        2: (7, 29) == (8, 29), 45..=52;
        2: (15, 0) != (16, 5), 45..=48;
        2: (18, 1) != (19, 6), 45..=45;
        // Type II, bit 2.
        3: (-13, 0) != (-12, 5), 49..=51;
        3: (-12, 5) == (-8, 30), 49..=51;
        3: (-10, 1) != (-9, 6), 46..=51;
        3: (-9, 6) == (-8, 1), 49..=51;
        3: (-5, 1) != (-4, 6), 46..=51;
        3: (-4, 6) == (-3, 1), 46..=51;
        3: (1, 1) != (2, 6), 46..=51;
        3: (2, 6) == (4, 6), 46..=51;
        3: (4, 6) == (5, 1), 46..=51;
        3: (15, 2) != (16, 7), 46..=46;
    }
    violated.map(V::not)
}

/// The column of a bit.
const fn column(bit: u32) -> usize {
    ((bit + ROTATION) % u32::BITS) as usize
}

/// Words are turned left, so that all bits with conditions lie in the lower half: 28 to 30 and 0 to 7.
const ROTATION: u32 = 4;

/// Returns the columns of the bits with conditions: bit `t - FIRST_STEP` of column [`column`]`(bit)` is `bit` of the word of step `t`.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn transpose<V: Vector<Word = u32>>(words: &[V]) -> [V; 16] {
    // SAFETY: guaranteed by the caller.
    let splat = |word: u32| unsafe { V::splat(word) };
    // A row gets the lower halves of two words; the upper halves have no conditions.
    let mut rows = [words[0]; 16];
    for (i, row) in rows.iter_mut().enumerate() {
        let low = words[i].rotate_left::<ROTATION>();
        *row = match words.get(i + 16) {
            Some(word) => splat(0xffff).choose(low, word.rotate_left::<{ ROTATION + 16 }>()),
            None => low,
        };
    }
    // Both halves are transposed like matrices of 16 x 16 bits: blocks of bits change places, in four sizes.
    macro_rules! exchange {
        ($size:literal, $low:literal) => {
            for i in (0..16).filter(|i| i & $size == 0) {
                let difference = rows[i].shift_right::<$size>().xor(rows[i + $size]).and(splat($low));
                rows[i + $size] = rows[i + $size].xor(difference);
                rows[i] = rows[i].xor(difference.rotate_left::<$size>());
            }
        };
    }
    exchange!(8, 0x00ff_00ff);
    exchange!(4, 0x0f0f_0f0f);
    exchange!(2, 0x3333_3333);
    exchange!(1, 0x5555_5555);
    rows
}

/// Moves the bit of step `t + N` to the place of step `t`, for all steps.
#[inline(always)]
fn shift_steps<V: Vector<Word = u32>, const N: u32>(column: V) -> V {
    if N == 0 { column } else { column.shift_right::<N>() }
}

/// Rotates left by `N` bits, which may be none.
#[inline(always)]
fn rotate<V: Vector<Word = u32>, const N: u32>(column: V) -> V {
    if N == 0 { column } else { column.rotate_left::<N>() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::{Algorithm, digest_many};

    /// Compares with the digest of the results of `ubc_check` in sha1collisiondetection for the same words. The bits of the results are
    /// sorted into groups.
    #[test]
    #[cfg_attr(miri, ignore = "takes too long there")]
    fn candidates_are_those_of_sha1collisiondetection() {
        let random = Random::new(0x7562_6331);
        let mut table = Vec::new();
        let mut groups = [0; GROUPS.len()];
        for _ in 0..1 << 17 {
            let words = core::array::from_fn(|_| random.next() as u32);
            // SAFETY: `u32` as a vector needs no special instructions.
            let candidates = unsafe { candidates(&words) };
            groups.iter_mut().zip(candidates).for_each(|(group, found)| *group |= found);
            table.extend(candidates.iter().flat_map(|found| found.to_be_bytes()));
        }
        assert_eq!(groups, GROUPS.map(|group| group.k_set), "each vector was a candidate");
        let mut digest = [0; 32];
        digest_many(Algorithm::Sha256, &[&table], &mut digest).unwrap();
        assert_eq!(digest[..8], [0x31, 0xd8, 0xf6, 0x72, 0xb9, 0xaf, 0x30, 0xeb]);
    }
}

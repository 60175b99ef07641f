//! The beginning and the end of a message: powers of the hash key, the first counter, associated data, the tag.
//!
//! The functions are inlined into callers, which are compiled for each CPU level.

use super::*;

/// Computes the powers of the hash key, which is the encrypted zero block.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn powers<R: Wide, const ROUNDS: usize>(key: &mut GcmKey) {
    // SAFETY: as above.
    unsafe {
        let [block] = encrypt_blocks([R::zero()], &key.keys, ROUNDS);
        key.powers.compute::<R>(block.reverse_bytes().first());
    }
}

/// Returns the counter of the block that masks the tag.
///
/// # Safety
/// The CPU has AES instructions.
#[inline(always)]
pub(super) unsafe fn first_counter(nonce: &[u8; 12]) -> Xmm {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *nonce;
    let (high, low) = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes(rest));
    // SAFETY: as above.
    unsafe { Xmm::from_u128(u128::from(high) << 64 | u128::from(low) << 32 | u128::from(TAG_COUNTER)) }
}

/// Computes the first counter and the mask of the tag, and hashes the associated data.
///
/// # Safety
/// As for [`powers`].
#[inline(always)]
pub(super) unsafe fn begin<R: Wide, const ROUNDS: usize>(
    key: &GcmKey,
    message: &mut Message,
    nonce: &[u8],
    associated: &[u8],
) {
    // SAFETY: as above.
    unsafe {
        let first = if let Some(nonce) = nonce.as_array() {
            first_counter(nonce)
        } else {
            absorb::<R>(&mut message.hash, &key.powers, nonce);
            let bits = Xmm::from_u128(nonce.len() as u128 * 8);
            let first = hash_blocks(block(&message.hash), [R::from_first(bits)], &key.powers, 1);
            message.hash = 0;
            first
        };
        let [mask] = encrypt_blocks([R::from_first(first).reverse_bytes()], &key.keys, ROUNDS);
        set(&mut message.mask, mask.reverse_bytes().first());
        set(&mut message.counter, first.advance_counter(DATA_COUNTER - TAG_COUNTER));
        absorb::<R>(&mut message.hash, &key.powers, associated);
    }
}

/// Adds bytes to a hash; the last block is padded with zeros.
///
/// # Safety
/// As for [`powers`].
#[inline(always)]
unsafe fn absorb<R: Wide>(to: &mut u128, powers: &Powers, bytes: &[u8]) {
    // SAFETY: as above; no read goes past the end of `bytes`.
    unsafe {
        let mut hash = block(to);
        let mut eights = bytes.chunks_exact(REGISTERS * R::LINE);
        for eight in &mut eights {
            let mut sum = Sum::<R>::new(powers);
            for r in 0..REGISTERS {
                let mut line = R::load(eight.as_ptr().add(r * R::LINE).cast()).reverse_bytes();
                if r == 0 {
                    line = line.xor(R::from_first(hash));
                }
                sum.add(line, (REGISTERS - r) * R::BLOCKS);
            }
            hash = sum.reduced();
        }
        let mut lines = eights.remainder().chunks_exact(R::LINE);
        for line in &mut lines {
            hash = hash_blocks(hash, [R::load(line.as_ptr().cast()).reverse_bytes()], powers, R::BLOCKS);
        }
        let part = lines.remainder();
        if !part.is_empty() {
            let line = R::load_part(part.as_ptr(), part.len()).reverse_bytes();
            hash = hash_blocks(hash, [line], powers, part.len().div_ceil(BLOCK));
        }
        set(to, hash);
    }
}

/// Writes the tag: hashes the incomplete line, then the lengths in bits.
///
/// # Safety
/// As for [`powers`].
#[inline(always)]
pub(super) unsafe fn tag<R: Wide>(powers: &Powers, message: &Message, tag: &mut [u8; BLOCK]) {
    let [associated, bytes] = [&message.associated, &message.bytes].map(|bytes| {
        // SAFETY: `bytes` is a reference. The read is volatile so that each number is loaded by itself: one load of both would wait for
        // both stores.
        u128::from(unsafe { core::ptr::read_volatile(bytes) }.wrapping_mul(8))
    });
    let used = message.used::<R>();
    // SAFETY: as above; `partial` is as long as the widest register, and `tag` is one block.
    unsafe {
        let mut lengths = R::from_first(Xmm::from_u128(associated << 64 | bytes));
        let mut hash = R::from_first(block(&message.hash));
        let mut sum = Sum::new(powers);
        if used > 0 {
            let partial = R::load(message.partial.as_ptr().cast()).reverse_bytes();
            // The zeros that pad the line add nothing to the hash.
            sum.add(partial.xor(hash), used.div_ceil(BLOCK) + 1);
            hash = R::zero();
        }
        lengths = lengths.xor(hash);
        sum.add(lengths, 1);
        let masked = sum.reduced().xor(block(&message.mask));
        R::from_first(masked).reverse_bytes().first().store(tag);
    }
}

//! The beginning and the end of a message: powers of the hash key, the first counter, associated data, the tag.
//!
//! The functions are inlined into callers, which are compiled for each CPU level.

use super::*;

/// Computes the powers of the hash key, which is the encrypted zero block.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn powers<R: WideRegister, const ROUNDS: usize>(key: &mut GcmKey) {
    // SAFETY: as above.
    unsafe {
        let [block] = encrypt_blocks([R::zero()], &key.keys, ROUNDS);
        key.powers.compute::<R>(block.reverse_bytes().first());
    }
}

/// Returns the first counter, which masks the tag, with reversed bytes.
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
pub(super) unsafe fn begin<R: WideRegister, const ROUNDS: usize>(
    key: &GcmKey,
    message: &mut GcmState,
    nonce: &[u8],
    aad: &[u8],
) {
    // SAFETY: as above.
    unsafe {
        let first = if let Some(nonce) = nonce.as_array() {
            first_counter(nonce)
        } else {
            absorb::<R>(&mut message.hash, &key.powers, nonce);
            let bits = Xmm::from_u128(nonce.len() as u128 * 8);
            let first = hash_blocks(load_block(&message.hash), [R::from_first(bits)], &key.powers, 1);
            message.hash = 0;
            first
        };
        let [mask] = encrypt_blocks([R::from_first(first).reverse_bytes()], &key.keys, ROUNDS);
        store_block(&mut message.mask, mask.reverse_bytes().first());
        store_block(&mut message.counter, first.advance_counter(DATA_COUNTER - TAG_COUNTER));
        absorb::<R>(&mut message.hash, &key.powers, aad);
    }
}

/// Adds bytes to a hash; the last block is padded with zeros.
///
/// # Safety
/// As for [`powers`].
#[inline(always)]
unsafe fn absorb<R: WideRegister>(to: &mut u128, powers: &Powers, bytes: &[u8]) {
    // SAFETY: as above; no read goes past the end of `bytes`.
    unsafe {
        let mut hash = load_block(to);
        let mut groups = bytes.chunks_exact(REGISTERS * R::LINE_BYTES);
        for group in &mut groups {
            let mut sum = Sum::<R>::new(powers);
            for r in 0..REGISTERS {
                let mut line = R::load(group.as_ptr().add(r * R::LINE_BYTES).cast()).reverse_bytes();
                if r == 0 {
                    line = line.xor(R::from_first(hash));
                }
                sum.add(line, (REGISTERS - r) * R::BLOCKS);
            }
            hash = sum.reduced();
        }
        let mut lines = groups.remainder().chunks_exact(R::LINE_BYTES);
        for line in &mut lines {
            hash = hash_blocks(hash, [R::load(line.as_ptr().cast()).reverse_bytes()], powers, R::BLOCKS);
        }
        let part = lines.remainder();
        if !part.is_empty() {
            let line = R::load_part(part.as_ptr(), part.len()).reverse_bytes();
            hash = hash_blocks(hash, [line], powers, part.len().div_ceil(BLOCK_LEN));
        }
        store_block(to, hash);
    }
}

/// Writes the tag: hashes the incomplete line, then the lengths in bits.
///
/// # Safety
/// As for [`powers`].
#[inline(always)]
pub(super) unsafe fn tag<R: WideRegister>(powers: &Powers, message: &GcmState, tag: &mut [u8; BLOCK_LEN]) {
    let [aad_bits, data_bits] = [&message.aad_bytes, &message.bytes].map(|bytes| {
        // SAFETY: `bytes` is a reference. The read is volatile so that each number is loaded by itself: one load of both would wait for
        // both stores.
        u128::from(unsafe { core::ptr::read_volatile(bytes) }.wrapping_mul(8))
    });
    let partial_len = message.partial_len::<R>();
    // SAFETY: as above; `partial` is as long as the widest register, and `tag` is one block.
    unsafe {
        let mut lengths = R::from_first(Xmm::from_u128(aad_bits << 64 | data_bits));
        let mut hash = R::from_first(load_block(&message.hash));
        let mut sum = Sum::new(powers);
        if partial_len > 0 {
            let partial = R::load(message.partial.as_ptr().cast()).reverse_bytes();
            // The zeros that pad the line add nothing to the hash.
            sum.add(partial.xor(hash), partial_len.div_ceil(BLOCK_LEN) + 1);
            hash = R::zero();
        }
        lengths = lengths.xor(hash);
        sum.add(lengths, 1);
        let masked = sum.reduced().xor(load_block(&message.mask));
        R::from_first(masked).reverse_bytes().first().store(tag);
    }
}

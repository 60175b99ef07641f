//! What is before the data of a message and behind them: powers of the hash key, the first counter, associated data, the tag.
//!
//! The functions are compiled for each CPU level by those that call them.

use super::*;

/// The hash key is zeros, encrypted.
///
/// # Safety
/// The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn powers<R: Wide, const ROUNDS: usize>(key: &mut GcmKey) {
    // SAFETY: as above.
    unsafe {
        let [block] = encrypted([R::zero()], &key.keys, ROUNDS);
        key.powers.compute::<R>(block.turned().first());
    }
}

/// The counter of the block that masks the tag.
///
/// # Safety
/// The CPU has AES instructions.
#[inline(always)]
pub(super) unsafe fn first_counter(nonce: &[u8; 12]) -> Xmm {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *nonce;
    let (high, low) = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes(rest));
    // SAFETY: as above.
    unsafe { Xmm::of(u128::from(high) << 64 | u128::from(low) << 32 | u128::from(FIRST)) }
}

/// The first counter, which becomes the mask, and the associated data.
///
/// # Safety
/// That of [`powers`].
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
            let bits = Xmm::of(nonce.len() as u128 * 8);
            let first = hashed(block(&message.hash), [R::from_first(bits)], &key.powers, 1);
            message.hash = 0;
            first
        };
        let [mask] = encrypted([R::from_first(first).turned()], &key.keys, ROUNDS);
        set(&mut message.mask, mask.turned().first());
        set(&mut message.counter, first.counted(FIRST_OF_DATA - FIRST));
        absorb::<R>(&mut message.hash, &key.powers, associated);
    }
}

/// Adds bytes to a hash, whose last block may lack some.
///
/// # Safety
/// That of [`powers`].
#[inline(always)]
unsafe fn absorb<R: Wide>(to: &mut u128, powers: &Powers, bytes: &[u8]) {
    // SAFETY: as above; no more is read than there is.
    unsafe {
        let mut hash = block(to);
        let mut eights = bytes.chunks_exact(REGISTERS * R::LINE);
        for eight in &mut eights {
            let mut sum = Sum::<R>::new(powers);
            for r in 0..REGISTERS {
                let mut line = R::load(eight.as_ptr().add(r * R::LINE).cast()).turned();
                if r == 0 {
                    line = line.xor(R::from_first(hash));
                }
                sum.add(line, (REGISTERS - r) * R::BLOCKS);
            }
            hash = sum.reduced();
        }
        let mut lines = eights.remainder().chunks_exact(R::LINE);
        for line in &mut lines {
            hash = hashed(hash, [R::load(line.as_ptr().cast()).turned()], powers, R::BLOCKS);
        }
        let part = lines.remainder();
        if !part.is_empty() {
            let line = R::load_part(part.as_ptr(), part.len()).turned();
            hash = hashed(hash, [line], powers, part.len().div_ceil(BLOCK));
        }
        set(to, hash);
    }
}

/// The end: what waits, and behind it the lengths in bits.
///
/// # Safety
/// That of [`powers`].
#[inline(always)]
pub(super) unsafe fn tag<R: Wide>(powers: &Powers, message: &Message, tag: &mut [u8; BLOCK]) {
    let [associated, bytes] = [&message.associated, &message.bytes].map(|bytes| {
        // SAFETY: reads a number. (Each by itself: one load of both would wait for the stores of either.)
        u128::from(unsafe { core::ptr::read_volatile(bytes) }.wrapping_mul(8))
    });
    let used = message.used::<R>();
    // SAFETY: as above; reads a register of what waits, and writes a block.
    unsafe {
        let mut lengths = R::from_first(Xmm::of(associated << 64 | bytes));
        let mut hash = R::from_first(block(&message.hash));
        let mut sum = Sum::new(powers);
        if used > 0 {
            let waiting = R::load(message.waiting.as_ptr().cast()).turned();
            // The zeros behind what waits add nothing, whatever they are multiplied with.
            sum.add(waiting.xor(hash), used.div_ceil(BLOCK) + 1);
            hash = R::zero();
        }
        lengths = lengths.xor(hash);
        sum.add(lengths, 1);
        let masked = sum.reduced().xor(block(&message.mask));
        R::from_first(masked).turned().first().store(tag);
    }
}

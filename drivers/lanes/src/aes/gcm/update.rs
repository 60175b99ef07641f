//! The data of a message, in pieces of any length.
//!
//! The functions are compiled for each CPU level by those that call them.

use gantry_digest::wipe::overwrite;
use zeroize::Zeroize;

use super::*;

/// Bytes of the stack that `eights` uses, at most.
const SPILLED: usize = 1 << 10;

/// The body of [`GcmKey::update`].
///
/// # Safety
/// That of [`Update`]; the CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn update<R: Wide, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    mut data: Data<'_>,
) {
    let (used, bytes) = (message.used::<R>(), data.bytes as u64);
    // SAFETY: the instructions are there; every function is given data that are there, and counts off what it has done.
    unsafe {
        if used > 0 {
            go_on::<R, ROUNDS, DECRYPT>(key, message, used, &mut data);
        }
        // Eight lines begin where the lowest bits of the counter are those of a message's first.
        let lines_before = (message.bytes + bytes - data.bytes as u64) / R::LINE as u64;
        let ahead = lines_before.wrapping_neg() as usize % REGISTERS;
        if message.is_usual && data.bytes >= (ahead + REGISTERS) * R::LINE {
            for _ in 0..ahead {
                lines::<R, 1, ROUNDS, DECRYPT>(key, message, &mut data);
            }
            (key.direction(DECRYPT).eights)(key, message, data);
            data.skip(data.bytes / (REGISTERS * R::LINE) * (REGISTERS * R::LINE));
            // There are not registers enough for what the loop has: hashes and counters with a round key are on the stack meanwhile.
            overwrite::<SPILLED>();
        }
        while data.bytes >= 4 * R::LINE {
            lines::<R, 4, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= 2 * R::LINE {
            lines::<R, 2, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= R::LINE {
            lines::<R, 1, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes > 0 {
            part::<R, ROUNDS, DECRYPT>(&key.keys, message, data);
        }
    }
    message.bytes += bytes;
}

/// The rest of a line of which `used` bytes are gone, or as much of it as there is. (What it is combined with is computed again: it
/// would be one more secret to keep.)
///
/// # Safety
/// That of [`update()`].
#[inline(always)]
unsafe fn go_on<R: Wide, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    used: usize,
    data: &mut Data<'_>,
) {
    let bytes = data.bytes.min(R::LINE - used);
    let mut place = [0u128; WIDEST / BLOCK];
    // SAFETY: as above; `place` and what waits have a register, of which these bytes are behind those that are gone.
    unsafe {
        let [stream] =
            stream::<R, 1, ROUNDS>(&key.keys, block(&message.counter).counted((R::BLOCKS as u32).wrapping_neg()));
        stream.store(place.as_mut_ptr().cast());
        let stream = R::load_part(place.as_ptr().cast::<u8>().add(used), bytes);
        place.zeroize();
        let input = R::load_part(data.from, bytes);
        let output = input.xor(stream);
        output.store_part(data.to, bytes);
        data.skip(bytes);
        let ciphertext = if DECRYPT { input } else { output };
        ciphertext.store_part(message.waiting.as_mut_ptr().cast::<u8>().add(used), bytes);
        if used + bytes == R::LINE {
            let line = R::load(message.waiting.as_ptr().cast()).turned();
            let hash = hashed(block(&message.hash), [line], &key.powers, R::BLOCKS);
            set(&mut message.hash, hash);
        }
    }
}

/// Less than a line, the last of this piece, and at least a byte.
///
/// # Safety
/// That of [`update()`].
#[inline(always)]
unsafe fn part<R: Wide, const ROUNDS: usize, const DECRYPT: bool>(
    keys: &RoundKeys,
    message: &mut Message,
    data: Data<'_>,
) {
    // SAFETY: as above; what waits has a register.
    unsafe {
        let [stream] = next_stream::<R, 1, ROUNDS>(keys, message);
        let input = R::load_part(data.from, data.bytes);
        let output = input.xor(stream.first_bytes(data.bytes));
        output.store_part(data.to, data.bytes);
        (if DECRYPT { input } else { output }).store(message.waiting.as_mut_ptr().cast());
    }
}

/// What the next lines are combined with.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn next_stream<R: Wide, const N: usize, const ROUNDS: usize>(keys: &RoundKeys, message: &mut Message) -> [R; N] {
    // SAFETY: as above.
    unsafe {
        let counter = block(&message.counter);
        set(&mut message.counter, counter.counted((R::BLOCKS * N) as u32));
        stream::<R, N, ROUNDS>(keys, counter)
    }
}

/// What lines are combined with, from this counter on.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn stream<R: Wide, const N: usize, const ROUNDS: usize>(keys: &RoundKeys, counter: Xmm) -> [R; N] {
    // SAFETY: as above.
    unsafe {
        let first = R::repeat(counter).numbered();
        let mut x = [first; N];
        for (r, x) in x.iter_mut().enumerate() {
            *x = first.counted((R::BLOCKS * r) as u32).turned();
        }
        encrypted(x, keys, ROUNDS)
    }
}

/// A few lines.
///
/// # Safety
/// That of [`update()`], and there are so many.
#[inline(always)]
unsafe fn lines<R: Wide, const N: usize, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut Message,
    data: &mut Data<'_>,
) {
    // SAFETY: as above.
    unsafe {
        let mut lines = next_stream::<R, N, ROUNDS>(&key.keys, message);
        for (r, line) in lines.iter_mut().enumerate() {
            let input = R::load(data.from.add(r * R::LINE).cast());
            let output = input.xor(*line);
            output.store(data.to.add(r * R::LINE).cast());
            *line = if DECRYPT { input } else { output }.turned();
        }
        data.skip(N * R::LINE);
        let hash = hashed(block(&message.hash), lines, &key.powers, N * R::BLOCKS);
        set(&mut message.hash, hash);
    }
}

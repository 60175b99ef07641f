//! The data of a message, in pieces of any length.
//!
//! The functions are inlined into callers, which are compiled for each CPU level.

use gantry_digest::internal::wipe::overwrite_stack;
use zeroize::Zeroize;

use super::*;

/// Maximum bytes of stack that `eight_lines` uses.
const SPILLED_BYTES: usize = 1 << 10;

/// Implements [`GcmKey::update`].
///
/// # Safety
/// As for [`UpdateFn`]. The CPU has the instructions of `R`, and VPCLMULQDQ.
#[inline(always)]
pub(super) unsafe fn update<R: WideRegister, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut GcmState,
    mut data: RawBuffers<'_>,
) {
    let (partial_len, bytes) = (message.partial_len::<R>(), data.bytes as u64);
    // SAFETY: the caller promises the instructions. Each call gets only data that exist. Before the next call, `data` is advanced past the
    // processed data.
    unsafe {
        if partial_len > 0 {
            continue_line::<R, ROUNDS, DECRYPT>(key, message, partial_len, &mut data);
        }
        // `eight_lines` requires that the lowest bits of the counter are those of `DATA_COUNTER`, as at each multiple of eight lines.
        let lines_before = (message.bytes + bytes - data.bytes as u64) / R::LINE_BYTES as u64;
        let until_aligned = lines_before.wrapping_neg() as usize % REGISTERS;
        if message.has_standard_nonce && data.bytes >= (until_aligned + REGISTERS) * R::LINE_BYTES {
            for _ in 0..until_aligned {
                process_lines::<R, 1, ROUNDS, DECRYPT>(key, message, &mut data);
            }
            (key.direction(DECRYPT).eight_lines)(key, message, data);
            data.skip(data.bytes / (REGISTERS * R::LINE_BYTES) * (REGISTERS * R::LINE_BYTES));
            // `eight_lines` spills registers: the stack holds hashes, and counters with a round key added.
            overwrite_stack::<SPILLED_BYTES>();
        }
        while data.bytes >= 4 * R::LINE_BYTES {
            process_lines::<R, 4, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= 2 * R::LINE_BYTES {
            process_lines::<R, 2, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes >= R::LINE_BYTES {
            process_lines::<R, 1, ROUNDS, DECRYPT>(key, message, &mut data);
        }
        if data.bytes > 0 {
            process_partial_line::<R, ROUNDS, DECRYPT>(&key.keys, message, data);
        }
    }
    message.bytes += bytes;
}

/// Continues a line after the `partial_len` bytes that earlier pieces have filled, up to the end of the line or of the data. Hashes the
/// line if it is complete. Computes the key stream again: keeping it would mean one more secret to wipe.
///
/// # Safety
/// As for [`update()`].
#[inline(always)]
unsafe fn continue_line<R: WideRegister, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut GcmState,
    partial_len: usize,
    data: &mut RawBuffers<'_>,
) {
    let bytes = data.bytes.min(R::LINE_BYTES - partial_len);
    let mut key_stream_line = [0u128; MAX_LINE_BYTES / BLOCK_LEN];
    // SAFETY: as above; `key_stream_line` and `partial` are as long as the widest register, and `partial_len + bytes` is at most a line.
    unsafe {
        let [stream] = key_stream::<R, 1, ROUNDS>(
            &key.keys,
            load_block(&message.counter).advance_counter((R::BLOCKS as u32).wrapping_neg()),
        );
        stream.store(key_stream_line.as_mut_ptr().cast());
        let stream = R::load_part(key_stream_line.as_ptr().cast::<u8>().add(partial_len), bytes);
        key_stream_line.zeroize();
        let input = R::load_part(data.from, bytes);
        let output = input.xor(stream);
        output.store_part(data.to, bytes);
        data.skip(bytes);
        let ciphertext = if DECRYPT { input } else { output };
        ciphertext.store_part(message.partial.as_mut_ptr().cast::<u8>().add(partial_len), bytes);
        if partial_len + bytes == R::LINE_BYTES {
            let line = R::load(message.partial.as_ptr().cast()).reverse_bytes();
            let hash = hash_blocks(load_block(&message.hash), [line], &key.powers, R::BLOCKS);
            store_block(&mut message.hash, hash);
        }
    }
}

/// Processes the partial line at the end of a piece: at least one byte, less than a line.
///
/// # Safety
/// As for [`update()`].
#[inline(always)]
unsafe fn process_partial_line<R: WideRegister, const ROUNDS: usize, const DECRYPT: bool>(
    keys: &RoundKeys,
    message: &mut GcmState,
    data: RawBuffers<'_>,
) {
    // SAFETY: as above; `partial` is as long as the widest register.
    unsafe {
        let [stream] = next_key_stream::<R, 1, ROUNDS>(keys, message);
        let input = R::load_part(data.from, data.bytes);
        let output = input.xor(stream.first_bytes(data.bytes));
        output.store_part(data.to, data.bytes);
        (if DECRYPT { input } else { output }).store(message.partial.as_mut_ptr().cast());
    }
}

/// Returns the key stream of the next `N` lines, and advances the counter.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn next_key_stream<R: WideRegister, const N: usize, const ROUNDS: usize>(
    keys: &RoundKeys,
    message: &mut GcmState,
) -> [R; N] {
    // SAFETY: as above.
    unsafe {
        let counter = load_block(&message.counter);
        store_block(&mut message.counter, counter.advance_counter((R::BLOCKS * N) as u32));
        key_stream::<R, N, ROUNDS>(keys, counter)
    }
}

/// Returns the key stream of `N` lines from this counter on.
///
/// # Safety
/// The CPU has the instructions of `R`.
#[inline(always)]
unsafe fn key_stream<R: WideRegister, const N: usize, const ROUNDS: usize>(keys: &RoundKeys, counter: Xmm) -> [R; N] {
    // SAFETY: as above.
    unsafe {
        let first = R::repeat(counter).add_block_indices();
        let mut x = [first; N];
        for (r, x) in x.iter_mut().enumerate() {
            *x = first.advance_counter((R::BLOCKS * r) as u32).reverse_bytes();
        }
        encrypt_blocks(x, keys, ROUNDS)
    }
}

/// Processes `N` whole lines.
///
/// # Safety
/// As for [`update()`], and `data` has at least `N` lines.
#[inline(always)]
unsafe fn process_lines<R: WideRegister, const N: usize, const ROUNDS: usize, const DECRYPT: bool>(
    key: &GcmKey,
    message: &mut GcmState,
    data: &mut RawBuffers<'_>,
) {
    // SAFETY: as above.
    unsafe {
        let mut lines = next_key_stream::<R, N, ROUNDS>(&key.keys, message);
        for (r, line) in lines.iter_mut().enumerate() {
            let input = R::load(data.from.add(r * R::LINE_BYTES).cast());
            let output = input.xor(*line);
            output.store(data.to.add(r * R::LINE_BYTES).cast());
            *line = if DECRYPT { input } else { output }.reverse_bytes();
        }
        data.skip(N * R::LINE_BYTES);
        let hash = hash_blocks(load_block(&message.hash), lines, &key.powers, N * R::BLOCKS);
        store_block(&mut message.hash, hash);
    }
}

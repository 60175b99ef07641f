//! Wipes keys from the stack of a thread.

/// Bytes of stack that processing a burst of packets or a daemon's request may use.
const STACK_BYTES: usize = 128 << 10;

/// Overwrites the stack below the caller, where functions that have returned leave spilled registers. AWS-LC's ChaCha20 spills a key.
#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "fills a part of the stack on purpose")]
pub(crate) fn overwrite_stack() {
    let mut zeros = [0_u8; STACK_BYTES];
    // Keeps the compiler from removing the zeros.
    std::hint::black_box(&mut zeros);
}

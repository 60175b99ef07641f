//! Leaves no key on the stack of a thread that has worked with it.

/// Bytes of the stack that a burst of packets, or a request of a daemon, may use.
const DEPTH: usize = 128 << 10;

/// Overwrites the stack below the caller. Functions that have returned leave spilled registers there: those of ChaCha20 in AWS-LC hold a key.
#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "the stack is what it is about")]
pub(crate) fn overwrite_stack() {
    let mut zeros = [0_u8; DEPTH];
    // Whoever has the address may look at them: the compiler cannot leave the zeros out.
    std::hint::black_box(&mut zeros);
}

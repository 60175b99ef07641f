//! What is left on the stack, for tests.

use super::wipe::{below, overwrite};

/// Bytes that are clean before the work.
const DEPTH: usize = 32 << 10;

/// What `work` left on the stack. It has a thread of its own: what the test has in registers, the secrets that it compares with
/// among them, would be saved on the stack by any function that needs those registers.
pub(crate) fn left_behind(work: impl FnOnce() + Send) -> Vec<u8> {
    std::thread::scope(|scope| scope.spawn(|| left_by(work)).join()).expect("the work is done")
}

#[inline(never)]
fn left_by(work: impl FnOnce()) -> Vec<u8> {
    let mut stack = vec![0u8; 2 * DEPTH];
    overwrite::<DEPTH>();
    below(work);
    // SAFETY: no more is read than lies between the stack pointer and the end of a thread's stack (2 MiB), and no more written
    // than the vector has.
    unsafe {
        core::arch::asm!(
            "mov rsi, rsp", "sub rsi, {bytes}", "mov rcx, {bytes}", "rep movsb",
            bytes = in(reg) stack.len(), inout("rdi") stack.as_mut_ptr() => _, out("rsi") _, out("rcx") _,
        );
    }
    stack
}

/// Whether eight successive bytes of a secret are there.
pub(crate) fn holds(stack: &[u8], secrets: &[Vec<u8>]) -> bool {
    let mut parts: std::collections::HashSet<&[u8]> = secrets.iter().flat_map(|secret| secret.windows(8)).collect();
    parts.remove([0; 8].as_slice()); // the round keys that shorter keys do not have
    stack.windows(8).any(|part| parts.contains(part))
}

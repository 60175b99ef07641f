//! Inspects the stack after a call, for tests. The tests of gantry-driver-lanes include this file by its path.

use super::wipe::{in_own_frame, overwrite_stack};

/// Stack bytes cleared before the work, because a new thread may get the stack of an ended one. Twice as many are copied after it.
const CLEARED_BYTES: usize = 32 << 10;

/// Returns the stack that `work` left behind. Runs on its own thread: otherwise any function that needs the test's registers
/// would save the test's copies of the secrets on the stack.
pub(crate) fn stack_after(work: impl FnOnce() + Send) -> Vec<u8> {
    std::thread::scope(|scope| scope.spawn(|| call_and_copy_stack(work)).join()).expect("the work must not panic")
}

#[inline(never)]
fn call_and_copy_stack(work: impl FnOnce()) -> Vec<u8> {
    let mut stack = vec![0u8; 2 * CLEARED_BYTES];
    overwrite_stack::<CLEARED_BYTES>();
    in_own_frame(work);
    // SAFETY: the bytes read lie between the stack pointer and the end of a thread's stack (2 MiB). The vector is as long as
    // this range.
    unsafe {
        core::arch::asm!(
            "mov rsi, rsp", "sub rsi, {bytes}", "mov rcx, {bytes}", "rep movsb",
            bytes = in(reg) stack.len(), inout("rdi") stack.as_mut_ptr() => _, out("rsi") _, out("rcx") _,
        );
    }
    stack
}

/// Returns true if the stack holds eight successive bytes of a secret.
pub(crate) fn holds_secret(stack: &[u8], secrets: &[Vec<u8>]) -> bool {
    let mut parts: std::collections::HashSet<&[u8]> = secrets.iter().flat_map(|secret| secret.windows(8)).collect();
    parts.remove([0; 8].as_slice()); // Zeros follow the round keys of short AES keys.
    stack.windows(8).any(|part| parts.contains(part))
}

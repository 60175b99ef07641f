//! Asks valgrind's memcheck whether a program decides anything by a secret (after an idea of Adam Langley, `ctgrind`).
//!
//! Memcheck follows every bit that was never written, and reports the branch or the address that depends on one. Here secrets are
//! declared to be such bits. The tests of the software driver use this file, too.

use core::arch::asm;

/// How many decisions `work` takes by a secret: branches and addresses.
pub(crate) fn decisions(work: impl FnOnce()) -> usize {
    assert!(request(RUNNING_ON_VALGRIND, &mut []) > 0, "not in valgrind: scripts/constant-time runs this");
    let before = request(COUNT_ERRORS, &mut []);
    work();
    request(COUNT_ERRORS, &mut []) - before
}

/// Declares that the bytes are secret.
pub(crate) fn secret(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, bytes);
}

/// Declares that the bytes, such as a ciphertext, may be looked at.
pub(crate) fn public(bytes: &mut [u8]) {
    request(MAKE_MEM_DEFINED, bytes);
}

/// Whether a decision by the first of the bytes would be one by a secret.
pub(crate) fn is_secret(bytes: &[u8]) -> bool {
    decisions(|| branch(bytes)) > 0
}

fn branch(bytes: &[u8]) {
    if core::hint::black_box(bytes[0]) > 100 {
        core::hint::black_box(bytes);
    }
}

/// A branch by a secret is seen, a look-up by a secret is seen, and what depends on no secret is not.
pub(crate) fn self_test() {
    static TABLE: [u8; 256] = [7; 256];
    let mut key = [0x5a; 16];
    let look_up = |key: &[u8]| {
        core::hint::black_box(core::hint::black_box(&TABLE)[usize::from(core::hint::black_box(key[3]))]);
    };
    let neither = |key: &[u8]| {
        core::hint::black_box(core::hint::black_box(key[3]) & key[7]);
    };
    assert_eq!(decisions(|| [branch, look_up, neither].iter().for_each(|work| work(&key))), 0, "nothing is secret");
    secret(&mut key);
    assert_eq!(decisions(|| branch(&key)), 1, "a branch");
    assert_eq!(decisions(|| look_up(&key)), 1, "a look-up");
    assert_eq!(decisions(|| neither(&key)), 0, "no decision");
    public(&mut key);
    assert_eq!(decisions(|| branch(&key)), 0, "no secret any more");
}

/// Client requests of valgrind.h and memcheck.h (version 3.19).
const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Nothing happens, and the answer is 0, outside of valgrind: the instructions rotate a register once around.
fn request(code: usize, bytes: &mut [u8]) -> usize {
    let arguments = [code, bytes.as_mut_ptr().addr(), bytes.len(), 0, 0, 0];
    let mut answer = 0;
    // SAFETY: the registers are left as they were but for the answer. Valgrind reads six arguments; of the bytes it changes only
    // what it knows about them.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") answer,
        );
    }
    answer
}

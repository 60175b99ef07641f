//! Detects decisions that depend on a secret, with valgrind's memcheck (after an idea of Adam Langley, `ctgrind`).
//!
//! Memcheck tracks every uninitialised bit, and reports branches and addresses that depend on one. These tests declare secrets as
//! uninitialised. The tests of the software driver also use this file.

use core::arch::asm;

/// Returns the number of branches and addresses in `work` that depend on a secret.
pub(crate) fn count_decisions(work: impl FnOnce()) -> usize {
    assert!(request(RUNNING_ON_VALGRIND, &mut []) > 0, "not in valgrind: run scripts/constant-time");
    let before = request(COUNT_ERRORS, &mut []);
    work();
    request(COUNT_ERRORS, &mut []) - before
}

/// Declares that the bytes are secret.
pub(crate) fn mark_secret(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, bytes);
}

/// Declares that the bytes, such as a ciphertext, are public.
pub(crate) fn mark_public(bytes: &mut [u8]) {
    request(MAKE_MEM_DEFINED, bytes);
}

/// Returns true if the first byte is secret.
pub(crate) fn is_secret(bytes: &[u8]) -> bool {
    count_decisions(|| branch_on_first_byte(bytes)) > 0
}

fn branch_on_first_byte(bytes: &[u8]) {
    if core::hint::black_box(bytes[0]) > 100 {
        core::hint::black_box(bytes);
    }
}

/// Tests that branches on a secret and look-ups at a secret index are detected, and that nothing else is.
pub(crate) fn self_test() {
    static TABLE: [u8; 256] = [7; 256];
    let mut key = [0x5a; 16];
    let look_up = |key: &[u8]| {
        core::hint::black_box(core::hint::black_box(&TABLE)[usize::from(core::hint::black_box(key[3]))]);
    };
    let no_decision = |key: &[u8]| {
        core::hint::black_box(core::hint::black_box(key[3]) & key[7]);
    };
    assert_eq!(
        count_decisions(|| [branch_on_first_byte, look_up, no_decision].iter().for_each(|work| work(&key))),
        0,
        "nothing is secret"
    );
    mark_secret(&mut key);
    assert_eq!(count_decisions(|| branch_on_first_byte(&key)), 1, "a branch");
    assert_eq!(count_decisions(|| look_up(&key)), 1, "a look-up");
    assert_eq!(count_decisions(|| no_decision(&key)), 0, "no decision");
    mark_public(&mut key);
    assert_eq!(count_decisions(|| branch_on_first_byte(&key)), 0, "no secret any more");
}

/// Client requests of valgrind.h and memcheck.h (version 3.19).
const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_MEM_UNDEFINED: usize = 0x4d43_0001;
const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

/// Sends a request to valgrind. Without valgrind it does nothing and returns 0: the instructions rotate a register by 128 bits.
fn request(code: usize, bytes: &mut [u8]) -> usize {
    let arguments = [code, bytes.as_mut_ptr().addr(), bytes.len(), 0, 0, 0];
    let mut answer = 0;
    // SAFETY: no register changes except the register of the answer. Valgrind reads six arguments. It does not change the bytes, only its
    // own record of their state.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") answer,
        );
    }
    answer
}

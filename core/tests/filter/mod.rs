//! A system call filter that hides the kernel's pages that are wiped in children.

use std::env;
use std::process::Command;

/// Runs a test again in another process, in which `Process` is not initialized. Returns `true` in that process.
pub(crate) fn is_alone(test: &str) -> bool {
    const MARK: &str = "GANTRY_TEST_ALONE";
    if env::var_os(MARK).is_some() {
        return true;
    }
    let output = Command::new(env::current_exe().unwrap()).args(["--exact", test]).env(MARK, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

/// Makes `madvise` refuse `MADV_WIPEONFORK` for this thread and its children, like an old kernel. Returns `false` if there are no filters,
/// as in an emulator of one program (qemu-aarch64).
pub(crate) fn refuse_wiped_pages() -> bool {
    const WIPEONFORK: u32 = 18;
    // Offset of the lower half of the third argument in `seccomp_data`.
    const ADVICE: u32 = 16 + 2 * 8 + if cfg!(target_endian = "big") { 4 } else { 0 };
    let load = |offset| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let skip_unless = |value, count| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, count, value);
    let result = |value| (libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let program = [
        load(0),
        skip_unless(libc::SYS_madvise as u32, 3),
        load(ADVICE),
        skip_unless(WIPEONFORK, 1),
        result(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        result(libc::SECCOMP_RET_ALLOW),
    ];
    let mut program = program.map(|(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k });
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers, and a program that lives until the call returns.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

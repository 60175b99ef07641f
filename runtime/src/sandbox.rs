//! Filters of system calls.

use std::fs::File;
use std::io::Read as _;

/// Maximum bytes of `/proc/self/status`.
const MAX_BYTES: u64 = 1 << 20;

/// Returns `true` if a system call filter (seccomp) is in force, which could end the process for an unexpected call, or if this cannot be
/// determined. Makes only system calls that loading a library makes, too.
pub fn is_filtered() -> bool {
    let mut bytes = Vec::new();
    // If the file cannot be read, the text has no line `Seccomp:`.
    let _ = File::open("/proc/self/status").and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    // The program's name may contain any bytes.
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_none_or(|mode| mode.trim() != "0")
}

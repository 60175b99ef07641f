//! Filters of system calls.

use std::fs::File;
use std::io::Read as _;

/// More than `/proc/self/status` has.
const MOST: u64 = 1 << 20;

/// Whether a filter of system calls is in force (seccomp), so that one too many may end the process; or whether this cannot be found out. Only
/// calls are made that loading a library makes, too.
pub fn is_filtered() -> bool {
    let mut bytes = Vec::new();
    // What could not be read says nothing.
    let _ = File::open("/proc/self/status").and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    // The name of a program may be anything.
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_none_or(|mode| mode.trim() != "0")
}

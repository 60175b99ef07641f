//! Searches the memory of a process for keys, for tests that check that keys are wiped.

use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Returns a key that no program contains as a constant; it is always the same.
#[must_use]
pub fn key(bytes: usize) -> Vec<u8> {
    let mut state = black_box(0x9e37_79b9_u32);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Counts copies of a secret in the writable memory of another process. Memory that guests share with their server (memfd) is excluded.
///
/// # Errors
/// If the process has ended, or belongs to another user.
pub fn count_copies(process: u32, secret: &[u8]) -> io::Result<usize> {
    let memory = File::open(format!("/proc/{process}/mem"))?;
    let mut found = 0;
    for line in fs::read_to_string(format!("/proc/{process}/maps"))?.lines() {
        let Some((range, attributes)) = line.split_once(' ') else { continue };
        let bounds = range.split_once('-').map(|(begin, end)| [begin, end].map(|bound| u64::from_str_radix(bound, 16)));
        let Some([Ok(begin), Ok(end)]) = bounds else { continue };
        if !attributes.starts_with("rw") || attributes.contains("/memfd:") {
            continue;
        }
        let mut bytes = vec![0; (end - begin) as usize];
        // The memory may have been unmapped since the list was read, or belong to a device.
        if memory.read_exact_at(&mut bytes, begin).is_ok() {
            found += bytes.windows(secret.len()).filter(|part| part[0] == secret[0] && *part == secret).count();
        }
    }
    Ok(found)
}

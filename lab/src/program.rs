use std::path::Path;
use std::process::Command;

/// Copies a program for a test that executes the copy. Another process writes the copy, so that no child of another thread inherits
/// the writing descriptor. The kernel does not execute a file that is open for writing (ETXTBSY).
///
/// # Panics
/// If the program cannot be copied.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} cannot be copied", from.as_ref().display());
}

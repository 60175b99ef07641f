//! Facts about the process that the standard library does not offer: inherited state, and the locale's characters.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Once, OnceLock};

use nix::sys::signal::SigSet;

/// Inherited state, in bits.
static INHERITED: AtomicU8 = AtomicU8::new(0);
const STDIN_CLOSED: u8 = 1 << 0;
const STDOUT_CLOSED: u8 = 1 << 1;
const SIGPIPE_IGNORED: u8 = 1 << 2;
/// Not inherited: set when stdin is read. A closed stdin is an error only if it is read.
const STDIN_READ: u8 = 1 << 3;

/// The inherited signal mask.
static SIGNAL_MASK: OnceLock<SigSet> = OnceLock::new();

/// Runs before Rust's runtime starts, which opens /dev/null over closed standard descriptors and ignores SIGPIPE. A digest tool must not
/// take a closed stdin for an empty file, nor write results to /dev/null.
#[used]
#[cfg(target_os = "linux")]
// SAFETY: the section holds pointers to functions that the loader calls once, single-threaded, before main. `record_inherited_state` has
// the C ABI and does not need Rust's runtime.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = record_inherited_state;

extern "C" fn record_inherited_state() {
    let mut state = 0;
    for (descriptor, closed) in [(libc::STDIN_FILENO, STDIN_CLOSED), (libc::STDOUT_FILENO, STDOUT_CLOSED)] {
        // SAFETY: F_GETFD only reads a flag, and fails on a closed descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            state |= closed;
        }
    }
    if let Ok(mask) = SigSet::thread_get_mask() {
        let _ = SIGNAL_MASK.set(mask);
    }
    INHERITED.store(if is_ignored(libc::SIGPIPE) { state | SIGPIPE_IGNORED } else { state }, Ordering::Relaxed);
}

/// Starts the command with the signal mask that this process inherited. It would otherwise inherit the signals that are blocked here.
pub(crate) fn restore_signal_mask(command: &mut Command) {
    if let Some(mask) = SIGNAL_MASK.get() {
        // SAFETY: between fork and exec, `pthread_sigmask` is async-signal-safe, and an error number needs no memory.
        unsafe { command.pre_exec(|| Ok(mask.thread_set_mask()?)) };
    }
}

/// True if stdin was read although the process started with stdin closed.
pub(crate) fn closed_stdin_was_read() -> bool {
    INHERITED.load(Ordering::Relaxed) & (STDIN_CLOSED | STDIN_READ) == STDIN_CLOSED | STDIN_READ
}

/// Duplicates stdout. Fails if it was closed at the start.
pub(crate) fn stdout() -> io::Result<File> {
    if INHERITED.load(Ordering::Relaxed) & STDOUT_CLOSED != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Duplicates stdin. Fails if it was closed at the start.
pub(crate) fn stdin() -> io::Result<File> {
    if INHERITED.fetch_or(STDIN_READ, Ordering::Relaxed) & STDIN_CLOSED != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Closes a file and reports errors of earlier writes, which network file systems detect only now.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is owned and given up here.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Restores the default action of SIGPIPE, which Rust's runtime ignores, unless the parent process ignored it.
pub(crate) fn restore_sigpipe() {
    if INHERITED.load(Ordering::Relaxed) & SIGPIPE_IGNORED == 0 {
        // SAFETY: SIG_DFL is a valid disposition, and no handler is replaced.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}

/// True if this process ignores a signal.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is valid to write into, and a null new action only queries.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the limit of open files.
pub(crate) fn max_open_files() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid to write to.
    let succeeded = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if succeeded { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 256 }
}

/// Set once the locale of the environment is in force.
static LOCALE: Once = Once::new();

/// Returns the length in bytes of the first character of `text`, which is not empty, and true if the user's locale can print it.
pub(crate) fn character(text: &[u8]) -> (usize, bool) {
    if text[0].is_ascii() {
        return (1, matches!(text[0], b' '..=b'~'));
    }
    // SAFETY: called once, by the only thread that writes diagnostics; the empty name selects the environment's locale.
    LOCALE.call_once(|| unsafe {
        libc::setlocale(libc::LC_CTYPE, c"".as_ptr());
    });
    let mut wide: libc::wchar_t = 0;
    // Larger than any C library's mbstate_t; all zero is the initial state.
    let mut state = [0_u64; 16];
    // SAFETY: the pointers are valid for their uses, and `text.len()` bounds the read.
    let length = unsafe { mbrtowc(&raw mut wide, text.as_ptr().cast(), text.len(), state.as_mut_ptr().cast()) };
    // An error is (size_t)-1 or -2 (mbrtowc(3)).
    if length == 0 || length > text.len() {
        return (1, false);
    }
    // SAFETY: `wide` is a character of the current locale.
    (length, unsafe { iswprint(wide) } != 0)
}

unsafe extern "C" {
    fn mbrtowc(wide: *mut libc::wchar_t, text: *const libc::c_char, length: usize, state: *mut libc::c_void) -> usize;
    // Takes a wint_t, which has the width of a wchar_t and holds every one of its characters.
    fn iswprint(wide: libc::wchar_t) -> libc::c_int;
}

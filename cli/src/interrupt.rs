//! The signals that ask a program to end, for commands that have something to say first.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::Builder;

use nix::sys::signal::{SigSet, Signal, raise};

use crate::output::Failure;
use crate::sum::sys;

/// The signal that has come.
static CAME: AtomicI32 = AtomicI32::new(0);

/// From now on the first signal only makes [`asked`] say yes, and a second one ends the process. Called before there are other threads,
/// which inherit that signals are not theirs; commands that are run do not.
pub(crate) fn watch() -> Result<(), Failure> {
    let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let signals: SigSet = ends.into_iter().filter(|signal| !sys::is_ignored(*signal as i32)).collect();
    let wait = move || {
        while let Ok(signal) = signals.wait() {
            if CAME.swap(signal as i32, Ordering::Relaxed) != 0 {
                let _ = SigSet::from(signal).thread_unblock();
                let _ = raise(signal);
            }
        }
    };
    let started = signals.thread_block().map_err(std::io::Error::from).and_then(|()| Builder::new().spawn(wait));
    started.map(drop).map_err(|error| Failure::at("a thread for signals", &error))
}

/// Whether to end, with what there is.
#[inline]
pub(crate) fn asked() -> bool {
    CAME.load(Ordering::Relaxed) != 0
}

/// The end of a command that has said what there was to say: by the signal, if one has come, so that shells stop as well.
pub(crate) fn end() -> Result<(), Failure> {
    match Signal::try_from(CAME.load(Ordering::Relaxed)) {
        Err(_) => Ok(()),
        Ok(signal) => {
            let _ = SigSet::from(signal).thread_unblock();
            let _ = raise(signal);
            Err(Failure::Status(u8::try_from(128 + signal as i32).unwrap_or(1)))
        }
    }
}

//! The signals that ask a program to end, for commands that have something to do first.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::Builder;

use nix::sys::signal::{SigSet, Signal, raise};

use crate::io::sys;
use crate::output::Failure;

/// The signal that has come.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Takes signals from now on, in a thread that `meet` runs in; those that this process was told to ignore stay ignored, by it and by commands
/// (nohup). Called before there are other threads, which inherit that signals are not theirs; commands that are run do not.
pub(crate) fn take(signals: &[Signal], meet: impl Fn(Signal) + Send + 'static) -> io::Result<()> {
    let signals: SigSet = signals.iter().copied().filter(|signal| !sys::is_ignored(*signal as i32)).collect();
    signals.thread_block()?;
    Builder::new().spawn(move || {
        while let Ok(signal) = signals.wait() {
            meet(signal);
        }
    })?;
    Ok(())
}

/// Ends this process by a signal that it took.
pub(crate) fn end_by(signal: Signal) -> nix::Result<()> {
    SigSet::from(signal).thread_unblock()?;
    raise(signal)
}

/// From now on the first signal only makes [`asked`] say yes, and a second one ends the process. Called as [`take`] is.
pub(crate) fn watch() -> Result<(), Failure> {
    let meet = |signal: Signal| {
        if CAME.swap(signal as i32, Ordering::Relaxed) != 0 {
            let _ = end_by(signal);
        }
    };
    take(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP], meet)
        .map_err(|error| Failure::at("a thread for signals", &error))
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
            let _ = end_by(signal);
            Err(Failure::Status(u8::try_from(128 + signal as i32).unwrap_or(1)))
        }
    }
}

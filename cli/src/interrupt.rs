//! Handles termination signals for commands that have to clean up or report first.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::Builder;

use nix::sys::signal::{SigSet, Signal, raise};

use crate::io::sys;
use crate::output::Failure;

/// The signal that has arrived.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// Handles signals from now on by calling `handler` in a new thread. Signals that this process inherited as ignored (nohup) stay ignored,
/// here and in commands that it runs. Call this before other threads start, so that they inherit the signal mask.
pub(crate) fn handle_signals(signals: &[Signal], handler: impl Fn(Signal) + Send + 'static) -> io::Result<()> {
    let signals: SigSet = signals.iter().copied().filter(|signal| !sys::is_ignored(*signal as i32)).collect();
    signals.thread_block()?;
    Builder::new().spawn(move || {
        while let Ok(signal) = signals.wait() {
            handler(signal);
        }
    })?;
    Ok(())
}

/// Ends this process by a signal that it handled.
pub(crate) fn end_by(signal: Signal) -> nix::Result<()> {
    SigSet::from(signal).thread_unblock()?;
    raise(signal)
}

/// Makes [`is_interrupted`] return true after the first signal, and ends the process at the second. Call this before other threads start.
pub(crate) fn watch_signals() -> Result<(), Failure> {
    let handler = |signal: Signal| {
        if RECEIVED.swap(signal as i32, Ordering::Relaxed) != 0 {
            let _ = end_by(signal);
        }
    };
    handle_signals(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP], handler)
        .map_err(|error| Failure::at("a thread for signals", &error))
}

/// True if a signal asked the command to end with its present results.
#[inline]
pub(crate) fn is_interrupted() -> bool {
    RECEIVED.load(Ordering::Relaxed) != 0
}

/// Ends a command after its output. If a signal has arrived, dies by it, so that shells stop as well.
pub(crate) fn end_command() -> Result<(), Failure> {
    match Signal::try_from(RECEIVED.load(Ordering::Relaxed)) {
        Err(_) => Ok(()),
        Ok(signal) => {
            let _ = end_by(signal);
            Err(Failure::Status(u8::try_from(128 + signal as i32).unwrap_or(1)))
        }
    }
}

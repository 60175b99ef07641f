//! The terminal: drawing, keys and signals. Its state is restored on every exit.

use std::fs::File;
use std::io::{self, IsTerminal as _, stdin, stdout};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use gantry_runtime::rights;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, read};
use ratatui::DefaultTerminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};

use super::keys::{Key, KeyParser};
use super::model::Sampler;
use super::state::{Action, State};
use super::view;
use crate::interrupt;
use crate::io::sys;
use crate::output::Failure;

/// Signals that end or stop the program, or require a redraw.
const SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGWINCH];

/// Longest pause within the sequence of a key.
const KEY_SEQUENCE_TIMEOUT: Duration = Duration::from_millis(50);

/// True if there is a terminal to draw on.
pub(super) fn is_available() -> bool {
    stdout().is_terminal() && rights::variable("TERM").is_some_and(|term| term != "dumb")
}

/// Shows the view, until a key or a signal ends it.
pub(super) fn run(sampler: &mut Sampler, mut state: State) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::at("the terminal", &error);
    let mut screen = Screen::new().map_err(failed)?;
    let end = screen.run(sampler, &mut state);
    drop(screen);
    match end.map_err(failed)? {
        ExitReason::Quit => Ok(()),
        ExitReason::Signal(signal) => {
            // The parent process learns of the signal.
            interrupt::end_by(signal).map_err(|errno| failed(errno.into()))
        }
        ExitReason::SamplingFailed(error) => Err(Failure::at("/proc", &error)),
    }
}

enum ExitReason {
    Quit,
    Signal(Signal),
    SamplingFailed(io::Error),
}

/// A terminal in raw mode, on its alternate screen. The order of the fields matters for drop.
struct Screen {
    terminal: DefaultTerminal,
    _restore: RestoreOnDrop,
    /// The source of keys.
    keyboard: File,
    keys: KeyParser,
    signals: SignalFd,
}

/// Restores the terminal on drop.
struct RestoreOnDrop;

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        // Fails if the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

enum WakeReason {
    Keys(Vec<Key>),
    Signal(Signal),
    Timeout,
}

impl Screen {
    fn new() -> io::Result<Self> {
        // Signals that this process inherited as ignored (nohup) stay ignored.
        let handled: SigSet = SIGNALS.into_iter().filter(|signal| !sys::is_ignored(*signal as i32)).collect();
        handled.thread_block()?;
        let signals = SignalFd::with_flags(&handled, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let keyboard =
            if stdin().is_terminal() { stdin().as_fd().try_clone_to_owned()?.into() } else { File::open("/dev/tty")? };
        let restore = RestoreOnDrop;
        let terminal = ratatui::try_init()?;
        Ok(Self { terminal, _restore: restore, keyboard, keys: KeyParser::default(), signals })
    }

    fn run(&mut self, sampler: &mut Sampler, state: &mut State) -> io::Result<ExitReason> {
        let mut last = Instant::now();
        // https://no-color.org
        let colours = rights::variable("NO_COLOR").is_none_or(|value| value.is_empty());
        loop {
            self.terminal.draw(|frame| view::draw(state, colours, frame.area(), frame.buffer_mut()))?;
            let left = state.interval().saturating_sub(last.elapsed());
            let mut is_due = false;
            match self.wait((!state.is_paused).then_some(left))? {
                WakeReason::Timeout => is_due = true,
                WakeReason::Signal(Signal::SIGWINCH) => {}
                WakeReason::Signal(Signal::SIGTSTP) => self.stop()?,
                WakeReason::Signal(signal) => return Ok(ExitReason::Signal(signal)),
                WakeReason::Keys(keys) => {
                    for key in keys {
                        match state.handle_key(key) {
                            Action::Nothing => {}
                            Action::TakeSample => is_due = true,
                            Action::Quit => return Ok(ExitReason::Quit),
                            Action::Interrupt => return Ok(ExitReason::Signal(Signal::SIGINT)),
                            // Stops the whole job, as the terminal would; this process gets the signal, too.
                            Action::Stop => kill(Pid::from_raw(0), Signal::SIGTSTP)?,
                        }
                    }
                }
            }
            if is_due {
                last = Instant::now();
                match sampler.take_sample() {
                    Ok(sample) => state.set_sample(sample),
                    Err(error) => return Ok(ExitReason::SamplingFailed(error)),
                }
            }
        }
    }

    /// Waits for a key or a signal, at most for `time`.
    fn wait(&mut self, time: Option<Duration>) -> io::Result<WakeReason> {
        let time = if self.keys.has_partial_key() { Some(KEY_SEQUENCE_TIMEOUT) } else { time };
        // Rounds up, so that the interval is over after the timeout.
        let timeout = time.map(|time| time + Duration::from_millis(1));
        let timeout = timeout.map_or(PollTimeout::NONE, |time| PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX));
        let mut ready =
            [&self.signals.as_fd(), &self.keyboard.as_fd()].map(|file| PollFd::new(*file, PollFlags::POLLIN));
        match poll(&mut ready, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let [signal, key] = ready.map(|file| file.revents().is_some_and(|events| !events.is_empty()));
        if signal && let Some(signal) = self.signals.read_signal()? {
            let number = i32::try_from(signal.ssi_signo).map_err(io::Error::other)?;
            return Ok(WakeReason::Signal(Signal::try_from(number)?));
        }
        if key {
            let mut bytes = [0; 256];
            return match read(&self.keyboard, &mut bytes) {
                // The terminal is gone.
                Ok(0) | Err(Errno::EIO) => Ok(WakeReason::Signal(Signal::SIGHUP)),
                Ok(count) => Ok(WakeReason::Keys(self.keys.parse(&bytes[..count]))),
                Err(errno) => Err(errno.into()),
            };
        }
        if self.keys.has_partial_key() {
            return Ok(WakeReason::Keys(self.keys.finish().into_iter().collect()));
        }
        Ok(WakeReason::Timeout)
    }

    /// Stops the program with the terminal restored, and continues on SIGCONT. If no shell could continue it, the kernel does not
    /// stop it.
    fn stop(&mut self) -> io::Result<()> {
        self.terminal.show_cursor()?;
        ratatui::try_restore()?;
        let stop = SigSet::from(Signal::SIGTSTP);
        stop.thread_unblock()?;
        raise(Signal::SIGTSTP)?;
        stop.thread_block()?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        // A new terminal redraws everything. Clearing the old one would query the position of the cursor, and wait for the answer.
        self.terminal = DefaultTerminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

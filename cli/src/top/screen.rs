//! The terminal: what is drawn, what keys and signals come. It is left as it was found, however this ends.

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

use super::keys::{Key, Keys};
use super::model::Looks;
use super::state::{Ask, State};
use super::view;
use crate::interrupt;
use crate::io::sys;
use crate::output::Failure;

/// Signals that end the program, stop it, or say that there is something to draw.
const SIGNALS: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGWINCH];

/// How long the rest of a key may be on its way.
const REST_OF_KEY: Duration = Duration::from_millis(50);

/// Whether there is a terminal that can be drawn on.
pub(super) fn is_there() -> bool {
    stdout().is_terminal() && rights::variable("TERM").is_some_and(|term| term != "dumb")
}

/// Shows, until a key or a signal ends it.
pub(super) fn run(looks: &mut Looks, mut state: State) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::at("the terminal", &error);
    let mut screen = Screen::new().map_err(failed)?;
    let end = screen.show(looks, &mut state);
    drop(screen);
    match end.map_err(failed)? {
        End::Quit => Ok(()),
        End::Signal(signal) => {
            // Whoever waits for this program learns what ended it.
            interrupt::end_by(signal).map_err(|errno| failed(errno.into()))
        }
        End::NoProcesses(error) => Err(Failure::at("/proc", &error)),
    }
}

enum End {
    Quit,
    Signal(Signal),
    NoProcesses(io::Error),
}

/// A terminal in raw mode, on its other screen. The fields are dropped in this order.
struct Screen {
    terminal: DefaultTerminal,
    _restore: Restore,
    /// Where keys come from.
    keyboard: File,
    keys: Keys,
    signals: SignalFd,
}

/// Leaves the terminal as it was.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // One that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}

enum Woken {
    Keys(Vec<Key>),
    Signal(Signal),
    Time,
}

impl Screen {
    fn new() -> io::Result<Self> {
        // Those that this process was told to ignore stay ignored (nohup).
        let heeded: SigSet = SIGNALS.into_iter().filter(|signal| !sys::is_ignored(*signal as i32)).collect();
        heeded.thread_block()?;
        let signals = SignalFd::with_flags(&heeded, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let keyboard =
            if stdin().is_terminal() { stdin().as_fd().try_clone_to_owned()?.into() } else { File::open("/dev/tty")? };
        let restore = Restore;
        let terminal = ratatui::try_init()?;
        Ok(Self { terminal, _restore: restore, keyboard, keys: Keys::default(), signals })
    }

    fn show(&mut self, looks: &mut Looks, state: &mut State) -> io::Result<End> {
        let mut last = Instant::now();
        // https://no-color.org
        let colours = rights::variable("NO_COLOR").is_none_or(|value| value.is_empty());
        loop {
            self.terminal.draw(|frame| view::draw(state, colours, frame.area(), frame.buffer_mut()))?;
            let left = state.interval().saturating_sub(last.elapsed());
            let mut look = false;
            match self.wait((!state.paused).then_some(left))? {
                Woken::Time => look = true,
                Woken::Signal(Signal::SIGWINCH) => {}
                Woken::Signal(Signal::SIGTSTP) => self.stop()?,
                Woken::Signal(signal) => return Ok(End::Signal(signal)),
                Woken::Keys(keys) => {
                    for key in keys {
                        match state.key(key) {
                            Ask::Nothing => {}
                            Ask::Look => look = true,
                            Ask::Quit => return Ok(End::Quit),
                            Ask::Interrupt => return Ok(End::Signal(Signal::SIGINT)),
                            // All of the job, as the terminal would have done; this process hears of it as a signal.
                            Ask::Stop => kill(Pid::from_raw(0), Signal::SIGTSTP)?,
                        }
                    }
                }
            }
            if look {
                last = Instant::now();
                match looks.look() {
                    Ok(sample) => state.show(sample),
                    Err(error) => return Ok(End::NoProcesses(error)),
                }
            }
        }
    }

    /// Waits for a key or a signal, but not longer than this.
    fn wait(&mut self, time: Option<Duration>) -> io::Result<Woken> {
        let time = if self.keys.has_begun() { Some(REST_OF_KEY) } else { time };
        // Rounded up: nothing is gained by being early.
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
            return Ok(Woken::Signal(Signal::try_from(number)?));
        }
        if key {
            let mut bytes = [0; 256];
            return match read(&self.keyboard, &mut bytes) {
                // The terminal is gone.
                Ok(0) | Err(Errno::EIO) => Ok(Woken::Signal(Signal::SIGHUP)),
                Ok(count) => Ok(Woken::Keys(self.keys.take(&bytes[..count]))),
                Err(errno) => Err(errno.into()),
            };
        }
        if self.keys.has_begun() {
            return Ok(Woken::Keys(self.keys.end().into_iter().collect()));
        }
        Ok(Woken::Time)
    }

    /// Stops as other programs do, with the terminal as it was, and goes on when told to. Where nobody could tell it to, the kernel does
    /// not stop it.
    fn stop(&mut self) -> io::Result<()> {
        self.terminal.show_cursor()?;
        ratatui::try_restore()?;
        let stop = SigSet::from(Signal::SIGTSTP);
        stop.thread_unblock()?;
        raise(Signal::SIGTSTP)?;
        stop.thread_block()?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)?;
        // A new one draws everything again. To clear the old one would ask the terminal where its cursor is, and wait for the answer.
        self.terminal = DefaultTerminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

//! Temporary folders for files of other processes, and the command that writes to a folder. A signal ends the command and leaves no folder.
//!
//! While there is a folder, a thread handles the signals that end a program. If a command is running, it gets the signal, and this process
//! ends as the command does. Otherwise the folders are removed, and the signal ends this process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gantry_runtime::rights;
use gantry_runtime::stats::{PageReceiver, ReceivedPages, VARIABLE};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::interrupt;
use crate::output::{Failure, print_message};

/// A folder with access for its owner only, removed on drop.
pub(crate) struct Folder(PathBuf);

/// State for the signal thread.
static STATE: Mutex<State> =
    Mutex::new(State { handles_signals: false, folders: Vec::new(), command: None, command_end: None });

struct State {
    handles_signals: bool,
    folders: Vec<PathBuf>,
    command: Option<Pid>,
    /// The time at which the last command ended.
    command_end: Option<Instant>,
}

/// Longest delay between the end of a command by a signal and the handling of that signal in this process, on a busy machine.
const MAX_SIGNAL_DELAY: Duration = Duration::from_secs(1);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut state = state();
        if !state.handles_signals {
            let ends = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
            interrupt::handle_signals(&ends, handle_signal)
                .map_err(|error| Failure::at("a thread for signals", &error))?;
            state.handles_signals = true;
        }
        // Writing to a closed pipe becomes an error, and the pending signal ends the process when the last folder is gone.
        let _ = SigSet::from(Signal::SIGPIPE).thread_block();
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let folder = rights::variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let path = folder.join(format!("gantry-{}-{unique}", std::process::id()));
        // This fails if another user has created the folder.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| Failure::at(path.display(), &error))?;
        state.folders.push(path.clone());
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs a command and waits for it. If it cannot be run, prints the reason and returns an exit code as shells do.
    #[allow(clippy::unused_self, reason = "while there is a folder, signals are handled")]
    fn run(&self, command: &mut Command) -> Result<ExitStatus, Failure> {
        let program = PathBuf::from(command.get_program());
        let (mut child, pid) = {
            // The lock delays signals until the child is known.
            let mut state = state();
            let child = command.spawn().map_err(|error| {
                print_message(&Failure::at(program.display(), &error).to_string());
                Failure::Status(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
            })?;
            let pid = Pid::from_raw(child.id().cast_signed());
            state.command = Some(pid);
            (child, pid)
        };
        // After `wait`, the child's PID may be reused.
        let ended = || waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        while ended() == Err(Errno::EINTR) {}
        {
            let mut state = state();
            (state.command, state.command_end) = (None, Some(Instant::now()));
        }
        child.wait().map_err(|error| Failure::at(program.display(), &error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut state = state();
        let _ = fs::remove_dir_all(&self.0);
        state.folders.retain(|folder| *folder != self.0);
        if state.folders.is_empty() {
            let _ = SigSet::from(Signal::SIGPIPE).thread_unblock();
        }
    }
}

/// Runs a command, and collects the statistics of it and its children.
pub(crate) fn run_with_statistics(command: &mut Command) -> Result<(ExitStatus, ReceivedPages), Failure> {
    let folder = Folder::new()?;
    let failed = |error| Failure::at(folder.path().display(), &error);
    let receiver = PageReceiver::begin(folder.path()).map_err(failed)?;
    let status = folder.run(command.env(VARIABLE, receiver.path()))?;
    Ok((status, receiver.end().map_err(failed)?))
}

/// Turns the status of the command into a result, with exit codes as in shells.
pub(crate) fn exit_like(status: ExitStatus) -> Result<(), Failure> {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    if code == 0 { Ok(()) } else { Err(Failure::Status(u8::try_from(code).unwrap_or(1))) }
}

fn handle_signal(signal: Signal) {
    let state = state();
    match (state.command, signal) {
        // The terminal has sent the signal to the command, too, and this process ends when the command ends.
        (Some(_), Signal::SIGINT | Signal::SIGQUIT) => {}
        // The command has probably ended by this signal.
        (None, Signal::SIGINT | Signal::SIGQUIT)
            if state.command_end.is_some_and(|ended| ended.elapsed() < MAX_SIGNAL_DELAY) => {}
        // Fails if the command has just ended.
        (Some(command), signal) => drop(kill(command, signal)),
        (None, signal) => {
            for folder in &state.folders {
                let _ = fs::remove_dir_all(folder);
            }
            // No new folder can appear while the lock is held.
            let _ = interrupt::end_by(signal);
        }
    }
}

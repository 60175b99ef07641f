//! Folders for the files of other processes, and the command that writes into one. Neither outlives this process by a signal.
//!
//! While there is a folder, a thread of its own takes the signals that end a program. A command that runs gets them, and this process goes on
//! as the command does; without one, the folders are removed, and the signal ends this process.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gantry_runtime::rights;
use gantry_runtime::stats::{Taken, Taking, VARIABLE};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::interrupt;
use crate::output::{Failure, say};

/// A folder that only its owner may look into, removed at the end.
pub(crate) struct Folder(PathBuf);

/// What a signal meets.
static STATE: Mutex<State> = Mutex::new(State { watched: false, folders: Vec::new(), command: None, ended: None });

struct State {
    watched: bool,
    folders: Vec<PathBuf>,
    command: Option<Pid>,
    /// When the last command ended.
    ended: Option<Instant>,
}

/// A signal that ended a command may be met as much later, on a machine that has much to do.
const LATE: Duration = Duration::from_secs(1);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut state = state();
        if !state.watched {
            let ends = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
            interrupt::take(&ends, meet).map_err(|error| Failure::at("a thread for signals", &error))?;
            state.watched = true;
        }
        // A pipe that is closed is an error of `write` then, and ends the process when the last folder is gone.
        let _ = SigSet::from(Signal::SIGPIPE).thread_block();
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let folder = rights::variable("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let path = folder.join(format!("gantry-{}-{unique}", std::process::id()));
        // An error if somebody was there before.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| Failure::at(path.display(), &error))?;
        state.folders.push(path.clone());
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs a command and waits for it. What keeps it from running is said, and is an exit code, as of shells.
    #[allow(clippy::unused_self, reason = "while there is a folder, signals are taken")]
    fn run(&self, command: &mut Command) -> Result<ExitStatus, Failure> {
        let program = PathBuf::from(command.get_program());
        let (mut child, pid) = {
            // A signal that comes meanwhile is for the child.
            let mut state = state();
            let child = command.spawn().map_err(|error| {
                say(&Failure::at(program.display(), &error).to_string());
                Failure::Status(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
            })?;
            let pid = Pid::from_raw(child.id().cast_signed());
            state.command = Some(pid);
            (child, pid)
        };
        // When it has been waited for, its number may become another process's.
        let ended = || waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        while ended() == Err(Errno::EINTR) {}
        {
            let mut state = state();
            (state.command, state.ended) = (None, Some(Instant::now()));
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

/// Runs a command, and takes what it and its children count.
pub(crate) fn watch(command: &mut Command) -> Result<(ExitStatus, Taken), Failure> {
    let folder = Folder::new()?;
    let failed = |error| Failure::at(folder.path().display(), &error);
    let taking = Taking::begin(folder.path()).map_err(failed)?;
    let status = folder.run(command.env(VARIABLE, taking.path()))?;
    Ok((status, taking.end().map_err(failed)?))
}

/// Success, or the status of the command as shells say it.
pub(crate) fn as_its_own(status: ExitStatus) -> Result<(), Failure> {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    if code == 0 { Ok(()) } else { Err(Failure::Status(u8::try_from(code).unwrap_or(1))) }
}

fn meet(signal: Signal) {
    let state = state();
    match (state.command, signal) {
        // The terminal has told the command itself, and whoever ends a server there wants to read on.
        (Some(_), Signal::SIGINT | Signal::SIGQUIT) => {}
        // It has ended by this one, perhaps.
        (None, Signal::SIGINT | Signal::SIGQUIT) if state.ended.is_some_and(|ended| ended.elapsed() < LATE) => {}
        // One that has ended is past being told.
        (Some(command), signal) => drop(kill(command, signal)),
        (None, signal) => {
            for folder in &state.folders {
                let _ = fs::remove_dir_all(folder);
            }
            // The lock is held: nobody makes another folder.
            let _ = interrupt::end_by(signal);
        }
    }
}

//! What processes publish about themselves, and how it is read.
//!
//! A process that uses Gantry has a page of counters (`page.rs`), which others read while they grow: [`live`] finds the pages of all processes
//! that run. The page costs some system calls when the framework is opened, and none later.
//!
//! With the name of a folder in the key `stats`, a process also writes its [`Report`] there, as JSON into a file of its own: by the thread
//! of some request, at most once a second; when the framework is dropped; and when the thread that opened it ends, which for the first
//! thread of a program is the program's end (with the GNU C library). A file is always whole: it is written beside its place and then
//! put there. It stays when the process has ended.
//!
//! Publishing never makes a request fail: where there is no memory, the folder not safe, the disk full or a system call refused, the process
//! goes on without.

mod files;
mod handed;
mod live;
mod page;
mod read;
mod report;
mod watch;

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gantry_core::stats::{Memory, Snapshot};
use gantry_core::{Gantry, WeakGantry};

pub use files::{Published, published};
pub use handed::{Taken, Taking, VARIABLE, is_watched, tell};
pub use live::{Live, live, sees_all};
pub use report::{Guest, Process, Report, Row, Site, Times};
pub use watch::{Watch, Watched};

/// What a page says whose bytes these are, for those who test that it may be anything.
pub fn report_of(page: &[u8]) -> Report {
    let words: Vec<u64> = page.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    let read::Contents { rows, guests, .. } = read::contents(&words).unwrap_or_default();
    Report { processes: Vec::new(), rows, guests }
}

use crate::folder::Folder;
use crate::{Config, rights};
use files::Name;

/// How often a process publishes at most.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Whether and where a process publishes its statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatsChoice {
    /// In a page of memory, unless a filter of system calls is in force that may end the process for making it.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// In a page, whatever filter is in force.
    On,
    /// As [`StatsChoice::Auto`], and in a file in this folder, which stays.
    Folder(PathBuf),
}

impl StatsChoice {
    /// How each one is written.
    pub(crate) const ACCEPTED: &str = "auto, off, on or the absolute path of a folder";
}

impl FromStr for StatsChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(StatsChoice::Auto),
            "off" => Ok(StatsChoice::Off),
            "on" => Ok(StatsChoice::On),
            path if Path::new(path).is_absolute() => Ok(StatsChoice::Folder(path.into())),
            _ => Err(()),
        }
    }
}

impl fmt::Display for StatsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsChoice::Auto => f.write_str("auto"),
            StatsChoice::Off => f.write_str("off"),
            StatsChoice::On => f.write_str("on"),
            StatsChoice::Folder(path) => path.display().fmt(f),
        }
    }
}

/// Where this process counts so that others can read it, if it does.
pub fn memory(choice: &StatsChoice) -> Option<&'static dyn Memory> {
    page::of_process(choice).map(|page| page as &dyn Memory)
}

/// Where a server counts what a guest has had, so that others can read it: numbers by their names. `None` where nothing is published, or the
/// page has no room. It is not given back, so it is for guests that are known at the start.
pub fn guest<const N: usize>(choice: &StatsChoice, name: &str, numbers: &[&str; N]) -> Option<&'static [AtomicU64; N]> {
    page::of_process(choice)?.guest(name, numbers)?.try_into().ok()
}

/// What a framework with this configuration hands its snapshots to, if to anything.
pub(crate) fn publisher(config: &Config) -> Option<impl Fn(&Snapshot) + Send + Sync + 'static> {
    let StatsChoice::Folder(folder) = config.stats.value.clone() else { return None };
    if rights::borrowed() {
        return None;
    }
    let publisher = Publisher { folder, file: Mutex::new(None) };
    Some(move |snapshot: &Snapshot| publisher.publish(snapshot))
}

/// Publishes what the framework has counted when the calling thread ends.
pub(crate) fn publish_at_exit(gantry: &Gantry) {
    struct AtExit(Vec<WeakGantry>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            self.0.iter().filter_map(WeakGantry::upgrade).for_each(|gantry| gantry.publish());
        }
    }
    thread_local! {
        static AT_EXIT: RefCell<AtExit> = const { RefCell::new(AtExit(Vec::new())) };
    }
    // A thread that is ending already has nothing to register for.
    let _ = AT_EXIT.try_with(|at_exit| {
        let frameworks = &mut at_exit.borrow_mut().0;
        frameworks.retain(|weak| weak.upgrade().is_some());
        frameworks.push(gantry.downgrade());
    });
}

/// Writes snapshots into the file of this process.
struct Publisher {
    folder: PathBuf,
    /// Once there is something to say.
    file: Mutex<Option<PublishedFile>>,
}

struct PublishedFile {
    /// A child of `fork` has a file of its own.
    process: gantry_core::Process,
    name: String,
    about: Process,
}

impl Publisher {
    /// Never waits: two threads do not publish at once, and a lock that another thread held at a `fork` stays locked in the child.
    fn publish(&self, snapshot: &Snapshot) {
        let Ok(mut file) = self.file.try_lock() else { return };
        // Nothing can be done about an error, and nobody can be told.
        let _ = self.try_publish(snapshot, &mut file);
    }

    fn try_publish(&self, snapshot: &Snapshot, file: &mut Option<PublishedFile>) -> io::Result<()> {
        if file.as_ref().is_none_or(|file| !file.process.is_current()) {
            if snapshot.rows.is_empty() {
                return Ok(());
            }
            *file = Some(Self::begin());
        }
        let Some(file) = file else { return Ok(()) };
        file.about.written = unix_seconds();
        let text = Report::of(snapshot, file.about.clone()).to_json();
        Folder::open(&self.folder)?.replace(&file.name, |file| file.write_all(text.as_bytes()))
    }

    fn begin() -> PublishedFile {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let (process, pid, started) = (gantry_core::Process::current(), std::process::id(), unix_seconds());
        let about = Process { pid, program: program.unwrap_or_default(), started, written: started };
        PublishedFile { process, name: Name::new(pid).to_string(), about }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

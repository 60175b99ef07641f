//! What processes publish about themselves, and how it is read.
//!
//! With the key `stats`, a process writes its [`Report`] as JSON into a file of its own: by the thread of some request, at most once a
//! second; when the framework is dropped; and when the thread that opened it ends, which for the first thread of a program is the
//! program's end (with the GNU C library). A file is always whole: it is written beside its place and then put there.
//!
//! Nothing is touched before the first request, and publishing never makes a request fail: where the folder is not safe, the disk
//! full or a system call refused, the process goes on without. Off, which is the default, means no system call at all.
//! A program that a filter would *kill* for opening a file must leave it off, or be told to.
//!
//! A child of `fork` writes a file of its own, which begins with what it did after the first second or so: its counters hold its
//! parent's until then.

mod files;
mod report;

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gantry::stats::Snapshot;
use gantry::{Gantry, WeakGantry};

pub use files::{Published, published};
pub use report::{Process, Report, Row, Times};

use crate::Config;
use files::Name;

/// How often a process publishes at most.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Whether and where a process publishes its statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatsChoice {
    /// It does not.
    #[default]
    Off,
    /// In a [folder](Self::folder) of the user's own, as long as the process lives.
    On,
    /// In this folder, and what was published stays.
    Folder(PathBuf),
}

impl StatsChoice {
    /// How each one is written.
    pub(crate) const ACCEPTED: &str = "off, on or the absolute path of a folder";

    /// Where to read what is published so. For `Off`, where those publish that are `On`.
    pub fn folder(&self) -> PathBuf {
        match self {
            StatsChoice::Off | StatsChoice::On => files::folder(),
            StatsChoice::Folder(folder) => folder.clone(),
        }
    }
}

impl FromStr for StatsChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
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
            StatsChoice::Off => f.write_str("off"),
            StatsChoice::On => f.write_str("on"),
            StatsChoice::Folder(path) => path.display().fmt(f),
        }
    }
}

/// What a framework with this configuration hands its snapshots to, if to anything.
pub(crate) fn publisher(config: &Config) -> Option<impl Fn(&Snapshot) + Send + Sync + 'static> {
    let stats = config.stats.value.clone();
    if stats == StatsChoice::Off || borrows_rights() {
        return None;
    }
    let publisher = Publisher { stats, file: Mutex::new(None) };
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

/// Whether the program has rights that the user who started it has not. It then writes no file where that user says.
fn borrows_rights() -> bool {
    use nix::unistd::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

/// Writes snapshots into the file of this process.
struct Publisher {
    stats: StatsChoice,
    /// Once there is something to say.
    file: Mutex<Option<PublishedFile>>,
}

struct PublishedFile {
    /// A child of `fork` is another process.
    process: u32,
    /// The numbers that this process found when it began.
    before: Option<Snapshot>,
    path: PathBuf,
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
        let process = std::process::id();
        if file.as_ref().is_none_or(|file| file.process != process) {
            if snapshot.rows.is_empty() {
                return Ok(());
            }
            let before = (snapshot.process != process).then(|| snapshot.clone());
            *file = Some(self.begin(process, before)?);
        }
        let Some(file) = file else { return Ok(()) };
        let own = file.before.as_ref().map(|before| snapshot.since(before));
        file.about.written = unix_seconds();
        let report = Report::of(own.as_ref().unwrap_or(snapshot), file.about.clone());
        write_whole(&file.path, &report.to_json())
    }

    fn begin(&self, process: u32, before: Option<Snapshot>) -> io::Result<PublishedFile> {
        let folder = self.stats.folder();
        if self.stats == StatsChoice::On {
            files::make(&folder)?;
            files::sweep(&folder);
        }
        files::check(&folder)?;
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let started = unix_seconds();
        let about = Process { pid: process, program: program.unwrap_or_default(), started, written: started };
        Ok(PublishedFile { process, before, path: folder.join(Name::new(process).to_string()), about })
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let file = self.file.get_mut().ok().and_then(Option::take);
        if let (StatsChoice::On, Some(file)) = (&self.stats, file)
            && file.process == std::process::id()
        {
            let _ = fs::remove_file(file.path);
        }
    }
}

/// Puts a file in its place when all of it has been written.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use gantry::{Algorithm, SessionParams};

    use super::*;

    #[test]
    fn a_child_of_fork_publishes_what_it_did_itself() {
        let folder = std::env::temp_dir().join(format!("gantry-child-{}", std::process::id()));
        fs::DirBuilder::new().recursive(true).create(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let gantry = crate::open(Config::default()).unwrap();
        let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
        let after = |requests| {
            (0..requests).for_each(|_| session.digest(b"", &mut [0; 32]).unwrap());
            Snapshot { process: 1, ..gantry.stats() } // as if another process had begun to count
        };
        let publisher = Publisher { stats: StatsChoice::Folder(folder.clone()), file: Mutex::new(None) };
        publisher.publish(&after(7));
        publisher.publish(&after(3));
        let [file] = &published(&folder).unwrap()[..] else { panic!("one file") };
        assert_eq!(file.read().unwrap().rows.iter().map(|row| row.requests).sum::<u64>(), 3);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_leaves_what_was_there() {
        let folder = std::env::temp_dir().join(format!("gantry-full-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1.2.3.json");
        write_whole(&path, "before").unwrap();
        symlink("/dev/full", folder.join("1.2.3.new")).unwrap();
        let error = write_whole(&path, "after").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        write_whole(&path, "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        fs::remove_dir_all(&folder).unwrap();
    }
}

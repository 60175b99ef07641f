//! Statistics that processes publish, and their readers.
//!
//! A process that uses Gantry has a page of counters (`page.rs`), which other processes can read while it runs: [`live_pages`] finds the
//! pages of all running processes. The page costs some system calls when the framework is opened, and none later.
//!
//! If the key `stats` is a folder, a process also writes its [`Report`] there, as a JSON file of its own. A thread with a request writes
//! the file at most once a second. The file is also written when the framework is dropped, and when the thread that opened the framework
//! ends. For the main thread, that is the end of the program (with the GNU C library). Files are replaced atomically. They remain after
//! the process has ended.
//!
//! Publishing never fails a request. If there is no memory, the folder is not safe, the disk is full or a system call is refused, the
//! process continues without publishing.

mod files;
mod live_page;
mod page;
mod read;
mod receive;
mod report;
mod send;
mod watcher;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gantry_core::stats::{Memory, Snapshot};
use gantry_core::{Gantry, WeakGantry};

pub use files::{PublishedFile, published_files};
pub use live_page::{LivePage, can_see_all_pages, live_pages};
pub use receive::{PageReceiver, ReceivedPages};
pub use report::{Guest, Process, Report, Row, Site, Times};
pub use send::{is_watched, report_problem};
pub use watcher::{WatchedProcess, Watcher};

pub use crate::config::stats::VARIABLE;
use crate::folder::Folder;
use crate::{Config, StatsChoice, rights};
use files::FileName;

/// Returns the report in the bytes of a page, for tests. The bytes may be anything.
pub fn report_from_page(page: &[u8]) -> Report {
    let words: Vec<u64> = page.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
    let read::Contents { rows, guests, .. } = read::contents(&words).unwrap_or_default();
    Report { processes: Vec::new(), rows, guests }
}

/// Minimum interval between publications of a process.
pub(crate) const PUBLICATION_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the shared memory for the counters of this process, if they are to be published.
pub fn counter_memory(choice: &StatsChoice) -> Option<&'static dyn Memory> {
    page::page_of_this_process(choice).map(|page| page as &dyn Memory)
}

/// Returns a server's counters for a guest in shared memory, with these names. `None` if nothing is published or the page is full. The
/// memory is never freed, so use it only for guests that are known at the start.
pub fn guest_counters<const N: usize>(
    choice: &StatsChoice,
    name: &str,
    numbers: &[&str; N],
) -> Option<&'static [AtomicU64; N]> {
    page::page_of_this_process(choice)?.add_guest(name, numbers)?.try_into().ok()
}

/// Returns the function that publishes a framework's snapshots, if the configuration has a folder.
pub(crate) fn publisher(config: &Config) -> Option<impl Fn(&Snapshot) + Send + Sync + 'static> {
    let StatsChoice::Folder(folder) = config.stats.value.clone() else { return None };
    if rights::has_elevated_rights() {
        return None;
    }
    let publisher = Publisher { folder, file: Mutex::new(None) };
    Some(move |snapshot: &Snapshot| publisher.publish(snapshot))
}

/// Publishes the counters of the framework when the calling thread ends.
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
    // Fails in a thread that is already ending.
    let _ = AT_EXIT.try_with(|at_exit| {
        let frameworks = &mut at_exit.borrow_mut().0;
        frameworks.retain(|weak| weak.upgrade().is_some());
        frameworks.push(gantry.downgrade());
    });
}

/// Writes snapshots to the file of this process.
struct Publisher {
    folder: PathBuf,
    /// Set with the first counters.
    file: Mutex<Option<OwnFile>>,
}

struct OwnFile {
    /// The process of the file; a child of `fork` has its own file.
    process: gantry_core::Process,
    name: String,
    info: Process,
}

impl Publisher {
    /// Publishes a snapshot, unless another thread is publishing. Does not wait for the lock: a lock that another thread holds at a `fork`
    /// stays locked in the child.
    fn publish(&self, snapshot: &Snapshot) {
        let Ok(mut file) = self.file.try_lock() else { return };
        // Ignore errors: there is no way to report them.
        let _ = self.try_publish(snapshot, &mut file);
    }

    fn try_publish(&self, snapshot: &Snapshot, file: &mut Option<OwnFile>) -> io::Result<()> {
        if file.as_ref().is_none_or(|file| !file.process.is_current()) {
            if snapshot.rows.is_empty() {
                return Ok(());
            }
            *file = Some(Self::new_own_file());
        }
        let Some(file) = file else { return Ok(()) };
        file.info.written = unix_seconds();
        let text = Report::from_snapshot(snapshot, file.info.clone()).to_json();
        Folder::open(&self.folder)?.replace(&file.name, |file| file.write_all(text.as_bytes()))
    }

    fn new_own_file() -> OwnFile {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let (process, pid, started) = (gantry_core::Process::current(), std::process::id(), unix_seconds());
        let info = Process { pid, program: program.unwrap_or_default(), started, written: started };
        OwnFile { process, name: FileName::new(pid).to_string(), info }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

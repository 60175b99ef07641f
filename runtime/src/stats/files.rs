//! The folders and names of published files.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Report;
use crate::bounded;
use crate::folder::Folder;

/// A file that a process has published.
#[derive(Clone, Debug)]
pub struct PublishedFile {
    /// The PID.
    pub pid: u32,
    /// `true` if the process still runs; another process with the same PID does not count.
    pub is_alive: bool,
    /// The path.
    pub path: PathBuf,
}

impl PublishedFile {
    /// Reads the report.
    ///
    /// # Errors
    /// The file is gone, cannot be read, or is not a report.
    pub fn read(&self) -> io::Result<Report> {
        Report::from_json(&bounded::read_to_string(&self.path)?)
    }
}

/// Lists the files that processes have published in a folder, ordered by PID; none if there is no folder.
///
/// # Errors
/// The folder cannot be read, or is not safe: it belongs to another user, or others may write to it.
pub fn published_files(folder: &Path) -> io::Result<Vec<PublishedFile>> {
    match Folder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => drop(opened?),
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.parse::<FileName>().ok()) {
            found.push((name.clone(), PublishedFile { pid: name.pid, is_alive: name.is_alive(), path: entry.path() }));
        }
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found.into_iter().map(|(_, published)| published).collect())
}

/// The name of a file: the PID, the start time that the kernel reports for the process, and the time at which the process began to publish.
/// The start time distinguishes a process from a later one with the same PID. The last part distinguishes the frameworks of a process,
/// including frameworks before and after an `exec`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileName {
    pid: u32,
    process_start: u64,
    published_at: u64,
}

impl FileName {
    /// Makes a new name for the calling process.
    pub(super) fn new(pid: u32) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Self { pid, process_start: start_time(pid).unwrap_or(0), published_at: u64::try_from(now).unwrap_or(u64::MAX) }
    }

    fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.process_start)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.json", self.pid, self.process_start, self.published_at)
    }
}

impl FromStr for FileName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers = text.strip_suffix(".json").ok_or(())?.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>();
        match numbers.map_err(|_| ())?[..] {
            [pid, process_start, published_at] => {
                Ok(Self { pid: pid.try_into().map_err(|_| ())?, process_start, published_at })
            }
            _ => Err(()),
        }
    }
}

/// Returns the start time of a process in ticks of the kernel (proc_pid_stat(5), field 22); `None` if there is no such process.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Skip the program's name, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie has ended.
    (fields.next()? != "Z").then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_as_written() {
        let name = FileName::new(std::process::id());
        assert_eq!(name.to_string().parse(), Ok(name.clone()));
        assert!(name.is_alive());
        for wrong in
            ["", "1.json", "1.2.3", "1.2.3.4.json", "a.2.3.json", "1.2.3.new", "99999999999.1.1.json", "-1.2.3.json"]
        {
            assert!(wrong.parse::<FileName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_later_process_with_the_same_pid_is_distinguished() {
        let name = FileName::new(std::process::id());
        assert!(!FileName { process_start: name.process_start + 1, ..name.clone() }.is_alive());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let of_child = FileName::new(child.id());
        child.wait().unwrap();
        assert!(!of_child.is_alive());
    }
}

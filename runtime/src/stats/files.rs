//! Where published files lie, and whose they are.

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
pub struct Published {
    /// The process.
    pub pid: u32,
    /// Whether it is there still. The number alone does not tell: another process may have it now.
    pub alive: bool,
    /// The file.
    pub path: PathBuf,
}

impl Published {
    /// What it says.
    ///
    /// # Errors
    /// The file is gone, cannot be read, or is no report.
    pub fn read(&self) -> io::Result<Report> {
        Report::from_json(&bounded::read_to_string(&self.path)?)
    }
}

/// What processes have published in a folder, in the order of their numbers. No folder means that none has.
///
/// # Errors
/// The folder cannot be read, or is not safe to believe: it belongs to another user, or others may write to it.
pub fn published(folder: &Path) -> io::Result<Vec<Published>> {
    match Folder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => drop(opened?),
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.parse::<Name>().ok()) {
            found.push((name.clone(), Published { pid: name.pid, alive: name.is_alive(), path: entry.path() }));
        }
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found.into_iter().map(|(_, published)| published).collect())
}

/// The name of a file: the process, when the kernel says that it began, and when it began to publish. The second tells a process from a
/// later one of the same number, the third two frameworks of one process, and what it did before and after an `exec`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pid: u32,
    began: u64,
    at: u64,
}

impl Name {
    /// A new name for the calling process.
    pub(super) fn new(pid: u32) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Self { pid, began: began(pid).unwrap_or(0), at: u64::try_from(at).unwrap_or(u64::MAX) }
    }

    fn is_alive(&self) -> bool {
        began(self.pid) == Some(self.began)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.json", self.pid, self.began, self.at)
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let numbers = text.strip_suffix(".json").ok_or(())?.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>();
        match numbers.map_err(|_| ())?[..] {
            [pid, began, at] => Ok(Self { pid: pid.try_into().map_err(|_| ())?, began, at }),
            _ => Err(()),
        }
    }
}

/// When a process began, in ticks of the kernel (proc_pid_stat(5), field 22); `None` when there is no such process.
pub(super) fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name of the program, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie has ended.
    (fields.next()? != "Z").then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let name = Name::new(std::process::id());
        assert_eq!(name.to_string().parse(), Ok(name.clone()));
        assert!(name.is_alive());
        for wrong in
            ["", "1.json", "1.2.3", "1.2.3.4.json", "a.2.3.json", "1.2.3.new", "99999999999.1.1.json", "-1.2.3.json"]
        {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn another_process_of_the_same_number_is_another_process() {
        let name = Name::new(std::process::id());
        assert!(!Name { began: name.began + 1, ..name.clone() }.is_alive());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let of_child = Name::new(child.id());
        child.wait().unwrap();
        assert!(!of_child.is_alive());
    }
}

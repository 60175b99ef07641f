//! The pages of processes that run, found through `/proc`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::page::{LINE, NAME, WORDS};
use super::read::{self, Contents};
use super::report::{Process, Report};
use super::unix_seconds;

/// The page of a process and its children, open: it can be read after they have ended, too.
#[derive(Debug)]
pub struct Live {
    /// The processes that have it, the oldest first.
    pub pids: Vec<u32>,
    /// The user that the oldest runs as.
    pub uid: u32,
    /// The name of its program.
    pub program: String,
    /// Which page it is, by its device and inode: the same for all processes that have it.
    pub identity: Identity,
    file: File,
}

/// A device and an inode.
pub(super) type Identity = (u64, u64);

impl Live {
    fn new(identity: Identity, file: File, mut pids: Vec<u32>) -> Self {
        // Asked once for each: one that ends meanwhile has another answer, and no order would be one.
        pids.sort_by_cached_key(|pid| (super::files::began(*pid).unwrap_or(u64::MAX), *pid));
        pids.dedup();
        let oldest = pids[0];
        let uid = fs::metadata(format!("/proc/{oldest}")).map_or(0, |metadata| metadata.uid());
        Self { pids, uid, program: program(oldest), identity, file }
    }

    /// One that a process handed over; `None` where it is no file.
    pub(super) fn handed(file: File, pid: u32, program: &str) -> Option<Self> {
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        let (identity, uid) = ((metadata.dev(), metadata.ino()), metadata.uid());
        Some(Self { pids: vec![pid], uid, program: name.unwrap_or_default(), identity, file })
    }

    /// What has been counted until now.
    ///
    /// # Errors
    /// The page cannot be read, or is none.
    pub fn read(&self) -> io::Result<Report> {
        let Contents { made, rows, guests } = contents(&self.file)?;
        let pid = self.pids.first().copied().unwrap_or(0);
        let process = Process { pid, program: self.program.clone(), started: made, written: unix_seconds() };
        Ok(Report { processes: vec![process], rows, guests })
    }
}

fn contents(file: &File) -> io::Result<Contents> {
    let none = || io::Error::new(io::ErrorKind::InvalidData, "no page of statistics");
    let mut header = [0; LINE];
    words(file, &mut header)?;
    let taken = read::taken(&header).ok_or_else(none)?;
    let mut all = vec![0; taken.min(WORDS.max(2 << 20))];
    words(file, &mut all)?;
    read::contents(&all).ok_or_else(none)
}

/// Copies so many words from the beginning. Nothing is mapped: whoever owns the file could shorten it.
fn words(file: &File, to: &mut [u64]) -> io::Result<()> {
    let mut bytes = vec![0; size_of_val(to)];
    file.read_exact_at(&mut bytes, 0)?;
    for (word, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(())
}

/// The pages of all processes that the caller may look into, ordered by process. Root may look into all, others into their own.
///
/// # Errors
/// `/proc` cannot be read.
pub fn live() -> io::Result<Vec<Live>> {
    let mut found: BTreeMap<Identity, (File, Vec<u32>)> = BTreeMap::new();
    for pid in fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
        // Of those that have ended meanwhile, and those of others, nothing is said.
        for file in pages(pid).unwrap_or_default() {
            let Ok(metadata) = file.metadata() else { continue };
            let (_, pids) = found.entry((metadata.dev(), metadata.ino())).or_insert_with(|| (file, Vec::new()));
            pids.push(pid);
        }
    }
    let mut all: Vec<Live> =
        found.into_iter().map(|(identity, (file, pids))| Live::new(identity, file, pids)).collect();
    all.sort_unstable_by(|a, b| a.pids.cmp(&b.pids));
    Ok(all)
}

/// Whether [`live`] finds those of all users: the first process is one that the caller may look into though it is not his.
pub fn sees_all() -> bool {
    let own = nix::unistd::geteuid();
    own.is_root()
        || fs::metadata("/proc/1").is_ok_and(|first| first.uid() != own.as_raw()) && fs::read_dir("/proc/1/fd").is_ok()
}

/// The name of the program that a process runs.
fn program(pid: u32) -> String {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = exe.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name =
        name.unwrap_or_else(|| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned());
    // Whoever named the file may have thought of terminals.
    read::printable(name.as_bytes()).replace('\t', " ")
}

/// Most pages of a process. Each library that brings Gantry along has one.
const MOST_PAGES: usize = 8;

/// The pages that a process has. Of others, which it may be reading, it has files alone.
fn pages(pid: u32) -> io::Result<Vec<File>> {
    let mapped = mapped(pid)?;
    if mapped.is_empty() {
        return Ok(Vec::new());
    }
    let is_mapped =
        |file: &File| file.metadata().is_ok_and(|page| mapped.iter().any(|(_, inode)| *inode == page.ino()));
    let mut open: Vec<File> = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|link| is_page(&link)) {
            open.extend(regular(&path).filter(is_mapped));
        }
        if open.len() == MOST_PAGES {
            break;
        }
    }
    if open.is_empty() {
        // A program that has closed every file that it did not know. What is mapped only root may open (proc_pid_map_files(5)).
        let by_range = |(range, _): &(String, u64)| regular(Path::new(&format!("/proc/{pid}/map_files/{range}")));
        open.extend(mapped.iter().filter_map(by_range));
    }
    Ok(open)
}

/// Opens what a page may be. Anything can have the name of one: a FIFO would be waited for, and a device might do something.
fn regular(path: &Path) -> Option<File> {
    let is_file = |metadata: fs::Metadata| metadata.is_file().then_some(());
    is_file(fs::metadata(path).ok()?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    is_file(file.metadata().ok()?)?;
    Some(file)
}

fn is_page(link: &Path) -> bool {
    link.to_str().and_then(|link| link.strip_prefix("/memfd:")).and_then(|link| link.strip_suffix(" (deleted)"))
        == Some(NAME)
}

/// Where a process has pages, as proc_pid_maps(5) writes it, and their inodes.
fn mapped(pid: u32) -> io::Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for line in BufReader::new(File::open(format!("/proc/{pid}/maps"))?).split(b'\n') {
        let line = line?;
        if all.len() == MOST_PAGES {
            break;
        }
        if line.windows(NAME.len()).any(|part| part == NAME.as_bytes()) {
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_ascii_whitespace();
            let (range, inode) = (words.next().unwrap_or_default(), words.nth(3).and_then(|inode| inode.parse().ok()));
            // `map_files` writes addresses without zeros in front.
            let ends: Vec<&str> = range.split('-').map(|end| end.trim_start_matches('0')).collect();
            all.push((ends.join("-"), inode.unwrap_or(0)));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn what_only_has_the_name_of_a_page_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("gantry-fifo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(regular(&fifo).is_none() && regular(&folder).is_none() && regular(Path::new("/dev/null")).is_none());
        fs::write(folder.join("file"), "").unwrap();
        assert!(regular(&folder.join("file")).is_some());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_the_memory_that_the_kernel_names_so_is_a_page() {
        for (link, page) in [
            ("/memfd:gantry-statistics (deleted)", true),
            ("/memfd:gantry-statistics", false),
            ("/tmp/memfd:gantry-statistics (deleted)", false),
            ("/memfd:gantry-statistics-2 (deleted)", false),
        ] {
            assert_eq!(is_page(Path::new(link)), page, "{link}");
        }
    }
}

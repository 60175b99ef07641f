//! The pages of running processes, found through `/proc`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::page::{LINE_WORDS, PAGE_NAME, PAGE_WORDS};
use super::read::{self, Contents};
use super::report::{Process, Report};
use super::unix_seconds;

/// The open page of a process and its children. It can be read after they have ended, too.
#[derive(Debug)]
pub struct LivePage {
    /// The processes that have the page, oldest first.
    pub pids: Vec<u32>,
    /// The user of the oldest process.
    pub uid: u32,
    /// The name of the oldest process's program.
    pub program: String,
    /// The device and inode of the page, shared by all processes that have it.
    pub identity: FileIdentity,
    file: File,
}

/// A device and an inode.
pub(super) type FileIdentity = (u64, u64);

impl LivePage {
    fn new(identity: FileIdentity, file: File, mut pids: Vec<u32>) -> Self {
        // Query each start time once: it changes when a process ends, which would make the order inconsistent.
        pids.sort_by_cached_key(|pid| (super::files::start_time(*pid).unwrap_or(u64::MAX), *pid));
        pids.dedup();
        let oldest = pids[0];
        let uid = fs::metadata(format!("/proc/{oldest}")).map_or(0, |metadata| metadata.uid());
        Self { pids, uid, program: program_name(oldest), identity, file }
    }

    /// Wraps a page that a process sent as a descriptor; `None` if the descriptor does not refer to a regular file.
    pub(super) fn from_descriptor(file: File, pid: u32, program: &str) -> Option<Self> {
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        let (identity, uid) = ((metadata.dev(), metadata.ino()), metadata.uid());
        Some(Self { pids: vec![pid], uid, program: name.unwrap_or_default(), identity, file })
    }

    /// Reads the present counters.
    ///
    /// # Errors
    /// The page cannot be read, or is not valid.
    pub fn read(&self) -> io::Result<Report> {
        let Contents { created, rows, guests } = read_contents(&self.file)?;
        let pid = self.pids.first().copied().unwrap_or(0);
        let process = Process { pid, program: self.program.clone(), started: created, written: unix_seconds() };
        Ok(Report { processes: vec![process], rows, guests })
    }
}

fn read_contents(file: &File) -> io::Result<Contents> {
    let not_a_page = || io::Error::new(io::ErrorKind::InvalidData, "not a statistics page");
    let mut header = [0; LINE_WORDS];
    read_words(file, &mut header)?;
    let used = read::used_words(&header).ok_or_else(not_a_page)?;
    let mut all = vec![0; used.min(PAGE_WORDS.max(2 << 20))];
    read_words(file, &mut all)?;
    read::contents(&all).ok_or_else(not_a_page)
}

/// Copies words from the beginning of the file. Does not map the file, because its owner could shorten it.
fn read_words(file: &File, to: &mut [u64]) -> io::Result<()> {
    let mut bytes = vec![0; size_of_val(to)];
    file.read_exact_at(&mut bytes, 0)?;
    for (word, bytes) in to.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Ok(())
}

/// Returns the pages of all processes that the caller may inspect, ordered by process. Root may inspect all processes, other users their
/// own.
///
/// # Errors
/// `/proc` cannot be read.
pub fn live_pages() -> io::Result<Vec<LivePage>> {
    let mut by_identity: BTreeMap<FileIdentity, (File, Vec<u32>)> = BTreeMap::new();
    for pid in fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()) {
        // Skip processes that have ended, and processes of other users.
        for file in mapped_pages(pid).unwrap_or_default() {
            let Ok(metadata) = file.metadata() else { continue };
            let (_, pids) = by_identity.entry((metadata.dev(), metadata.ino())).or_insert_with(|| (file, Vec::new()));
            pids.push(pid);
        }
    }
    let mut all: Vec<LivePage> =
        by_identity.into_iter().map(|(identity, (file, pids))| LivePage::new(identity, file, pids)).collect();
    all.sort_unstable_by(|a, b| a.pids.cmp(&b.pids));
    Ok(all)
}

/// Returns `true` if [`live_pages`] finds the pages of all users: the caller may inspect the first process, which belongs to another user.
pub fn can_see_all_pages() -> bool {
    let user = nix::unistd::geteuid();
    user.is_root()
        || fs::metadata("/proc/1").is_ok_and(|first| first.uid() != user.as_raw()) && fs::read_dir("/proc/1/fd").is_ok()
}

/// Returns the name of a process's program.
fn program_name(pid: u32) -> String {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = exe.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name =
        name.unwrap_or_else(|| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned());
    // A file name may contain control codes for terminals.
    read::printable(name.as_bytes()).replace('\t', " ")
}

/// Maximum pages of a process. Each library that contains Gantry creates one.
const MAX_PAGES: usize = 8;

/// Returns the pages that a process has mapped. Pages that it only reads are open, but not mapped.
fn mapped_pages(pid: u32) -> io::Result<Vec<File>> {
    let mapped = mapped_ranges(pid)?;
    if mapped.is_empty() {
        return Ok(Vec::new());
    }
    let is_mapped =
        |file: &File| file.metadata().is_ok_and(|page| mapped.iter().any(|(_, inode)| *inode == page.ino()));
    let mut open: Vec<File> = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|link| is_page(&link)) {
            open.extend(open_regular(&path).filter(is_mapped));
        }
        if open.len() == MAX_PAGES {
            break;
        }
    }
    if open.is_empty() {
        // The program has closed all unknown files. Only root may open mapped files (proc_pid_map_files(5)).
        let by_range = |(range, _): &(String, u64)| open_regular(Path::new(&format!("/proc/{pid}/map_files/{range}")));
        open.extend(mapped.iter().filter_map(by_range));
    }
    Ok(open)
}

/// Opens a regular file. Any file can have the name of a page; opening a FIFO would block, and a device might react.
fn open_regular(path: &Path) -> Option<File> {
    let is_file = |metadata: fs::Metadata| metadata.is_file().then_some(());
    is_file(fs::metadata(path).ok()?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    is_file(file.metadata().ok()?)?;
    Some(file)
}

fn is_page(link: &Path) -> bool {
    link.to_str().and_then(|link| link.strip_prefix("/memfd:")).and_then(|link| link.strip_suffix(" (deleted)"))
        == Some(PAGE_NAME)
}

/// Returns the address ranges of a process's pages, in the format of proc_pid_maps(5), and their inodes.
fn mapped_ranges(pid: u32) -> io::Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for line in BufReader::new(File::open(format!("/proc/{pid}/maps"))?).split(b'\n') {
        let line = line?;
        if all.len() == MAX_PAGES {
            break;
        }
        if line.windows(PAGE_NAME.len()).any(|part| part == PAGE_NAME.as_bytes()) {
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_ascii_whitespace();
            let (range, inode) = (words.next().unwrap_or_default(), words.nth(3).and_then(|inode| inode.parse().ok()));
            // `map_files` has addresses without leading zeros.
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
    fn does_not_open_special_files_with_the_name_of_a_page() {
        let folder = std::env::temp_dir().join(format!("gantry-fifo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(
            open_regular(&fifo).is_none()
                && open_regular(&folder).is_none()
                && open_regular(Path::new("/dev/null")).is_none()
        );
        fs::write(folder.join("file"), "").unwrap();
        assert!(open_regular(&folder.join("file")).is_some());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn recognizes_a_page_by_the_name_that_the_kernel_gives_it() {
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

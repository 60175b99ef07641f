//! A cache of device costs: a file of the user that outlives the process.
//!
//! The file is `gantry/costs-KEY.json` under `$XDG_CACHE_HOME` (`~/.cache`). The key is a hash of the CPU's model, the kernel's release,
//! and Gantry's version and build, so that machines that share a home directory do not collide. The file repeats these texts in full.
//! Problems with the file or its folder are not errors: the costs are measured again, and there is a warning. A file of another format is
//! ignored.
//!
//! The file has a [`CostRecord`] for each device, algorithm and operation, with measured cells only. Core interpolates between the cells,
//! and believes plausible values only.
//!
//! A process with elevated rights has no cache. Only the user can read the file. It is written under another name and then renamed, so that
//! no process reads a partial file. If two processes save at the same time, the file of the later one remains. Costs that only the earlier
//! one wrote are lost, and are measured again.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use gantry_core::route::{CostCell, CostRecord, CostStore};
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::{bounded, message, rights};

/// A [`CostStore`] in a file.
#[derive(Debug)]
pub struct CostCache {
    folder: PathBuf,
    /// Determined when costs are first needed.
    machine: OnceLock<Machine>,
}

/// The environment on which costs depend, in addition to the devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    cpu: String,
    kernel: String,
    gantry: String,
}

/// The version of the file format.
const FORMAT: u32 = 2;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Content {
    machine: Machine,
    #[serde(default)]
    format: u32,
    costs: Vec<StoredRecord>,
}

impl Content {
    fn into_records(self) -> Vec<CostRecord> {
        self.costs.into_iter().map(StoredRecord::into_record).collect()
    }
}

/// A [`CostRecord`] in the file.
#[derive(Clone, Serialize, Deserialize)]
struct StoredRecord {
    device: String,
    version: String,
    algorithm: String,
    operation: String,
    /// Seconds since 1970.
    #[serde(default)]
    measured_at: u64,
    #[serde(default)]
    turns: u32,
    /// Requests, bytes of each, measurements, wall nanoseconds, and CPU nanoseconds of the thread.
    #[serde(default)]
    cells: Vec<(usize, usize, u32, f32, f32)>,
}

impl CostCache {
    /// Returns the cache of this user on this machine. `None` if the user has no cache folder, or the process has elevated rights.
    pub fn for_user() -> Option<Self> {
        let variable = |name: &str| rights::variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Relative paths must be ignored (XDG Base Directory Specification).
        let folder = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let folder =
            folder.or_else(|| variable("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".cache")));
        Some(Self::new(folder?.join("gantry")))
    }

    /// Creates a cache in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, machine: OnceLock::new() }
    }

    fn machine(&self) -> &Machine {
        self.machine.get_or_init(Machine::current)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name())
    }

    fn name(&self) -> String {
        let Machine { cpu, kernel, gantry } = self.machine();
        // FNV-1a: the hash only has to distinguish machines.
        let hash = [cpu, kernel, gantry].into_iter().flat_map(|part| part.bytes().chain([0]));
        let hash =
            hash.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("costs-{hash:016x}.json")
    }

    /// Returns a copy of the file's text as it is now. Later changes of the file do not affect the copy.
    pub fn snapshot(self) -> CostSnapshot {
        CostSnapshot { text: self.read_text(), cache: self }
    }

    fn warning(&self, why: &str) -> String {
        format!("{}: {why}; the costs of devices are measured again", self.path().display())
    }

    fn read(&self) -> Result<Option<Content>, String> {
        self.read_text()?.map_or(Ok(None), |text| self.parse(&text))
    }

    /// Returns the text of the file, if there is one.
    fn read_text(&self) -> Result<Option<String>, String> {
        let path = self.path();
        let warning = |why: &str| self.warning(why);
        let opened = bounded::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(warning(&message(&error))),
        };
        if !metadata.is_file() {
            return Err(warning("is not a regular file"));
        }
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(warning("belongs to another user"));
        }
        bounded::read_text_from(file).map(Some).map_err(|error| warning(&message(&error)))
    }

    /// Returns the content of the file; `None` if it has another format.
    fn parse(&self, text: &str) -> Result<Option<Content>, String> {
        let content: Content =
            serde_json::from_str(text).map_err(|error| self.warning(&format!("is damaged ({error})")))?;
        if content.format != FORMAT {
            return Ok(None);
        }
        if content.machine == *self.machine() {
            Ok(Some(content))
        } else {
            Err(self.warning("is from another machine or version"))
        }
    }

    fn write(&self, content: &Content) -> io::Result<()> {
        let text = serde_json::to_vec(content)?;
        // Not synced, because a request waits for the write. After a power failure the file may be damaged, which is detected.
        Folder::create(&self.folder)?.replace(&self.name(), |file| file.write_all(&text))
    }
}

impl CostStore for CostCache {
    fn load(&self) -> Result<Vec<CostRecord>, String> {
        Ok(self.read()?.map_or(Vec::new(), Content::into_records))
    }

    fn save(&self, records: &[CostRecord]) -> Result<(), String> {
        // Treat a damaged file, or one of another machine, as empty: the write replaces it.
        let mut costs = self.read().ok().flatten().map_or(Vec::new(), |content| content.costs);
        for record in records {
            let new = StoredRecord::new(record);
            costs.retain(|old| !old.has_same_key(&new));
            costs.push(new);
        }
        let content = Content { machine: self.machine().clone(), format: FORMAT, costs };
        self.write(&content).map_err(|error| {
            format!("{}: {}; the costs of devices are not kept", self.folder.display(), message(&error))
        })
    }
}

/// The text of a cache at one time. As a [`CostStore`] it makes no system calls, and does not save costs.
#[derive(Debug)]
pub struct CostSnapshot {
    cache: CostCache,
    text: Result<Option<String>, String>,
}

impl CostStore for CostSnapshot {
    fn load(&self) -> Result<Vec<CostRecord>, String> {
        let Some(text) = self.text.as_ref().map_err(String::clone)? else { return Ok(Vec::new()) };
        Ok(self.cache.parse(text)?.map_or(Vec::new(), Content::into_records))
    }

    fn save(&self, _: &[CostRecord]) -> Result<(), String> {
        Ok(())
    }
}

impl StoredRecord {
    fn new(record: &CostRecord) -> Self {
        let CostRecord { device, version, algorithm, operation, measured_at, turns, cells } = record.clone();
        let cells = cells.iter().map(|cell| (cell.requests, cell.bytes, cell.measurements, cell.wall_ns, cell.cpu_ns));
        Self { device, version, algorithm, operation, measured_at, turns, cells: cells.collect() }
    }

    fn into_record(self) -> CostRecord {
        let Self { device, version, algorithm, operation, measured_at, turns, cells } = self;
        let cell = |(requests, bytes, measurements, wall_ns, cpu_ns)| CostCell {
            requests,
            bytes,
            measurements,
            wall_ns,
            cpu_ns,
        };
        let cells = cells.into_iter().map(cell).collect();
        CostRecord { device, version, algorithm, operation, measured_at, turns, cells }
    }

    fn has_same_key(&self, other: &Self) -> bool {
        let key = |record: &Self| [&record.device, &record.algorithm, &record.operation].map(String::clone);
        key(self) == key(other)
    }
}

impl Machine {
    fn current() -> Self {
        // Without optimisation, devices are many times slower, each by a different factor.
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        Self {
            cpu: cpu(&first_cpu().unwrap_or_default()),
            kernel: kernel(),
            gantry: format!("{} {build}", env!("CARGO_PKG_VERSION")),
        }
    }
}

/// The lines of `/proc/cpuinfo` that name a CPU, and its instruction sets on x86 (`flags`), ARM (`Features`) and RISC-V (`isa`).
const CPU_LINES: [&str; 11] = [
    "vendor_id",
    "cpu family",
    "model\t",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "flags",
    "Features",
    "isa",
];

/// Returns the CPU's model and its instruction sets, from `/proc/cpuinfo`: virtual machines may report the same name with fewer of them.
fn cpu(info: &str) -> String {
    let line = |key: &&str| info.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
    let lines: Vec<_> = CPU_LINES.iter().filter_map(line).collect();
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.trim()).collect();
    format!("{} {}", std::env::consts::ARCH, texts.join(" "))
}

/// Returns the beginning of `/proc/cpuinfo`, which describes the first CPU. The other CPUs are taken to be the same.
fn first_cpu() -> io::Result<String> {
    let mut text = Vec::with_capacity(MAX_CPU_BYTES);
    fs::File::open("/proc/cpuinfo")?.take(MAX_CPU_BYTES as u64).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Bytes read from `/proc/cpuinfo`, enough to describe the first CPU.
const MAX_CPU_BYTES: usize = 8 << 10;

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder that is removed when dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("gantry-cache-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn cache(&self) -> CostCache {
            CostCache::new(self.0.join("deep/down"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_cpu_with_other_instruction_sets_is_another_cpu() {
        for (key, head) in
            [("flags", "model name\t: Xeon\n"), ("Features", "CPU part\t: 0xd0c\n"), ("isa", "hart\t: 0\n")]
        {
            let with = |sets: &str| cpu(&format!("processor\t: 0\n{head}{key}\t\t: {sets}\nbogomips\t: 243.75\n"));
            assert_ne!(with("fp aes"), with("fp aes sha3"), "{key}");
        }
        assert_eq!(cpu("processor\t: 0\nflags\t: aes\n"), cpu("processor\t: 1\nflags\t: aes\n"));
    }

    fn record(device: &str, time: f32) -> CostRecord {
        let cell = |requests| CostCell { requests, bytes: 64, measurements: 5, wall_ns: time, cpu_ns: time / 2.0 };
        CostRecord {
            device: device.into(),
            version: "1".into(),
            algorithm: "sha256".into(),
            operation: "digest".into(),
            measured_at: 1_700_000_000,
            turns: 5,
            cells: (1..=60).map(cell).collect(),
        }
    }

    #[test]
    fn newer_costs_replace_older_ones() {
        let folder = Folder::new("kept");
        assert_eq!(folder.cache().load(), Ok(Vec::new()), "a missing file is no warning");
        folder.cache().save(&[record("a", 1.5), record("b", 2.5)]).unwrap();
        folder.cache().save(&[record("a", 3.5)]).unwrap();
        assert_eq!(folder.cache().load(), Ok(vec![record("b", 2.5), record("a", 3.5)]));
        let names: Vec<_> =
            fs::read_dir(folder.0.join("deep/down")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names, [folder.cache().path()], "no other files are left");
    }

    #[test]
    fn a_snapshot_neither_follows_nor_changes_the_cache() {
        let folder = Folder::new("snapshot");
        assert_eq!(folder.cache().snapshot().load(), Ok(Vec::new()));
        folder.cache().save(&[record("a", 1.5)]).unwrap();
        let snapshot = folder.cache().snapshot();
        snapshot.save(&[record("b", 2.5)]).unwrap();
        assert_eq!(folder.cache().load(), Ok(vec![record("a", 1.5)]));
        fs::remove_file(folder.cache().path()).unwrap();
        assert_eq!(snapshot.load(), Ok(vec![record("a", 1.5)]));
    }

    #[test]
    fn numbers_are_kept_exactly() {
        let folder = Folder::new("bits");
        let mut kept = record("a", 1.0);
        for (cell, power) in kept.cells.iter_mut().zip(0_i32..) {
            (cell.wall_ns, cell.cpu_ns) = (1.7_f32.powi(power % 45) / 3.0, 0.7_f32.powi(power % 45));
        }
        folder.cache().save(&[kept.clone()]).unwrap();
        assert_eq!(folder.cache().load(), Ok(vec![kept]));
    }

    #[test]
    fn warns_of_a_damaged_file_and_replaces_it() {
        let folder = Folder::new("damaged");
        folder.cache().save(&[record("a", 1.5)]).unwrap();
        let path = folder.cache().path();
        let whole = fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() / 2], b"", b"{}", b"\xff\xfe", b"[1, 2]"] {
            fs::write(&path, damaged).unwrap();
            let warning = folder.cache().load().unwrap_err();
            assert!(warning.contains("measured again"), "{warning}");
        }
        folder.cache().save(&[record("b", 1.0)]).unwrap();
        assert_eq!(folder.cache().load(), Ok(vec![record("b", 1.0)]));
    }

    #[test]
    fn reading_a_file_takes_bounded_memory() {
        let folder = Folder::new("bombs");
        let cache = folder.cache();
        fs::create_dir_all(&cache.folder).unwrap();
        let machine = serde_json::to_string(cache.machine()).unwrap();
        let cells = "[0,0,0,0,0],".repeat(100_000) + "[0,0,0,0,0]";
        let kept =
            |cells: &str| format!(r#"{{"device":"","version":"","algorithm":"","operation":"","cells":[{cells}]}}"#);
        for (bomb, costs) in [("cells", kept(&cells)), ("records", vec![kept(""); 20_000].join(","))] {
            let text = format!(r#"{{"machine":{machine},"format":{FORMAT},"costs":[{costs}]}}"#);
            fs::write(cache.path(), &text).unwrap();
            let (loaded, taken) = gantry_lab::memory::measure(|| cache.load());
            assert!(loaded.is_ok(), "{bomb}");
            assert!(
                taken.peak_bytes > text.len() && taken.peak_bytes <= 16 * text.len(),
                "{bomb}: {} bytes for {}",
                taken.peak_bytes,
                text.len()
            );
        }
    }

    #[test]
    fn ignores_a_file_of_an_older_format() {
        let folder = Folder::new("older");
        let cache = folder.cache();
        let older = serde_json::json!({
            "machine": cache.machine(), "requests": [1, 2], "bytes": [16, 32],
            "costs": [{"device": "a", "version": "1", "algorithm": "sha256", "operation": "digest", "wall_ns": [1, 2, 2, 4]}],
        });
        fs::create_dir_all(&cache.folder).unwrap();
        fs::write(cache.path(), older.to_string()).unwrap();
        assert_eq!(cache.load(), Ok(Vec::new()), "and without a warning");
        cache.save(&[record("b", 1.0)]).unwrap();
        assert_eq!(cache.load(), Ok(vec![record("b", 1.0)]));
    }

    #[test]
    fn refuses_costs_of_another_machine() {
        let folder = Folder::new("elsewhere");
        let mut cache = folder.cache();
        cache.save(&[record("a", 1.5)]).unwrap();
        let original = cache.path();
        let mut other = cache.machine().clone();
        other.kernel.push_str("-rc1");
        cache.machine = other.into();
        assert_eq!(cache.load(), Ok(Vec::new()), "another kernel has another file");
        fs::copy(original, cache.path()).unwrap();
        let warning = cache.load().unwrap_err();
        assert!(warning.contains("another machine"), "{warning}");
    }

    #[test]
    fn warns_of_a_folder_that_cannot_be_written() {
        let folder = Folder::new("barred");
        fs::create_dir_all(&folder.0).unwrap();
        // A file in the place of a folder stops even root.
        fs::write(folder.0.join("deep"), "").unwrap();
        let warning = folder.cache().save(&[record("a", 1.0)]).unwrap_err();
        assert!(warning.contains("not kept"), "{warning}");
        assert!(folder.cache().load().is_err());
        // Permissions stop all users but root.
        fs::remove_file(folder.0.join("deep")).unwrap();
        fs::create_dir_all(folder.0.join("deep/down")).unwrap();
        fs::set_permissions(folder.0.join("deep/down"), fs::Permissions::from_mode(0o500)).unwrap();
        // In a test run as root, take the file system UID of another user. Otherwise the call changes nothing.
        let me = nix::unistd::setfsuid(nix::unistd::Uid::from_raw(12_345));
        let result = folder.cache().save(&[record("a", 1.0)]);
        nix::unistd::setfsuid(me);
        let warning = result.unwrap_err();
        assert!(warning.contains("Permission denied"), "{warning}");
    }

    #[test]
    fn refuses_a_file_of_another_user() {
        let folder = Folder::new("foreign");
        let cache = folder.cache();
        cache.save(&[record("a", 1.5)]).unwrap();
        // Only root can give files away.
        if std::os::unix::fs::chown(cache.path(), Some(12_345), None).is_ok() {
            let warning = cache.load().unwrap_err();
            assert!(warning.contains("another user"), "{warning}");
            std::os::unix::fs::chown(&cache.folder, Some(12_345), None).unwrap();
            assert!(cache.save(&[record("a", 1.5)]).unwrap_err().contains("another user"));
        }
    }

    #[test]
    fn concurrent_writers_leave_a_whole_file() {
        let folder = Folder::new("at-once");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let cache = folder.cache();
                scope.spawn(move || (0..20).for_each(|_| cache.save(&[record(&format!("d{writer}"), 1.0)]).unwrap()));
            }
            for _ in 0..50 {
                folder.cache().load().unwrap();
            }
        });
        assert!(!folder.cache().load().unwrap().is_empty());
    }
}

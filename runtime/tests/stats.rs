//! Publication of statistics, and its failures, which do not affect requests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gantry_core::route::Reason;
use gantry_core::{Algorithm, Gantry, Request, SessionParams};
use gantry_runtime::Config;
use gantry_runtime::StatsChoice;
use gantry_runtime::stats::{LivePage, Report, Watcher, live_pages, published_files};

/// A folder that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gantry-stats-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn publishing_to(folder: &Path) -> Gantry {
    let mut config = Config::default();
    config.set("stats", folder.to_str().unwrap(), "--set stats").unwrap();
    gantry_runtime::open(config).unwrap()
}

/// Hashes three messages one by one, and two together.
fn work(gantry: &Gantry) {
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    for _ in 0..3 {
        session.digest(b"message", &mut [0; 32]).unwrap();
    }
    let mut digests = [[0; 32]; 2];
    let mut requests: Vec<Request<'_>> = digests.iter_mut().map(|digest| Request::digest(b"abc", digest)).collect();
    session.process(&mut requests).unwrap();
}

#[test]
fn published_counters_can_be_read_by_other_processes() {
    let folder = Folder::new("read");
    let gantry = publishing_to(&folder.0);
    assert_eq!(published_files(&folder.0).unwrap().len(), 0, "no file before the first request");
    work(&gantry);
    drop(gantry);
    let [file] = &published_files(&folder.0).unwrap()[..] else { panic!("one process, one file") };
    assert!(file.is_alive && file.pid == std::process::id());
    assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
    let report = file.read().unwrap();
    assert_eq!(report.processes[0].pid, std::process::id());
    assert_eq!(report.rows.iter().map(|row| (row.requests, row.bytes)).reduce(add), Some((5, 27)));
    let row = &report.rows[0];
    assert_eq!((&*row.algorithm, &*row.operation), ("sha256", "digest"));
    assert_eq!(row.reasons.values().sum::<u64>(), row.requests);
    assert!(row.stages["invoke"].requests > 0 && row.stages["invoke"].p50_ns > 0);
}

fn add(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1 + b.1)
}

#[test]
fn every_step_of_a_stream_is_a_request() {
    let gantry = gantry_runtime::open(Config::default()).unwrap();
    let session = gantry.session(SessionParams::new(Algorithm::Sha256, &[])).unwrap();
    let mut stream = session.stream(1).unwrap();
    stream.update(b"message ").unwrap();
    stream.update(b"in pieces").unwrap();
    stream.finish(&mut [0; 32]).unwrap();
    let rows = gantry.stats().rows;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.requests(), row.requests_with_reason(Reason::Stream), row.bytes), (3, 3, 17));
}

#[test]
fn publishes_nothing_without_requests() {
    let folder = Folder::new("nothing");
    drop(publishing_to(&folder.0));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn publishes_when_the_thread_that_opened_the_framework_ends() {
    let folder = Folder::new("exit");
    let to = folder.0.clone();
    // A framework that is never dropped, like one in a static.
    std::thread::spawn(move || {
        let gantry = publishing_to(&to);
        work(&gantry);
        work(&gantry);
        std::mem::forget(gantry);
    })
    .join()
    .unwrap();
    let [file] = &published_files(&folder.0).unwrap()[..] else { panic!("one process, one file") };
    assert_eq!(file.read().unwrap().rows.iter().map(|row| row.requests).sum::<u64>(), 10);
}

#[test]
fn ignores_unsafe_folders_without_failing_requests() {
    let safe = Folder::new("unsafe");
    let path = |name: &str| safe.0.join(name);
    let folder = |name: &str, mode| {
        fs::create_dir(path(name)).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        path(name)
    };
    // Root can give a folder to another user; other users take /usr, which is not theirs.
    let foreign = folder("foreign", 0o755);
    let foreign = if chown(&foreign, Some(1), None).is_ok() { foreign } else { "/usr".into() };
    folder("there", 0o700);
    symlink(path("there"), path("link")).unwrap();
    fs::write(path("file"), "").unwrap();
    for (folder, wrong) in [
        (foreign, Some("it belongs to another user")),
        (folder("open", 0o777), Some("other users may write to it")),
        (path("link"), Some("it is not a folder")),
        (path("file"), Some("it is not a folder")),
        (path("absent"), None),
    ] {
        let gantry = publishing_to(&folder);
        work(&gantry);
        drop(gantry);
        assert!(!folder.is_dir() || fs::read_dir(&folder).unwrap().all(|entry| !is_report(&entry.unwrap().path())));
        match wrong {
            Some(wrong) => assert_eq!(published_files(&folder).unwrap_err().to_string(), wrong, "{}", folder.display()),
            None => assert_eq!(published_files(&folder).unwrap().len(), 0),
        }
    }
}

fn is_report(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

#[test]
fn refuses_a_damaged_file() {
    let folder = Folder::new("damaged");
    let gantry = publishing_to(&folder.0);
    work(&gantry);
    drop(gantry);
    let [file] = &published_files(&folder.0).unwrap()[..] else { panic!("one process, one file") };
    let text = fs::read_to_string(&file.path).unwrap();
    for damaged in ["", "{", &text[..text.len() / 2], "[]", "{\"processes\":1}"] {
        fs::write(&file.path, damaged).unwrap();
        assert_eq!(file.read().unwrap_err().kind(), std::io::ErrorKind::InvalidData, "{damaged}");
    }
    fs::write(&file.path, [0xFF, 0xFE]).unwrap();
    assert!(file.read().is_err());
    fs::remove_file(&file.path).unwrap();
    assert_eq!(file.read().unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn merges_reports_of_several_processes() {
    let folder = Folder::new("merge");
    for _ in 0..2 {
        let gantry = publishing_to(&folder.0);
        work(&gantry);
    }
    let mut sum = Report::default();
    for file in published_files(&folder.0).unwrap() {
        sum.merge(file.read().unwrap());
    }
    assert_eq!(sum.processes.len(), 2);
    assert_eq!(sum.rows.iter().map(|row| (row.requests, row.bytes)).reduce(add), Some((10, 54)));
    for row in &sum.rows {
        assert_eq!(row.reasons.values().sum::<u64>(), row.requests, "{row:?}");
        for times in row.stages.values() {
            assert_eq!(times.buckets.iter().map(|(_, requests)| requests).sum::<u64>(), times.requests);
        }
    }
    let again = Report::from_json(&sum.to_json()).unwrap();
    assert_eq!(again.to_json(), sum.to_json());
}

#[test]
fn stats_takes_auto_on_off_or_an_absolute_path() {
    let mut config = Config::default();
    for wrong in ["", "yes", "stats", "./stats"] {
        let error = config.set("stats", wrong, "--set").unwrap_err().to_string();
        assert!(error.contains("it is auto, off, on or the absolute path of a folder"), "{error}");
    }
    config.set("stats", "/run/x", "--set").unwrap();
    assert_eq!(config.stats(), &StatsChoice::Folder("/run/x".into()));
}

/// Returns the page of this process, which every test here writes.
fn own_page() -> LivePage {
    let all = live_pages().unwrap();
    all.into_iter().find(|page| page.pids.contains(&std::process::id())).expect("this process has a page")
}

fn of_algorithm(report: &Report, algorithm: &str) -> (u64, u64) {
    let rows = report.rows.iter().filter(|row| row.algorithm == algorithm);
    rows.map(|row| (row.requests, row.bytes)).reduce(add).unwrap_or_default()
}

#[test]
fn a_page_always_has_the_current_counters() {
    let gantry = gantry_runtime::open(Config::default()).unwrap();
    // No other test uses this algorithm.
    let session = gantry.session(SessionParams::new(Algorithm::Sha3_384, &[])).unwrap();
    let page = own_page();
    for requests in 1..20 {
        session.digest(b"message", &mut [0; 48]).unwrap();
        assert_eq!(of_algorithm(&page.read().unwrap(), "sha3-384"), (requests, 7 * requests));
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| session.digest(b"message", &mut [0; 48]).unwrap()));
        }
    });
    let report = page.read().unwrap();
    assert_eq!(of_algorithm(&report, "sha3-384"), (419, 7 * 419));
    let own = gantry.stats();
    let row = report.rows.iter().find(|row| row.algorithm == "sha3-384").unwrap();
    let own = own.rows.iter().find(|row| row.algorithm == Algorithm::Sha3_384).unwrap();
    assert_eq!(row.reasons.values().sum::<u64>(), own.requests());
    assert_eq!(row.stages["invoke"].requests, own.stage(gantry_core::stats::Stage::Invoke).requests());
}

#[test]
fn a_page_cannot_be_shortened_or_written() {
    let _gantry = gantry_runtime::open(Config::default()).unwrap();
    assert!(!own_page().pids.is_empty());
    let fds = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let mut pages =
        fds.filter(|path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("gantry-statistics")));
    let page = fs::OpenOptions::new().read(true).write(true).open(pages.next().expect("the page")).unwrap();
    let length = page.metadata().unwrap().len();
    for other in [0, length - 1, length + 1] {
        assert!(page.set_len(other).is_err());
    }
    assert!(page.write_at(b"x", 0).is_err());
}

/// A child counts in rows of its own in its parent's page. It may have been made without the C library.
#[test]
#[allow(unsafe_code, reason = "fork")]
fn a_child_has_its_own_rows_in_the_page_of_its_parent() {
    let gantry = gantry_runtime::open(Config::default()).unwrap();
    let session = gantry.session(SessionParams::new(Algorithm::Sha512_256, &[])).unwrap();
    let hash = |times| (0..times).for_each(|_| session.digest(b"message", &mut [0; 32]).unwrap());
    hash(5);
    // SAFETY: the child uses no lock that another thread could hold, and ends without running exit handlers.
    let fork = || unsafe { libc::fork() };
    // SAFETY: as above; the child does not share the parent's memory.
    let clone =
        || unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) as libc::pid_t };
    for (child, all) in [(fork as fn() -> _, 23), (clone, 41)] {
        let child = child();
        if child == 0 {
            hash(7);
            let own = gantry.stats().rows.iter().map(gantry_core::stats::SnapshotRow::requests).sum::<u64>();
            // SAFETY: ends the process.
            unsafe { libc::_exit(own as i32) };
        }
        hash(11);
        let mut status = 0;
        // SAFETY: `child` is our child, and `status` is a valid place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7), "only its own numbers");
        assert_eq!(of_algorithm(&own_page().read().unwrap(), "sha512-256"), (all, all * 7));
    }
}

/// Another program counts, and its last counters are read after its end.
#[test]
fn the_last_counters_of_an_ended_process_can_be_read() {
    // This test runs again as that program.
    if std::env::var_os("GANTRY_TEST_WATCHED").is_some() {
        let gantry = gantry_runtime::open(Config::default()).unwrap();
        let session = gantry.session(SessionParams::new(Algorithm::Blake2b256, &[])).unwrap();
        let hash = |times| (0..times).for_each(|_| session.digest(b"message", &mut [0; 32]).unwrap());
        let wait = || std::io::stdin().read_line(&mut String::new()).unwrap();
        hash(3);
        println!("\nready");
        wait();
        hash(4);
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "the_last_counters_of_an_ended_process_can_be_read"])
        .env("GANTRY_TEST_WATCHED", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    let mut watch = Watcher::default();
    watch.observe().unwrap();
    // A process that reads a page is not counted as having it, even if it has a page of its own.
    let _gantry = gantry_runtime::open(Config::default()).unwrap();
    let all = live_pages().unwrap();
    let pages =
        |pid: u32| all.iter().filter(|page| page.pids.contains(&pid)).map(|page| &*page.pids).collect::<Vec<_>>();
    assert_eq!(pages(child.id()), [[child.id()]]);
    assert_eq!(pages(std::process::id()).len(), 1);
    let of_child = |watch: &Watcher| {
        let mut running = watch.running().filter(|watched| watched.page.pids.contains(&child.id()));
        running.next().map(|watched| of_algorithm(&watched.now, "blake2b-256"))
    };
    assert_eq!(of_child(&watch), Some((3, 21)));
    let totals =
        |watch: &Watcher| watch.totals().values().map(|report| of_algorithm(report, "blake2b-256")).fold((0, 0), add);
    assert_eq!(totals(&watch), (3, 21));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    for _ in 0..2 {
        watch.observe().unwrap();
        assert!(watch.running().all(|watched| !watched.page.pids.contains(&child.id())));
        assert_eq!(totals(&watch), (7, 49));
    }
}

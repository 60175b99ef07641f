//! Gantry's server in a process of its own, so that its end does not end the test.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use gantry_runtime::Config;
use gantry_vhost_user::{Counters, Limits, Socket};

const FOLDER_VARIABLE: &str = "GANTRY_TEST_SERVER";
const GUESTS_VARIABLE: &str = "GANTRY_TEST_GUESTS";

/// A server with a socket for each guest.
pub(crate) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts a server for guests with these limits. It applies only the limits of sessions, bytes and rate.
    pub(crate) fn new(guests: &[Limits]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("gantry-vhost-user-front-{}-{number}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let child = spawn(&folder, guests);
        Self { child, folder }
    }

    /// Returns the socket of a guest.
    pub(crate) fn socket(&self, guest: usize) -> PathBuf {
        socket(&self.folder, guest)
    }

    /// Returns the process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process is running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts the server at the same sockets.
    pub(crate) fn restart(&mut self, guests: &[Limits]) {
        assert!(!self.is_running());
        self.child = spawn(&self.folder, guests);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// This test is the server if [`FOLDER_VARIABLE`] is set.
#[test]
#[ignore = "not a test: other tests run it as the server"]
fn serve() {
    let Some(folder) = env::var_os(FOLDER_VARIABLE) else { return };
    // A panic of a thread must end the process, which the tests watch.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("the server: {panic}");
        process::abort();
    }));
    let server = gantry_vhost_user::Server::new(gantry_runtime::open(Config::default()).unwrap()).unwrap();
    for (guest, limits) in env::var(GUESTS_VARIABLE).unwrap().split(' ').enumerate() {
        let numbers: Vec<u64> = limits.split(',').map(|number| number.parse().unwrap()).collect();
        let limits = Limits {
            sessions: numbers[0] as usize,
            bytes: numbers[1] as usize,
            rate: Some(numbers[2]).filter(|rate| *rate > 0),
            ..Limits::default()
        };
        let path = socket(Path::new(&folder), guest);
        server.listen(&Socket { path, mode: 0o600, owner: (None, None) }, limits, Counters::default()).unwrap();
    }
    println!("\nready");
    // The pipe ends with the test.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn socket(folder: &Path, guest: usize) -> PathBuf {
    folder.join(format!("guest{guest}.sock"))
}

fn spawn(folder: &Path, guests: &[Limits]) -> Child {
    let limits = |limits: &Limits| format!("{},{},{}", limits.sessions, limits.bytes, limits.rate.unwrap_or(0));
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "common::server::serve"])
        .env(FOLDER_VARIABLE, folder)
        .env(GUESTS_VARIABLE, guests.iter().map(limits).collect::<Vec<_>>().join(" "))
        .env("XDG_CACHE_HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"), "the server did not start");
    child
}

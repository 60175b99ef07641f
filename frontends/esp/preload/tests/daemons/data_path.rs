//! The data path of a gateway, in a child process that runs this test program again.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use gantry_esp::{Options, Server, parse_network};
use gantry_lab::wait_until;
use gantry_runtime::Config;
use serde_json::Value;

use crate::gateway::is_root;
use crate::namespace::Namespace;

/// The environment variable with the folder of the data path in a child process.
const FOLDER_VARIABLE: &str = "GANTRY_TEST_FOLDER";
/// The environment variable with the networks that the data path protects, separated by commas.
const PROTECT_VARIABLE: &str = "GANTRY_TEST_PROTECT";

/// Starts a data path, and waits until it answers. Its output goes to the file `log` in the folder.
pub(crate) fn start(namespace: &Namespace, folder: &Path, protect: &[&str]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--include-ignored", "--nocapture", "data_path::a_data_path_answers_and_ends"])
        .env(FOLDER_VARIABLE, folder)
        .env(PROTECT_VARIABLE, protect.join(","))
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let child = namespace.enter(|| command.spawn()).unwrap();
    wait_until("the data path answers", || status(folder).is_some());
    child
}

pub(crate) fn status(folder: &Path) -> Option<Value> {
    let mut text = String::new();
    UnixStream::connect(folder.join("status")).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// In a child process this test becomes the data path.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_data_path_answers_and_ends() {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        run(Path::new(&folder), &std::env::var(PROTECT_VARIABLE).unwrap_or_default());
    }
    if !is_root() {
        return gantry_lab::skip("root");
    }
    let folder = std::env::temp_dir().join(format!("gantry-daemons-{}-path", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let namespace = Namespace::new();
    let mut child = start(&namespace, &folder, &[]);
    assert!(namespace.ip("link show").contains("gantry0"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!namespace.ip("link show").contains("gantry0"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Runs a data path until the test closes the other end of the standard input.
fn run(folder: &Path, protect: &str) -> ! {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let protected =
        protect.split(',').filter(|text| !text.is_empty()).map(|text| parse_network(text).unwrap()).collect();
    let options = Options { folder: folder.to_owned(), protected, ..Options::default() };
    let Err(failed) = Server::new(gantry_runtime::open(Config::default()).unwrap(), options).and_then(Server::run);
    panic!("{failed}");
}

//! Runs the real program.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder for a test, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gantry-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prepares `gantry` with these arguments. The only configuration from the environment is the CPU level of the test run.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    for variable in ["GANTRY_CONFIG", "GANTRY_DEVICES", "GANTRY_POLICY", "GANTRY_STATS", "GANTRY_THREADS", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.env("XDG_CONFIG_HOME", "/nonexistent").args(arguments);
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the notes of a measurement on stderr, without the note about other load on the machine.
pub(crate) fn notes(output: &Output) -> Vec<String> {
    let notes = text(&output.stderr);
    notes.lines().filter(|note| !note.contains("of the CPU time meanwhile")).map(str::to_owned).collect()
}

/// Returns the output of a command that must succeed.
pub(crate) fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the rows that a command prints. The command must succeed.
pub(crate) fn json(arguments: &[&str]) -> Vec<Value> {
    match serde_json::from_str(&stdout(arguments)).unwrap() {
        Value::Array(rows) => rows,
        other => panic!("{arguments:?} printed no array: {other}"),
    }
}

/// Returns the exit code and the message of a command. The command must print nothing else.
pub(crate) fn failure(arguments: &[&str]) -> (i32, String) {
    status_and_stderr(&command(arguments).output().unwrap())
}

pub(crate) fn status_and_stderr(output: &Output) -> (i32, String) {
    assert_eq!(text(&output.stdout), "");
    (output.status.code().unwrap(), text(&output.stderr))
}

/// Runs a command with this input. The command may end before it has read the whole input.
pub(crate) fn run_with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Sends a signal with the shell's kill, because not every system has a program of this name.
pub(crate) fn signal(name: &str, process: impl std::fmt::Display) {
    let status = Command::new("sh").args(["-c", &format!("kill -s {name} {process}")]).status().unwrap();
    assert!(status.success(), "{name} to {process}");
}

/// Returns the row whose field has this value.
pub(crate) fn find<'r>(rows: &'r [Value], field: &str, value: &str) -> &'r Value {
    rows.iter().find(|row| row[field] == value).unwrap_or_else(|| panic!("no row with {field} {value}"))
}

/// Returns the names of rows, such as the rows of `devices --json`.
pub(crate) fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

//! `gantry stat` about real programs: `gantry sum`, and commands that do not use Gantry.

mod gantry;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gantry::{Folder, command, run, status_and_stderr, stdout, text};
use gantry_lab::wait_until;
use serde_json::Value;

/// Creates files to hash; returns their names and their total length.
fn files(folder: &Folder) -> (Vec<String>, u64) {
    let sizes = [0, 1, 1000, 70_000, 200_000, 3];
    let file = |(index, size): (usize, &usize)| {
        folder.write(&format!("file-{index}"), &"x".repeat(*size)).to_str().unwrap().to_owned()
    };
    (sizes.iter().enumerate().map(file).collect(), sizes.iter().sum::<usize>() as u64)
}

fn report(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn sum_of(report: &Value, field: &str) -> u64 {
    report["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
}

#[test]
fn requests_of_gantry_sum_are_shown_and_its_output_is_unchanged() {
    let folder = Folder::new("stat-sum");
    let (files, bytes) = files(&folder);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let gantry = env!("CARGO_BIN_EXE_gantry");
    let plain = stdout(&[&["sum", "-a", "sha256"], &files[..]].concat());

    let shown = run(&[&["stat", "--", gantry, "sum", "-a", "sha256"], &files[..]].concat());
    assert!(shown.status.success());
    assert_eq!(text(&shown.stdout), plain);
    let table = text(&shown.stderr);
    assert!(table.contains("sha256") && table.contains("invoke") && table.contains("REASONS"), "{table}");

    let path = folder.path().join("report.json");
    let output = ["stat", "--json", "--output", path.to_str().unwrap(), "--", gantry, "sum", "-a", "sha256"];
    let shown = run(&[&output, &files[..]].concat());
    assert_eq!((text(&shown.stdout), text(&shown.stderr)), (plain, String::new()));
    let report = report(&path);
    assert_eq!(sum_of(&report, "bytes"), bytes);
    assert_eq!(report["processes"].as_array().unwrap().len(), 1);
    assert_eq!(report["processes"][0]["program"], "gantry");
    for row in report["rows"].as_array().unwrap() {
        assert_eq!((&row["algorithm"], &row["operation"]), (&Value::from("sha256"), &Value::from("digest")));
        let reasons: u64 = row["reasons"].as_object().unwrap().values().map(|times| times.as_u64().unwrap()).sum();
        assert_eq!(row["requests"], reasons);
    }
}

#[test]
fn programs_of_one_command_are_summed_and_get_the_configuration() {
    let folder = Folder::new("stat-several");
    let (files, bytes) = files(&folder);
    let path = folder.path().join("report.json");
    let twice = format!("for i in 1 2; do '{}' sum -a sha512 {}; done", env!("CARGO_BIN_EXE_gantry"), files.join(" "));
    let output = ["--policy", "pin:software", "stat", "--json", "-o", path.to_str().unwrap(), "--", "sh", "-c", &twice];
    assert!(run(&output).status.success());
    let report = report(&path);
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    assert_eq!(sum_of(&report, "bytes"), 2 * bytes);
    assert!(report["rows"].as_array().unwrap().iter().all(|row| row["device"] == "software"), "{report}");
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
        let (status, message) = status_and_stderr(&command(&["stat", "--", "sh", "-c", script]).output().unwrap());
        assert_eq!(status, code);
        assert_eq!(message, "gantry: sh: no statistics: it made no request through Gantry\n");
    }
    let (status, message) = status_and_stderr(&run(&["stat", "--", "/nowhere/at/all"]));
    assert_eq!((status, &*message), (127, "gantry: /nowhere/at/all: No such file or directory\n"));
    let (status, message) = status_and_stderr(&run(&["stat", "--", "/etc/passwd"]));
    assert_eq!((status, &*message), (126, "gantry: /etc/passwd: Permission denied\n"));
}

#[test]
fn a_command_has_the_signal_mask_of_the_caller() {
    let arguments = ["grep", "SigBlk", "/proc/self/status"];
    let direct = Command::new(arguments[0]).args(&arguments[1..]).output().unwrap();
    let counted = command(&["stat", "--"]).args(arguments).output().unwrap();
    assert_eq!(text(&counted.stdout), text(&direct.stdout));
}

/// Creates a folder for the temporary folders of commands. Returns it, and a function that counts the folders in it.
fn temporary(folder: &Folder) -> (std::path::PathBuf, impl Fn() -> usize) {
    let path = folder.path().join("tmp");
    fs::create_dir(&path).unwrap();
    (path.clone(), move || fs::read_dir(&path).unwrap().count())
}

/// Returns the command with default actions for these signals, even if the test runs under `nohup`.
fn with_default_signals(command: &Command) -> Command {
    let mut wrapped = Command::new("env");
    wrapped.arg("--default-signal=HUP,TERM").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

#[test]
fn a_signal_reaches_the_command_and_nothing_is_left_behind() {
    let folder = Folder::new("stat-signals");
    let (tmp, left) = temporary(&folder);
    let ready = folder.path().join("ready");
    for (signal, script, code) in
        [("TERM", "trap 'exit 9' TERM;", 9), ("HUP", "trap 'exit 8' HUP;", 8), ("TERM", "", 143), ("HUP", "", 129)]
    {
        let script = format!("{script} echo > '{}'; while :; do sleep 0.01; done", ready.display());
        let mut child =
            with_default_signals(command(&["stat", "--", "sh", "-c", &script]).env("TMPDIR", &tmp)).spawn().unwrap();
        wait_until("the command runs", || ready.exists());
        assert_eq!(left(), 1);
        // Signals only `gantry stat`; a terminal would also signal the command.
        gantry::signal(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!(left(), 0, "{signal}");
        fs::remove_file(&ready).unwrap();
    }
}

#[test]
fn only_its_user_can_access_the_folder_of_a_command() {
    let folder = Folder::new("stat-folder");
    let (tmp, _) = temporary(&folder);
    let modes = format!("stat -c %a {}/*", tmp.display());
    let stat = command(&["stat", "--", "sh", "-c", &modes]);
    // An umask that removes no permissions.
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(stat.get_program()).args(stat.get_args());
    assert_eq!(text(&shell.env("TMPDIR", &tmp).output().unwrap().stdout), "700\n");
}

#[test]
fn a_command_under_nohup_survives_a_hangup() {
    let folder = Folder::new("stat-nohup");
    let [ready, go] = ["ready", "go"].map(|name| folder.path().join(name));
    let script = format!("echo > '{}'; until [ -e '{}' ]; do sleep 0.01; done; exit 5", ready.display(), go.display());
    let mut nohup = Command::new("nohup");
    nohup.args([env!("CARGO_BIN_EXE_gantry"), "stat", "--", "sh", "-c", &script]);
    let mut child = nohup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command runs", || ready.exists());
    gantry::signal("HUP", child.id());
    fs::write(&go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_reader_that_closes_the_pipe_leaves_no_files_behind() {
    let folder = Folder::new("stat-pipe");
    let (tmp, left) = temporary(&folder);
    let file = folder.write("file", "text").display().to_string();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let arguments = ["stat", "--", env!("CARGO_BIN_EXE_gantry"), "sum", &file];
    let status = command(&arguments).env("TMPDIR", &tmp).stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGPIPE));
    assert_eq!(left(), 0);
}

/// A process of `gantry sum` that has counted requests, and waits for more input.
struct Waiting {
    child: Child,
}

impl Waiting {
    fn new() -> Self {
        let mut command = command(&["sum", "-a", "sha256", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&vec![7; 8 << 20]).unwrap();
        let waiting = Self { child };
        wait_until("something was counted", || run(&["stat", &waiting.pid()]).status.success());
        waiting
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shown(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_running_process_is_found_and_an_ended_one_is_not() {
    let mut waiting = Waiting::new();
    let pid = waiting.pid();
    let list = shown(&["stat", "--list"]);
    let line =
        list.lines().find(|line| line.split_whitespace().next() == Some(&pid)).unwrap_or_else(|| panic!("{list}"));
    assert!(line.contains("gantry"), "{line}");
    // Counters of a waiting process; the latest ones may be published with a delay.
    let read = || {
        let report: serde_json::Value = serde_json::from_str(&shown(&["stat", &pid, "--json"])).unwrap();
        report["rows"].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    wait_until("counters of an idle process are current", || read() >= 7 << 20);
    assert!(shown(&["stat", &pid]).contains("sha256"));

    waiting.child.kill().unwrap();
    waiting.child.wait().unwrap();
    assert!(!shown(&["stat", "--list"]).lines().any(|line| line.split_whitespace().next() == Some(&pid)));
    let (status, message) = status_and_stderr(&run(&["stat", &pid]));
    assert_eq!((status, message), (1, format!("gantry: process {pid}: there is no such process\n")));
}

/// Checks the message about a running process.
fn expect_no_gantry(mut child: Child) {
    let (status, message) = status_and_stderr(&run(&["stat", &child.id().to_string()]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status, 1);
    assert!(message.contains("does not use Gantry"), "{message}");
}

#[test]
fn a_process_without_gantry_is_reported_as_such() {
    expect_no_gantry(Command::new("sleep").arg("60").spawn().unwrap());
}

#[test]
fn disabled_statistics_are_not_found() {
    let mut command = command(&["sum", "-"]);
    let mut child = command.env("GANTRY_STATS", "off").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&vec![7; 8 << 20]).unwrap();
    expect_no_gantry(child);
}

#[test]
fn statistics_in_a_folder_outlive_the_process() {
    let folder = Folder::new("stat-folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let file = folder.write("file", "text").display().to_string();
    let stats = format!("stats={}", folder.path().display());
    let mut command = command(&["sum", &file]);
    let mut child = command.env("GANTRY_STATS", folder.path()).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let output = run(&["stat", &child.id().to_string(), "--set", &stats]);
    assert!(text(&output.stdout).contains("digest") && text(&output.stderr).contains("has ended"), "{output:?}");
}

#[test]
fn a_folder_that_others_can_write_to_is_not_trusted() {
    let folder = Folder::new("stat-open");
    let open = folder.path().join("gantry");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let (status, message) = status_and_stderr(&run(&["stat", "--list", "--set", &format!("stats={}", open.display())]));
    assert_eq!((status, message), (1, format!("gantry: {}: other users may write to it\n", open.display())));
}

#[test]
fn exactly_one_of_process_command_and_list_is_required() {
    for arguments in [&["stat"][..], &["stat", "--list", "1"], &["stat", "x"], &["stat", "1", "--", "true"]] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

//! `gantry top` about a running `gantry sum`, and in a terminal.

mod gantry;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gantry::{Folder, command, run, text};
use gantry_lab::wait_until;
use serde_json::Value;

/// `gantry sum` that has read [`READ`] bytes, and waits for more.
struct Waiting(Child);

const READ: u64 = 8 << 20;

impl Waiting {
    fn new() -> Self {
        let mut child =
            command(&["sum", "-a", "sha256", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&vec![7; usize::try_from(READ).unwrap()]).unwrap();
        let waiting = Self(child);
        wait_until("all bytes are counted", || {
            let output = run(&["stat", &waiting.pid(), "--json"]);
            output.status.success() && sum(&parsed(&output.stdout)["rows"], "bytes") == READ
        });
        waiting
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn sum(rows: &Value, field: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
}

#[test]
fn json_agrees_with_stat() {
    let waiting = Waiting::new();
    let top = run(&["top", "--once", "--json", "--interval", "0.1"]);
    assert_eq!((top.status.code(), text(&top.stderr)), (Some(0), String::new()));
    let top = parsed(&top.stdout);
    let stat = parsed(&run(&["stat", &waiting.pid(), "--json"]).stdout);
    let pid: u32 = waiting.pid().parse().unwrap();
    let process = top["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid).unwrap();
    assert_eq!((&process["program"], &process["processes"]), (&"gantry".into(), &1.into()));
    for field in ["requests", "bytes"] {
        let counted = sum(&stat["rows"], field);
        assert!(counted > 0);
        assert_eq!(process[field], counted, "{field}");
        assert_eq!(sum(&process["work"], field), counted, "{field}");
    }
    // The process is idle.
    assert_eq!(
        (&process["requests_per_s"], &process["host"], &process["p99_ns"]),
        (&0.0.into(), &Value::Null, &Value::Null)
    );
    let work = &process["work"][0];
    let row = stat["rows"].as_array().unwrap().iter().find(|row| row["device"] == work["device"]).unwrap();
    assert_eq!((&work["algorithm"], &work["operation"]), (&row["algorithm"], &row["operation"]));
}

#[test]
fn work_in_the_interval_has_a_rate() {
    let mut waiting = Waiting::new();
    let pid: u32 = waiting.pid().parse().unwrap();
    let mut top = command(&["top", "--json", "--interval", "0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut worked = false;
    let start = Instant::now();
    while !worked && start.elapsed() < Duration::from_mins(1) {
        waiting.0.stdin.as_mut().unwrap().write_all(&vec![7; 4 << 20]).unwrap();
        // Each line is a complete report.
        let report = parsed(lines.next().unwrap().unwrap().as_bytes());
        let process = report["processes"].as_array().unwrap().iter().find(|process| process["pid"] == pid);
        worked = process.is_some_and(|process| {
            let number = |field: &str| process[field].as_f64().unwrap();
            number("requests_per_s") > 0.0 && number("mb_per_s") > 0.0 && process["devices"] == 1.0
        });
    }
    top.kill().unwrap();
    top.wait().unwrap();
    assert!(worked);
}

#[test]
fn prints_one_table_without_a_terminal() {
    let waiting = Waiting::new();
    for arguments in [&["top", "--interval", "0.1"][..], &["top", "--once", "--interval", "0.1"]] {
        let top = run(arguments);
        assert!(top.status.success());
        let table = text(&top.stdout);
        let has_header = |first: [&str; 2]| table.lines().any(|line| line.split_whitespace().take(2).eq(first));
        assert!(has_header(["PID", "PROCS"]) && has_header(["DEVICE", "ALGORITHM"]), "{table}");
        assert!(table.lines().any(|line| line.split_whitespace().next() == Some(&waiting.pid())), "{table}");
        assert!(!table.contains('\x1b'), "{table}");
    }
}

#[test]
fn takes_the_width_of_a_pipe_from_the_variable_columns() {
    let _waiting = Waiting::new();
    let shown = |columns: &str| {
        let top = command(&["top", "--once", "--interval", "0.1"]).env("COLUMNS", columns).output().unwrap();
        assert!(top.status.success());
        text(&top.stdout)
    };
    let narrow = shown("40");
    assert!(narrow.contains("PID  PROGRAM") && narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    for none in ["", "0", "-40", "wide", "300"] {
        let table = shown(none);
        assert!(table.contains("PID  PROCS  USER"), "{none}: {table}");
    }
}

#[test]
fn wrong_options_are_refused() {
    for (arguments, part) in [
        (&["top", "--interval", "0.05"][..], "not a number from 0.1 to 86400"),
        (&["top", "--interval", "nan"], "not a number from 0.1 to 86400"),
        (&["top", "--policy", "latency"], "--policy has no effect on gantry top"),
    ] {
        let (code, message) = gantry::failure(arguments);
        assert!(code == 2 && message.contains(part), "{arguments:?}: {code} {message}");
    }
}

/// `gantry top` in a terminal.
struct Terminal {
    script: Child,
    folder: Folder,
}

impl Terminal {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let inner = format!(
            "cd '{}'; stty cols 80 rows 24; stty -g > before; \
             sh -c 'echo $$ > pid; exec env --default-signal=HUP,INT,TERM \"{}\" top --interval 0.1'; \
             echo $? > status; stty -g > after",
            folder.path().display(),
            env!("CARGO_BIN_EXE_gantry"),
        );
        let screen = File::create(folder.path().join("screen")).unwrap();
        let script = Command::new("script")
            .args(["-qefc", &inner, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(screen)
            .spawn()
            .unwrap();
        Self { script, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("screen")).unwrap()).into_owned()
    }

    /// Waits for a word on the screen. Several words do not work, because some blanks between words are cursor movements.
    fn shows(&self, part: &str) {
        wait_until(part, || self.screen().contains(part));
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the exit status of `gantry top` as in shells, and checks that the terminal is restored.
    fn end(mut self) -> String {
        wait_until("the view ends", || {
            fs::read_to_string(self.path("after")).is_ok_and(|settings| !settings.is_empty())
        });
        let _ = self.script.wait();
        let [before, after, status] =
            ["before", "after", "status"].map(|name| fs::read_to_string(self.path(name)).unwrap());
        assert_eq!(before, after, "the settings of the terminal");
        let screen = self.screen();
        for (on, off) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")] {
            assert!(screen.rfind(on) < screen.rfind(off), "{off:?} comes last: {screen:?}");
        }
        status.trim().to_owned()
    }
}

#[test]
fn q_quits_and_restores_the_terminal() {
    let waiting = Waiting::new();
    let mut terminal = Terminal::new("top-quit");
    terminal.shows(&waiting.pid());
    terminal.shows("sha256");
    terminal.press("?");
    terminal.shows("Esc");
    terminal.press("q");
    assert_eq!(terminal.end(), "0");
}

#[test]
fn signals_end_the_view_and_restore_the_terminal() {
    for (signal, status) in [("TERM", "143"), ("HUP", "129"), ("INT", "130")] {
        let terminal = Terminal::new("top-signals");
        terminal.shows("total");
        let pid = fs::read_to_string(terminal.path("pid")).unwrap();
        gantry::signal(signal, pid.trim());
        assert_eq!(terminal.end(), status, "{signal}");
    }
}

#[test]
fn control_keys_send_their_signals() {
    let mut terminal = Terminal::new("top-keys");
    terminal.shows("total");
    // No shell could continue a job of this terminal, so the kernel does not stop the program, and the program redraws.
    terminal.press("\x1a");
    wait_until("the view is back", || terminal.screen().matches("\x1b[?1049h").count() == 2);
    terminal.press("?");
    terminal.shows("Esc");
    terminal.press("\x03");
    assert_eq!(terminal.end(), "130");
}

//! Reports of measurements: their machine and date, interrupted measurements, and tables that fit into terminals.

mod gantry;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use gantry::{Folder, command, failure, find, json, run, signal, stdout, text};
use serde_json::Value;

/// Returns the standard output of shell commands in a terminal with `columns` columns. `$g` is the program.
fn terminal(columns: usize, commands: &str, variables: &[(&str, &str)]) -> String {
    let commands = format!("stty cols {columns}; g={}; {commands}", env!("CARGO_BIN_EXE_gantry"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &commands, "/dev/null"]).stdin(Stdio::null());
    script.env("XDG_CONFIG_HOME", "/nonexistent").env("TERM", "xterm").env_remove("NO_COLOR");
    let output = script.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    text(&output.stdout).replace('\r', "")
}

#[test]
fn rows_have_machine_date_and_spread() {
    let arguments = ["sha256", "--device", "software", "--bytes", "64", "--batch", "1,16", "--queue-depth", "8"];
    let rows = json(&[&["speed", "--json", "--seconds", "0.4"], &arguments[..]].concat());
    assert!(rows.iter().any(|row| row["rounds"].as_u64().unwrap() >= 4), "{rows:?}");
    for row in &rows {
        // On a busy machine, few rounds may be complete.
        let rounds = row["rounds"].as_u64().unwrap();
        assert_eq!((row["spread"].is_null(), row["outliers"].is_null()), (rounds < 4, rounds < 4), "{row}");
        assert!(row["spread"].as_f64().is_none_or(|spread| spread >= 0.0), "{row}");
        assert!(row["outliers"].as_u64().is_none_or(|outliers| outliers <= rounds), "{row}");
        assert!(row["gantry_version"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")), "{row}");
        assert!(!row["cpu_model"].as_str().unwrap().is_empty(), "{row}");
        let date = row["date"].as_str().unwrap();
        assert!(date.len() == 20 && date.starts_with("20") && date.ends_with('Z'), "{row}");
    }
    let at = |level: &str| {
        let set = format!("cpu={level}");
        json(&["--set", &set, "speed", "md5", "--bytes", "64", "--batch", "1", "--seconds", "0.001", "--json"])
    };
    assert_eq!(at("base")[0]["cpu_level"], "base");
    let off = json(&["--devices", "lanes=off", "speed", "md5", "--bytes", "64", "--seconds", "0.001", "--json"]);
    assert_eq!(off[0]["cpu_level"], "none");
}

#[test]
fn drawings_have_machine_and_date_and_are_svg() {
    let folder = Folder::new("plot-machine");
    let file = folder.path().join("speed.svg").display().to_string();
    let point = ["--bytes", "64", "--batch", "1", "--seconds", "0.001"];
    let rows = json(&[&["speed", "sha256", "--json", "--plot", &file][..], &point].concat());
    let svg = fs::read_to_string(&file).unwrap();
    let image = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = image.descendants().filter_map(|node| node.text()).collect();
    let field = |name: &str| rows[0][name].as_str().unwrap();
    let machine = format!("{}, level {}", field("cpu_model"), field("cpu_level"));
    assert!(texts.contains(&machine.as_str()), "{machine}: {texts:?}");
    let program = format!("gantry {}, {}", field("gantry_version"), field("date"));
    assert!(texts.contains(&program.as_str()), "{program}: {texts:?}");
    for name in ["x.png", "x", "svg"] {
        let (code, message) = failure(&["speed", "sha256", "--plot", name]);
        assert!(code == 2 && message.contains("drawings are SVG: FILE.svg"), "{message}");
        assert!(!std::path::Path::new(name).exists());
    }
}

#[test]
fn a_family_is_measured_completely_and_commas_separate_names() {
    let names = |arguments: &[&str]| {
        let options = ["--device", "software", "--bytes", "32", "--batch", "1", "--seconds", "0.001", "--json"];
        let rows = json(&[&["speed"], arguments, &options[..]].concat());
        let mut names: Vec<String> = rows.iter().map(|row| row["algorithm"].as_str().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    assert_eq!(names(&["p256"]), ["ecdsa-p256", "ecdh-p256"]);
    assert_eq!(names(&["sha256,md5", "sha1"]), ["sha256", "md5", "sha1"]);
    assert_eq!(names(&["sha3-*"]), ["sha3-224", "sha3-256", "sha3-384", "sha3-512"]);
    assert_eq!(names(&["gcm"]), ["aes-128-gcm", "aes-192-gcm", "aes-256-gcm"]);
    assert_eq!(failure(&["speed", "sha257"]).0, 2);
    assert_eq!(json(&["route", "ecdsa,ed25519", "--json"]).len(), 2);
}

/// Asks the command to end. A shell that runs the tests in the background would ignore SIGINT.
fn terminate(child: &Child) {
    signal("TERM", child.id());
}

const SLOW_MEASUREMENT: [&str; 10] =
    ["speed", "sha256", "--device", "software", "--bytes", "64", "--batch", "1,2,4,8", "--seconds", "2"];

#[test]
fn an_interrupted_command_prints_the_row_in_progress() {
    let mut child = command(&SLOW_MEASUREMENT).arg("--csv").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("algorithm,") && lines.next().unwrap().starts_with("sha256,"));
    // The next row is in progress by then, and takes two seconds.
    thread::sleep(Duration::from_millis(300));
    terminate(&child);
    let rows: Vec<String> = lines.collect();
    assert!(!rows.is_empty() && rows.len() < 3, "the interrupted row, and perhaps an earlier one: {rows:?}");
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn json_and_drawings_are_complete_after_an_interruption() {
    let folder = Folder::new("early");
    let file = folder.path().join("early.svg").display().to_string();
    let mut child =
        command(&SLOW_MEASUREMENT).args(["--json", "--plot", &file]).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let blocked = || {
        let status = fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & (1 << 14) != 0
    };
    while !blocked() {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(500));
    terminate(&child);
    let mut message = String::new();
    child.stdout.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    let rows: Vec<Value> = serde_json::from_str(&message).unwrap();
    assert!(rows.len() < 4, "{message}");
    assert!(roxmltree::Document::parse(&fs::read_to_string(&file).unwrap()).is_ok());
}

#[test]
fn rows_appear_when_they_are_measured() {
    let mut command = command(&["speed", "sha256", "--device", "software", "--bytes", "64", "--batch", "1,2"]);
    let mut child = command.args(["--seconds", "1.5", "--csv"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.by_ref().take(2).last().unwrap().unwrap();
    assert!(first.starts_with("sha256,digest,software,64,1,"), "{first}");
    assert!(child.try_wait().unwrap().is_none(), "the second row is complete, too");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn tables_fit_into_terminals_and_name_omitted_columns() {
    let cache = Folder::new("tables");
    let cache = cache.path().display().to_string();
    let speed = "$g speed sha256 chacha20-poly1305 --bytes 64 --seconds 0.001 2>/dev/null";
    let tables = [
        "$g devices",
        "$g devices lanes",
        "$g algorithms",
        "$g route sha256",
        "$g tune sha256 2>/dev/null",
        "$g check --seconds 0 --algorithm md5 2>/dev/null",
        speed,
    ];
    for columns in [80, 100] {
        for table in tables {
            let shown = terminal(columns, table, &[("NO_COLOR", "1"), ("XDG_CACHE_HOME", &cache)]);
            // Paths may be longer than the terminal is wide.
            let of_tables = shown.lines().filter(|line| !line.contains("Wycheproof"));
            let widest = of_tables.max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= columns, "{columns} {table}: {widest}");
        }
    }
    let shown = terminal(80, tables[2], &[]);
    assert!(shown.contains("\n(no room for ") && shown.contains("SOURCE, ALIASES)\n"), "{shown}");
    assert!(terminal(300, tables[2], &[]).lines().next().unwrap().ends_with("ALIASES"));
    // A pipe gets the complete table.
    let piped = stdout(&["algorithms"]);
    assert!(piped.lines().next().unwrap().ends_with("ALIASES"), "{piped}");
    assert_eq!(terminal(40, "$g algorithms | cat", &[]), piped);
}

#[test]
fn only_terminals_that_allow_colours_get_them() {
    let check = "$g check --seconds 0 --algorithm md5 2>/dev/null";
    assert!(terminal(80, check, &[]).contains("\x1b[32mpassed\x1b[0m"));
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!terminal(80, check, &[variable]).contains('\x1b'), "{variable:?}");
    }
    let piped = run(&["check", "--seconds", "0", "--algorithm", "md5"]);
    assert!(!text(&piped.stdout).contains('\x1b'));
}

#[test]
fn csv_has_the_fields_of_json() {
    let csv = stdout(&["speed", "sha256", "--csv", "--bytes", "64", "--batch", "1", "--seconds", "0.001"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let rows: Vec<Value> = lines
        .map(|cells| {
            assert_eq!(cells.len(), header.len());
            header
                .iter()
                .zip(cells)
                .map(|(name, cell)| ((*name).to_owned(), cell.into()))
                .collect::<serde_json::Map<_, _>>()
        })
        .map(Value::Object)
        .collect();
    let row = find(&rows, "device", "software");
    assert!(row["cpu_s"].as_str().unwrap().parse::<f64>().unwrap() > 0.0, "{row}");
    assert!(row["date"].as_str().unwrap().starts_with("20"), "{row}");
}

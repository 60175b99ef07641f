//! What is there, and how the command fails.

mod gantry;

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use ::gantry::Algorithm;
use gantry::{Folder, command, failure, find, json, names, run, stdout, text};

#[test]
fn devices_are_listed_with_their_state() {
    let devices = json(&["devices", "--json"]);
    let names = names(&devices);
    assert_eq!(names[..3], ["software", "lanes", "null"]);
    let software = find(&devices, "name", "software");
    assert_eq!((&software["class"], &software["state"]), (&"software".into(), &"ready".into()));
    assert!(software["algorithms"].as_array().unwrap().len() > 70);
    let null = find(&devices, "name", "null");
    assert_eq!(null["state"], "excluded");
    assert!(null["reason"].as_str().unwrap().contains("off by default"));

    let table = stdout(&["devices"]);
    assert!(table.starts_with("NAME "), "{table}");
    assert_eq!(table.lines().count(), 1 + devices.len());
}

#[test]
fn a_device_is_shown_with_what_its_known_answer_tests_say() {
    let device = serde_json::from_str::<serde_json::Value>(&stdout(&["devices", "lanes", "--json"])).unwrap();
    let sha256 = find(device["algorithms"].as_array().unwrap(), "algorithm", "sha256");
    assert_eq!(sha256["admitted"], true);
    assert_eq!(sha256["streaming"], true);
    assert!(sha256["lanes"].as_u64().unwrap() > 1);
    let page = stdout(&["devices", "lanes"]);
    assert!(page.contains("class        simd") && page.contains("sha256"), "{page}");
}

#[test]
fn every_algorithm_is_listed_with_those_who_serve_it() {
    let algorithms = json(&["algorithms", "--json"]);
    assert_eq!(algorithms.len(), Algorithm::ALL.len());
    let ccm = find(&algorithms, "name", "aes-256-ccm");
    assert_eq!(ccm["key"], serde_json::json!({ "min": 32, "max": 32, "step": 1 }));
    assert_eq!(ccm["kernel"], "ccm(aes)");
    let chacha = find(&algorithms, "name", "chacha20-poly1305");
    assert_eq!(chacha["devices"], serde_json::json!(["software"]));
    assert_eq!(find(&algorithms, "name", "null")["devices"], serde_json::json!([]));
    let table = stdout(&["algorithms"]);
    assert!(table.lines().any(|line| line.starts_with("null ") && line.contains(" nobody ")), "{table}");
    let with_null = json(&["algorithms", "--json", "--devices", "null=on"]);
    assert_eq!(find(&with_null, "name", "null")["devices"], serde_json::json!(["null"]));
}

#[test]
fn names_that_do_not_exist_get_a_suggestion() {
    let devices = json(&["devices", "--json"]);
    let no_tape = format!("gantry: there is no device 'tape'; there are {}\n", names(&devices).join(", "));
    for (arguments, message) in [
        (&["devices", "lane"][..], "gantry: there is no device 'lane'; did you mean lanes?\n"),
        (&["devices", "tape"], &no_tape),
        (&["speed", "sha265"], "gantry: unknown algorithm 'sha265'; did you mean sha256 or sha224?\n"),
        (&["speed", "sha256", "--device", "lane"], "gantry: there is no device 'lane'; did you mean lanes?\n"),
        (&["check", "--algorithm", "md6"], "gantry: unknown algorithm 'md6'; did you mean md5?\n"),
        (&["check", "--device", "softwar"], "gantry: there is no device 'softwar'; did you mean software?\n"),
    ] {
        assert_eq!(failure(arguments), (2, message.to_owned()));
    }
    for (arguments, part) in [
        (&["device"][..], "'devices'"),
        (&["speed", "--bytez", "3"], "a similar argument exists: '--bytes'"),
        (&["speed", "--bytes", "0"], "not a number from 1 on"),
        (&["speed", "--seconds", "nan"], "not a number up to 86400"),
        (&["speed", "--json", "--csv"], "cannot be used with"),
        (&["speed", "--operation", "encrpyt"], "a similar value exists: 'encrypt'"),
        (&["completions", "tcsh"], "possible values"),
    ] {
        let (code, message) = failure(arguments);
        assert!(code == 2 && message.contains(part), "{arguments:?}: {code} {message}");
    }
}

#[test]
fn an_option_that_would_change_nothing_is_a_mistake() {
    for (arguments, part) in [
        (&["openssl", "config", "--undo"][..], "the following required arguments were not provided"),
        (&["speed", "sha256", "--plot", "x.png"], "drawings are SVG: FILE.svg"),
        (&["tune", "sha256", "--plot", "x.png"], "drawings are SVG: FILE.svg"),
        (&["--policy", "pin:lanes", "kernel"], "--policy changes nothing about gantry kernel"),
        (&["openssl", "info", "--devices", "null=on"], "--devices changes nothing about gantry openssl"),
        (&["config", "keys", "--set", "cpu=avx2"], "--set changes nothing about gantry config keys"),
        (&["config", "path", "--policy", "latency"], "--policy changes nothing about gantry config path"),
        (&["completions", "bash", "--policy", "latency"], "--policy changes nothing about gantry completions"),
        (&["manual"], "the following required arguments were not provided"),
        (&["stat", "--list", "--policy", "latency"], "without a COMMAND, no option but --set stats=FOLDER"),
        (&["stat", "1", "--set", "cpu=avx2"], "without a COMMAND, no option but --set stats=FOLDER"),
    ] {
        let (code, message) = failure(arguments);
        assert!(code == 2 && message.contains(part), "{arguments:?}: {code} {message}");
    }
    let speed = ["speed", "x25519", "--device", "software", "--batch", "1", "--seconds", "0.001", "--bytes", "64"];
    let output = run(&speed);
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "gantry: x25519 takes 32 bytes, whatever --bytes says\n");
}

#[test]
fn a_full_disk_under_stdout_is_a_failure() {
    for arguments in [
        &["devices"][..],
        &["algorithms", "--json"],
        &["config", "keys"],
        &["completions", "bash"],
        &["--help"],
        &["speed", "sha256", "--seconds", "0.001", "--bytes", "16", "--batch", "1"],
        &["check", "--algorithm", "md5", "--device", "software", "--seconds", "0"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(arguments).stdout(full).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert_eq!(message, "gantry: standard output: No space left on device\n", "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_the_program_silently() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output =
        command(&["devices"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGPIPE));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn an_interrupted_measurement_ends_by_the_signal() {
    let child = command(&["speed", "sha256", "--seconds", "1000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let killed = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
}

#[test]
fn help_teaches_and_versions_are_told() {
    let help = stdout(&["--help"]);
    assert!(help.contains("Examples:") && help.contains("gantry sum -c SHA256SUMS"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    assert!(stdout(&["help", "sum"]).contains("--ignore-missing"));
    assert_eq!(stdout(&["--version"]), format!("gantry {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&[]).status.code(), Some(2));
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let folder = Folder::new("manual");
    let [man, completions] = ["man", "completions"].map(|name| folder.path().join(name).display().to_string());
    stdout(&["manual", "--man", &man, "--completions", &completions]);
    for page in ["", "-devices", "-algorithms", "-check", "-speed", "-sum", "-stat", "-top", "-config", "-completions"]
    {
        let page = std::fs::read_to_string(format!("{man}/gantry{page}.1")).unwrap();
        assert!(page.starts_with(".TH gantry") && page.contains(".SH NAME"), "{page}");
    }
    let main = std::fs::read_to_string(format!("{man}/gantry.1")).unwrap();
    assert!(main.contains("GANTRY_POLICY") && main.contains(".SH \"EXIT STATUS\""), "{main}");
    for script in ["gantry.bash", "_gantry", "gantry.fish"] {
        let script = std::fs::read_to_string(format!("{completions}/{script}")).unwrap();
        for word in ["algorithms", "compare", "ignore-missing"] {
            assert!(script.contains(word), "{word}");
        }
    }
}

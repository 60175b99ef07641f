//! Lists of devices and algorithms, help, manual pages, completions, and failures of the command.

mod gantry;

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use ::gantry_core::Algorithm;
use gantry::{Folder, command, failure, find, json, names, notes, run, signal, stdout, text};

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
fn a_device_is_shown_with_the_results_of_its_known_answer_tests() {
    let device = serde_json::from_str::<serde_json::Value>(&stdout(&["devices", "lanes", "--json"])).unwrap();
    let sha256 = find(device["algorithms"].as_array().unwrap(), "algorithm", "sha256");
    assert_eq!(sha256["admitted"], true);
    assert_eq!(sha256["streaming"], true);
    assert!(sha256["lanes"].as_u64().unwrap() > 1);
    let page = stdout(&["devices", "lanes"]);
    assert!(page.contains("class        simd") && page.contains("sha256"), "{page}");
}

#[test]
fn every_algorithm_is_listed_with_its_devices() {
    let algorithms = json(&["algorithms", "--json"]);
    assert_eq!(algorithms.len(), Algorithm::ALL.len());
    let ccm = find(&algorithms, "name", "aes-256-ccm");
    assert_eq!(ccm["key"], serde_json::json!({ "min": 32, "max": 32, "step": 1 }));
    assert_eq!(ccm["kernel"], "ccm(aes)");
    let chacha = find(&algorithms, "name", "chacha20-poly1305");
    assert_eq!(chacha["devices"], serde_json::json!(["software"]));
    assert_eq!(find(&algorithms, "name", "null")["devices"], serde_json::json!([]));
    let table = stdout(&["algorithms"]);
    assert!(table.lines().any(|line| line.starts_with("null ") && line.contains(" none ")), "{table}");
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
        (&["speed", "sha265"], "gantry: unknown algorithm 'sha265'; did you mean sha256, sha224 or sha3-256?\n"),
        (&["speed", "sha256", "--device", "lane"], "gantry: there is no device 'lane'; did you mean lanes?\n"),
        (&["check", "--algorithm", "md6"], "gantry: unknown algorithm 'md6'; did you mean md5?\n"),
        (&["check", "--device", "softwar"], "gantry: there is no device 'softwar'; did you mean software?\n"),
    ] {
        assert_eq!(failure(arguments), (2, message.to_owned()));
    }
    for (arguments, part) in [
        (&["device"][..], "'devices'"),
        (&["speed", "--bytez", "3"], "a similar argument exists: '--bytes'"),
        (&["speed", "--bytes", "0"], "not a positive integer"),
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
fn an_option_without_effect_is_refused() {
    for (arguments, part) in [
        (&["openssl", "config", "--undo"][..], "the following required arguments were not provided"),
        (&["speed", "sha256", "--plot", "x.png"], "drawings are SVG: FILE.svg"),
        (&["tune", "sha256", "--plot", "x.png"], "drawings are SVG: FILE.svg"),
        (&["verity", "format", "data", "hash", "--policy", "latency"], "--policy has no effect on gantry verity"),
        (&["--devices", "lanes=off", "torrent", "root", "data"], "--devices has no effect on gantry torrent"),
        (&["--policy", "pin:lanes", "kernel"], "--policy has no effect on gantry kernel"),
        (&["openssl", "config", "--devices", "null=on"], "--devices has no effect on gantry openssl"),
        (&["advise", "--policy", "latency"], "--policy has no effect on gantry advise"),
        (&["esp", "status", "--policy", "latency"], "--policy has no effect on gantry esp status"),
        (&["advise", "--seconds", "3"], "the following required arguments were not provided"),
        (&["advise", "--pid", "1", "--", "true"], "cannot be used with"),
        (&["config", "keys", "--set", "cpu=avx2"], "--set has no effect on gantry config keys"),
        (&["config", "path", "--policy", "latency"], "--policy has no effect on gantry config path"),
        (&["completions", "bash", "--policy", "latency"], "--policy has no effect on gantry completions"),
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
    assert_eq!(notes(&output), ["gantry: x25519 takes 32 bytes; --bytes is ignored"]);
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
fn a_closed_pipe_ends_the_program_silently() {
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
    signal("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    // It prints its results first, unless the measurement had not begun.
    let printed = text(&output.stdout);
    assert!(printed.is_empty() || serde_json::from_str::<Vec<serde_json::Value>>(&printed).is_ok(), "{printed}");
}

#[test]
fn help_has_examples_and_version_is_printed() {
    let help = stdout(&["--help"]);
    assert!(help.contains("Examples:") && help.contains("gantry sum -c SHA256SUMS"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    assert!(stdout(&["help", "sum"]).contains("--ignore-missing"));
    assert_eq!(stdout(&["--version"]), format!("gantry {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&[]).status.code(), Some(2));
}

/// Writes the files for installers to a folder. Returns the folder, and a function that reads a file by its path below PREFIX.
fn installed(name: &str) -> (Folder, impl Fn(&str) -> String) {
    let folder = Folder::new(name);
    let root = folder.path().display().to_string();
    stdout(&["manual", &root]);
    let read = move |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    (folder, read)
}

/// Returns the names of subcommands, as listed in the help.
fn commands(path: &[&str]) -> Vec<String> {
    let help = stdout(&[path, &["--help"]].concat());
    let rows = help.split_once("Commands:\n").map_or("", |(_, rows)| rows.split("\n\n").next().unwrap());
    let rows = rows.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let (_folder, read) = installed("manual");
    for command in commands(&[]) {
        let page = read(&format!("share/man/man1/gantry-{command}.1"));
        assert!(page.starts_with(&format!(".TH gantry-{command} 1")) && page.contains(".SH NAME"), "{page}");
        for sub in commands(&[&command]) {
            let below = read(&format!("share/man/man1/gantry-{command}-{sub}.1"));
            assert!(below.contains("SEE ALSO") && below.contains(&format!("\\fBgantry\\-{command}")), "{below}");
            assert!(page.contains(&format!("gantry\\-{command}\\-{sub}(1)")), "{page}");
        }
    }
    assert_eq!(commands(&["config"]), ["show", "keys", "path"]);
    // `sum` prints its own help, which does not list subcommands.
    let audit = read("share/man/man1/gantry-sum-audit.1");
    for part in ["MANIFEST", "DIR", "cache", "EXAMPLES", "2 if something could not be compared", "\\fBgantry\\-sum\\fR"]
    {
        assert!(audit.contains(part), "{part}: {audit}");
    }
    assert!(!audit.contains("ignore\\-missing") && !audit.contains("policy"), "{audit}");
    assert!(read("share/man/man1/gantry-sum.1").contains("gantry\\-sum\\-audit(1)"));
    let main = read("share/man/man1/gantry.1");
    assert!(main.contains(".SH \"EXIT STATUS\"") && !main.contains("gantry\\-manual"), "{main}");
    let file = read("share/man/man5/gantry.toml.5");
    for key in ["policy", "GANTRY_POLICY", "verify", "/etc/gantry/gantry.toml"] {
        assert!(file.contains(key), "{key}: {file}");
    }
    let tool = read("lib/gantry/share/man/man1/sha256sum.1");
    assert!(tool.contains("ignore\\-missing") && tool.contains("256\\-bit") && !tool.contains("progress"), "{tool}");
}

#[test]
fn options_of_the_configuration_are_shown_where_they_have_an_effect() {
    assert!(stdout(&["route", "--help"]).contains("--policy"));
    assert!(stdout(&["esp", "serve", "--help"]).contains("--policy"));
    for command in [&["top"][..], &["kernel"], &["config", "path"], &["openssl", "config"], &["esp", "exec"]] {
        let help = stdout(&[command, &["--help"]].concat());
        assert!(!help.contains("--policy"), "{help}");
    }
    // `sum` parses its own options as getopt would. It has no options of the configuration, and no -h.
    let sum = stdout(&["help", "sum"]);
    assert!(!sum.contains("--policy POLICY") && !sum.contains("-h,"), "{sum}");
}

/// Returns bash's suggestions for the last of these words.
fn suggestions(completions: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "{}\nCOMP_WORDS=({}); COMP_CWORD={}\n_gantry gantry \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        completions,
        quoted.join(" "),
        words.len() - 1,
    );
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn shells_complete_names() {
    let (_folder, read) = installed("completions");
    let completions = read("share/bash-completion/completions/gantry");
    let suggestions = |words: &[&str]| suggestions(&completions, words);
    assert_eq!(suggestions(&["gantry", "man"]), [""], "a hidden command");
    assert!(suggestions(&["gantry", "st"]).contains(&"stat".to_owned()));
    for (words, name) in [
        (&["gantry", "speed", "sha2"][..], "sha256"),
        (&["gantry", "speed", "--device", "la"], "lanes"),
        (&["gantry", "check", "--algorithm", "ed"], "ed25519"),
        (&["gantry", "route", "aes-256-g"], "aes-256-gcm"),
        (&["gantry", "sum", "-a", "md"], "md5"),
        (&["gantry", "sum", "--algorithm", "md"], "md5"),
        (&["gantry", "sum", "aud"], "audit"),
        (&["gantry", "sum", "audit", "--js"], "--json"),
        (&["gantry", "sum", "audit", "-a", "blake3"], "blake3"),
        (&["gantry", "--policy", "fail"], "failover"),
        (&["gantry", "route", "--policy", "fail"], "failover"),
        (&["gantry", "--set", "thr"], "threads=4"),
        (&["gantry", "--devices", "null=o"], "null=on"),
        (&["gantry", "devices", "so"], "software"),
    ] {
        assert!(suggestions(words).contains(&name.to_owned()), "{words:?}: {:?}", suggestions(words));
    }
    // A cipher is not a digest, and commands without a configuration have no options of the configuration.
    assert_eq!(suggestions(&["gantry", "sum", "-a", "aes"]), [""]);
    // `audit` does not have this option.
    assert_eq!(suggestions(&["gantry", "sum", "audit", "--par"]), [""]);
    assert_eq!(suggestions(&["gantry", "sum", "audit", "--pol"]), [""]);
    assert_eq!(suggestions(&["gantry", "top", "--pol"]), [""]);
    // --device of `esp serve` is a network device.
    assert_eq!(suggestions(&["gantry", "esp", "serve", "--device", "la"]), [""]);
    for script in ["share/zsh/site-functions/_gantry", "share/fish/vendor_completions.d/gantry.fish"] {
        let script = read(script);
        assert!(script.contains("ignore-missing") && script.contains("aes-256-gcm"), "{script}");
    }
}

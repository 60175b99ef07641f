//! The layers of the configuration, as `gantry config` shows them.

mod gantry;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use gantry::{Folder, command, status_and_stderr, text};
use serde_json::Value;

/// Prepares a command with `user` as the content of the user's file, `named` as the content of the file that `GANTRY_CONFIG` names, and
/// these variables.
fn configured(
    folder: &Folder,
    user: &str,
    named: Option<&str>,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Command {
    folder.write("gantry/gantry.toml", user);
    let mut command = command(arguments);
    command.env_remove("GANTRY_CPU").env("XDG_CONFIG_HOME", folder.path()).envs(variables.iter().copied());
    if let Some(named) = named {
        command.env("GANTRY_CONFIG", folder.write("named.toml", named));
    }
    command
}

fn run(folder: &Folder, user: &str, named: Option<&str>, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    configured(folder, user, named, variables, arguments).output().unwrap()
}

fn show(output: &Output, key: &str) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    gantry::find(&rows, "key", key).clone()
}

#[test]
fn later_sources_win_and_every_value_has_an_origin() {
    let folder = Folder::new("layers");
    let user = "threads = 3\npolicy = \"round-robin\"\n[devices]\nnull = \"on\"\n";
    let named = "\npolicy = \"pin:software\"\n";
    let shows = ["config", "show", "--json"];

    let output = run(&folder, user, None, &[], &shows);
    let path = folder.path().join("gantry/gantry.toml").display().to_string();
    let policy =
        serde_json::json!({ "key": "policy", "value": "round-robin", "origin": "file", "from": path, "line": 2 });
    assert_eq!(show(&output, "policy"), policy);
    let null = show(&output, "devices.null");
    assert_eq!((&null["value"], &null["line"]), (&"on".into(), &4.into()));
    assert_eq!(show(&output, "cpu"), serde_json::json!({ "key": "cpu", "value": "auto", "origin": "default" }));

    let output = run(&folder, user, Some(named), &[], &shows);
    let policy = show(&output, "policy");
    assert_eq!((&policy["value"], &policy["line"]), (&"pin:software".into(), &2.into()));
    assert!(policy["from"].as_str().unwrap().ends_with("named.toml"));
    assert_eq!(show(&output, "threads")["value"], "3", "the user's file still counts for other keys");

    let variables = [("GANTRY_POLICY", "failover:lanes,software")];
    let policy = show(&run(&folder, user, Some(named), &variables, &shows), "policy");
    assert_eq!((&policy["value"], &policy["from"]), (&"failover:lanes,software".into(), &"GANTRY_POLICY".into()));

    let arguments = ["config", "show", "--json", "--set", "policy=pin:lanes"];
    let policy = show(&run(&folder, user, Some(named), &variables, &arguments), "policy");
    assert_eq!((&policy["value"], &policy["from"]), (&"pin:lanes".into(), &"--set policy=pin:lanes".into()));

    let table = text(&run(&folder, user, None, &[], &["config", "show"]).stdout);
    assert!(table.contains(&format!("{path}:2")), "{table}");
}

#[test]
fn mistakes_are_reported_with_place_and_remedy() {
    let folder = Folder::new("mistakes");
    let path = folder.path().join("gantry/gantry.toml").display().to_string();
    let devices = gantry::json(&["devices", "--json"]);
    for (user, variables, message) in [
        ("\n\npolcy = 1\n", &[][..], format!("{path}:3: unknown key 'polcy'; did you mean policy?")),
        ("cpu = \"sse2\"\n", &[], format!("{path}:1: cpu cannot be 'sse2': it is auto, avx512, vaes, avx2 or base")),
        ("threads = 0\n", &[], format!("{path}:1: threads cannot be '0': it is auto or a number from 1 on")),
        ("[devices]\nlane = \"off\"\n", &[], format!("{path}:2: there is no device 'lane'; did you mean lanes?")),
        (
            "[devices]\nsoftware = \"off\"\n",
            &[],
            format!("{path}:2: software cannot be turned off: requests end up there when all other devices fail"),
        ),
        (
            "devices.lanes = \"off\"\npolicy = \"pin:lanes\"\n",
            &[],
            format!("{path}:2: the policy names the device 'lanes', which is turned off by {path}:1"),
        ),
        (
            "",
            &[("GANTRY_POLICY", "pin:gpu")],
            format!("GANTRY_POLICY: there is no device 'gpu'; there are {}", gantry::names(&devices).join(", ")),
        ),
        ("", &[("GANTRY_POLICES", "x")], "GANTRY_POLICES: no such variable; did you mean GANTRY_POLICY?".into()),
        ("", &[("GANTRY_CONFIG", "/nowhere")], "/nowhere: No such file or directory".into()),
        ("", &[("GANTRY_CONFIG", "/dev/zero")], "/dev/zero: larger than 16 MiB".into()),
        ("", &[("GANTRY_CONFIG", "/proc")], "/proc: Is a directory".into()),
    ] {
        for arguments in [&["config", "show"][..], &["devices"], &["speed", "sha256"]] {
            let output = run(&folder, user, None, variables, arguments);
            assert_eq!(status_and_stderr(&output), (2, format!("gantry: {message}\n")), "{user}");
        }
        let (code, sum) = status_and_stderr(&run(&folder, user, None, variables, &["sum", "/dev/null"]));
        assert_eq!((code, sum), (1, format!("gantry sum: {message}\n")));
        // A mistake is only a warning under the name of a coreutils tool: scripts that run the tool do not know Gantry.
        let as_tool = |arguments: &[&str]| {
            let mut command = configured(&folder, user, None, variables, arguments);
            command.arg0("md5sum").output().unwrap()
        };
        let list = folder.write("list", "d41d8cd98f00b204e9800998ecf8427e  /dev/null\n").display().to_string();
        let output = as_tool(&["/dev/null"]);
        assert_eq!(text(&output.stdout), "d41d8cd98f00b204e9800998ecf8427e  /dev/null\n");
        let warning = format!("md5sum: warning: {message}; gantry uses its defaults\n");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), warning));
        assert_eq!(status_and_stderr(&as_tool(&["--status", "-c", &list])), (0, String::new()));
    }
    let (code, message) = status_and_stderr(&run(&folder, "policy = \n", None, &[], &["devices"]));
    assert!(code == 2 && message.starts_with(&format!("gantry: {path}:1: ")), "{message}");
    assert_eq!(gantry::failure(&["--set", "cpu", "devices"]).0, 2);
}

#[test]
fn the_list_of_keys_is_a_valid_file() {
    let folder = Folder::new("keys");
    let keys = gantry::stdout(&["config", "keys"]);
    let output = run(&folder, &keys, None, &[], &["config", "show", "--json"]);
    assert_eq!(show(&output, "policy")["origin"], "default", "everything is commented out");
    for key in ["devices", "policy", "cpu", "threads"] {
        assert!(keys.contains(&format!("GANTRY_{}", key.to_uppercase())), "{keys}");
    }
}

#[test]
fn files_are_listed_in_their_order() {
    let folder = Folder::new("path");
    let output = run(&folder, "", Some(""), &[], &["config", "path"]);
    let lines = text(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("/etc/gantry/gantry.toml"));
    assert_eq!(lines[1], folder.path().join("gantry/gantry.toml").display().to_string());
    assert_eq!(lines[2], folder.path().join("named.toml").display().to_string());
}

#[test]
fn options_before_sum_apply_to_it() {
    let good = gantry::stdout(&["--set", "threads=1", "--policy", "pin:software", "sum", "-a", "sha1", "/dev/null"]);
    assert_eq!(good, "da39a3ee5e6b4b0d3255bfef95601890afd80709  /dev/null\n");
    let (code, message) = gantry::failure(&["--policy", "pin:gpu", "sum", "/dev/null"]);
    assert_eq!(code, 1);
    assert!(message.starts_with("gantry sum: --policy pin:gpu: there is no device 'gpu'"), "{message}");
}

#[test]
fn the_book_has_every_key() {
    let book = include_str!("../../docs/src/configuration.md");
    let rows: Vec<&str> =
        book.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)).collect();
    for key in gantry_runtime::KEYS {
        let named = |row: &str| row == key.name || row.strip_suffix(".NAME") == Some(key.name);
        assert!(rows.iter().any(|row| named(row)), "{}: {rows:?}", key.name);
    }
}

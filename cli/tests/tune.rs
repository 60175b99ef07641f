//! `gantry tune` and `gantry route`: measurements, the cache, and routes.

mod gantry;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gantry::{Folder, command, status_and_stderr, text};
use serde_json::Value;

/// Prepares a command that keeps the costs of devices in this folder.
fn with_cache(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("XDG_CACHE_HOME", cache);
    command
}

/// Returns stdout and stderr of a command. The command must succeed.
fn answer(cache: &Path, arguments: &[&str]) -> (String, String) {
    let output = with_cache(cache, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the JSON of a command. The command must succeed without a warning.
fn value(cache: &Path, arguments: &[&str]) -> Value {
    let (answer, warnings) = self::answer(cache, &[arguments, &["--json"]].concat());
    assert_eq!(warnings, "", "{arguments:?}");
    serde_json::from_str(&answer).unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Returns the complete files in the cache.
fn cached_files(cache: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(cache.join("gantry")) else { return Vec::new() };
    let files = entries.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

/// Returns the costs in the cache, as device, algorithm and operation.
fn costs(cache: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in cached_files(cache) {
        let content: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for cost in content["costs"].as_array().unwrap() {
            let name = |field: &str| cost[field].as_str().unwrap().to_owned();
            let cells = cost["cells"].as_array().unwrap();
            assert!(cells.iter().all(|cell| cell[2].as_u64() > Some(0) && cell[3].as_f64() > Some(0.0)), "{cost}");
            found.insert([name("device"), name("algorithm"), name("operation")].join(" "));
        }
    }
    found
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn tune_reports_the_sizes_at_which_each_device_is_the_fastest() {
    let cache = Folder::new("tune");
    let rows = value(cache.path(), &["tune", "sha256"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2 * 6, "two devices, six numbers of requests in flight");
    for row in rows {
        assert_eq!(keys(row), BTreeSet::from(["algorithm", "operation", "device", "batch", "fastest"]));
        assert_eq!((&row["algorithm"], &row["operation"]), (&"sha256".into(), &"digest".into()));
        for range in row["fastest"].as_array().unwrap() {
            let (from, to) = (range[0].as_u64().unwrap(), range[1].as_u64());
            assert!(from >= 16 && (range[1].is_null() || to.unwrap() >= from), "{row}");
        }
    }
    assert!(rows.iter().any(|row| row["fastest"] != serde_json::json!([])));
    // For the smallest and for the largest requests, at most one of the two devices is the fastest.
    for batch in [1, 2, 4, 8, 16, 64] {
        let has_batch = |row: &&Value| row["batch"] == batch;
        let begins = |row: &Value| row["fastest"].as_array().unwrap().iter().any(|range| range[0] == 16);
        let ends = |row: &Value| row["fastest"].as_array().unwrap().iter().any(|range| range[1].is_null());
        assert!(rows.iter().filter(has_batch).filter(|row| begins(row)).count() <= 1, "{rows:?}");
        assert!(rows.iter().filter(has_batch).filter(|row| ends(row)).count() <= 1, "{rows:?}");
    }
    assert_eq!(cached_files(cache.path()).len(), 1);
    assert_eq!(costs(cache.path()), names(&["lanes sha256 digest", "software sha256 digest"]));

    let (table, _) = answer(cache.path(), &["tune", "cbc(aes)"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ALGORITHM ") && lines[0].ends_with("64 IN FLIGHT"), "{table}");
    // Three key sizes: two devices encrypt, and one decrypts.
    let rows = lines.iter().filter(|line| line.starts_with("aes-")).count();
    assert_eq!(rows, 3 * 3, "{table}");
    assert!(costs(cache.path()).contains("lanes sha256 digest"), "earlier costs are kept");
}

#[test]
fn tune_draws_its_results() {
    let cache = Folder::new("tune-plot");
    let file = cache.path().join("tune.svg").display().to_string();
    answer(cache.path(), &["tune", "sha256", "--plot", &file]);
    let svg = fs::read_to_string(&file).unwrap();
    let image = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = image.descendants().filter_map(|node| node.text()).collect();
    for text in ["sha256 digest", "MB/s", "lanes, batch 16", "software, batch 1", "64 Ki"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    // Lines through 13 sizes; lines of the legend have two points.
    let lines = image.descendants().filter_map(|node| node.attribute("points"));
    assert_eq!(lines.filter(|points| points.split(' ').count() == 13).count(), 2 * 3);

    let cache = Folder::new("tune-plot-barred");
    let output = with_cache(cache.path(), &["tune", "sha256", "--plot", "/nowhere/tune.svg"]).output().unwrap();
    assert_eq!(status_and_stderr(&output), (1, "gantry: /nowhere/tune.svg: No such file or directory\n".to_owned()));
    assert_eq!(costs(cache.path()), names(&[]), "reported before anything is measured");
}

#[test]
fn route_explains_a_choice_without_measuring_twice() {
    let cache = Folder::new("route");
    let route = value(cache.path(), &["route", "sha256", "--bytes", "1000", "--batch", "17"]);
    let expected = ["algorithm", "operation", "bytes", "batch", "policy", "routes", "devices"];
    assert_eq!(keys(&route), BTreeSet::from(expected));
    assert_eq!((&route["bytes"], &route["batch"], &route["policy"]), (&1000.into(), &17.into(), &"latency".into()));
    let routes = route["routes"].as_array().unwrap();
    assert!(routes.iter().all(|part| keys(part) == BTreeSet::from(["device", "requests", "reason"])), "{route}");
    assert_eq!(routes.iter().map(|part| part["requests"].as_u64().unwrap()).sum::<u64>(), 17);
    let devices = route["devices"].as_array().unwrap();
    let device_names: Vec<&str> = devices.iter().map(|device| device["device"].as_str().unwrap()).collect();
    assert_eq!(device_names, ["software", "lanes"]);
    for device in devices {
        assert_eq!(keys(device), BTreeSet::from(["device", "wall_ns", "cpu_ns", "measurements", "age_s"]));
        assert!(device["measurements"].as_u64() > Some(0) && device["age_s"].as_u64() < Some(600), "{device}");
        assert!(device["wall_ns"].as_f64().unwrap() > 0.0 && device["cpu_ns"].as_f64().unwrap() > 0.0);
    }
    // The second answer uses the measurements of the first.
    let again = value(cache.path(), &["route", "sha256", "--bytes", "1000", "--batch", "17"]);
    let times = |route: &Value| -> Vec<Value> {
        route["devices"].as_array().unwrap().iter().map(|device| device["wall_ns"].clone()).collect()
    };
    assert_eq!(times(&again), times(&route));

    let (page, _) = answer(cache.path(), &["route", "sha256", "--bytes", "64", "--batch", "4"]);
    assert!(page.starts_with("sha256 digest, 64 bytes, 4 in flight, policy latency\n\nREQUESTS  DEVICE"), "{page}");
    assert!(page.contains("\nDEVICE ") && page.contains("TIME FOR 4"), "{page}");

    // A name that stands for several algorithms has several answers.
    let all = value(cache.path(), &["route", "cbc(aes)", "--bytes", "4096", "--operation", "decrypt"]);
    let operations: Vec<&Value> = all.as_array().unwrap().iter().map(|route| &route["operation"]).collect();
    assert_eq!(operations, ["decrypt"; 3]);
    assert_eq!(all[0]["routes"][0]["reason"], "only-choice");
}

#[test]
fn route_gives_the_reasons_of_each_policy() {
    let cache = Folder::new("route-policies");
    let measured = ["fastest", "split", "busy", "trial"];
    for (policy, name, reasons) in [
        ("latency", "latency", &measured[..]),
        ("throughput", "throughput", &measured[..]),
        ("offload", "offload", &["least-cpu", "fastest", "split", "busy", "trial"]),
        ("break-even", "break-even", &["enough-requests", "too-few"]),
        ("pin:lanes", "pin", &["pinned"]),
        ("failover:lanes,software", "failover", &["first-in-order"]),
        ("round-robin", "round-robin", &["turn"]),
        ("size-threshold:2048,software,lanes", "size-threshold", &["below-threshold"]),
        ("size-threshold:512,software,lanes", "size-threshold", &["above-threshold"]),
    ] {
        let route = value(cache.path(), &["route", "sha256", "--batch", "16", "--policy", policy]);
        assert_eq!(route["policy"], name, "{policy}");
        for part in route["routes"].as_array().unwrap() {
            assert!(reasons.contains(&part["reason"].as_str().unwrap()), "{policy}: {part}");
        }
    }
    let output = with_cache(cache.path(), &["route", "sha256", "--policy", "latencie"]).output().unwrap();
    let (code, message) = status_and_stderr(&output);
    assert!(code == 2 && message.contains("latency"), "{code} {message}");
    let output = with_cache(cache.path(), &["route", "sha256", "--policy", "pin:lane"]).output().unwrap();
    let (code, message) = status_and_stderr(&output);
    assert!(code == 2 && message.contains("lanes"), "{code} {message}");
}

#[test]
fn absurd_arguments_are_refused() {
    let cache = Folder::new("route-absurd");
    for (arguments, code, part) in [
        (&["tune", "sha265"][..], 2, "unknown algorithm 'sha265'; did you mean sha256"),
        (&["route", "sha265"], 2, "unknown algorithm 'sha265'; did you mean sha256"),
        (&["route", "sha256", "--operation", "seal"], 2, "sha256 has no operation seal"),
        (&["route", "sha256", "--batch", "0"], 2, "not a positive integer"),
        (&["route", "sha256", "--bytes=-1"], 2, "--bytes"),
        (&["route", "sha256", "--bytes", "99999999999999999999"], 2, "--bytes"),
        (&["route", "aes-128-cbc", "--bytes", "1001"], 2, "aes-128-cbc takes no data of 1001 bytes"),
        (
            &["route", "sha256", "--bytes", "18446744073709551615"],
            2,
            "1 requests of 18446744073709551615 bytes do not fit",
        ),
        (&["route", "sha256", "--batch", "18446744073709551615"], 2, "do not fit into any memory"),
        (&["route", "sha256", "--bytes", "0", "--batch", "18446744073709551615"], 2, "do not fit into any memory"),
        (&["route", "null"], 1, "null"),
    ] {
        let output = with_cache(cache.path(), arguments).output().unwrap();
        let (status, message) = status_and_stderr(&output);
        assert!(status == code && message.contains(part), "{arguments:?}: {status} {message}");
    }
    let (page, _) = answer(cache.path(), &["route", "sha256", "--bytes", "1048576", "--batch", "8000000000000"]);
    assert!(page.starts_with("sha256 digest, 1048576 bytes, 8000000000000 in flight"), "{page}");
}

#[test]
fn an_unusable_cache_is_a_warning_and_no_failure() {
    // A file in place of the folder stops even root, unlike permissions.
    let file_in_the_way = |folder: &Folder| fs::write(folder.path().join("gantry"), "").unwrap();
    let folder_in_the_way = |folder: &Folder| {
        let file = cache_file(folder);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
    };
    let damaged = |folder: &Folder| fs::write(cache_file(folder), "{\"machine\":").unwrap();
    let cut = |folder: &Folder| {
        let file = cache_file(folder);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    };
    for (name, prepare, warning, keeps_file) in [
        ("file-in-the-way", &file_in_the_way as &dyn Fn(&Folder), "the costs of devices are not kept", false),
        (
            "folder-in-the-way",
            &folder_in_the_way,
            "is not a regular file; the costs of devices are measured again",
            false,
        ),
        ("damaged", &damaged, "is damaged", true),
        ("cut", &cut, "is damaged", true),
    ] {
        for arguments in [&["route", "sha256", "--json"][..], &["tune", "sha256", "--json"]] {
            let folder = Folder::new(name);
            prepare(&folder);
            let (answer, printed) = self::answer(folder.path(), arguments);
            assert!(printed.starts_with("gantry: ") && printed.contains(warning), "{name} {arguments:?}: {printed}");
            let answer: Value = serde_json::from_str(&answer).unwrap();
            if let Some(devices) = answer["devices"].as_array() {
                assert!(devices.iter().all(|device| device["wall_ns"].is_number()), "measured all the same: {answer}");
            }
            if keeps_file {
                assert_eq!(costs(folder.path()), names(&["lanes sha256 digest", "software sha256 digest"]), "{name}");
                value(folder.path(), &["route", "sha256"]);
            }
        }
    }
}

/// Makes a cache with the costs of SHA-256, and returns its file.
fn cache_file(folder: &Folder) -> PathBuf {
    answer(folder.path(), &["tune", "sha256"]);
    cached_files(folder.path()).pop().unwrap()
}

#[test]
fn a_cache_of_another_user_is_neither_read_nor_written() {
    let folder = Folder::new("foreign");
    let file = cache_file(&folder);
    let before = fs::read(&file).unwrap();
    // Only root can give files away.
    if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
        return gantry_lab::skip("root");
    }
    let folder_of_cache = file.parent().unwrap();
    std::os::unix::fs::chown(folder_of_cache, Some(12_345), None).unwrap();
    let (_, printed) = answer(folder.path(), &["tune", "sha256"]);
    assert!(printed.contains("belongs to another user"), "{printed}");
    assert!(printed.contains("not kept"), "{printed}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn concurrent_runs_leave_a_valid_cache() {
    let folder = Folder::new("at-once");
    let tune = |algorithm| {
        let mut command = with_cache(folder.path(), &["tune", algorithm]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for child in ["sha1", "sha256", "sha256"].map(tune) {
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    }
    // The last writer may have missed the other one's results, which are then measured again later.
    let costs = costs(folder.path());
    let costs_of = |algorithm: &str| ["lanes", "software"].map(|device| format!("{device} {algorithm} digest"));
    assert!(
        costs_of("sha1").iter().all(|name| costs.contains(name))
            || costs_of("sha256").iter().all(|name| costs.contains(name))
    );
    let files = fs::read_dir(folder.path().join("gantry")).unwrap().count();
    assert_eq!(files, 1, "no incomplete files are left");
    value(folder.path(), &["route", "sha256"]);
}

#[test]
fn a_killed_run_leaves_the_old_cache_or_a_valid_one() {
    let folder = Folder::new("killed");
    let file = cache_file(&folder);
    let before = costs(folder.path());
    // Tuning everything takes seconds, so kill the run once before and once after its first result.
    for wait_for_a_result in [false, true] {
        let old = fs::read(&file).unwrap();
        let mut child =
            with_cache(folder.path(), &["tune"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while wait_for_a_result && fs::read(&file).unwrap() == old {
            assert!(child.try_wait().unwrap().is_none(), "the run ended without results");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(costs(folder.path()).is_superset(&before), "valid, with the earlier costs");
        value(folder.path(), &["route", "sha256"]);
    }
    // Without an earlier cache, a killed run leaves no cache or a valid one.
    let empty = Folder::new("killed-empty");
    let mut child = with_cache(empty.path(), &["tune"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    costs(empty.path());
    value(empty.path(), &["route", "sha256"]);
}

//! `gantry sum` hashes every file on the device that the framework chooses.

mod gantry;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use gantry::{Folder, command, text};
use serde_json::Value;

/// Bytes hashed on each device.
type Bytes = BTreeMap<String, u64>;

/// Prepares `gantry` with one thread. It keeps the costs of devices in this folder.
fn gantry_in(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path()).env("GANTRY_THREADS", "1");
    command
}

/// Runs `gantry sum` under a policy, compares its output with the output of coreutils, and returns the bytes by device.
fn hashed_on(folder: &Folder, policy: &str, files: &[String]) -> Bytes {
    let program = env!("CARGO_BIN_EXE_gantry");
    let mut stat = gantry_in(folder, &["--policy", policy, "stat", "--json", "-o", "report.json", "--"]);
    let ours = stat.args([program, "sum", "-a", "sha256"]).args(files).output().unwrap();
    let theirs = Command::new("/usr/bin/sha256sum").current_dir(folder.path()).args(files).output().unwrap();
    assert_eq!((text(&ours.stdout), text(&ours.stderr)), (text(&theirs.stdout), String::new()), "{policy}");
    let mut bytes = Bytes::new();
    let report: Value = serde_json::from_slice(&fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    for row in report["rows"].as_array().unwrap() {
        *bytes.entry(row["device"].as_str().unwrap().to_owned()).or_default() += row["bytes"].as_u64().unwrap();
    }
    bytes
}

/// Creates files of these sizes; returns their names and their total size.
fn files(folder: &Folder, sizes: &[usize]) -> (Vec<String>, u64) {
    let write = |(number, size): (usize, &usize)| {
        let name = format!("file{number}");
        folder.write(&name, &"x".repeat(*size));
        name
    };
    (sizes.iter().enumerate().map(write).collect(), sizes.iter().sum::<usize>() as u64)
}

/// Creates small and large files.
fn mixed(folder: &Folder) -> (Vec<String>, u64) {
    let sizes: Vec<usize> = (0..60).map(|number| if number % 3 == 0 { 150_000 + 9000 * number } else { 700 }).collect();
    files(folder, &sizes)
}

/// Creates large files, two of which take much longer than the others.
fn two_long_files(folder: &Folder) -> (Vec<String>, u64) {
    files(folder, &[140_000, 140_000, 140_000, 2_000_000, 140_000, 140_000, 140_000, 2_000_000])
}

/// Stores costs under which the lanes take as long for any number of messages as plain software takes for `messages` messages.
fn write_costs(folder: &Folder, messages: f64) {
    let tuned = gantry_in(folder, &["tune", "sha256"]).output().unwrap();
    assert!(tuned.status.success(), "{}", text(&tuned.stderr));
    let file = fs::read_dir(folder.path().join("gantry")).unwrap().next().unwrap().unwrap().path();
    let mut content = read(&file);
    for costs in content["costs"].as_array_mut().unwrap() {
        let lanes = costs["device"] == "lanes";
        for cell in costs["cells"].as_array_mut().unwrap() {
            let (requests, bytes) = (cell[0].as_f64().unwrap(), cell[1].as_f64().unwrap());
            let time = if lanes { messages } else { requests } * (100.0 + bytes);
            (cell[3], cell[4]) = (time.into(), time.into());
        }
    }
    fs::write(file, content.to_string()).unwrap();
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_pinned_device_hashes_everything() {
    let folder = Folder::new("sum-pinned");
    let (files, all) = mixed(&folder);
    for device in ["software", "lanes"] {
        let bytes = hashed_on(&folder, &format!("pin:{device}"), &files);
        assert_eq!(bytes, Bytes::from([(device.to_owned(), all)]));
    }
}

#[test]
fn slow_lanes_hash_nothing() {
    let folder = Folder::new("sum-slow-lanes");
    let (files, all) = mixed(&folder);
    write_costs(&folder, 1e4);
    assert_eq!(hashed_on(&folder, "latency", &files), Bytes::from([("software".to_owned(), all)]));
}

#[test]
fn the_last_files_stay_in_lanes_that_are_faster_for_two_files() {
    let folder = Folder::new("sum-fast-lanes");
    let (files, all) = two_long_files(&folder);
    write_costs(&folder, 1.5);
    assert_eq!(hashed_on(&folder, "latency", &files), Bytes::from([("lanes".to_owned(), all)]));
}

#[test]
fn the_last_files_leave_lanes_that_are_slower_for_two_files() {
    let folder = Folder::new("sum-left-lanes");
    let (files, all) = two_long_files(&folder);
    write_costs(&folder, 7.5);
    let bytes = hashed_on(&folder, "latency", &files);
    assert_eq!(bytes["software"], 4_000_000, "the two long files, from their beginning: {bytes:?}");
    assert!(bytes["lanes"] > 6 * 140_000 && bytes["lanes"] < all / 2, "{bytes:?}");
}

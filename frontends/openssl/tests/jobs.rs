//! Jobs of OpenSSL: data of several of them meet in a batch, and programs with jobs get what they get without gantry.

mod lab;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use lab::{Lab, installed, text};

/// In threads, with data units, with the same bytes in all jobs, and with jobs that wait in vain.
const SAME: &str = "the same\nthe same\nthe same\nthe same\n";
/// The same, but nobody may have waited when the last was tried: that is so where nothing is gained by it.
const SAME_AT_LEAST: &str = "the same\nthe same\nthe same\n";

/// `jobs.c` with a section, and with an engine that has faults: what it says, and requests of AES-128-CBC that were the host's and
/// the devices'.
fn said(lab: &Lab, program: &Path, section: &str, faults: &str) -> (String, [u64; 2]) {
    fs::create_dir_all(lab.path("gantry")).unwrap();
    lab.watch();
    let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000\"";
    lab.write("gantry/gantry.toml", format!("faults = \"{faults}\"\n[models]\n{model}\n"));
    let configuration = lab.configuration(&format!("CIPHERS = ALL\n{section}"));
    let output = lab.command(program.to_str().unwrap(), &configuration).arg(&configuration).output().unwrap();
    let [host, _, devices, ..] = lab::counted(lab)["AES-128-CBC"];
    (text(&output), [host, devices])
}

/// What became of jobs that were given up and forked is right, too, where any paused.
fn is_whole(answer: &str) -> bool {
    matches!(answer.lines().nth(3), Some("the same" | "never paused"))
}

#[test]
fn jobs_meet_and_give_what_each_gives_alone() {
    let lab = Lab::new("jobs");
    let program = lab.compile("tests/jobs.c");
    for (section, expected, led) in [
        ("", SAME_AT_LEAST, None),
        ("POLICY = pin:lanes", SAME, Some(true)),
        ("POLICY = pin:software", SAME, Some(true)),
        ("POLICY = pin:host", SAME_AT_LEAST, Some(false)),
        ("USE_SOFTDRIVERS = 0", SAME_AT_LEAST, Some(false)),
        ("FORCE_FAIL = yes", "failed\nfailed\nfailed\nnever paused\n", None),
    ] {
        let (answer, [_, devices]) = said(&lab, &program, section, "");
        assert!(answer.starts_with(expected) && is_whole(&answer), "{section}: {answer}");
        assert!(led.is_none_or(|led| (devices > 0) == led), "{section}: {devices} on devices");
    }
    // What an engine fails to do, loses, or never answers, is done elsewhere; no job notices.
    let engine = "DEVICES = model:faulty=on\nPOLICY = pin:model:faulty";
    for faults in ["errors=1/3", "gone=200", "after=100,stalls=1/1", "full=1/2,late=1/2"] {
        let (answer, _) = said(&lab, &program, engine, faults);
        assert!(answer.starts_with(SAME_AT_LEAST) && is_whole(&answer), "{faults}: {answer}");
    }
    // It is really in it.
    let (answer, _) = said(&lab, &program, engine, "after=100,wrong=1/1");
    assert!(answer.starts_with("different\n"), "{answer}");
}

/// The loop of `openssl speed` waits with `select` and takes one descriptor for each job.
#[test]
fn openssl_speed_fills_the_lanes() {
    if !installed("openssl") {
        return;
    }
    let lab = Lab::new("speed");
    lab.watch();
    let configuration = lab.configuration("CIPHERS = ALL\nPOLICY = pin:lanes");
    for (cipher, row) in [("aes-128-cbc", "AES-128-CBC"), ("aes-256-xts", "AES-256-XTS")] {
        let output =
            lab.sh(&format!("openssl speed -async_jobs 32 -seconds 1 -bytes 16384 -evp {cipher} 2>&1"), &configuration);
        assert!(output.status.success(), "{}", text(&output));
        let [host, _, devices, bytes, ..] = lab::counted(&lab)[row];
        // The last round may be smaller than is good for the lanes.
        assert!(devices > 32 && bytes == 16384 * devices && host <= 32, "{cipher}: {host} and {devices}");
    }
}

/// A libcrypto in the program has its jobs for itself.
#[test]
#[ignore = "long: make test-clients"]
fn jobs_of_other_releases_meet_where_libcrypto_is_a_library() {
    for (series, shared) in [("3.0", false), ("4.0", true), ("4.0", false)] {
        let lab = Lab::new(&format!("jobs-{series}-{shared}"));
        let libcrypto: Vec<OsString> = lab::libcrypto(&lab::openssl(series), shared);
        let program = lab.compile_with("tests/jobs.c", &libcrypto);
        let (answer, _) = said(&lab, &program, "POLICY = pin:lanes", "");
        let last = if shared { "the same" } else { "never paused" };
        assert_eq!(answer, format!("{SAME_AT_LEAST}{last}\n"), "{series} {shared}");
    }
}

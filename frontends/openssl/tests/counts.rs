//! The module's counters, as seen by the program itself and by others.

mod lab;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use gantry_runtime::stats::live_pages;
use lab::{Lab, everything, noise, text};

#[test]
fn requests_are_counted_and_nothing_is_printed() {
    let lab = Lab::new("stats");
    lab.write("plain", noise(100_000));
    lab.collect_statistics();
    let configuration = lab.configuration("SIGNATURES = NONE");
    let output = lab.sh("openssl enc -aes-128-cbc -K 00 -iv 00 -in plain -out sealed 2>/dev/null", &configuration);
    assert_eq!(text(&output), "");
    assert_ne!(lab::counters(&lab)["AES-128-CBC"].iter().sum::<u64>(), 0);
}

/// Algorithms that the configuration leaves to the default provider are counted, and the default provider serves them.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn counting_does_not_change_which_side_serves() {
    for (section, serves) in [("", false), ("CIPHERS = AES-128-CTR\nPOLICY = pin:software", true)] {
        let lab = Lab::new("counting");
        lab.write("plain", noise(1000));
        lab.collect_statistics();
        let encrypt =
            "openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00 -in plain -out sealed 2>/dev/null";
        let output = lab.sh(encrypt, &lab.configuration(section));
        assert!(output.status.success(), "{}", text(&output));
        let [default, _, devices, ..] = lab::counters(&lab)["AES-128-CTR"];
        assert_eq!((default > 0, devices > 0), (!serves, serves), "{section}");
    }
}

/// Returns the devices, requests and bytes of an algorithm in the page of a process.
fn counters_of_process(pid: u32, algorithm: &str, operation: &str) -> (String, u64, u64) {
    let page = live_pages().unwrap().into_iter().find(|page| page.pids.contains(&pid)).expect("the process has a page");
    let rows = page.read().unwrap().rows;
    let rows = rows.iter().filter(|row| (&*row.algorithm, &*row.operation) == (algorithm, operation));
    rows.fold((String::new(), 0, 0), |(devices, requests, bytes), row| {
        (devices + row.device.as_deref().unwrap_or("-"), requests + row.requests, bytes + row.bytes)
    })
}

/// The page also counts requests that go straight to the default provider, even in the middle of a message, and requests of a forked child.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn requests_left_to_the_default_provider_are_visible_to_others() {
    let lab = Lab::new("page");
    let program = lab.compile("tests/counted.c");
    let default_provider_only = "CIPHERS = ALL\nUSE_SOFTDRIVERS = 0".to_owned();
    for (section, device) in [(default_provider_only, "host"), (everything("POLICY = pin:software"), "software")] {
        let mut child = Command::new(&program)
            .arg(lab.configuration(&section))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for times in [1, 2] {
            assert_eq!(lines.next().unwrap().unwrap(), "ready");
            for (algorithm, operation, calls, bytes) in [
                ("aes-256-gcm", "seal", 20, 2000),
                ("aes-256-gcm", "open", 14, 1400),
                ("aes-128-gcm", "seal", 2, 131072),
            ] {
                let (by, requests, of) = counters_of_process(child.id(), algorithm, operation);
                assert_eq!((&*by, of), (device, times * bytes), "{algorithm} {operation}, {section}");
                // It is not specified how many requests a device gets.
                assert!(device != "host" || requests == times * calls, "{algorithm} {operation}: {requests}");
            }
            child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        }
        assert!(child.wait().unwrap().success());
    }
}

//! Programs that filter their own system calls (seccomp) after they have loaded the provider.

mod lab;

use std::fs;

use lab::groups::{ONLY_GROUPS, has_old_openssl};
use lab::{EVERYTHING, Lab, OFFLOADED, counters, text};

/// The messages that the program seals under its filter.
const MESSAGES: u64 = 10_000;

/// Runs `tests/filtered.c`, and returns the number of sealed messages that devices served.
fn sealed_by_devices(lab: &Lab, section: &str, arguments: [&str; 3]) -> u64 {
    let program = lab.path("program");
    let program = if program.exists() { program } else { lab.compile("tests/filtered.c") };
    lab.collect_statistics();
    let configuration = lab.configuration(section);
    let output = lab.command(program.to_str().unwrap(), &configuration).args(arguments).output().unwrap();
    assert_eq!(text(&output), "good\n", "{section}, {arguments:?}: {}", output.status);
    counters(lab)["AES-256-GCM"][2]
}

/// The device `software` serves every message, on every CPU.
fn is_served_if_pinned(name: &str, place: &str) {
    let lab = Lab::new(name);
    for (start, filter) in [("first", "kill"), ("later", "kill"), ("first", "refuse"), ("later", "refuse")] {
        let served = sealed_by_devices(&lab, OFFLOADED, [start, filter, place]);
        assert!(served >= MESSAGES || cfg!(not(feature = "software")), "{start}, {filter}: {served}");
    }
}

#[test]
fn a_filter_that_ends_the_program_allows_devices() {
    is_served_if_pinned("filters-here", "here");
}

#[test]
fn a_filter_in_a_child_of_a_fork_allows_devices() {
    is_served_if_pinned("filters-child", "child");
}

#[test]
fn a_filter_allows_devices_in_a_thread_that_starts_later() {
    is_served_if_pinned("filters-thread", "thread");
}

/// Keys are made and agree, and damaged shares are refused.
#[test]
fn a_filter_that_ends_the_program_allows_tls_groups() {
    if !has_old_openssl() {
        return;
    }
    let lab = Lab::new("filters-groups");
    let program = lab.compile("tests/groups.c");
    let configuration = lab.configuration(ONLY_GROUPS);
    for start in ["first", "later", "child"] {
        let output = lab.command(program.to_str().unwrap(), &configuration).arg(start).output().unwrap();
        assert_eq!(text(&output), "good\n", "{start}: {}", output.status);
    }
}

/// Devices are measured, and their costs stay in memory.
#[test]
fn a_filter_that_ends_the_program_allows_measurements() {
    let mut lab = Lab::new("filters-measure");
    lab.variables.push(("XDG_CACHE_HOME", lab.path("cache").display().to_string()));
    for section in [EVERYTHING, "", "POLICY = pin:lanes", "POLICY = latency"] {
        for (start, place) in [("first", "here"), ("later", "here"), ("first", "child"), ("first", "thread")] {
            sealed_by_devices(&lab, section, [start, "kill", place]);
        }
    }
    assert!(!lab.path("cache").exists());
}

/// On every CPU, the software device is faster than OpenSSL at one of the two algorithms.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn kept_costs_are_read_before_the_filter() {
    let mut lab = Lab::new("filters-kept");
    lab.variables.push(("XDG_CACHE_HOME", lab.path("cache").display().to_string()));
    lab.measure(EVERYTHING, "aes-256-gcm,ed25519");
    assert_eq!(fs::read_dir(lab.path("cache/gantry")).unwrap().count(), 1);
    sealed_by_devices(&lab, EVERYTHING, ["first", "kill", "here"]);
}

/// Devices outside the program need further system calls. The module detects a filter of these calls before the first request.
#[test]
fn a_filter_that_refuses_calls_leaves_all_to_openssl_if_a_device_of_the_kernel_is_on() {
    let lab = Lab::new("filters-kernel");
    let section = format!("{OFFLOADED}\nDEVICES = afalg=on");
    for place in ["here", "child"] {
        assert_eq!(sealed_by_devices(&lab, &section, ["first", "refuse", place]), 0, "{place}");
    }
}

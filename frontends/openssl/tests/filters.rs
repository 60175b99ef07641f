//! Programs that filter their own system calls (seccomp) after they have loaded the provider.

mod lab;

use lab::{EVERYTHING, Lab, OFFLOADED, counters, text};

/// The messages that the program seals.
const MESSAGES: u64 = 10_001;

/// Runs `tests/filtered.c`, and returns the requests that sealed messages on devices, at least one for each.
fn sealed_by_devices(lab: &Lab, section: &str, arguments: [&str; 2]) -> u64 {
    let program = lab.path("program");
    let program = if program.exists() { program } else { lab.compile("tests/filtered.c") };
    lab.watch();
    let configuration = lab.configuration(section);
    let output = lab.command(program.to_str().unwrap(), &configuration).args(arguments).output().unwrap();
    assert_eq!(text(&output), "good\n", "{section}, {arguments:?}: {}", output.status);
    counters(lab)["AES-256-GCM"][2]
}

#[test]
fn a_filter_that_refuses_calls_before_the_first_request_leaves_all_to_openssl() {
    let lab = Lab::new("filters-first");
    for section in [OFFLOADED, EVERYTHING, "POLICY = pin:lanes"] {
        assert_eq!(sealed_by_devices(&lab, section, ["first", "refuse"]), 0, "{section}");
    }
}

/// Measuring goes on, and the costs cannot be kept.
#[test]
fn a_filter_that_refuses_calls_after_the_first_request_allows_devices() {
    let mut lab = Lab::new("filters-later");
    lab.variables.push(("XDG_CACHE_HOME", lab.path("cache").display().to_string()));
    for (filter, is_kept) in [("refuse", false), ("allow", true)] {
        sealed_by_devices(&lab, EVERYTHING, ["later", filter]);
        assert_eq!(lab.path("cache").exists(), is_kept, "{filter}");
    }
    if cfg!(feature = "software") {
        assert!(sealed_by_devices(&lab, OFFLOADED, ["later", "refuse"]) >= MESSAGES);
    }
}

/// With a device by name there is nothing to measure or keep.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn a_filter_that_ends_the_program_after_the_first_request_allows_pinned_devices() {
    let lab = Lab::new("filters-kill");
    assert!(sealed_by_devices(&lab, OFFLOADED, ["later", "kill"]) >= MESSAGES);
}

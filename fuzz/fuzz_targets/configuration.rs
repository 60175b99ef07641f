//! A configuration file is untrusted text: it is accepted, with at most a multiple of its memory, or the error names an existing line.

#![no_main]

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::LazyLock;

use gantry_lab::memory::{CountingAllocator, run_within};
use gantry_runtime::{Config, Error, Origin};
use libfuzzer_sys::fuzz_target;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The file, in memory only. Files of this machine and its user are still read before it, but no variables.
static FILE: LazyLock<String> = LazyLock::new(|| {
    let file = memfd_create("gantry.toml", MFdFlags::empty()).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // The file stays open as long as the process runs.
    std::mem::forget(file);
    let variables: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in variables.iter().filter(|name| name.to_string_lossy().starts_with("GANTRY_")) {
        // SAFETY: libFuzzer calls the target from one thread, and no other thread uses variables.
        unsafe { std::env::remove_var(name) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("GANTRY_CONFIG", &path) };
    path
});

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|text: &str| {
    fs::write(&*FILE, text).unwrap();
    // The parser's own limit: a value of two bytes takes two hundred while the table grows.
    match run_within(256 * text.len() + (256 << 10), Config::from_env) {
        Ok(config) => assert!(!config.show().is_empty()),
        Err(Error::Setting { origin: Origin::File { line, .. }, problem }) => {
            assert!((1..=text.split('\n').count()).contains(&line), "{line}");
            assert!(!problem.is_empty());
        }
        Err(error) => panic!("{error}"),
    }
});

//! An `openssl.cnf` is untrusted text: it is read within a limit of memory, and every mistake has an error message.

#![no_main]

use gantry_lab::memory::{CountingAllocator, run_within};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/openssl/conf.rs"]
mod conf;

/// The parts of the program that `conf.rs` uses.
mod output {
    use std::fmt::Display;

    pub(crate) struct Failure;

    impl Failure {
        pub(crate) fn at(what: impl Display, error: &std::io::Error) -> String {
            format!("{what}: {error}")
        }
    }
}

fn openssl_output(_: &[&str]) -> Option<String> {
    None
}

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

fuzz_target!(|text: &str| {
    // Files of this machine are not part of the input.
    if text.contains(".include") {
        return;
    }
    let conf = run_within(64 << 20, || conf::Conf::parse(text, "x.cnf".as_ref()));
    run_within(64 << 20, || assert!(conf.problems().iter().all(|problem| !problem.is_empty())));
});

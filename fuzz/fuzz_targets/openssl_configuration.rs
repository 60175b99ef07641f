//! Any program may have written an `openssl.cnf`: it is read within a limit of memory, and there are words about whatever is wrong with it.

#![no_main]

use gantry_lab::memory::{Counting, within};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../cli/src/openssl/conf.rs"]
mod conf;

/// As much of the program's as `conf.rs` asks for.
mod output {
    use std::fmt::Display;

    pub(crate) struct Failure;

    impl Failure {
        pub(crate) fn at(what: impl Display, error: &std::io::Error) -> String {
            format!("{what}: {error}")
        }
    }
}

fn openssl_says(_: &[&str]) -> Option<String> {
    None
}

#[global_allocator]
static MEMORY: Counting = Counting;

fuzz_target!(|text: &str| {
    // Files of this machine are no part of the input.
    if text.contains(".include") {
        return;
    }
    let conf = within(64 << 20, || conf::Conf::of(text, "x.cnf".as_ref()));
    within(64 << 20, || assert!(conf.complaints().iter().all(|complaint| !complaint.is_empty())));
});

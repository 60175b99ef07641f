//! Tests that run in a guest, under a stock Debian kernel: what `lab/guest` does for programs, for one test.
//!
//! ```no_run
//! gantry_lab::in_guest! {
//!     /// The first string of the kernel's list of algorithms.
//!     ["--device", "virtio-crypto", "--modules", "aesni_intel"]
//!     fn the_kernel_lists_its_algorithms() {
//!         assert!(std::fs::read_to_string("/proc/crypto").unwrap().starts_with("name"));
//!     }
//! }
//! ```
//!
//! A guest that is to hang is a test with `#[should_panic(expected = "a task hangs in the guest's kernel")]`.
//!
//! On the machine itself such a test starts the guest, and in it this very program with this one test. It is ignored
//! unless asked for, because a guest takes seconds and needs QEMU: `cargo test -- --ignored`, or `make lab`.

#![forbid(unsafe_code)]

use std::process::{Command, Output};

/// Makes functions into tests that run in a guest. Before each one stand the options of `lab/guest run`, in brackets.
#[macro_export]
macro_rules! in_guest {
    ($($(#[$attribute:meta])* [$($option:expr),* $(,)?] fn $name:ident() $body:block)+) => {
        $($(#[$attribute])*
        #[test]
        #[ignore = "in a guest: make lab"]
        fn $name() {
            $crate::run(&[$($option),*], concat!(module_path!(), "::", stringify!($name)), || $body);
        })+
    };
}

/// The body of a test that [`in_guest!`] made: in a guest `body`, and elsewhere the guest in which it runs.
///
/// # Panics
/// With the guest's output before it, when the test failed there or the guest hung.
pub fn run(options: &[&str], test: &str, body: fn()) {
    if is_guest() {
        return body();
    }
    let output = start(options, test);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{text}");
    eprint!("{errors}");
    // What became of the guest itself, for tests that expect its end by `#[should_panic]`.
    let ends: Vec<&str> = errors.lines().filter(|line| line.starts_with("guest: ")).collect();
    // No test of that name would be a success, too.
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "in the guest: {}; {}", output.status, ends.join("; "));
}

/// Runs one test of this very program in a guest, named with its module path, and gives back what came of it.
fn start(options: &[&str], test: &str) -> Output {
    // libtest leaves out the crate.
    let test = test.split_once("::").map_or(test, |(_, path)| path);
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/guest"))
        .args(["run", "--arch", std::env::consts::ARCH])
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("lab/guest starts")
}

/// Whether this program runs in a guest of `lab/guest`.
pub fn is_guest() -> bool {
    std::env::var_os("LAB_GUEST").is_some()
}

//! Tests that run in a guest with a stock Debian kernel, through `lab/guest`.
//!
//! ```no_run
//! gantry_lab::in_guest! {
//!     ["--device", "virtio-crypto", "--modules", "aesni_intel"]
//!     /// The first entry of the kernel's list of algorithms.
//!     fn the_kernel_lists_its_algorithms() {
//!         assert!(std::fs::read_to_string("/proc/crypto").unwrap().starts_with("name"));
//!     }
//!     fn the_guest_has_its_own_kernel() {
//!         assert!(std::fs::read_to_string("/proc/version").unwrap().contains("Debian"));
//!     }
//!
//!     ["--append", "module_blacklist=af_alg"]
//!     fn a_guest_of_its_own() {}
//! }
//! ```
//!
//! Tests behind one list of options share a guest, because a boot costs more than most tests. They run one after the other, in the
//! order of their names. A test whose guest is meant to hang has a guest of its own, and
//! `#[should_panic(expected = "a task hangs in the guest's kernel")]`.
//!
//! Outside a guest, such a test starts the guest, unless a test that shares the guest has started it. The guest runs the same test
//! program with these tests. The tests are ignored by default, because a guest takes seconds and needs QEMU:
//! `cargo test -- --ignored`, or `make lab`.

#![deny(unsafe_code)]

/// The memory that work allocates.
pub mod memory;
/// Copies of programs.
mod program;
/// Keys in the memory of a process.
pub mod secrets;
/// Skipped tests.
mod skip;
/// Events in other threads and processes.
mod wait;

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use program::copy_program;
pub use skip::skip;
pub use wait::wait_until;

/// Makes functions into tests that run in guests. The options of `lab/guest run` are in brackets, followed by the tests that share a
/// guest.
#[macro_export]
macro_rules! in_guest {
    (@one $options:tt $names:tt $($(#[$attribute:meta])* fn $name:ident() $body:block)+) => {
        $($crate::in_guest! { @test $options $names $(#[$attribute])* fn $name() $body })+
    };
    (@test [$($option:expr),* $(,)?] [$($member:ident)+] $(#[$attribute:meta])* fn $name:ident() $body:block) => {
        $(#[$attribute])*
        #[test]
        #[ignore = "needs a guest: make lab"]
        fn $name() {
            let members = [$(concat!(module_path!(), "::", stringify!($member))),+];
            $crate::run(&[$($option),*], &members, concat!(module_path!(), "::", stringify!($name)), || $body);
        }
    };
    ($([$($option:tt)*] $($(#[$attribute:meta])* fn $name:ident() $body:block)+)+) => {
        $($crate::in_guest! { @one [$($option)*] [$($name)+] $($(#[$attribute])* fn $name() $body)+ })+
    };
}

/// The output of a guest, once it has ended.
type Guest = Arc<OnceLock<Output>>;

/// The guests of this program, by the first of their tests.
static GUESTS: Mutex<BTreeMap<&str, Guest>> = Mutex::new(BTreeMap::new());

/// Runs a test that [`in_guest!`] made. In a guest it runs `body`. Elsewhere it starts the guest of the tests in `members`, unless one of
/// them has done so, and reports the result that `test` has in the guest.
///
/// # Panics
/// If the test failed in the guest or the guest hung; the guest's output is printed before.
pub fn run(options: &[&str], members: &[&'static str], test: &'static str, body: fn()) {
    let (begin_line, passed_line) = (format!("lab: {test} begins"), format!("lab: {test} passed"));
    if is_guest() {
        println!("\n{begin_line}");
        body();
        println!("\n{passed_line}");
        return;
    }
    let guest = GUESTS.lock().unwrap_or_else(PoisonError::into_inner).entry(members[0]).or_default().clone();
    let output = guest.get_or_init(|| run_guest(options, members));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // The other tests print their own output.
    let own_output = text.split_once(&begin_line).map_or(&*text, |(_, rest)| rest);
    print!("{}", own_output.split("\nlab: ").next().unwrap_or(own_output));
    eprint!("{errors}");
    // Messages about the end of the guest itself, for tests that expect it with `#[should_panic]`.
    let guest_messages: Vec<&str> = errors.lines().filter(|line| line.starts_with("guest: ")).collect();
    assert!(
        text.lines().any(|line| line == passed_line),
        "in the guest: {}; {}",
        output.status,
        guest_messages.join("; ")
    );
}

/// Runs the tests with these names, which include the module path, in a guest, and returns the output.
fn run_guest(options: &[&str], tests: &[&str]) -> Output {
    // libtest's names of tests do not include the crate.
    let tests = tests.iter().map(|test| test.split_once("::").map_or(*test, |(_, path)| path));
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/guest"))
        .args(["run", "--arch", std::env::consts::ARCH])
        .args(options)
        .arg("--")
        .arg(std::env::current_exe().expect("a test knows its program"))
        .arg("--exact")
        .args(tests)
        .args(["--include-ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("lab/guest starts")
}

/// Returns the number of random calls for a test in a guest, and the seed: 100,000 calls, or LAB_CALLS. Each kernel has its own seed,
/// and therefore other calls.
pub fn random_calls() -> (usize, u64) {
    let calls = std::env::var("LAB_CALLS").map_or(100_000, |calls| calls.parse().expect("LAB_CALLS is a number"));
    let kernel = std::env::var("LAB_GUEST").unwrap_or_default();
    // FNV-1a; never zero, because some generators would stay at zero.
    let hash = kernel
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (calls, hash | 1)
}

/// Returns the series of the guest's kernel: `6.1` for 6.1.0-56-amd64.
///
/// # Panics
/// Outside a guest.
pub fn kernel_series() -> String {
    let kernel = std::env::var("LAB_GUEST").expect("in a guest");
    kernel.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Returns true if this program runs in a guest of `lab/guest`.
pub fn is_guest() -> bool {
    std::env::var_os("LAB_GUEST").is_some()
}

//! Makes right and wrong calls in every order. Results, outputs and error stacks equal those of the default provider, for each row that
//! is served.

mod lab;

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{EVERYTHING, Lab, everything, text};

/// A sequence of calls that differs, as `misuse.c` prints it.
#[derive(Debug)]
struct Difference<'l> {
    algorithm: &'l str,
    /// The calls up to the first whose result differs.
    calls: &'l str,
    /// The calls since the last call that set a nonce.
    message: &'l str,
    /// True if the last of `calls` succeeds with the default provider and fails with gantry.
    is_refused: bool,
}

impl<'l> Difference<'l> {
    fn new(line: &'l str) -> Self {
        let [calls, theirs, ours] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (algorithm, calls) = calls.trim().split_once(' ').unwrap();
        let results = |side: &'l str| side.split_whitespace().collect::<Vec<_>>();
        let (theirs, ours) = (results(theirs), results(ours));
        let first = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours).unwrap();
        // The first letter of a cipher's calls is its direction.
        let calls = &calls[..first + 1 + usize::from(calls.starts_with(['+', '-']))];
        let message = &calls[calls.rfind(['K', 'n', 'e']).unwrap_or(0)..];
        let is_refused = theirs[first].starts_with('1') && !ours[first].starts_with('1');
        Self { algorithm, calls, message, is_refused }
    }

    /// Returns true if the message has one of the `first` calls, and one of the `then` calls after it.
    fn has(&self, first: &[char], then: &[char]) -> bool {
        self.message.find(first).is_some_and(|at| self.message[at..].contains(then))
    }

    fn is_gcm(&self) -> bool {
        self.algorithm.ends_with("GCM")
    }

    fn is_aead(&self) -> bool {
        self.is_gcm() || self.algorithm == "ChaCha20-Poly1305"
    }
}

/// Calls with data, as `misuse.c` names them.
const DATA: [char; 6] = ['d', 'o', 'j', 'c', 'r', 'R'];

type Exception = (&'static str, fn(&Difference<'_>) -> bool);

/// Allowed differences in messages that a device serves, each with its reason. Without a named policy, no call differs.
const DECLARED: [Exception; 6] = [
    (
        "another key or direction in the middle of a message: OpenSSL continues with state of both keys, but a session has one key",
        |found| found.is_aead() && found.has(&DATA, &['k', 'v']),
    ),
    ("data after a refused tag: OpenSSL decrypts it under the same nonce, but a device's message has ended", |found| {
        found.is_gcm() && found.is_refused && found.has(&['f', 'C'], &DATA)
    }),
    (
        "another fixed part of the nonce in the middle of a message: OpenSSL continues under it, but a device's message has one nonce",
        |found| !found.is_gcm() && found.is_aead() && found.has(&DATA, &['x']),
    ),
    (
        "calls after a TLS record: OpenSSL continues under its nonce and returns a tag, but a device's record is complete",
        |found| found.is_aead() && found.calls.contains("hr"),
    ),
    ("a tag truncated after the data: RFC 8439 has no truncated tags, and a device compares whole tags", |found| {
        !found.is_gcm() && found.is_aead() && found.has(&DATA, &['4']) && found.message.ends_with(['f', 'C'])
    }),
    (
        "a tag that OpenSSL keeps: a header or a refused tag overwrites it, and OpenSSL 4.0 opens with the tag of an earlier seal",
        |found| {
            let is_overwritten = found.has(&['f', 'C'], &['w', 's', '4', 'h']) && found.message.ends_with('t');
            found.is_gcm() && (is_overwritten || ["eC", "ef"].contains(&found.message))
        },
    ),
];

/// Runs the sequences with a section of configuration. Returns the undeclared differences, and the numbers of differences, sequences and
/// rows.
fn run(command: &mut Command, lab: &Lab, section: &str, used: &mut [usize]) -> (Vec<String>, [usize; 3]) {
    let printed = text(&command.arg(lab.configuration(section)).output().unwrap());
    let (lines, count) = printed.trim_end().rsplit_once('\n').unwrap_or(("", &printed));
    let numbers: Vec<usize> = count.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [different, sequences, rows] = numbers[..] else { panic!("{section}: {printed}") };
    let undeclared = lines.lines().filter(|line| {
        let found = Difference::new(line);
        let exception = DECLARED.iter().position(|(_, is_declared)| is_declared(&found));
        exception.inspect(|exception| used[*exception] += 1).is_none()
    });
    (undeclared.map(str::to_owned).collect(), [different, sequences, rows])
}

/// Compares with the default configuration, with every row on the faster side, and with every row on a pinned device.
fn check(lab: &Lab, program: impl Fn() -> Command) {
    let pinned = ["POLICY = pin:software", "POLICY = pin:lanes"].map(everything);
    for section in [String::new(), EVERYTHING.to_owned()].iter().chain(&pinned) {
        let mut used = [0; DECLARED.len()];
        let (undeclared, [different, sequences, rows]) = run(&mut program(), lab, section, &mut used);
        let first = &undeclared[..undeclared.len().min(20)];
        assert!(undeclared.is_empty(), "{section}: {} sequences, such as {first:#?}", undeclared.len());
        if pinned.contains(section) {
            assert!(rows >= 21 && sequences > 100_000, "{section}: {rows} rows, {sequences} sequences");
        } else {
            assert_eq!(different, 0, "{section}: {used:?}");
        }
        if section.ends_with("pin:software") && cfg!(feature = "software") {
            let stale = DECLARED.iter().zip(used).find(|(_, used)| *used == 0);
            assert!(stale.is_none(), "{stale:?} is declared and does not occur");
        }
    }
}

#[test]
fn misuse_has_the_results_and_reasons_of_the_default_provider() {
    let lab = Lab::new("misuse");
    let program = lab.compile("tests/misuse.c");
    check(&lab, || Command::new(&program));
}

/// Digests and MACs stay with OpenSSL: EVP_MAC_final twice, an output of any length of SHA-1, the master secret of SSL 3.
#[test]
fn wrong_calls_of_digests_and_macs_have_the_results_of_the_default_provider() {
    let lab = Lab::new("untouched");
    let program = lab.compile("tests/untouched.c");
    for section in [String::new(), everything("POLICY = pin:software"), everything("POLICY = pin:lanes")] {
        let output = Command::new(&program).arg(lab.configuration(&section)).output().unwrap();
        assert_eq!(text(&output), "11 calls\n", "{section}");
    }
}

/// Builds `misuse.c` with the libcrypto of a release, which `scripts/openssl-command` fetches. Returns the program and its runner.
fn fetched(lab: &Lab, series: &str) -> (PathBuf, PathBuf) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/openssl-command");
    let output = Command::new(script).arg(series).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let folder = Path::new(std::str::from_utf8(&output.stdout).unwrap().trim()).parent().unwrap().to_owned();
    let found = Command::new("find").arg(&folder).args(["-name", "libcrypto.so.*"]).output().unwrap();
    let libcrypto = std::str::from_utf8(&found.stdout).unwrap().lines().next().expect("a libcrypto").to_owned();
    // The libraries of libcrypto are in the same folder.
    let arguments = [libcrypto.into(), "-Wl,--allow-shlib-undefined".into()];
    (lab.compile_with("tests/misuse.c", &arguments), folder.join("run"))
}

/// Compares with a release that this machine may lack.
fn check_fetched(series: &str) {
    let lab = Lab::new(&format!("misuse-{series}"));
    let (program, run) = fetched(&lab, series);
    check(&lab, || {
        let mut command = Command::new(&run);
        command.arg(&program);
        command
    });
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn misuse_has_the_results_and_reasons_of_3_5() {
    check_fetched("3.5");
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn misuse_has_the_results_and_reasons_of_4_0() {
    check_fetched("4.0");
}

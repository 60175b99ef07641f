//! Measurements by the installed `openssl speed`, for comparison.

use std::process::Output;

use gantry_core::{Algorithm, Kind, Operation};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::Group;
use super::measure::Measurement;
use crate::interrupt;
use crate::output::Failure;
use crate::program::program;

/// The installed `openssl speed`.
pub(super) struct Openssl {
    /// Operations that were found to be missing.
    missing: Vec<(Algorithm, Operation)>,
    /// True if the note about long messages was printed.
    noted_long_messages: bool,
}

impl Openssl {
    pub(super) fn find() -> Result<Self, Failure> {
        let output = run_openssl(&["version".to_owned()])?;
        if output.status.success() {
            Ok(Self { missing: Vec::new(), noted_long_messages: false })
        } else {
            Err(Failure::Failed(format!("openssl cannot be run: {}", output.status)))
        }
    }

    /// Measures the algorithm, operation and size of `group`, for whole seconds and one request at a time. Returns `None` if
    /// `openssl speed` lacks the operation, or signs only shorter messages. The first time, it also calls `note`. An interrupt gives
    /// `None`, too.
    pub(super) fn measure(
        &mut self,
        group: &Group,
        threads: usize,
        seconds: f64,
        note: &dyn Fn(&str),
    ) -> Result<Option<Measurement>, Failure> {
        let pair = (group.algorithm, group.operation);
        if self.missing.contains(&pair) {
            return Ok(None);
        }
        let mut report_missing = || {
            note(&format!("openssl speed has no {} {}", group.algorithm, group.operation));
            self.missing.push(pair);
            Ok(None)
        };
        let Some(SpeedArguments { words, prefix }) = speed_arguments(group.algorithm, group.operation) else {
            return report_missing();
        };
        if prefix != SYMMETRIC_PREFIX && group.bytes > MAX_COMPARED_MESSAGE {
            if !self.noted_long_messages {
                note("openssl speed signs messages of 20 to 36 bytes: longer ones are not compared");
            }
            self.noted_long_messages = true;
            return Ok(None);
        }
        let seconds = seconds.round().max(1.0);
        let mut arguments: Vec<String> = ["speed", "-elapsed", "-mr"].map(str::to_owned).into();
        arguments.extend(["-seconds".to_owned(), seconds.to_string()]);
        // For signatures, -bytes would also change the size of the signature's buffer.
        if prefix == SYMMETRIC_PREFIX {
            arguments.extend(["-bytes".to_owned(), group.bytes.to_string()]);
        }
        if threads > 1 {
            arguments.extend(["-multi".to_owned(), threads.to_string()]);
        }
        arguments.extend(words);
        let start = cpu_time();
        let output = run_openssl(&arguments)?;
        let cpu_s = cpu_time() - start;
        if interrupt::is_interrupted() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let results: Vec<(&str, u64, f64)> = text.lines().filter_map(parse_result).collect();
        let measured: Vec<_> = results.iter().filter(|(other, ..)| *other == prefix).collect();
        if !output.status.success() || measured.len() != threads {
            return report_missing();
        }
        let requests = measured.iter().map(|(_, requests, _)| requests).sum();
        let wall_s = measured.iter().map(|(.., wall_s)| *wall_s).fold(0.0, f64::max);
        // `openssl speed` signs and verifies in one run, so this operation gets its share of the run's CPU time.
        let sum = |times: &mut dyn Iterator<Item = f64>| times.sum::<f64>();
        let share = sum(&mut measured.iter().map(|(.., wall_s)| *wall_s))
            / sum(&mut results.iter().map(|(.., wall_s)| *wall_s));
        Ok(Some(Measurement { requests, wall_s, cpu_s: cpu_s * share, ..Measurement::default() }))
    }
}

/// Returns the CPU time of the children that have ended, in seconds.
fn cpu_time() -> f64 {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn run_openssl(arguments: &[String]) -> Result<Output, Failure> {
    program("openssl")?.args(arguments).output().map_err(|error| Failure::at("openssl cannot be run", &error))
}

/// Arguments of `openssl speed`, and the prefix of the lines with the results.
#[derive(Debug, PartialEq)]
struct SpeedArguments {
    words: Vec<String>,
    prefix: &'static str,
}

/// Names of signatures, key exchange and key encapsulation in `openssl speed`, and the prefix of the lines with the results of each
/// operation (apps/speed.c). The last eighteen need OpenSSL 3.5.
const PUBLIC_KEY_TESTS: [(Algorithm, &str, &[&str]); 25] = [
    (Algorithm::Ed25519, "ed25519", &["R8", "R9"]),
    (Algorithm::EcdsaP256, "ecdsap256", &["R5", "R6"]),
    (Algorithm::Rsa2048Pkcs1, "rsa2048", &["R1", "R2"]),
    (Algorithm::Rsa3072Pkcs1, "rsa3072", &["R1", "R2"]),
    (Algorithm::Rsa4096Pkcs1, "rsa4096", &["R1", "R2"]),
    (Algorithm::X25519, "ecdhx25519", &["R7"]),
    (Algorithm::EcdhP256, "ecdhp256", &["R7"]),
    (Algorithm::MlKem512, "ML-KEM-512", &["R15", "R16", "R17"]),
    (Algorithm::MlKem768, "ML-KEM-768", &["R15", "R16", "R17"]),
    (Algorithm::MlKem1024, "ML-KEM-1024", &["R15", "R16", "R17"]),
    (Algorithm::MlDsa44, "ML-DSA-44", &["R19", "R20"]),
    (Algorithm::MlDsa65, "ML-DSA-65", &["R19", "R20"]),
    (Algorithm::MlDsa87, "ML-DSA-87", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_128s, "SLH-DSA-SHA2-128s", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_128f, "SLH-DSA-SHA2-128f", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_192s, "SLH-DSA-SHA2-192s", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_192f, "SLH-DSA-SHA2-192f", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_256s, "SLH-DSA-SHA2-256s", &["R19", "R20"]),
    (Algorithm::SlhDsaSha2_256f, "SLH-DSA-SHA2-256f", &["R19", "R20"]),
    (Algorithm::SlhDsaShake128s, "SLH-DSA-SHAKE-128s", &["R19", "R20"]),
    (Algorithm::SlhDsaShake128f, "SLH-DSA-SHAKE-128f", &["R19", "R20"]),
    (Algorithm::SlhDsaShake192s, "SLH-DSA-SHAKE-192s", &["R19", "R20"]),
    (Algorithm::SlhDsaShake192f, "SLH-DSA-SHAKE-192f", &["R19", "R20"]),
    (Algorithm::SlhDsaShake256s, "SLH-DSA-SHAKE-256s", &["R19", "R20"]),
    (Algorithm::SlhDsaShake256f, "SLH-DSA-SHAKE-256f", &["R19", "R20"]),
];

/// Most bytes of a message for which public-key operations are compared. `openssl speed` signs only 20 to 36 bytes (apps/speed.c). Hashing
/// up to 65 bytes takes no noticeable time, and the public keys of ECDH on P-256 have 65 bytes.
const MAX_COMPARED_MESSAGE: usize = 65;

/// The prefix of lines of symmetric algorithms.
const SYMMETRIC_PREFIX: &str = "R";

/// Returns the arguments for an operation.
fn speed_arguments(algorithm: Algorithm, operation: Operation) -> Option<SpeedArguments> {
    if let Some((_, name, lines)) = PUBLIC_KEY_TESTS.iter().find(|(other, ..)| *other == algorithm) {
        return lines.get(operation.index()).map(|prefix| SpeedArguments { words: vec![(*name).to_owned()], prefix });
    }
    symmetric_arguments(algorithm, operation).map(|words| SpeedArguments { words, prefix: SYMMETRIC_PREFIX })
}

fn symmetric_arguments(algorithm: Algorithm, operation: Operation) -> Option<Vec<String>> {
    let info = algorithm.info();
    let name = info.name.to_owned();
    let mut arguments = match (info.kind, info.digest, info.name.strip_suffix("cmac")) {
        (Kind::Mac, Some(digest), _) => vec!["-hmac".to_owned(), digest.name().to_owned()],
        (Kind::Mac, None, Some(aes)) => vec!["-cmac".to_owned(), format!("{aes}cbc")],
        // With -aead, each request has a nonce, associated data and a tag, as in our measurement. Without it, OpenSSL only encrypts.
        (Kind::Aead, None, _) => vec!["-evp".to_owned(), name, "-aead".to_owned()],
        (Kind::Cipher, ..) if algorithm != Algorithm::Null => vec!["-evp".to_owned(), name],
        (Kind::Digest, ..) if info.xof.is_none() => vec!["-evp".to_owned(), name],
        // OpenSSL's AEADs with a digest are the AEADs of TLS, which authenticate before they encrypt. Its extendable-output functions have
        // another output length.
        _ => return None,
    };
    if operation.is_inverse() {
        arguments.push("-decrypt".to_owned());
    }
    Some(arguments)
}

/// Parses the prefix, requests and seconds of a line such as `+R:345785:sha256:1.000000` or `+R8:13239:253:Ed25519:1.01`.
fn parse_result(line: &str) -> Option<(&str, u64, f64)> {
    let (prefix, rest) = line.strip_prefix('+').filter(|line| line.starts_with('R'))?.split_once(':')?;
    let (requests, rest) = rest.split_once(':')?;
    let (_, seconds) = rest.rsplit_once(':')?;
    Some((prefix, requests.parse().ok()?, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_openssl_speed_are_parsed() {
        assert_eq!(parse_result("+R:345785:sha256:1.000000"), Some(("R", 345785, 1.0)));
        assert_eq!(parse_result("+R:544353:cmac(aes-128-cbc):1.5"), Some(("R", 544353, 1.5)));
        assert_eq!(parse_result("+R8:13239:253:Ed25519:1.01"), Some(("R8", 13239, 1.01)));
        assert_eq!(parse_result("+R5:24043:256:1.00"), Some(("R5", 24043, 1.0)));
        assert_eq!(parse_result("+R16:21012:ML-KEM-768:1.00"), Some(("R16", 21012, 1.0)));
        assert_eq!(parse_result("+F:25:sha256:354083840.00"), None);
        assert_eq!(parse_result("+R:"), None);
    }

    #[test]
    fn openssl_gets_the_arguments_of_the_same_operation() {
        let words =
            |algorithm, operation| speed_arguments(algorithm, operation).map(|arguments| arguments.words.join(" "));
        let prefix = |algorithm, operation| speed_arguments(algorithm, operation).unwrap().prefix;
        assert_eq!(words(Algorithm::EcdhP256, Operation::Derive).as_deref(), Some("ecdhp256"));
        assert_eq!(words(Algorithm::Rsa3072Pkcs1, Operation::Verify).as_deref(), Some("rsa3072"));
        assert_eq!(
            [Operation::Sign, Operation::Verify].map(|operation| prefix(Algorithm::Ed25519, operation)),
            ["R8", "R9"]
        );
        assert_eq!(words(Algorithm::Sha256, Operation::Digest).as_deref(), Some("-evp sha256"));
        assert_eq!(words(Algorithm::HmacSha1, Operation::Mac).as_deref(), Some("-hmac sha1"));
        assert_eq!(words(Algorithm::Aes256Cmac, Operation::Mac).as_deref(), Some("-cmac aes-256-cbc"));
        assert_eq!(words(Algorithm::Aes128Cbc, Operation::Decrypt).as_deref(), Some("-evp aes-128-cbc -decrypt"));
        assert_eq!(words(Algorithm::Aes128Gcm, Operation::Open).as_deref(), Some("-evp aes-128-gcm -aead -decrypt"));
        for missing in [
            Algorithm::Aes128Gmac,
            Algorithm::Poly1305,
            Algorithm::Null,
            Algorithm::Aes128CbcHmacSha1,
            Algorithm::Shake128,
            Algorithm::Rsa2048Pss,
        ] {
            assert_eq!(symmetric_arguments(missing, missing.kind().operations()[0]), None);
        }
    }
}

//! Tests the suite itself: each check must find the mistake that it is for.
//!
//! The devices are the software device with one mistake each. Most mistakes pass core's known-answer tests, as they would in
//! a real device.

mod wrong;

use gantry_conformance::{Check, Options, Random, Report};
use gantry_core::{Algorithm, Gantry};
use gantry_driver_software::SoftwareDriver;
use wrong::{Mistake, WrongDriver};

fn report(mistake: Mistake, algorithm: Algorithm, reference: Option<&str>) -> Report {
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&WrongDriver(mistake)).build();
    let options = Options {
        algorithms: vec![algorithm],
        reference: reference.map(str::to_owned),
        random: Random::Rounds(30),
        ..Options::default()
    };
    gantry_conformance::run(&gantry, "wrong", &options, &mut |_| ()).unwrap()
}

/// Asserts that the check finds the mistake and reports it in these words.
fn assert_found(check: Check, mistake: Mistake, algorithm: Algorithm, words: &str) {
    let report = report(mistake, algorithm, Some("software"));
    assert!(!report.passed());
    let row = report.rows.iter().find(|row| row.check == check).unwrap();
    assert!(
        row.mismatches.iter().any(|mismatch| mismatch.description.contains(words)),
        "{mistake:?} {algorithm} {check}: no '{words}' among {:#?}",
        row.mismatches
    );
    let start = report.rows.iter().find(|row| row.check == Check::Start).unwrap();
    assert_eq!(start.mismatches.is_empty(), check != Check::Start, "{:?}", start.mismatches);
}

#[test]
fn the_device_without_a_mistake_passes() {
    for algorithm in [Algorithm::Sha256, Algorithm::Aes128Cbc, Algorithm::Aes128Gcm, Algorithm::EcdsaP256] {
        let report = report(Mistake::None, algorithm, Some("software"));
        assert!(report.passed(), "{:#?}", report.problems());
    }
}

#[test]
fn known_answer_tests_find_wrong_results() {
    for algorithm in [Algorithm::Sha256, Algorithm::EcdsaP256] {
        assert_found(Check::Start, Mistake::WrongAlways, algorithm, "failed its known-answer test");
    }
}

#[test]
fn vectors_find_wrong_results() {
    use Algorithm::*;
    assert_found(Check::Vectors, Mistake::WrongWhenLong, Sha512, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenLong, HmacSha3_256, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenSeparate, Aes256Xts, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenUnaligned, Aes128Ctr, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::AcceptsAnyTag, Aes256Gcm, "it was accepted");
    assert_found(Check::Vectors, Mistake::ReportsFault, Sha256, "out of order");
    assert_found(Check::Vectors, Mistake::RefusesLong, ChaCha20Poly1305, "it was refused");
    assert_found(Check::Vectors, Mistake::WrongWhenLong, Ed25519, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenUnaligned, X25519, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenLong, EcdsaP256, "it was refused");
    assert_found(Check::Vectors, Mistake::WrongWhenUnaligned, EcdhP256, "differs from byte 0");
}

#[test]
fn writes_outside_the_output_are_found() {
    for check in [Check::Vectors, Check::Batches, Check::Random] {
        assert_found(check, Mistake::WritesBehind, Algorithm::Aes128Cbc, "outside the buffers");
        assert_found(check, Mistake::WritesInput, Algorithm::Aes128Cbc, "an input was changed");
    }
}

#[test]
fn batches_find_wrong_and_lost_requests() {
    use Algorithm::*;
    assert_found(Check::Batches, Mistake::ForgetsARequest, Md5, "differs from byte 0");
    assert_found(Check::Batches, Mistake::LosesARequest, Sha1, "lost a request");
    assert_found(Check::Batches, Mistake::WrongWhenEmptyInBatch, HmacSha256, ", 0 bytes,");
    assert_found(Check::Batches, Mistake::WrongWhenUnaligned, Aes128CtrHmacSha256, "differs from byte 0");
}

#[test]
fn forgeries_that_a_device_accepts_are_found() {
    use Algorithm::*;
    for algorithm in [Aes128Gcm, Aes256Ccm, XChaCha20Poly1305, Aes256CbcHmacSha512] {
        assert_found(Check::Tags, Mistake::AcceptsAnyTag, algorithm, "it was accepted");
        assert_found(Check::Tags, Mistake::LeaksPlaintext, algorithm, "the output was filled");
    }
    for algorithm in [Aes192Gcm, Aes128CtrHmacSha256] {
        assert_found(Check::Start, Mistake::ComparesHalfATag, algorithm, "a bad tag was accepted");
    }
    for algorithm in [Aes128Gcm, Ed25519, EspAes128Gcm] {
        assert_found(Check::Start, Mistake::AcceptsAnyTagInBatches, algorithm, "a bad tag was accepted");
    }
    for algorithm in [Ed25519, EcdsaP256] {
        assert_found(Check::Start, Mistake::AcceptsAnyTag, algorithm, "a bad tag was accepted");
    }
}

#[test]
fn mistakes_of_compression_are_found() {
    use Algorithm::*;
    for algorithm in [Deflate, Gzip, Zstd] {
        assert_found(Check::Start, Mistake::WrongAlways, algorithm, "failed its known-answer test");
        assert_found(Check::Vectors, Mistake::ReportsLongerResult, algorithm, "compress: it was refused");
        assert_found(Check::Tags, Mistake::Overflows, algorithm, "outside the buffers");
    }
    assert_found(Check::Start, Mistake::AcceptsTruncated, Zstd, "truncated data was accepted");
    assert_found(Check::Start, Mistake::IgnoresMissingRoom, Gzip, "more was decompressed than the buffer holds");
}

#[test]
fn mistakes_of_encipherment_are_found() {
    use Algorithm::*;
    for algorithm in [Rsa2048Raw, Rsaes2048Pkcs1] {
        assert_found(Check::Start, Mistake::WrongAlways, algorithm, "failed its known-answer test");
    }
    assert_found(Check::Start, Mistake::ReportsLongerResult, Rsaes2048Pkcs1, "a wrong result");
}

#[test]
fn mistakes_with_packets_are_found() {
    use Algorithm::*;
    for algorithm in [EspAes128Gcm, EspAes256CbcHmacSha1] {
        assert_found(Check::Start, Mistake::WrongAlways, algorithm, "failed its known-answer test");
        assert_found(Check::Start, Mistake::AcceptsAnyTag, algorithm, "a bad tag was accepted");
        assert_found(Check::Tags, Mistake::LeaksPlaintext, algorithm, "the packet has plaintext");
    }
    assert_found(Check::Vectors, Mistake::WrongWhenLong, EspAes128Gcm, "differs from byte 0");
    assert_found(Check::Vectors, Mistake::WrongWhenLong, EspAes256CbcHmacSha1, "it was refused");
    assert_found(Check::Batches, Mistake::ForgetsARequest, EspAes192Gcm, "differs from byte 0");
}

#[test]
fn mistakes_of_streams_are_found() {
    use Algorithm::*;
    for algorithm in [Sha256, HmacSha384, Aes128Cmac] {
        assert_found(Check::Streams, Mistake::StreamLosesBytes, algorithm, "in pieces of 2:");
        assert_found(Check::Streams, Mistake::CopyBeginsAnew, algorithm, "cut at");
        assert_found(Check::Streams, Mistake::StreamNeverEnds, algorithm, "cut at");
    }
    assert_found(Check::Streams, Mistake::ChainBreaks, Aes128Cbc, "in pieces of 48:");
    assert_found(Check::Streams, Mistake::ChainBreaks, Aes192Ctr, "in pieces of 48:");
    assert_found(Check::Streams, Mistake::CopyBeginsAnew, Aes256Cfb, "cut at");
}

#[test]
fn mistakes_of_threads_are_found() {
    assert_found(Check::Threads, Mistake::NotThreadSafe, Algorithm::Sha256, "threads");
}

#[test]
fn random_requests_find_mistakes_only_with_a_reference() {
    let alone = report(Mistake::WrongWhenHuge, Algorithm::Sha256, None);
    let random = alone.rows.iter().find(|row| row.check == Check::Random).unwrap();
    assert!(random.mismatches.is_empty(), "without a reference, no mistake is visible: {random:?}");
    assert_found(Check::Random, Mistake::WrongWhenHuge, Algorithm::Sha256, "differs from byte 0");
    assert_found(Check::Batches, Mistake::WrongWhenHuge, Algorithm::Aes128Gcm, "differs from byte 0");
}

#[test]
fn a_seed_repeats_a_mismatch() {
    let whole = report(Mistake::WrongWhenLong, Algorithm::Sha256, Some("software"));
    let random = whole.rows.iter().find(|row| row.check == Check::Random).unwrap();
    let mismatch = random.mismatches.last().unwrap();

    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&WrongDriver(Mistake::WrongWhenLong)).build();
    let options = Options {
        algorithms: vec![Algorithm::Sha256],
        reference: Some("software".to_owned()),
        seed: mismatch.seed,
        random: Random::Rounds(1),
        ..Options::default()
    };
    let again = gantry_conformance::run(&gantry, "wrong", &options, &mut |_| ()).unwrap();
    let random = again.rows.iter().find(|row| row.check == Check::Random).unwrap();
    let head = |what: &str| what.split(" (and ").next().unwrap().to_owned();
    assert!(
        random.mismatches.iter().any(|other| head(&other.description) == head(&mismatch.description)),
        "{random:?}"
    );
}

#[test]
fn a_device_that_serves_less_differs_from_its_declaration() {
    let full = report(Mistake::None, Algorithm::HmacSha256, None);
    let less = report(Mistake::NoTruncatedTags, Algorithm::HmacSha256, None);
    assert!(less.passed());
    assert_ne!(full.declaration(), less.declaration());
    assert!(less.declaration().contains("full tags only"), "{}", less.declaration());
}

#[test]
fn a_device_that_serves_nothing_does_not_pass() {
    let report = report(Mistake::RefusesSessions, Algorithm::Sha256, Some("software"));
    assert!(report.problems().iter().any(|problem| problem.contains("nothing was run")), "{:?}", report.problems());
}

#[test]
fn a_run_reports_its_progress() {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    let options = Options { algorithms: vec![Algorithm::Md5, Algorithm::Poly1305], ..Options::default() };
    let mut steps = Vec::new();
    gantry_conformance::run(&gantry, "software", &options, &mut |progress| steps.push(progress)).unwrap();
    assert_eq!(steps.len(), 2 * Check::ALL.len());
    assert!(steps.iter().enumerate().all(|(done, step)| step.done == done && step.total == steps.len()));

    assert!(gantry_conformance::run(&gantry, "hardware", &options, &mut |_| ()).is_none());
    let options = Options { reference: Some("hardware".to_owned()), ..options };
    assert!(gantry_conformance::run(&gantry, "software", &options, &mut |_| ()).is_none());
}

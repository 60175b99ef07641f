//! Compression through queues, with data in vectors and in segments, through batches, and on a card with wrong results.

mod queued;

use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};
use gantry_core::route::Failover;
use gantry_core::stats::Event;
use gantry_core::{
    Algorithm, AlgorithmInfo, DeviceState, Gantry, Outcome, Request, Session, SessionParams, Submission, VirtualClock,
};
use gantry_driver_model::{FaultInjector, InjectedFault, ModelClock, ModelDriver, Profile};
use gantry_driver_software::SoftwareDriver;
use queued::{run, scattered};

const FORMATS: [Algorithm; 4] = [Algorithm::Deflate, Algorithm::Zlib, Algorithm::Gzip, Algorithm::Zstd];

fn reference() -> Arc<dyn Device> {
    match SoftwareDriver.discover().remove(0) {
        Found::Device(device) => device,
        Found::Excluded { reason, .. } => panic!("{reason}"),
    }
}

fn software(algorithm: Algorithm) -> Session {
    let gantry = Gantry::builder().driver(&SoftwareDriver).build();
    gantry.session(SessionParams::new(algorithm, &[])).unwrap()
}

fn compressed(session: &Session, data: &[u8]) -> Vec<u8> {
    let mut output = vec![0; AlgorithmInfo::compressed_max(data.len())];
    let length = session.compress(data, &mut output).unwrap();
    output.truncate(length);
    output
}

fn decompressed(session: &Session, data: &[u8], max_len: usize) -> Vec<u8> {
    let mut output = vec![0; max_len];
    let length = session.decompress(data, &mut output).unwrap();
    output.truncate(length);
    output
}

fn texts() -> Vec<Vec<u8>> {
    (0..9).map(|number| gantry_core::sample_text(number * number * 211)).collect()
}

#[test]
fn queued_results_have_their_real_length() {
    for algorithm in FORMATS {
        let session = software(algorithm);
        let max_len = |text: &Vec<u8>| AlgorithmInfo::compressed_max(text.len());
        let vectors = texts().into_iter().map(|text| Submission::compress(text.clone(), max_len(&text)));
        let segments = texts().into_iter().map(|text| Submission::compress(scattered(&text), max_len(&text)));
        for completions in [run(&session, vectors), run(&session, segments)] {
            for (completion, text) in completions.iter().zip(texts()) {
                assert_eq!(completion.result, Ok(Outcome::Done), "{algorithm}");
                assert_eq!(decompressed(&session, completion.submission.data(), text.len()), text, "{algorithm}");
            }
            // Decompresses each result from the buffer of its first request.
            let decompressions = completions.into_iter().map(|completion| {
                let (_, output) = completion.submission.into_buffers();
                Submission::decompress(output.unwrap(), 20_000)
            });
            for (completion, text) in run(&session, decompressions).into_iter().zip(texts()) {
                assert_eq!(
                    (completion.result, completion.submission.data()),
                    (Ok(Outcome::Done), &*text),
                    "{algorithm}"
                );
            }
        }
    }
}

#[test]
fn failed_requests_have_no_result() {
    for algorithm in FORMATS {
        let session = software(algorithm);
        let good = compressed(&session, &gantry_core::sample_text(5000));
        let submissions = [
            Submission::decompress(good.clone(), 4999),
            Submission::decompress(good[..good.len() / 2].to_vec(), 1 << 16),
            Submission::compress(gantry_core::sample_text(5000), 100),
            Submission::decompress(good, 5000),
        ];
        let completions = run(&session, submissions);
        let outcomes = [Outcome::NoRoom, Outcome::Malformed, Outcome::NoRoom, Outcome::Done];
        for (completion, outcome) in completions.iter().zip(outcomes) {
            let length = if outcome == Outcome::Done { 5000 } else { 0 };
            assert_eq!((&completion.result, completion.submission.data().len()), (&Ok(outcome), length), "{algorithm}");
        }
        let stats = session.gantry().stats();
        assert_eq!((stats.events(Event::NoRoom), stats.events(Event::Malformed)), (2, 1), "{algorithm}");
    }
}

/// Compresses buffers of many lengths with one call.
#[test]
fn a_batch_has_results_of_many_lengths() {
    for algorithm in FORMATS {
        let session = software(algorithm);
        let texts = texts();
        let mut outputs: Vec<(Vec<u8>, usize)> =
            texts.iter().map(|text| (vec![0; AlgorithmInfo::compressed_max(text.len())], 0)).collect();
        let mut requests: Vec<Request<'_>> = texts
            .iter()
            .zip(&mut outputs)
            .map(|(text, (output, length))| Request::compress(text, output, length))
            .collect();
        session.process(&mut requests).unwrap();
        assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
        drop(requests);
        for (text, (output, length)) in texts.iter().zip(&outputs) {
            assert_eq!(decompressed(&session, &output[..*length], text.len()), *text, "{algorithm}");
        }
    }
}

/// Verification finds a card's damaged result and replaces it with the right one.
#[test]
fn verification_replaces_a_wrong_result() {
    for algorithm in [Algorithm::Deflate, Algorithm::Gzip] {
        for (fault, compresses) in
            [(InjectedFault::Wrong, true), (InjectedFault::Wrong, false), (InjectedFault::Error, true)]
        {
            let (clock, faults) = (Arc::new(VirtualClock::default()), FaultInjector::default());
            let profile = Profile::named("power9-nx").unwrap().clone();
            let card =
                ModelDriver::with_faults(profile, reference(), ModelClock::Virtual(clock.clone()), faults.clone())
                    .unwrap();
            let policy = Failover { order: vec!["model:power9-nx".into()] };
            let builder = Gantry::builder().policy(policy).verify(1).clock(clock);
            let gantry = builder.driver(&SoftwareDriver).driver(&card).build();
            let session = gantry.session(SessionParams::new(algorithm, &[])).unwrap();
            let text = gantry_core::sample_text(9000);
            let good = compressed(&session, &text);
            assert_eq!(decompressed(&session, &good, 9000), text);
            let card = gantry.device("model:power9-nx").unwrap();
            assert_eq!(
                (card.state(), gantry.stats().events(Event::Mismatched)),
                (DeviceState::Ready, 0),
                "{algorithm}"
            );
            assert!(gantry.stats().events(Event::Verified) >= 2);

            faults.inject(fault, 1);
            if compresses {
                let again = compressed(&session, &text);
                assert_eq!(decompressed(&software(algorithm), &again, 9000), text, "{algorithm} {fault:?}");
            } else {
                assert_eq!(decompressed(&session, &good, 9000), text, "{algorithm} {fault:?}");
            }
            let wrong = u64::from(fault == InjectedFault::Wrong);
            assert_eq!(gantry.stats().events(Event::Mismatched), wrong, "{algorithm} {fault:?}");
            assert_eq!(card.state(), DeviceState::Quarantined, "{algorithm} {fault:?}");
        }
    }
}

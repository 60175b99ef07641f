//! Tests SLH-DSA on the software device: the message representations and the keys of sessions. The conformance suite has the
//! vectors.

use gantry_core::{Algorithm, Error, Gantry, Kind, Operation, Outcome, Prehash, Request, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Returns the fast sets: signatures of the other sets take long in unoptimized builds.
fn sets() -> impl Iterator<Item = Algorithm> {
    let all = Algorithm::ALL.iter().copied().filter(|algorithm| algorithm.is_slh_dsa());
    all.filter(|algorithm| algorithm.name().ends_with("8f") || algorithm.name().contains("sha2-192f"))
}

fn seeds(algorithm: Algorithm) -> Vec<u8> {
    (0_u8..).map(|index| index ^ 0x5a).take(algorithm.info().key.min).collect()
}

fn signature(session: &Session, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; session.params().tag_len()];
    session.sign(message, &mut signature).unwrap();
    signature
}

fn is_bad_tag(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Refused(Outcome::BadTag)))
}

#[test]
fn every_parameter_set_is_served_and_admitted() {
    let gantry = software();
    let device = gantry.device("software").unwrap();
    let served = Algorithm::ALL.iter().filter(|algorithm| algorithm.is_slh_dsa());
    assert_eq!(served.clone().count(), 12);
    for algorithm in served {
        assert_eq!(algorithm.kind(), Kind::Signature);
        assert!(device.capability(*algorithm).is_some_and(|capability| capability.deterministic), "{algorithm}");
        assert_eq!(algorithm.name().to_uppercase().parse(), Ok(*algorithm));
        assert_eq!(device.admit(*algorithm), Ok(()), "{algorithm}");
    }
}

#[test]
fn a_signature_is_bound_to_its_context_and_prehash() {
    type Change = fn(SessionParams) -> SessionParams;
    let variants: [Change; 5] = [
        |params| params,
        |params| params.with_context(b"one"),
        |params| params.with_context(b"another"),
        |params| params.with_prehash(Prehash::Hash(Algorithm::Sha512)),
        |params| params.with_prehash(Prehash::Hash(Algorithm::Shake128)).with_context(b"one"),
    ];
    let gantry = software();
    for algorithm in sets() {
        let seeds = seeds(algorithm);
        let sessions = variants.map(|variant| gantry.session(variant(SessionParams::new(algorithm, &seeds))).unwrap());
        for (made, signer) in sessions.iter().enumerate() {
            let signed = signature(signer, b"a message");
            for (read, session) in sessions.iter().enumerate() {
                let verdict = session.verify(b"a message", &signed);
                assert!(
                    if made == read { verdict.is_ok() } else { is_bad_tag(&verdict) },
                    "{algorithm}: {made}, {read}"
                );
            }
            assert!(is_bad_tag(&signer.verify(b"a massage", &signed)), "{algorithm}");
        }
    }
}

#[test]
fn hedged_signatures_differ_and_deterministic_ones_repeat() {
    let gantry = software();
    for algorithm in sets() {
        let seeds = seeds(algorithm);
        let hedged = gantry.session(SessionParams::new(algorithm, &seeds)).unwrap();
        let alike = gantry.session(SessionParams::new(algorithm, &seeds).deterministic()).unwrap();
        let signatures = [&hedged, &hedged, &alike, &alike].map(|session| signature(session, b"a message"));
        assert!(signatures[0] != signatures[1] && signatures[0] != signatures[2], "{algorithm}");
        assert_eq!(signatures[2], signatures[3], "{algorithm}");
        assert!(signatures.iter().all(|made| alike.verify(b"a message", made).is_ok()), "{algorithm}");
    }
}

/// Opens sessions with the seeds of a key, with its expanded form, and with the public key alone, which only verifies.
#[test]
fn all_forms_of_a_key_are_equivalent() {
    let gantry = software();
    for algorithm in sets() {
        let seeds = seeds(algorithm);
        let set =
            gantry_slh_dsa::ParameterSet::ALL.into_iter().find(|set| set.name().to_lowercase() == algorithm.name());
        let key = gantry_slh_dsa::PrivateKey::generate(set.unwrap(), &seeds).unwrap();
        let session = |bytes: &[u8], operation| {
            gantry.session(SessionParams::new(algorithm, bytes).with_direction(operation).deterministic()).unwrap()
        };
        let short = signature(&session(&seeds, Operation::Sign), b"a message");
        let long = signature(&session(&key.to_bytes(), Operation::Sign), b"a message");
        assert!(short == long && short == key.sign(b"a message", b"", None).unwrap(), "{algorithm}");
        let public = session(key.public_key().as_bytes(), Operation::Verify);
        public.verify(b"a message", &short).unwrap();
        assert!(public.sign(b"a message", &mut vec![0; short.len()]).is_err(), "{algorithm}");
    }
}

#[test]
fn threads_and_batches_share_a_session() {
    let gantry = software();
    for algorithm in sets() {
        let session = gantry.session(SessionParams::new(algorithm, &seeds(algorithm)).deterministic()).unwrap();
        let messages = [0, 1, 300].map(|length| vec![0x5a; length]);
        let expected = messages.each_ref().map(|message| signature(&session, message));
        std::thread::scope(|scope| {
            for place in 0..messages.len() {
                let (session, message, expected) = (&session, &messages[place], &expected[place]);
                scope.spawn(move || assert_eq!(signature(session, message), *expected, "{algorithm}"));
            }
        });
        let mut made = expected.each_ref().map(|signature| vec![0; signature.len()]);
        let pairs = messages.iter().zip(&mut made);
        let mut requests: Vec<_> = pairs.map(|(message, made)| Request::sign(message, made)).collect();
        session.process(&mut requests).unwrap();
        drop(requests);
        assert!(made == expected, "{algorithm}");
    }
}

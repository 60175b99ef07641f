//! SLH-DSA on the software device: what a session signs of a message, and under which key. The vectors are conformance's.

use gantry_core::{Algorithm, Direction, Error, Gantry, Kind, Outcome, Prehash, Request, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// The fast sets: a signature of another one takes long in a program that was not optimized.
fn sets() -> impl Iterator<Item = Algorithm> {
    let all = Algorithm::ALL.iter().copied().filter(|algorithm| algorithm.is_slh_dsa());
    all.filter(|algorithm| algorithm.name().ends_with("8f") || algorithm.name().contains("sha2-192f"))
}

fn seeds(algorithm: Algorithm) -> Vec<u8> {
    (0_u8..).map(|index| index ^ 0x5a).take(algorithm.info().key.min).collect()
}

fn signature(session: &Session, message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; session.params().tag_length()];
    session.sign(message, &mut signature).unwrap();
    signature
}

fn bad(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Refused(Outcome::BadTag)))
}

#[test]
fn every_parameter_set_is_there_and_admitted_by_known_answers() {
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
fn a_signature_is_for_its_context_and_for_what_was_signed_of_the_message() {
    type Change = fn(SessionParams) -> SessionParams;
    let ways: [Change; 5] = [
        |params| params,
        |params| params.context(b"one"),
        |params| params.context(b"another"),
        |params| params.prehash(Prehash::Hash(Algorithm::Sha512)),
        |params| params.prehash(Prehash::Hash(Algorithm::Shake128)).context(b"one"),
    ];
    let gantry = software();
    for algorithm in sets() {
        let seeds = seeds(algorithm);
        let sessions = ways.map(|way| gantry.session(way(SessionParams::new(algorithm, &seeds))).unwrap());
        for (made, signer) in sessions.iter().enumerate() {
            let made_of_it = signature(signer, b"a message");
            for (read, session) in sessions.iter().enumerate() {
                let verdict = session.verify(b"a message", &made_of_it);
                assert!(if made == read { verdict.is_ok() } else { bad(&verdict) }, "{algorithm}: {made}, {read}");
            }
            assert!(bad(&signer.verify(b"a massage", &made_of_it)), "{algorithm}");
        }
    }
}

#[test]
fn hedged_signatures_differ_and_deterministic_ones_are_alike() {
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

/// Out of the seeds of a key, or written out; and with the public key alone, which signs nothing.
#[test]
fn a_key_is_the_same_in_each_of_its_forms() {
    let gantry = software();
    for algorithm in sets() {
        let seeds = seeds(algorithm);
        let set =
            gantry_slh_dsa::ParameterSet::ALL.into_iter().find(|set| set.name().to_lowercase() == algorithm.name());
        let key = gantry_slh_dsa::PrivateKey::generate(set.unwrap(), &seeds).unwrap();
        let session = |bytes: &[u8], direction| {
            gantry.session(SessionParams::new(algorithm, bytes).direction(direction).deterministic()).unwrap()
        };
        let short = signature(&session(&seeds, Direction::Encrypt), b"a message");
        let long = signature(&session(&key.to_bytes(), Direction::Encrypt), b"a message");
        assert!(short == long && short == key.sign(b"a message", b"", None).unwrap(), "{algorithm}");
        let public = session(key.public_key().as_bytes(), Direction::Decrypt);
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

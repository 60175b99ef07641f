//! Tests ML-KEM on the software device, through sessions, batches and queues.

use gantry_core::driver::Operands;
use gantry_core::{
    Algorithm, Error, Gantry, Misuse, Operation, Outcome, Queue, QueueOptions, Request, Session, SessionParams,
    Submission,
};
use gantry_driver_software::SoftwareDriver;

fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// Returns bytes without a simple pattern.
fn bytes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (((at + 7) * (at + seed) * 37) >> 3) as u8).collect()
}

/// Algorithm, and the bytes of an expanded private key, a public key and a ciphertext (FIPS 203, table 3).
const SETS: [(Algorithm, usize, usize, usize); 3] = [
    (Algorithm::MlKem512, 1632, 800, 768),
    (Algorithm::MlKem768, 2400, 1184, 1088),
    (Algorithm::MlKem1024, 3168, 1568, 1568),
];

fn keyless(algorithm: Algorithm) -> Session {
    software().session(SessionParams::new(algorithm, &[]).with_direction(Operation::Encapsulate)).unwrap()
}

#[test]
fn decapsulation_accepts_both_forms_of_the_private_key() {
    for (algorithm, private, public, ciphertext) in SETS {
        let (peer, seed) = (keyless(algorithm), bytes(64, 1));
        let mut written = [vec![0; 64], vec![0; private]];
        for private in &mut written {
            let mut of_seed = vec![0; public];
            peer.run(Operands::KeyGen { seed: &seed, private, public: &mut of_seed }).unwrap().ok().unwrap();
            let (mut sent, mut peer_secret) = (vec![0; ciphertext], [0; 32]);
            peer.encapsulate(&of_seed, &mut sent, &mut peer_secret).unwrap();
            let receiver = software().session(SessionParams::new(algorithm, private)).unwrap();
            let mut secret = [0; 32];
            receiver.decapsulate(&sent, &mut secret).unwrap();
            assert_eq!(secret, peer_secret, "{algorithm}");
            // A modified ciphertext yields another secret, the same each time.
            sent[7] ^= 1;
            let mut others = [[0; 32]; 2];
            for other in &mut others {
                receiver.decapsulate(&sent, other).unwrap();
            }
            assert!(others[0] == others[1] && others[0] != peer_secret && others[0] != [0; 32], "{algorithm}");
        }
        assert_eq!(written[0], seed, "the short private key is the seed");
    }
}

#[test]
fn the_device_draws_missing_random_bytes() {
    for (algorithm, private, public, ciphertext) in SETS {
        let session = keyless(algorithm);
        let keys = || {
            let (mut private, mut public) = (vec![0; private], vec![0; public]);
            session.key_gen(&mut private, &mut public).unwrap();
            (private, public)
        };
        let ((private, public), other) = (keys(), keys());
        assert!(private != other.0 && public != other.1, "{algorithm}");
        let secret = || {
            let (mut sent, mut secret) = (vec![0; ciphertext], [0; 32]);
            session.encapsulate(&public, &mut sent, &mut secret).unwrap();
            (sent, secret)
        };
        let (one, two) = (secret(), secret());
        assert!(one.0 != two.0 && one.1 != two.1, "{algorithm}");
    }
}

/// FIPS 203, 7.2: the modulus check, and the type check.
#[test]
fn invalid_encapsulation_keys_are_refused() {
    for (algorithm, _, public, ciphertext) in SETS {
        let session = keyless(algorithm);
        let (mut sent, mut secret) = (vec![9; ciphertext], [9; 32]);
        let mut refused = |peer: &[u8]| match session.encapsulate(peer, &mut sent, &mut secret) {
            Err(Error::Refused(outcome)) => {
                assert!(secret == [9; 32] || secret == [0; 32], "{algorithm}");
                outcome
            }
            other => panic!("{algorithm}: {other:?}"),
        };
        // The number 3329 in the first and in the last place, and all ones.
        let mut first = vec![0; public];
        (first[0], first[1]) = (0x01, 0x0d);
        let mut last = vec![0; public];
        (last[public - 34], last[public - 33]) = (0x10, 0xd0);
        for peer in [&first, &last, &vec![0xff; public]] {
            assert_eq!(refused(peer), Outcome::BadKey, "{algorithm}");
        }
        for length in [0, 1, public - 1, public + 1] {
            assert_eq!(refused(&vec![0; length]), Outcome::BadLength, "{algorithm}: {length} bytes");
        }
    }
}

/// FIPS 203, 7.3: the hash check.
#[test]
fn invalid_decapsulation_keys_open_no_session() {
    for (algorithm, private, public, ciphertext) in SETS {
        let (mut key, mut peer) = (vec![0; private], vec![0; public]);
        keyless(algorithm).key_gen(&mut key, &mut peer).unwrap();
        let decapsulate = |key: &[u8]| {
            let session = software().session(SessionParams::new(algorithm, key)).unwrap();
            session.decapsulate(&vec![0; ciphertext], &mut [0; 32])
        };
        assert!(decapsulate(&key).is_ok());
        // Flip a bit of the public key in the private one, and of its hash.
        for place in [private - 64 - 7, private - 64 + 7] {
            let mut wrong = key.clone();
            wrong[place] ^= 1;
            assert!(matches!(decapsulate(&wrong), Err(Error::Unserved { .. })), "{algorithm}: byte {place}");
        }
        let length = software().session(SessionParams::new(algorithm, &key[1..])).err();
        assert!(matches!(length, Some(Error::Misuse(Misuse::KeyLength { .. }))), "{length:?}");
    }
}

#[test]
fn wrong_lengths_and_directions_are_misuse() {
    let (algorithm, private, public, ciphertext) = SETS[1];
    let session = keyless(algorithm);
    let misuse = |operands: Operands<'_>| match session.run(operands) {
        Err(Error::Misuse(misuse)) => misuse,
        other => panic!("{other:?}"),
    };
    let (mut key, mut peer, mut sent, mut secret) = (vec![0; private], vec![0; public], vec![0; ciphertext], [0; 32]);
    let seed = misuse(Operands::KeyGen { seed: &[1; 63], private: &mut key, public: &mut peer });
    assert_eq!(seed.to_string(), "ml-kem-768: 63 random bytes; it takes 64, or none where the device is to draw them");
    let short = Operands::KeyGen { seed: &[], private: &mut key[1..], public: &mut peer };
    assert!(matches!(misuse(short), Misuse::KeyLength { .. }));
    let short = Operands::KeyGen { seed: &[], private: &mut key, public: &mut peer[1..] };
    assert!(matches!(misuse(short), Misuse::OutputLength { .. }));
    let short = Operands::Encapsulate { input: &peer, seed: &[], ciphertext: &mut sent[1..], output: &mut secret };
    assert!(matches!(misuse(short), Misuse::OutputLength { .. }));
    let short = Operands::Encapsulate { input: &peer, seed: &[1; 31], ciphertext: &mut sent, output: &mut secret };
    assert!(matches!(misuse(short), Misuse::SeedLength { got: 31, takes: 32, .. }));
    let other = Operands::Decapsulate { input: &sent, output: &mut secret };
    assert!(matches!(misuse(other), Misuse::Operation { .. }), "it has no private key");
    let params = SessionParams::new(algorithm, &[1; 64]).with_direction(Operation::Decapsulate);
    let decapsulates = software().session(params).unwrap();
    assert!(matches!(decapsulates.key_gen(&mut key, &mut peer), Err(Error::Misuse(Misuse::Operation { .. }))));
    assert!(matches!(decapsulates.decapsulate(&sent[1..], &mut secret), Err(Error::Refused(Outcome::BadLength))));
}

/// Runs a submission and returns it.
fn run_submission(queue: &mut Queue, session: &Session, submission: Submission) -> Submission {
    queue.submit(session, submission).unwrap();
    let mut done = None;
    while done.is_none() {
        queue.wait(|completion| {
            assert_eq!(completion.result, Ok(Outcome::Done));
            done = Some(completion.submission);
        });
    }
    done.unwrap()
}

#[test]
fn batches_and_queues_equal_single_requests() {
    let (algorithm, private, public, ciphertext) = SETS[1];
    let (session, seeds) = (keyless(algorithm), [bytes(64, 1), bytes(64, 2)]);
    let mut keys = seeds.each_ref().map(|_| (vec![0; private], vec![0; public]));
    let mut requests: Vec<Request<'_>> =
        seeds.iter().zip(&mut keys).map(|(seed, (private, public))| Request::key_gen(seed, private, public)).collect();
    session.process(&mut requests).unwrap();
    drop(requests);
    let gantry = session.gantry();
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for (seed, (private, public)) in seeds.iter().zip(&keys) {
        let made = run_submission(&mut queue, &session, Submission::key_gen(algorithm, seed));
        assert_eq!((made.tag(), made.data()), (&private[..], &public[..]));
        let sent = run_submission(&mut queue, &session, Submission::encapsulate(algorithm, public.clone(), &[5; 32]));
        let (mut alone, mut secret) = (vec![0; ciphertext], [0; 32]);
        let operands =
            Operands::Encapsulate { input: public, seed: &[5; 32], ciphertext: &mut alone, output: &mut secret };
        session.run(operands).unwrap().ok().unwrap();
        assert_eq!((sent.data(), sent.tag()), (&alone[..], &secret[..]));
        let decapsulates = gantry.session(SessionParams::new(algorithm, private)).unwrap();
        assert_eq!(run_submission(&mut queue, &decapsulates, Submission::decapsulate(alone)).tag(), secret);
    }
}

#[test]
fn a_queue_refuses_key_generation_for_other_algorithms() {
    let session = software().session(SessionParams::new(Algorithm::HmacSha256, &[1; 32])).unwrap();
    let mut queue = session.gantry().queue(QueueOptions::default()).unwrap();
    let refused = queue.submit(&session, Submission::key_gen(Algorithm::HmacSha256, &[]));
    assert!(refused.is_err(), "{refused:?}");
}

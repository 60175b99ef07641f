//! ML-DSA on the software device: what a session signs of a message, and under which key.

use gantry_core::{Algorithm, Direction, Error, Gantry, Outcome, Prehash, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// A key of NIST's: the seed, and the public key.
struct Key {
    algorithm: Algorithm,
    seed: Vec<u8>,
    public: Vec<u8>,
}

/// The first of each parameter set, of `scripts/acvp.py`.
fn keys() -> Vec<Key> {
    let text = include_str!("../../../conformance/vectors/ml-dsa.txt");
    let sections = text.split("\n[").skip(1);
    let unhex = |digits: &str| {
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    };
    let key = |section: &str| {
        let (name, blocks) = section.split_once(']').unwrap();
        let field = |name: &str| unhex(blocks.lines().find_map(|line| line.strip_prefix(name)).unwrap());
        Key { algorithm: name.parse().unwrap(), seed: field("key = "), public: field("public = ") }
    };
    let keys: Vec<Key> = sections.map(key).collect();
    assert_eq!(keys.len(), 3);
    keys
}

impl Key {
    fn signs(&self, change: impl Fn(SessionParams) -> SessionParams) -> Session {
        software().session(change(SessionParams::new(self.algorithm, &self.seed))).unwrap()
    }

    fn verifies(&self, change: impl Fn(SessionParams) -> SessionParams) -> Session {
        let params = SessionParams::new(self.algorithm, &self.public).direction(Direction::Decrypt);
        software().session(change(params)).unwrap()
    }
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
fn a_signature_is_for_its_context_and_for_what_was_signed_of_the_message() {
    type Change = fn(SessionParams) -> SessionParams;
    let ways: [Change; 6] = [
        |params| params,
        |params| params.context(b"one"),
        |params| params.context(b"another"),
        |params| params.prehash(Prehash::Hash(Algorithm::Sha512)),
        |params| params.prehash(Prehash::Hash(Algorithm::Shake256)),
        |params| params.prehash(Prehash::Hash(Algorithm::Sha512)).context(b"one"),
    ];
    for key in keys() {
        for (made, sign) in ways.iter().enumerate() {
            let (signer, message) = (key.signs(sign), b"a message");
            let made_of_it = signature(&signer, message);
            signer.verify(message, &made_of_it).unwrap();
            assert_ne!(signature(&signer, message), made_of_it, "{}: a random number goes into it", key.algorithm);
            for (read, verify) in ways.iter().enumerate() {
                let verdict = key.verifies(verify).verify(message, &made_of_it);
                assert!(
                    if made == read { verdict.is_ok() } else { bad(&verdict) },
                    "{}: {made}, {read}",
                    key.algorithm
                );
            }
            assert!(bad(&key.verifies(sign).verify(b"a massage", &made_of_it)));
        }
    }
}

/// FIPS 204, algorithms 2 and 7: μ = H(H(pk, 64) ‖ 0 ‖ |ctx| ‖ ctx ‖ M, 64).
#[test]
fn the_representative_may_be_computed_elsewhere() {
    let shake = software().session(SessionParams::new(Algorithm::Shake256, &[]).tag_len(64)).unwrap();
    let hash = |message: &[u8]| {
        let mut digest = [0; 64];
        shake.digest(message, &mut digest).unwrap();
        digest
    };
    for key in keys() {
        let (context, message) = (b"context", b"a message");
        let mu = hash(&[&hash(&key.public)[..], &[0, 7], context, message].concat());
        let of_message = signature(&key.signs(|params| params.context(context)), message);
        let of_mu = signature(&key.signs(|params| params.prehash(Prehash::Mu)), &mu);
        key.verifies(|params| params.prehash(Prehash::Mu)).verify(&mu, &of_message).unwrap();
        key.verifies(|params| params.context(context)).verify(message, &of_mu).unwrap();
        let short = key.verifies(|params| params.prehash(Prehash::Mu)).verify(&mu[1..], &of_mu);
        assert!(matches!(short, Err(Error::Refused(Outcome::BadLength))), "{short:?}");
    }
}

#[test]
fn what_a_device_cannot_do_it_says() {
    for key in keys() {
        let session = key.signs(SessionParams::deterministic);
        let error = session.sign(b"a message", &mut vec![0; session.params().tag_length()]).unwrap_err().to_string();
        assert!(error.contains("it signs with a random number"), "{error}");
        // A private key that is written out belongs to a public one.
        let wrong = vec![0xff; key.algorithm.info().key.max];
        let session = software().session(SessionParams::new(key.algorithm, &wrong)).unwrap();
        let refused = session.sign(b"", &mut vec![0; session.params().tag_length()]);
        assert!(matches!(refused, Err(Error::Unserved { .. })), "{refused:?}");
    }
    // Whose signatures are always alike may be asked for it.
    let plain = software().session(SessionParams::new(Algorithm::Ed25519, &[7; 32]).deterministic()).unwrap();
    plain.sign(b"a message", &mut [0; 64]).unwrap();
}

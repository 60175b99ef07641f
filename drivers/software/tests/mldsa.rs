//! Tests ML-DSA on the software device: the message representations and the keys of sessions.

use gantry_core::{Algorithm, Error, Gantry, Operation, Outcome, Prehash, Session, SessionParams};
use gantry_driver_software::SoftwareDriver;

fn software() -> Gantry {
    Gantry::builder().driver(&SoftwareDriver).build()
}

/// A key from NIST: the seed, and the public key.
struct Key {
    algorithm: Algorithm,
    seed: Vec<u8>,
    public: Vec<u8>,
}

/// Returns the first key of each parameter set, from the vectors of `scripts/acvp.py`.
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
    fn signing_session(&self, change: impl Fn(SessionParams) -> SessionParams) -> Session {
        software().session(change(SessionParams::new(self.algorithm, &self.seed))).unwrap()
    }

    fn verifying_session(&self, change: impl Fn(SessionParams) -> SessionParams) -> Session {
        let params = SessionParams::new(self.algorithm, &self.public).with_direction(Operation::Verify);
        software().session(change(params)).unwrap()
    }
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
fn a_signature_is_bound_to_its_context_and_prehash() {
    type Change = fn(SessionParams) -> SessionParams;
    let variants: [Change; 6] = [
        |params| params,
        |params| params.with_context(b"one"),
        |params| params.with_context(b"another"),
        |params| params.with_prehash(Prehash::Hash(Algorithm::Sha512)),
        |params| params.with_prehash(Prehash::Hash(Algorithm::Shake256)),
        |params| params.with_prehash(Prehash::Hash(Algorithm::Sha512)).with_context(b"one"),
    ];
    for key in keys() {
        for (made, sign) in variants.iter().enumerate() {
            let (signer, message) = (key.signing_session(sign), b"a message");
            let signed = signature(&signer, message);
            signer.verify(message, &signed).unwrap();
            assert_ne!(signature(&signer, message), signed, "{}: a random number goes into it", key.algorithm);
            for (read, verify) in variants.iter().enumerate() {
                let verdict = key.verifying_session(verify).verify(message, &signed);
                assert!(
                    if made == read { verdict.is_ok() } else { is_bad_tag(&verdict) },
                    "{}: {made}, {read}",
                    key.algorithm
                );
            }
            assert!(is_bad_tag(&key.verifying_session(sign).verify(b"a massage", &signed)));
        }
    }
}

/// FIPS 204, algorithms 2 and 7: μ = H(H(pk, 64) ‖ 0 ‖ |ctx| ‖ ctx ‖ M, 64).
#[test]
fn the_representative_may_be_computed_elsewhere() {
    let shake = software().session(SessionParams::new(Algorithm::Shake256, &[]).with_tag_len(64)).unwrap();
    let hash = |message: &[u8]| {
        let mut digest = [0; 64];
        shake.digest(message, &mut digest).unwrap();
        digest
    };
    for key in keys() {
        let (context, message) = (b"context", b"a message");
        let mu = hash(&[&hash(&key.public)[..], &[0, 7], context, message].concat());
        let of_message = signature(&key.signing_session(|params| params.with_context(context)), message);
        let of_mu = signature(&key.signing_session(|params| params.with_prehash(Prehash::Mu)), &mu);
        key.verifying_session(|params| params.with_prehash(Prehash::Mu)).verify(&mu, &of_message).unwrap();
        key.verifying_session(|params| params.with_context(context)).verify(message, &of_mu).unwrap();
        let short = key.verifying_session(|params| params.with_prehash(Prehash::Mu)).verify(&mu[1..], &of_mu);
        assert!(matches!(short, Err(Error::Refused(Outcome::BadLength))), "{short:?}");
    }
}

#[test]
fn unsupported_options_and_wrong_keys_are_refused() {
    for key in keys() {
        let session = key.signing_session(SessionParams::deterministic);
        let error = session.sign(b"a message", &mut vec![0; session.params().tag_len()]).unwrap_err().to_string();
        assert!(error.contains("its signatures are randomized"), "{error}");
        // An expanded private key must match its public key.
        let wrong = vec![0xff; key.algorithm.info().key.max];
        let session = software().session(SessionParams::new(key.algorithm, &wrong)).unwrap();
        let refused = session.sign(b"", &mut vec![0; session.params().tag_len()]);
        assert!(matches!(refused, Err(Error::Unserved { .. })), "{refused:?}");
    }
    // Algorithms with deterministic signatures accept the option.
    let plain = software().session(SessionParams::new(Algorithm::Ed25519, &[7; 32]).deterministic()).unwrap();
    plain.sign(b"a message", &mut [0; 64]).unwrap();
}

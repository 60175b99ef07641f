//! Comparison with RustCrypto's crate `slh-dsa`: keys and signatures are equal, and each crate verifies the other's signatures.

use gantry_slh_dsa::{ParameterSet, PrivateKey, PublicKey};
use slh_dsa::{Signature, SigningKey, VerifyingKey};

/// Returns `count` pseudorandom bytes (splitmix64).
fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (0..count).map(|_| next() as u8).collect()
}

/// Compares key, hedged signature and verdicts of one parameter set, for messages and contexts of the given lengths.
fn compare<P: slh_dsa::ParameterSet + slh_dsa::VerifyingKeyLen>(set: ParameterSet, lengths: &[(usize, usize)]) {
    let n = set.n();
    for (i, &(length, context)) in lengths.iter().enumerate() {
        let seeds = random(100 * set as u64 + i as u64, 5 * n + length + context);
        let (seeds, rest) = seeds.split_at(3 * n);
        let (randomness, rest) = rest.split_at(n);
        let (message, context) = rest[n..].split_at(length);

        let ours = PrivateKey::generate(set, seeds).unwrap();
        let theirs = SigningKey::<P>::slh_keygen_internal(&seeds[..n], &seeds[n..2 * n], &seeds[2 * n..]);
        assert_eq!(*ours.to_bytes(), theirs.to_bytes().to_vec(), "{set}");

        let signature = ours.sign(message, context, Some(randomness)).unwrap();
        let other = theirs.try_sign_with_context(message, context, Some(randomness)).unwrap();
        assert!(signature == other.to_bytes().to_vec(), "{set}: {length} bytes");

        let public: &VerifyingKey<P> = theirs.as_ref();
        let signature = Signature::try_from(signature.as_slice()).unwrap();
        public.try_verify_with_context(message, context, &signature).unwrap();
        let public = PublicKey::from_bytes(set, &public.to_bytes()).unwrap();
        public.verify(message, context, &other.to_bytes()).unwrap();
    }
}

#[test]
fn keys_and_signatures_of_fast_sets_match_rustcrypto() {
    let lengths = [(0, 0), (1, 255), (63, 1), (64, 20), (1000, 0), (136, 64)];
    compare::<slh_dsa::Sha2_128f>(ParameterSet::Sha2_128f, &lengths);
    compare::<slh_dsa::Sha2_192f>(ParameterSet::Sha2_192f, &lengths[..3]);
    compare::<slh_dsa::Sha2_256f>(ParameterSet::Sha2_256f, &lengths[..3]);
    compare::<slh_dsa::Shake128f>(ParameterSet::Shake128f, &lengths[..3]);
    compare::<slh_dsa::Shake192f>(ParameterSet::Shake192f, &lengths[..2]);
    compare::<slh_dsa::Shake256f>(ParameterSet::Shake256f, &lengths[..2]);
}

/// Makes one signature, because the other crate takes seconds for several.
#[test]
fn keys_and_signatures_of_the_smallest_set_match_rustcrypto() {
    compare::<slh_dsa::Sha2_128s>(ParameterSet::Sha2_128s, &[(100, 10)]);
}

#[test]
#[ignore = "the other crate takes a minute for them: scripts/test-clients"]
fn keys_and_signatures_of_small_sets_match_rustcrypto() {
    compare::<slh_dsa::Sha2_192s>(ParameterSet::Sha2_192s, &[(100, 10)]);
    compare::<slh_dsa::Sha2_256s>(ParameterSet::Sha2_256s, &[(100, 10)]);
    compare::<slh_dsa::Shake128s>(ParameterSet::Shake128s, &[(100, 10)]);
    compare::<slh_dsa::Shake192s>(ParameterSet::Shake192s, &[(100, 10)]);
    compare::<slh_dsa::Shake256s>(ParameterSet::Shake256s, &[(100, 10)]);
}

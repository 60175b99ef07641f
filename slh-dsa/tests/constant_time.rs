//! Tests that no branch and no address of key generation and signing depends on SK.seed. `scripts/constant-time` runs these tests in
//! valgrind, which has no AVX-512 and no SHA instructions.
//!
//! SK.prf is public here: it yields the randomizer, which is part of the signature and selects the keys that sign. Only HMAC and SHAKE256
//! read SK.prf; `gantry-digest` tests them.

#![cfg(target_arch = "x86_64")]

#[path = "../../drivers/lanes/src/constant_time/memcheck.rs"]
mod memcheck;

use gantry_digest::{LevelName, limit_level};
use gantry_slh_dsa::{ParameterSet, PrivateKey};
use memcheck::{count_decisions, is_secret, mark_public, mark_secret, self_test};

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn detects_a_branch_on_a_secret() {
    self_test();
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn key_generation_and_signing_do_not_branch_on_the_secret_seed() {
    for level in [LevelName::Base, LevelName::Avx2] {
        limit_level(level);
        for set in ParameterSet::ALL.into_iter().filter(|set| set.name().ends_with('f')) {
            let mut seeds: Vec<u8> = (0..set.seed_bytes()).map(|i| (i * 29) as u8).collect();
            mark_secret(&mut seeds[..set.n()]);
            let mut made = None;
            assert_eq!(
                count_decisions(|| made = Some(PrivateKey::generate(set, &seeds).unwrap())),
                0,
                "{level} {set}: a key"
            );
            let mut bytes = made.take().expect("a key").to_bytes();
            assert!(is_secret(&bytes[3 * set.n()..]), "{level} {set}: an output computed from a secret must be secret");
            mark_public(&mut bytes[3 * set.n()..]);
            let key = PrivateKey::from_bytes(set, &bytes).unwrap();
            let mut signature = Vec::new();
            let decided = count_decisions(|| signature = key.sign(b"message", b"", None).unwrap());
            assert_eq!(decided, 0, "{level} {set}: a signature");
            mark_public(&mut signature);
            assert_eq!(key.public_key().verify(b"message", b"", &signature), Ok(()));
        }
    }
}

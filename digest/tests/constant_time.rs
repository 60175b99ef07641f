//! Tests that branches and addresses depend on the lengths of messages and keys only, not on their bytes. `scripts/constant-time` runs
//! these tests in valgrind, which has no AVX-512 and no SHA instructions.

#![cfg(target_arch = "x86_64")]

#[path = "../../drivers/lanes/src/constant_time/memcheck.rs"]
mod memcheck;

use gantry_digest::{
    Algorithm, Blake3, Column, Hasher, HmacKey, LevelName, NodeHash, Offsets, Salt, digest_column, digest_many,
    digest_many_after, finish_many, hash_pairs, hmac_each, hmac_many, limit_level, tree_level, update_many,
};
use memcheck::{count_decisions, is_secret, mark_public, mark_secret, self_test};

fn secret_bytes(length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (i * 29 + length) as u8).collect();
    mark_secret(&mut bytes);
    bytes
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn detects_a_branch_on_a_secret() {
    self_test();
}

#[test]
#[ignore = "needs valgrind: scripts/constant-time"]
fn digests_and_hmacs_do_not_branch_on_secrets() {
    // Messages of no block, one, two and many blocks, and more messages than slots.
    let lengths = [1, 24, 0, 55, 56, 63, 64, 111, 112, 119, 120, 128, 200, 1000, 4096].into_iter().cycle().take(70);
    let messages: Vec<Vec<u8>> = lengths.map(secret_bytes).collect();
    let values = secret_bytes(70 * 24);
    let offsets: Vec<i32> = (0..=70).map(|i| i * 24).collect();
    let blocks = secret_bytes(9 * 512 + 100);
    for level in LevelName::ALL {
        limit_level(level);
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let mut output = vec![0; 70 * size];
            let (short, long) = (secret_bytes(32), secret_bytes(300));
            let mut check = |what: &str, count: usize, work: &mut dyn FnMut(&mut [u8])| {
                let output = &mut output[..count * size];
                assert_eq!(count_decisions(|| work(output)), 0, "{level} {algorithm}: {what}");
                assert!(
                    is_secret(output),
                    "{level} {algorithm}: {what}: an output computed from a secret must be secret"
                );
                mark_public(output);
            };
            check("digests", 70, &mut |output| digest_many(algorithm, &messages, output).unwrap());
            check("digests after a prefix", 70, &mut |output| {
                let mut prefix = Hasher::new(algorithm);
                prefix.update(&short);
                digest_many_after(&prefix, &messages, output).unwrap();
            });
            check("one message", 1, &mut |output| digest_many(algorithm, &messages[1..2], output).unwrap());
            check("HMACs", 70, &mut |output| {
                hmac_many(&HmacKey::new(algorithm, &short), &messages, output).unwrap();
            });
            check("a key each", 70, &mut |output| {
                let keys: Vec<HmacKey> =
                    (0..70).map(|i| HmacKey::new(algorithm, if i % 2 == 0 { &short } else { &long })).collect();
                hmac_each(&keys, &messages, output).unwrap();
            });
            check("a column", 70, &mut |output| {
                let column = Column::new(&values, Offsets::Bits32(&offsets), None).unwrap();
                digest_column(algorithm, &column, output).unwrap();
            });
            for salt in [Salt::NONE, Salt::Before(&short), Salt::After(&short)] {
                check("a level", 10, &mut |output| tree_level(algorithm, salt, 512, &blocks, output).unwrap());
            }
            check("pieces", 3, &mut |output| {
                let mut hashers = [(); 3].map(|()| Hasher::new(algorithm));
                let mut pieces: Vec<_> = hashers.iter_mut().zip(&messages[12..]).map(|(h, m)| (h, &m[..])).collect();
                update_many(&mut pieces).unwrap();
                finish_many(&mut hashers.iter_mut().collect::<Vec<_>>(), output).unwrap();
            });
        }
        for function in [NodeHash::Sha256, NodeHash::Sha256d, NodeHash::Keccak256, NodeHash::Blake3] {
            let mut nodes = vec![[0; 32]; 2 * 21];
            mark_secret(nodes.as_flattened_mut());
            let mut parents = vec![[0; 32]; 21];
            let found = count_decisions(|| hash_pairs(function, &nodes, &mut parents).unwrap());
            assert_eq!(found, 0, "{level} {function:?}");
            assert!(is_secret(parents.as_flattened()), "{level} {function:?}");
        }
        let key: [u8; 32] = secret_bytes(32).try_into().expect("32 bytes");
        let mut digests = [[0; 32]; 70];
        let found = count_decisions(|| Blake3::keyed(&key).digest_many(&messages, &mut digests).unwrap());
        assert_eq!(found, 0, "{level} BLAKE3");
        assert!(is_secret(digests.as_flattened()), "{level} BLAKE3");
    }
}

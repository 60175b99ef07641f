//! Messages of more than 4 GiB, whose length in bits does not fit in 32 bits. Takes a minute: `cargo test --release -p gantry-digest --test
//! beyond_32_bits -- --ignored`, a step of `scripts/test-deep`. A shorter test of SHA-256 is in `src/column/tests.rs`.

#![cfg(target_pointer_width = "64")]

use gantry_digest::{Algorithm, Blake3, Sha1Checked, digest_many};

const LENGTH: usize = (1 << 32) + 5;

/// `head -c 4294967301 /dev/zero | md5sum`, `sha1sum`, `sha512sum`, `openssl sha3-256` and `b2sum`.
const DIGESTS: [(Algorithm, &str); 5] = [
    (Algorithm::Md5, "968a8809aa0886d87f385d88733a98d2"),
    (Algorithm::Sha1, "7ce9d83c5eacca17b354408ce637473229a7d5e2"),
    (
        Algorithm::Sha512,
        "3fb5450b9f919ab250736c2aadf529f4bb334d6aa6a68f767472caff38b269cb\
         3a8c306b58b6402f8eb39210fee37035146450c339688d34fddb998dbfa1f070",
    ),
    (Algorithm::Sha3_256, "c49fe80fabce10b69ceaa426e8e75064aff765b240c6b096325d68a38b8f706d"),
    (
        Algorithm::Blake2b512,
        "db5a2f000711618d990d4d0ea29b721137fa63255f9dad157414070e547d4da1\
         87404e8b6662b9b52acb55221f9bebb7e02d729a175bd2a55af55bb70b824a34",
    ),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Two long messages are hashed side by side, with a short one between. Zeroed memory that was never written takes no space.
#[test]
#[ignore = "a minute: scripts/test-deep"]
fn messages_of_more_than_4_gib_are_hashed_beside_short_ones() {
    let bytes = vec![0; LENGTH];
    let messages = [&bytes, &bytes[..3], &bytes];
    for (algorithm, digest) in DIGESTS {
        let (size, mut short) = (algorithm.digest_size(), [0; Algorithm::MAX_DIGEST_SIZE]);
        digest_many(algorithm, &[[0; 3]], &mut short[..size]).unwrap();
        let mut output = vec![0; 3 * size];
        digest_many(algorithm, &messages, &mut output).unwrap();
        assert_eq!(hex(&output), [digest, &hex(&short[..size]), digest].concat(), "{algorithm}");
    }
    let sha1 = |result: &Result<[u8; 20], _>| hex(&result.unwrap());
    let mut results = [Ok([0; 20]); 2];
    Sha1Checked::digest_many(&messages[1..], &mut results).unwrap();
    assert_eq!([sha1(&results[0]), sha1(&results[1])], [&sha1(&Sha1Checked::digest(&[0; 3])), DIGESTS[1].1]);
    assert_eq!(Blake3::new().digest(&bytes), *blake3::hash(&bytes).as_bytes());
}

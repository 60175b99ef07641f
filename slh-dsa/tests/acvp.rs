//! Vectors of NIST's ACVP (`acvp.txt`): keys made from seeds, SHA-256 of signatures, and verdicts.

use gantry_digest::{Algorithm, LevelName, digest_many, limit_level};
use gantry_slh_dsa::{Error, ParameterSet, PrivateKey, PublicKey};

const VECTORS: &str = include_str!("acvp.txt");

type Vector = std::collections::HashMap<&'static str, Vec<u8>>;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal digits")).collect()
}

/// Parses `acvp.txt` into the vectors of each parameter set.
fn vectors() -> Vec<(ParameterSet, Vec<Vector>)> {
    let sections = VECTORS.split("\n[").skip(1).map(|section| section.split_once("]\n").expect("a name"));
    let vectors = |text: &'static str| {
        let lines = |block: &'static str| block.lines().filter_map(|line| line.split_once(" ="));
        let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
        blocks.map(|block| lines(block).map(|(name, value)| (name, unhex(value.trim()))).collect()).collect()
    };
    let set = |name: &str| ParameterSet::ALL.into_iter().find(|set| set.name() == name).expect("a parameter set");
    sections.map(|(name, text)| (set(name), vectors(text))).collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    let mut digest = vec![0; 32];
    digest_many(Algorithm::Sha256, &[bytes], &mut digest).unwrap();
    digest
}

/// Checks a vector, and returns its kind.
fn check(set: ParameterSet, vector: &Vector) -> &'static str {
    let get = |name| vector.get(name).map(Vec::as_slice);
    if let Some(seeds) = get("seeds") {
        let key = PrivateKey::generate(set, seeds).unwrap();
        assert_eq!(Some(key.public_key().as_bytes()), get("public"), "{set}");
        assert_eq!(*key.to_bytes(), [&seeds[..2 * set.n()], key.public_key().as_bytes()].concat(), "{set}");
        return "key";
    }
    if let Some(signature) = get("whole") {
        let key = PublicKey::from_bytes(set, get("public").unwrap()).unwrap();
        let verdict = key.verify(get("message").unwrap(), get("context").unwrap(), signature);
        assert_eq!(verdict.is_ok(), get("valid") == Some(&[1]), "{set}");
        return if verdict.is_ok() { "valid" } else { "invalid" };
    }
    let key = PrivateKey::from_bytes(set, get("key").unwrap()).unwrap();
    let (message, randomness) = (get("message").unwrap(), get("randomness"));
    let signature = match get("context") {
        Some(context) => key.sign(message, context, randomness).unwrap(),
        None => key.sign_framed(&[message], randomness).unwrap(),
    };
    assert_eq!(Some(&sha256(&signature)[..]), get("signature"), "{set}");
    let (verdict, other) = match get("context") {
        Some(context) => (key.public_key().verify(message, context, &signature), b"another context".as_slice()),
        None => (key.public_key().verify_framed(&[message], &signature), b"".as_slice()),
    };
    assert_eq!(verdict, Ok(()), "{set}");
    assert_eq!(key.public_key().verify(message, other, &signature), Err(Error::Signature), "{set}");
    if get("context").is_some() { "message" } else { "framed" }
}

#[test]
fn keys_and_signatures_match_acvp() {
    let vectors = vectors();
    assert_eq!(vectors.iter().map(|(set, _)| *set).collect::<Vec<_>>(), ParameterSet::ALL);
    for (set, vectors) in vectors {
        let kinds: Vec<&str> = vectors.iter().map(|vector| check(set, vector)).collect();
        // Only the smallest parameter sets have verdicts.
        let verdicts = if set.name().ends_with("128s") { [1, 6] } else { [0, 0] };
        for (kind, count) in
            [("key", 1), ("message", 2), ("framed", 2), ("valid", verdicts[0]), ("invalid", verdicts[1])]
        {
            assert_eq!(kinds.iter().filter(|other| **other == kind).count(), count, "{set}: {kind}");
        }
    }
}

/// Tests only the fast parameter sets of each hash function: the small ones use the same kernels.
#[test]
fn signatures_match_acvp_on_every_cpu_level() {
    for level in LevelName::ALL {
        limit_level(level);
        for (set, vectors) in vectors().into_iter().filter(|(set, _)| set.name().ends_with('f')) {
            for vector in &vectors {
                check(set, vector);
            }
        }
    }
}

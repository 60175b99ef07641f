//! Invalid signatures and invalid arguments.

use gantry_slh_dsa::{Error, ParameterSet, PreHash, PrivateKey, PublicKey};

const FAST: [ParameterSet; 6] = [
    ParameterSet::Sha2_128f,
    ParameterSet::Sha2_192f,
    ParameterSet::Sha2_256f,
    ParameterSet::Shake128f,
    ParameterSet::Shake192f,
    ParameterSet::Shake256f,
];

fn key(set: ParameterSet) -> PrivateKey {
    let seeds: Vec<u8> = (0..set.seed_bytes()).map(|i| (i * 37 + 1) as u8).collect();
    PrivateKey::generate(set, &seeds).unwrap()
}

#[test]
fn rejects_a_signature_with_any_bit_flipped() {
    for set in FAST {
        let key = key(set);
        let signature = key.sign(b"message", b"context", None).unwrap();
        let verify = |signature: &[u8]| key.public_key().verify(b"message", b"context", signature);
        assert_eq!(verify(&signature), Ok(()), "{set}");
        // A digest has n bytes. A step coprime to n reaches all offsets in digests: in the randomizer, in secrets and paths of FORS, and in
        // chains and paths of every layer. The last byte ends the uppermost path.
        let n = set.n();
        let places = (0..n).chain((0..signature.len()).step_by(7 * n + 1)).chain([signature.len() - 1]);
        for place in places {
            let mut other = signature.clone();
            other[place] ^= 1 << (place % 8);
            assert_eq!(verify(&other), Err(Error::Signature), "{set}: byte {place}");
        }
    }
}

#[test]
fn rejects_signatures_of_wrong_length() {
    for set in FAST {
        let key = key(set);
        let signature = key.sign(b"message", b"", None).unwrap();
        let longer = [&signature[..], &[0]].concat();
        let n = set.n();
        for other in [&[][..], &signature[..n], &signature[..signature.len() - n], &signature[1..], &longer] {
            assert_eq!(
                key.public_key().verify(b"message", b"", other),
                Err(Error::Signature),
                "{set}: {}",
                other.len()
            );
        }
    }
}

#[test]
fn rejects_signatures_of_another_message_context_key_or_set() {
    let (sha2, shake) = (key(ParameterSet::Sha2_128f), key(ParameterSet::Shake128f));
    let signature = sha2.sign(b"message", b"context", None).unwrap();
    let public = sha2.public_key();
    assert_eq!(public.verify(b"massage", b"context", &signature), Err(Error::Signature));
    assert_eq!(public.verify(b"message", b"", &signature), Err(Error::Signature));
    // The border between context and message is signed, too.
    assert_eq!(public.verify(b"tmessage", b"contex", &signature), Err(Error::Signature));
    assert_eq!(shake.public_key().verify(b"message", b"context", &signature), Err(Error::Signature));
    for place in [0, 16, 31] {
        let mut bytes = public.as_bytes().to_vec();
        bytes[place] ^= 0x80;
        let other = PublicKey::from_bytes(ParameterSet::Sha2_128f, &bytes).unwrap();
        assert_eq!(other.verify(b"message", b"context", &signature), Err(Error::Signature), "byte {place}");
    }
}

#[test]
fn a_context_has_at_most_255_bytes() {
    let key = key(ParameterSet::Sha2_128f);
    let (most, more) = ([7; 255], [7; 256]);
    let signature = key.sign(b"message", &most, None).unwrap();
    assert_eq!(key.public_key().verify(b"message", &most, &signature), Ok(()));
    assert_eq!(key.sign(b"message", &more, None), Err(Error::Context));
    assert_eq!(key.public_key().verify(b"message", &more, &signature), Err(Error::Context));
    assert_eq!(key.sign_digest(PreHash::Sha256, &[0; 32], &more, None), Err(Error::Context));
    assert_eq!(key.public_key().verify_digest(PreHash::Sha256, &[0; 32], &more, &signature), Err(Error::Context));
}

#[test]
fn rejects_arguments_of_wrong_length() {
    for set in ParameterSet::ALL {
        let n = set.n();
        let length_error = |argument, needed, found| Some(Error::Length { argument, needed, found });
        for found in [0, 3 * n - 1, 3 * n + 1, 4 * n] {
            assert_eq!(
                PrivateKey::generate(set, &vec![0; found]).err(),
                length_error("the seeds of a key", 3 * n, found)
            );
        }
        for found in [0, 2 * n, 4 * n - 1, 4 * n + 1] {
            assert_eq!(PrivateKey::from_bytes(set, &vec![0; found]).err(), length_error("a private key", 4 * n, found));
        }
        for found in [0, n, 2 * n - 1, 2 * n + 1] {
            assert_eq!(PublicKey::from_bytes(set, &vec![0; found]).err(), length_error("a public key", 2 * n, found));
        }
        let key = PrivateKey::from_bytes(set, &vec![0; 4 * n]).unwrap();
        for found in [0, n - 1, n + 1] {
            assert_eq!(key.sign(b"", b"", Some(&vec![0; found])).err(), length_error("random numbers", n, found));
        }
        assert_eq!(key.sign_digest(PreHash::Sha512, &[0; 32], b"", None).err(), length_error("a digest", 64, 32));
        assert_eq!(
            key.public_key().verify_digest(PreHash::Shake128, &[0; 33], b"", &[]).err(),
            length_error("a digest", 32, 33)
        );
    }
}

/// Frames a message by hand as in algorithm 23. The identifiers of SHA-512 and SHAKE128 end with 3 and 11.
#[test]
fn prehashed_messages_are_framed_with_the_identifier_of_the_hash() {
    let key = key(ParameterSet::Sha2_128f);
    let mut digest = [0; 64];
    gantry_digest::digest_many(gantry_digest::Algorithm::Sha512, &[b"message"], &mut digest).unwrap();
    for (hash, digest, last) in [(PreHash::Sha512, &digest[..], 3), (PreHash::Shake128, &digest[..32], 11)] {
        let signature = key.sign_digest(hash, digest, b"context", None).unwrap();
        let framed = [b"\x01\x07context\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02", &[last][..], digest].concat();
        assert!(signature == key.sign_framed(&[&framed], None).unwrap());
        let public = key.public_key();
        assert_eq!(public.verify_digest(hash, digest, b"context", &signature), Ok(()));
        assert_eq!(public.verify(digest, b"context", &signature), Err(Error::Signature));
        assert_eq!(public.verify_digest(hash, digest, b"", &signature), Err(Error::Signature));
    }
}

#[test]
fn hedged_signatures_depend_on_the_randomness_and_all_verify() {
    let key = key(ParameterSet::Shake128f);
    let signatures = [None, Some([1; 16]), Some([2; 16])].map(|random| {
        let random = random.as_ref().map(|random| &random[..]);
        key.sign(b"message", b"", random).unwrap()
    });
    assert!(signatures[0] != signatures[1] && signatures[1] != signatures[2]);
    assert!(signatures[0] == key.sign(b"message", b"", None).unwrap());
    for signature in &signatures {
        assert_eq!(key.public_key().verify(b"message", b"", signature), Ok(()));
    }
}

#[test]
fn debug_output_omits_the_secret() {
    let set = ParameterSet::Sha2_128f;
    let key = PrivateKey::from_bytes(set, &[&[0xab; 32][..], &[0x11; 32]].concat()).unwrap();
    let text = format!("{key:?}");
    assert!(text.contains("17") && !text.contains("171") && !text.to_lowercase().contains("ab, "), "{text}");
}

//! Tests every kind of handle on the devices of this machine.

use gantry::aead::{Ciphertext, Plaintext};
use gantry::cipher::Message;
use gantry::core::{Algorithm, Error, Misuse, Outcome};
use gantry::signature::{SigningKey, VerifyingKey};
use gantry::{
    Aead, Agreement, Cipher, Compression, Config, Digest, Gantry, Kdf, Kem, Mac, Signature, aead, agreement, cipher,
    kem, mac,
};

fn gantry() -> Gantry {
    Gantry::open(Config::default()).unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

const BAD_TAG: Result<(), Error> = Err(Error::Refused(Outcome::BadTag));

#[test]
fn digests_match_the_standard_alone_in_a_batch_and_in_chunks() {
    let sha256 = gantry().digest(Digest::Sha256).unwrap();
    let one = sha256.digest(b"abc").unwrap();
    assert_eq!(one.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let many = sha256.digest_many(&["abc", "", "abc"]).unwrap();
    assert!(many[0] == one && many[1] != one && many[2] == one);
    let mut stream = sha256.stream().unwrap();
    stream.update(b"a").unwrap();
    stream.update(b"bc").unwrap();
    let mut pieces = [0; 32];
    stream.finish(&mut pieces).unwrap();
    assert!(one == pieces);
}

#[test]
fn only_extendable_output_functions_take_an_output_length() {
    let gantry = gantry();
    let shake = gantry.digest(Digest::Shake128).unwrap();
    let (short, long) = (shake.digest(b"abc").unwrap(), shake.with_output_len(100).unwrap().digest(b"abc").unwrap());
    assert_eq!((short.len(), long.len()), (32, 100));
    assert!(short == long[..32]);
    let wrong = gantry.digest(Digest::Sha256).unwrap().with_output_len(16).unwrap_err();
    assert_eq!(wrong.to_string(), "sha256: a tag of 16 bytes; it takes 32");
}

#[test]
fn verifies_macs_alone_and_in_a_batch() {
    // RFC 4231, test case 2.
    let key = mac::Key::new(Mac::HmacSha256, b"Jefe").unwrap();
    let hmac = gantry().mac(&key).unwrap();
    let tag = hmac.mac(b"what do ya want for nothing?").unwrap();
    assert_eq!(tag.to_string(), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_eq!(hmac.verify(b"what do ya want for nothing?", &tag), Ok(()));
    assert_eq!(hmac.verify(b"what do ya want for nothing!", &tag), BAD_TAG);
    let verdicts =
        hmac.verify_many(&[("what do ya want for nothing?", &tag[..]), ("other", &tag[..]), ("short", &tag[..31])]);
    assert_eq!(verdicts.unwrap(), [Ok(()), BAD_TAG, BAD_TAG]);
    assert_eq!(hmac.with_tag_len(16).unwrap().mac(b"what do ya want for nothing?").unwrap(), tag[..16]);
    assert!(hmac.with_tag_len(33).is_err());
}

#[test]
fn seals_and_opens_alone_in_a_batch_and_in_chunks() {
    for algorithm in [Aead::Aes128Gcm, Aead::XChaCha20Poly1305, Aead::Aes256CbcHmacSha256] {
        let info = algorithm.algorithm().info();
        let key =
            aead::Key::with_mac_key(algorithm, &vec![1; info.key.max], &vec![2; info.mac_key.max.min(32)]).unwrap();
        let handle = gantry().aead(&key).unwrap();
        let nonce = vec![3; info.iv.max.min(24).max(info.iv.min)];
        let mut alone = [4; 64];
        let tag = handle.seal(&nonce, b"aad", &mut alone[..]).unwrap();
        assert_ne!(alone, [4; 64]);

        let (mut first, mut second) = ([4; 64], [5; 32]);
        let mut plaintexts = [
            Plaintext { nonce: &nonce, aad: b"aad", data: &mut first },
            Plaintext { nonce: &nonce, aad: b"", data: &mut second },
        ];
        let tags = handle.seal_many(&mut plaintexts).unwrap();
        assert!(first == alone && tags[0] == tag, "{algorithm}");

        let mut ciphertexts = [
            Ciphertext { nonce: &nonce, aad: b"aad", data: &mut first, tag: &tags[0] },
            Ciphertext { nonce: &nonce, aad: b"forged", data: &mut second, tag: &tags[1] },
        ];
        assert_eq!(handle.open_many(&mut ciphertexts).unwrap(), [Ok(()), BAD_TAG]);
        assert_eq!(first, [4; 64]);
        assert_ne!(second, [5; 32], "a forgery yields no plaintext");

        // Among these, only GCM has a device with streams in this build.
        if algorithm != Aead::Aes128Gcm {
            assert!(matches!(handle.open_stream(), Err(Error::Unserved { .. })));
            continue;
        }
        let mut stream = handle.open_stream().unwrap();
        stream.begin(&nonce, b"aad").unwrap();
        stream.update(&mut alone[..16]).unwrap();
        stream.update(&mut alone[16..]).unwrap();
        assert_eq!(stream.finish(&tag), Ok(()));
        assert_eq!(alone, [4; 64]);
        let mut stream = handle.seal_stream().unwrap();
        stream.begin(&nonce, b"aad").unwrap();
        stream.update(&mut alone[..16]).unwrap();
        stream.update(&mut alone[16..]).unwrap();
        assert!(stream.finish().unwrap() == tag);
        assert_eq!(handle.open(&nonce, b"", &mut alone[..], &tag), BAD_TAG);
    }
}

#[test]
fn encrypts_and_decrypts_alone_in_a_batch_and_in_chunks() {
    for algorithm in [Cipher::Aes128Cbc, Cipher::Aes256Ctr, Cipher::Aes128Xts, Cipher::ChaCha20] {
        let key: Vec<u8> = (0..algorithm.algorithm().info().key.max as u8).collect();
        let handle = gantry().cipher(&cipher::Key::new(algorithm, &key).unwrap()).unwrap();
        let iv = [9; 16];
        let mut alone = [1; 64];
        handle.encrypt(&iv, &mut alone[..]).unwrap();
        let (mut first, mut second) = ([1; 64], [2; 32]);
        let both = &mut [Message { iv: &iv, data: &mut first }, Message { iv: &[8; 16], data: &mut second }];
        handle.encrypt_many(both).unwrap();
        assert_eq!(both[0].data, alone, "{algorithm}");
        handle.decrypt_many(both).unwrap();
        assert_eq!((first, second), ([1; 64], [2; 32]));
        if algorithm != Cipher::Aes128Xts {
            let mut stream = handle.decrypt_stream(&iv).unwrap();
            stream.update(&mut alone[..32]).unwrap();
            stream.update(&mut alone[32..]).unwrap();
            assert_eq!(alone, [1; 64]);
            let mut stream = handle.encrypt_stream(&iv).unwrap();
            stream.update(&mut alone[..]).unwrap();
        }
        handle.decrypt(&iv, &mut alone[..]).unwrap();
        assert_eq!(alone, [1; 64]);
    }
}

#[test]
fn ed25519_signs_the_message_itself() {
    // RFC 8032, 7.1, test 1.
    let gantry = gantry();
    let private = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
    let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    let signer = gantry.signer(&SigningKey::new(Signature::Ed25519, &private).unwrap()).unwrap();
    let verifier = gantry.verifier(&VerifyingKey::new(Signature::Ed25519, &public).unwrap()).unwrap();
    let signature = signer.sign(b"").unwrap();
    assert_eq!(
        signature.to_string(),
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    );
    assert_eq!(verifier.verify(b"", &signature), Ok(()));
    let many = signer.sign_many(&["", "two"]).unwrap();
    assert!(many[0] == signature);
    let verdicts = verifier
        .verify_many(&[("", &many[0][..]), ("two", &many[1][..]), ("two", &many[0][..]), ("", &[][..])])
        .unwrap();
    assert_eq!(verdicts, [Ok(()), Ok(()), BAD_TAG, BAD_TAG]);
}

#[test]
fn ecdsa_signs_the_digest_of_the_message() {
    // RFC 6979, A.2.5, the message "sample".
    let public = hex(concat!(
        "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6",
        "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
    ));
    let with_sha256 = hex(concat!(
        "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
        "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
    ));
    let with_sha512 = hex(concat!(
        "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f00",
        "2362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe"
    ));
    let gantry = gantry();
    let key = VerifyingKey::new(Signature::EcdsaP256, &public).unwrap();
    let verifier = gantry.verifier(&key).unwrap();
    assert_eq!(verifier.verify(b"sample", &with_sha256), Ok(()));
    assert_eq!(verifier.verify(b"sample", &with_sha512), BAD_TAG);
    let verifier = gantry.verifier(&key.clone().with_hash(Digest::Sha512)).unwrap();
    assert_eq!(verifier.verify(b"sample", &with_sha512), Ok(()));

    let private = hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let private = SigningKey::new(Signature::EcdsaP256, &private).unwrap();
    let signatures = gantry.signer(&private.clone().with_hash(Digest::Sha512)).unwrap().sign_many(&["a", "b"]).unwrap();
    let pairs: Vec<_> =
        ["a", "b"].into_iter().zip(&signatures).map(|(message, signature)| (message, &signature[..])).collect();
    assert_eq!(verifier.verify_many(&pairs).unwrap(), [Ok(()), Ok(())]);
    let wrong = gantry.signer(&private.clone().with_hash(Digest::Md5)).unwrap_err();
    assert!(matches!(wrong, Error::Misuse(Misuse::Prehash { algorithm: Algorithm::EcdsaP256 })));
    assert!(gantry.signer(&private.with_context(b"mail")).is_err(), "ECDSA has no context");
}

#[test]
fn rsa_signs_the_digest_of_the_message() {
    let gantry = gantry();
    let private = gantry::core::sample_key(Algorithm::Rsa2048Pss).unwrap();
    let public = &private[..gantry::core::rsa::public_length(256)];
    for (algorithm, hash) in [(Signature::Rsa2048Pss, Digest::Sha256), (Signature::Rsa2048Pkcs1, Digest::Sha384)] {
        let signer = gantry.signer(&SigningKey::new(algorithm, private).unwrap().with_hash(hash)).unwrap();
        let verifier = gantry.verifier(&VerifyingKey::new(algorithm, public).unwrap().with_hash(hash)).unwrap();
        let signature = signer.sign(b"a message of any length").unwrap();
        assert_eq!(verifier.verify(b"a message of any length", &signature), Ok(()));
        assert_eq!(verifier.verify(b"another message", &signature), BAD_TAG);
    }
}

#[test]
fn deterministic_signatures_repeat() {
    let gantry = gantry();
    let key = SigningKey::new(Signature::SlhDsaSha2_128f, &[5; 48]).unwrap().with_context(b"mail");
    let signer = gantry.signer(&key).unwrap().deterministic().unwrap();
    assert!(signer.sign(b"m").unwrap() == signer.sign(b"m").unwrap());
    let other = gantry.signer(&key.with_context(b"files")).unwrap().deterministic().unwrap();
    assert!(signer.sign(b"m").unwrap() != other.sign(b"m").unwrap(), "the context is part of the signature");
}

#[test]
fn key_encapsulation_gives_both_sides_the_same_secret() {
    let gantry = gantry();
    for algorithm in Kem::ALL {
        let kem = gantry.kem(*algorithm).unwrap();
        let (private, public) = kem.generate().unwrap();
        let (ciphertext, theirs) = kem.encapsulate(&public).unwrap();
        let owner = kem.decapsulator(&private).unwrap();
        assert_eq!(owner.decapsulate(&ciphertext).unwrap(), theirs);
        assert!(owner.decapsulate(&ciphertext[1..]).is_err());

        // Keys that were stored and read back.
        let public = kem::EncapsulationKey::new(*algorithm, public.as_bytes()).unwrap();
        let private = kem::DecapsulationKey::new(*algorithm, private.as_bytes()).unwrap();
        let many = kem.encapsulate_many(&[public.clone(), public]).unwrap();
        let ciphertexts: Vec<_> = many.iter().map(|(ciphertext, _)| ciphertext).collect();
        let ours = kem.decapsulator(&private).unwrap().decapsulate_many(&ciphertexts).unwrap();
        assert!(ours.iter().zip(&many).all(|(ours, (_, theirs))| ours.as_ref() == Ok(theirs)), "{algorithm}");
    }
}

#[test]
fn key_agreement_gives_both_sides_the_same_secret() {
    let gantry = gantry();
    let side = |byte| gantry.agreement(&agreement::PrivateKey::new(Agreement::X25519, &[byte; 32]).unwrap()).unwrap();
    let (alice, bob) = (side(1), side(2));
    let public = |side: &agreement::Session| side.agree(Algorithm::X25519.info().generator).unwrap();
    let secret = alice.agree(public(&bob).as_bytes()).unwrap();
    assert_eq!(secret, bob.agree(public(&alice).as_bytes()).unwrap());
    let many = alice.agree_many(&[public(&bob).as_bytes(), &[0; 32]]).unwrap();
    assert_eq!(many, [Ok(secret), Err(Error::Refused(Outcome::BadKey))]);
}

#[test]
fn decompression_restores_compressed_messages() {
    let gantry = gantry();
    let text = "the same again, ".repeat(100);
    for algorithm in Compression::ALL {
        let compressor = gantry.compressor(*algorithm).unwrap();
        let data = compressor.compress(text.as_bytes()).unwrap();
        assert!(data.len() < 200, "{algorithm}: {}", data.len());
        assert_eq!(compressor.decompress(&data, text.len()).unwrap(), text.as_bytes());
        assert_eq!(compressor.decompress(&data, 100).unwrap_err(), Error::Refused(Outcome::NoRoom));
        let harder = compressor.with_level(9).unwrap().compress_many(&[&text[..], "", &text[..]]).unwrap();
        assert_eq!(compressor.decompress(&harder[2], text.len()).unwrap(), text.as_bytes());
        assert!(compressor.with_level(100).is_err());
    }
}

#[test]
fn key_derivation_matches_the_standards() {
    let gantry = gantry();
    let mut key = [0; 20];
    gantry.kdf(Kdf::Sha1).pbkdf2(b"password", b"salt", 4096, &mut key).unwrap();
    assert_eq!(key[..4], [0x4b, 0x00, 0x79, 0x01]); // RFC 6070
    let mut key = [0; 42];
    gantry.kdf(Kdf::Sha256).hkdf(&[0x0b; 22], &[], &[], &mut key).unwrap();
    assert_eq!(key[..4], [0x8d, 0xa4, 0xe7, 0x75]); // RFC 5869, A.3
    assert!(gantry.kdf(Kdf::Sha256).pbkdf2(b"password", b"salt", 0, &mut key).is_err());
}

/// A key that is too long is refused when it is made. The error names its length and the valid lengths.
#[test]
fn the_error_of_a_wrong_key_length_names_the_valid_lengths() {
    fn wrong<T: Copy, K>(all: &[T], algorithm: fn(T) -> Algorithm, new: fn(T, &[u8]) -> gantry::Result<K>) {
        for id in all {
            let info = algorithm(*id).info();
            if info.key.max < usize::MAX {
                let got = info.key.max + 1;
                let error = new(*id, &vec![1; got]).err().unwrap().to_string();
                assert_eq!(error, format!("{}: a key of {got} bytes; it takes {}", info.name, info.key));
            }
        }
    }
    wrong(Aead::ALL, Aead::algorithm, aead::Key::new);
    wrong(Mac::ALL, Mac::algorithm, mac::Key::new);
    wrong(Cipher::ALL, Cipher::algorithm, cipher::Key::new);
    wrong(Signature::ALL, Signature::algorithm, SigningKey::new);
    wrong(Kem::ALL, Kem::algorithm, kem::DecapsulationKey::new);
    wrong(Agreement::ALL, Agreement::algorithm, agreement::PrivateKey::new);
    let short = aead::Key::new(Aead::Aes128Gcm, &[1; 15]).unwrap_err();
    assert_eq!(short.to_string(), "aes-128-gcm: a key of 15 bytes; it takes 16");
    let public = VerifyingKey::new(Signature::Ed25519, &[1; 31]).unwrap_err();
    assert_eq!(public.to_string(), "ed25519: a key of 31 bytes; it takes 32");
    let xts = cipher::Key::new(Cipher::Aes128Xts, &[1; 32]).unwrap();
    assert!(gantry().cipher(&xts).is_err(), "both halves are the same");
}

#[test]
fn encrypt_then_authenticate_takes_two_keys_and_others_one() {
    let one = aead::Key::new(Aead::Aes128CbcHmacSha256, &[1; 16]).unwrap_err();
    assert_eq!(one.to_string(), "aes-128-cbc-hmac-sha256: a MAC key of 0 bytes; it takes 1 or more");
    let two = aead::Key::with_mac_key(Aead::Aes128Gcm, &[1; 16], &[2; 32]).unwrap_err();
    assert_eq!(two.to_string(), "aes-128-gcm: a MAC key of 32 bytes; it takes 0");
}

#[test]
fn keys_and_handles_do_not_print_their_bytes() {
    let gantry = gantry();
    let key = aead::Key::with_mac_key(Aead::Aes128CbcHmacSha256, &[0xab; 16], &[0xab; 32]).unwrap();
    let signing = SigningKey::new(Signature::Ed25519, &[0xab; 32]).unwrap();
    let (handle, signer) = (gantry.aead(&key).unwrap(), gantry.signer(&signing).unwrap());
    assert_eq!(format!("{key:?}"), "Key(aes-128-cbc-hmac-sha256, 16 and 32 bytes)");
    let text = format!("{key:?} {signing:?} {handle:?} {signer:?}").to_lowercase();
    assert!(!text.contains("171") && !text.contains("abab") && !text.contains("ab, ab"), "{text}");
}

#[test]
fn gcm_takes_nonces_of_other_lengths_on_request() {
    let session = gantry().aead(&aead::Key::new("AES-256-GCM".parse().unwrap(), &[1; 32]).unwrap()).unwrap();
    let wrong = session.seal(&[0; 16], b"", &mut [0; 4][..]).unwrap_err();
    assert_eq!(wrong.to_string(), "aes-256-gcm: an IV of 16 bytes; it takes 12");
    let any = session.with_any_nonce().unwrap();
    for length in [1, 8, 12, 16, 100] {
        let (nonce, mut data) = (vec![length as u8; length], *b"data");
        let tag = any.seal(&nonce, b"", &mut data[..]).unwrap();
        any.open(&nonce, b"", &mut data[..], &tag).unwrap();
        assert_eq!(&data, b"data");
    }
    assert!(any.seal(&[], b"", &mut [0; 4][..]).is_err());
}

#[test]
fn the_root_has_few_names() {
    let root = include_str!("../src/lib.rs");
    let exported = root.lines().filter_map(|line| line.strip_prefix("pub "));
    let names: usize = exported.map(|line| line.split(',').count()).sum();
    assert!((10..=25).contains(&names), "{names} names at the root of the crate");
}

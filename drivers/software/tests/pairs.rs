//! Tests key pairs on the software device: invalid keys and points, and signatures that OpenSSL verifies.

mod common;

use std::process::Command;

use aws_lc_sys as lc;
use common::{bytes, params, software};
use gantry_core::driver::{Driver, Found};
use gantry_core::{Algorithm as A, Direction, Error, Operation, Outcome, SessionParams};
use gantry_driver_software::SoftwareDriver;

#[test]
fn a_public_key_alone_verifies_and_does_not_sign() {
    let gantry = software();
    // RFC 8032, 7.1, test 3.
    let private = hex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
    let public = hex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
    let mut signature = [0; 64];
    let signing = gantry.session(SessionParams::new(A::Ed25519, &private).with_direction(Operation::Sign)).unwrap();
    signing.sign(&[0xaf, 0x82], &mut signature).unwrap();
    assert!(matches!(signing.verify(&[0xaf, 0x82], &signature), Err(Error::Misuse(_))));
    let verifying = gantry.session(SessionParams::new(A::Ed25519, &public).with_direction(Operation::Verify)).unwrap();
    verifying.verify(&[0xaf, 0x82], &signature).unwrap();
    assert_eq!(verifying.verify(&[0xaf, 0x83], &signature), Err(Error::Refused(Outcome::BadTag)));
    assert_eq!(verifying.verify(&[0xaf, 0x82], &signature[..63]), Err(Error::Refused(Outcome::BadTag)));
    assert!(matches!(verifying.sign(&[], &mut signature), Err(Error::Misuse(_))));
}

#[test]
fn invalid_keys_open_no_session() {
    let Found::Device(device) = SoftwareDriver.discover().remove(0) else { panic!("it is never excluded") };
    let order = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    let opens = |algorithm, key: &[u8], direction: Direction| {
        device.open(&SessionParams::new(algorithm, key).with_direction(direction)).is_ok()
    };
    for algorithm in [A::EcdsaP256, A::EcdhP256] {
        for (key, good) in
            [(vec![0; 32], false), (order.clone(), false), (vec![0xff; 32], false), (vec![0x7f; 32], true)]
        {
            assert_eq!(opens(algorithm, &key, Direction::Both), good, "{algorithm}: {key:x?}");
        }
    }
    let generator = A::EcdhP256.info().generator;
    let mut off_curve = generator.to_vec();
    off_curve[64] ^= 1;
    assert!(
        opens(A::EcdsaP256, generator, Operation::Verify.into())
            && !opens(A::EcdsaP256, &off_curve, Operation::Verify.into())
    );
    off_curve = generator.to_vec();
    off_curve[0] = 6;
    assert!(!opens(A::EcdsaP256, &off_curve, Operation::Verify.into()));
}

#[test]
fn an_invalid_peer_point_gives_no_secret() {
    let session = software().session(params(A::EcdhP256)).unwrap();
    let mut secret = [7; 32];
    let generator = A::EcdhP256.info().generator;
    session.derive(generator, &mut secret).unwrap();
    assert_ne!(secret, [7; 32]);
    for at in [0, 1, 64] {
        let mut peer = generator.to_vec();
        peer[at] ^= 1;
        let mut secret = [7; 32];
        assert_eq!(session.derive(&peer, &mut secret), Err(Error::Refused(Outcome::BadKey)));
        assert_eq!(secret, [7; 32]);
    }
    assert_eq!(session.derive(&generator[..33], &mut secret), Err(Error::Refused(Outcome::BadLength)));
    // SAFETY: the call only reads the error queue of this thread.
    assert_eq!(unsafe { lc::ERR_peek_error() }, 0);
}

#[test]
fn signatures_of_one_digest_differ() {
    let session = software().session(params(A::EcdsaP256)).unwrap();
    let mut signatures = [[0; 64]; 8];
    for signature in &mut signatures {
        session.sign(&[1; 32], signature).unwrap();
    }
    let halves: std::collections::HashSet<&[u8]> = signatures.iter().flat_map(|both| both.chunks(32)).collect();
    assert_eq!(halves.len(), 16);
    // Only the first 32 bytes of a digest count.
    session.verify(&[1; 64], &signatures[0]).unwrap();
    assert!(session.verify(&[1; 31], &signatures[0]).is_err());
    // Zero, the order, and a larger number, in either half.
    let order = hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    for wrong in [vec![0; 32], order, vec![0xff; 32]] {
        for half in [0, 32] {
            let mut signature = signatures[0];
            signature[half..half + 32].copy_from_slice(&wrong);
            assert_eq!(session.verify(&[1; 32], &signature), Err(Error::Refused(Outcome::BadTag)));
        }
    }
}

#[test]
fn openssl_verifies_rsa_signatures() {
    let folder = std::env::temp_dir().join(format!("gantry-software-rsa-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let gantry = software();
    for (pkcs1, pss) in
        [(A::Rsa2048Pkcs1, A::Rsa2048Pss), (A::Rsa3072Pkcs1, A::Rsa3072Pss), (A::Rsa4096Pkcs1, A::Rsa4096Pss)]
    {
        let key = gantry_core::sample_key(pkcs1).expect("a sample key of the algorithm");
        let public = &key[..pkcs1.info().public_key.max];
        // RSAPublicKey (RFC 8017, A.1.1): the modulus has two length bytes, the exponent one.
        let (modulus, exponent) = public.split_at(pkcs1.info().tag.max);
        let exponent = &exponent[1..];
        let number = |digits: &[u8], header: &[u8]| [&[2], header, digits].concat();
        let length = u16::try_from(modulus.len() + 1).unwrap().to_be_bytes();
        let numbers = [
            number(modulus, &[0x82, length[0], length[1], 0]),
            number(exponent, &[u8::try_from(exponent.len()).unwrap()]),
        ]
        .concat();
        let length = u16::try_from(numbers.len()).unwrap().to_be_bytes();
        std::fs::write(folder.join("key"), [&[0x30, 0x82, length[0], length[1]], &numbers[..]].concat()).unwrap();
        for (algorithm, padding) in [(pkcs1, "pkcs1"), (pss, "pss")] {
            let signing = gantry.session(SessionParams::new(algorithm, key)).unwrap();
            let verifying =
                gantry.session(SessionParams::new(algorithm, public).with_direction(Operation::Verify)).unwrap();
            for (digest, length) in [("sha256", 32), ("sha384", 48), ("sha512", 64)] {
                let input = bytes(length, 5);
                let mut signatures = [(); 2].map(|()| vec![0; algorithm.info().tag.max]);
                for signature in &mut signatures {
                    signing.sign(&input, signature).unwrap();
                    verifying.verify(&input, signature).unwrap();
                    signing.verify(&input, signature).unwrap();
                }
                assert_eq!(signatures[0] == signatures[1], algorithm == pkcs1, "{algorithm}");
                std::fs::write(folder.join("digest"), &input).unwrap();
                std::fs::write(folder.join("signature"), &signatures[0]).unwrap();
                let salt = if algorithm == pss { "-pkeyopt rsa_pss_saltlen:digest" } else { "" };
                let script = format!(
                    "openssl rsa -RSAPublicKey_in -inform DER -in key -pubout -out public 2>error && \
                     openssl pkeyutl -verify -pubin -inkey public -in digest -sigfile signature \
                     -pkeyopt rsa_padding_mode:{padding} {salt} -pkeyopt digest:{digest}"
                );
                let output = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
                assert!(output.status.success(), "{algorithm} {digest}: {output:?}");
            }
            let mut signature = vec![0; algorithm.info().tag.max];
            for wrong in [0, 20, 31, 33, 40, 80] {
                assert_eq!(signing.sign(&bytes(wrong, 1), &mut signature), Err(Error::Refused(Outcome::BadLength)));
            }
            assert!(matches!(verifying.sign(&[0; 32], &mut signature), Err(Error::Misuse(_))));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_public_key_of_small_order_gives_no_secret() {
    let session = software().session(params(A::X25519)).unwrap();
    for peer in [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }] {
        let mut secret = [7; 32];
        assert_eq!(session.derive(&peer, &mut secret), Err(Error::Refused(Outcome::BadKey)));
        assert_eq!(secret, [0; 32]);
    }
    assert_eq!(session.derive(&[9; 31], &mut [0; 32]), Err(Error::Refused(Outcome::BadLength)));
    assert!(matches!(session.derive(&[9; 32], &mut [0; 31]), Err(Error::Misuse(_))));
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

//! Known answers of RSA keys, and unsupported uses of such keys.

use gantry_abi_virtio_crypto::constants::operation;
use gantry_vhost_user_front::parameters::{Layout, Parameters};
use gantry_vhost_user_front::request::Operands;

use crate::common::{ERR, KEY_REJECTED, NOTSUPP, OK};
use crate::{Client, Mode, QUEUE_MODES, for_each_mode, vectors_of};

/// Returns parameters of RSA with PKCS #1 v1.5 over SHA-256, SHA-384 or SHA-512. The length of `digest` selects the
/// number VIRTIO_CRYPTO_RSA_.
fn signature_parameters<'a>(is_private: bool, key: &'a [u8], digest: &[u8]) -> Parameters<'a> {
    let hash = match digest.len() {
        32 => 6,
        48 => 7,
        _ => 8,
    };
    Parameters::Rsa { is_private, key, padding: 1, hash }
}

fn check_signatures(client: &mut Client) {
    let mut signed = 0;
    for (algorithm, modulus) in [("rsa-2048-pkcs1", 256), ("rsa-3072-pkcs1", 384), ("rsa-4096-pkcs1", 512)] {
        for vector in vectors_of("rsa-pkcs1.txt", algorithm) {
            let (digest, signature) = (vector.field("input"), vector.field("output"));
            let public = der(&[&vector.field("public")[..modulus], &vector.field("public")[modulus..]]);
            let both = [signature, digest].concat();
            let verify = Operands::Key {
                data: &both,
                source_length: modulus as u32,
                result_length: digest.len() as u32,
                has_output: false,
            };
            let reply = client.run(operation::AKCIPHER_VERIFY, &signature_parameters(false, &public, digest), &verify);
            let expected = if vector.is_invalid() { KEY_REJECTED } else { OK };
            assert_eq!(reply.status(), expected, "{algorithm}");
            if !vector.has("key") {
                continue;
            }
            let private = private_der(vector.field("key"), modulus);
            if matches!(client.mode, Mode::Message(_)) {
                // The message has room for 1,024 bytes, and keys of this size are longer.
                assert!(private.len() > 1024);
                continue;
            }
            let sign = Operands::Key {
                data: digest,
                source_length: digest.len() as u32,
                result_length: modulus as u32,
                has_output: true,
            };
            client.expect(operation::AKCIPHER_SIGN, &signature_parameters(true, &private, digest), &sign, signature);
            signed += 1;
        }
    }
    assert!(signed > 0 || matches!(client.mode, Mode::Message(_)));
}

#[test]
fn rsa_signs_and_verifies_with_known_answers() {
    for_each_mode(&[&QUEUE_MODES[..], &[Mode::Message(Layout::Qemu10)]].concat(), check_signatures);
}

/// Returns the parameters of a session that encrypts: VIRTIO_CRYPTO_RSA_RAW_PADDING is 0, and there is no digest.
fn encryption_parameters(is_private: bool, key: &[u8], padding: u32) -> Parameters<'_> {
    Parameters::Rsa { is_private, key, padding, hash: 0 }
}

/// Returns the operands of a request with `result_length` bytes of output.
fn key_operands(data: &[u8], result_length: usize) -> Operands<'_> {
    Operands::Key { data, source_length: data.len() as u32, result_length: result_length as u32, has_output: true }
}

/// Vectors of RSA encryption: algorithm, file, the number of the padding, bytes of the modulus.
const ENCRYPTION: [(&str, &str, u32, usize); 8] = [
    ("rsa-2048-raw", "rsaes.txt", 0, 256),
    ("rsa-2048-raw", "computed.txt", 0, 256),
    ("rsa-3072-raw", "computed.txt", 0, 384),
    ("rsa-4096-raw", "computed.txt", 0, 512),
    ("rsaes-2048-pkcs1", "rsaes.txt", 1, 256),
    ("rsaes-2048-pkcs1", "computed.txt", 1, 256),
    ("rsaes-3072-pkcs1", "computed.txt", 1, 384),
    ("rsaes-4096-pkcs1", "computed.txt", 1, 512),
];

fn check_encryption(client: &mut Client) {
    for (algorithm, file, padding, modulus) in ENCRYPTION {
        let mut deciphered = 0;
        for vector in vectors_of(file, algorithm) {
            let (message, ciphertext) = (vector.field("input"), vector.field("output"));
            let public = der(&[&vector.field("public")[..modulus], &vector.field("public")[modulus..]]);
            let private = private_der(vector.field("key"), modulus);
            let has_room = !matches!(client.mode, Mode::Message(_)) || private.len() <= 1024;
            let mut keys = vec![(false, &public)];
            if has_room {
                keys.push((true, &private));
                let decrypt = key_operands(ciphertext, message.len());
                client.expect(
                    operation::AKCIPHER_DECRYPT,
                    &encryption_parameters(true, &private, padding),
                    &decrypt,
                    message,
                );
                deciphered += 1;
            }
            for (is_private, key) in keys {
                let parameters = encryption_parameters(is_private, key, padding);
                let encrypt = key_operands(message, modulus);
                if padding == 0 {
                    client.expect(operation::AKCIPHER_ENCRYPT, &parameters, &encrypt, ciphertext);
                    continue;
                }
                // Each ciphertext differs, but deciphers to the same message.
                let reply = client.run(operation::AKCIPHER_ENCRYPT, &parameters, &encrypt);
                assert_eq!((reply.status(), reply.output.len()), (OK, modulus), "{algorithm}");
                assert_ne!(reply.output, ciphertext, "{algorithm}");
                if has_room {
                    let decrypt = key_operands(&reply.output, message.len());
                    client.expect(
                        operation::AKCIPHER_DECRYPT,
                        &encryption_parameters(true, &private, padding),
                        &decrypt,
                        message,
                    );
                }
            }
        }
        assert!(deciphered > 0 || matches!(client.mode, Mode::Message(_)), "{algorithm}");
    }
}

#[test]
fn rsa_encrypts_and_decrypts_with_known_answers() {
    for_each_mode(&[&QUEUE_MODES[..], &[Mode::Message(Layout::Qemu10)]].concat(), check_encryption);
}

/// Invalid numbers, invalid paddings, and too little room: all fail without a byte of output.
#[test]
fn invalid_rsa_operands_fail_without_output() {
    for_each_mode(&QUEUE_MODES, |client| {
        let vector =
            vectors_of("rsaes.txt", "rsaes-2048-pkcs1").find(|vector| vector.field("input").len() > 8).unwrap();
        let private = private_der(vector.field("key"), 256);
        let (message, ciphertext) = (vector.field("input"), vector.field("output"));
        let (modulus, raised) = (&vector.field("key")[..256], [&[0xff][..], &ciphertext[1..]].concat());
        let mut other = ciphertext.to_vec();
        other[255] ^= 1;
        for (padding, operation, data, room) in [
            (0, operation::AKCIPHER_ENCRYPT, modulus, 256),
            (0, operation::AKCIPHER_ENCRYPT, &[1; 257], 257),
            (0, operation::AKCIPHER_ENCRYPT, &[], 256),
            (0, operation::AKCIPHER_ENCRYPT, ciphertext, 255),
            (0, operation::AKCIPHER_DECRYPT, &raised, 256),
            (0, operation::AKCIPHER_DECRYPT, &[1; 300], 300),
            (0, operation::AKCIPHER_DECRYPT, ciphertext, 255),
            (1, operation::AKCIPHER_ENCRYPT, &[1; 246], 256),
            (1, operation::AKCIPHER_ENCRYPT, message, 255),
            (1, operation::AKCIPHER_DECRYPT, &other, 256),
            (1, operation::AKCIPHER_DECRYPT, &raised, 256),
            (1, operation::AKCIPHER_DECRYPT, &ciphertext[..255], 256),
            (1, operation::AKCIPHER_DECRYPT, &[], 256),
            (1, operation::AKCIPHER_DECRYPT, ciphertext, message.len() - 1),
        ] {
            let reply =
                client.run(operation, &encryption_parameters(true, &private, padding), &key_operands(data, room));
            let what = format!("padding {padding}, operation {operation:#x}, {} bytes", data.len());
            assert_eq!(reply.status(), ERR, "{what}");
            assert!(reply.output.iter().all(|byte| *byte == 0xff), "{what}: an output");
        }
    });
}

/// Linux' driver sends numbers without leading zeros. Results have leading zeros.
#[test]
fn a_number_for_rsa_may_be_shorter_than_the_modulus() {
    for_each_mode(&QUEUE_MODES, |client| {
        let vector = vectors_of("rsaes.txt", "rsa-2048-raw").next().unwrap();
        let private = private_der(vector.field("key"), 256);
        let parameters = encryption_parameters(true, &private, 0);
        let mut number = vec![0; 256];
        number[248..].copy_from_slice(b"8 bytes!");
        let sealed = client.run(operation::AKCIPHER_ENCRYPT, &parameters, &key_operands(&number[248..], 256));
        assert_eq!(sealed.status(), OK);
        client.expect(operation::AKCIPHER_ENCRYPT, &parameters, &key_operands(&number, 256), &sealed.output);
        client.expect(operation::AKCIPHER_DECRYPT, &parameters, &key_operands(&sealed.output, 256), &number);
    });
}

/// Unsupported uses of a key, and digests for which core has no signatures, get their own status.
#[test]
fn unsupported_uses_of_an_rsa_key_are_reported() {
    for_each_mode(&QUEUE_MODES, |client| {
        let vector = vectors_of("rsaes.txt", "rsaes-2048-pkcs1").next().unwrap();
        let public = der(&[&vector.field("public")[..256], &vector.field("public")[256..]]);
        let private = private_der(vector.field("key"), 256);
        let sha1 = |is_private, key| Parameters::Rsa { is_private, key, padding: 1, hash: 3 };
        for (operation, parameters) in [
            (operation::AKCIPHER_DECRYPT, encryption_parameters(false, &public, 0)),
            (operation::AKCIPHER_DECRYPT, encryption_parameters(false, &public, 1)),
            (operation::AKCIPHER_SIGN, encryption_parameters(true, &private, 0)),
            (operation::AKCIPHER_SIGN, sha1(true, &private)),
            (operation::AKCIPHER_SIGN, signature_parameters(false, &public, &[0; 32])),
        ] {
            assert_eq!(client.run(operation, &parameters, &key_operands(&[1; 256], 256)).status(), NOTSUPP);
        }
        let sha1 = client.run(operation::AKCIPHER_ENCRYPT, &sha1(false, &public), &key_operands(b"x", 256));
        assert_eq!(sha1.status(), OK, "encryption needs no digest");
    });
}

/// Encodes an RSAPrivateKey from the numbers in core's format (`gantry_core::rsa`): n, e, d, p, q, two exponents and
/// the inverse.
fn private_der(key: &[u8], modulus: usize) -> Vec<u8> {
    let half = modulus / 2;
    let mut numbers: Vec<&[u8]> = vec![&[0]];
    let mut rest = key;
    for bytes in [modulus, 4, modulus, half, half, half, half, half] {
        let (number, behind) = rest.split_at(bytes);
        numbers.push(number);
        rest = behind;
    }
    der(&numbers)
}

/// Encodes a SEQUENCE of non-negative INTEGERs (X.690).
fn der(numbers: &[&[u8]]) -> Vec<u8> {
    let element = |tag: u8, content: &[u8]| {
        let length = content.len();
        let header = match length {
            0..=127 => vec![tag, length as u8],
            128..=255 => vec![tag, 0x81, length as u8],
            _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
        };
        [&header[..], content].concat()
    };
    let integer = |number: &&[u8]| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count().min(number.len() - 1);
        let number = &number[zeros..];
        // A high bit would make the number negative.
        let sign: &[u8] = if number[0] & 0x80 == 0 { &[] } else { &[0] };
        element(2, &[sign, number].concat())
    };
    element(0x30, &numbers.iter().flat_map(integer).collect::<Vec<_>>())
}

//! Compares the bytes of records with those of aws-lc-rs.

use rustls::crypto::aws_lc_rs;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

use super::*;

const RECORD_TYPE: ContentType = ContentType::ApplicationData;
const VERSION: ProtocolVersion = ProtocolVersion::TLSv1_2;

/// Returns the encrypter and decrypter of a connection whose secrets are fixed.
fn cipher_pair(suite: SupportedCipherSuite) -> (Box<dyn MessageEncrypter>, Box<dyn MessageDecrypter>) {
    let key = || AeadKey::from([7; 32]);
    let iv = || Iv::new(*b"an iv of TLS");
    match suite {
        SupportedCipherSuite::Tls13(suite) => {
            (suite.aead_alg.encrypter(key(), iv()), suite.aead_alg.decrypter(key(), iv()))
        }
        SupportedCipherSuite::Tls12(suite) => {
            let (implicit, explicit) = (&b"salt"[..], &b"explicit"[..]);
            (suite.aead_alg.encrypter(key(), implicit, explicit), suite.aead_alg.decrypter(key(), implicit))
        }
    }
}

/// Returns our suites with AES-256-GCM, each with the same suite of aws-lc-rs. (`AeadKey` has no public constructor for shorter keys.)
fn suites() -> impl Iterator<Item = (SupportedCipherSuite, SupportedCipherSuite)> {
    let aws_lc_suites = aws_lc_rs::default_provider().cipher_suites;
    let pairs = gantry().cipher_suites.into_iter().zip(aws_lc_suites);
    pairs.filter(|(suite, _)| crate::gcm_algorithm(suite.suite()) == Some(gantry_core::Algorithm::Aes256Gcm))
}

/// Seals a record of two chunks. Returns its payload.
fn seal(encrypter: &mut dyn MessageEncrypter, content: &[u8], number: u64) -> Vec<u8> {
    let chunks = <[&[u8]; 2]>::from(content.split_at(content.len() / 3));
    let message = OutboundPlainMessage { typ: RECORD_TYPE, version: VERSION, payload: OutboundChunks::new(&chunks) };
    let record = encrypter.encrypt(message, number).unwrap().encode().split_off(5);
    assert_eq!(record.len(), encrypter.encrypted_payload_len(content.len()));
    record
}

fn open(decrypter: &mut dyn MessageDecrypter, mut record: Vec<u8>, number: u64) -> Result<Vec<u8>, Error> {
    let message = InboundOpaqueMessage::new(RECORD_TYPE, VERSION, &mut record);
    decrypter.decrypt(message, number).map(|message| message.payload.to_vec())
}

#[test]
fn records_equal_those_of_aws_lc_rs() {
    for (ours, own) in suites() {
        // Short records, a record that moves the key to the lanes, and all kinds after it.
        let lengths = [5, 0, 100, 16_384, 0, 1, 255, 4096, 16_384];
        let ((mut seal_ours, mut open_ours), (mut seal_own, mut open_own)) = (cipher_pair(ours), cipher_pair(own));
        for (number, length) in (0..).zip(lengths) {
            let content = content(length);
            let record = seal(&mut *seal_ours, &content, number);
            assert_eq!(record, seal(&mut *seal_own, &content, number), "{ours:?}: {length} bytes");
            assert_eq!(open(&mut *open_ours, record.clone(), number).unwrap(), content);
            assert_eq!(open(&mut *open_own, record, number).unwrap(), content);
        }
    }
}

#[test]
fn too_short_records_are_refused() {
    for (ours, _) in suites() {
        let (mut encrypter, mut decrypter) = cipher_pair(ours);
        let record = seal(&mut *encrypter, &content(16_000), 0);
        for is_in_lanes in [false, true] {
            for length in 0..40 {
                let error = open(&mut *decrypter, vec![0; length], 1);
                assert_eq!(error, Err(Error::DecryptError), "{ours:?}: {length} bytes, {is_in_lanes}");
            }
            assert_eq!(open(&mut *decrypter, record.clone(), 0).unwrap(), content(16_000));
        }
    }
}

#[test]
fn too_long_records_are_refused() {
    for (ours, _) in suites() {
        let (mut encrypter, mut decrypter) = cipher_pair(ours);
        for number in 0..2 {
            let record = seal(&mut *encrypter, &content(16_385), number);
            assert_eq!(open(&mut *decrypter, record, number), Err(Error::PeerSentOversizedRecord), "{ours:?}");
        }
    }
}

#[test]
fn kernels_get_the_keys_of_aws_lc_rs() {
    for (ours, own) in suites() {
        let secrets = |suite| {
            let (key, iv) = (AeadKey::from([7; 32]), Iv::new([9; 12]));
            let extracted = match suite {
                SupportedCipherSuite::Tls13(suite) => suite.aead_alg.extract_keys(key, iv),
                SupportedCipherSuite::Tls12(suite) => suite.aead_alg.extract_keys(key, b"salt", b"explicit"),
            };
            match extracted {
                Ok(ConnectionTrafficSecrets::Aes256Gcm { key, iv }) => (key.as_ref().to_vec(), iv.as_ref().to_vec()),
                _ => panic!("{suite:?}"),
            }
        };
        assert_eq!(secrets(ours), secrets(own));
    }
}

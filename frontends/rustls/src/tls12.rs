//! The records of TLS 1.2 (RFC 5246, 6.2.3.3; RFC 5288, 3).

use gantry_core::{Algorithm, Operation};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter, MessageEncrypter,
    NONCE_LEN, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls12AeadAlgorithm,
    UnsupportedOperationError, make_tls12_aad,
};
use rustls::{CipherSuiteCommon, ConnectionTrafficSecrets, Error, Tls12CipherSuite};

use crate::record_key::{self, RecordKey, TAG_LEN};

/// Bytes of the nonce's part that both ends derive.
const IMPLICIT_NONCE_LEN: usize = 4;
/// Bytes of the nonce's part that each record carries before its data.
const EXPLICIT_NONCE_LEN: usize = 8;
/// The most bytes of content in a record.
const MAX_CONTENT_LEN: usize = 1 << 14;

/// Returns aws-lc-rs' suite with lanes for its records.
pub(crate) fn suite(aws_lc_rs: &'static Tls12CipherSuite, algorithm: Algorithm) -> &'static Tls12CipherSuite {
    Box::leak(Box::new(Tls12CipherSuite {
        common: CipherSuiteCommon { ..aws_lc_rs.common },
        prf_provider: aws_lc_rs.prf_provider,
        kx: aws_lc_rs.kx,
        sign: aws_lc_rs.sign,
        aead_alg: Box::leak(Box::new(AesGcm { aws_lc_rs: aws_lc_rs.aead_alg, algorithm })),
    }))
}

struct AesGcm {
    aws_lc_rs: &'static dyn Tls12AeadAlgorithm,
    algorithm: Algorithm,
}

impl Tls12AeadAlgorithm for AesGcm {
    fn encrypter(&self, key: AeadKey, implicit: &[u8], explicit: &[u8]) -> Box<dyn MessageEncrypter> {
        let record_key = RecordKey::new(self.algorithm, Operation::Seal, &key);
        // As in aws-lc-rs, the first explicit part comes from the key block, and later ones are its XOR with the record's number.
        let mut iv = [0; NONCE_LEN];
        iv[..IMPLICIT_NONCE_LEN].copy_from_slice(implicit);
        iv[IMPLICIT_NONCE_LEN..].copy_from_slice(explicit);
        Box::new(Encrypter {
            key: record_key,
            aws_lc_rs: self.aws_lc_rs.encrypter(key, implicit, explicit),
            iv: Iv::new(iv),
        })
    }

    fn decrypter(&self, key: AeadKey, implicit: &[u8]) -> Box<dyn MessageDecrypter> {
        let record_key = RecordKey::new(self.algorithm, Operation::Open, &key);
        let aws_lc_rs = self.aws_lc_rs.decrypter(key, implicit);
        Box::new(Decrypter {
            key: record_key,
            aws_lc_rs,
            implicit: *implicit.as_array().expect("the shape of the key block"),
        })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        self.aws_lc_rs.key_block_shape()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        implicit: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.aws_lc_rs.extract_keys(key, implicit, explicit)
    }
}

struct Encrypter {
    aws_lc_rs: Box<dyn MessageEncrypter>,
    key: RecordKey,
    iv: Iv,
}

impl MessageEncrypter for Encrypter {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        sequence_number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let OutboundPlainMessage { typ, version, ref payload } = message;
        let (content_len, encrypted_len) = (payload.len(), self.encrypted_payload_len(payload.len()));
        let Some(session) = self.key.session(encrypted_len) else {
            return self.aws_lc_rs.encrypt(message, sequence_number);
        };
        let nonce = Nonce::new(&self.iv, sequence_number).0;
        let mut record = PrefixedPayload::with_capacity(encrypted_len);
        record.extend_from_slice(&nonce[IMPLICIT_NONCE_LEN..]);
        record.extend_from_chunks(payload);
        record_key::seal(
            session,
            &nonce,
            &make_tls12_aad(sequence_number, typ, version, content_len),
            &mut record,
            EXPLICIT_NONCE_LEN,
        )?;
        Ok(OutboundOpaqueMessage::new(typ, version, record))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        self.aws_lc_rs.encrypted_payload_len(length)
    }
}

struct Decrypter {
    aws_lc_rs: Box<dyn MessageDecrypter>,
    key: RecordKey,
    implicit: [u8; IMPLICIT_NONCE_LEN],
}

impl MessageDecrypter for Decrypter {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence_number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let InboundOpaqueMessage { typ, version, ref mut payload } = message;
        let Some(session) = self.key.session(payload.len()) else {
            return self.aws_lc_rs.decrypt(message, sequence_number);
        };
        let content_len = payload.len().checked_sub(EXPLICIT_NONCE_LEN + TAG_LEN).ok_or(Error::DecryptError)?;
        let (explicit, sealed) = payload.split_at_mut(EXPLICIT_NONCE_LEN);
        let mut nonce = [0; NONCE_LEN];
        nonce[..IMPLICIT_NONCE_LEN].copy_from_slice(&self.implicit);
        nonce[IMPLICIT_NONCE_LEN..].copy_from_slice(explicit);
        let aad = make_tls12_aad(sequence_number, typ, version, content_len);
        record_key::open(session, &nonce, &aad, sealed)?;
        if content_len > MAX_CONTENT_LEN {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok(message.into_plain_message_range(EXPLICIT_NONCE_LEN..EXPLICIT_NONCE_LEN + content_len))
    }
}

//! The records of TLS 1.3 (RFC 8446, 5.2).

use gantry_core::{Algorithm, Operation};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter, Nonce,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm, UnsupportedOperationError,
    make_tls13_aad,
};
use rustls::{CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, Tls13CipherSuite};

use crate::record_key::{self, RecordKey};

/// Returns aws-lc-rs' suite with lanes for its records. QUIC's packets are too short to gain.
pub(crate) fn suite(aws_lc_rs: &'static Tls13CipherSuite, algorithm: Algorithm) -> &'static Tls13CipherSuite {
    Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..aws_lc_rs.common },
        hkdf_provider: aws_lc_rs.hkdf_provider,
        aead_alg: Box::leak(Box::new(AesGcm { aws_lc_rs: aws_lc_rs.aead_alg, algorithm })),
        quic: aws_lc_rs.quic,
    }))
}

struct AesGcm {
    aws_lc_rs: &'static dyn Tls13AeadAlgorithm,
    algorithm: Algorithm,
}

impl Tls13AeadAlgorithm for AesGcm {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        let record_key = RecordKey::new(self.algorithm, Operation::Seal, &key);
        Box::new(Encrypter { key: record_key, aws_lc_rs: self.aws_lc_rs.encrypter(key, Iv::copy(iv.as_ref())), iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        let record_key = RecordKey::new(self.algorithm, Operation::Open, &key);
        Box::new(Decrypter { key: record_key, aws_lc_rs: self.aws_lc_rs.decrypter(key, Iv::copy(iv.as_ref())), iv })
    }

    fn key_len(&self) -> usize {
        self.aws_lc_rs.key_len()
    }

    fn extract_keys(&self, key: AeadKey, iv: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.aws_lc_rs.extract_keys(key, iv)
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
        let length = self.encrypted_payload_len(message.payload.len());
        let Some(session) = self.key.session(length) else { return self.aws_lc_rs.encrypt(message, sequence_number) };
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&message.typ.to_array());
        record_key::seal(session, &Nonce::new(&self.iv, sequence_number).0, &make_tls13_aad(length), &mut payload, 0)?;
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        self.aws_lc_rs.encrypted_payload_len(length)
    }
}

struct Decrypter {
    aws_lc_rs: Box<dyn MessageDecrypter>,
    key: RecordKey,
    iv: Iv,
}

impl MessageDecrypter for Decrypter {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        sequence_number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let length = message.payload.len();
        let Some(session) = self.key.session(length) else { return self.aws_lc_rs.decrypt(message, sequence_number) };
        let (nonce, aad) = (Nonce::new(&self.iv, sequence_number).0, make_tls13_aad(length));
        let content_len = record_key::open(session, &nonce, &aad, &mut message.payload)?;
        message.payload.truncate(content_len);
        message.into_tls13_unpadded_message()
    }
}

//! The records of TLS 1.3 (RFC 8446, 5.2).

use gantry_core::{Algorithm, Operation};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter, Nonce,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm, UnsupportedOperationError,
    make_tls13_aad,
};
use rustls::{CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, Tls13CipherSuite};

use crate::lanes::{self, Lanes};

/// Returns aws-lc-rs' suite with lanes for its records. QUIC's packets are too short to gain.
pub(crate) fn suite(own: &'static Tls13CipherSuite, algorithm: Algorithm) -> &'static Tls13CipherSuite {
    Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..own.common },
        hkdf_provider: own.hkdf_provider,
        aead_alg: Box::leak(Box::new(Gcm { own: own.aead_alg, algorithm })),
        quic: own.quic,
    }))
}

struct Gcm {
    own: &'static dyn Tls13AeadAlgorithm,
    algorithm: Algorithm,
}

impl Tls13AeadAlgorithm for Gcm {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        let lanes = Lanes::new(self.algorithm, Operation::Seal, &key);
        Box::new(Encrypter { lanes, own: self.own.encrypter(key, Iv::copy(iv.as_ref())), iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        let lanes = Lanes::new(self.algorithm, Operation::Open, &key);
        Box::new(Decrypter { lanes, own: self.own.decrypter(key, Iv::copy(iv.as_ref())), iv })
    }

    fn key_len(&self) -> usize {
        self.own.key_len()
    }

    fn extract_keys(&self, key: AeadKey, iv: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.own.extract_keys(key, iv)
    }
}

struct Encrypter {
    own: Box<dyn MessageEncrypter>,
    lanes: Lanes,
    iv: Iv,
}

impl MessageEncrypter for Encrypter {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, number: u64) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let Some(session) = self.lanes.session(length) else { return self.own.encrypt(message, number) };
        let mut payload = PrefixedPayload::with_capacity(length);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&message.typ.to_array());
        lanes::seal(session, &Nonce::new(&self.iv, number).0, &make_tls13_aad(length), &mut payload, 0)?;
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        self.own.encrypted_payload_len(length)
    }
}

struct Decrypter {
    own: Box<dyn MessageDecrypter>,
    lanes: Lanes,
    iv: Iv,
}

impl MessageDecrypter for Decrypter {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let length = message.payload.len();
        let Some(session) = self.lanes.session(length) else { return self.own.decrypt(message, number) };
        let (nonce, aad) = (Nonce::new(&self.iv, number).0, make_tls13_aad(length));
        let content = lanes::open(session, &nonce, &aad, &mut message.payload)?;
        message.payload.truncate(content);
        message.into_tls13_unpadded_message()
    }
}

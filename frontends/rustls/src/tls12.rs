//! The records of TLS 1.2 (RFC 5246, 6.2.3.3; RFC 5288, 3).

use gantry_core::{Algorithm, Operation};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter, MessageEncrypter,
    NONCE_LEN, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls12AeadAlgorithm,
    UnsupportedOperationError, make_tls12_aad,
};
use rustls::{CipherSuiteCommon, ConnectionTrafficSecrets, Error, Tls12CipherSuite};

use crate::lanes::{self, Lanes, TAG};

/// Bytes of the nonce's part that both ends derive. The next constant has the bytes of the part that each record carries before its data.
const IMPLICIT: usize = 4;
const EXPLICIT: usize = 8;
/// The most bytes of content in a record.
const MAX_CONTENT: usize = 1 << 14;

/// Returns aws-lc-rs' suite with lanes for its records.
pub(crate) fn suite(own: &'static Tls12CipherSuite, algorithm: Algorithm) -> &'static Tls12CipherSuite {
    Box::leak(Box::new(Tls12CipherSuite {
        common: CipherSuiteCommon { ..own.common },
        prf_provider: own.prf_provider,
        kx: own.kx,
        sign: own.sign,
        aead_alg: Box::leak(Box::new(Gcm { own: own.aead_alg, algorithm })),
    }))
}

struct Gcm {
    own: &'static dyn Tls12AeadAlgorithm,
    algorithm: Algorithm,
}

impl Tls12AeadAlgorithm for Gcm {
    fn encrypter(&self, key: AeadKey, implicit: &[u8], explicit: &[u8]) -> Box<dyn MessageEncrypter> {
        let lanes = Lanes::new(self.algorithm, Operation::Seal, &key);
        // As aws-lc-rs: the first explicit part comes from the key block, and later ones are its XOR with the record's number.
        let mut iv = [0; NONCE_LEN];
        iv[..IMPLICIT].copy_from_slice(implicit);
        iv[IMPLICIT..].copy_from_slice(explicit);
        Box::new(Encrypter { lanes, own: self.own.encrypter(key, implicit, explicit), iv: Iv::new(iv) })
    }

    fn decrypter(&self, key: AeadKey, implicit: &[u8]) -> Box<dyn MessageDecrypter> {
        let lanes = Lanes::new(self.algorithm, Operation::Open, &key);
        let own = self.own.decrypter(key, implicit);
        Box::new(Decrypter { lanes, own, implicit: *implicit.as_array().expect("the shape of the key block") })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        self.own.key_block_shape()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        implicit: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.own.extract_keys(key, implicit, explicit)
    }
}

struct Encrypter {
    own: Box<dyn MessageEncrypter>,
    lanes: Lanes,
    iv: Iv,
}

impl MessageEncrypter for Encrypter {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, number: u64) -> Result<OutboundOpaqueMessage, Error> {
        let OutboundPlainMessage { typ, version, ref payload } = message;
        let (content, length) = (payload.len(), self.encrypted_payload_len(payload.len()));
        let Some(session) = self.lanes.session(length) else { return self.own.encrypt(message, number) };
        let nonce = Nonce::new(&self.iv, number).0;
        let mut record = PrefixedPayload::with_capacity(length);
        record.extend_from_slice(&nonce[IMPLICIT..]);
        record.extend_from_chunks(payload);
        lanes::seal(session, &nonce, &make_tls12_aad(number, typ, version, content), &mut record, EXPLICIT)?;
        Ok(OutboundOpaqueMessage::new(typ, version, record))
    }

    fn encrypted_payload_len(&self, length: usize) -> usize {
        self.own.encrypted_payload_len(length)
    }
}

struct Decrypter {
    own: Box<dyn MessageDecrypter>,
    lanes: Lanes,
    implicit: [u8; IMPLICIT],
}

impl MessageDecrypter for Decrypter {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let InboundOpaqueMessage { typ, version, ref mut payload } = message;
        let Some(session) = self.lanes.session(payload.len()) else { return self.own.decrypt(message, number) };
        let content = payload.len().checked_sub(EXPLICIT + TAG).ok_or(Error::DecryptError)?;
        let (explicit, sealed) = payload.split_at_mut(EXPLICIT);
        let mut nonce = [0; NONCE_LEN];
        nonce[..IMPLICIT].copy_from_slice(&self.implicit);
        nonce[IMPLICIT..].copy_from_slice(explicit);
        let aad = make_tls12_aad(number, typ, version, content);
        lanes::open(session, &nonce, &aad, sealed)?;
        if content > MAX_CONTENT {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok(message.into_plain_message_range(EXPLICIT..EXPLICIT + content))
    }
}

//! TLS 1.2 records, each one chunk with everything in it.

use gantry_core::{Operation, SessionParams};

use super::{AeadState, NONCE_LEN, Phase, RECORD_HEADER_LEN, TAG_LEN};
use crate::framework::Side;
use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io};
use crate::provider::WrappedAlgorithm;
use crate::table::Aead;

/// Bytes of GCM's explicit nonce before the data (RFC 5288).
const EXPLICIT_NONCE_LEN: usize = 8;

impl AeadState {
    /// Processes a TLS 1.2 record in place: GCM's explicit nonce, data, tag.
    pub(super) fn process_record(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        call: CipherCall,
        io: &mut Io<'_>,
        mut header: [u8; RECORD_HEADER_LEN],
    ) -> i32 {
        // The nonce is used up; the default provider decides about the call.
        if self.message_has_ended && self.aead == Aead::ChaCha && !self.may_reuse_nonce {
            return default_ctx.forward(call, io);
        }
        if self.aead == Aead::Gcm {
            // The nonce is used up, even if the record is refused.
            self.phase = Phase::DefaultProvider;
        }
        let operation = self.operation();
        let explicit_len = if self.aead == Aead::Gcm { EXPLICIT_NONCE_LEN } else { 0 };
        let framework_and_algorithm = wrapped.framework().zip(wrapped.algorithm());
        let Some(bytes) = io.len().checked_sub(explicit_len + TAG_LEN) else { return default_ctx.forward(call, io) };
        let Some((framework, algorithm)) = framework_and_algorithm else {
            wrapped.count(operation, Side::DefaultProvider, bytes);
            return default_ctx.forward(call, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if self.device_side.choose_side(framework, operation, bytes, params, algorithm) == Side::Device
            && io.is_in_place()
            && let Some(nonce) = self.record_nonce(default_ctx, io, &header, bytes)
            && let Some(session) = self.device_side.session_for_use()
        {
            // The tag authenticates a header with the length of the data alone.
            header[RECORD_HEADER_LEN - 2..].copy_from_slice(&(bytes as u16).to_be_bytes());
            let Some(mut data) = io.buffers() else { return self.refuse(wrapped, call, io) };
            let (explicit_nonce, rest) = data.output().split_at_mut(explicit_len);
            let (text, tag) = rest.split_at_mut(bytes);
            explicit_nonce.copy_from_slice(&nonce[NONCE_LEN - explicit_len..]);
            let result = match operation {
                Operation::Seal => session.seal(&nonce, &header, &mut *text, tag),
                _ => session.open(&nonce, &header, &mut *text, tag),
            };
            if result.is_err() {
                text.fill(0);
            }
            wrapped.count(operation, Side::Device, bytes);
            if self.aead == Aead::Gcm {
                default_ctx.drop_record_header();
            }
            let written = if self.seal { explicit_len + bytes + TAG_LEN } else { bytes };
            return if result.is_ok() { io.succeed(written) } else { self.refuse(wrapped, call, io) };
        }
        let result = default_ctx.forward(call, io);
        wrapped.count(operation, Side::DefaultProvider, bytes);
        result
    }

    /// Returns the nonce of a record, or `None` if the default provider must examine the record.
    fn record_nonce(
        &self,
        default_ctx: &DefaultProviderCipherCtx,
        io: &Io<'_>,
        header: &[u8; RECORD_HEADER_LEN],
        bytes: usize,
    ) -> Option<[u8; NONCE_LEN]> {
        // The length in the header includes the explicit nonce. It includes the tag only when opening.
        let length = usize::from(u16::from_be_bytes([header[RECORD_HEADER_LEN - 2], header[RECORD_HEADER_LEN - 1]]));
        let explicit_len = if self.aead == Aead::Gcm { EXPLICIT_NONCE_LEN } else { 0 };
        if length != explicit_len + bytes + if self.seal { 0 } else { TAG_LEN } {
            return None;
        }
        match self.aead {
            Aead::Gcm if !self.default_ctx_has_fixed_nonce => None,
            Aead::Gcm => {
                let mut nonce = default_ctx.octets::<NONCE_LEN>(c"iv")?;
                // When sealing, the default provider increments the record nonce.
                let explicit = match self.operation() {
                    Operation::Seal => default_ctx.octets::<EXPLICIT_NONCE_LEN>(c"tlsivgen"),
                    _ => io.input().first_chunk().copied(),
                };
                nonce[NONCE_LEN - EXPLICIT_NONCE_LEN..].copy_from_slice(&explicit?);
                Some(nonce)
            }
            Aead::ChaCha => {
                let mut nonce = self.fixed_nonce?;
                // The record's sequence number, eight bytes (RFC 7905).
                for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(header) {
                    *byte ^= number;
                }
                Some(nonce)
            }
        }
    }
}

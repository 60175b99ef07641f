//! TLS 1.2 records, each one chunk with everything in it.

use gantry_core::{Operation, SessionParams};

use super::{AeadState, HEADER, NONCE, Phase, TAG};
use crate::framework::Side;
use crate::host::{CipherCall, Host, Io};
use crate::provider::Wrapped;
use crate::table::Aead;

/// Bytes of GCM's explicit nonce before the data (RFC 5288).
const EXPLICIT: usize = 8;

impl AeadState {
    /// Processes a TLS 1.2 record in place: GCM's explicit nonce, data, tag.
    pub(super) fn record(
        &mut self,
        wrapped: &Wrapped,
        host: &Host,
        call: CipherCall,
        io: &mut Io<'_>,
        mut header: [u8; HEADER],
    ) -> i32 {
        if self.has_ended && self.aead == Aead::ChaCha && !self.reusable {
            return host.forward(call, io);
        }
        if self.aead == Aead::Gcm {
            // The nonce is used up, also if the record is refused.
            self.phase = Phase::Host;
        }
        let operation = self.operation();
        let explicit = if self.aead == Aead::Gcm { EXPLICIT } else { 0 };
        let opened = wrapped.framework().zip(wrapped.algorithm());
        let Some(bytes) = io.len().checked_sub(explicit + TAG) else { return host.forward(call, io) };
        let Some((framework, algorithm)) = opened else {
            wrapped.count(operation, Side::Host, bytes);
            return host.forward(call, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if self.engine.side(framework, operation, bytes, params, algorithm) == Side::Device
            && io.in_place()
            && let Some(nonce) = self.record_nonce(host, io, &header, bytes)
            && let Some(session) = self.engine.session_for_use()
        {
            header[HEADER - 2..].copy_from_slice(&(bytes as u16).to_be_bytes());
            let Some(mut data) = io.buffers() else { return self.refuse(wrapped, call, io) };
            let (front, rest) = data.output().split_at_mut(explicit);
            let (text, tag) = rest.split_at_mut(bytes);
            front.copy_from_slice(&nonce[NONCE - explicit..]);
            let result = match operation {
                Operation::Seal => session.seal(&nonce, &header, &mut *text, tag),
                _ => session.open(&nonce, &header, &mut *text, tag),
            };
            if result.is_err() {
                text.fill(0);
            }
            wrapped.count(operation, Side::Device, bytes);
            if self.aead == Aead::Gcm {
                host.end_record();
            }
            let written = if self.seal { explicit + bytes + TAG } else { bytes };
            return if result.is_ok() { io.succeed(written) } else { self.refuse(wrapped, call, io) };
        }
        let result = host.forward(call, io);
        wrapped.count(operation, Side::Host, bytes);
        result
    }

    /// Returns the nonce of a record, or `None` if the host must examine the record.
    fn record_nonce(&self, host: &Host, io: &Io<'_>, header: &[u8; HEADER], bytes: usize) -> Option<[u8; NONCE]> {
        // The length in the header includes the explicit nonce. It includes the tag only when opening.
        let length = usize::from(u16::from_be_bytes([header[HEADER - 2], header[HEADER - 1]]));
        let explicit = if self.aead == Aead::Gcm { EXPLICIT } else { 0 };
        if length != explicit + bytes + if self.seal { 0 } else { TAG } {
            return None;
        }
        match self.aead {
            Aead::Gcm if !self.has_fixed => None,
            Aead::Gcm => {
                let mut nonce = host.octets::<NONCE>(c"iv")?;
                // When sealing, the host increments the record nonce.
                let explicit = match self.operation() {
                    Operation::Seal => host.octets::<EXPLICIT>(c"tlsivgen"),
                    _ => io.input().first_chunk().copied(),
                };
                nonce[NONCE - EXPLICIT..].copy_from_slice(&explicit?);
                Some(nonce)
            }
            Aead::ChaCha => {
                let mut nonce = self.fixed?;
                // The record's sequence number, eight bytes (RFC 7905).
                for (byte, number) in nonce[NONCE - 8..].iter_mut().zip(header) {
                    *byte ^= number;
                }
                Some(nonce)
            }
        }
    }
}

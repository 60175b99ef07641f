//! Records of TLS 1.2, each in one piece with everything in it.

use gantry_core::{Operation, SessionParams};

use super::{HEADER, NONCE, Phase, Sealed, TAG};
use crate::boundary::{Host, Io, Way, Wrapped};
use crate::framework::Side;
use crate::table::Aead;

/// GCM's explicit nonce before the data (RFC 5288).
const EXPLICIT: usize = 8;

impl Sealed {
    /// A record of TLS 1.2, in place: GCM's explicit nonce, data, tag.
    pub(super) fn record(
        &mut self,
        wrapped: &Wrapped,
        host: &Host,
        way: Way,
        io: &mut Io<'_>,
        mut header: [u8; HEADER],
    ) -> i32 {
        if self.has_ended && self.aead == Aead::ChaCha && !self.reusable {
            // Such a release takes no data then, but for those that come by the other call.
            return if way == Way::Update { io.refused() } else { host.data(way, io) };
        }
        let operation = self.operation();
        let explicit = if self.aead == Aead::Gcm { EXPLICIT } else { 0 };
        let opened = wrapped.framework().zip(wrapped.algorithm());
        let Some(bytes) = io.len().checked_sub(explicit + TAG) else { return host.data(way, io) };
        let Some((framework, algorithm)) = opened else {
            wrapped.count(operation, Side::Host, bytes);
            return host.data(way, io);
        };
        let key = &self.key;
        let params = || SessionParams::new(algorithm, &key.bytes());
        if self.engine.side(framework, operation, bytes, params, algorithm) == Side::Device
            && io.in_place()
            && let Some(nonce) = self.record_nonce(host, io, &header, bytes)
            && let Some(session) = self.engine.session_now()
        {
            header[HEADER - 2..].copy_from_slice(&(bytes as u16).to_be_bytes());
            let Some(mut data) = io.buffers() else { return io.refused() };
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
                self.phase = Phase::Host;
            }
            let written = if self.seal { explicit + bytes + TAG } else { bytes };
            return if result.is_ok() { io.done(written) } else { io.refused() };
        }
        let result = host.data(way, io);
        wrapped.count(operation, Side::Host, bytes);
        result
    }

    /// The nonce of a record; `None` if the host has to look at it.
    fn record_nonce(&self, host: &Host, io: &Io<'_>, header: &[u8; HEADER], bytes: usize) -> Option<[u8; NONCE]> {
        // What the header says of the length: of all of the record, as far as there is one.
        let length = usize::from(u16::from_be_bytes([header[HEADER - 2], header[HEADER - 1]]));
        let explicit = if self.aead == Aead::Gcm { EXPLICIT } else { 0 };
        if length != explicit + bytes + if self.seal { 0 } else { TAG } {
            return None;
        }
        match self.aead {
            Aead::Gcm if !self.is_fixed => None,
            Aead::Gcm => {
                let mut nonce = host.octets::<NONCE>(c"iv")?;
                // The host counts the nonces of records that it seals.
                let explicit = match self.operation() {
                    Operation::Seal => host.octets::<EXPLICIT>(c"tlsivgen"),
                    _ => io.input().first_chunk().copied(),
                };
                nonce[NONCE - EXPLICIT..].copy_from_slice(&explicit?);
                Some(nonce)
            }
            Aead::ChaCha => {
                let mut nonce = self.fixed?;
                // Its number, which is eight bytes (RFC 7905).
                for (byte, number) in nonce[NONCE - 8..].iter_mut().zip(header) {
                    *byte ^= number;
                }
                Some(nonce)
            }
        }
    }
}

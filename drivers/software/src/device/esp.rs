//! Whole ESP packets (RFC 4303): header, padding and trailer around an AEAD.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{Buffers, DeviceSession, Operands, Unsupported};
use gantry_core::esp::{HEADER_LEN, TRAILER_LEN, read_trailer, write_trailer};
use gantry_core::{Esp, Fault, Operation, Outcome, SessionParams};

use crate::session::{Secret, SessionResult, failed_call, unsupported_operation};

const SALT_BYTES: usize = 4;
/// Bytes of an IV that must be unpredictable (RFC 3602, 3).
const RANDOM_IV_BYTES: usize = 16;

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let info = params.algorithm().info();
    let (Some(aead), Some(Esp { spi, extended })) = (info.aead, params.esp()) else {
        return Err(Unsupported::because("not an ESP algorithm, or the session has no ESP parameters"));
    };
    let has_random_iv = info.iv.max == RANDOM_IV_BYTES;
    if has_random_iv && extended {
        return Err(Unsupported::because("extended sequence numbers are not supported with HMAC"));
    }
    let salt_length = if has_random_iv { 0 } else { SALT_BYTES };
    let Some((key, salt)) = params.key().split_at_checked(params.key().len().wrapping_sub(salt_length)) else {
        return Err(Unsupported::because("the key has a wrong length"));
    };
    let inner = SessionParams::new(aead, key).with_mac_key(params.mac_key()).with_tag_len(params.tag_len());
    let mut stored_salt = Secret::<[u8; SALT_BYTES]>::zeroed();
    stored_salt[..salt.len()].copy_from_slice(salt);
    let (block, tag_len) = (info.block, params.tag_len());
    Ok(Arc::new(EspSession {
        inner: super::open(&inner)?,
        salt: stored_salt,
        spi,
        extended,
        has_random_iv,
        block,
        tag_len,
    }))
}

struct EspSession {
    inner: Arc<dyn DeviceSession>,
    salt: Secret<[u8; SALT_BYTES]>,
    spi: u32,
    extended: bool,
    /// True if the IV in a packet is random; otherwise it is the packet's number.
    has_random_iv: bool,
    block: usize,
    tag_len: usize,
}

/// A packet split into the operands of an AEAD.
struct PacketParts<'p> {
    /// The nonce: the IV of the packet, after the salt if the IV is the packet's number.
    nonce: [u8; RANDOM_IV_BYTES],
    nonce_length: usize,
    /// The data that is authenticated but not encrypted.
    aad: [u8; 12],
    aad_length: usize,
    data: &'p mut [u8],
    tag: &'p mut [u8],
}

impl EspSession {
    fn data_offset(&self) -> usize {
        HEADER_LEN + if self.has_random_iv { RANDOM_IV_BYTES } else { 8 }
    }

    /// Returns the parts of a packet that has its header and IV.
    fn parts<'p>(&self, number: u64, packet: &'p mut [u8]) -> Option<PacketParts<'p>> {
        let (head, rest) = packet.split_at_mut_checked(self.data_offset())?;
        let (data, tag) = rest.split_at_mut_checked(rest.len().checked_sub(self.tag_len)?)?;
        let (mut nonce, mut nonce_length) = ([0; RANDOM_IV_BYTES], RANDOM_IV_BYTES);
        if self.has_random_iv {
            nonce.copy_from_slice(&head[HEADER_LEN..]);
        } else {
            nonce[..SALT_BYTES].copy_from_slice(&*self.salt);
            nonce[SALT_BYTES..12].copy_from_slice(&head[HEADER_LEN..]);
            nonce_length = 12;
        }
        let (mut aad, mut aad_length) = ([0; 12], HEADER_LEN);
        aad[..HEADER_LEN].copy_from_slice(&head[..HEADER_LEN]);
        if self.extended {
            // The packet lacks the upper half of the number, which belongs between the SPI and the lower half (RFC 4106, 5).
            aad[4..].copy_from_slice(&number.to_be_bytes());
            aad_length = 12;
        }
        Some(PacketParts { nonce, nonce_length, aad, aad_length, data, tag })
    }

    fn protect(&self, number: u64, packet: &mut [u8], payload: usize, next_header: u8) -> Result<Outcome, Fault> {
        let (data_start, end) = (self.data_offset(), packet.len().saturating_sub(self.tag_len));
        if payload > end {
            return unsupported_operation();
        }
        let padding = (payload + TRAILER_LEN).next_multiple_of(self.block) - payload - TRAILER_LEN;
        if end != data_start + payload + padding + TRAILER_LEN {
            return unsupported_operation();
        }
        packet[..4].copy_from_slice(&self.spi.to_be_bytes());
        packet[4..HEADER_LEN].copy_from_slice(&(number as u32).to_be_bytes());
        if !self.has_random_iv {
            packet[HEADER_LEN..data_start].copy_from_slice(&number.to_be_bytes());
        // SAFETY: the buffer has the length that is passed.
        } else if unsafe { lc::RAND_bytes(packet[HEADER_LEN..].as_mut_ptr(), RANDOM_IV_BYTES) } != 1 {
            return Err(failed_call("RAND_bytes"));
        }
        write_trailer(&mut packet[data_start..end], payload, next_header);
        let Some(PacketParts { nonce, nonce_length, aad, aad_length, data, tag }) = self.parts(number, packet) else {
            return unsupported_operation();
        };
        let (iv, aad, data) = (&nonce[..nonce_length], &aad[..aad_length], Buffers::InPlace(data));
        self.inner.run(Operands::Seal { iv, aad, data, tag })
    }

    /// Returns the outcome, the length of the payload, and the next header.
    fn unprotect(&self, number: u64, packet: &mut [u8]) -> Result<(Outcome, usize, u8), Fault> {
        let header = packet.first_chunk::<HEADER_LEN>().map(|header| u64::from_be_bytes(*header));
        let expected = u64::from(self.spi) << 32 | number & u64::from(u32::MAX);
        let parts = if header == Some(expected) { self.parts(number, packet) } else { None };
        let Some(PacketParts { nonce, nonce_length, aad, aad_length, data, tag }) = parts else {
            return Ok((Outcome::Malformed, 0, 0));
        };
        let (iv, aad) = (&nonce[..nonce_length], &aad[..aad_length]);
        let outcome = self.inner.run(Operands::Open { iv, aad, data: Buffers::InPlace(&mut *data), tag })?;
        if outcome != Outcome::Done {
            return Ok((outcome, 0, 0));
        }
        if let Ok((payload, next_header)) = read_trailer(data) {
            return Ok((outcome, payload, next_header));
        }
        data.fill(0);
        Ok((Outcome::Malformed, 0, 0))
    }
}

impl DeviceSession for EspSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Packet { operation, number, packet, payload_len, next_header } = operands else {
            return unsupported_operation();
        };
        match operation {
            Operation::Protect => self.protect(number, packet, *payload_len, *next_header),
            Operation::Unprotect => {
                let (outcome, length, next) = self.unprotect(number, packet)?;
                (*payload_len, *next_header) = (length, next);
                Ok(outcome)
            }
            _ => unsupported_operation(),
        }
    }
}

//! Whole ESP packets (RFC 4303): header, padding and trailer around an AEAD.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{Buffers, DeviceSession, Operands, Unsupported};
use gantry_core::esp::{HEADER, TRAILER, read_trailer, write_trailer};
use gantry_core::{Esp, Fault, Operation, Outcome, SessionParams};

use crate::session::{Secret, SessionResult, failed, wrong_kind};

const SALT: usize = 4;
/// Bytes of an IV that must be unpredictable (RFC 3602, 3).
const BLOCK: usize = 16;

pub(crate) fn open(params: &SessionParams) -> SessionResult {
    let info = params.algorithm().info();
    let (Some(aead), Some(Esp { spi, extended })) = (info.aead, params.esp()) else {
        return Err(Unsupported::because("not an ESP algorithm, or the session has no ESP parameters"));
    };
    let random_iv = info.iv.max == BLOCK;
    if random_iv && extended {
        return Err(Unsupported::because("extended sequence numbers are not supported with HMAC"));
    }
    let salt_length = if random_iv { 0 } else { SALT };
    let Some((key, salt)) = params.key().split_at_checked(params.key().len().wrapping_sub(salt_length)) else {
        return Err(Unsupported::because("the key has a wrong length"));
    };
    let inner = SessionParams::new(aead, key).with_mac_key(params.mac_key()).with_tag_len(params.tag_len());
    let mut stored_salt = Secret::<[u8; SALT]>::zeroed();
    stored_salt[..salt.len()].copy_from_slice(salt);
    let (block, tag) = (info.block, params.tag_len());
    Ok(Arc::new(EspSession { inner: super::open(&inner)?, salt: stored_salt, spi, extended, random_iv, block, tag }))
}

struct EspSession {
    inner: Arc<dyn DeviceSession>,
    salt: Secret<[u8; SALT]>,
    spi: u32,
    extended: bool,
    /// True if the IV in a packet is random; otherwise it is the packet's number.
    random_iv: bool,
    block: usize,
    tag: usize,
}

/// A packet split into the operands of an AEAD.
struct Parts<'p> {
    /// The nonce: the IV of the packet, after the salt if the IV is the packet's number.
    nonce: [u8; BLOCK],
    nonce_length: usize,
    /// The data that is authenticated but not encrypted.
    aad: [u8; 12],
    aad_length: usize,
    data: &'p mut [u8],
    tag: &'p mut [u8],
}

impl EspSession {
    fn start(&self) -> usize {
        HEADER + if self.random_iv { BLOCK } else { 8 }
    }

    /// Returns the parts of a packet that has its header and IV.
    fn parts<'p>(&self, number: u64, packet: &'p mut [u8]) -> Option<Parts<'p>> {
        let (head, rest) = packet.split_at_mut_checked(self.start())?;
        let (data, tag) = rest.split_at_mut_checked(rest.len().checked_sub(self.tag)?)?;
        let (mut nonce, mut nonce_length) = ([0; BLOCK], BLOCK);
        if self.random_iv {
            nonce.copy_from_slice(&head[HEADER..]);
        } else {
            nonce[..SALT].copy_from_slice(&*self.salt);
            nonce[SALT..12].copy_from_slice(&head[HEADER..]);
            nonce_length = 12;
        }
        let (mut aad, mut aad_length) = ([0; 12], HEADER);
        aad[..HEADER].copy_from_slice(&head[..HEADER]);
        if self.extended {
            // The packet lacks the upper half of the number, which belongs between the SPI and the lower half (RFC 4106, 5).
            aad[4..].copy_from_slice(&number.to_be_bytes());
            aad_length = 12;
        }
        Some(Parts { nonce, nonce_length, aad, aad_length, data, tag })
    }

    fn protect(&self, number: u64, packet: &mut [u8], payload: usize, next_header: u8) -> Result<Outcome, Fault> {
        let (start, end) = (self.start(), packet.len().saturating_sub(self.tag));
        if payload > end {
            return wrong_kind();
        }
        let padding = (payload + TRAILER).next_multiple_of(self.block) - payload - TRAILER;
        if end != start + payload + padding + TRAILER {
            return wrong_kind();
        }
        packet[..4].copy_from_slice(&self.spi.to_be_bytes());
        packet[4..HEADER].copy_from_slice(&(number as u32).to_be_bytes());
        if !self.random_iv {
            packet[HEADER..start].copy_from_slice(&number.to_be_bytes());
        // SAFETY: the buffer has the length that is passed.
        } else if unsafe { lc::RAND_bytes(packet[HEADER..].as_mut_ptr(), BLOCK) } != 1 {
            return Err(failed("RAND_bytes"));
        }
        write_trailer(&mut packet[start..end], payload, next_header);
        let Some(Parts { nonce, nonce_length, aad, aad_length, data, tag }) = self.parts(number, packet) else {
            return wrong_kind();
        };
        let (iv, aad, data) = (&nonce[..nonce_length], &aad[..aad_length], Buffers::InPlace(data));
        self.inner.run(Operands::Seal { iv, aad, data, tag })
    }

    /// Returns the outcome, the length of the payload, and the next header.
    fn unprotect(&self, number: u64, packet: &mut [u8]) -> Result<(Outcome, usize, u8), Fault> {
        let header = packet.first_chunk::<HEADER>().map(|header| u64::from_be_bytes(*header));
        let expected = u64::from(self.spi) << 32 | number & u64::from(u32::MAX);
        let parts = if header == Some(expected) { self.parts(number, packet) } else { None };
        let Some(Parts { nonce, nonce_length, aad, aad_length, data, tag }) = parts else {
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
        let Operands::Packet { operation, number, packet, payload, next_header } = operands else {
            return wrong_kind();
        };
        match operation {
            Operation::Protect => self.protect(number, packet, *payload, *next_header),
            Operation::Unprotect => {
                let (outcome, length, next) = self.unprotect(number, packet)?;
                (*payload, *next_header) = (length, next);
                Ok(outcome)
            }
            _ => wrong_kind(),
        }
    }
}

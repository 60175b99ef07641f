//! Packets of ESP (RFC 4303), whole: header, padding and trailer around an AEAD.

use std::sync::Arc;

use aws_lc_sys as lc;
use gantry_core::driver::{Buffers, DeviceSession, Operands, Unsupported};
use gantry_core::esp::{HEADER, TRAILER, read_trailer, write_trailer};
use gantry_core::{Esp, Fault, Operation, Outcome, SessionParams};

use crate::device;
use crate::session::{Opened, Secret, failed, wrong_kind};

const SALT: usize = 4;
/// Bytes of an IV that nobody may be able to tell before (RFC 3602, 3).
const BLOCK: usize = 16;

pub(crate) fn open(params: &SessionParams) -> Opened {
    let info = params.algorithm().info();
    let (Some(aead), Some(Esp { spi, extended })) = (info.aead, params.association()) else {
        return Err(Unsupported::because("no packets of ESP"));
    };
    let drawn = info.iv.max == BLOCK;
    if drawn && extended {
        return Err(Unsupported::because("the upper half of a number is behind what the MAC covers"));
    }
    let salted = if drawn { 0 } else { SALT };
    let Some((key, salt)) = params.key().split_at_checked(params.key().len().wrapping_sub(salted)) else {
        return Err(Unsupported::because("a key of another length"));
    };
    let inner = SessionParams::new(aead, key).mac_key(params.second_key()).tag_len(params.tag_length());
    let mut kept = Secret::<[u8; SALT]>::zeroed();
    kept[..salt.len()].copy_from_slice(salt);
    let (block, tag) = (info.block, params.tag_length());
    Ok(Arc::new(Packets { inner: device::open(&inner)?, salt: kept, spi, extended, drawn, block, tag }))
}

struct Packets {
    inner: Arc<dyn DeviceSession>,
    salt: Secret<[u8; SALT]>,
    spi: u32,
    extended: bool,
    /// The IV in a packet is drawn, or is its number.
    drawn: bool,
    block: usize,
    tag: usize,
}

/// The parts of a packet that an AEAD takes.
struct Parts<'p> {
    /// The nonce: the IV of the packet, with the salt before it if it is the number.
    nonce: [u8; BLOCK],
    nonce_length: usize,
    /// What is authenticated beside the data.
    aad: [u8; 12],
    aad_length: usize,
    data: &'p mut [u8],
    tag: &'p mut [u8],
}

impl Packets {
    fn start(&self) -> usize {
        HEADER + if self.drawn { BLOCK } else { 8 }
    }

    /// Of a packet whose header and IV are there.
    fn parts<'p>(&self, number: u64, packet: &'p mut [u8]) -> Option<Parts<'p>> {
        let (head, rest) = packet.split_at_mut_checked(self.start())?;
        let (data, tag) = rest.split_at_mut_checked(rest.len().checked_sub(self.tag)?)?;
        let (mut nonce, mut nonce_length) = ([0; BLOCK], BLOCK);
        if self.drawn {
            nonce.copy_from_slice(&head[HEADER..]);
        } else {
            nonce[..SALT].copy_from_slice(&*self.salt);
            nonce[SALT..12].copy_from_slice(&head[HEADER..]);
            nonce_length = 12;
        }
        let (mut aad, mut aad_length) = ([0; 12], HEADER);
        aad[..HEADER].copy_from_slice(&head[..HEADER]);
        if self.extended {
            // In a packet the upper half is missing, between the two (RFC 4106, 5).
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
        if !self.drawn {
            packet[HEADER..start].copy_from_slice(&number.to_be_bytes());
        // SAFETY: room with its length.
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

    /// How it ended, the length of the payload, and the next header.
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

impl DeviceSession for Packets {
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

//! The end that sends.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::esp::{HEADER, TRAILER, write_trailer};
use gantry_core::{Operation, Process};
use zeroize::Zeroizing;

use super::ESP;
use super::association::Association;
use super::suite::Layout;
use crate::burst::{self, Begun};
use crate::crypt::{self, Aad, Keys, Short, Work};
use crate::ip::Mode;
use crate::packet::{Packet, Refused};
use crate::whole::Content;

/// The sending end of an [`Association`]. Threads may share it: each packet has a number of its own.
pub struct Outbound {
    keys: Keys,
    salt: Zeroizing<[u8; 4]>,
    spi: u32,
    layout: Layout,
    mode: Mode,
    extended: bool,
    /// The number that was used last.
    last: AtomicU64,
    /// The only process that has its numbers.
    process: Process,
}

impl Outbound {
    pub(super) fn new(association: &Association, keys: Keys, salt: Zeroizing<[u8; 4]>, process: Process) -> Self {
        let &Association { spi, suite, mode, extended, last, .. } = association;
        let (layout, last) = (suite.layout(), AtomicU64::new(last));
        Self { keys, salt, spi, layout, mode, extended, last, process }
    }

    /// The association's SPI.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// The number of the last packet; 0 before there was one.
    pub fn last_number(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Numbers that are left. An association is replaced by one under new keys before there are none (RFC 4303, 3.3.3).
    pub fn remaining(&self) -> u64 {
        self.end().saturating_sub(self.last_number())
    }

    /// Most bytes that sealing adds before a packet, and behind it.
    pub fn room(&self) -> (usize, usize) {
        let Layout { iv, align, icv, .. } = self.layout;
        (HEADER + iv, align - 1 + TRAILER + icv)
    }

    /// Bytes that sealing adds before a payload of so many bytes, and behind it. In transport mode the headers of IP are not payload.
    pub fn growth(&self, payload: usize) -> (usize, usize) {
        let Layout { iv, align, icv, .. } = self.layout;
        (HEADER + iv, (payload + TRAILER).next_multiple_of(align) - payload + icv)
    }

    /// The largest payload that is at most so many bytes of ESP.
    pub fn payload_within(&self, bytes: usize) -> usize {
        let Layout { iv, align, icv, .. } = self.layout;
        let encrypted = bytes.saturating_sub(HEADER + iv + icv);
        (encrypted - encrypted % align).saturating_sub(TRAILER)
    }

    /// Ends the association, and returns the last number that was used. From now on packets are refused as [`Refused::Exhausted`], also those
    /// of other threads: an association that goes on with these keys and this number uses none twice.
    pub fn close(&self) -> u64 {
        self.last.swap(self.end(), Ordering::Relaxed)
    }

    /// Makes a packet of ESP from what is in the buffer, in place. Its number is used up even if no device then does it.
    ///
    /// # Errors
    /// Why there is none. Where no device was asked yet the packet is as it was; else nothing of it is left.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, seal)
    }

    /// The highest number there is.
    fn end(&self) -> u64 {
        if self.extended { u64::MAX } else { u32::MAX.into() }
    }

    /// The next number, which nobody else gets.
    fn number(&self) -> Result<u64, Refused> {
        let next = |last: u64| (last < self.end()).then(|| last + 1);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        last.map(|last| last + 1).map_err(|_| Refused::Exhausted)
    }

    /// Writes all of the packet but what devices do, and says where it will lie. Nothing is changed if there is an error.
    fn frame(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<Begun<Range<usize>>, Refused> {
        let Layout { iv, icv, .. } = self.layout;
        if !self.process.is_current() {
            return Err(Refused::Forked);
        }
        let (headers, next) = self.mode.around(packet)?;
        let outer = headers.map_or(0, |headers| headers.length);
        let payload = packet.data().len() - outer;
        let (head, tail) = self.growth(payload);
        packet.has_room(head, tail)?;
        let (start, end) = (packet.range().start - head, packet.range().end + tail);
        if let Some(headers) = headers {
            // The only thing that can go wrong once bytes are written: so it is asked before.
            headers.fits(end - start)?;
        }
        let number = self.number()?;
        let whole = &mut packet.buffer()[start..end];
        if let Some(headers) = headers {
            whole.copy_within(head..head + outer, 0);
            headers.write(whole, ESP);
        }
        let esp = &mut whole[outer..];
        esp[..4].copy_from_slice(&self.spi.to_be_bytes());
        esp[4..HEADER].copy_from_slice(&(number as u32).to_be_bytes());
        if iv == 8 {
            esp[HEADER..HEADER + 8].copy_from_slice(&number.to_be_bytes());
        }
        let data = head..esp.len() - icv;
        write_trailer(&mut esp[data.clone()], payload, next);
        work.iv = self.layout.cipher_iv(*self.salt, &esp[HEADER..head]);
        work.aad = aad(self.extended, self.spi, number);
        work.covered = 0..data.end;
        if self.extended && matches!(self.keys, Keys::Apart { .. }) {
            // The upper half of the number is covered and not sent: it lies where the integrity check value will.
            work.covered.end += 4;
            esp[data.end..work.covered.end].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
        }
        work.data = data;
        work.content = Content { number, payload, next_header: next };
        Ok(Begun { lent: start + outer..end, notes: start..end })
    }
}

/// What the integrity check value covers beside the data and the IV, of joint keys.
pub(super) fn aad(extended: bool, spi: u32, number: u64) -> Aad {
    // In a packet the upper half is missing, between the two (RFC 4106, 5).
    if extended { Aad::Other(Short::of(spi.to_be_bytes(), number.to_be_bytes(), [])) } else { Aad::Packet(0..HEADER) }
}

/// Seals packets, each under its association, as [`Outbound::seal`] does; the [verdict](Packet::verdict) is in each. All associations are
/// of one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |association| &association.keys,
        |association, packet, work| association.frame(packet, work).map(Some),
        |tasks| {
            crypt::choose(tasks, Operation::Protect);
            crypt::randomize(tasks, HEADER);
            crypt::seal(tasks);
        },
        |_, _, whole, done| done.map(|_| whole),
    );
}

impl fmt::Debug for Outbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP {:#010x} out, at {}", self.spi, self.last_number())
    }
}

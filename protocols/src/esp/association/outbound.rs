//! The sending end of an ESP association.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use gantry_core::esp::{HEADER_LEN, TRAILER_LEN, write_trailer};
use gantry_core::{Operation, Process};
use zeroize::Zeroizing;

use super::super::ESP;
use super::super::suite::Layout;
use super::Association;
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Keys, Work};
use crate::ip::Mode;
use crate::packet::{Packet, PacketError};
use crate::whole_packet::PacketFields;

/// The sending end of an [`Association`]. Threads may share it: each packet gets its own number.
pub struct Outbound {
    keys: Keys,
    salt: Zeroizing<[u8; 4]>,
    spi: u32,
    layout: Layout,
    mode: Mode,
    extended_numbers: bool,
    /// The last number used.
    last_number: AtomicU64,
    /// The only process that may use the numbers.
    process: Process,
}

impl Outbound {
    pub(super) fn new(association: &Association, keys: Keys, salt: Zeroizing<[u8; 4]>, process: Process) -> Self {
        let &Association { spi, suite, mode, extended_numbers, last_number, .. } = association;
        let (layout, last_number) = (suite.layout(), AtomicU64::new(last_number));
        Self { keys, salt, spi, layout, mode, extended_numbers, last_number, process }
    }

    /// Returns the association's SPI.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Returns the number of the last packet; 0 before the first.
    pub fn last_number(&self) -> u64 {
        self.last_number.load(Ordering::Relaxed)
    }

    /// Returns the count of numbers left. Replace the association, with new keys, before it is 0 (RFC 4303, 3.3.3).
    pub fn remaining(&self) -> u64 {
        self.max_number().saturating_sub(self.last_number())
    }

    /// Returns the most bytes that sealing adds before and after a packet.
    pub fn room(&self) -> (usize, usize) {
        let Layout { iv_len, align, icv_len, .. } = self.layout;
        (HEADER_LEN + iv_len, align - 1 + TRAILER_LEN + icv_len)
    }

    /// Returns the bytes that sealing adds before and after a payload of `payload` bytes. In transport mode the IP headers are not
    /// payload.
    pub fn overhead(&self, payload: usize) -> (usize, usize) {
        let Layout { iv_len, align, icv_len, .. } = self.layout;
        (HEADER_LEN + iv_len, (payload + TRAILER_LEN).next_multiple_of(align) - payload + icv_len)
    }

    /// Returns the largest payload whose ESP packet has at most `bytes` bytes.
    pub fn payload_within(&self, bytes: usize) -> usize {
        let Layout { iv_len, align, icv_len, .. } = self.layout;
        let encrypted = bytes.saturating_sub(HEADER_LEN + iv_len + icv_len);
        (encrypted - encrypted % align).saturating_sub(TRAILER_LEN)
    }

    /// Ends the association, and returns the last number used. All packets are refused as [`PacketError::Exhausted`] from now on, including
    /// the packets of other threads. An association that continues with these keys and this number reuses no number.
    pub fn close(&self) -> u64 {
        self.last_number.swap(self.max_number(), Ordering::Release)
    }

    /// Encrypts a packet in place. Its number is used up even if no device then does the work.
    ///
    /// # Errors
    /// Returns why the packet was refused. The packet is unchanged if it was refused before encryption; otherwise its contents are lost.
    pub fn seal(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, seal)
    }

    /// Returns the highest number.
    fn max_number(&self) -> u64 {
        if self.extended_numbers { u64::MAX } else { u32::MAX.into() }
    }

    /// Takes the next number.
    fn take_number(&self) -> Result<u64, PacketError> {
        let next = |last: u64| (last < self.max_number()).then(|| last + 1);
        // A thread that is refused after a `close` sees everything from before it, such as another association.
        let last = self.last_number.fetch_update(Ordering::Relaxed, Ordering::Acquire, next);
        last.map(|last| last + 1).map_err(|_| PacketError::Exhausted)
    }

    /// Writes all of the packet except the devices' part. The returned `state` is the packet's final range. Changes nothing if it fails.
    fn frame(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<FramedPacket<Range<usize>>, PacketError> {
        let Layout { iv_len, icv_len, .. } = self.layout;
        if !self.process.is_current() {
            return Err(PacketError::Forked);
        }
        let (headers, next) = self.mode.outgoing_headers(packet)?;
        let outer = headers.map_or(0, |headers| headers.length);
        let payload = packet.data().len() - outer;
        let (head, tail) = self.overhead(payload);
        packet.check_room(head, tail)?;
        let (start, end) = (packet.range().start - head, packet.range().end + tail);
        if let Some(headers) = headers {
            // Checked here, because nothing may fail once bytes are written.
            headers.check_fits(end - start)?;
        }
        let number = self.take_number()?;
        let whole = &mut packet.buffer()[start..end];
        if let Some(headers) = headers {
            whole.copy_within(head..head + outer, 0);
            headers.write(whole, ESP);
        }
        let esp = &mut whole[outer..];
        esp[..4].copy_from_slice(&self.spi.to_be_bytes());
        esp[4..HEADER_LEN].copy_from_slice(&(number as u32).to_be_bytes());
        if iv_len == 8 {
            esp[HEADER_LEN..HEADER_LEN + 8].copy_from_slice(&number.to_be_bytes());
        }
        let data = head..esp.len() - icv_len;
        write_trailer(&mut esp[data.clone()], payload, next);
        work.iv = self.layout.cipher_iv(*self.salt, &esp[HEADER_LEN..head]);
        work.aad = self.layout.aad(self.extended_numbers, self.spi, number);
        work.mac_range = 0..data.end;
        if self.extended_numbers && matches!(self.keys, Keys::Separate { .. }) {
            // The MAC covers the upper half of the number, which is not sent: the integrity check value overwrites it.
            work.mac_range.end += 4;
            esp[data.end..work.mac_range.end].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
        }
        work.data = data;
        work.fields = PacketFields { number, payload_len: payload, next_header: next };
        Ok(FramedPacket { device_range: start + outer..end, state: start..end })
    }
}

/// Seals packets, each under its association, as [`Outbound::seal`] does. Each packet has its own [verdict](Packet::verdict). All
/// associations must belong to one framework.
pub fn seal(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |association| &association.keys,
        |association, packet, work| association.frame(packet, work).map(Some),
        |tasks| {
            crypt::choose_whole_or_parts(tasks, Operation::Protect);
            crypt::draw_random_ivs(tasks, HEADER_LEN);
            crypt::seal(tasks);
        },
        |_, _, whole, done| done.map(|_| whole),
    );
}

impl fmt::Debug for Outbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP {:#010x} out, at {}", self.spi, self.last_number())
    }
}

//! The receiving end of an ESP association.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::Operation;
use gantry_core::esp::{HEADER_LEN, TRAILER_LEN, read_trailer};
use zeroize::Zeroizing;

use super::super::suite::Layout;
use super::super::{ESP, NO_NEXT_HEADER};
use super::Association;
use crate::burst::{self, FramedPacket};
use crate::crypt::{self, Keys, Work};
use crate::ip::{self, Headers, Mode};
use crate::packet::{Packet, PacketError};
use crate::window::Window;

/// The receiving end of an [`Association`]. Threads may share it: each number is accepted once.
pub struct Inbound {
    keys: Keys,
    salt: Zeroizing<[u8; 4]>,
    spi: u32,
    layout: Layout,
    mode: Mode,
    extended_numbers: bool,
    window: Mutex<Window>,
}

/// Fields read from a packet.
struct ParsedPacket {
    /// Headers before ESP.
    headers: Option<Headers>,
    number: u64,
}

impl Inbound {
    pub(super) fn new(association: &Association, keys: Keys, salt: Zeroizing<[u8; 4]>) -> Self {
        let &Association { spi, suite, mode, extended_numbers, last_number, window, .. } = association;
        let window = if last_number > 0 { Window::with_received(window, last_number) } else { Window::new(window) };
        Self { keys, salt, spi, layout: suite.layout(), mode, extended_numbers, window: Mutex::new(window) }
    }

    /// Returns the association's SPI.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Returns the highest number received; 0 before the first.
    pub fn last_number(&self) -> u64 {
        self.numbers().highest().unwrap_or(0)
    }

    /// Ends the association, and returns the highest number received. All packets are refused as [`PacketError::Replayed`] from now on,
    /// including the packets that other threads are opening. An association that continues with these keys and this number accepts no
    /// packet twice.
    pub fn close(&self) -> u64 {
        let mut window = self.numbers();
        let last = window.highest().unwrap_or(0);
        // Marks all numbers as received.
        *window = Window::with_received(1, u64::MAX);
        last
    }

    /// Decrypts a packet in place.
    ///
    /// # Errors
    /// Returns why the packet was refused. The packet's contents are lost, unless it was refused before decryption.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, open)
    }

    fn numbers(&self) -> MutexGuard<'_, Window> {
        // A panic cannot leave the window inconsistent.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the unencrypted fields. Writes nothing if it fails.
    fn parse(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<FramedPacket<ParsedPacket>, PacketError> {
        let Layout { iv_len, align, icv_len, .. } = self.layout;
        let headers = self.mode.incoming_headers(packet.data(), ESP, "an IP packet without ESP")?;
        let mut range = packet.range();
        range.start += headers.map_or(0, |headers| headers.length);
        let esp = &mut packet.buffer()[range.clone()];
        let head = HEADER_LEN + iv_len;
        let Some(length) = esp.len().checked_sub(head + icv_len).filter(|length| *length >= TRAILER_LEN) else {
            return Err(PacketError::Malformed("a truncated ESP packet"));
        };
        if !length.is_multiple_of(align) {
            return Err(PacketError::Malformed("an ESP packet that is not padded to whole words or blocks"));
        }
        let field =
            |offset: usize| u32::from_be_bytes([esp[offset], esp[offset + 1], esp[offset + 2], esp[offset + 3]]);
        if field(0) != self.spi {
            return Err(PacketError::Malformed("the SPI of another association"));
        }
        let number = {
            let window = self.numbers();
            let number = if self.extended_numbers { extend_number(&window, field(4)) } else { Some(field(4).into()) };
            // 0 is not a valid sequence number (RFC 4303, 3.3.3).
            number.filter(|number| *number > 0 && window.admits(*number)).ok_or(PacketError::Replayed)?
        };
        let data = head..head + length;
        work.iv = self.layout.cipher_iv(*self.salt, &esp[HEADER_LEN..head]);
        work.aad = self.layout.aad(self.extended_numbers, self.spi, number);
        work.mac_range = 0..data.end;
        work.tag[..icv_len].copy_from_slice(&esp[data.end..]);
        if self.extended_numbers && matches!(self.keys, Keys::Separate { .. }) {
            // The MAC covers the upper half of the number, which is not sent. The half takes the place of the integrity check value, which
            // `work.tag` now holds.
            work.mac_range.end += 4;
            esp[data.end..work.mac_range.end].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
        }
        work.data = data;
        work.fields.number = number;
        Ok(FramedPacket { device_range: range, state: ParsedPacket { headers, number } })
    }

    /// Finishes a packet whose integrity check value was right. Returns its final range.
    fn finish(&self, packet: &mut Packet<'_>, parsed: &ParsedPacket) -> Result<Range<usize>, PacketError> {
        let Layout { iv_len, icv_len, .. } = self.layout;
        // Another thread may have opened a copy of the packet since `parse`, or the burst may contain two copies.
        if !self.numbers().mark_received(parsed.number) {
            return Err(PacketError::Replayed);
        }
        let (head, outer) = (HEADER_LEN + iv_len, parsed.headers.map_or(0, |headers| headers.length));
        let opened = &packet.data()[outer + head..];
        let opened = &opened[..opened.len() - icv_len];
        let (payload, next) = read_trailer(opened).map_err(PacketError::Malformed)?;
        if next == NO_NEXT_HEADER {
            return Err(PacketError::Dummy);
        }
        let payload =
            if self.mode == Mode::Tunnel { ip::tunneled_packet_len(&opened[..payload], next)? } else { payload };
        packet.next_header = next;
        let start = packet.range().start;
        let final_range = start + head..start + head + outer + payload;
        if let Some(headers) = parsed.headers {
            packet.buffer().copy_within(start..start + outer, final_range.start);
            headers.write(&mut packet.buffer()[final_range.clone()], next);
        }
        Ok(final_range)
    }
}

/// Reconstructs a number from its lower half (RFC 4303, A2.2): the smallest number with this lower half that is not older than the window.
/// Returns `None` if that number would be below 0 or above `u64::MAX`.
fn extend_number(window: &Window, low: u32) -> Option<u64> {
    let top = window.highest().unwrap_or(0);
    let (high, bottom) = ((top >> 32) as u32, (top as u32).wrapping_sub((window.size() - 1) as u32));
    let high = if u64::from(top as u32) >= window.size() - 1 {
        if low >= bottom { Some(high) } else { high.checked_add(1) }
    } else if low >= bottom {
        high.checked_sub(1)
    } else {
        Some(high)
    };
    high.map(|high| u64::from(high) << 32 | u64::from(low))
}

/// Opens packets, each under its association, as [`Inbound::open`] does. Each packet has its own [verdict](Packet::verdict). All
/// associations must belong to one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |association| &association.keys,
        |association, packet, work| association.parse(packet, work).map(Some),
        |tasks| {
            crypt::choose_whole_or_parts(tasks, Operation::Unprotect);
            crypt::open(tasks);
        },
        |association, packet, parsed, done| done.and_then(|_| association.finish(packet, &parsed)),
    );
}

impl fmt::Debug for Inbound {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP {:#010x} in, at {}", self.spi, self.last_number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number with an upper half of 1.
    const UPPER_HALF_ONE: u64 = 1 << 32;

    #[test]
    fn extends_a_number_to_the_nearest() {
        let infer = |top: u64, low: u32| {
            let mut window = Window::new(64);
            if top > 0 {
                window.mark_received(top);
            }
            extend_number(&window, low)
        };
        assert_eq!(infer(0, 1), Some(1));
        assert_eq!(infer(100, 37), Some(37), "the oldest in the window");
        assert_eq!(infer(100, 36), Some(UPPER_HALF_ONE + 36), "an older number counts as one of the next upper half");
        assert_eq!(infer(UPPER_HALF_ONE - 1, 0), Some(UPPER_HALF_ONE));
        assert_eq!(
            infer(UPPER_HALF_ONE + 10, u32::MAX),
            Some(UPPER_HALF_ONE - 1),
            "a number before the upper half changed"
        );
        assert_eq!(infer(UPPER_HALF_ONE + 10, u32::MAX - 52), Some(UPPER_HALF_ONE - 53));
        assert_eq!(infer(UPPER_HALF_ONE + 10, u32::MAX - 53), Some(UPPER_HALF_ONE + u64::from(u32::MAX) - 53));
        assert_eq!(infer(10, u32::MAX), None, "a number below 0");
        assert_eq!(infer(u64::MAX, 5), None, "a number beyond the last");
        assert_eq!(infer(u64::MAX - 1, u32::MAX), Some(u64::MAX));
    }
}

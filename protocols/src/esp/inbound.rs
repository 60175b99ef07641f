//! The end that receives.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gantry_core::Operation;
use gantry_core::esp::{HEADER, TRAILER, read_trailer};
use zeroize::Zeroizing;

use super::association::Association;
use super::outbound::aad;
use super::suite::Layout;
use super::{ESP, NONE};
use crate::burst::{self, Begun};
use crate::crypt::{self, Keys, Work};
use crate::ip::{self, Headers, Mode};
use crate::packet::{Packet, Refused};
use crate::window::Window;

/// The receiving end of an [`Association`]. Threads may share it: each number comes once.
pub struct Inbound {
    keys: Keys,
    salt: Zeroizing<[u8; 4]>,
    spi: u32,
    layout: Layout,
    mode: Mode,
    extended: bool,
    window: Mutex<Window>,
}

/// What was read of a packet.
struct Taken {
    /// Headers before ESP.
    headers: Option<Headers>,
    number: u64,
}

impl Inbound {
    pub(super) fn new(association: &Association, keys: Keys, salt: Zeroizing<[u8; 4]>) -> Self {
        let &Association { spi, suite, mode, extended, last, window, .. } = association;
        let window = if last > 0 { Window::behind(window, last) } else { Window::new(window) };
        Self { keys, salt, spi, layout: suite.layout(), mode, extended, window: Mutex::new(window) }
    }

    /// The association's SPI.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// The highest number that has come; 0 before there was one.
    pub fn last_number(&self) -> u64 {
        self.numbers().top().unwrap_or(0)
    }

    /// Ends the association, and returns the highest number that has come. From now on packets are refused as [`Refused::Replayed`], also those
    /// that other threads are opening: an association that goes on with these keys and this number takes no packet twice.
    pub fn close(&self) -> u64 {
        let mut window = self.numbers();
        let last = window.top().unwrap_or(0);
        // All numbers have come.
        *window = Window::behind(1, u64::MAX);
        last
    }

    /// Makes what was sealed from a packet, in place.
    ///
    /// # Errors
    /// Why there is none. Nothing of the packet is left, but where it was refused before a device was asked.
    pub fn open(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, open)
    }

    fn numbers(&self) -> MutexGuard<'_, Window> {
        // Nothing in it is half done when somebody panics.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is not encrypted, and writes nothing if there is an error.
    fn take(&self, packet: &mut Packet<'_>, work: &mut Work) -> Result<Begun<Taken>, Refused> {
        let Layout { iv, align, icv, .. } = self.layout;
        let headers = self.mode.before(packet.data(), ESP, "a packet of IP without ESP")?;
        let mut range = packet.range();
        range.start += headers.map_or(0, |headers| headers.length);
        let esp = &mut packet.buffer()[range.clone()];
        let head = HEADER + iv;
        let Some(length) = esp.len().checked_sub(head + icv).filter(|length| *length >= TRAILER) else {
            return Err(Refused::Malformed("a packet of ESP that is cut off"));
        };
        if !length.is_multiple_of(align) {
            return Err(Refused::Malformed("a packet of ESP that is not padded to whole words or blocks"));
        }
        let field = |place| u32::from_be_bytes([esp[place], esp[place + 1], esp[place + 2], esp[place + 3]]);
        if field(0) != self.spi {
            return Err(Refused::Malformed("the SPI of another one"));
        }
        let number = {
            let window = self.numbers();
            let number = if self.extended { extend(&window, field(4)) } else { Some(field(4).into()) };
            // No packet has the number 0 (RFC 4303, 3.3.3).
            number.filter(|number| *number > 0 && window.admits(*number)).ok_or(Refused::Replayed)?
        };
        let data = head..head + length;
        work.iv = self.layout.cipher_iv(*self.salt, &esp[HEADER..head]);
        work.aad = aad(self.extended, self.spi, number);
        work.covered = 0..data.end;
        work.tag[..icv].copy_from_slice(&esp[data.end..]);
        if self.extended && matches!(self.keys, Keys::Apart { .. }) {
            // The upper half of the number is covered and was not sent.
            work.covered.end += 4;
            esp[data.end..work.covered.end].copy_from_slice(&((number >> 32) as u32).to_be_bytes());
        }
        work.data = data;
        work.content.number = number;
        Ok(Begun { lent: range, notes: Taken { headers, number } })
    }

    /// What is left to do when the integrity check value was right. Where the packet lies then.
    fn finish(&self, packet: &mut Packet<'_>, taken: &Taken) -> Result<Range<usize>, Refused> {
        let Layout { iv, icv, .. } = self.layout;
        // Meanwhile another thread may have had the same, or it was twice in the burst.
        if !self.numbers().note(taken.number) {
            return Err(Refused::Replayed);
        }
        let (head, outer) = (HEADER + iv, taken.headers.map_or(0, |headers| headers.length));
        let opened = &packet.data()[outer + head..];
        let opened = &opened[..opened.len() - icv];
        let (payload, next) = read_trailer(opened).map_err(Refused::Malformed)?;
        if next == NONE {
            return Err(Refused::Dummy);
        }
        let payload = if self.mode == Mode::Tunnel { ip::length(&opened[..payload], next)? } else { payload };
        packet.next_header = next;
        let start = packet.range().start;
        let left = start + head..start + head + outer + payload;
        if let Some(headers) = taken.headers {
            packet.buffer().copy_within(start..start + outer, left.start);
            headers.write(&mut packet.buffer()[left.clone()], next);
        }
        Ok(left)
    }
}

/// The whole of a number of which a packet has the lower half (RFC 4303, A2.2): the one that is nearest to the window. `None` for one
/// that would be below 0 or beyond the last.
fn extend(window: &Window, low: u32) -> Option<u64> {
    let top = window.top().unwrap_or(0);
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

/// Opens packets, each under its association, as [`Inbound::open`] does; the [verdict](Packet::verdict) is in each. All associations are
/// of one framework.
pub fn open(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    burst::run(
        burst,
        |association| &association.keys,
        |association, packet, work| association.take(packet, work).map(Some),
        |tasks| {
            crypt::choose(tasks, Operation::Unprotect);
            crypt::open(tasks);
        },
        |association, packet, taken, done| done.and_then(|_| association.finish(packet, &taken)),
    );
}

impl fmt::Debug for Inbound {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP {:#010x} in, at {}", self.spi, self.last_number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number with another upper half.
    const NEXT: u64 = 1 << 32;

    #[test]
    fn the_upper_half_of_a_number_is_that_of_the_nearest() {
        let infer = |top: u64, low: u32| {
            let mut window = Window::new(64);
            if top > 0 {
                window.note(top);
            }
            extend(&window, low)
        };
        assert_eq!(infer(0, 1), Some(1));
        assert_eq!(infer(100, 37), Some(37), "the oldest in the window");
        assert_eq!(infer(100, 36), Some(NEXT + 36), "older ones can only be new again");
        assert_eq!(infer(NEXT - 1, 0), Some(NEXT));
        assert_eq!(infer(NEXT + 10, u32::MAX), Some(NEXT - 1), "from before the half changed");
        assert_eq!(infer(NEXT + 10, u32::MAX - 52), Some(NEXT - 53));
        assert_eq!(infer(NEXT + 10, u32::MAX - 53), Some(NEXT + u64::from(u32::MAX) - 53));
        assert_eq!(infer(10, u32::MAX), None, "it would be below 0");
        assert_eq!(infer(u64::MAX, 5), None, "beyond the last");
        assert_eq!(infer(u64::MAX - 1, u32::MAX), Some(u64::MAX));
    }
}

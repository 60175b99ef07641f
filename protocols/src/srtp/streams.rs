//! The streams of a context, and the numbers that each stream has used.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Protocol;
use crate::packet::PacketError;
use crate::window::Window;

/// The streams of one protocol and direction, by SSRC. No stream is removed, because its numbers could then be reused.
pub(super) struct Streams {
    protocol: Protocol,
    window_size: u32,
    max_streams: usize,
    by_ssrc: Mutex<HashMap<u32, Stream>>,
}

struct Stream {
    /// The rollover counter of the first packet, if it was set.
    first_rollover_counter: Option<u32>,
    window: Window,
}

/// The start of a stream that begins with a rollover counter other than 0, or that an earlier end has used.
#[derive(Clone, Copy)]
pub(super) enum StreamStart {
    /// The last number used. This number and all earlier numbers are used up.
    After(u64),
    /// The rollover counter of the next packet.
    RolloverCounter(u32),
}

impl Protocol {
    /// Returns the highest packet number: 48 bits for RTP, 31 for RTCP (RFC 3711, 9.2).
    pub(super) fn max_number(self) -> u64 {
        match self {
            Protocol::Rtp => (1 << 48) - 1,
            Protocol::Rtcp => (1 << 31) - 1,
        }
    }
}

impl Stream {
    fn new(window: u32) -> Self {
        Self { first_rollover_counter: None, window: Window::new(window) }
    }

    /// Returns the full number of an RTP packet; `None` beyond the highest.
    fn nearest(&self, sequence: u16) -> Option<u64> {
        nearest(
            self.window
                .highest()
                .unwrap_or_else(|| join_number(self.first_rollover_counter.unwrap_or(0).into(), sequence)),
            sequence,
        )
    }
}

impl Streams {
    /// Creates the streams. `starts` lists the streams that do not begin with 0.
    pub(super) fn new(protocol: Protocol, window_size: u32, max_streams: usize, starts: &[(u32, StreamStart)]) -> Self {
        let streams = Self { protocol, window_size, max_streams, by_ssrc: Mutex::default() };
        for (ssrc, start) in starts {
            let mut by_ssrc = streams.lock();
            let stream = by_ssrc.entry(*ssrc).or_insert_with(|| Stream::new(window_size));
            match *start {
                StreamStart::RolloverCounter(counter) => stream.first_rollover_counter = Some(counter),
                StreamStart::After(number) => {
                    stream.window =
                        Window::with_received(window_size, stream.window.highest().unwrap_or(0).max(number));
                }
            }
        }
        streams
    }

    /// Returns the highest number of a stream.
    pub(super) fn highest_number(&self, ssrc: u32) -> Option<u64> {
        self.lock().get(&ssrc)?.window.highest()
    }

    /// Returns the count of streams.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Takes the number of a packet to seal. No two calls return the same number of one stream.
    pub(super) fn take_number(&self, ssrc: u32, sequence: u16) -> Result<u64, PacketError> {
        let mut streams = self.lock();
        let stream = self.get_or_create(&mut streams, ssrc)?;
        let number = match self.protocol {
            Protocol::Rtp => stream.nearest(sequence),
            Protocol::Rtcp => match stream.window.highest() {
                None => Some(0),
                Some(top) => (top < self.protocol.max_number()).then_some(top + 1),
            },
        };
        let number = number.ok_or(PacketError::Exhausted)?;
        if stream.first_rollover_counter.is_some() && stream.window.highest().is_none() && number > 0 {
            // The counter comes from an earlier sender, which may have used any earlier number.
            stream.window = Window::with_received(self.window_size, number - 1);
        }
        if stream.window.mark_received(number) { Ok(number) } else { Err(PacketError::Replayed) }
    }

    /// Returns the number of a received packet if it is new, and whether its stream has a highest number already. `sent` is the part of the
    /// number that the packet contains: the lower 16 bits in RTP, all bits in RTCP.
    pub(super) fn find_number(&self, ssrc: u32, sent: u32) -> Result<(u64, bool), PacketError> {
        let streams = self.lock();
        let Some(stream) = streams.get(&ssrc) else {
            let has_room = streams.len() < self.max_streams;
            return if has_room {
                Ok((sent.into(), false))
            } else {
                Err(PacketError::Streams { max: self.max_streams })
            };
        };
        let number = match self.protocol {
            Protocol::Rtp => stream.nearest(sent as u16),
            Protocol::Rtcp => Some(sent.into()),
        };
        let number = number.filter(|number| stream.window.admits(*number)).ok_or(PacketError::Replayed)?;
        Ok((number, stream.window.highest().is_some()))
    }

    /// Marks the number of an authentic packet as received. Adds the packet's stream if it is new.
    pub(super) fn mark_received(&self, ssrc: u32, number: u64) -> Result<(), PacketError> {
        if self.get_or_create(&mut self.lock(), ssrc)?.window.mark_received(number) {
            Ok(())
        } else {
            Err(PacketError::Replayed)
        }
    }

    /// Returns a stream, creating it if it is new.
    fn get_or_create<'s>(
        &self,
        streams: &'s mut HashMap<u32, Stream>,
        ssrc: u32,
    ) -> Result<&'s mut Stream, PacketError> {
        let count = streams.len();
        match streams.entry(ssrc) {
            Entry::Occupied(stream) => Ok(stream.into_mut()),
            Entry::Vacant(_) if count >= self.max_streams => Err(PacketError::Streams { max: self.max_streams }),
            Entry::Vacant(place) => Ok(place.insert(Stream::new(self.window_size))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Stream>> {
        // A panic cannot leave the streams inconsistent.
        self.by_ssrc.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins a rollover counter and a sequence number.
fn join_number(counter: u64, sequence: u16) -> u64 {
    counter << 16 | u64::from(sequence)
}

/// Returns the number with these lower 16 bits that is nearest to `top`, the highest number so far (RFC 3711, 3.3.1 and appendix A). The
/// rollover counter does not fall below 0. Returns `None` if the counter exceeds 32 bits.
fn nearest(top: u64, sequence: u16) -> Option<u64> {
    const HALF: i32 = 1 << 15;
    let (counter, ahead) = (top >> 16, i32::from(sequence) - i32::from(top as u16));
    let counter = if ahead < -HALF {
        counter + 1
    } else if ahead > HALF {
        counter.saturating_sub(1)
    } else {
        counter
    };
    (counter <= u32::MAX.into()).then_some(join_number(counter, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_the_rollover_counter_of_the_nearest_number() {
        let of = join_number;
        assert_eq!(nearest(of(7, 0xFFFF), 0), Some(of(8, 0)));
        assert_eq!(nearest(of(8, 0), 0xFFFF), Some(of(7, 0xFFFF)));
        assert_eq!(nearest(of(7, 100), 101), Some(of(7, 101)));
        // A distance of exactly half the sequence numbers keeps the counter, as in appendix A.
        assert_eq!(nearest(of(7, 100), 100 + 0x8000), Some(of(7, 100 + 0x8000)));
        assert_eq!(nearest(of(7, 100), 101 + 0x8000), Some(of(6, 101 + 0x8000)));
        assert_eq!(nearest(of(7, 0x8000), 0), Some(of(7, 0)));
        assert_eq!(nearest(of(7, 0x8001), 0), Some(of(8, 0)));
        // There is no counter below 0 and none above 32 bits.
        assert_eq!(nearest(5, 0xFFFF), Some(0xFFFF));
        assert_eq!(nearest(of(u32::MAX.into(), 0xFFFF), 0), None);
    }
}

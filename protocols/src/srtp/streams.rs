//! The streams of a context, and which numbers of each have been used.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Kind;
use crate::packet::Refused;
use crate::window::Window;

/// The streams of one protocol and direction by SSRC. None is ever forgotten: its numbers could be used again.
pub(super) struct Streams {
    kind: Kind,
    window: u32,
    most: usize,
    known: Mutex<HashMap<u32, Stream>>,
}

struct Stream {
    /// The rollover counter of its first packet, if one was told.
    first: Option<u32>,
    window: Window,
}

/// A stream that does not begin with a rollover counter of 0, or goes on from elsewhere.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// The number that was used last. It and all before it are used up.
    After(u64),
    /// The rollover counter of the next packet.
    Counter(u32),
}

impl Kind {
    /// The highest number of a packet: 48 bits of RTP's, 31 of RTCP's (RFC 3711, 9.2).
    pub(super) fn end(self) -> u64 {
        match self {
            Kind::Media => (1 << 48) - 1,
            Kind::Control => (1 << 31) - 1,
        }
    }
}

impl Stream {
    fn new(window: u32) -> Self {
        Self { first: None, window: Window::new(window) }
    }

    /// The whole number of a packet of RTP; `None` beyond the last.
    fn nearest(&self, sequence: u16) -> Option<u64> {
        nearest(self.window.top().unwrap_or_else(|| number(self.first.unwrap_or(0).into(), sequence)), sequence)
    }
}

impl Streams {
    /// `starts`: streams that exist already.
    pub(super) fn new(kind: Kind, window: u32, most: usize, starts: &[(u32, Start)]) -> Self {
        let streams = Self { kind, window, most, known: Mutex::default() };
        for (ssrc, start) in starts {
            let mut known = streams.lock();
            let stream = known.entry(*ssrc).or_insert_with(|| Stream::new(window));
            match *start {
                Start::Counter(counter) => stream.first = Some(counter),
                Start::After(number) => {
                    stream.window = Window::behind(window, stream.window.top().unwrap_or(0).max(number));
                }
            }
        }
        streams
    }

    /// The highest number of a stream.
    pub(super) fn last(&self, ssrc: u32) -> Option<u64> {
        self.lock().get(&ssrc)?.window.top()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// The number of a packet that is to be sealed. No later call returns the same.
    pub(super) fn take(&self, ssrc: u32, sequence: u16) -> Result<u64, Refused> {
        let mut streams = self.lock();
        let stream = self.stream(&mut streams, ssrc)?;
        let number = match self.kind {
            Kind::Media => stream.nearest(sequence),
            Kind::Control => match stream.window.top() {
                None => Some(0),
                Some(top) => (top < self.kind.end()).then_some(top + 1),
            },
        };
        let number = number.ok_or(Refused::Exhausted)?;
        if stream.first.is_some() && stream.window.top().is_none() && number > 0 {
            // The counter comes from an earlier sender, which may have used any number before this one.
            stream.window = Window::behind(self.window, number - 1);
        }
        if stream.window.note(number) { Ok(number) } else { Err(Refused::Replayed) }
    }

    /// The number of a packet that came, if it may come, and whether one of its stream has come before. `sent` is what the packet has
    /// of the number: the lower 16 bits in RTP, all in RTCP.
    pub(super) fn find(&self, ssrc: u32, sent: u32) -> Result<(u64, bool), Refused> {
        let streams = self.lock();
        let Some(stream) = streams.get(&ssrc) else {
            let has_place = streams.len() < self.most;
            return if has_place { Ok((sent.into(), false)) } else { Err(Refused::Streams { most: self.most }) };
        };
        let number = match self.kind {
            Kind::Media => stream.nearest(sent as u16),
            Kind::Control => Some(sent.into()),
        };
        let number = number.filter(|number| stream.window.admits(*number)).ok_or(Refused::Replayed)?;
        Ok((number, stream.window.top().is_some()))
    }

    /// Notes the number of an authentic packet, of a new stream too.
    pub(super) fn note(&self, ssrc: u32, number: u64) -> Result<(), Refused> {
        if self.stream(&mut self.lock(), ssrc)?.window.note(number) { Ok(()) } else { Err(Refused::Replayed) }
    }

    /// A stream, which is made if it is new.
    fn stream<'s>(&self, streams: &'s mut HashMap<u32, Stream>, ssrc: u32) -> Result<&'s mut Stream, Refused> {
        let count = streams.len();
        match streams.entry(ssrc) {
            Entry::Occupied(stream) => Ok(stream.into_mut()),
            Entry::Vacant(_) if count >= self.most => Err(Refused::Streams { most: self.most }),
            Entry::Vacant(place) => Ok(place.insert(Stream::new(self.window))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Stream>> {
        // Nothing in it is half done when a thread panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rollover counter, and a sequence number behind it.
fn number(counter: u64, sequence: u16) -> u64 {
    counter << 16 | u64::from(sequence)
}

/// The number with these lower 16 bits that is nearest to the highest one (RFC 3711, 3.3.1 and appendix A). A rollover counter is not
/// below 0; `None` for one beyond 32 bits.
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
    (counter <= u32::MAX.into()).then_some(number(counter, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rollover_counter_of_a_packet_is_that_of_the_nearest_number() {
        let of = number;
        assert_eq!(nearest(of(7, 0xFFFF), 0), Some(of(8, 0)));
        assert_eq!(nearest(of(8, 0), 0xFFFF), Some(of(7, 0xFFFF)));
        assert_eq!(nearest(of(7, 100), 101), Some(of(7, 101)));
        // At half of all sequence numbers, as appendix A has it.
        assert_eq!(nearest(of(7, 100), 100 + 0x8000), Some(of(7, 100 + 0x8000)));
        assert_eq!(nearest(of(7, 100), 101 + 0x8000), Some(of(6, 101 + 0x8000)));
        assert_eq!(nearest(of(7, 0x8000), 0), Some(of(7, 0)));
        assert_eq!(nearest(of(7, 0x8001), 0), Some(of(8, 0)));
        // There is no counter below 0 and none above 32 bits.
        assert_eq!(nearest(5, 0xFFFF), Some(0xFFFF));
        assert_eq!(nearest(of(u32::MAX.into(), 0xFFFF), 0), None);
    }
}

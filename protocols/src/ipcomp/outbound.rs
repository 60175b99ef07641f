//! The end that sends.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};

use gantry_core::{Error, Operation, Outcome};

use super::association::Association;
use super::batch::{self, Each, Ended, Task};
use super::{HEADER, PROTOCOL};
use crate::burst;
use crate::ip::Headers;
use crate::packet::{Packet, Refused};

/// The sending end of an [`Association`]. Threads may share it.
#[derive(Debug)]
pub struct Outbound {
    association: Association,
    trials: Trials,
}

/// A packet that is tried.
struct Framed {
    /// Headers before the payload.
    headers: Option<Headers>,
    /// The protocol of the payload.
    next: u8,
    /// Bytes of the longest result that makes the packet shorter.
    most: usize,
}

impl Framed {
    fn outer(&self) -> usize {
        self.headers.map_or(0, |headers| headers.length)
    }
}

impl Outbound {
    pub(super) fn new(association: Association) -> Self {
        Self { association, trials: Trials::default() }
    }

    /// The association's CPI.
    pub fn cpi(&self) -> u16 {
        self.association.cpi
    }

    /// Makes a packet of IPComp from what is in the buffer, in place, if that is shorter. Otherwise the packet stays as it is.
    ///
    /// Afterwards [`next_header`](Packet::next_header) is the protocol of what the buffer has: [`PROTOCOL`], or that of the payload. In
    /// transport mode the header of IP says the same.
    ///
    /// # Errors
    /// What is in the buffer is no packet of IP, or no device could be asked. It is as it was.
    pub fn compress(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, compress)
    }

    /// Reads a packet. There is `None` for one that is not tried.
    fn frame(&self, packet: &mut Packet<'_>) -> Result<Option<Framed>, Refused> {
        let (headers, next) = self.association.mode.around(packet)?;
        let payload = packet.data().len() - headers.map_or(0, |headers| headers.length);
        let most = payload.saturating_sub(HEADER + 1);
        // What was compressed already does not become shorter.
        let could = most > 0 && payload >= self.association.threshold && next != PROTOCOL;
        if could && self.trials.begin() {
            return Ok(Some(Framed { headers, next, most }));
        }
        stays(packet, next);
        Ok(None)
    }

    /// What is left to do when a device has tried. `result` is what it wrote.
    fn finish(&self, packet: &mut Packet<'_>, framed: &Framed, result: &[u8], ended: Ended) {
        match ended {
            Ok((Outcome::Done, length)) => {
                self.trials.end(true);
                self.replace(packet, framed, &result[..length]);
            }
            Ok((Outcome::NoRoom, _)) => {
                self.trials.end(false);
                stays(packet, framed.next);
            }
            Ok((outcome, _)) => packet.refuse(Error::Refused(outcome).into()),
            Err(error) => packet.refuse(error.into()),
        }
    }

    /// Writes what is shorter over the payload.
    fn replace(&self, packet: &mut Packet<'_>, framed: &Framed, compressed: &[u8]) {
        let start = packet.range().start;
        let end = start + framed.outer() + HEADER + compressed.len();
        let whole = &mut packet.buffer()[start..end];
        if let Some(headers) = framed.headers {
            headers.write(whole, PROTOCOL);
        }
        let (header, rest) = whole[framed.outer()..].split_at_mut(HEADER);
        let [high, low] = self.cpi().to_be_bytes();
        header.copy_from_slice(&[framed.next, 0, high, low]);
        rest.copy_from_slice(compressed);
        packet.next_header = PROTOCOL;
        packet.is_in(start..end);
    }
}

/// The packet is sent as it is.
fn stays(packet: &mut Packet<'_>, next: u8) {
    packet.next_header = next;
    packet.is_in(packet.range());
}

/// Compresses packets, each under its association, as [`Outbound::compress`] does; the [verdict](Packet::verdict) is in each. All
/// associations are of one framework.
pub fn compress(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    let framed: Each<Option<Framed>> = burst
        .iter_mut()
        .map(|(end, packet)| {
            end.frame(packet).unwrap_or_else(|why| {
                packet.refuse(why);
                None
            })
        })
        .collect();
    // No device writes over a packet: most of those that stay as they are were tried.
    let mut results = vec![0; framed.iter().flatten().map(|framed| framed.most).sum()];
    let mut rest = &mut results[..];
    let tried = burst.iter().zip(&framed).filter_map(|((end, packet), framed)| Some((end, packet, framed.as_ref()?)));
    let mut tasks: Each<Task<'_>> = tried
        .map(|(end, packet, framed)| {
            let (output, behind) = mem::take(&mut rest).split_at_mut(framed.most);
            rest = behind;
            Task { session: &end.association.session, input: &packet.data()[framed.outer()..], output }
        })
        .collect();
    let ends = batch::run(Operation::Compress, &mut tasks);
    drop(tasks);
    let mut rest = &results[..];
    let tried = burst.iter_mut().zip(&framed).filter_map(|(each, framed)| Some((each, framed.as_ref()?)));
    for (((end, packet), framed), ended) in tried.zip(ends) {
        let (result, behind) = rest.split_at(framed.most);
        rest = behind;
        end.finish(packet, framed, result, ended);
    }
}

/// Whether the next packet is worth a trial (RFC 3173, 2.2). What was compressed before, or encrypted, mostly comes in a row.
#[derive(Debug, Default)]
struct Trials {
    /// Packets in a row that did not become shorter.
    failed: AtomicU32,
    /// Packets that are still to be sent without a trial.
    untried: AtomicU32,
}

impl Trials {
    /// So many failures in a row are chance.
    const CHANCE: u32 = 3;
    /// The most packets that are sent without a trial.
    const LONGEST: u32 = 64;

    fn begin(&self) -> bool {
        self.untried.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// After each failure beyond chance twice as many packets go without a trial.
    fn end(&self, became_shorter: bool) {
        let failed = if became_shorter { 0 } else { self.failed.load(Ordering::Relaxed).saturating_add(1) };
        let beyond = failed.saturating_sub(Self::CHANCE);
        let untried = if beyond == 0 { 0 } else { Self::LONGEST.min(2 << beyond.min(16)) };
        self.failed.store(failed, Ordering::Relaxed);
        self.untried.store(untried, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_in_a_row_more_and_more_packets_go_untried_until_one_becomes_shorter() {
        let trials = Trials::default();
        let untried_before_a_trial = || (0..1000).take_while(|_| !trials.begin()).count();
        for expected in [0, 0, 0, 0, 4, 8, 16, 32, 64, 64] {
            assert_eq!(untried_before_a_trial(), expected);
            trials.end(false);
        }
        assert_eq!(untried_before_a_trial(), 64);
        trials.end(true);
        assert_eq!(untried_before_a_trial(), 0);
        trials.end(false);
        assert_eq!(untried_before_a_trial(), 0, "counted from the start");
        for _ in 0..100 {
            trials.end(false);
        }
        assert_eq!(untried_before_a_trial(), 64, "a burst of failures");
    }
}

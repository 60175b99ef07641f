//! The sending end of an IPComp association.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};

use gantry_core::{Error, Operation, Outcome};

use super::super::batch::{self, PerPacket, Task, TaskResult};
use super::super::{HEADER_LEN, PROTOCOL};
use super::Association;
use crate::burst;
use crate::ip::Headers;
use crate::packet::{Packet, PacketError};

/// The sending end of an [`Association`]. Threads may share it.
#[derive(Debug)]
pub struct Outbound {
    association: Association,
    trials: CompressionTrials,
}

/// A packet to compress.
struct FramedPacket {
    /// Headers before the payload.
    headers: Option<Headers>,
    /// The protocol of the payload.
    next_header: u8,
    /// The longest result, in bytes, that makes the packet shorter.
    max_output: usize,
}

impl FramedPacket {
    fn outer_len(&self) -> usize {
        self.headers.map_or(0, |headers| headers.length)
    }
}

impl Outbound {
    pub(super) fn new(association: Association) -> Self {
        Self { association, trials: CompressionTrials::default() }
    }

    /// Returns the association's CPI.
    pub fn cpi(&self) -> u16 {
        self.association.cpi
    }

    /// Compresses a packet in place, if the result is shorter. Otherwise the packet stays unchanged.
    ///
    /// [`next_header`](Packet::next_header) is then [`PROTOCOL`] if the packet was compressed, and the payload's protocol if not. In
    /// transport mode the IP header has the same value.
    ///
    /// # Errors
    /// Returns why the packet was refused: it is not an IP packet, or no device did the work. The packet is unchanged.
    pub fn compress(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, compress)
    }

    /// Reads a packet. Returns `None` for a packet that is sent unchanged.
    fn frame(&self, packet: &mut Packet<'_>) -> Result<Option<FramedPacket>, PacketError> {
        let (headers, next_header) = self.association.mode.outgoing_headers(packet)?;
        let payload = packet.data().len() - headers.map_or(0, |headers| headers.length);
        let max_output = payload.saturating_sub(HEADER_LEN + 1);
        // Compressed data does not shrink again.
        let may_shrink = max_output > 0 && payload >= self.association.threshold && next_header != PROTOCOL;
        if may_shrink && self.trials.take_trial() {
            return Ok(Some(FramedPacket { headers, next_header, max_output }));
        }
        keep_uncompressed(packet, next_header);
        Ok(None)
    }

    /// Finishes a packet after the device's attempt, whose output is `output`.
    fn finish(&self, packet: &mut Packet<'_>, framed: &FramedPacket, output: &[u8], result: TaskResult) {
        match result {
            Ok((Outcome::Done, length)) => {
                self.trials.record_trial(true);
                self.replace(packet, framed, &output[..length]);
            }
            Ok((Outcome::NoRoom, _)) => {
                self.trials.record_trial(false);
                keep_uncompressed(packet, framed.next_header);
            }
            Ok((outcome, _)) => packet.refuse(Error::Refused(outcome).into()),
            Err(error) => packet.refuse(error.into()),
        }
    }

    /// Replaces the payload by the compressed data.
    fn replace(&self, packet: &mut Packet<'_>, framed: &FramedPacket, compressed: &[u8]) {
        let start = packet.range().start;
        let end = start + framed.outer_len() + HEADER_LEN + compressed.len();
        let whole = &mut packet.buffer()[start..end];
        if let Some(headers) = framed.headers {
            headers.write(whole, PROTOCOL);
        }
        let (header, rest) = whole[framed.outer_len()..].split_at_mut(HEADER_LEN);
        let [high, low] = self.cpi().to_be_bytes();
        header.copy_from_slice(&[framed.next_header, 0, high, low]);
        rest.copy_from_slice(compressed);
        packet.next_header = PROTOCOL;
        packet.complete(start..end);
    }
}

/// Marks a packet as sent unchanged.
fn keep_uncompressed(packet: &mut Packet<'_>, next_header: u8) {
    packet.next_header = next_header;
    packet.complete(packet.range());
}

/// Compresses packets, each under its association, as [`Outbound::compress`] does. Each packet has its own [verdict](Packet::verdict).
/// All associations must belong to one framework.
pub fn compress(burst: &mut [(&Outbound, &mut Packet<'_>)]) {
    let framed: PerPacket<Option<FramedPacket>> = burst
        .iter_mut()
        .map(|(end, packet)| {
            end.frame(packet).unwrap_or_else(|error| {
                packet.refuse(error);
                None
            })
        })
        .collect();
    // Devices write to a separate buffer, because a packet that does not shrink stays unchanged.
    let mut outputs = vec![0; framed.iter().flatten().map(|framed| framed.max_output).sum()];
    let mut rest = &mut outputs[..];
    let tried = burst.iter().zip(&framed).filter_map(|((end, packet), framed)| Some((end, packet, framed.as_ref()?)));
    let mut tasks: PerPacket<Task<'_>> = tried
        .map(|(end, packet, framed)| {
            let (output, behind) = mem::take(&mut rest).split_at_mut(framed.max_output);
            rest = behind;
            Task { session: &end.association.session, input: &packet.data()[framed.outer_len()..], output }
        })
        .collect();
    let results = batch::run(Operation::Compress, &mut tasks);
    drop(tasks);
    let mut rest = &outputs[..];
    let tried = burst.iter_mut().zip(&framed).filter_map(|(each, framed)| Some((each, framed.as_ref()?)));
    for (((end, packet), framed), result) in tried.zip(results) {
        let (output, behind) = rest.split_at(framed.max_output);
        rest = behind;
        end.finish(packet, framed, output, result);
    }
}

/// Decides which packets to try to compress (RFC 3173, 2.2). Incompressible packets mostly come in a row.
#[derive(Debug, Default)]
struct CompressionTrials {
    /// Packets in a row that did not shrink.
    failures_in_a_row: AtomicU32,
    /// Packets still to be sent without a trial.
    untried_packets: AtomicU32,
}

impl CompressionTrials {
    /// The number of failures in a row that may be due to chance.
    const MAX_CHANCE_FAILURES: u32 = 3;
    /// The most packets that are sent without a trial.
    const MAX_UNTRIED_PACKETS: u32 = 64;

    /// Returns whether to try the next packet. If not, counts it as one of the untried packets.
    fn take_trial(&self) -> bool {
        self.untried_packets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Records whether a packet shrank. Each failure beyond chance doubles the number of packets sent without a trial; a success resets it.
    fn record_trial(&self, became_shorter: bool) {
        let failures =
            if became_shorter { 0 } else { self.failures_in_a_row.load(Ordering::Relaxed).saturating_add(1) };
        let beyond = failures.saturating_sub(Self::MAX_CHANCE_FAILURES);
        let untried = if beyond == 0 { 0 } else { Self::MAX_UNTRIED_PACKETS.min(2 << beyond.min(16)) };
        self.failures_in_a_row.store(failures, Ordering::Relaxed);
        self.untried_packets.store(untried, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_double_the_untried_packets_until_one_shrinks() {
        let trials = CompressionTrials::default();
        let untried_before_a_trial = || (0..1000).take_while(|_| !trials.take_trial()).count();
        for expected in [0, 0, 0, 0, 4, 8, 16, 32, 64, 64] {
            assert_eq!(untried_before_a_trial(), expected);
            trials.record_trial(false);
        }
        assert_eq!(untried_before_a_trial(), 64);
        trials.record_trial(true);
        assert_eq!(untried_before_a_trial(), 0);
        trials.record_trial(false);
        assert_eq!(untried_before_a_trial(), 0, "the count starts again");
        for _ in 0..100 {
            trials.record_trial(false);
        }
        assert_eq!(untried_before_a_trial(), 64, "a burst of failures");
    }
}

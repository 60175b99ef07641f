//! The three steps of a burst of ESP, SRTP or TLS packets: frame, crypt, finish.

use std::ops::Range;

use smallvec::SmallVec;

use crate::crypt::{Keys, Task, Tasks, Work};
use crate::packet::{Packet, PacketError};

/// A packet that the first step has framed.
pub(crate) struct FramedPacket<N> {
    /// The part of the buffer that devices process.
    pub(crate) device_range: Range<usize>,
    /// Data for the last step.
    pub(crate) state: N,
}

/// Takes a burst of packets, each with its end of an association, through three steps.
///
/// `frame` describes the work on a packet. It returns `None` for a packet to leave alone in this run. Its errors refuse the packet, and
/// leave it unchanged. `crypt` runs the devices on all framed packets. `finish` gets the range of the data within `device_range`, or the
/// error of `crypt`. It returns the packet's final range in the buffer. Its errors discard the packet.
pub(crate) fn run<E, N>(
    burst: &mut [(&E, &mut Packet<'_>)],
    keys: impl Fn(&E) -> &Keys,
    mut frame: impl FnMut(&E, &mut Packet<'_>, &mut Work) -> Result<Option<FramedPacket<N>>, PacketError>,
    crypt: impl FnOnce(&mut [Task<'_>]),
    mut finish: impl FnMut(&E, &mut Packet<'_>, N, Result<Range<usize>, PacketError>) -> Result<Range<usize>, PacketError>,
) {
    // Most bursts fit without an allocation.
    let mut works = SmallVec::<[Work; 32]>::new();
    let mut framed = SmallVec::<[Option<FramedPacket<N>>; 32]>::new();
    works.extend(std::iter::repeat_with(Work::default).take(burst.len()));
    for ((association, packet), work) in burst.iter_mut().zip(&mut works) {
        framed.push(frame(association, packet, work).unwrap_or_else(|error| {
            packet.refuse(error);
            None
        }));
    }
    let works_and_packets = burst.iter_mut().zip(&mut works).zip(&framed);
    let mut tasks: Tasks<'_> = works_and_packets
        .filter_map(|(((association, packet), work), framed)| {
            let packet = &mut packet.buffer()[framed.as_ref()?.device_range.clone()];
            Some(Task { keys: keys(association), packet, work })
        })
        .collect();
    crypt(&mut tasks);
    drop(tasks);
    for (((association, packet), work), framed) in burst.iter_mut().zip(works).zip(framed) {
        let Some(FramedPacket { state, .. }) = framed else { continue };
        match finish(association, packet, state, work.refusal.map_or(Ok(work.data), Err)) {
            Ok(range) => packet.complete(range),
            Err(error) => packet.discard(error),
        }
    }
}

/// Calls `run`, a protocol's function for bursts, with a burst of one packet.
pub(crate) fn run_one<E>(
    end: &E,
    packet: &mut Packet<'_>,
    run: impl FnOnce(&mut [(&E, &mut Packet<'_>)]),
) -> Result<(), PacketError> {
    run(&mut [(end, packet)]);
    packet.verdict().map_err(Clone::clone)
}

//! The end that receives.

use std::mem;

use gantry_core::{Error, Operation, Outcome};

use super::association::Association;
use super::batch::{self, Each, Ended, Task};
use super::{HEADER, PROTOCOL};
use crate::burst;
use crate::ip::{self, Headers, Mode};
use crate::packet::{Packet, Refused};

/// The receiving end of an [`Association`]. Threads may share it.
#[derive(Debug)]
pub struct Inbound {
    association: Association,
}

/// What was read of a packet.
struct Taken {
    /// Headers before IPComp.
    headers: Option<Headers>,
    /// The protocol of what was compressed.
    next: u8,
    /// Where the payload begins in the buffer.
    start: usize,
    /// The most bytes that it can have.
    most: usize,
    /// Bytes that it is compressed to.
    compressed: usize,
}

impl Inbound {
    pub(super) fn new(association: Association) -> Self {
        Self { association }
    }

    /// The association's CPI.
    pub fn cpi(&self) -> u16 {
        self.association.cpi
    }

    /// Makes what was compressed from a packet of IPComp, in place: it begins where the packet does, and must fit into the buffer behind
    /// that. Afterwards [`next_header`](Packet::next_header) is the protocol of the payload.
    ///
    /// Packets that were sent as they were are not given to it: the protocol field of their header is not [`PROTOCOL`].
    ///
    /// # Errors
    /// Why there is none. Nothing of the packet is left, but where it was refused before a device was asked.
    pub fn decompress(&self, packet: &mut Packet<'_>) -> Result<(), Refused> {
        burst::one(self, packet, decompress)
    }

    /// Reads the headers, and puts what is compressed behind `copies`, because the payload is written over it.
    fn take(&self, packet: &mut Packet<'_>, copies: &mut Vec<u8>) -> Result<Taken, Refused> {
        let headers = self.association.mode.before(packet.data(), PROTOCOL, "a packet of IP without IPComp")?;
        let outer = headers.map_or(0, |headers| headers.length);
        let Some((header, compressed)) = packet.data()[outer..].split_first_chunk::<HEADER>() else {
            return Err(Refused::Malformed("a packet of IPComp that is cut off"));
        };
        // The flags are whatever they are (RFC 3173, 3.3).
        let &[next, _, high, low] = header;
        if u16::from_be_bytes([high, low]) != self.cpi() {
            return Err(Refused::Malformed("the CPI of another one"));
        }
        copies.extend_from_slice(compressed);
        let compressed = compressed.len();
        let start = packet.range().start + outer;
        let room = packet.buffer().len() - start;
        let most = headers.map_or(room, |headers| room.min(headers.most() - outer));
        Ok(Taken { headers, next, start, most, compressed })
    }

    /// What is left to do when a device has done it.
    fn finish(&self, packet: &mut Packet<'_>, taken: &Taken, ended: Ended) -> Result<(), Refused> {
        let &Taken { headers, next, start, most, .. } = taken;
        let length = match ended? {
            (Outcome::Done, length) => length,
            (Outcome::NoRoom, _) => return Err(Refused::Expands { most }),
            (Outcome::Malformed, _) => return Err(Refused::Malformed("data that nobody compressed")),
            (outcome, _) => return Err(Error::Refused(outcome).into()),
        };
        let is_tunnel = self.association.mode == Mode::Tunnel;
        let payload = &packet.buffer()[start..start + length];
        let length = if is_tunnel { ip::length(payload, next)? } else { length };
        let whole = packet.range().start..start + length;
        if let Some(headers) = headers {
            headers.write(&mut packet.buffer()[whole.clone()], next);
        }
        packet.next_header = next;
        packet.is_in(whole);
        Ok(())
    }
}

/// Decompresses packets, each under its association, as [`Inbound::decompress`] does; the [verdict](Packet::verdict) is in each. All
/// associations are of one framework.
pub fn decompress(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    let mut copies = Vec::with_capacity(burst.iter().map(|(_, packet)| packet.data().len()).sum());
    let taken: Each<Option<Taken>> = burst
        .iter_mut()
        .map(|(end, packet)| end.take(packet, &mut copies).map_err(|why| packet.refuse(why)).ok())
        .collect();
    let mut rest = &copies[..];
    let each = burst.iter_mut().zip(&taken).filter_map(|(each, taken)| Some((each, taken.as_ref()?)));
    let mut tasks: Each<Task<'_>> = each
        .map(|((end, packet), taken)| {
            let (input, behind) = mem::take(&mut rest).split_at(taken.compressed);
            rest = behind;
            let output = &mut packet.buffer()[taken.start..taken.start + taken.most];
            Task { session: &end.association.session, input, output }
        })
        .collect();
    let ends = batch::run(Operation::Decompress, &mut tasks);
    drop(tasks);
    let each = burst.iter_mut().zip(&taken).filter_map(|(each, taken)| Some((each, taken.as_ref()?)));
    for (((end, packet), taken), ended) in each.zip(ends) {
        if let Err(why) = end.finish(packet, taken, ended) {
            packet.discard(why);
        }
    }
}

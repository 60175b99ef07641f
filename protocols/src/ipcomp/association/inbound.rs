//! The receiving end of an IPComp association.

use std::mem;

use gantry_core::{Error, Operation, Outcome};

use super::super::batch::{self, PerPacket, Task, TaskResult};
use super::super::{HEADER_LEN, PROTOCOL};
use super::Association;
use crate::burst;
use crate::ip::{self, Headers, Mode};
use crate::packet::{Packet, PacketError};

/// The receiving end of an [`Association`]. Threads may share it.
#[derive(Debug)]
pub struct Inbound {
    association: Association,
}

/// Fields read from a packet.
struct ParsedPacket {
    /// Headers before IPComp.
    headers: Option<Headers>,
    /// The protocol of the compressed data.
    next_header: u8,
    /// Offset of the payload in the buffer.
    payload_offset: usize,
    /// The most bytes that the decompressed payload may have.
    max_output: usize,
    /// Length of the compressed payload in bytes.
    compressed_len: usize,
}

impl Inbound {
    pub(super) fn new(association: Association) -> Self {
        Self { association }
    }

    /// Returns the association's CPI.
    pub fn cpi(&self) -> u16 {
        self.association.cpi
    }

    /// Decompresses an IPComp packet in place. The result begins at the packet's start, and must fit into the rest of the buffer.
    /// [`next_header`](Packet::next_header) is then the protocol of the payload.
    ///
    /// Do not pass packets that were sent uncompressed: the protocol field of their header is not [`PROTOCOL`].
    ///
    /// # Errors
    /// Returns why the packet was refused. The packet's contents are lost, unless it was refused before decompression.
    pub fn decompress(&self, packet: &mut Packet<'_>) -> Result<(), PacketError> {
        burst::run_one(self, packet, decompress)
    }

    /// Reads the headers, and appends the compressed data to `copies`, because the decompressed payload overwrites the compressed data.
    fn parse(&self, packet: &mut Packet<'_>, copies: &mut Vec<u8>) -> Result<ParsedPacket, PacketError> {
        let headers = self.association.mode.incoming_headers(packet.data(), PROTOCOL, "an IP packet without IPComp")?;
        let outer = headers.map_or(0, |headers| headers.length);
        let Some((header, compressed)) = packet.data()[outer..].split_first_chunk::<HEADER_LEN>() else {
            return Err(PacketError::Malformed("a truncated IPComp packet"));
        };
        // Flags are ignored (RFC 3173, 3.3).
        let &[next_header, _, high, low] = header;
        if u16::from_be_bytes([high, low]) != self.cpi() {
            return Err(PacketError::Malformed("the CPI of another association"));
        }
        copies.extend_from_slice(compressed);
        let compressed_len = compressed.len();
        let payload_offset = packet.range().start + outer;
        let room = packet.buffer().len() - payload_offset;
        let max_output = headers.map_or(room, |headers| room.min(headers.max_length() - outer));
        Ok(ParsedPacket { headers, next_header, payload_offset, max_output, compressed_len })
    }

    /// Finishes a packet after the device's work.
    fn finish(&self, packet: &mut Packet<'_>, parsed: &ParsedPacket, result: TaskResult) -> Result<(), PacketError> {
        let &ParsedPacket { headers, next_header, payload_offset, max_output, .. } = parsed;
        let length = match result? {
            (Outcome::Done, length) => length,
            (Outcome::NoRoom, _) => return Err(PacketError::Expands { max: max_output }),
            (Outcome::Malformed, _) => return Err(PacketError::Malformed("invalid compressed data")),
            (outcome, _) => return Err(Error::Refused(outcome).into()),
        };
        let is_tunnel = self.association.mode == Mode::Tunnel;
        let payload = &packet.buffer()[payload_offset..payload_offset + length];
        let length = if is_tunnel { ip::tunneled_packet_len(payload, next_header)? } else { length };
        let whole = packet.range().start..payload_offset + length;
        if let Some(headers) = headers {
            headers.write(&mut packet.buffer()[whole.clone()], next_header);
        }
        packet.next_header = next_header;
        packet.complete(whole);
        Ok(())
    }
}

/// Decompresses packets, each under its association, as [`Inbound::decompress`] does. Each packet has its own
/// [verdict](Packet::verdict). All associations must belong to one framework.
pub fn decompress(burst: &mut [(&Inbound, &mut Packet<'_>)]) {
    let mut copies = Vec::with_capacity(burst.iter().map(|(_, packet)| packet.data().len()).sum());
    let parsed: PerPacket<Option<ParsedPacket>> = burst
        .iter_mut()
        .map(|(end, packet)| end.parse(packet, &mut copies).map_err(|error| packet.refuse(error)).ok())
        .collect();
    let mut rest = &copies[..];
    let parsed_packets = burst.iter_mut().zip(&parsed).filter_map(|(each, parsed)| Some((each, parsed.as_ref()?)));
    let mut tasks: PerPacket<Task<'_>> = parsed_packets
        .map(|((end, packet), parsed)| {
            let (input, behind) = mem::take(&mut rest).split_at(parsed.compressed_len);
            rest = behind;
            let output = &mut packet.buffer()[parsed.payload_offset..parsed.payload_offset + parsed.max_output];
            Task { session: &end.association.session, input, output }
        })
        .collect();
    let results = batch::run(Operation::Decompress, &mut tasks);
    drop(tasks);
    let parsed_packets = burst.iter_mut().zip(&parsed).filter_map(|(each, parsed)| Some((each, parsed.as_ref()?)));
    for (((end, packet), parsed), result) in parsed_packets.zip(results) {
        if let Err(error) = end.finish(packet, parsed, result) {
            packet.discard(error);
        }
    }
}

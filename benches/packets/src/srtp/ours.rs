//! Measures Gantry. `libsrtp.c` measures libsrtp2 with the same packets in the same order.

use std::time::Duration;

use gantry_core::Gantry;
use gantry_protocols::Packet;
use gantry_protocols::srtp::{self, Context, Inbound, Outbound, Suite};
use nix::time::{ClockId, clock_gettime};

use super::{NsPerPacket, Options, Result};

/// Number of packets of each stream that a turn seals and then opens.
const PACKETS_PER_STREAM: usize = 8;
/// Bytes of the RTP header.
pub(super) const HEADER_LEN: usize = 12;

/// Streams, each with its own context and master key, and a buffer for each of their packets.
pub(super) struct Streams {
    ends: Vec<(Outbound, Inbound)>,
    buffers: Vec<u8>,
    /// Bytes of each buffer.
    room: usize,
    bytes: usize,
    burst: usize,
    /// The sequence number of the next packets.
    sequence: u16,
}

impl Streams {
    pub(super) fn new(gantry: &Gantry, suite: Suite, options: &Options) -> Result<Self> {
        let (key, salt) = match suite {
            Suite::AesCm128HmacSha1_80 => (16, 14),
            Suite::AeadAes128Gcm => (16, 12),
            Suite::AeadAes256Gcm => (32, 12),
            _ => (32, 14),
        };
        let mut ends = Vec::new();
        for stream in 0..options.streams {
            let keys: Vec<u8> = (0..key + salt).map(|at| (at + stream * 7) as u8).collect();
            let context = || Context::new(suite, &keys[..key], &keys[key..]).window(128);
            ends.push((context().outbound(gantry)?, context().inbound(gantry)?));
        }
        let room = (options.bytes + ends[0].0.room().1).next_multiple_of(64);
        let buffers = vec![1; options.streams * PACKETS_PER_STREAM * room];
        Ok(Self { ends, buffers, room, bytes: options.bytes, burst: options.burst, sequence: 0 })
    }

    /// Seals and opens packets until they have taken at least `min_time` of CPU time.
    pub(super) fn measure(&mut self, min_time: Duration) -> Result<NsPerPacket> {
        let (mut seal, mut open, mut packets) = (Duration::ZERO, Duration::ZERO, 0);
        // The first turn warms up caches, and is not counted.
        self.seal_and_open_all()?;
        while seal + open < min_time {
            let (sealed, opened) = self.seal_and_open_all()?;
            seal += sealed;
            open += opened;
            packets += (self.ends.len() * PACKETS_PER_STREAM) as u32;
        }
        let ns_per_packet = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(packets);
        Ok(NsPerPacket { seal: ns_per_packet(seal), open: ns_per_packet(open) })
    }

    /// Seals all packets, then opens them. Returns the CPU time of sealing and that of opening.
    fn seal_and_open_all(&mut self) -> Result<(Duration, Duration)> {
        let Self { ends, buffers, room, bytes, burst, sequence } = self;
        let begun = cpu_time()?;
        let mut sealed_length = 0;
        for (chunk, at) in buffers.chunks_mut(*room * *burst).zip((0..).step_by(*burst)) {
            for (buffer, at) in chunk.chunks_mut(*room).zip(at..) {
                let number = sequence.wrapping_add((at / ends.len()) as u16);
                buffer[..4].copy_from_slice(&[[0x80, 96], number.to_be_bytes()].concat());
                buffer[4..8].fill(0);
                buffer[8..HEADER_LEN].copy_from_slice(&((at % ends.len()) as u32).to_be_bytes());
            }
            let mut packets: Vec<_> = chunk.chunks_mut(*room).map(|buffer| Packet::new(buffer, 0..*bytes)).collect();
            let mut work: Vec<_> =
                packets.iter_mut().zip(at..).map(|(packet, at)| (&ends[at % ends.len()].0, packet)).collect();
            srtp::seal(&mut work);
            for packet in &packets {
                packet.verdict().map_err(Clone::clone)?;
                sealed_length = packet.data().len();
            }
        }
        let sealed = cpu_time()?;
        for (chunk, at) in buffers.chunks_mut(*room * *burst).zip((0..).step_by(*burst)) {
            let mut packets: Vec<_> =
                chunk.chunks_mut(*room).map(|buffer| Packet::new(buffer, 0..sealed_length)).collect();
            let mut work: Vec<_> =
                packets.iter_mut().zip(at..).map(|(packet, at)| (&ends[at % ends.len()].1, packet)).collect();
            srtp::open(&mut work);
            for packet in &packets {
                packet.verdict().map_err(Clone::clone)?;
            }
        }
        let opened = cpu_time()?;
        *sequence = sequence.wrapping_add(PACKETS_PER_STREAM as u16);
        Ok((sealed.saturating_sub(begun), opened.saturating_sub(sealed)))
    }
}

fn cpu_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

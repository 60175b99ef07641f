//! Splits packets of the stack into segments, as a network card does for TCP (TSO) and UDP (USO).

use super::checksum;
use super::ip::{self, Header, TCP, UDP};
use super::offload::Offload;

/// TCP flags that only the last segment keeps: FIN and PSH (RFC 9293, 3.1).
const LAST_SEGMENT_FLAGS: u8 = 0x01 | 0x08;
/// The TCP flag that only the first segment keeps: CWR.
const FIRST_SEGMENT_FLAGS: u8 = 0x80;
/// Offset of the flags in the TCP header.
const FLAGS_OFFSET: usize = 13;

/// A packet that is to be split into one or more segments.
#[derive(Debug)]
pub(crate) struct Segments<'f> {
    packet: &'f [u8],
    header: Header,
    /// Bytes of the headers that each segment has; 0 if the packet is a single segment, which stays unchanged.
    header_bytes: usize,
    /// Bytes of payload of each segment but the last.
    payload_bytes: usize,
}

impl<'f> Segments<'f> {
    /// Prepares the segments of a packet. Writes the checksum of a single segment if the stack left it out. Returns `None` if the packet
    /// does not match `offload`.
    pub(crate) fn new(packet: &'f mut [u8], offload: &Offload) -> Option<Self> {
        let header = Header::read(packet)?;
        let packet = &mut packet[..header.packet_bytes];
        let Some(payload_bytes) = offload.segment_bytes else {
            if let Some((start, offset)) = offload.checksum {
                // The stack has left the sum of the pseudo-header in the checksum field.
                let covered = packet.get(start..)?;
                let sum = replace_zero_checksum(checksum::complement(checksum::add(0, covered)));
                packet.get_mut(start + offset..start + offset + 2)?.copy_from_slice(&sum);
            }
            return Some(Self { packet, header, header_bytes: 0, payload_bytes: header.packet_bytes });
        };
        let header_bytes = header.ip_header_bytes
            + match header.flow.protocol {
                TCP => usize::from(packet.get(header.ip_header_bytes + 12)? >> 4) * 4,
                UDP => 8,
                _ => return None,
            };
        let least = header.ip_header_bytes + if header.flow.protocol == TCP { 20 } else { 8 };
        (least <= header_bytes && header_bytes < packet.len() && header.fragment.is_none()).then_some(Self {
            packet,
            header,
            header_bytes,
            payload_bytes,
        })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the packet. If it has several segments, only its headers are complete.
    pub(crate) fn packet(&self) -> &[u8] {
        self.packet
    }

    /// Returns the packet if it is a single segment.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        (self.header_bytes == 0).then_some(self.packet)
    }

    pub(crate) fn count(&self) -> usize {
        if self.header_bytes == 0 { 1 } else { (self.packet.len() - self.header_bytes).div_ceil(self.payload_bytes) }
    }

    pub(crate) fn bytes(&self, segment: usize) -> usize {
        if self.header_bytes == 0 {
            self.packet.len()
        } else {
            self.header_bytes
                + self.payload_bytes.min(self.packet.len() - self.header_bytes - segment * self.payload_bytes)
        }
    }

    /// Writes a segment to `out`, which has exactly the segment's length.
    pub(crate) fn write(&self, segment: usize, out: &mut [u8]) {
        if self.header_bytes == 0 {
            return out.copy_from_slice(self.packet);
        }
        let (head, payload) = out.split_at_mut(self.header_bytes);
        let from = self.header_bytes + segment * self.payload_bytes;
        head.copy_from_slice(&self.packet[..self.header_bytes]);
        payload.copy_from_slice(&self.packet[from..from + payload.len()]);
        let (ip_header_bytes, total) = (self.header.ip_header_bytes, self.header_bytes + payload.len());
        if head[0] >> 4 == 4 {
            let id = u16::from_be_bytes([head[4], head[5]]).wrapping_add(segment as u16);
            head[4..6].copy_from_slice(&id.to_be_bytes());
        }
        ip::write_length(head, ip_header_bytes, total);
        let pseudo =
            checksum::pseudo_header_sum(ip::addresses(head), self.header.flow.protocol, total - ip_header_bytes);
        let transport = &mut head[ip_header_bytes..];
        let checksum_offset = if self.header.flow.protocol == TCP {
            let number = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
            let number = number.wrapping_add((segment * self.payload_bytes) as u32);
            transport[4..8].copy_from_slice(&number.to_be_bytes());
            if segment > 0 {
                transport[FLAGS_OFFSET] &= !FIRST_SEGMENT_FLAGS;
            }
            if segment + 1 < self.count() {
                transport[FLAGS_OFFSET] &= !LAST_SEGMENT_FLAGS;
            }
            16
        } else {
            transport[4..6].copy_from_slice(&((total - ip_header_bytes) as u16).to_be_bytes());
            6
        };
        transport[checksum_offset..checksum_offset + 2].fill(0);
        let sum = checksum::complement(checksum::add(checksum::add(pseudo, transport), payload));
        transport[checksum_offset..checksum_offset + 2].copy_from_slice(&replace_zero_checksum(sum));
    }
}

/// Replaces a zero checksum by 0xFFFF, its other representation. In UDP zero means that there is no checksum (RFC 768), which IPv6 forbids;
/// other protocols accept both.
pub(crate) fn replace_zero_checksum(sum: [u8; 2]) -> [u8; 2] {
    if sum == [0; 2] { [0xFF; 2] } else { sum }
}

/// Returns whether the checksum of a TCP packet is correct.
pub(crate) fn has_valid_checksum(packet: &[u8], header: &Header) -> bool {
    let segment = &packet[header.ip_header_bytes..header.packet_bytes];
    let pseudo = checksum::pseudo_header_sum(ip::addresses(packet), header.flow.protocol, segment.len());
    checksum::fold(checksum::add(pseudo, segment)) == [0xFF; 2]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::packet::ip::tests::{v4, v6};

    /// Builds a TCP packet with options and a correct checksum.
    pub(crate) fn tcp(is_v6: bool, number: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = vec![0x13, 0x88, 0, 80];
        segment.extend(number.to_be_bytes());
        segment.extend([0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        segment.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        segment.extend(payload);
        let mut packet = if is_v6 { v6(&[], TCP, b"") } else { v4([10, 1, 0, 1], [10, 2, 0, 1], (0, 0), b"") };
        let ip_header_bytes = packet.len() - 8;
        packet.truncate(ip_header_bytes);
        packet.extend(segment);
        let total = packet.len();
        if !is_v6 {
            packet[9] = TCP;
            packet[6] = 0x40;
        }
        ip::write_length(&mut packet, ip_header_bytes, total);
        let sum = checksum::add(
            checksum::pseudo_header_sum(ip::addresses(&packet), TCP, total - ip_header_bytes),
            &packet[ip_header_bytes..],
        );
        packet[ip_header_bytes + 16..ip_header_bytes + 18].copy_from_slice(&checksum::complement(sum));
        packet
    }

    fn segments(packet: &mut [u8], offload: &Offload) -> Vec<Vec<u8>> {
        let segments = Segments::new(packet, offload).unwrap();
        (0..segments.count())
            .map(|at| {
                let mut out = vec![0; segments.bytes(at)];
                segments.write(at, &mut out);
                out
            })
            .collect()
    }

    #[test]
    fn tcp_segments_have_correct_checksums() {
        let payload: Vec<u8> = (0..3500_u32).map(|at| (at >> 3) as u8).collect();
        for is_v6 in [false, true] {
            let mut whole = tcp(is_v6, u32::MAX - 1500, 0x80 | 0x10 | 0x08 | 0x01, &payload);
            let offload = Offload { segment_bytes: Some(1000), ..Offload::default() };
            let parts = segments(&mut whole, &offload);
            assert_eq!(parts.len(), 4);
            let mut joined = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let header = Header::read(part).unwrap();
                assert_eq!(header.packet_bytes, part.len());
                assert!(has_valid_checksum(part, &header), "segment {at}");
                let expected = tcp(
                    is_v6,
                    (u32::MAX - 1500).wrapping_add(at as u32 * 1000),
                    [0x90, 0x10, 0x10, 0x19][at],
                    &payload[at * 1000..payload.len().min(at * 1000 + 1000)],
                );
                // The identification differs, and so does the header checksum.
                let from = if is_v6 { 0 } else { 12 };
                assert_eq!(part[from..], expected[from..], "segment {at}");
                joined.extend_from_slice(&part[header.ip_header_bytes + 32..]);
                if !is_v6 {
                    assert_eq!(part[4..6], [0, 1 + at as u8]);
                    assert_eq!(checksum::fold(checksum::add(0, &part[..20])), [0xFF; 2]);
                }
            }
            assert_eq!(joined, payload);
        }
    }

    #[test]
    fn udp_segments_get_their_lengths_and_checksums() {
        let mut whole = v4([10, 1, 0, 1], [10, 2, 0, 1], (1, 2), &[7; 250]);
        let parts = segments(&mut whole, &Offload { segment_bytes: Some(100), ..Offload::default() });
        let lengths = parts.iter().map(|part| u16::from_be_bytes([part[24], part[25]])).collect::<Vec<_>>();
        assert_eq!(lengths, [108, 108, 58]);
        assert!(parts.iter().all(|part| has_valid_checksum(part, &Header::read(part).unwrap())));
    }

    #[test]
    fn a_missing_checksum_is_written() {
        let whole = tcp(false, 5, 0x10, b"payload");
        let mut incomplete = whole.clone();
        // The stack leaves the sum of the pseudo-header in the checksum field.
        let pseudo = checksum::pseudo_header_sum(ip::addresses(&whole), TCP, whole.len() - 20);
        incomplete[36..38].copy_from_slice(&checksum::fold(pseudo));
        let offload = Offload { checksum: Some((20, 16)), ..Offload::default() };
        assert_eq!(segments(&mut incomplete, &offload), [whole]);
    }

    #[test]
    fn no_packet_gets_a_checksum_of_zero() {
        let mut whole = v6(&[], UDP, &[7; 10]);
        let (ip_header_bytes, total) = (ip::V6_HEADER_BYTES, whole.len());
        let pseudo = checksum::pseudo_header_sum(ip::addresses(&whole), UDP, total - ip_header_bytes);
        // The last two bytes make the checksum zero.
        whole[total - 2..].fill(0);
        let rest = checksum::complement(checksum::add(pseudo, &whole[ip_header_bytes..]));
        whole[total - 2..].copy_from_slice(&rest);
        whole[ip_header_bytes + 6..ip_header_bytes + 8].copy_from_slice(&checksum::fold(pseudo));
        let offload = Offload { checksum: Some((ip_header_bytes, 6)), ..Offload::default() };
        let [packet] = &segments(&mut whole.clone(), &offload)[..] else { panic!("it is one packet") };
        assert_eq!(packet[ip_header_bytes + 6..ip_header_bytes + 8], [0xFF; 2]);
        assert!(has_valid_checksum(packet, &Header::read(packet).unwrap()));
        // Segments have no zero checksum either.
        let offload = Offload { segment_bytes: Some(total - ip_header_bytes - 8), ..Offload::default() };
        assert_eq!(segments(&mut whole, &offload), std::slice::from_ref(packet));
    }

    #[test]
    fn packets_that_do_not_match_the_offload_are_refused() {
        let good = tcp(false, 5, 0x10, b"payload");
        let segment = Offload { segment_bytes: Some(3), ..Offload::default() };
        let refused = |change: &dyn Fn(&mut Vec<u8>), offload: &Offload| {
            let mut packet = good.clone();
            change(&mut packet);
            Segments::new(&mut packet, offload).is_none()
        };
        assert!(!refused(&|_| (), &segment));
        assert!(refused(&|packet| packet[9] = 1, &segment), "ICMP has no segments");
        assert!(refused(&|packet| packet[32] = 0x40, &segment), "a TCP header that is too short");
        assert!(refused(&|packet| packet[32] = 0xF0, &segment), "a TCP header that exceeds the packet");
        assert!(refused(&|packet| packet[6] = 0x20, &segment), "a fragment");
        for checksum in [(1000, 16), (44, 16), (58, 0), (usize::from(u16::MAX), 65_535)] {
            assert!(refused(&|_| (), &Offload { checksum: Some(checksum), ..Offload::default() }), "{checksum:?}");
        }
    }
}

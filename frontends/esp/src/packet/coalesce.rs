//! Merges consecutive TCP segments into one packet for the stack, as a network card does on receive (GRO).

use super::checksum;
use super::ip::{self, Header, TCP};
use super::offload::Offload;
use super::segment::has_valid_checksum;

const ACK: u8 = 0x10;
const PUSH: u8 = 0x08;
/// Places of fields in the TCP header.
const FLAGS_OFFSET: usize = 13;
const SEQUENCE_NUMBER: std::ops::Range<usize> = 4..8;
const WINDOW: std::ops::Range<usize> = 14..16;

/// Maximum number of packets in a group. With the offload header, a write then has at most 64 pieces.
const MAX_MEMBERS: usize = 63;
/// Maximum length of an IP packet in bytes.
const MAX_PACKET_BYTES: usize = 65_535;
/// Maximum number of groups that may still grow. Each packet is compared with all of them.
const MAX_OPEN_GROUPS: usize = 16;

/// Packets that go to the stack as one packet, by their index in a burst.
#[derive(Debug)]
pub(crate) struct Group {
    /// Indexes of the packets, in the order of their payloads.
    pub(crate) members: Vec<usize>,
    /// Bytes of the merged packet.
    bytes: usize,
    /// Bytes of the headers of each packet.
    header_bytes: usize,
    /// Bytes of payload of each packet but the last, which may be shorter.
    segment_bytes: usize,
    /// The sequence number of the next segment.
    next_number: u32,
    /// True if no packet may follow.
    is_closed: bool,
    header: Header,
}

impl Group {
    fn single(at: usize, packet: &[u8], header: &Header) -> Self {
        Self {
            members: vec![at],
            bytes: header.packet_bytes,
            header_bytes: 0,
            segment_bytes: packet.len(),
            next_number: 0,
            is_closed: true,
            header: *header,
        }
    }

    fn of_segment(at: usize, packet: &[u8], header: &Header) -> Option<Self> {
        let header_bytes = payload_offset(packet, header)?;
        // A segment that is not plain data stays alone. So does a damaged segment, which the stack must see.
        let payload = header.packet_bytes - header_bytes;
        let is_plain = payload > 0
            && packet[header.ip_header_bytes + FLAGS_OFFSET] & !PUSH == ACK
            && has_valid_checksum(packet, header);
        is_plain.then(|| Self {
            members: vec![at],
            bytes: header.packet_bytes,
            header_bytes,
            segment_bytes: payload,
            next_number: sequence_number(packet, header).wrapping_add(payload as u32),
            is_closed: packet[header.ip_header_bytes + FLAGS_OFFSET] & PUSH != 0,
            header: *header,
        })
    }

    /// Returns whether `packet` is the next segment of the group.
    fn accepts(&self, first: &[u8], packet: &[u8], header: &Header) -> bool {
        let ip_header_bytes = self.header.ip_header_bytes;
        let payload = header.packet_bytes.saturating_sub(self.header_bytes);
        let is_equal =
            |range: std::ops::Range<usize>| first[ip_header_bytes..][range.clone()] == packet[ip_header_bytes..][range];
        !self.is_closed
            && self.members.len() < MAX_MEMBERS
            && header.ip_header_bytes == ip_header_bytes
            && (1..=self.segment_bytes).contains(&payload)
            && self.bytes + payload <= MAX_PACKET_BYTES
            && sequence_number(packet, header) == self.next_number
            // The IP headers are equal except for length, identification and checksum.
            && constant_ip_fields(first, ip_header_bytes) == constant_ip_fields(packet, ip_header_bytes)
            // The acknowledgement number and the header length.
            && is_equal(8..FLAGS_OFFSET)
            && packet[ip_header_bytes + FLAGS_OFFSET] & !PUSH == ACK
            && is_equal(WINDOW)
            // The TCP options.
            && is_equal(20..self.header_bytes - ip_header_bytes)
            && has_valid_checksum(packet, header)
    }

    fn add(&mut self, at: usize, packet: &[u8], header: &Header) {
        let payload = header.packet_bytes - self.header_bytes;
        self.members.push(at);
        self.bytes += payload;
        self.next_number = self.next_number.wrapping_add(payload as u32);
        self.is_closed = payload < self.segment_bytes || packet[header.ip_header_bytes + FLAGS_OFFSET] & PUSH != 0;
    }

    /// Returns the length of the headers. The payload of each further member begins after them.
    pub(crate) fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Turns the headers of the first packet into those of the merged packet. `pushes` tells whether the last packet has the PSH flag.
    /// Returns the offload header for the stack.
    pub(crate) fn finish(&self, first: &mut [u8], pushes: bool) -> Offload {
        if self.members.len() == 1 {
            return Offload::default();
        }
        let ip_header_bytes = self.header.ip_header_bytes;
        ip::write_length(first, ip_header_bytes, self.bytes);
        if pushes {
            first[ip_header_bytes + FLAGS_OFFSET] |= PUSH;
        }
        // The stack completes the checksum, which begins with the sum of the pseudo-header.
        let pseudo =
            checksum::fold(checksum::pseudo_header_sum(ip::addresses(first), TCP, self.bytes - ip_header_bytes));
        first[ip_header_bytes + 16..ip_header_bytes + 18].copy_from_slice(&pseudo);
        Offload {
            checksum: Some((ip_header_bytes, 16)),
            segment_bytes: Some(self.segment_bytes),
            header_bytes: self.header_bytes,
        }
    }
}

/// Sorts the packets of a burst into groups, in the order of their first packets. Skips `None`.
pub(crate) fn coalesce<'p>(burst: impl Iterator<Item = Option<(&'p [u8], Header)>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // The groups that may still grow, with their first packet; at most one for each flow.
    let mut open: Vec<(usize, &[u8])> = Vec::new();
    for (at, packet) in burst.enumerate() {
        let Some((packet, header)) = packet else { continue };
        if header.flow.protocol == TCP && header.fragment.is_none() {
            let position = open.iter().position(|(group, _)| groups[*group].header.flow == header.flow);
            if let Some(position) = position {
                let (group, first) = open[position];
                if groups[group].accepts(first, packet, &header) {
                    groups[group].add(at, packet, &header);
                    continue;
                }
                open.remove(position);
            }
            if let Some(group) = Group::of_segment(at, packet, &header) {
                if open.len() == MAX_OPEN_GROUPS {
                    open.remove(0);
                }
                open.push((groups.len(), packet));
                groups.push(group);
                continue;
            }
        }
        groups.push(Group::single(at, packet, &header));
    }
    groups
}

/// Returns the offset of a segment's payload, if its headers allow merging.
fn payload_offset(packet: &[u8], header: &Header) -> Option<usize> {
    let has_options = header.ip_header_bytes != if header.is_v6() { ip::V6_HEADER_BYTES } else { ip::V4_HEADER_BYTES };
    let words = usize::from(packet.get(header.ip_header_bytes + 12)? >> 4);
    let header_bytes = header.ip_header_bytes + words * 4;
    (!has_options && words >= 5 && header_bytes <= header.packet_bytes).then_some(header_bytes)
}

fn sequence_number(packet: &[u8], header: &Header) -> u32 {
    packet[header.ip_header_bytes..]
        .get(SEQUENCE_NUMBER)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Returns the parts of the IP header that are equal in all segments of a packet.
fn constant_ip_fields(packet: &[u8], ip_header_bytes: usize) -> [&[u8]; 3] {
    if packet[0] >> 4 == 4 {
        [&packet[..2], &packet[6..10], &packet[12..ip_header_bytes]]
    } else {
        [&packet[..4], &packet[6..8], &packet[8..ip_header_bytes]]
    }
}

/// Returns whether a TCP packet has the PSH flag. A group takes the flag from its last packet.
pub(crate) fn has_push_flag(packet: &[u8], header: &Header) -> bool {
    header.flow.protocol == TCP
        && packet.get(header.ip_header_bytes + FLAGS_OFFSET).is_some_and(|flags| flags & PUSH != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::segment::Segments;
    use crate::packet::segment::tests::tcp;

    fn groups(packets: &[Vec<u8>]) -> Vec<Vec<usize>> {
        let burst = packets.iter().map(|packet| Header::read(packet).map(|header| (&packet[..], header)));
        coalesce(burst).into_iter().map(|group| group.members).collect()
    }

    #[test]
    fn segments_of_a_packet_merge_into_the_same_packet() {
        let payload: Vec<u8> = (0..5000_u32).map(|at| (at >> 4) as u8).collect();
        for is_v6 in [false, true] {
            let whole = tcp(is_v6, 100, ACK | PUSH, &payload);
            let mut frame = whole.clone();
            let segments =
                Segments::new(&mut frame, &Offload { segment_bytes: Some(1200), ..Offload::default() }).unwrap();
            let mut packets: Vec<Vec<u8>> = (0..segments.count())
                .map(|at| {
                    let mut packet = vec![0; segments.bytes(at)];
                    segments.write(at, &mut packet);
                    packet
                })
                .collect();
            let headers: Vec<Header> = packets.iter().map(|packet| Header::read(packet).unwrap()).collect();
            let all = coalesce(packets.iter().zip(&headers).map(|(packet, header)| Some((&packet[..], *header))));
            let [group] = &all[..] else { panic!("{all:?}") };
            assert_eq!(group.members, [0, 1, 2, 3, 4]);
            let last = has_push_flag(&packets[4], &headers[4]);
            let offload = group.finish(&mut packets[0], last);
            let mut joined = packets[0].clone();
            packets[1..].iter().for_each(|packet| joined.extend_from_slice(&packet[group.header_bytes()..]));
            let ip_header_bytes = headers[0].ip_header_bytes;
            assert_eq!(
                offload,
                Offload {
                    checksum: Some((ip_header_bytes, 16)),
                    segment_bytes: Some(1200),
                    header_bytes: ip_header_bytes + 32
                }
            );
            // Completed with its checksum, the merged packet equals the original.
            let complete = Segments::new(&mut joined, &Offload { segment_bytes: None, ..offload }).unwrap();
            let mut out = vec![0; complete.bytes(0)];
            complete.write(0, &mut out);
            assert_eq!(out, whole);
        }
    }

    #[test]
    fn interleaved_flows_are_grouped_separately() {
        let mut packets = Vec::new();
        for at in 0..3 {
            packets.push(tcp(false, at * 10, ACK, &[1; 10]));
            let mut other = tcp(true, 77 + at * 20, ACK, &[2; 20]);
            other[6] = TCP;
            packets.push(other);
        }
        assert_eq!(groups(&packets), [[0, 2, 4], [1, 3, 5]]);
    }

    #[test]
    fn a_group_takes_only_the_next_segment_of_the_same_kind() {
        let first = tcp(false, 0, ACK, &[1; 10]);
        let next = |flags, payload: &[u8]| tcp(false, 10, flags, payload);
        assert_eq!(groups(&[first.clone(), next(ACK, &[1; 10])]), [[0, 1]]);
        assert_eq!(groups(&[first.clone(), next(ACK, &[1; 4])]), [[0, 1]], "a shorter one is the last");
        let assert_separate =
            |second: Vec<u8>, reason: &str| assert_eq!(groups(&[first.clone(), second]), [[0], [1]], "{reason}");
        assert_separate(tcp(false, 11, ACK, &[1; 10]), "a gap");
        assert_separate(tcp(false, 0, ACK, &[1; 10]), "the same again");
        assert_separate(next(ACK, &[1; 11]), "a longer one");
        assert_separate(next(ACK, &[]), "an acknowledgement");
        assert_separate(next(ACK | 1, &[1; 10]), "the end");
        assert_separate(next(ACK | 0x20, &[1; 10]), "urgent data");
        let mut damaged = next(ACK, &[1; 10]);
        *damaged.last_mut().unwrap() ^= 1;
        assert_separate(damaged, "a wrong checksum");
        let change = |at: usize, to: u8| {
            let mut other = next(ACK, &[1; 10]);
            other[at] = to;
            // The TCP checksum does not cover these fields; the IP checksum is not verified here.
            other
        };
        assert_separate(change(1, 3), "another congestion mark");
        assert_separate(change(8, 63), "another number of hops");
        assert_separate(change(6, 0), "another flag");
    }

    #[test]
    fn a_push_ends_a_group_and_the_order_of_a_flow_stays() {
        let packets = [
            tcp(false, 0, ACK | PUSH, &[1; 10]),
            tcp(false, 10, ACK, &[1; 10]),
            tcp(false, 20, ACK, &[1; 10]),
            tcp(false, 5, ACK, &[1; 10]),
            tcp(false, 30, ACK, &[1; 10]),
        ];
        assert_eq!(groups(&packets), [vec![0], vec![1, 2], vec![3], vec![4]]);
    }
}

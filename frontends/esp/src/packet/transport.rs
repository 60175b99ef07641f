//! Transport mode (RFC 4303, 3.1.1): ESP carries the payload of a packet without its IP header.
//!
//! The sockets write the IP headers of ESP packets, with the addresses and the traffic class of the packet. So a packet with further fields
//! for routers, such as options of IPv4, cannot be carried.

use std::net::IpAddr;
use std::ops::Range;

use super::checksum;
use super::ip::{self, Header, ICMPV6, TCP, UDP};
use super::segment::replace_zero_checksum;

/// The hop limit of rebuilt packets: the default of Linux, because the received hop limit is not known.
const HOP_LIMIT: u8 = 64;

/// The headers of a packet that stay outside ESP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutsideHeaders {
    /// The length of the headers in bytes; 0 in tunnel mode.
    pub(crate) length: usize,
    /// The protocol after the headers.
    pub(crate) next_header: u8,
}

impl OutsideHeaders {
    /// Returns the headers that stay outside in transport mode: the IP header, and IPv6's fragment header. Returns `None` if the packet has
    /// further headers that routers read. The caller has [read](Header::read) the packet.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const OPTIONS: u8 = 60;
        if packet[0] >> 4 == 4 {
            return (packet[0] & 0xF == 5).then_some(Self { length: ip::V4_HEADER_BYTES, next_header: packet[9] });
        }
        let outside = Self { length: ip::V6_HEADER_BYTES, next_header: packet[6] };
        if outside.next_header == FRAGMENT {
            return Some(Self { length: ip::V6_HEADER_BYTES + 8, next_header: packet[ip::V6_HEADER_BYTES] });
        }
        // Options are for the destination, unless a routing header follows.
        let (mut next, mut at) = (outside.next_header, outside.length);
        while next == OPTIONS {
            let &[following, words] = packet.get(at..)?.first_chunk()?;
            (next, at) = (following, at + (usize::from(words) + 1) * 8);
        }
        (![HOP_BY_HOP, ROUTING, FRAGMENT].contains(&next)).then_some(outside)
    }
}

/// Rebuilds a received packet at the end of the buffer, behind an IP header with the traffic class `class`. Copies the payload of an ESP
/// packet, which lies in the buffer at `payload`. Returns the range of the packet with its header.
pub(crate) fn rebuild_packet(
    buffer: &mut Vec<u8>,
    payload: Range<usize>,
    next_header: u8,
    (source, destination): (IpAddr, IpAddr),
    class: u8,
) -> Range<usize> {
    const DONT_FRAGMENT: u8 = 0x40;
    let start = buffer.len();
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        // A packet that is no fragment needs no identification (RFC 6864, 4.1).
        buffer.extend([0x45, class, 0, 0, 0, 0, DONT_FRAGMENT, 0, HOP_LIMIT, next_header, 0, 0]);
        buffer.extend([source, destination].map(|address| address.octets()).as_flattened());
    } else {
        let octets = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        buffer.extend([0x60 | class >> 4, class << 4, 0, 0, 0, 0, next_header, HOP_LIMIT]);
        buffer.extend([source, destination].map(octets).as_flattened());
    }
    let length = buffer.len() - start;
    buffer.extend_from_within(payload);
    let total = buffer.len() - start;
    ip::write_length(&mut buffer[start..], length, total);
    start..buffer.len()
}

/// Recomputes the checksum of a packet, because a NAT may have changed the addresses that it covers (RFC 3948, 3.1.2). A correction of the
/// checksum would need the original addresses, which are not known. Linux makes its stack skip the check (`esp_input_done2`), but a TUN
/// device has no flag for this. A new checksum hides no error, because the integrity check value has protected the packet.
pub(crate) fn correct_checksum(packet: &mut [u8]) {
    // The checksum of a fragmented datagram covers all fragments, so it cannot be computed from one.
    let Some(Header { flow, ip_header_bytes, packet_bytes, fragment: None, .. }) = Header::read(packet) else { return };
    let checksum_offset = match flow.protocol {
        TCP => 16,
        UDP => 6,
        ICMPV6 => 2,
        _ => return,
    };
    // A datagram tells its own length; padding may follow (RFC 4303, 2.7).
    let bytes = match packet[ip_header_bytes..packet_bytes] {
        [_, _, _, _, high, low, ..] if flow.protocol == UDP => usize::from(u16::from_be_bytes([high, low])),
        _ => packet_bytes - ip_header_bytes,
    };
    let pseudo = checksum::pseudo_header_sum(ip::addresses(packet), flow.protocol, bytes);
    let Some(segment) =
        packet.get_mut(ip_header_bytes..ip_header_bytes + bytes).filter(|segment| segment.len() >= checksum_offset + 2)
    else {
        return;
    };
    // In UDP over IPv4, zero means that there is no checksum (RFC 768).
    if flow.protocol == UDP && segment[checksum_offset..checksum_offset + 2] == [0; 2] {
        return;
    }
    segment[checksum_offset..checksum_offset + 2].fill(0);
    let sum = replace_zero_checksum(checksum::complement(checksum::add(pseudo, segment)));
    segment[checksum_offset..checksum_offset + 2].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ip::tests::{v4, v6};
    use crate::packet::segment::has_valid_checksum;
    use crate::packet::segment::tests::tcp;

    /// Returns source and destination of a packet.
    fn addresses(packet: &[u8]) -> (IpAddr, IpAddr) {
        let flow = Header::read(packet).unwrap().flow;
        (flow.source, flow.destination)
    }

    /// Carries the payload of a packet, and rebuilds the packet with these addresses. Other bytes precede the packet in the buffer.
    fn carried(packet: &[u8], ends: (IpAddr, IpAddr), class: u8) -> Vec<u8> {
        let OutsideHeaders { length, next_header } = OutsideHeaders::of(packet).unwrap();
        let mut buffer = packet[length..].to_vec();
        let payload = 0..buffer.len();
        let range = rebuild_packet(&mut buffer, payload, next_header, ends, class);
        assert_eq!((range.start, range.end), (packet.len() - length, buffer.len()));
        buffer[range].to_vec()
    }

    #[test]
    fn a_packet_is_rebuilt_from_its_payload_and_its_addresses() {
        for is_v6 in [false, true] {
            let whole = tcp(is_v6, 7, 0x10, b"payload");
            let rebuilt = carried(&whole, addresses(&whole), 0xB9);
            let header = Header::read(&rebuilt).unwrap();
            assert_eq!((header.flow, header.class), (Header::read(&whole).unwrap().flow, 0xB9));
            assert!(
                header.packet_bytes == rebuilt.len()
                    && has_valid_checksum(&rebuilt, &header)
                    && header.fragment.is_none()
            );
            assert_eq!(rebuilt[header.ip_header_bytes..], whole[header.ip_header_bytes..]);
            if !is_v6 {
                assert_eq!(checksum::fold(checksum::add(0, &rebuilt[..ip::V4_HEADER_BYTES])), [0xFF; 2]);
            }
        }
    }

    #[test]
    fn options_for_the_destination_are_carried() {
        let options = [UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let whole = v6(&options, 60, b"data");
        assert_eq!(OutsideHeaders::of(&whole), Some(OutsideHeaders { length: ip::V6_HEADER_BYTES, next_header: 60 }));
        assert_eq!(carried(&whole, addresses(&whole), 0), whole);
    }

    #[test]
    fn headers_for_routers_cannot_be_carried() {
        let mut options = v4([10, 1, 0, 1], [10, 2, 0, 1], (1, 2), b"data");
        options.splice(20..20, [1, 1, 1, 0]);
        options[0] = 0x46;
        ip::write_length(&mut options, 24, 36);
        let header = |next| [next, 0, 0, 0, 0, 0, 0, 0];
        let before_routing = [header(43), header(UDP)].concat();
        for packet in [options, v6(&header(UDP), 0, b""), v6(&header(UDP), 43, b""), v6(&before_routing, 60, b"")] {
            assert!(Header::read(&packet).is_some());
            assert_eq!(OutsideHeaders::of(&packet), None, "{packet:02x?}");
        }
        // A fragment header is no obstacle, because the datagram is carried as a whole.
        let fragment = v6(&[UDP, 0, 0, 9, 0, 0, 0, 7], 44, b"");
        assert_eq!(OutsideHeaders::of(&fragment), Some(OutsideHeaders { length: 48, next_header: UDP }));
    }

    #[test]
    fn checksums_are_correct_behind_a_nat() {
        let public = ([192, 0, 2, 9].into(), [10, 2, 0, 1].into());
        let of_v6 = |last| [0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        let public_v6: (IpAddr, IpAddr) = (of_v6(9).into(), of_v6(1).into());
        let is_correct = |packet: &[u8]| has_valid_checksum(packet, &Header::read(packet).unwrap());
        let corrected = |whole: &[u8], ends, was_correct: bool| {
            let mut packet = carried(whole, ends, 0);
            assert_eq!(is_correct(&packet), was_correct);
            correct_checksum(&mut packet);
            packet
        };
        assert!(is_correct(&corrected(&tcp(false, 7, 0x10, b"odd"), public, false)));
        assert!(is_correct(&corrected(&tcp(true, 7, 0x10, b"odd"), public_v6, false)));
        for protocol in [UDP, ICMPV6] {
            let mut whole = v6(&[], protocol, b"data");
            // Zero would be no checksum.
            whole[46] = 1;
            correct_checksum(&mut whole);
            assert!(is_correct(&corrected(&whole, public_v6, false)), "{protocol}");
        }
        // A datagram without a checksum, a message of ICMP, and one that is too short stay as they are.
        let mut icmp = v4([10, 1, 0, 1], [10, 2, 0, 1], (0x0800, 0xF7FF), b"");
        icmp[9] = ip::ICMP;
        let mut short = tcp(false, 7, 0x10, b"");
        short.truncate(20 + 17);
        ip::write_length(&mut short, 20, 37);
        for whole in [v4([10, 1, 0, 1], [10, 2, 0, 1], (1, 2), b"data"), icmp, short] {
            assert_eq!(corrected(&whole, public, false)[20..], whole[20..]);
        }
    }

    #[test]
    fn padding_behind_a_datagram_is_not_part_of_its_checksum() {
        let mut whole = v6(&[], UDP, b"data");
        whole[46] = 1;
        correct_checksum(&mut whole);
        let (before, total) = (whole.clone(), whole.len() + 5);
        whole.extend([9; 5]);
        ip::write_length(&mut whole, ip::V6_HEADER_BYTES, total);
        correct_checksum(&mut whole);
        assert_eq!(whole[40..before.len()], before[40..]);
        // A length beyond the packet leaves everything as it is.
        whole[45] = 99;
        let wrong = whole.clone();
        correct_checksum(&mut whole);
        assert_eq!(whole, wrong);
    }
}

//! IP headers within the tunnel: parsed once for each packet, and modified where the tunnel requires it.

use std::net::IpAddr;

use super::checksum;

/// Bytes of a header of IPv4 without options.
pub(crate) const V4_HEADER_BYTES: usize = 20;
/// Bytes of the fixed header of IPv6.
pub(crate) const V6_HEADER_BYTES: usize = 40;
/// Protocol numbers (IANA).
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const DCCP: u8 = 33;
pub(crate) const GRE: u8 = 47;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;
pub(crate) const UDP_LITE: u8 = 136;

/// The fields of a packet that selectors match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The protocol after the IP headers (IANA's numbers).
    pub(crate) protocol: u8,
    /// The sender's port, the type of an ICMP message, or the upper half of a GRE key; 0 if the packet contains none of them.
    pub(crate) source_port: u16,
    /// The receiver's port, the code of an ICMP message, or the lower half of a GRE key.
    pub(crate) destination_port: u16,
}

/// The parsed headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flow: Flow,
    /// Bytes of the IP headers, before the header of `flow.protocol`.
    pub(crate) ip_header_bytes: usize,
    /// Bytes of the whole packet, with its headers.
    pub(crate) packet_bytes: usize,
    /// DSCP and ECN.
    pub(crate) class: u8,
    /// True if the packet must not be fragmented: it is IPv6, or has the DF flag of IPv4.
    pub(crate) dont_fragment: bool,
    pub(crate) fragment: Option<Fragment>,
}

/// The position of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The identification of the datagram, which is unique among datagrams between the same addresses.
    pub(crate) identification: u32,
    /// Bytes of the datagram's payload before the fragment.
    pub(crate) offset: usize,
    pub(crate) is_last: bool,
}

impl Fragment {
    /// Returns whether the fragment is not the first one, and so has no header of the transport protocol.
    pub(crate) fn is_later(&self) -> bool {
        self.offset > 0
    }
}

impl Header {
    /// Parses the headers of a packet. Bytes after the packet are allowed. Returns `None` if the packet is truncated, or not an IP
    /// packet.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::read_v4(packet),
            6 => Self::read_v6(packet),
            _ => None,
        }
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.flow.source.is_ipv6()
    }

    fn read_v4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; V4_HEADER_BYTES] = packet.first_chunk()?;
        let ip_header_bytes = usize::from(header[0] & 0xF) * 4;
        let packet_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if ip_header_bytes < V4_HEADER_BYTES || packet_bytes < ip_header_bytes || packet.len() < packet_bytes {
            return None;
        }
        // The flags DF (0x4000) and MF (0x2000), and the offset in units of eight bytes.
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let offset = fragment & 0x1FFF;
        let (source_port, destination_port) =
            if offset == 0 { ports(header[9], &packet[ip_header_bytes..packet_bytes]) } else { (0, 0) };
        Some(Self {
            flow: Flow {
                source: address(12),
                destination: address(16),
                protocol: header[9],
                source_port,
                destination_port,
            },
            ip_header_bytes,
            packet_bytes,
            class: header[1],
            dont_fragment: fragment & 0x4000 != 0,
            fragment: (fragment & 0x3FFF != 0).then(|| Fragment {
                identification: u16::from_be_bytes([header[4], header[5]]).into(),
                offset: usize::from(offset) * 8,
                is_last: fragment & 0x2000 == 0,
            }),
        })
    }

    fn read_v6(packet: &[u8]) -> Option<Self> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const AUTHENTICATION: u8 = 51;
        const OPTIONS: u8 = 60;
        let header: &[u8; V6_HEADER_BYTES] = packet.first_chunk()?;
        let packet_bytes = V6_HEADER_BYTES + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let packet = packet.get(..packet_bytes)?;
        let address = |at: usize| packet[at..at + 16].first_chunk::<16>().map(|bytes| IpAddr::from(*bytes));
        let (mut protocol, mut ip_header_bytes, mut fragment, mut offset) = (header[6], V6_HEADER_BYTES, None, 0);
        // A later fragment contains no further headers.
        while offset == 0 && matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | OPTIONS) {
            let &[next, words, high, low] = packet[ip_header_bytes..].first_chunk()?;
            ip_header_bytes += match protocol {
                FRAGMENT => {
                    offset = u16::from_be_bytes([high, low]) & 0xFFF8;
                    let identification = packet[ip_header_bytes..].get(4..8)?.first_chunk()?;
                    let (identification, is_last) = (u32::from_be_bytes(*identification), low & 1 == 0);
                    fragment = Some(Fragment { identification, offset: offset.into(), is_last });
                    8
                }
                AUTHENTICATION => (usize::from(words) + 2) * 4,
                _ => (usize::from(words) + 1) * 8,
            };
            if ip_header_bytes > packet_bytes {
                return None;
            }
            protocol = next;
        }
        let (source_port, destination_port) =
            if offset == 0 { ports(protocol, &packet[ip_header_bytes..]) } else { (0, 0) };
        Some(Self {
            flow: Flow { source: address(8)?, destination: address(24)?, protocol, source_port, destination_port },
            ip_header_bytes,
            packet_bytes,
            class: (header[0] & 0xF) << 4 | header[1] >> 4,
            dont_fragment: true,
            fragment,
        })
    }
}

/// Returns the ports, or the values that selectors compare instead (Linux' `xfrm_flowi_sport`): type and code of an ICMP message, or the
/// key of GRE.
fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    const CHECKSUM: u8 = 0x80;
    const KEY: u8 = 0x20;
    let halves = |[a, b, c, d]: [u8; 4]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    match (protocol, payload) {
        (TCP | UDP | UDP_LITE | SCTP | DCCP, [a, b, c, d, ..]) => halves([*a, *b, *c, *d]),
        (ICMP | ICMPV6, [kind, code, ..]) => ((*kind).into(), (*code).into()),
        // The upper and the lower half of the key (RFC 2890), which follows the checksum, if there is one.
        (GRE, [flags, _, _, _, rest @ ..]) if flags & KEY != 0 => match rest {
            [_, _, _, _, a, b, c, d, ..] if flags & CHECKSUM != 0 => halves([*a, *b, *c, *d]),
            [a, b, c, d, ..] if flags & CHECKSUM == 0 => halves([*a, *b, *c, *d]),
            _ => (0, 0),
        },
        _ => (0, 0),
    }
}

/// Returns the addresses of a packet, which its checksums cover.
pub(crate) fn addresses(packet: &[u8]) -> &[u8] {
    if packet[0] >> 4 == 4 { &packet[12..V4_HEADER_BYTES] } else { &packet[8..V6_HEADER_BYTES] }
}

/// Writes the length `packet_bytes` into the header of a packet, whose other fields are complete. In IPv4 it then writes the checksum of
/// the header, which has `header_bytes` bytes.
pub(crate) fn write_length(packet: &mut [u8], header_bytes: usize, packet_bytes: usize) {
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&(packet_bytes as u16).to_be_bytes());
        write_checksum(packet, header_bytes);
    } else {
        packet[4..6].copy_from_slice(&((packet_bytes - V6_HEADER_BYTES) as u16).to_be_bytes());
    }
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn write_checksum(packet: &mut [u8], header_bytes: usize) {
    packet[10..12].fill(0);
    let sum = checksum::complement(checksum::add(0, &packet[..header_bytes]));
    packet[10..12].copy_from_slice(&sum);
}

/// Writes the traffic class, and in IPv4 the checksum of the header.
pub(crate) fn write_class(packet: &mut [u8], class: u8) {
    if packet[0] >> 4 == 4 {
        packet[1] = class;
        let header_bytes = usize::from(packet[0] & 0xF) * 4;
        write_checksum(packet, header_bytes);
    } else {
        packet[0] = packet[0] & 0xF0 | class >> 4;
        packet[1] = packet[1] & 0xF | class << 4;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a UDP packet over IPv4.
    pub(crate) fn v4(source: [u8; 4], destination: [u8; 4], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, UDP, 0, 0];
        packet.extend([source, destination].concat());
        packet.extend([ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat());
        packet.extend((8 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        let total = packet.len();
        write_length(&mut packet, V4_HEADER_BYTES, total);
        packet
    }

    /// Builds a UDP packet over IPv6, with extension headers. `first` is the number of the first header after the fixed one.
    pub(crate) fn v6(extensions: &[u8], first: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, first, 64];
        packet.extend([0x20; 16]);
        packet.extend([0x30; 16]);
        packet.extend(extensions);
        packet.extend([0, 53, 0x30, 0x39, 0, 8 + payload.len() as u8, 0, 0]);
        packet.extend(payload);
        let total = packet.len();
        write_length(&mut packet, V6_HEADER_BYTES, total);
        packet
    }

    #[test]
    fn a_flow_has_addresses_and_ports() {
        let mut packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (1000, 53), b"data");
        packet.extend([0; 9]);
        let header = Header::read(&packet).unwrap();
        let flow = header.flow;
        assert_eq!((flow.source.to_string(), flow.destination.to_string()), ("10.1.0.1".into(), "10.2.0.1".into()));
        assert_eq!((flow.protocol, flow.source_port, flow.destination_port), (UDP, 1000, 53));
        assert_eq!((header.ip_header_bytes, header.packet_bytes, header.dont_fragment), (20, 32, false));
    }

    #[test]
    fn ports_are_found_behind_extension_headers() {
        let hop = [60, 0, 0, 0, 0, 0, 0, 0];
        let options = [UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let header = Header::read(&v6(&[&hop[..], &options].concat(), 0, b"x")).unwrap();
        assert_eq!((header.flow.protocol, header.flow.source_port, header.ip_header_bytes), (UDP, 53, 64));
        assert!(header.dont_fragment && header.fragment.is_none());
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let first = [UDP, 0, 0, 1, 0, 0, 0, 7];
        let second = [UDP, 0, 0, 9, 0, 0, 0, 7];
        let read = |fragment| Header::read(&v6(fragment, 44, b"payload")).unwrap();
        let fragment = |offset| Some(Fragment { identification: 7, offset, is_last: false });
        assert_eq!((read(&first).fragment, read(&second).fragment), (fragment(0), fragment(8)));
        assert_eq!((read(&first).flow.source_port, read(&second).flow.source_port), (53, 0));
        let mut packet = v4([1; 4], [2; 4], (7, 8), b"data");
        packet[6..8].copy_from_slice(&[0x20, 3]);
        let header = Header::read(&packet).unwrap();
        assert_eq!((header.fragment.unwrap().is_later(), header.flow.source_port), (true, 0));
    }

    #[test]
    fn messages_of_icmp_have_a_type_and_a_code() {
        let mut packet = v4([1; 4], [2; 4], (0x0301, 0), b"");
        packet[9] = ICMP;
        let flow = Header::read(&packet).unwrap().flow;
        assert_eq!((flow.source_port, flow.destination_port), (3, 1));
    }

    #[test]
    fn packets_of_gre_have_a_key() {
        let ports_of = |payload: &[u8]| ports(47, payload);
        assert_eq!(ports_of(&[0x20, 0, 8, 0, 0, 1, 0, 5]), (1, 5));
        assert_eq!(ports_of(&[0xA0, 0, 8, 0, 9, 9, 0, 0, 0, 1, 0, 5]), (1, 5));
        assert_eq!(ports_of(&[0x80, 0, 8, 0, 9, 9, 0, 0, 0, 1, 0, 5]), (0, 0));
        assert_eq!((ports_of(&[0xA0, 0, 8, 0, 9, 9, 0, 0]), ports_of(&[0x20, 0, 8])), ((0, 0), (0, 0)));
    }

    #[test]
    fn truncated_packets_are_refused() {
        for whole in [v4([1; 4], [2; 4], (7, 8), b"data"), v6(&[UDP, 0, 0, 0, 0, 0, 0, 0], 60, b"data")] {
            assert!(Header::read(&whole).is_some());
            for length in 0..whole.len() {
                assert_eq!(Header::read(&whole[..length]), None, "{length} bytes");
            }
        }
        assert_eq!(Header::read(&[0x55; 60]), None);
        assert_eq!(Header::read(&v6(&[UDP, 200, 0, 0, 0, 0, 0, 0], 60, b"")), None, "options beyond the packet");
    }

    #[test]
    fn a_new_traffic_class_keeps_the_checksum_correct() {
        let mut packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (1, 2), b"data");
        write_class(&mut packet, 0xB9);
        assert_eq!(Header::read(&packet).unwrap().class, 0xB9);
        assert_eq!(checksum::fold(checksum::add(0, &packet[..20])), [0xFF; 2]);
        let mut packet = v6(&[], UDP, b"data");
        write_class(&mut packet, 0xB9);
        let header = Header::read(&packet).unwrap();
        assert_eq!((header.class, header.packet_bytes), (0xB9, packet.len()));
    }
}

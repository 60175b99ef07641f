//! IP headers: before an IPsec protocol in transport mode, and inside it in tunnel mode.

use crate::packet::{Packet, PacketError};

/// The data that ESP or IPComp carries, and the headers that stay outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// An IP packet is the payload. The caller adds and removes the outer headers (IP, UDP).
    #[default]
    Tunnel,
    /// An IP packet keeps its IP headers, and the protocol carries its payload.
    Transport,
    /// Any payload. The caller sets its [next header](crate::Packet::next_header) before sealing, and reads it after opening.
    Payload,
}

impl Mode {
    /// Reads a packet to send. Returns the headers that stay before the protocol, and the next header of the payload.
    pub(crate) fn outgoing_headers(self, packet: &Packet<'_>) -> Result<(Option<Headers>, u8), PacketError> {
        let data = packet.data();
        Ok(match self {
            Mode::Payload => (None, packet.next_header),
            Mode::Tunnel => (None, next_header_for_version(data)?),
            Mode::Transport => {
                let headers = Headers::read(data)?;
                (Some(headers), headers.next_header)
            }
        })
    }

    /// Returns the headers before the protocol in a received packet. Refuses the packet with the reason `error` if the headers announce
    /// another protocol.
    pub(crate) fn incoming_headers(
        self,
        packet: &[u8],
        protocol: u8,
        error: &'static str,
    ) -> Result<Option<Headers>, PacketError> {
        let headers = if self == Mode::Transport { Some(Headers::read(packet)?) } else { None };
        let is_other = headers.is_some_and(|headers| headers.next_header != protocol);
        if is_other { Err(PacketError::Malformed(error)) } else { Ok(headers) }
    }
}

/// The headers that stay before the protocol in transport mode: before ESP (RFC 4303, 3.1.1) or IPComp (RFC 3173, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Length of these headers in bytes.
    pub(crate) length: usize,
    /// The protocol after the headers.
    pub(crate) next_header: u8,
    /// Offset of the field that holds `next_header`.
    next_header_offset: usize,
    is_v6: bool,
}

/// The protocol numbers of IP within another protocol (IANA).
const IPV4: u8 = 4;
const IPV6: u8 = 41;

const V4_HEADER_LEN: usize = 20;
const V6_HEADER_LEN: usize = 40;

const TRUNCATED: PacketError = PacketError::Malformed("truncated IP headers");
const FRAGMENT: PacketError = PacketError::Malformed("a fragment of an IP packet");

impl Headers {
    /// Reads the headers of a whole packet.
    pub(crate) fn read(packet: &[u8]) -> Result<Self, PacketError> {
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => Self::read_v4(packet),
            Some(6) => Self::read_v6(packet),
            _ => Err(PacketError::Malformed("not an IP packet")),
        }
    }

    fn read_v4(packet: &[u8]) -> Result<Self, PacketError> {
        let header: &[u8; V4_HEADER_LEN] = packet.first_chunk().ok_or(TRUNCATED)?;
        let length = usize::from(header[0] & 0xF) * 4;
        if length < V4_HEADER_LEN || length > packet.len() {
            return Err(TRUNCATED);
        }
        if usize::from(u16::from_be_bytes([header[2], header[3]])) != packet.len() {
            return Err(PacketError::Malformed("the length in the IP header differs from the packet's"));
        }
        // More fragments, or an offset. Transport mode needs whole packets (RFC 4303, 3.3.4; RFC 3173, 2).
        if u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0 {
            return Err(FRAGMENT);
        }
        Ok(Self { length, next_header: header[9], next_header_offset: 9, is_v6: false })
    }

    /// Reads the headers of IPv6. The protocol follows the extension headers that routers on the path read.
    fn read_v6(packet: &[u8]) -> Result<Self, PacketError> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT_HEADER: u8 = 44;
        const DESTINATION_OPTIONS: u8 = 60;
        let header: &[u8; V6_HEADER_LEN] = packet.first_chunk().ok_or(TRUNCATED)?;
        if usize::from(u16::from_be_bytes([header[4], header[5]])) != packet.len() - V6_HEADER_LEN {
            return Err(PacketError::Malformed("the length in the IP header differs from the packet's"));
        }
        let mut headers = Self { length: V6_HEADER_LEN, next_header: header[6], next_header_offset: 6, is_v6: true };
        let mut scanned = headers;
        // Destination options stay before the protocol only if a routing header follows.
        while matches!(scanned.next_header, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            let &[next_header, words] = packet[scanned.length..].first_chunk().ok_or(TRUNCATED)?;
            let current = scanned.next_header;
            scanned = Self {
                length: scanned.length + (usize::from(words) + 1) * 8,
                next_header,
                next_header_offset: scanned.length,
                ..scanned
            };
            if scanned.length > packet.len() {
                return Err(TRUNCATED);
            }
            if current != DESTINATION_OPTIONS {
                headers = scanned;
            }
        }
        if scanned.next_header == FRAGMENT_HEADER { Err(FRAGMENT) } else { Ok(headers) }
    }

    /// Returns the greatest length, in bytes, of a packet with these headers.
    pub(crate) fn max_length(self) -> usize {
        usize::from(u16::MAX) + if self.is_v6 { V6_HEADER_LEN } else { 0 }
    }

    /// Fails if a packet of `bytes` bytes is too long for these headers.
    pub(crate) fn check_fits(self, bytes: usize) -> Result<(), PacketError> {
        if bytes <= self.max_length() { Ok(()) } else { Err(PacketError::Malformed("longer than an IP packet can be")) }
    }

    /// Writes the packet's length, which must [fit](Self::check_fits), and the protocol number. `packet` begins with the headers.
    pub(crate) fn write(self, packet: &mut [u8], next_header: u8) {
        let length = (if self.is_v6 { packet.len() - V6_HEADER_LEN } else { packet.len() }) as u16;
        packet[self.next_header_offset] = next_header;
        if self.is_v6 {
            packet[4..6].copy_from_slice(&length.to_be_bytes());
        } else {
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum(&packet[..self.length]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Returns the checksum of an IPv4 header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
    // Four folds reduce the sum of up to 15 words of 32 bits to 16 bits, with all carries.
    let fold = |sum: u64| (sum & 0xFFFF) + (sum >> 16);
    !fold(fold(fold(fold(sum)))) as u16
}

/// Returns the next header that announces an IP packet in a tunnel: the protocol number of the packet's IP version.
fn next_header_for_version(packet: &[u8]) -> Result<u8, PacketError> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= V4_HEADER_LEN => Ok(IPV4),
        Some(6) if packet.len() >= V6_HEADER_LEN => Ok(IPV6),
        _ => Err(PacketError::Malformed("not an IP packet")),
    }
}

/// Returns the length of an IP packet from a tunnel, from its own header. `packet` may end in padding, which hides the length from
/// observers (RFC 4303, 2.7).
pub(crate) fn tunneled_packet_len(packet: &[u8], next_header: u8) -> Result<usize, PacketError> {
    if next_header_for_version(packet)? != next_header {
        return Err(PacketError::Malformed("the IP version differs from the next header"));
    }
    let field = |offset| usize::from(u16::from_be_bytes([packet[offset], packet[offset + 1]]));
    let (length, min_length) =
        if next_header == IPV4 { (field(2), V4_HEADER_LEN) } else { (V6_HEADER_LEN + field(4), V6_HEADER_LEN) };
    if (min_length..=packet.len()).contains(&length) { Ok(length) } else { Err(TRUNCATED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = (20 + options.len() + payload.len()) as u16;
        let mut packet = vec![0x45 + (options.len() / 4) as u8, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(options);
        packet.extend(payload);
        packet
    }

    fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        packet.extend([7; 32]);
        packet.extend(rest);
        packet
    }

    #[test]
    fn the_checksum_matches_rfc_1071() {
        // The example of section 3.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn headers_of_ipv4_are_read_with_options_and_written_with_their_checksum() {
        let mut packet = v4(&[1, 1, 1, 0], b"payload!");
        let headers = Headers::read(&packet).unwrap();
        assert_eq!((headers.length, headers.next_header), (24, 17));
        packet.extend([0; 10]);
        headers.write(&mut packet, 50);
        assert_eq!((packet[9], packet[2..4].to_vec()), (50, vec![0, 42]));
        assert_eq!(checksum(&packet[..24]), 0, "the sum over a header with its checksum is zero");
        assert!(headers.check_fits(65535).is_ok() && headers.check_fits(65536).is_err());
    }

    #[test]
    fn esp_follows_the_extension_headers_that_routers_read() {
        let options = [17, 0, 0, 0, 0, 0, 0, 0];
        let routing = [60, 0, 0, 0, 0, 0, 0, 0];
        let hop = [43, 0, 0, 0, 0, 0, 0, 0];
        let read = |packet: &[u8]| {
            Headers::read(packet).map(|headers| (headers.length, headers.next_header, headers.next_header_offset))
        };
        assert_eq!(read(&v6(17, b"udp")), Ok((40, 17, 6)));
        assert_eq!(read(&v6(60, &options)), Ok((40, 60, 6)), "options for the destination");
        assert_eq!(read(&v6(0, &[hop, routing, options].concat())), Ok((56, 60, 48)));
        // Options before a routing header are for each of its hops.
        let extension = [43, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(read(&v6(60, &[extension, [17, 0, 0, 0, 0, 0, 0, 0]].concat())), Ok((56, 17, 48)));
        assert_eq!(read(&v6(44, &[17, 0, 0, 0, 0, 0, 0, 0])), Err(FRAGMENT));
        assert_eq!(read(&v6(43, &[17, 1, 0, 0, 0, 0, 0, 0])), Err(TRUNCATED));
        assert_eq!(read(&v6(43, &[17])), Err(TRUNCATED));
    }

    #[test]
    fn refuses_truncated_and_fragmented_packets() {
        let good = v4(&[], b"data");
        for wrong in [&[][..], &good[..19], &[&good[..], &[0]].concat(), &[0x15; 40], &[&[0x4F], &good[1..]].concat()] {
            assert!(Headers::read(wrong).is_err(), "{wrong:?}");
        }
        for flags in [[0x20, 0], [0, 1], [0x1F, 0xFF]] {
            let mut fragment = good.clone();
            fragment[6..8].copy_from_slice(&flags);
            assert_eq!(Headers::read(&fragment), Err(FRAGMENT));
        }
    }

    #[test]
    fn cuts_off_traffic_flow_padding_in_a_tunnel() {
        let inner = v4(&[], b"data");
        assert_eq!(tunneled_packet_len(&[&inner[..], &[0; 30]].concat(), IPV4), Ok(24));
        assert_eq!(tunneled_packet_len(&v6(17, b"abc"), IPV6), Ok(43));
        assert!(tunneled_packet_len(&inner, IPV6).is_err() && tunneled_packet_len(&inner[..23], IPV4).is_err());
        assert!(
            tunneled_packet_len(&[&inner[..2], &[0, 19], &inner[4..]].concat(), IPV4).is_err(),
            "shorter than its own header"
        );
        assert!(tunneled_packet_len(&[], IPV4).is_err());
    }
}

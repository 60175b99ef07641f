//! ICMP notices to senders within the tunnel (RFC 792, RFC 1191, RFC 4443, RFC 8201).

use super::checksum;
use super::ip::{self, Header, ICMP, ICMPV6};

/// The reason why a packet did not enter the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeReason {
    /// The packet exceeds the given number of bytes, and must not be fragmented.
    TooLong(usize),
    /// No policy lets the packet pass.
    Prohibited,
}

/// The minimum link MTU of IPv6 in bytes, which is also the maximum length of a notice with the quoted packet (RFC 4443, 2.4).
pub(crate) const V6_MIN_MTU: usize = 1280;
/// Maximum length of a notice in IPv4 with the quoted packet, in bytes (RFC 1812, 4.3.2.3).
const V4_MAX_NOTICE: usize = 576;

/// Builds the notice to the sender of a packet. Returns `None` for packets that must not cause a notice: ICMP errors, later fragments,
/// packets from the unspecified address, and packets to or from multicast groups (RFC 1122, 3.2.2; RFC 4443, 2.4).
pub(crate) fn build_notice(packet: &[u8], header: &Header, reason: NoticeReason) -> Option<Vec<u8>> {
    let flow = &header.flow;
    // The source port is the type of an ICMP message. Echo, timestamp, information and address mask are no errors.
    let is_error = match flow.protocol {
        ICMP => !matches!(flow.source_port, 0 | 8 | 13..=18),
        ICMPV6 => flow.source_port < 128,
        _ => false,
    };
    let is_later = header.fragment.is_some_and(|fragment| fragment.is_later());
    if is_error
        || is_later
        || flow.source.is_unspecified()
        || flow.source.is_multicast()
        || flow.destination.is_multicast()
    {
        return None;
    }
    // Type, code and MTU. IPv6 senders assume no MTU below the minimum link MTU (RFC 8201, 4).
    let (kind, code, value) = match (reason, header.is_v6()) {
        (NoticeReason::TooLong(most), false) => (3, 4, most.min(usize::from(u16::MAX)) as u32),
        (NoticeReason::TooLong(most), true) => (2, 0, most.max(V6_MIN_MTU) as u32),
        (NoticeReason::Prohibited, false) => (3, 13, 0),
        (NoticeReason::Prohibited, true) => (1, 1, 0),
    };
    let (outer, protocol, most) = if header.is_v6() {
        (ip::V6_HEADER_BYTES, ICMPV6, V6_MIN_MTU)
    } else {
        (ip::V4_HEADER_BYTES, ICMP, V4_MAX_NOTICE)
    };
    let quoted = &packet[..header.packet_bytes.min(most - outer - 8)];
    let mut out = if header.is_v6() {
        [&[0x60, 0, 0, 0, 0, 0, protocol, 64], &packet[24..40], &packet[8..24]].concat()
    } else {
        [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0], &packet[16..20], &packet[12..16]].concat()
    };
    out.extend([kind, code, 0, 0]);
    out.extend(value.to_be_bytes());
    out.extend_from_slice(quoted);
    let total = out.len();
    ip::write_length(&mut out, outer, total);
    let pseudo =
        if header.is_v6() { checksum::pseudo_header_sum(ip::addresses(&out), protocol, total - outer) } else { 0 };
    let sum = checksum::complement(checksum::add(pseudo, &out[outer..]));
    out[outer + 2..outer + 4].copy_from_slice(&sum);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::ip::UDP;
    use crate::packet::ip::tests::{v4, v6};

    fn notice_for(packet: &[u8], reason: NoticeReason) -> Option<Vec<u8>> {
        build_notice(packet, &Header::read(packet).unwrap(), reason)
    }

    #[test]
    fn a_notice_contains_the_mtu_of_the_tunnel() {
        let packet = v4([10, 1, 0, 1], [10, 2, 0, 1], (7, 8), &[9; 1400]);
        let notice = notice_for(&packet, NoticeReason::TooLong(1360)).unwrap();
        let header = Header::read(&notice).unwrap();
        assert_eq!((header.packet_bytes, header.flow.protocol), (V4_MAX_NOTICE, ICMP));
        assert_eq!(
            (header.flow.source.to_string(), header.flow.destination.to_string()),
            ("10.2.0.1".into(), "10.1.0.1".into())
        );
        assert_eq!(
            (&notice[20..22], &notice[24..28], &notice[28..]),
            (&[3, 4][..], &[0, 0, 5, 80][..], &packet[..576 - 28])
        );
        assert_eq!(checksum::fold(checksum::add(0, &notice[20..])), [0xFF; 2]);
        assert_eq!(checksum::fold(checksum::add(0, &notice[..20])), [0xFF; 2]);
    }

    #[test]
    fn a_notice_in_ipv6_contains_at_least_1280_bytes() {
        let packet = v6(&[], UDP, &[7; 200]);
        let notice = notice_for(&packet, NoticeReason::TooLong(1000)).unwrap();
        let header = Header::read(&notice).unwrap();
        assert_eq!((header.packet_bytes, header.flow.protocol, &notice[40..42]), (notice.len(), ICMPV6, &[2, 0][..]));
        assert_eq!(notice[44..48], 1280_u32.to_be_bytes(), "the minimum link MTU");
        let pseudo = checksum::pseudo_header_sum(&notice[8..40], ICMPV6, notice.len() - 40);
        assert_eq!(checksum::fold(checksum::add(pseudo, &notice[40..])), [0xFF; 2]);
    }

    #[test]
    fn errors_and_multicast_packets_cause_no_notice() {
        assert!(notice_for(&v4([1; 4], [2; 4], (7, 8), b""), NoticeReason::Prohibited).is_some());
        let mut error = v4([1; 4], [2; 4], (0x0301, 0), b"");
        error[9] = ICMP;
        assert_eq!(notice_for(&error, NoticeReason::Prohibited), None);
        error[20] = 8;
        assert!(notice_for(&error, NoticeReason::Prohibited).is_some(), "an echo request is no error");
        assert_eq!(notice_for(&v4([1; 4], [224, 0, 0, 1], (7, 8), b""), NoticeReason::Prohibited), None);
        assert_eq!(notice_for(&v4([0; 4], [2; 4], (7, 8), b""), NoticeReason::Prohibited), None);
        let later = v6(&[UDP, 0, 0, 9, 0, 0, 0, 7], 44, b"");
        assert_eq!(notice_for(&later, NoticeReason::Prohibited), None);
    }
}

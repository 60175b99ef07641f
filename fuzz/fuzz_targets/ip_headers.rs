//! IP packets with any content, as `gantry esp` gets them from stack and tunnel. Header fields lie within the packet, coalesced segments
//! split into the same segments, fragments reassemble to the packet, and ICMP notices are IP packets.

#![no_main]

#[allow(dead_code, reason = "the data path uses all of it")]
#[path = "../../frontends/esp/src/counters.rs"]
mod counters;
#[allow(dead_code, reason = "the data path uses all of it")]
#[path = "../../frontends/esp/src/packet/mod.rs"]
mod packet;

use libfuzzer_sys::fuzz_target;
use packet::coalesce::{coalesce, has_push_flag};
use packet::fragment::Fragments;
use packet::icmp::{NoticeReason, build_notice};
use packet::ip::{self, Header, ICMP, ICMPV6, TCP};
use packet::offload::{HEADER_BYTES, Offload};
use packet::segment::Segments;

fuzz_target!(|input: &[u8]| {
    let Some((&[class, high, low], input)) = input.split_first_chunk() else { return };
    let Some((offload, packet)) = input.split_first_chunk::<HEADER_BYTES>() else { return };
    let most = usize::from(u16::from_be_bytes([high, low]));
    let Some(header) = Header::read(packet) else { return };
    let packet = &packet[..header.packet_bytes];
    check_header(packet, &header, class);
    for reason in [NoticeReason::TooLong(most), NoticeReason::Prohibited] {
        check_notice(packet, &header, reason);
    }
    if !header.is_v6() && !header.dont_fragment {
        fragments(packet, &header, most);
    }
    if let Some(offload) = Offload::read(offload) {
        segments(packet, &offload);
    }
});

fn check_header(packet: &[u8], header: &Header, class: u8) {
    assert!((ip::V4_HEADER_BYTES..=header.packet_bytes).contains(&header.ip_header_bytes));
    assert_eq!(Header::read(packet), Some(*header), "bytes after a packet are ignored");
    assert_eq!(Header::read(&packet[..header.packet_bytes - 1]), None, "a packet that is cut off has no header");
    let mut other = packet.to_vec();
    ip::write_class(&mut other, class);
    assert_eq!(Header::read(&other), Some(Header { class, ..*header }));
}

fn check_notice(packet: &[u8], header: &Header, reason: NoticeReason) {
    let Some(message) = build_notice(packet, header, reason) else { return };
    let reply = Header::read(&message).expect("a packet");
    assert_eq!((reply.packet_bytes, reply.is_v6()), (message.len(), header.is_v6()));
    assert_eq!((reply.flow.source, reply.flow.destination), (header.flow.destination, header.flow.source));
    assert!(message.len() <= if header.is_v6() { 1280 } else { 576 });
    let layer = &message[reply.ip_header_bytes..];
    if header.is_v6() {
        let pseudo = [&message[8..40], &(layer.len() as u32).to_be_bytes(), &[0, 0, 0, ICMPV6]].concat();
        assert_eq!(sum(&[&pseudo, layer]), 0xFFFF);
    } else {
        assert_eq!(
            (sum(&[&message[..ip::V4_HEADER_BYTES]]), sum(&[layer]), reply.flow.protocol),
            (0xFFFF, 0xFFFF, ICMP)
        );
    }
    assert_eq!(build_notice(&message, &reply, NoticeReason::Prohibited), None, "errors are not answered with errors");
}

fn fragments(packet: &[u8], header: &Header, most: usize) {
    /// The flag for more fragments, and the mask of the offset in units of eight bytes.
    const MORE: u16 = 0x2000;
    const OFFSET: u16 = 0x1FFF;
    let field = |packet: &[u8]| u16::from_be_bytes([packet[6], packet[7]]);
    let Some(fragments) = Fragments::new(packet, header.ip_header_bytes, most) else { return };
    let first = usize::from(field(packet) & OFFSET) * 8;
    let mut payload = Vec::new();
    for at in 0..fragments.count() {
        let mut part = vec![0; fragments.bytes(at)];
        fragments.write(at, &mut part);
        let reply = Header::read(&part).expect("a packet");
        assert!(part.len() <= most && reply.packet_bytes == part.len());
        assert_eq!(sum(&[&part[..reply.ip_header_bytes]]), 0xFFFF);
        assert_eq!((reply.flow.source, reply.flow.destination), (header.flow.source, header.flow.destination));
        assert_eq!((&part[4..6], &part[8..10]), (&packet[4..6], &packet[8..10]));
        assert_eq!(usize::from(field(&part) & OFFSET) * 8, first + payload.len());
        let more = at + 1 < fragments.count() || field(packet) & MORE != 0;
        assert_eq!(field(&part) & MORE != 0, more);
        payload.extend_from_slice(&part[reply.ip_header_bytes..]);
    }
    assert!(
        fragments.count() == 0 && header.ip_header_bytes == header.packet_bytes
            || payload == packet[header.ip_header_bytes..]
    );
}

fn segments(packet: &[u8], offload: &Offload) {
    let mut complete = packet.to_vec();
    let Some(segments) = Segments::new(&mut complete, offload) else { return };
    let parts = parts(&segments);
    // The stack's checksums follow the ports; a checksum at another place would change the header or the ports.
    if offload.checksum.is_some_and(|(start, offset)| start + offset < segments.header().ip_header_bytes + 4) {
        return;
    }
    assert!(parts.iter().map(Vec::len).sum::<usize>() >= packet.len());
    let headers: Vec<Header> = parts.iter().map(|part| Header::read(part).expect("a packet")).collect();
    for (part, header) in parts.iter().zip(&headers) {
        assert_eq!((header.packet_bytes, header.flow), (part.len(), segments.header().flow));
    }
    // The packet itself is put in between. It joins a group or forms one alone.
    let own = Header::read(packet);
    let mut burst: Vec<(Vec<u8>, Header)> = parts.into_iter().zip(headers).collect();
    burst.insert(burst.len() / 2, (packet.to_vec(), own.expect("it was read before")));
    let groups = coalesce(burst.iter().map(|(part, header)| Some((&part[..], *header))));
    let mut members: Vec<usize> = groups.iter().flat_map(|group| group.members.clone()).collect();
    members.sort_unstable();
    assert!(members.iter().copied().eq(0..burst.len()), "each packet is in one group");
    for group in groups {
        let pushed = group.members.last().is_some_and(|last| has_push_flag(&burst[*last].0, &burst[*last].1));
        let mut joined = burst[group.members[0]].0.clone();
        let offload = group.finish(&mut joined, pushed);
        for at in &group.members[1..] {
            joined.extend_from_slice(&burst[*at].0[group.header_bytes()..]);
        }
        let segments = Segments::new(&mut joined, &offload).expect("a packet");
        let again = self::parts(&segments);
        assert_eq!(again.len(), group.members.len());
        for (again, at) in again.iter().zip(&group.members) {
            let (part, header) = &burst[*at];
            if group.members.len() == 1 {
                assert_eq!(again, part);
            } else {
                assert_eq!(plain(again), plain(part));
                assert!(packet::segment::has_valid_checksum(again, header));
            }
        }
    }
}

fn parts(segments: &Segments<'_>) -> Vec<Vec<u8>> {
    let write = |at| {
        let mut part = vec![0; segments.bytes(at)];
        segments.write(at, &mut part);
        part
    };
    (0..segments.count()).map(write).collect()
}

/// Returns a segment without the fields that coalescing may change. In IPv4, these are the identification and the header's checksum.
/// The TCP checksum changes only if it is zero, which has two encodings; the caller verifies it.
fn plain(part: &[u8]) -> Vec<u8> {
    let (mut plain, header) = (part.to_vec(), Header::read(part).expect("a packet"));
    assert_eq!(header.flow.protocol, TCP);
    if !header.is_v6() {
        plain[4..6].fill(0);
        plain[10..12].fill(0);
    }
    plain[header.ip_header_bytes + 16..header.ip_header_bytes + 18].fill(0);
    plain
}

/// Returns the sum of 16-bit words of RFC 1071. All pieces except the last have an even length.
fn sum(pieces: &[&[u8]]) -> u16 {
    let words = pieces.iter().flat_map(|piece| piece.chunks(2));
    let sum = words.fold(0_u64, |sum, word| sum + (u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))));
    let fold = |sum: u64| (sum >> 16) + (sum & 0xFFFF);
    fold(fold(fold(sum))) as u16
}

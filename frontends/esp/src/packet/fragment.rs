//! Fragmentation of IPv4 packets that exceed the path MTU (RFC 791, 3.2).

use std::ops::Range;

use super::ip;

/// The options "end of list" and "no operation", which have one byte.
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
/// Flag of an option that is copied into every fragment.
const OPTION_COPIED: u8 = 0x80;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1FFF;

/// The split of a packet into fragments of a limited length. The packet may itself be a fragment.
#[derive(Debug)]
pub(crate) struct Fragments<'p> {
    packet: &'p [u8],
    /// Bytes of the packet's header.
    header_bytes: usize,
    /// The header of the fragments after the first.
    later_header: Vec<u8>,
    /// The payload of each fragment, as a range of the packet.
    pieces: Vec<Range<usize>>,
}

impl<'p> Fragments<'p> {
    /// Splits a whole IPv4 packet with a header of `header_bytes` bytes into fragments of at most `max_bytes` bytes. Returns `None` if
    /// `max_bytes` is too small for any payload, or if the packet is a fragment that ends beyond the longest packet.
    pub(crate) fn new(packet: &'p [u8], header_bytes: usize, max_bytes: usize) -> Option<Self> {
        let begin = usize::from(u16::from_be_bytes([packet[6], packet[7]]) & OFFSET_MASK) * 8;
        if begin + packet.len() > usize::from(u16::MAX) {
            return None;
        }
        let later_header = later_header(&packet[..header_bytes]);
        // The payload of every fragment but the last is a multiple of eight bytes.
        let size = max_bytes.checked_sub(header_bytes).filter(|size| *size >= 8)? & !7;
        let pieces =
            (header_bytes..packet.len()).step_by(size).map(|from| from..packet.len().min(from + size)).collect();
        Some(Self { packet, header_bytes, later_header, pieces })
    }

    pub(crate) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the length of a fragment with its header, in bytes.
    pub(crate) fn bytes(&self, at: usize) -> usize {
        (if at == 0 { self.header_bytes } else { self.later_header.len() }) + self.pieces[at].len()
    }

    /// Writes a fragment to `out`, which has exactly the fragment's length.
    pub(crate) fn write(&self, at: usize, out: &mut [u8]) {
        let header = if at == 0 { &self.packet[..self.header_bytes] } else { &self.later_header };
        let piece = &self.pieces[at];
        let (head, payload) = out.split_at_mut(header.len());
        head.copy_from_slice(header);
        payload.copy_from_slice(&self.packet[piece.clone()]);
        let own = u16::from_be_bytes([header[6], header[7]]);
        let more = if at + 1 < self.pieces.len() { MORE_FRAGMENTS } else { own & MORE_FRAGMENTS };
        let offset = (own & OFFSET_MASK) + ((piece.start - self.header_bytes) / 8) as u16;
        head[6..8].copy_from_slice(&(own & !(MORE_FRAGMENTS | OFFSET_MASK) | more | offset).to_be_bytes());
        let total = head.len() + payload.len();
        ip::write_length(head, header.len(), total);
    }
}

/// Builds the header of later fragments, with the options that are copied into every fragment.
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut later = header[..ip::V4_HEADER_BYTES].to_vec();
    let mut options = &header[ip::V4_HEADER_BYTES..];
    while let [kind, ref rest @ ..] = *options {
        let length = match (kind, rest) {
            (OPTION_END, _) => break,
            (OPTION_NOP, _) => 1,
            (_, [length, ..]) => usize::from(*length).clamp(2, options.len()),
            (_, []) => break,
        };
        if kind & OPTION_COPIED != 0 {
            later.extend_from_slice(&options[..length]);
        }
        options = &options[length..];
    }
    later.resize(later.len().next_multiple_of(4), OPTION_END);
    later[0] = 0x40 | (later.len() / 4) as u8;
    later
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::checksum;
    use crate::packet::ip::Header;
    use crate::packet::ip::tests::v4;

    fn fragments(packet: &[u8], header_bytes: usize, max_bytes: usize) -> Vec<Vec<u8>> {
        let fragments = Fragments::new(packet, header_bytes, max_bytes).unwrap();
        (0..fragments.count())
            .map(|at| {
                let mut out = vec![0; fragments.bytes(at)];
                fragments.write(at, &mut out);
                out
            })
            .collect()
    }

    #[test]
    fn reassembled_fragments_equal_the_packet() {
        let packet = v4([1; 4], [2; 4], (3, 4), &(0..100).collect::<Vec<u8>>());
        for most in 28..=packet.len() {
            let mut payload = vec![0; packet.len() - 20];
            let parts = fragments(&packet, 20, most);
            for (at, part) in parts.iter().enumerate() {
                assert!(part.len() <= most && Header::read(part).unwrap().packet_bytes == part.len());
                assert_eq!(checksum::fold(checksum::add(0, &part[..20])), [0xFF; 2]);
                let field = u16::from_be_bytes([part[6], part[7]]);
                let offset = usize::from(field & OFFSET_MASK) * 8;
                payload[offset..offset + part.len() - 20].copy_from_slice(&part[20..]);
                assert_eq!(field & MORE_FRAGMENTS != 0, at + 1 < parts.len());
                assert_eq!(
                    (&part[..2], &part[4..6], &part[8..10], &part[12..20]),
                    (&packet[..2], &packet[4..6], &packet[8..10], &packet[12..20])
                );
            }
            assert_eq!(payload, packet[20..], "at most {most} bytes");
        }
        assert!(Fragments::new(&packet, 20, 27).is_none());
    }

    #[test]
    fn a_fragment_of_a_fragment_keeps_its_offset() {
        let packet = v4([1; 4], [2; 4], (3, 4), &[9; 72]);
        let middle = fragments(&packet, 20, 60).remove(1);
        let parts = fragments(&middle, 20, 36);
        let fields = parts.iter().map(|part| u16::from_be_bytes([part[6], part[7]])).collect::<Vec<_>>();
        assert_eq!(fields, [MORE_FRAGMENTS | 5, MORE_FRAGMENTS | 7, 9]);
    }

    #[test]
    fn a_fragment_beyond_the_longest_packet_is_refused() {
        let mut packet = v4([1; 4], [2; 4], (3, 4), &[9; 72]);
        packet[6..8].copy_from_slice(&(MORE_FRAGMENTS + 8179).to_be_bytes());
        assert_eq!(fragments(&packet, 20, 60).len(), 2, "its last byte is the 65,532nd");
        packet[6..8].copy_from_slice(&(MORE_FRAGMENTS + 8180).to_be_bytes());
        assert!(Fragments::new(&packet, 20, 60).is_none());
    }

    #[test]
    fn later_fragments_have_only_copied_options() {
        let plain = v4([1; 4], [2; 4], (3, 4), &[9; 72]);
        // Record route, which is not copied; no operation; and router alert, which is copied.
        let options = [7, 3, 4, OPTION_NOP, 0x94, 4, 0, 0];
        let mut packet = [&plain[..20], &options, &plain[20..]].concat();
        packet[0] = 0x47;
        let total = packet.len();
        ip::write_length(&mut packet, 28, total);
        let parts = fragments(&packet, 28, 60);
        assert_eq!((parts[0][0], &parts[0][20..28]), (0x47, &options[..]));
        assert_eq!((parts[1][0], &parts[1][20..24]), (0x46, &[0x94, 4, 0, 0][..]));
        assert_eq!(parts.iter().map(|part| part.len() - usize::from(part[0] & 15) * 4).sum::<usize>(), 80);
    }
}

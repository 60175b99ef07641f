//! The header that a TUN device puts before each packet: the header of virtio-net (`struct virtio_net_hdr`, linux/virtio_net.h), in the
//! byte order of the machine.

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 10;

/// Flag of a packet whose checksum is missing (VIRTIO_NET_HDR_F_NEEDS_CSUM).
const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of segmentation (VIRTIO_NET_HDR_GSO_*).
const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// A flag for TCP with ECN: only the first segment keeps the CWR flag.
const ECN: u8 = 0x80;

/// Work that the stack leaves to the device, or that the device leaves to the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    /// The offsets of a missing checksum: the start of the bytes that it covers, and the checksum field, relative to that start.
    pub(crate) checksum: Option<(usize, usize)>,
    /// Bytes of payload of each segment but the last, if the packet is to be split.
    pub(crate) segment_bytes: Option<usize>,
    /// Bytes of the headers that each segment has.
    pub(crate) header_bytes: usize,
}

impl Offload {
    /// Parses the header. Returns `None` if it requests an offload that was not offered.
    pub(crate) fn read(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let field = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let checksum = (header[0] & NEEDS_CHECKSUM != 0).then(|| (field(6), field(8)));
        let segment_bytes = match header[1] & !ECN {
            NONE => None,
            TCP_V4 | TCP_V6 | UDP if field(4) > 0 => Some(field(4)),
            _ => return None,
        };
        Some(Self { checksum, segment_bytes, header_bytes: field(2) })
    }

    /// Builds the header for a TCP packet.
    pub(crate) fn write(&self, is_v6: bool) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut field = |at: usize, value: usize| header[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        field(2, self.header_bytes);
        field(4, self.segment_bytes.unwrap_or(0));
        if let Some((start, offset)) = self.checksum {
            field(6, start);
            field(8, offset);
            header[0] = NEEDS_CHECKSUM;
        }
        if self.segment_bytes.is_some() {
            header[1] = if is_v6 { TCP_V6 } else { TCP_V4 };
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_is_parsed_back() {
        let plain = Offload::default();
        assert_eq!(Offload::read(&plain.write(false)), Some(plain));
        let tcp = Offload { checksum: Some((40, 16)), segment_bytes: Some(1348), header_bytes: 72 };
        assert_eq!((Offload::read(&tcp.write(true)), tcp.write(true)[1]), (Some(tcp), TCP_V6));
        let mut with_ecn = tcp.write(false);
        with_ecn[1] |= ECN;
        assert_eq!(Offload::read(&with_ecn), Some(tcp));
    }

    #[test]
    fn a_kind_that_was_not_offered_is_refused() {
        for kind in [2, 3, 6] {
            let mut header = Offload { segment_bytes: Some(100), ..Offload::default() }.write(false);
            header[1] = kind;
            assert_eq!(Offload::read(&header), None);
        }
        assert_eq!(Offload::read(&[0, TCP_V4, 0, 0, 0, 0, 0, 0, 0, 0]), None, "segments without a size");
    }
}

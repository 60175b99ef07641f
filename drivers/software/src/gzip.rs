//! Parts of gzip's format that libdeflate leaves out (RFC 1952, 2.3): the checksum of a header, and zeros after the last member.

use libdeflate_sys as ld;

/// Bytes of a header before its optional fields.
const FIXED_HEADER_BYTES: usize = 10;

// Flags of a header.
const HEADER_CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;

/// Returns false if the member's header has a wrong checksum. Other damage is left to libdeflate.
pub(crate) fn has_sound_header(member: &[u8]) -> bool {
    let checksum =
        header_len_before_checksum(member).and_then(|end| Some((&member[..end], member[end..].first_chunk()?)));
    // SAFETY: pointer and length are those of a slice.
    let crc = |bytes: &[u8]| unsafe { ld::libdeflate_crc32(0, bytes.as_ptr().cast(), bytes.len()) };
    // The checksum is the lower half of the CRC-32 of all bytes before it.
    checksum.is_none_or(|(header, checksum)| crc(header) & 0xffff == u32::from(u16::from_le_bytes(*checksum)))
}

/// Returns true if these bytes may follow the last member: tapes and disks fill blocks with zeros, and gzip ignores them.
pub(crate) fn is_padding(rest: &[u8]) -> bool {
    rest.iter().all(|byte| *byte == 0)
}

/// Returns the length of the header before its checksum; `None` if the header has no checksum, or ends too early.
fn header_len_before_checksum(member: &[u8]) -> Option<usize> {
    let flags = *member.get(3)?;
    if flags & HEADER_CHECKSUM == 0 {
        return None;
    }
    let mut end = FIXED_HEADER_BYTES;
    if flags & EXTRA != 0 {
        let length = member.get(end..)?.first_chunk()?;
        end += 2 + usize::from(u16::from_le_bytes(*length));
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            end += member.get(end..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    (end <= member.len()).then_some(end)
}

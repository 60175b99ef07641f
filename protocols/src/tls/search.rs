//! Finds the MAC of a decrypted TLS record whose MAC and padding lay under the encryption (RFC 5246, 6.2.3.2). Neither time nor memory
//! accesses reveal the length of the padding, or whether padding or MAC was wrong. An attacker could decrypt records with either fact
//! (Vaudenay; Lucky Thirteen).
//!
//! The MAC can begin at up to 256 places. The caller computes the MAC for each place, from the shortest message on. At each place it
//! finishes a copy of the hash state, and gives the original state one more byte. The bytes hashed and compared depend on the record's
//! length only, on every device. At the end the right answer, if any, is selected without a branch. Each place costs two or three blocks
//! of the hash.

use std::ops::Range;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};

/// The search for the MAC of a decrypted record.
///
/// The caller computes the MAC of the message that ends at each of the [candidate offsets](Self::candidate_offsets), in the same time for
/// every record of this length. The caller [compares](Self::compare) all of them before it requests the [length](Self::message_len) of
/// the message.
#[derive(Debug)]
pub struct MacSearch {
    /// Length of the record in bytes.
    length: usize,
    /// Length of the MAC in bytes.
    tag_len: usize,
    /// The offsets where the message may end and the MAC begin.
    candidate_offsets: Range<usize>,
    /// Bytes of padding according to the last byte, and whether the padding is valid. Both are secret.
    padding_len: u32,
    is_padded: Choice,
    /// True if the MAC was found, and the length of the message before the MAC. The flag is no longer secret once all places have been
    /// tried. The length is no longer secret once the MAC was found.
    found: Choice,
    message_len: u32,
}

impl MacSearch {
    /// Starts the search in a record of a cipher with blocks of `block_size` bytes (1: without padding), and a MAC of `tag_len` bytes.
    /// Returns `None` if the record is too short for any MAC.
    pub fn new(record: &[u8], block_size: usize, tag_len: usize) -> Option<Self> {
        let (length, has_padding) = (record.len(), block_size > 1);
        let last = length.checked_sub(tag_len + usize::from(has_padding))?;
        let first = if has_padding { length.saturating_sub(tag_len + 256) } else { last };
        let (padding_len, is_padded) = if has_padding { padding(record) } else { (0, Choice::from(1)) };
        let (found, message_len) = (Choice::from(0), 0);
        Some(Self { length, tag_len, candidate_offsets: first..last + 1, padding_len, is_padded, found, message_len })
    }

    /// Returns the offsets where the MAC may begin.
    pub fn candidate_offsets(&self) -> Range<usize> {
        self.candidate_offsets.clone()
    }

    /// Returns the message's length if the padding's length byte is right, and any number otherwise. The result is secret.
    pub fn claimed_message_len(&self) -> u32 {
        (self.length as u32).wrapping_sub(self.tag_len as u32).wrapping_sub(self.padding_len)
    }

    /// Compares the `computed` MAC of the message that ends at `offset`. `record` is the record that [`new`](Self::new) got.
    pub fn compare(&mut self, record: &[u8], offset: usize, computed: &[u8]) {
        let is_equal = gantry_core::tags_equal(&record[offset..offset + self.tag_len], &computed[..self.tag_len]);
        let padding = (self.length - self.tag_len - offset) as u32;
        let is_here = Choice::from(u8::from(is_equal)) & padding.ct_eq(&self.padding_len);
        self.found |= is_here;
        self.message_len.conditional_assign(&(offset as u32), is_here);
    }

    /// Returns the length of the message; `None` if the MAC or the padding is wrong.
    pub fn message_len(&self) -> Option<u32> {
        bool::from(self.found & self.is_padded).then_some(self.message_len)
    }
}

/// Returns the length of a record's padding, including the length byte, and whether it is valid. A record has at least one byte.
fn padding(record: &[u8]) -> (u32, Choice) {
    let last = record[record.len() - 1];
    let padding = u32::from(last) + 1;
    let mut is_padded = !padding.ct_gt(&(record.len() as u32));
    for (place, byte) in (1..=256_u32).zip(record.iter().rev()) {
        // Bytes before the padding may have any value.
        is_padded &= byte.ct_eq(&last) | place.ct_gt(&padding);
    }
    (padding, is_padded)
}

/// Returns the length of the content of a decrypted record that has no MAC. Invalid padding counts as content. The record must have at
/// least one byte.
pub fn unpadded_len(record: &[u8]) -> usize {
    let (padding, is_padded) = padding(record);
    // Valid padding is not longer than the record, so no check is needed. A check would branch on a secret.
    record.len().wrapping_sub(u32::conditional_select(&0, &padding, is_padded) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a record with `MAC` after its message. Returns the message's length.
    fn open(record: &[u8], block: usize) -> Option<u32> {
        let mut search = MacSearch::new(record, block, 3)?;
        for offset in search.candidate_offsets() {
            search.compare(record, offset, b"MAC");
        }
        search.message_len()
    }

    fn record(message: usize, padding: &[u8]) -> Vec<u8> {
        [&vec![7; message], &b"MAC"[..], padding].concat()
    }

    #[test]
    fn finds_every_valid_padding() {
        for message in [0, 1, 300] {
            for bytes in 1..=256_usize {
                let record = record(message, &vec![(bytes - 1) as u8; bytes]);
                assert_eq!(open(&record, 16), Some(message as u32), "{message} and {bytes}");
            }
            assert_eq!(open(&record(message, &[]), 1), Some(message as u32), "a stream cipher pads nothing");
        }
    }

    #[test]
    fn refuses_wrong_paddings_and_macs() {
        assert_eq!(open(&record(20, &[3, 3, 2, 3]), 16), None);
        assert_eq!(open(&record(20, &[2, 3, 3, 3]), 16), None);
        assert_eq!(open(&record(20, &[2, 2]), 16), None, "one byte too few");
        assert_eq!(open(&record(20, &[0, 0]), 16), None, "one byte too many");
        assert_eq!(open(&record(0, &[0xFF; 200]), 16), None, "longer than the record");
        assert_eq!(open(&[&record(20, &[])[..], &[9; 9], &[1, 1]].concat(), 16), None, "the MAC is elsewhere");
        assert_eq!(open(b"MA", 1), None);
        assert_eq!(open(b"MAC", 16), None);
        assert_eq!((unpadded_len(&[9, 1, 1]), unpadded_len(&[9, 0, 1]), unpadded_len(&[3])), (1, 3, 1));
    }
}

//! Opening a TLS record whose MAC and padding lie under the encryption (RFC 5246, 6.2.3.2). Neither time nor memory accesses
//! tell how long the padding is, or whether the padding or the MAC was wrong: an attacker who can tell decrypts with it
//! (Vaudenay; Lucky Thirteen).
//!
//! The MAC has 256 places at most where it can begin. It is computed for each of them, of the shortest message first: a copy
//! of the message's state ends there, the message itself goes on by a byte. The length of the record alone decides how much is
//! hashed and compared, with whatever device computes it. In the end one of the answers may be the right one, which is chosen
//! without a branch. This costs two or three blocks of the hash for each place.

use std::ops::Range;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};

/// The search for the MAC of a record that was decrypted.
///
/// The caller computes the MAC of the message that ends at each of the [places](Self::places), in any way that takes the same time
/// for every record of this length, and [compares](Self::compare) all of them before it asks for the [message](Self::message).
#[derive(Debug)]
pub struct MacSearch {
    /// Bytes of the record.
    length: usize,
    /// Of the MAC.
    tag: usize,
    /// Where the MAC may begin, which is where the message ends.
    places: Range<usize>,
    /// What the last byte says, and whether all the others say so, too. Both are secret.
    padding: u32,
    is_padded: Choice,
    /// Whether the MAC was found, and how long the message before it is. The first is no secret any more when all places have
    /// been tried, and the second when it was found.
    found: Choice,
    message: u32,
}

impl MacSearch {
    /// A record of a cipher with blocks of `block` bytes (1: it pads nothing), and a MAC of `tag` bytes. `None` when the record is
    /// too short for any MAC.
    pub fn new(record: &[u8], block: usize, tag: usize) -> Option<Self> {
        let (length, has_padding) = (record.len(), block > 1);
        let last = length.checked_sub(tag + usize::from(has_padding))?;
        let first = if has_padding { length.saturating_sub(tag + 256) } else { last };
        let (padding, is_padded) = if has_padding { padding(record) } else { (0, Choice::from(1)) };
        let (found, message) = (Choice::from(0), 0);
        Some(Self { length, tag, places: first..last + 1, padding, is_padded, found, message })
    }

    /// Where the MAC may begin.
    pub fn places(&self) -> Range<usize> {
        self.places.clone()
    }

    /// The length of the message, if the padding is what it says; otherwise any number. It is secret.
    pub fn claimed(&self) -> u32 {
        (self.length as u32).wrapping_sub(self.tag as u32).wrapping_sub(self.padding)
    }

    /// The MAC of the message that ends at `place` is `computed`. `record` is what the search was made for.
    pub fn compare(&mut self, record: &[u8], place: usize, computed: &[u8]) {
        let is_equal = gantry_core::tags_equal(&record[place..place + self.tag], &computed[..self.tag]);
        let padding = (self.length - self.tag - place) as u32;
        let is_here = Choice::from(u8::from(is_equal)) & padding.ct_eq(&self.padding);
        self.found |= is_here;
        self.message.conditional_assign(&(place as u32), is_here);
    }

    /// The length of the message; `None` when there is none with this MAC and right padding.
    pub fn message(&self) -> Option<u32> {
        bool::from(self.found & self.is_padded).then_some(self.message)
    }
}

/// The length of a record's padding, with the byte that says so, and whether it is padding. A record has at least one byte.
fn padding(record: &[u8]) -> (u32, Choice) {
    let last = record[record.len() - 1];
    let padding = u32::from(last) + 1;
    let mut is_padded = !padding.ct_gt(&(record.len() as u32));
    for (place, byte) in (1..=256_u32).zip(record.iter().rev()) {
        // Bytes before the padding may be anything.
        is_padded &= byte.ct_eq(&last) | place.ct_gt(&padding);
    }
    (padding, is_padded)
}

/// The length of the data of a record that has no MAC: without its padding, if it is padding.
pub fn without_padding(record: &[u8]) -> usize {
    let (padding, is_padded) = padding(record);
    // It is no longer than the record: so nothing has to be checked, which would be a decision.
    record.len().wrapping_sub(u32::conditional_select(&0, &padding, is_padded) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a record with `MAC` behind its message is opened, and what its length is.
    fn open(record: &[u8], block: usize) -> Option<u32> {
        let mut search = MacSearch::new(record, block, 3)?;
        for place in search.places() {
            search.compare(record, place, b"MAC");
        }
        search.message()
    }

    fn record(message: usize, padding: &[u8]) -> Vec<u8> {
        [&vec![7; message], &b"MAC"[..], padding].concat()
    }

    #[test]
    fn every_right_padding_is_found() {
        for message in [0, 1, 300] {
            for bytes in 1..=256_usize {
                let record = record(message, &vec![(bytes - 1) as u8; bytes]);
                assert_eq!(open(&record, 16), Some(message as u32), "{message} and {bytes}");
            }
            assert_eq!(open(&record(message, &[]), 1), Some(message as u32), "a stream cipher pads nothing");
        }
    }

    #[test]
    fn wrong_paddings_and_macs_are_not() {
        assert_eq!(open(&record(20, &[3, 3, 2, 3]), 16), None);
        assert_eq!(open(&record(20, &[2, 3, 3, 3]), 16), None);
        assert_eq!(open(&record(20, &[2, 2]), 16), None, "one byte too few");
        assert_eq!(open(&record(20, &[0, 0]), 16), None, "one byte too many");
        assert_eq!(open(&record(0, &[0xFF; 200]), 16), None, "longer than the record");
        assert_eq!(open(&[&record(20, &[])[..], &[9; 9], &[1, 1]].concat(), 16), None, "the MAC is elsewhere");
        assert_eq!(open(b"MA", 1), None);
        assert_eq!(open(b"MAC", 16), None);
        assert_eq!((without_padding(&[9, 1, 1]), without_padding(&[9, 0, 1]), without_padding(&[3])), (1, 3, 1));
    }
}

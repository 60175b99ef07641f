//! Little-endian integers and fields of fixed lengths.

/// A buffer for structures.
pub(crate) trait PutFields {
    /// Appends 32-bit integers.
    fn put_words(&mut self, words: &[u32]);

    /// Appends a field of `room` bytes that begins with `bytes`. Excess bytes are cut off, so that a hostile guest can announce more
    /// bytes in a length field than `room`.
    fn put_field(&mut self, bytes: &[u8], room: usize);
}

impl PutFields for Vec<u8> {
    fn put_words(&mut self, words: &[u32]) {
        for word in words {
            self.extend(word.to_le_bytes());
        }
    }

    fn put_field(&mut self, bytes: &[u8], room: usize) {
        let end = self.len() + room;
        self.extend(&bytes[..bytes.len().min(room)]);
        self.resize(end, 0);
    }
}

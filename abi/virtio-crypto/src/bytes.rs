//! Little-endian integers.

use crate::Error;

/// Reads integers from the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Appends integers to a buffer.
pub(crate) trait Write {
    /// Appends `words`.
    fn put_words(&mut self, words: &[u32]);

    /// Appends zeros up to a total of `length` bytes.
    fn pad_to(&mut self, length: usize);
}

impl Write for Vec<u8> {
    fn put_words(&mut self, words: &[u32]) {
        for word in words {
            self.extend(word.to_le_bytes());
        }
    }

    fn pad_to(&mut self, length: usize) {
        self.resize(self.len().max(length), 0);
    }
}

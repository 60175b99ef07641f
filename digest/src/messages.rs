//! The messages of one call.

pub(crate) trait Messages {
    fn count(&self) -> usize;

    /// Returns a message, or `None` if a column has no value there. The digest of a missing message is all zeros.
    fn message(&self, index: usize) -> Option<&[u8]>;
}

pub(crate) struct Slices<'a, T>(pub(crate) &'a [T]);

impl<T: AsRef<[u8]>> Messages for Slices<'_, T> {
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn message(&self, index: usize) -> Option<&[u8]> {
        Some(self.0[index].as_ref())
    }
}

/// The blocks of a buffer, each of `block_size` bytes. Each block is a message.
pub(crate) struct Blocks<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) block_size: usize,
}

impl Messages for Blocks<'_> {
    fn count(&self) -> usize {
        self.data.len() / self.block_size
    }

    fn message(&self, index: usize) -> Option<&[u8]> {
        Some(&self.data[index * self.block_size..][..self.block_size])
    }
}

//! Buffers for the callers' keys and data.

use std::mem;
use std::ops::{Deref, DerefMut};

/// More bytes than a request ever appends to its data: a MAC, padding, and the blocks that reveal the end of a chain.
const SPARE_BYTES: usize = 512;

/// Bytes that are wiped when dropped. `Zeroizing` would write them one by one.
#[derive(Default)]
pub(crate) struct WipedBytes(Vec<u8>);

impl WipedBytes {
    /// Appends zeros, or truncates. A vector that grows by itself would leave a copy of its bytes behind.
    pub(crate) fn resize(&mut self, length: usize) {
        if length > self.0.capacity() {
            let mut larger = Vec::with_capacity(length + SPARE_BYTES);
            larger.extend_from_slice(&self.0);
            drop(Self(mem::replace(&mut self.0, larger)));
        }
        self.0.resize(length, 0);
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let end = self.0.len();
        self.resize(end + bytes.len());
        self.0[end..].copy_from_slice(bytes);
    }
}

impl From<Vec<u8>> for WipedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for WipedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for WipedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for WipedBytes {
    fn drop(&mut self) {
        self.0.clear();
        self.0.resize(self.0.capacity(), 0);
        zeroize::optimization_barrier(&self.0[..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_place_when_the_buffer_grows() {
        let mut bytes = WipedBytes::from(vec![1, 2, 3]);
        bytes.append(&[4; 1000]);
        bytes.resize(2000);
        assert_eq!((&bytes[..4], bytes[1002], &bytes[1003..]), (&[1, 2, 3, 4][..], 4, &[0; 997][..]));
        bytes.resize(2);
        bytes.resize(4);
        assert_eq!(bytes[..], [1, 2, 0, 0]);
    }
}

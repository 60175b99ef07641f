//! A copy of a key that a context keeps for sessions on other devices.

use std::hint;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The number of words of the longest cipher key, which has both halves of AES-256-XTS. A key is stored in words, because zeroizing it then
/// takes one write per word, not per byte.
const MAX_WORDS: usize = 8;

const WORD_BYTES: usize = size_of::<u64>();

/// A copy of the default provider's key, overwritten when dropped and when another key is set.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    words: [u64; MAX_WORDS],
    len: usize,
}

impl Default for Key {
    fn default() -> Self {
        Self { words: [0; MAX_WORDS], len: 0 }
    }
}

impl Key {
    /// Stores the key. Returns false for a key that is too long, and then stores none.
    #[inline(always)]
    pub(crate) fn set(&mut self, key: &[u8]) -> bool {
        let fits = key.len() <= MAX_WORDS * WORD_BYTES;
        // A key of at least the same length overwrites the last key.
        if self.len > key.len() || (self.len != 0 && !fits) {
            self.zeroize();
        }
        if !fits {
            return false;
        }
        let (words, rest) = key.as_chunks();
        for (stored, word) in self.words.iter_mut().zip(words) {
            *stored = u64::from_ne_bytes(*word);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            self.words[words.len()] = u64::from_ne_bytes(word);
            word.zeroize();
        }
        self.len = key.len();
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if `key` has the same bytes, in a time that does not depend on the bytes. Returns false for an empty key and for
    /// a length that is no multiple of a word; no cipher has such keys.
    pub(crate) fn equals(&self, key: &[u8]) -> bool {
        let (words, rest) = key.as_chunks();
        if self.len != key.len() || words.is_empty() || !rest.is_empty() {
            return false;
        }
        let differ =
            self.words.iter().zip(words).fold(0, |differ, (one, other)| differ | (one ^ u64::from_ne_bytes(*other)));
        hint::black_box(differ) == 0
    }

    pub(crate) fn bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_WORDS * WORD_BYTES));
        for word in &self.words {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.truncate(self.len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_returns_the_bytes_that_were_set() {
        let mut key = Key::default();
        for length in [64, 16, 24, 61, 3, 32, 0] {
            let bytes: Vec<u8> = (1..).take(length).collect();
            assert!(key.set(&bytes));
            assert_eq!(*key.bytes(), bytes);
        }
        assert!(!key.set(&[1; 65]));
        assert!(key.bytes().is_empty());
    }

    #[test]
    fn a_key_equals_its_own_bytes_only() {
        let mut key = Key::default();
        assert!(!key.equals(&[]));
        for length in [16, 24, 32, 64] {
            let mut bytes: Vec<u8> = (1..).take(length).collect();
            key.set(&bytes);
            assert!(key.equals(&bytes) && !key.equals(&bytes[..length - 8]) && !key.equals(&bytes[..length - 1]));
            for at in 0..length {
                bytes[at] ^= 0x80;
                assert!(!key.equals(&bytes), "byte {at}");
                bytes[at] ^= 0x80;
            }
        }
        key.set(&[0; 8]);
        assert!(!key.equals(&[0; 16]));
    }
}

//! A key that a context keeps for sessions on other devices.

use std::hint;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The longest key of a cipher, both halves of AES-256-XTS, in words: they are overwritten one by one.
const LONGEST: usize = 8;

const WORD: usize = size_of::<u64>();

/// A copy of the key that the host was given. Overwritten when dropped, and when another one comes.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    words: [u64; LONGEST],
    len: usize,
}

impl Default for Key {
    fn default() -> Self {
        Self { words: [0; LONGEST], len: 0 }
    }
}

impl Key {
    /// Whether it is kept: a key that is too long is not, and there is none then.
    #[inline(always)]
    pub(crate) fn set(&mut self, key: &[u8]) -> bool {
        let fits = key.len() <= LONGEST * WORD;
        // A key that is no shorter overwrites the last one.
        if self.len > key.len() || (self.len != 0 && !fits) {
            self.zeroize();
        }
        if !fits {
            return false;
        }
        let (words, rest) = key.as_chunks();
        for (place, word) in self.words.iter_mut().zip(words) {
            *place = u64::from_ne_bytes(*word);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD];
            word[..rest.len()].copy_from_slice(rest);
            self.words[words.len()] = u64::from_ne_bytes(word);
            word.zeroize();
        }
        self.len = key.len();
        true
    }

    /// Whether these are its bytes. How long that takes does not depend on them. (No key has a part of a word; of none, there is nothing
    /// to be said.)
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        let (words, rest) = key.as_chunks();
        if self.len != key.len() || words.is_empty() || !rest.is_empty() {
            return false;
        }
        let differ =
            self.words.iter().zip(words).fold(0, |differ, (one, other)| differ | (one ^ u64::from_ne_bytes(*other)));
        hint::black_box(differ) == 0
    }

    /// A copy.
    pub(crate) fn bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST * WORD));
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
    fn a_key_comes_back_as_it_was() {
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
    fn a_key_is_known_again() {
        let mut key = Key::default();
        assert!(!key.is(&[]));
        for length in [16, 24, 32, 64] {
            let mut bytes: Vec<u8> = (1..).take(length).collect();
            key.set(&bytes);
            assert!(key.is(&bytes) && !key.is(&bytes[..length - 8]) && !key.is(&bytes[..length - 1]));
            for place in 0..length {
                bytes[place] ^= 0x80;
                assert!(!key.is(&bytes), "byte {place}");
                bytes[place] ^= 0x80;
            }
        }
        key.set(&[0; 8]);
        assert!(!key.is(&[0; 16]));
    }
}

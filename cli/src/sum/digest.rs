//! A digest as a value of up to 64 bytes, without allocation.

use super::names::{HashId, MAX_DIGEST_SIZE};

/// A digest of some algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest {
    /// Zero after `length`.
    bytes: [u8; MAX_DIGEST_SIZE],
    length: u8,
}

impl Digest {
    /// Creates a zero digest, to be overwritten.
    pub(crate) fn zero(length: usize) -> Self {
        Self { bytes: [0; MAX_DIGEST_SIZE], length: length as u8 }
    }

    /// Takes over the bytes of a digest, at most [`MAX_DIGEST_SIZE`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut digest = Self::zero(bytes.len());
        digest.bytes_mut().copy_from_slice(bytes);
        digest
    }

    /// Parses hexadecimal digits of either case, which the caller has checked.
    pub(crate) fn from_hex(digits: &[u8]) -> Self {
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let mut digest = Self::zero(digits.len() / 2);
        for (byte, pair) in digest.bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        digest
    }

    /// Parses hexadecimal digits of either case; `None` unless they are a whole digest of this function.
    pub(crate) fn parse(id: HashId, digits: &[u8]) -> Option<Self> {
        let whole = digits.len() == id.digit_count() && digits.iter().all(u8::is_ascii_hexdigit);
        whole.then(|| Self::from_hex(digits))
    }

    /// Returns the bytes for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }

    /// Appends lower-case hexadecimal digits.
    pub(crate) fn write_hex(&self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in &self.bytes[..usize::from(self.length)] {
            out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

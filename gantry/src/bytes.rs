//! Results that own their bytes: public results and secrets.

use std::fmt;
use std::ops::Deref;

use gantry_core::tags_equal;
use smallvec::SmallVec;
use zeroize::Zeroizing;

/// A digest, tag or signature. Prints as hexadecimal digits; comparison takes constant time.
#[derive(Clone, Eq)]
pub struct Output(SmallVec<[u8; 64]>);

impl Output {
    /// Creates a result of `length` bytes, all 0.
    pub(crate) fn zeros(length: usize) -> Self {
        Self(SmallVec::from_elem(0, length))
    }

    pub(crate) fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Output {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Output {
    fn eq(&self, other: &T) -> bool {
        tags_equal(self, other.as_ref())
    }
}

impl From<&[u8]> for Output {
    fn from(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }
}

impl From<Output> for Vec<u8> {
    fn from(output: Output) -> Self {
        output.0.into_vec()
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A shared secret. Zeroized on drop; its bytes are not printed; comparison takes constant time.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub(crate) fn zeros(length: usize) -> Self {
        Self(Zeroizing::new(vec![0; length]))
    }

    pub(crate) fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Returns the secret bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        tags_equal(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a secret of {} bytes", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_print_as_hex_and_secrets_do_not_print() {
        let output = Output::from(&[0xab, 0x01][..]);
        assert_eq!(output.to_string(), "ab01");
        assert!(output == [0xab, 0x01] && output != [0xab] && output == output.clone());
        assert_eq!(format!("{:?}", Secret::zeros(32)), "a secret of 32 bytes");
    }
}

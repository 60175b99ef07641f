//! Converts the hexadecimal digits of tables to bytes.

/// Converts hexadecimal digits to bytes, at compile time.
macro_rules! hex {
    ($digits:literal) => {
        &const { $crate::trust::hex::unhex::<{ $digits.len() / 2 }>($digits.as_bytes()) }
    };
}
pub(crate) use hex;

pub(crate) const fn unhex<const N: usize>(digits: &[u8]) -> [u8; N] {
    const fn value(digit: u8) -> u8 {
        match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("not a hexadecimal digit"),
        }
    }
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = value(digits[2 * i]) << 4 | value(digits[2 * i + 1]);
        i += 1;
    }
    bytes
}

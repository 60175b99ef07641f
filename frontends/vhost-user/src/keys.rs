//! RSA keys of guests: converts DER of RFC 8017, A.1, to the fixed-length numbers of core ([`gantry_core::rsa`]).

use gantry_core::rsa::EXPONENT_LEN;
use zeroize::Zeroizing;

/// Most bytes of a modulus.
const MAX_MODULUS_BYTES: usize = 512;

/// Converts an RSAPublicKey to modulus and public exponent. Also returns the length of the modulus.
pub(crate) fn parse_public_key(der: &[u8]) -> Option<(Zeroizing<Vec<u8>>, usize)> {
    let mut numbers = DerIntegers::parse(der)?;
    let (modulus, exponent) = (numbers.next()?, numbers.next()?);
    let length = modulus_length(modulus)?;
    let mut key = Zeroizing::new(Vec::with_capacity(length + EXPONENT_LEN));
    key.extend_from_slice(modulus);
    append_padded(&mut key, exponent, EXPONENT_LEN)?;
    numbers.is_at_end().then_some((key, length))
}

/// Converts an RSAPrivateKey of two primes. Also returns the length of the modulus.
pub(crate) fn parse_private_key(der: &[u8]) -> Option<(Zeroizing<Vec<u8>>, usize)> {
    let mut numbers = DerIntegers::parse(der)?;
    // Version 0 means two primes.
    if !numbers.next()?.is_empty() {
        return None;
    }
    let modulus = numbers.next()?;
    let length = modulus_length(modulus)?;
    let mut key = Zeroizing::new(Vec::with_capacity(gantry_core::rsa::private_length(length)));
    key.extend_from_slice(modulus);
    append_padded(&mut key, numbers.next()?, EXPONENT_LEN)?;
    append_padded(&mut key, numbers.next()?, length)?;
    // Two primes, two exponents, the inverse of the second prime.
    for _ in 0..5 {
        append_padded(&mut key, numbers.next()?, length / 2)?;
    }
    numbers.is_at_end().then_some((key, length))
}

fn modulus_length(modulus: &[u8]) -> Option<usize> {
    (modulus.len() <= MAX_MODULUS_BYTES && modulus.len().is_multiple_of(2) && !modulus.is_empty())
        .then_some(modulus.len())
}

/// Appends a number with leading zeros.
fn append_padded(key: &mut Vec<u8>, number: &[u8], length: usize) -> Option<()> {
    let zeros = length.checked_sub(number.len())?;
    key.resize(key.len() + zeros, 0);
    key.extend_from_slice(number);
    Some(())
}

/// The INTEGERs of a SEQUENCE.
struct DerIntegers<'a>(&'a [u8]);

impl<'a> DerIntegers<'a> {
    fn parse(der: &'a [u8]) -> Option<Self> {
        let (content, rest) = split_element(der, 0x30)?;
        rest.is_empty().then_some(Self(content))
    }

    /// Returns the next number without leading zeros; 0 is empty. A number that is negative in X.690 is read as unsigned, as Linux does:
    /// a public key in the kernel's tests has such a modulus.
    fn next(&mut self) -> Option<&'a [u8]> {
        let (number, rest) = split_element(self.0, 0x02)?;
        self.0 = rest;
        if number.is_empty() {
            return None;
        }
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        Some(&number[zeros..])
    }

    fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns the content of an element with this tag, and the rest (X.690, 8.1). Lengths have at most two bytes.
fn split_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match *der {
        [first, 0x82, high, low, ref rest @ ..] if first == tag => (usize::from(high) << 8 | usize::from(low), rest),
        [first, 0x81, length, ref rest @ ..] if first == tag => (usize::from(length), rest),
        [first, length @ ..=0x7f, ref rest @ ..] if first == tag => (usize::from(length), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> Vec<u8> {
        [&[2, bytes.len() as u8][..], bytes].concat()
    }

    fn sequence(numbers: &[Vec<u8>]) -> Vec<u8> {
        let content = numbers.concat();
        [&[0x30, 0x81, content.len() as u8][..], &content].concat()
    }

    #[test]
    fn numbers_are_padded_to_the_lengths_of_core() {
        let der = sequence(&[number(&[0, 0x81, 2, 3, 5]), number(&[1, 0, 1])]);
        let (key, length) = parse_public_key(&der).unwrap();
        assert_eq!((&key[..], length), (&[0x81, 2, 3, 5, 0, 1, 0, 1][..], 4));
        let halves = [7, 8, 9, 10, 11].map(|byte| number(&[byte]));
        let front = [number(&[0]), number(&[0, 0x81, 2, 3, 5]), number(&[3]), number(&[6])];
        let (key, length) = parse_private_key(&sequence(&[&front[..], &halves[..]].concat())).unwrap();
        let numbers = [0x81, 2, 3, 5, 0, 0, 0, 3, 0, 0, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11];
        assert_eq!((&key[..], length), (&numbers[..], 4));
        assert_eq!(key.len(), gantry_core::rsa::private_length(4));
    }

    #[test]
    fn negative_numbers_are_read_as_unsigned() {
        let with_sign = parse_public_key(&sequence(&[number(&[0, 0x81, 2, 3, 5]), number(&[3])]));
        assert_eq!(parse_public_key(&sequence(&[number(&[0x81, 2, 3, 5]), number(&[3])])), with_sign);
        assert!(with_sign.is_some());
    }

    #[test]
    fn truncated_keys_and_trailing_bytes_are_refused() {
        let der = sequence(&[number(&[0, 0x81, 2, 3, 5]), number(&[1, 0, 1])]);
        for length in 0..der.len() {
            assert!(parse_public_key(&der[..length]).is_none());
        }
        assert!(parse_public_key(&[&der[..], &[0]].concat()).is_none());
        assert!(parse_public_key(&sequence(&[number(&[]), number(&[3])])).is_none());
        assert!(parse_public_key(&sequence(&[number(&[0, 0x81, 2]), number(&[3]), number(&[4])])).is_none());
        let many = sequence(&[number(&[1]), number(&[0, 0x81, 2])]);
        assert!(parse_private_key(&many).is_none(), "more than two primes");
    }
}

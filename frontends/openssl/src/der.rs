//! Signatures of ECDSA as programs have them: two numbers in DER (RFC 3279, section 2.2.3). Elsewhere they lie side by side.

use crate::pair::SIZE;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

/// The longest one on P-256, which is what the host wants room for: with a zero before either number.
pub(crate) const LONGEST: usize = 2 + 2 * (2 + 1 + SIZE);

/// In DER, and its length.
pub(crate) fn encode(signature: &[u8; 2 * SIZE]) -> ([u8; LONGEST], usize) {
    let mut der = [0; LONGEST];
    let mut end = 2;
    for number in signature.chunks(SIZE) {
        let zeros = number.iter().take_while(|byte| **byte == 0).count().min(SIZE - 1);
        let number = &number[zeros..];
        // A first bit that is set would say that it is negative.
        let sign = usize::from(number[0] >> 7);
        der[end] = INTEGER;
        der[end + 1] = (sign + number.len()) as u8;
        der[end + 2 + sign..][..number.len()].copy_from_slice(number);
        end += 2 + sign + number.len();
    }
    (der[0], der[1]) = (SEQUENCE, (end - 2) as u8);
    (der, end)
}

/// Side by side. `None` of what is not DER, or has a number that is negative or larger than any on P-256: whether that is a
/// signature is the host's to say.
pub(crate) fn decode(der: &[u8]) -> Option<[u8; 2 * SIZE]> {
    let mut signature = [0; 2 * SIZE];
    let [SEQUENCE, length, rest @ ..] = der else { return None };
    if usize::from(*length) != rest.len() {
        return None;
    }
    let mut rest = rest;
    for half in signature.chunks_mut(SIZE) {
        let [INTEGER, length, numbers @ ..] = rest else { return None };
        let (number, behind) = numbers.split_at_checked(usize::from(*length))?;
        let number = match number {
            [0, next, ..] if next >> 7 == 1 => &number[1..],
            [0] => number,
            [0, ..] | [] => return None,
            [first, ..] if first >> 7 == 1 => return None,
            _ => number,
        };
        let zeros = SIZE.checked_sub(number.len())?;
        half[zeros..].copy_from_slice(number);
        rest = behind;
    }
    rest.is_empty().then_some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(r: &[u8], s: &[u8]) -> [u8; 2 * SIZE] {
        let mut both = [0; 2 * SIZE];
        both[SIZE - r.len()..SIZE].copy_from_slice(r);
        both[2 * SIZE - s.len()..].copy_from_slice(s);
        both
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for (r, s, length) in [
            (&[][..], &[][..], 8),
            (&[1], &[0x7f], 8),
            (&[0x80], &[0xff, 0], 11),
            (&[0x7f; 32], &[1; 31], 2 + 34 + 33),
            (&[0xff; 32], &[0x80; 32], LONGEST),
        ] {
            let signature = both(r, s);
            let (der, end) = encode(&signature);
            assert_eq!(end, length);
            assert_eq!(decode(&der[..end]), Some(signature));
        }
        let (der, end) = encode(&both(&[0x80], &[1]));
        assert_eq!(der[..end], [0x30, 7, 2, 2, 0, 0x80, 2, 1, 1]);
    }

    #[test]
    fn what_is_not_der_is_nothing() {
        let (der, end) = encode(&both(&[0x80; 32], &[7; 32]));
        let good = &der[..end];
        for cut in 0..end {
            assert_eq!(decode(&good[..cut]), None);
        }
        assert_eq!(decode(&[good, &[0]].concat()), None);
        for wrong in [
            &[0x31, 6, 2, 1, 1, 2, 1, 1][..],
            &[0x30, 6, 3, 1, 1, 2, 1, 1],
            // Of a length in two bytes where one would do, or of no certain length.
            &[0x30, 0x81, 6, 2, 1, 1, 2, 1, 1],
            &[0x30, 0x80, 2, 1, 1, 2, 1, 1, 0, 0],
            // With a zero too many, negative, and empty.
            &[0x30, 7, 2, 2, 0, 1, 2, 1, 1],
            &[0x30, 6, 2, 1, 0x80, 2, 1, 1],
            &[0x30, 5, 2, 0, 2, 1, 1],
            // With a third number.
            &[0x30, 9, 2, 1, 1, 2, 1, 1, 2, 1, 1],
        ] {
            assert_eq!(decode(wrong), None, "{wrong:x?}");
        }
        let long = [&[0x30, 38, 2, 33][..], &[1; 33], &[2, 1, 1]].concat();
        assert_eq!(decode(&long), None);
    }
}

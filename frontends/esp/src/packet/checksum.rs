//! The checksum of the Internet protocols (RFC 1071).
//!
//! Words are read and sums are written in the byte order of the machine, because the ones' complement sum of 16-bit words does
//! not depend on byte order (RFC 1071, 2 B).

/// Adds bytes to a sum. Only the last piece of a message may have an odd length.
pub(crate) fn add(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).fold(sum, |sum, word| add_with_carry(sum, u64::from_ne_bytes(*word)))
}

/// Adds two numbers in ones' complement, with end-around carry.
fn add_with_carry(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum + u64::from(carry)
}

/// Folds a sum to 16 bits, as two bytes in the order of the packet.
pub(crate) fn fold(sum: u64) -> [u8; 2] {
    // 2^32 and 2^16 equal 1 modulo 2^16 - 1, so the upper half of a sum counts as much as the lower half.
    let sum = (sum >> 32) + (sum & 0xFFFF_FFFF);
    let fold = |sum: u64| (sum >> 16) + (sum & 0xFFFF);
    // The sum has 33 bits, then 18, then 17, then 16.
    (fold(fold(fold(sum))) as u16).to_ne_bytes()
}

/// Returns the complement of a sum, as headers contain it.
pub(crate) fn complement(sum: u64) -> [u8; 2] {
    fold(sum).map(|byte| !byte)
}

/// Sums a pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1): both addresses, the protocol, and the length of the segment in bytes.
pub(crate) fn pseudo_header_sum(addresses: &[u8], protocol: u8, bytes: usize) -> u64 {
    let sum = add(0, addresses);
    add(add(sum, &[0, protocol]), &(bytes as u32).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the sum word by word, in the byte order of the network.
    fn plain(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        (sum as u16).to_be_bytes()
    }

    #[test]
    fn the_checksum_matches_rfc_1071() {
        assert_eq!(fold(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), [0xdd, 0xf2]);
    }

    #[test]
    fn bytes_of_any_length_have_the_sum_of_their_words() {
        let bytes: Vec<u8> = (0..70_000_u32).map(|at| ((at * 7919) >> 5) as u8 | 0xC0).collect();
        for length in (0..70).chain([1399, 1400, 65_534, 65_535]) {
            assert_eq!(fold(add(0, &bytes[..length])), plain(&bytes[..length]), "{length} bytes");
        }
        let ones = vec![0xFF; 65_535];
        assert_eq!(fold(add(0, &ones)), plain(&ones));
    }

    #[test]
    fn a_message_may_be_summed_in_pieces() {
        let bytes: Vec<u8> = (0..100_u8).map(|at| at.wrapping_mul(37)).collect();
        assert_eq!(fold(add(add(0, &bytes[..42]), &bytes[42..])), plain(&bytes));
    }
}

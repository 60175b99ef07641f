//! Properties of an algorithm, from its row in the table or in a driver.

use super::esp::{HEADER_LEN, TRAILER_LEN};
use super::ids::Algorithm;
use super::kind::Kind;
use super::registered;
use super::row::AlgorithmInfo;
use super::table::TABLE;

impl Algorithm {
    /// Returns the row of this algorithm.
    #[inline]
    pub fn info(self) -> &'static AlgorithmInfo {
        match TABLE.get(self as usize) {
            Some(row) => row,
            None => registered::info(self),
        }
    }

    /// Returns the name: OpenSSL's in lower case, if OpenSSL has one.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the kind of the algorithm.
    pub fn kind(self) -> Kind {
        self.info().kind
    }

    /// Returns whether the algorithm is a parameter set of SLH-DSA (FIPS 205). Such a signature takes up to several million hashes, which
    /// is milliseconds to nearly a second. Most other signatures take microseconds.
    pub fn is_slh_dsa(self) -> bool {
        (Algorithm::SlhDsaSha2_128s..=Algorithm::SlhDsaShake256f).contains(&self)
    }
}

impl AlgorithmInfo {
    /// Returns the length of a packet whose payload and tag have these lengths: header, IV, payload, padding, trailer, tag (RFC 4303, 2).
    pub const fn packet_length(&self, payload_len: usize, tag_len: usize) -> usize {
        let padded = payload_len.saturating_add(TRAILER_LEN).div_ceil(self.block).saturating_mul(self.block);
        padded.saturating_add(HEADER_LEN + self.iv.max + tag_len)
    }

    /// Returns the offset of the payload in a packet.
    pub const fn payload_start(&self) -> usize {
        HEADER_LEN + self.iv.max
    }

    /// Returns the maximum payload length of a packet of `packet_len` bytes with a tag of `tag_len` bytes; `None` if there is no such
    /// packet.
    pub const fn payload_length(&self, packet_len: usize, tag_len: usize) -> Option<usize> {
        match packet_len.checked_sub(self.payload_start() + tag_len) {
            Some(padded) if padded >= TRAILER_LEN && padded.is_multiple_of(self.block) => Some(padded - TRAILER_LEN),
            _ => None,
        }
    }

    /// Returns the greatest allowed number of data bytes that is at most `bytes`. If every allowed number is greater, returns the smallest
    /// of them.
    pub fn nearest_data_length(&self, bytes: usize) -> usize {
        let max = usize::try_from(self.max_data).unwrap_or(usize::MAX).min(bytes);
        if matches!(self.kind, Kind::Packet) {
            let fixed = self.payload_start() + self.default_tag_length();
            return fixed + (max.saturating_sub(fixed) / self.block).max(1) * self.block;
        }
        // Digests and MACs take data of any length. Their `block` is that of the inner hash or cipher.
        let whole = if matches!(self.kind, Kind::Digest | Kind::Mac) { max } else { max - max % self.block };
        whole.max(self.min_data)
    }

    /// Returns a size that always suffices for compressing `bytes` bytes: an eighth more, plus 128 bytes.
    pub const fn compressed_max(bytes: usize) -> usize {
        bytes.saturating_add(bytes / 8).saturating_add(128)
    }

    /// Returns the default length of a digest, MAC, tag, signature, shared secret or enciphered message: the maximum, except for an XOF.
    #[inline]
    pub fn default_tag_length(&self) -> usize {
        self.xof.unwrap_or(self.tag.max)
    }

    /// Returns the name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_their_ids() {
        for (index, algorithm) in Algorithm::ALL.iter().enumerate() {
            assert_eq!(algorithm.info().algorithm, *algorithm);
            assert_eq!(*algorithm as usize, index);
        }
    }

    #[test]
    fn the_nearest_data_length_is_allowed() {
        for (algorithm, bytes, nearest) in [
            (Algorithm::Sha256, 77, 77),
            (Algorithm::Aes128Cbc, 77, 64),
            (Algorithm::Aes256Xts, 7, 16),
            (Algorithm::Aes256Xts, usize::MAX, 16 << 20),
            (Algorithm::X25519, 1024, 32),
            (Algorithm::EcdsaP256, 1024, 1024),
            (Algorithm::Rsa2048Pss, 1024, 64),
            (Algorithm::Rsa2048Pkcs1, 0, 32),
        ] {
            assert_eq!(algorithm.info().nearest_data_length(bytes), nearest, "{algorithm}");
        }
    }

    #[test]
    fn blocks_of_data_are_powers_of_two() {
        let data = TABLE.iter().filter(|row| !matches!(row.kind, Kind::Digest | Kind::Mac));
        assert!(data.into_iter().all(|row| row.block.is_power_of_two()));
    }

    #[test]
    fn iv_lengths_are_contiguous() {
        assert!(TABLE.iter().all(|row| row.iv.step == 1 && row.iv.min <= row.iv.max));
    }
}

//! The functions of S3's checksums.

use crc_fast::{CrcAlgorithm, checksum, checksum_combine};
use data_encoding::BASE64;
use gantry_digest::{Algorithm, Hasher};

use crate::hashing::crc::crcs;
use crate::hashing::digest_of;
use crate::hashing::pieces::digests;
use crate::hashing::source::Source;
use crate::hex::hex;
use crate::output::Failure;
use crate::sum::names::HashId;

/// Bytes of a file that a thread takes at a time for the CRC of the whole file.
const PIECE_SIZE: u64 = 8 << 20;

/// The function of a checksum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Checksum {
    Digest(Algorithm),
    /// A CRC, and its number of bytes.
    Crc(CrcAlgorithm, usize),
}

const CHECKSUMS: [(&str, Checksum); 6] = [
    ("md5", Checksum::Digest(Algorithm::Md5)),
    ("sha1", Checksum::Digest(Algorithm::Sha1)),
    ("sha256", Checksum::Digest(Algorithm::Sha256)),
    ("crc32", Checksum::Crc(CrcAlgorithm::Crc32IsoHdlc, 4)),
    ("crc32c", Checksum::Crc(CrcAlgorithm::Crc32Iscsi, 4)),
    ("crc64nvme", Checksum::Crc(CrcAlgorithm::Crc64Nvme, 8)),
];

impl Checksum {
    /// Returns the function of this name.
    ///
    /// # Errors
    /// Describes a function that S3 does not have.
    pub(super) fn from_name(name: &str) -> Result<Self, String> {
        let known = if let Some(id) = HashId::from_name(name) { id.name() } else { name };
        let found = CHECKSUMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(known));
        found.map(|(_, checksum)| *checksum).ok_or_else(|| {
            format!("S3 has no checksums by {name}, only by md5, sha1, sha256, crc32, crc32c and crc64nvme")
        })
    }

    pub(super) fn name(self) -> &'static str {
        CHECKSUMS.iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }

    /// True if S3 also computes this checksum for objects in parts, from the checksums of the parts.
    pub(super) fn is_composite(self) -> bool {
        !matches!(self, Self::Crc(CrcAlgorithm::Crc64Nvme, _))
    }

    /// Returns the number of bytes of a value.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Digest(algorithm) => algorithm.digest_size(),
            Self::Crc(_, size) => size,
        }
    }

    /// Returns the value of one message.
    pub(super) fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Digest(algorithm) => digest_of(algorithm, &[message]),
            Self::Crc(algorithm, size) => bytes(checksum(algorithm, message), size),
        }
    }

    /// Returns the values of consecutive parts of a file, concatenated. An empty file has one part.
    pub(super) fn of_parts(self, source: &Source, part: u64, threads: usize) -> Result<Vec<u8>, Failure> {
        if source.length == 0 {
            return Ok(self.of(&[]));
        }
        match self {
            Self::Digest(algorithm) => digests(source, algorithm, part, threads),
            Self::Crc(algorithm, size) => {
                let all = crcs(source, algorithm, part, threads)?;
                Ok(all.into_iter().flat_map(|crc| bytes(crc, size)).collect())
            }
        }
    }

    /// Returns the value of a whole file.
    pub(super) fn of_whole(self, source: &Source, threads: usize) -> Result<Vec<u8>, Failure> {
        let Self::Crc(algorithm, size) = self else { return self.of_parts(source, source.length.max(1), 1) };
        let mut whole = checksum(algorithm, &[]);
        let mut left = source.length;
        for crc in crcs(source, algorithm, PIECE_SIZE, threads)? {
            let length = left.min(PIECE_SIZE);
            whole = checksum_combine(algorithm, whole, crc, length);
            left -= length;
        }
        Ok(bytes(whole, size))
    }

    /// Formats a value as S3 does: ETags in hexadecimal digits, other checksums in Base64.
    pub(super) fn text(self, value: &[u8]) -> String {
        if self.is_hex() { hex(value) } else { BASE64.encode(value) }
    }

    pub(super) fn is_hex(self) -> bool {
        self == Self::Digest(Algorithm::Md5)
    }

    /// Begins a message in pieces.
    pub(super) fn begin(self) -> RunningChecksum {
        match self {
            Self::Digest(algorithm) => RunningChecksum::Digest(Hasher::new(algorithm)),
            Self::Crc(algorithm, _) => RunningChecksum::Crc(crc_fast::Digest::new(algorithm)),
        }
    }

    /// Ends a message in pieces, and returns its value.
    pub(super) fn end(self, running: RunningChecksum) -> Result<Vec<u8>, Failure> {
        let mut value = vec![0; self.size()];
        match running {
            RunningChecksum::Digest(mut hasher) => {
                hasher.finish(&mut value).map_err(|error| Failure::Failed(error.to_string()))?;
            }
            RunningChecksum::Crc(crc) => value = bytes(crc.finalize(), self.size()),
        }
        Ok(value)
    }
}

/// A message in pieces.
pub(super) enum RunningChecksum {
    Digest(Hasher<'static>),
    Crc(crc_fast::Digest),
}

/// Returns the last `size` bytes of a CRC, in network order.
fn bytes(crc: u64, size: usize) -> Vec<u8> {
    crc.to_be_bytes()[8 - size..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crcs_have_their_check_values() {
        for (name, value) in [("crc32", "cbf43926"), ("crc32c", "e3069283"), ("crc64nvme", "ae8b14860a799888")] {
            let checksum = Checksum::from_name(name).unwrap();
            assert_eq!(hex(&checksum.of(b"123456789")), value, "{name}");
            assert_eq!(checksum.name(), name);
        }
    }
}

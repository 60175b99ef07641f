//! The superblock of dm-verity, as veritysetup writes it (`struct verity_sb` of cryptsetup's lib/verity/verity.c): 512 bytes, little-endian
//! numbers.

use std::fmt;

use crate::dm_verity::{HashFunction, function_of_name, is_block_size};

/// Bytes of a superblock.
pub(crate) const SUPERBLOCK_SIZE: usize = 512;

/// Most bytes of a salt.
const MAX_SALT_SIZE: usize = 256;

const SIGNATURE: [u8; 8] = *b"verity\0\0";

/// Parameters of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// 1, or 0 for the format of Chrome OS.
    pub(crate) format: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) function: HashFunction,
    pub(crate) data_block_size: usize,
    pub(crate) hash_block_size: usize,
    pub(crate) data_blocks: u64,
    pub(crate) salt: Vec<u8>,
}

/// Reasons why a superblock is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SuperblockError {
    Signature,
    Version(u32),
    Format(u32),
    Hash,
    DataBlock(u32),
    HashBlock(u32),
    Salt(u16),
}

impl fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuperblockError::Signature => f.write_str("it has no dm-verity superblock"),
            SuperblockError::Version(version) => write!(f, "unknown version {version} of the superblock; supported: 1"),
            SuperblockError::Format(format) => write!(f, "unknown format {format} of the tree; supported: 0 and 1"),
            SuperblockError::Hash => f.write_str("unknown hash function in its superblock"),
            SuperblockError::DataBlock(bytes) => {
                write!(f, "invalid size of data blocks in its superblock: {bytes} bytes")
            }
            SuperblockError::HashBlock(bytes) => {
                write!(f, "invalid size of tree blocks in its superblock: {bytes} bytes")
            }
            SuperblockError::Salt(bytes) => {
                write!(f, "invalid size of the salt in its superblock: {bytes} bytes, at most {MAX_SALT_SIZE}")
            }
        }
    }
}

impl Superblock {
    pub(crate) fn read(bytes: &[u8; SUPERBLOCK_SIZE]) -> Result<Self, SuperblockError> {
        let u32_at = |at: usize| u32::from_le_bytes(array(bytes, at));
        let block = |at: usize| usize::try_from(u32_at(at)).ok().filter(|bytes| is_block_size(*bytes));
        if array(bytes, 0) != SIGNATURE {
            return Err(SuperblockError::Signature);
        }
        let (version, format) = (u32_at(8), u32_at(12));
        if version != 1 {
            return Err(SuperblockError::Version(version));
        }
        if format > 1 {
            return Err(SuperblockError::Format(format));
        }
        let name: [u8; 32] = array(bytes, 32);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let salt = u16::from_le_bytes(array(bytes, 80));
        if usize::from(salt) > MAX_SALT_SIZE {
            return Err(SuperblockError::Salt(salt));
        }
        Ok(Superblock {
            format,
            uuid: array(bytes, 16),
            function: function_of_name(name).ok_or(SuperblockError::Hash)?,
            data_block_size: block(64).ok_or(SuperblockError::DataBlock(u32_at(64)))?,
            hash_block_size: block(68).ok_or(SuperblockError::HashBlock(u32_at(68)))?,
            data_blocks: u64::from_le_bytes(array(bytes, 72)),
            salt: bytes[88..88 + usize::from(salt)].to_vec(),
        })
    }

    pub(crate) fn write(&self) -> [u8; SUPERBLOCK_SIZE] {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &SIGNATURE);
        put(8, &1u32.to_le_bytes());
        put(12, &self.format.to_le_bytes());
        put(16, &self.uuid);
        put(32, self.function.name().as_bytes());
        // Blocks have at most 512 KiB, and salts at most 256 bytes.
        put(64, &(self.data_block_size as u32).to_le_bytes());
        put(68, &(self.hash_block_size as u32).to_le_bytes());
        put(72, &self.data_blocks.to_le_bytes());
        put(80, &(self.salt.len() as u16).to_le_bytes());
        put(88, &self.salt);
        bytes
    }
}

/// Returns the bytes at an offset within the superblock.
fn array<const N: usize>(bytes: &[u8; SUPERBLOCK_SIZE], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            format: 1,
            uuid: *b"0123456789abcdef",
            function: HashFunction::Lanes(gantry_digest::Algorithm::Sha512),
            data_block_size: 4096,
            hash_block_size: 512,
            data_blocks: 1 << 40,
            salt: vec![7; 256],
        }
    }

    #[test]
    fn a_superblock_is_parsed_as_written() {
        assert_eq!(Superblock::read(&superblock().write()), Ok(superblock()));
    }

    #[test]
    fn a_superblock_with_absurd_numbers_is_refused() {
        for (at, bytes, error) in [
            (0, &b"VERITY"[..], SuperblockError::Signature),
            (8, &[2], SuperblockError::Version(2)),
            (12, &[2], SuperblockError::Format(2)),
            (32, b"md6\0", SuperblockError::Hash),
            (32, &[b'a'; 32], SuperblockError::Hash),
            (64, &[0, 0, 0, 0], SuperblockError::DataBlock(0)),
            (64, &[0, 0, 0, 0x80], SuperblockError::DataBlock(1 << 31)),
            (68, &[0, 3, 0, 0], SuperblockError::HashBlock(768)),
            (80, &[1, 1], SuperblockError::Salt(257)),
        ] {
            let mut block = superblock().write();
            block[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(Superblock::read(&block), Err(error));
        }
    }
}

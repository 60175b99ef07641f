//! The superblock of dm-verity, as veritysetup writes it (`struct verity_sb` of cryptsetup's lib/verity/verity.c): 512 bytes, numbers in
//! little-endian order.

use std::fmt;

use gantry_digest::Algorithm;

/// Bytes of a superblock.
pub(crate) const SUPERBLOCK: usize = 512;

/// Most bytes of a salt.
const MOST_SALT: usize = 256;

const SIGNATURE: [u8; 8] = *b"verity\0\0";

/// The hash functions whose names are the same for dm-verity and here.
pub(crate) const HASHES: [Algorithm; 9] = [
    Algorithm::Sha1,
    Algorithm::Sha224,
    Algorithm::Sha256,
    Algorithm::Sha384,
    Algorithm::Sha512,
    Algorithm::Sha3_224,
    Algorithm::Sha3_256,
    Algorithm::Sha3_384,
    Algorithm::Sha3_512,
];

pub(crate) fn hash_of_name(name: &[u8]) -> Option<Algorithm> {
    HASHES.into_iter().find(|algorithm| algorithm.as_str().as_bytes() == name)
}

/// Whether blocks may have so many bytes: 512 to 524288, as of veritysetup.
pub(crate) fn is_block(bytes: usize) -> bool {
    bytes.is_power_of_two() && (512..=512 << 10).contains(&bytes)
}

/// What a tree is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// 1, or 0 for the format of Chrome OS.
    pub(crate) format: u32,
    pub(crate) uuid: [u8; 16],
    pub(crate) algorithm: Algorithm,
    pub(crate) data_block: usize,
    pub(crate) hash_block: usize,
    pub(crate) data_blocks: u64,
    pub(crate) salt: Vec<u8>,
}

/// Why bytes are no superblock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Signature,
    Version(u32),
    Format(u32),
    Hash,
    DataBlock(u32),
    HashBlock(u32),
    Salt(u16),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Signature => f.write_str("there is no superblock of dm-verity"),
            Wrong::Version(version) => write!(f, "a superblock of version {version}; 1 is known"),
            Wrong::Format(format) => write!(f, "a tree of format {format}; 0 and 1 are known"),
            Wrong::Hash => f.write_str("its superblock names an unknown hash function"),
            Wrong::DataBlock(bytes) => write!(f, "its superblock says that blocks of the data have {bytes} bytes"),
            Wrong::HashBlock(bytes) => write!(f, "its superblock says that blocks of the tree have {bytes} bytes"),
            Wrong::Salt(bytes) => {
                write!(f, "its superblock says that the salt has {bytes} bytes; {MOST_SALT} are the most")
            }
        }
    }
}

impl Superblock {
    pub(crate) fn read(bytes: &[u8; SUPERBLOCK]) -> Result<Self, Wrong> {
        let u32_at = |at: usize| u32::from_le_bytes(array(bytes, at));
        let block = |at: usize| usize::try_from(u32_at(at)).ok().filter(|bytes| is_block(*bytes));
        if array(bytes, 0) != SIGNATURE {
            return Err(Wrong::Signature);
        }
        let (version, format) = (u32_at(8), u32_at(12));
        if version != 1 {
            return Err(Wrong::Version(version));
        }
        if format > 1 {
            return Err(Wrong::Format(format));
        }
        let name: [u8; 32] = array(bytes, 32);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let salt = u16::from_le_bytes(array(bytes, 80));
        if usize::from(salt) > MOST_SALT {
            return Err(Wrong::Salt(salt));
        }
        Ok(Superblock {
            format,
            uuid: array(bytes, 16),
            algorithm: hash_of_name(name).ok_or(Wrong::Hash)?,
            data_block: block(64).ok_or(Wrong::DataBlock(u32_at(64)))?,
            hash_block: block(68).ok_or(Wrong::HashBlock(u32_at(68)))?,
            data_blocks: u64::from_le_bytes(array(bytes, 72)),
            salt: bytes[88..88 + usize::from(salt)].to_vec(),
        })
    }

    pub(crate) fn write(&self) -> [u8; SUPERBLOCK] {
        let mut bytes = [0; SUPERBLOCK];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &SIGNATURE);
        put(8, &1u32.to_le_bytes());
        put(12, &self.format.to_le_bytes());
        put(16, &self.uuid);
        put(32, self.algorithm.as_str().as_bytes());
        // Blocks have 512 KiB at most, and salts 256 bytes.
        put(64, &(self.data_block as u32).to_le_bytes());
        put(68, &(self.hash_block as u32).to_le_bytes());
        put(72, &self.data_blocks.to_le_bytes());
        put(80, &(self.salt.len() as u16).to_le_bytes());
        put(88, &self.salt);
        bytes
    }
}

/// The bytes at a place that is within the superblock.
fn array<const N: usize>(bytes: &[u8; SUPERBLOCK], at: usize) -> [u8; N] {
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
            algorithm: Algorithm::Sha512,
            data_block: 4096,
            hash_block: 512,
            data_blocks: 1 << 40,
            salt: vec![7; 256],
        }
    }

    #[test]
    fn a_superblock_is_read_as_it_was_written() {
        assert_eq!(Superblock::read(&superblock().write()), Ok(superblock()));
    }

    #[test]
    fn a_superblock_with_absurd_numbers_is_refused() {
        for (at, bytes, wrong) in [
            (0, &b"VERITY"[..], Wrong::Signature),
            (8, &[2], Wrong::Version(2)),
            (12, &[2], Wrong::Format(2)),
            (32, b"md6\0", Wrong::Hash),
            (32, &[b'a'; 32], Wrong::Hash),
            (64, &[0, 0, 0, 0], Wrong::DataBlock(0)),
            (64, &[0, 0, 0, 0x80], Wrong::DataBlock(1 << 31)),
            (68, &[0, 3, 0, 0], Wrong::HashBlock(768)),
            (80, &[1, 1], Wrong::Salt(257)),
        ] {
            let mut block = superblock().write();
            block[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(Superblock::read(&block), Err(wrong));
        }
    }
}

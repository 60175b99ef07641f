//! Hashes blocks side by side with `gantry-digest`, or one after the other with RustCrypto.

use digest::DynDigest;
use gantry_digest::{Salt, tree_level};

use crate::dm_verity::HashFunction;
use crate::output::Failure;

impl HashFunction {
    /// Writes the digest of each block of `block_size` bytes, with the salt. Pads the last block with zeros.
    pub(crate) fn digest_blocks(
        self,
        salt: Salt<'_>,
        block_size: usize,
        data: &[u8],
        digests: &mut [u8],
    ) -> Result<(), Failure> {
        let mut message: Box<dyn DynDigest> = match self {
            HashFunction::Lanes(algorithm) => {
                let hashed = tree_level(algorithm, salt, block_size, data, digests);
                return hashed.map_err(|error| Failure::Failed(error.to_string()));
            }
            HashFunction::Blake2s256 => Box::new(blake2::Blake2s256::default()),
            HashFunction::Ripemd160 | HashFunction::Rmd160 => Box::new(ripemd::Ripemd160::default()),
            HashFunction::Sm3 => Box::new(sm3::Sm3::default()),
        };
        for (part, digest) in data.chunks(block_size).zip(digests.chunks_mut(self.digest_size())) {
            if let Salt::Before(salt) = salt {
                message.update(salt);
            }
            message.update(part);
            message.update(&vec![0; block_size - part.len()]);
            if let Salt::After(salt) = salt {
                message.update(salt);
            }
            message.finalize_into_reset(digest).map_err(|error| Failure::Failed(error.to_string()))?;
        }
        Ok(())
    }
}

//! `tree_level`: the digests of the blocks of one buffer.

use gantry_digest::{Algorithm, Salt};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::{Message, type_name};
use crate::many::copy_secret;
use crate::memory::{Memory, ROUND_BYTES, allocate};

/// Maximum bytes of a block. The zeros that fill up the last block are hashed in one call, which signals cannot interrupt.
const MAX_BLOCK_BYTES: usize = 1 << 30;

/// Returns the concatenated digests of the blocks of `block` bytes of one buffer: the lowest level of a Merkle tree over the buffer.
/// For the level above, pass this result as `data`; it is also padded with zeros to whole blocks.
///
/// The last block is padded with zeros. The salt is hashed before each block, as in dm-verity's hash type 1 and in fs-verity. fs-verity
/// pads its salt with zeros to a block of the hash function. With `salt_behind`, the salt is hashed after each block, as in hash type 0.
/// Empty data have no blocks.
///
/// ValueError: an unknown algorithm, a block of 0 bytes or of more than 2**30. OverflowError: a negative block size.
/// TypeError: data or a salt that is not a buffer. MemoryError: there is not enough memory for the digests.
#[pyfunction]
#[pyo3(signature = (alg, data, block, salt = None, *, salt_behind = false))]
pub(crate) fn tree_level<'py>(
    alg: &str,
    data: &Bound<'py, PyAny>,
    block: usize,
    salt: Option<&Bound<'_, PyAny>>,
    salt_behind: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let algorithm = crate::algorithm::parse(alg)?;
    if !(1..=MAX_BLOCK_BYTES).contains(&block) {
        return Err(PyValueError::new_err(format!("a block must have 1 to {MAX_BLOCK_BYTES} bytes, not {block}")));
    }
    let salt = salt.map(|salt| copy_secret("a salt", salt)).transpose()?.unwrap_or_default();
    let salt = if salt_behind { Salt::After(&salt) } else { Salt::Before(&salt) };
    let level = |len| Level::new(algorithm, salt, block, len);
    let py = data.py();
    let output = match Message::from_object(data, 0) {
        Ok(Message::Bytes(bytes)) => {
            let mut level = level(bytes.len())?;
            for piece in bytes.chunks(level.round_bytes) {
                py.detach(|| level.hash(piece));
                py.check_signals()?;
            }
            level.output
        }
        Ok(Message::Buffer(buffer)) => {
            let memory = Memory::new(&buffer)?;
            let (mut level, mut copy) = (level(memory.len())?, Vec::new());
            for piece in memory.pieces(level.round_bytes) {
                py.detach(|| {
                    copy.clear();
                    piece.copy_to(&mut copy);
                    level.hash(&copy);
                });
                py.check_signals()?;
            }
            level.output
        }
        _ => {
            return Err(PyTypeError::new_err(format!(
                "data must be bytes or a contiguous buffer, not {}",
                type_name(data)
            )));
        }
    };
    Ok(PyBytes::new(py, &output))
}

/// A level under construction.
struct Level<'a> {
    algorithm: Algorithm,
    salt: Salt<'a>,
    block_size: usize,
    /// Bytes of whole blocks that are hashed at a time, about `ROUND_BYTES`.
    round_bytes: usize,
    output: Vec<u8>,
}

impl<'a> Level<'a> {
    /// Makes a level with room for the digests of `len` bytes of data.
    fn new(algorithm: Algorithm, salt: Salt<'a>, block: usize, len: usize) -> PyResult<Self> {
        let output = allocate(len.div_ceil(block).saturating_mul(algorithm.digest_size()))?;
        Ok(Self { algorithm, salt, block_size: block, round_bytes: (ROUND_BYTES / block).max(1) * block, output })
    }

    /// Adds the digests of the blocks of `data`, of which only the last one may be short.
    fn hash(&mut self, data: &[u8]) {
        let begin = self.output.len();
        self.output.resize(begin + data.len().div_ceil(self.block_size) * self.algorithm.digest_size(), 0);
        let done =
            gantry_digest::tree_level(self.algorithm, self.salt, self.block_size, data, &mut self.output[begin..]);
        debug_assert_eq!(done, Ok(()), "the output has the right size");
    }
}

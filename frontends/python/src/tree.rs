//! `tree_level`: the digests of the blocks of one buffer.

use gantry_digest::{Algorithm, Salt};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::{Message, kind};
use crate::many::copied;
use crate::memory::{Memory, room};

/// Bytes of a block, at most. The zeros behind the data, up to the end of their block, are hashed in one call, which no signal ends.
const MOST: usize = 1 << 30;
/// Bytes that are hashed between two looks at signals, if a block is not longer.
const ROUND: usize = 4 << 20;

/// A level of a Merkle tree; see `__init__.pyi`.
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
    if !(1..=MOST).contains(&block) {
        return Err(PyValueError::new_err(format!("a block has 1 to {MOST} bytes, not {block}")));
    }
    let salt = salt.map(|salt| copied("a salt", salt)).transpose()?.unwrap_or_default();
    let salt = if salt_behind { Salt::Behind(&salt) } else { Salt::Before(&salt) };
    let level = |len| Level::new(algorithm, salt, block, len);
    let py = data.py();
    let output = match Message::of(data, 0) {
        Ok(Message::Bytes(bytes)) => {
            let mut level = level(bytes.len())?;
            for piece in bytes.chunks(level.round) {
                py.detach(|| level.hash(piece));
                py.check_signals()?;
            }
            level.output
        }
        Ok(Message::Buffer(buffer)) => {
            let memory = Memory::of(&buffer)?;
            let (mut level, mut copy) = (level(memory.len())?, Vec::new());
            for piece in memory.pieces(level.round) {
                py.detach(|| {
                    copy.clear();
                    piece.copy_to(&mut copy);
                    level.hash(&copy);
                });
                py.check_signals()?;
            }
            level.output
        }
        _ => return Err(PyTypeError::new_err(format!("data are bytes or a contiguous buffer, not {}", kind(data)))),
    };
    Ok(PyBytes::new(py, &output))
}

/// A level in the making.
struct Level<'a> {
    algorithm: Algorithm,
    salt: Salt<'a>,
    block: usize,
    /// Bytes of whole blocks that are hashed at a time.
    round: usize,
    output: Vec<u8>,
}

impl<'a> Level<'a> {
    /// With room for the digests of `len` bytes.
    fn new(algorithm: Algorithm, salt: Salt<'a>, block: usize, len: usize) -> PyResult<Self> {
        let output = room(len.div_ceil(block).saturating_mul(algorithm.digest_size()))?;
        Ok(Self { algorithm, salt, block, round: (ROUND / block).max(1) * block, output })
    }

    /// Adds the digests of the blocks of `data`, of which only the last one may be short.
    fn hash(&mut self, data: &[u8]) {
        let begin = self.output.len();
        self.output.resize(begin + data.len().div_ceil(self.block) * self.algorithm.digest_size(), 0);
        let done = gantry_digest::tree_level(self.algorithm, self.salt, self.block, data, &mut self.output[begin..]);
        debug_assert_eq!(done, Ok(()), "there is a block, and room for its digest");
    }
}

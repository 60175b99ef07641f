//! `update_many`: the next pieces of many messages, taken in side by side.

use std::sync::MutexGuard;

use gantry_digest::{Algorithm, Hasher};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::buffers::{Message, Messages, kind};
use crate::hash::Hash;
use crate::memory::{Memory, PIECE};

/// Gives each message its next piece; see `__init__.pyi`.
#[pyfunction]
#[pyo3(signature = (messages, pieces, /))]
pub(crate) fn update_many(py: Python<'_>, messages: &Bound<'_, PyAny>, pieces: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut held = Vec::new();
    for (index, message) in messages.try_iter()?.enumerate() {
        let message = message?;
        held.push(message.cast_into::<Hash>().map_err(|error| {
            PyTypeError::new_err(format!("message {index} is no Hash, but a {}", kind(&error.into_inner())))
        })?);
    }
    let given = Messages::of(pieces, "pieces")?.collect::<PyResult<Vec<_>>>()?;
    if given.len() != held.len() {
        return Err(PyValueError::new_err(format!("{} messages, and {} pieces", held.len(), given.len())));
    }
    let given = given.iter().enumerate().map(|(index, piece)| Piece::of(piece, index)).collect::<PyResult<Vec<_>>>()?;
    let mut updates: Vec<(&Hash, Piece<'_>)> = held.iter().map(Bound::get).zip(given).collect();
    // Every thread locks messages in the order of their addresses, so that no two wait for each other.
    updates.sort_by_key(|(hash, _)| std::ptr::from_ref::<Hash>(hash));
    if updates.windows(2).any(|pair| std::ptr::eq(pair[0].0, pair[1].0)) {
        return Err(PyValueError::new_err("a message is named twice"));
    }
    py.detach(|| {
        let locked = updates.iter().map(|(hash, piece)| (hash.algorithm(), hash.lock(), piece));
        let mut locked: Vec<_> = locked.collect();
        locked.sort_by_key(|(algorithm, ..)| *algorithm as usize);
        locked.chunk_by_mut(|(one, ..), (other, ..)| one == other).for_each(update);
    });
    py.check_signals()
}

/// The bytes of a piece.
enum Piece<'a> {
    /// Bytes that nobody changes.
    Bytes(&'a [u8]),
    /// Bytes that others may write.
    Memory(Memory<'a>),
}

impl<'a> Piece<'a> {
    fn of(message: &'a Message, index: usize) -> PyResult<Self> {
        match message {
            Message::Bytes(bytes) => Ok(Self::Bytes(bytes)),
            Message::Buffer(buffer) => Memory::of(buffer).map(Self::Memory),
            Message::Text(_) | Message::Null => {
                Err(PyTypeError::new_err(format!("piece {index}: bytes are needed, not str or None")))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Memory(memory) => memory.len(),
        }
    }

    /// At most `PIECE` bytes from `begin` on; `copy` has room for them.
    fn part<'b>(&'b self, begin: usize, copy: &'b mut Vec<u8>) -> &'b [u8] {
        let (begin, end) = (begin.min(self.len()), self.len().min(begin.saturating_add(PIECE)));
        match self {
            Self::Bytes(bytes) => &bytes[begin..end],
            Self::Memory(memory) => {
                copy.clear();
                memory.piece(begin, end - begin).copy_to(copy);
                copy
            }
        }
    }
}

/// Updates messages of one algorithm, at most `PIECE` bytes of each at once.
fn update(group: &mut [(Algorithm, MutexGuard<'_, Hasher<'static>>, &Piece<'_>)]) {
    let longest = group.iter().map(|(_, _, piece)| piece.len()).max().unwrap_or(0);
    let mut copies = vec![Vec::new(); group.len()];
    for begin in (0..longest).step_by(PIECE) {
        let parts = group.iter_mut().zip(&mut copies);
        let parts = parts.map(|((_, hasher, piece), copy)| (&mut **hasher, piece.part(begin, copy)));
        let mut parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty()).collect();
        let done = gantry_digest::update_many(&mut parts);
        debug_assert_eq!(done, Ok(()), "all are of one algorithm");
    }
}

//! `update_many`: adds chunks to many messages, side by side.

use std::sync::MutexGuard;

use gantry_digest::{Algorithm, Hasher};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::buffers::{Message, Messages, refuse_unordered, type_name};
use crate::hash::Hash;
use crate::memory::{PIECE_BYTES, ROUND_BYTES, Source};

/// Adds a chunk to each message, at most 64 KiB at a time, side by side for messages of one algorithm. Chunks may have any lengths.
///
/// ValueError: a message occurs twice; lists of different lengths. TypeError: a chunk is not bytes. No message is changed then.
#[pyfunction]
#[pyo3(signature = (messages, pieces, /))]
pub(crate) fn update_many(py: Python<'_>, messages: &Bound<'_, PyAny>, pieces: &Bound<'_, PyAny>) -> PyResult<()> {
    refuse_unordered(messages, "messages")?;
    let mut hashes = Vec::new();
    for (index, message) in messages.try_iter()?.enumerate() {
        let message = message?;
        hashes.push(message.cast_into::<Hash>().map_err(|error| {
            PyTypeError::new_err(format!("message {index} must be a Hash, not {}", type_name(&error.into_inner())))
        })?);
    }
    let pieces = Messages::new(pieces, "pieces")?.collect::<PyResult<Vec<_>>>()?;
    if pieces.len() != hashes.len() {
        return Err(PyValueError::new_err(format!("{} messages, but {} pieces", hashes.len(), pieces.len())));
    }
    let pieces = pieces.iter().enumerate().map(|(index, piece)| source(piece, index)).collect::<PyResult<Vec<_>>>()?;
    let longest = pieces.iter().map(Source::len).max().unwrap_or(0);
    let mut updates: Vec<(&Hash, Source<'_>)> = hashes.iter().map(Bound::get).zip(pieces).collect();
    // Messages are locked in the order of their addresses, so that two threads cannot deadlock.
    updates.sort_by_key(|(hash, _)| std::ptr::from_ref::<Hash>(hash));
    if updates.windows(2).any(|pair| std::ptr::eq(pair[0].0, pair[1].0)) {
        return Err(PyValueError::new_err("a message occurs twice"));
    }
    let mut states_before: Vec<Hasher<'static>> = Vec::new();
    for begin in (0..longest).step_by(ROUND_BYTES) {
        py.detach(|| {
            let locked = updates.iter().map(|(hash, piece)| (hash.algorithm(), hash.lock(), piece));
            let mut locked: Vec<_> = locked.collect();
            if begin == 0 && longest > ROUND_BYTES {
                states_before = locked.iter().map(|(_, hasher, _)| Hasher::clone(hasher)).collect();
            }
            locked.sort_by_key(|(algorithm, ..)| *algorithm as usize);
            locked.chunk_by_mut(|(one, ..), (other, ..)| one == other).for_each(|group| update_group(group, begin));
        });
        // After a single round there is no state to restore; Python handles signals after the call.
        if longest > ROUND_BYTES
            && let Err(error) = py.check_signals()
        {
            let states = updates.iter().zip(states_before);
            py.detach(|| states.for_each(|((hash, _), before)| *hash.lock() = before));
            return Err(error);
        }
    }
    Ok(())
}

fn source(message: &Message, index: usize) -> PyResult<Source<'_>> {
    match message {
        Message::Text(_) | Message::Null => {
            Err(PyTypeError::new_err(format!("piece {index}: expected bytes, not str or None")))
        }
        bytes => Ok(bytes.source()?.unwrap_or(Source::Bytes(&[]))),
    }
}

/// Updates messages of one algorithm with at most `ROUND_BYTES` bytes of each from `begin` on.
fn update_group(group: &mut [(Algorithm, MutexGuard<'_, Hasher<'static>>, &Source<'_>)], begin: usize) {
    let longest = group.iter().map(|(_, _, piece)| piece.len()).max().unwrap_or(0);
    let mut copies = vec![Vec::new(); group.len()];
    for begin in (begin..longest.min(begin.saturating_add(ROUND_BYTES))).step_by(PIECE_BYTES) {
        let parts = group.iter_mut().zip(&mut copies);
        let parts = parts.map(|((_, hasher, piece), copy)| (&mut **hasher, piece.part(begin, copy)));
        let mut parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty()).collect();
        let done = gantry_digest::update_many(&mut parts);
        debug_assert_eq!(done, Ok(()), "all hashers have the same algorithm");
    }
}

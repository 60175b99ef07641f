//! `digest_many`: messages of columns, lists and arrays, in blocks that are hashed side by side.

use gantry_abi_arrow::Column;
use gantry_digest::HmacKey;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyString;
use zeroize::Zeroizing;

use crate::arrow;
use crate::buffers::{Message, Messages, Rows, kind};
use crate::digests::Digests;
use crate::memory::{Memory, PIECE};
use crate::results::{Hashing, Results};

/// Messages of a block: enough to fill the lanes, few enough for the cache and for a look at signals.
const BLOCK: usize = 1024;
/// Bytes after which a block ends.
const BLOCK_BYTES: usize = 4 << 20;
/// Long buffers side by side.
const STREAMS: usize = 32;

/// Digests of many values; see `__init__.pyi`.
#[pyfunction]
#[pyo3(signature = (alg, values, key = None, hex = false))]
pub(crate) fn digest_many(
    alg: &str,
    values: &Bound<'_, PyAny>,
    key: Option<&Bound<'_, PyAny>>,
    hex: bool,
) -> PyResult<Digests> {
    let algorithm = crate::algorithm::parse(alg)?;
    let key = key.map(|key| copied("a key", key)).transpose()?.map(|key| HmacKey::new(algorithm, &key));
    let mut results = Results::new(Hashing { algorithm, key }, hex);
    if let Some(columns) = arrow::columns(values)? {
        hash_columns(values.py(), columns, &mut results)?;
    } else if let Some(rows) = Rows::of(values)? {
        hash_rows(values.py(), &rows, &mut results)?;
    } else {
        let messages = Messages::of(values, "values").map_err(|_| {
            PyTypeError::new_err(format!("values of type {} are not a column or a list of buffers", kind(values)))
        })?;
        results.begin(values.len().unwrap_or(0))?;
        hash_messages(values.py(), messages, &mut results)?;
    }
    Ok(Digests::new(results.kind, results.finished))
}

/// A copy of a key or a salt, zeroized when it is dropped. `what` it is stands in the error that it is none.
pub(crate) fn copied(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<u8>>> {
    let mut copy = Zeroizing::new(Vec::new());
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("{what} is bytes, not str")));
    }
    match Message::of(object, 0) {
        Ok(Message::Bytes(bytes)) => copy.extend_from_slice(&bytes),
        Ok(Message::Buffer(buffer)) => {
            let memory = Memory::of(&buffer)?;
            copy.reserve_exact(memory.len());
            memory.copy_to(&mut copy);
        }
        _ => return Err(PyTypeError::new_err(format!("{what} is bytes, not {}", kind(object)))),
    }
    Ok(copy)
}

fn hash_columns(py: Python<'_>, columns: arrow::Columns, results: &mut Results) -> PyResult<()> {
    let (mut columns, mut before) = (columns, 0);
    while let Some(column) = py.detach(|| columns.next()) {
        let refuse = |error: gantry_abi_arrow::Error| arrow::error(&error.behind(before));
        let column = column.map_err(refuse)?;
        results.begin(column.len())?;
        let mut next = 0;
        while next < column.len() {
            next = py.detach(|| hash_block(&column, next, results)).map_err(refuse)?;
            py.check_signals()?;
        }
        before += column.len();
    }
    Ok(())
}

/// Hashes a block of a column; the answer is where the next one begins.
fn hash_block(column: &Column, begin: usize, results: &mut Results) -> Result<usize, gantry_abi_arrow::Error> {
    let (mut messages, mut bytes) = (Vec::with_capacity(BLOCK), 0);
    let most = BLOCK.min(column.len() - begin);
    while messages.len() < most && bytes < BLOCK_BYTES {
        let value = column.value(begin + messages.len())?;
        bytes += value.map_or(0, <[u8]>::len);
        messages.push(value);
    }
    results.hash(&messages);
    Ok(begin + messages.len())
}

/// A block of messages, held until it is hashed.
#[derive(Default)]
struct Block {
    messages: Vec<Held>,
    /// Copies of short buffers.
    copies: Vec<u8>,
    bytes: usize,
}

enum Held {
    Null,
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    /// Where the copy ends.
    Copy(usize),
}

impl Block {
    fn copy(&mut self, memory: Memory<'_>) {
        memory.copy_to(&mut self.copies);
        self.messages.push(Held::Copy(self.copies.len()));
        self.bytes += memory.len();
    }

    fn is_full(&self) -> bool {
        self.messages.len() >= BLOCK || self.bytes >= BLOCK_BYTES
    }

    fn hash(&mut self, py: Python<'_>, results: &mut Results) -> PyResult<()> {
        py.detach(|| {
            let mut begin = 0;
            let slices = self.messages.iter().map(|message| match message {
                Held::Null => None,
                Held::Bytes(bytes) => Some(&**bytes),
                Held::Text(text) => Some(text.as_bytes()),
                Held::Copy(end) => Some(&self.copies[std::mem::replace(&mut begin, *end)..*end]),
            });
            results.hash(&slices.collect::<Vec<_>>());
        });
        self.messages.clear();
        self.copies.clear();
        self.bytes = 0;
        py.check_signals()
    }
}

fn hash_messages(py: Python<'_>, messages: Messages<'_>, results: &mut Results) -> PyResult<()> {
    let (mut block, mut long) = (Block::default(), Vec::new());
    for message in messages {
        let message = message?;
        // Results are in order: what is of the other kind goes first.
        let is_long = matches!(&message, Message::Buffer(buffer) if buffer.len_bytes() > PIECE);
        if is_long && !block.messages.is_empty() {
            block.hash(py, results)?;
        } else if !long.is_empty() && (!is_long || long.len() == STREAMS) {
            hash_buffers(py, &long, results)?;
            long.clear();
        }
        match message {
            Message::Null => block.messages.push(Held::Null),
            Message::Bytes(bytes) => {
                block.bytes += bytes.len();
                block.messages.push(Held::Bytes(bytes));
            }
            Message::Text(text) => {
                block.bytes += text.len();
                block.messages.push(Held::Text(text));
            }
            Message::Buffer(buffer) if is_long => long.push(buffer),
            Message::Buffer(buffer) => block.copy(Memory::of(&buffer)?),
        }
        if block.is_full() {
            block.hash(py, results)?;
        }
    }
    hash_buffers(py, &long, results)?;
    block.hash(py, results)
}

fn hash_buffers(py: Python<'_>, buffers: &[PyUntypedBuffer], results: &mut Results) -> PyResult<()> {
    let memory = buffers.iter().map(Memory::of).collect::<PyResult<Vec<_>>>()?;
    py.detach(|| results.hash_long(&memory));
    py.check_signals()
}

fn hash_rows(py: Python<'_>, rows: &Rows, results: &mut Results) -> PyResult<()> {
    results.begin(rows.count)?;
    let memory = Memory::of(&rows.buffer)?;
    let row = |index: usize| memory.piece(index * rows.size, rows.size);
    if rows.size > PIECE {
        for begin in (0..rows.count).step_by(STREAMS) {
            let end = rows.count.min(begin + STREAMS);
            py.detach(|| results.hash_long(&(begin..end).map(row).collect::<Vec<_>>()));
            py.check_signals()?;
        }
        return Ok(());
    }
    let mut block = Block::default();
    for index in 0..rows.count {
        block.copy(row(index));
        if block.is_full() {
            block.hash(py, results)?;
        }
    }
    block.hash(py, results)
}

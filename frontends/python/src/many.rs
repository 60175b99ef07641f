//! `digest_many`: messages of columns, lists and arrays, in blocks that are hashed side by side.

use gantry_abi_arrow::Column;
use gantry_digest::HmacKey;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyString;
use zeroize::Zeroizing;

use crate::arrow;
use crate::buffers::{Message, Messages, Rows, refuse_unordered, type_name};
use crate::digests::Digests;
use crate::memory::{Memory, PIECE_BYTES, ROUND_BYTES, Source};
use crate::results::{HashConfig, Results};

/// The most messages of a block: enough to fill the lanes, and few enough for the cache and for timely checks of signals.
const MAX_BLOCK_MESSAGES: usize = 1024;
/// Bytes after which a block ends.
const MAX_BLOCK_BYTES: usize = 4 << 20;
/// The most long buffers that are hashed side by side.
const MAX_STREAMS: usize = 32;

/// Returns the digest of each value, or with a key of any length its HMAC (RFC 2104), in full length.
///
/// Columns: string, large_string, string_view, binary, large_binary, binary_view, fixed_size_binary and null, as one array or a stream of
/// arrays, and tables with one such column. They are not copied.
///
/// ValueError: an unknown algorithm; a column with invalid offsets or views, with the index of the value.
/// TypeError: a column of another type; a value that is not a buffer, with its index; a set or a dictionary.
/// MemoryError: there is not enough memory for the digests.
#[pyfunction]
#[pyo3(signature = (alg, values, key = None, hex = false))]
pub(crate) fn digest_many(
    alg: &str,
    values: &Bound<'_, PyAny>,
    key: Option<&Bound<'_, PyAny>>,
    hex: bool,
) -> PyResult<Digests> {
    let algorithm = crate::algorithm::parse(alg)?;
    let key = key.map(|key| copy_secret("a key", key)).transpose()?.map(|key| HmacKey::new(algorithm, &key));
    let mut results = Results::new(HashConfig { algorithm, key }, hex);
    if let Some(columns) = arrow::columns(values)? {
        hash_columns(values.py(), columns, &mut results)?;
    } else if let Some(rows) = Rows::from_object(values)? {
        hash_rows(values.py(), &rows, &mut results)?;
    } else {
        refuse_unordered(values, "values")?;
        let messages = Messages::new(values, "values").map_err(|_| {
            PyTypeError::new_err(format!("values of type {} are not a column or a list of buffers", type_name(values)))
        })?;
        results.start_column(values.len().unwrap_or(0))?;
        hash_messages(values.py(), messages, &mut results)?;
    }
    Ok(Digests::new(results.kind, results.finished))
}

/// Returns a copy of a key or a salt, zeroized when dropped. `name` names it in errors.
pub(crate) fn copy_secret(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<u8>>> {
    let mut copy = Zeroizing::new(Vec::new());
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("{name} must be bytes, not str")));
    }
    match Message::from_object(object, 0) {
        Ok(Message::Bytes(bytes)) => copy.extend_from_slice(&bytes),
        Ok(Message::Buffer(buffer)) => {
            let memory = Memory::new(&buffer)?;
            copy.reserve_exact(memory.len());
            memory.copy_to(&mut copy);
        }
        _ => return Err(PyTypeError::new_err(format!("{name} must be bytes, not {}", type_name(object)))),
    }
    Ok(copy)
}

fn hash_columns(py: Python<'_>, columns: arrow::Columns, results: &mut Results) -> PyResult<()> {
    let (mut columns, mut values_before) = (columns, 0);
    while let Some(column) = py.detach(|| columns.next()) {
        let refuse = |error: gantry_abi_arrow::Error| arrow::error(&error.offset_index(values_before));
        let column = column.map_err(refuse)?;
        results.start_column(column.len())?;
        let mut next = 0;
        while next < column.len() {
            let value = column.value(next).map_err(refuse)?.filter(|value| value.len() > ROUND_BYTES);
            if let Some(value) = value {
                hash_side_by_side(py, &[Source::Bytes(value)], results)?;
                next += 1;
                continue;
            }
            next = py.detach(|| hash_block(&column, next, results)).map_err(refuse)?;
            py.check_signals()?;
        }
        values_before += column.len();
    }
    Ok(())
}

/// Hashes a block of a column, and returns the start of the next one.
fn hash_block(column: &Column, begin: usize, results: &mut Results) -> Result<usize, gantry_abi_arrow::Error> {
    let (mut messages, mut bytes) = (Vec::with_capacity(MAX_BLOCK_MESSAGES), 0);
    let limit = MAX_BLOCK_MESSAGES.min(column.len() - begin);
    while messages.len() < limit && bytes < MAX_BLOCK_BYTES {
        let value = column.value(begin + messages.len())?;
        let len = value.map_or(0, <[u8]>::len);
        if len > ROUND_BYTES {
            break;
        }
        bytes += len;
        messages.push(value);
    }
    results.hash(&messages);
    Ok(begin + messages.len())
}

/// A block of messages, held until it is hashed.
#[derive(Default)]
struct Block {
    messages: Vec<BlockMessage>,
    /// Copies of short buffers.
    copies: Vec<u8>,
    bytes: usize,
}

enum BlockMessage {
    Null,
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    /// The end of the copy.
    Copy(usize),
}

impl Block {
    fn copy(&mut self, memory: Memory<'_>) {
        memory.copy_to(&mut self.copies);
        self.messages.push(BlockMessage::Copy(self.copies.len()));
        self.bytes += memory.len();
    }

    fn is_full(&self) -> bool {
        self.messages.len() >= MAX_BLOCK_MESSAGES || self.bytes >= MAX_BLOCK_BYTES
    }

    fn hash(&mut self, py: Python<'_>, results: &mut Results) -> PyResult<()> {
        py.detach(|| {
            let mut begin = 0;
            let slices = self.messages.iter().map(|message| match message {
                BlockMessage::Null => None,
                BlockMessage::Bytes(bytes) => Some(&**bytes),
                BlockMessage::Text(text) => Some(text.as_bytes()),
                BlockMessage::Copy(end) => Some(&self.copies[std::mem::replace(&mut begin, *end)..*end]),
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
    let (mut block, mut long_messages) = (Block::default(), Vec::<Message>::new());
    for message in messages {
        let message = message?;
        // Results are in order: messages of the other kind are hashed first.
        let is_long = message.is_long();
        if is_long && !block.messages.is_empty() {
            block.hash(py, results)?;
        } else if !long_messages.is_empty() && (!is_long || long_messages.len() == MAX_STREAMS) {
            hash_messages_in_pieces(py, &long_messages, results)?;
            long_messages.clear();
        }
        match message {
            long_message if is_long => long_messages.push(long_message),
            Message::Null => block.messages.push(BlockMessage::Null),
            Message::Bytes(bytes) => {
                block.bytes += bytes.len();
                block.messages.push(BlockMessage::Bytes(bytes));
            }
            Message::Text(text) => {
                block.bytes += text.len();
                block.messages.push(BlockMessage::Text(text));
            }
            Message::Buffer(buffer) => block.copy(Memory::new(&buffer)?),
        }
        if block.is_full() {
            block.hash(py, results)?;
        }
    }
    hash_messages_in_pieces(py, &long_messages, results)?;
    block.hash(py, results)
}

fn hash_messages_in_pieces(py: Python<'_>, messages: &[Message], results: &mut Results) -> PyResult<()> {
    let sources = messages.iter().filter_map(|message| message.source().transpose()).collect::<PyResult<Vec<_>>>()?;
    hash_side_by_side(py, &sources, results)
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself is not general enough in lifetimes")]
fn hash_side_by_side(py: Python<'_>, messages: &[Source<'_>], results: &mut Results) -> PyResult<()> {
    py.detach(|| results.hash_side_by_side(messages, || Python::attach(|py| py.check_signals())))?;
    py.check_signals()
}

fn hash_rows(py: Python<'_>, rows: &Rows, results: &mut Results) -> PyResult<()> {
    results.start_column(rows.count)?;
    let memory = Memory::new(&rows.buffer)?;
    let row = |index: usize| memory.piece(index * rows.size, rows.size);
    if rows.size > PIECE_BYTES {
        for begin in (0..rows.count).step_by(MAX_STREAMS) {
            let end = rows.count.min(begin + MAX_STREAMS);
            hash_side_by_side(py, &(begin..end).map(|index| Source::Memory(row(index))).collect::<Vec<_>>(), results)?;
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

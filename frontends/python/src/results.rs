//! Results in the making: blocks of messages go in, columns of digests come out.

use std::sync::Arc;

use gantry_abi_arrow::{Made, Type};
use gantry_digest::{Algorithm, Hasher, HmacKey, digest_many, finish_many, hmac_many, update_many};
use pyo3::PyResult;

use crate::memory::{Memory, PIECE, in_large_pages, room};

/// What is done with every message.
pub(crate) struct Hashing {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: Option<HmacKey>,
}

impl Hashing {
    fn hasher(&self) -> Hasher<'_> {
        self.key.as_ref().map_or_else(|| Hasher::new(self.algorithm), HmacKey::hasher)
    }
}

/// Columns of results in the making.
pub(crate) struct Results {
    hashing: Hashing,
    pub(crate) kind: Type,
    pub(crate) finished: Vec<Arc<Made>>,
    /// Digests of a block.
    block: Vec<u8>,
}

impl Results {
    pub(crate) fn new(hashing: Hashing, hex: bool) -> Self {
        let size = hashing.algorithm.digest_size();
        let kind = if hex { Type::Text(2 * size) } else { Type::Bytes(size) };
        Self { hashing, kind, finished: Vec::new(), block: Vec::new() }
    }

    /// Results go to a new column, of `expected` values or so. MemoryError: there is no room for them.
    pub(crate) fn begin(&mut self, expected: usize) -> PyResult<()> {
        let mut data = room(expected.min(self.kind.most()).saturating_mul(self.kind.size()))?;
        in_large_pages(&mut data);
        self.add_column(data);
        Ok(())
    }

    fn add_column(&mut self, data: Vec<u8>) {
        self.finished.push(Arc::new(Made { kind: self.kind, data, validity: None, len: 0 }));
    }

    /// Hashes the messages of a block side by side; `None` stays null.
    pub(crate) fn hash(&mut self, messages: &[Option<&[u8]>]) {
        let size = self.hashing.algorithm.digest_size();
        let there: Vec<&[u8]> = messages.iter().copied().flatten().collect();
        let mut digests = std::mem::take(&mut self.block);
        digests.resize(there.len() * size, 0);
        let done = match &self.hashing.key {
            None => digest_many(self.hashing.algorithm, &there, &mut digests),
            Some(key) => hmac_many(key, &there, &mut digests),
        };
        debug_assert_eq!(done, Ok(()), "the output fits");
        self.take(messages.iter().map(Option::is_some), &digests);
        self.block = digests;
    }

    /// Hashes long messages side by side, piece by piece.
    pub(crate) fn hash_long(&mut self, messages: &[Memory<'_>]) {
        let mut hashers: Vec<_> = messages.iter().map(|_| self.hashing.hasher()).collect();
        let mut rest: Vec<_> = messages.iter().map(|memory| memory.pieces(PIECE)).collect();
        let mut copies = vec![Vec::new(); messages.len()];
        loop {
            for (pieces, copy) in rest.iter_mut().zip(&mut copies) {
                copy.clear();
                if let Some(piece) = pieces.next() {
                    piece.copy_to(copy);
                }
            }
            if copies.iter().all(Vec::is_empty) {
                break;
            }
            let mut updates: Vec<_> =
                hashers.iter_mut().zip(&copies).map(|(hasher, copy)| (hasher, &copy[..])).collect();
            let done = update_many(&mut updates);
            debug_assert_eq!(done, Ok(()), "all are of one algorithm");
        }
        let mut digests = vec![0; messages.len() * self.hashing.algorithm.digest_size()];
        let done = finish_many(&mut hashers.iter_mut().collect::<Vec<_>>(), &mut digests);
        debug_assert_eq!(done, Ok(()), "the output fits");
        drop(hashers);
        self.take(messages.iter().map(|_| true), &digests);
    }

    /// Adds results: one digest for each value that is there.
    fn take(&mut self, there: impl ExactSizeIterator<Item = bool>, digests: &[u8]) {
        let size = self.hashing.algorithm.digest_size();
        let full = self.finished.last().is_none_or(|last| last.len + there.len() > self.kind.most());
        if full {
            self.add_column(Vec::new());
        }
        let last = self.finished.last_mut().and_then(Arc::get_mut).expect("a column that nobody shares yet");
        let (begin, count) = (last.len, there.len());
        last.len += count;
        if digests.len() == count * size && last.validity.is_none() {
            append(last, digests);
            return;
        }
        let validity = last.validity.get_or_insert_with(|| {
            let mut bits = vec![0xff; begin.div_ceil(8)];
            if let Some(byte) = bits.last_mut() {
                *byte >>= (8 - begin % 8) % 8;
            }
            bits
        });
        validity.resize((begin + count).div_ceil(8), 0);
        let mut digests = digests.chunks_exact(size);
        let stride = self.kind.size();
        for (index, is_there) in there.enumerate() {
            let at = begin + index;
            match is_there.then(|| digests.next()).flatten() {
                Some(digest) => {
                    last.validity.as_mut().expect("made above")[at / 8] |= 1 << (at % 8);
                    append(last, digest);
                }
                None => last.data.resize((at + 1) * stride, 0),
            }
        }
    }
}

/// Adds digests that lie one behind the other.
fn append(column: &mut Made, digests: &[u8]) {
    match column.kind {
        Type::Bytes(_) => column.data.extend_from_slice(digests),
        Type::Text(_) => {
            let begin = column.data.len();
            column.data.resize(begin + 2 * digests.len(), 0);
            to_hex(digests, &mut column.data[begin..]);
        }
    }
}

/// Hexadecimal digits, in lower case. Without a table and without a branch, so that the compiler makes vectors of it.
pub(crate) fn to_hex(bytes: &[u8], digits: &mut [u8]) {
    let digit = |nibble: u8| nibble + b'0' + if nibble > 9 { b'a' - b'0' - 10 } else { 0 };
    for (byte, pair) in bytes.iter().zip(digits.as_chunks_mut::<2>().0) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
}

//! Collects results: blocks of messages in, columns of digests out.

use std::sync::Arc;

use gantry_abi_arrow::{ExportedColumn, Type};
use gantry_digest::{Algorithm, Hasher, HmacKey, digest_many, finish_many, hmac_many, update_many};
use pyo3::PyResult;

use crate::memory::{PIECE_BYTES, ROUND_BYTES, Source, advise_large_pages, allocate};

pub(crate) struct HashConfig {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: Option<HmacKey>,
}

impl HashConfig {
    fn hasher(&self) -> Hasher<'_> {
        self.key.as_ref().map_or_else(|| Hasher::new(self.algorithm), HmacKey::hasher)
    }
}

/// Columns of results that are being filled.
pub(crate) struct Results {
    config: HashConfig,
    pub(crate) kind: Type,
    pub(crate) finished: Vec<Arc<ExportedColumn>>,
    /// Buffer for the digests of a block.
    block_digests: Vec<u8>,
}

impl Results {
    pub(crate) fn new(config: HashConfig, hex: bool) -> Self {
        let size = config.algorithm.digest_size();
        let kind = if hex { Type::Text(2 * size) } else { Type::Bytes(size) };
        Self { config, kind, finished: Vec::new(), block_digests: Vec::new() }
    }

    /// Begins a new column of about `expected` values. MemoryError: there is no room for them.
    pub(crate) fn start_column(&mut self, expected: usize) -> PyResult<()> {
        let mut data = allocate(expected.min(self.kind.max_values()).saturating_mul(self.kind.size()))?;
        advise_large_pages(&mut data);
        self.add_column(data);
        Ok(())
    }

    fn add_column(&mut self, data: Vec<u8>) {
        self.finished.push(Arc::new(ExportedColumn { kind: self.kind, data, validity: None, len: 0 }));
    }

    /// Hashes the messages of a block side by side; `None` becomes null.
    pub(crate) fn hash(&mut self, messages: &[Option<&[u8]>]) {
        let size = self.config.algorithm.digest_size();
        let present: Vec<&[u8]> = messages.iter().copied().flatten().collect();
        let mut digests = std::mem::take(&mut self.block_digests);
        digests.resize(present.len() * size, 0);
        let done = match &self.config.key {
            None => digest_many(self.config.algorithm, &present, &mut digests),
            Some(key) => hmac_many(key, &present, &mut digests),
        };
        debug_assert_eq!(done, Ok(()), "the output has the right size");
        self.append_results(messages.iter().map(Option::is_some), &digests);
        self.block_digests = digests;
    }

    /// Hashes long messages side by side, piece by piece. `pause` runs after each `ROUND_BYTES` bytes; its error ends the work.
    pub(crate) fn hash_side_by_side(
        &mut self,
        messages: &[Source<'_>],
        pause: impl Fn() -> PyResult<()>,
    ) -> PyResult<()> {
        let mut hashers: Vec<_> = messages.iter().map(|_| self.config.hasher()).collect();
        let mut copies = vec![Vec::new(); messages.len()];
        let longest = messages.iter().map(Source::len).max().unwrap_or(0);
        let mut bytes = 0;
        for begin in (0..longest).step_by(PIECE_BYTES) {
            let parts = hashers.iter_mut().zip(messages).zip(&mut copies);
            let parts = parts.map(|((hasher, message), copy)| (hasher, message.part(begin, copy)));
            let mut parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty()).collect();
            bytes += parts.iter().map(|(_, part)| part.len()).sum::<usize>();
            let done = update_many(&mut parts);
            debug_assert_eq!(done, Ok(()), "all hashers have the same algorithm");
            if bytes >= ROUND_BYTES {
                bytes = 0;
                pause()?;
            }
        }
        let mut digests = vec![0; messages.len() * self.config.algorithm.digest_size()];
        let done = finish_many(&mut hashers.iter_mut().collect::<Vec<_>>(), &mut digests);
        debug_assert_eq!(done, Ok(()), "the output has the right size");
        drop(hashers);
        self.append_results(messages.iter().map(|_| true), &digests);
        Ok(())
    }

    /// Appends results: `digests` has one digest for each value that is present.
    fn append_results(&mut self, present: impl ExactSizeIterator<Item = bool>, digests: &[u8]) {
        let size = self.config.algorithm.digest_size();
        let is_full = self.finished.last().is_none_or(|last| last.len + present.len() > self.kind.max_values());
        if is_full {
            self.add_column(Vec::new());
        }
        let last = self.finished.last_mut().and_then(Arc::get_mut).expect("the column is not shared yet");
        let (begin, count) = (last.len, present.len());
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
        for (index, is_present) in present.enumerate() {
            let at = begin + index;
            match is_present.then(|| digests.next()).flatten() {
                Some(digest) => {
                    last.validity.as_mut().expect("inserted above")[at / 8] |= 1 << (at % 8);
                    append(last, digest);
                }
                None => last.data.resize((at + 1) * stride, 0),
            }
        }
    }
}

/// Appends contiguous digests.
fn append(column: &mut ExportedColumn, digests: &[u8]) {
    match column.kind {
        Type::Bytes(_) => column.data.extend_from_slice(digests),
        Type::Text(_) => {
            let begin = column.data.len();
            column.data.resize(begin + 2 * digests.len(), 0);
            to_hex(digests, &mut column.data[begin..]);
        }
    }
}

/// Writes hexadecimal digits in lower case, without a table or a branch, so that the compiler vectorises it.
pub(crate) fn to_hex(bytes: &[u8], digits: &mut [u8]) {
    let digit = |nibble: u8| nibble + b'0' + if nibble > 9 { b'a' - b'0' - 10 } else { 0 };
    for (byte, pair) in bytes.iter().zip(digits.as_chunks_mut::<2>().0) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
}

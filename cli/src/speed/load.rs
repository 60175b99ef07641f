//! Keys, buffers and requests of a point.

use gantry_core::driver::{Fields, Operands};
use gantry_core::{Algorithm, AlgorithmInfo, Kind, Operation, Outcome, Request, Session};

/// The work that a thread repeats.
pub(crate) struct Load<'s> {
    pub(crate) session: &'s Session,
    pub(crate) operation: Operation,
    pub(crate) bytes: usize,
    pub(crate) mode: SubmissionMode,
    /// Alignment of the data, in bytes.
    pub(crate) alignment: usize,
}

/// How requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmissionMode {
    /// Batches of `n` requests; a direct call if `n` is 1.
    Batch(usize),
    /// A queue with `n` requests in flight.
    Queue(usize),
}

impl SubmissionMode {
    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            SubmissionMode::Batch(requests) | SubmissionMode::Queue(requests) => requests,
        }
    }

    /// Returns the number of requests per call.
    pub(crate) fn batch(self) -> usize {
        match self {
            SubmissionMode::Batch(requests) => requests,
            SubmissionMode::Queue(_) => 1,
        }
    }
}

/// Bytes of the buffers that a thread cycles through, unless one batch needs more: larger than a first-level cache, smaller than a
/// second-level one.
const WORKING_SET_BYTES: usize = 256 << 10;
/// Most requests in the working set, however small they are.
const MAX_REQUESTS: usize = 1024;
const MAX_PUBLIC_KEY_REQUESTS: usize = 16;
/// Associated data, as long as in TLS 1.2 and in `openssl speed -aead`.
const AAD: [u8; 13] = [7; 13];

/// Returns the IV length to use: 12 bytes if the algorithm allows this length, or else the longest length.
fn iv_length(algorithm: Algorithm) -> usize {
    let iv = algorithm.info().iv;
    if iv.allows(12) { 12 } else { iv.max }
}

/// Generates test data.
fn test_data(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + seed) as u8).collect()
}

/// Memory of one request.
struct Slot {
    iv: Vec<u8>,
    /// Input of operations that do not work in place.
    input: Aligned,
    data: Aligned,
    tag: Vec<u8>,
    /// Length of the output of compression and encipherment; for packets, the bytes of the payload.
    written: usize,
}

/// Aligned bytes.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize, alignment: usize, seed: usize) -> Self {
        let memory = test_data(length + alignment - 1, seed);
        let start = memory.as_ptr().align_offset(alignment);
        Self { memory, start, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }
}

/// The buffers of one thread.
pub(crate) struct Buffers {
    slots: Vec<Slot>,
}

impl Buffers {
    /// Returns a request for each buffer.
    pub(super) fn operands(&mut self, operation: Operation) -> impl Iterator<Item = Operands<'_>> {
        self.slots.iter_mut().map(move |slot| slot.operands(operation))
    }
}

impl Load<'_> {
    /// Returns the number of requests that the buffers hold: as many as fill the working set, in whole batches.
    pub(super) fn requests(&self) -> usize {
        let in_flight = self.mode.in_flight();
        // Public-key operations do not depend on memory bandwidth, and take long for each request.
        let max_requests = match self.session.params().algorithm().kind() {
            Kind::Signature | Kind::Exchange | Kind::Kem | Kind::Encipherment => MAX_PUBLIC_KEY_REQUESTS,
            _ => MAX_REQUESTS,
        };
        in_flight * (WORKING_SET_BYTES / (in_flight * self.bytes.max(1))).min(max_requests / in_flight).max(1)
    }

    /// Allocates buffers with valid input for the operation.
    pub(crate) fn allocate_buffers(&self) -> Result<Buffers, gantry_core::Error> {
        let info = self.session.params().algorithm().info();
        let algorithm = info.algorithm;
        let slot = |index: usize| {
            let iv = (0..iv_length(algorithm)).map(|at| (index * 7 + at) as u8).collect();
            let tag_length = self.session.params().tag_len();
            let operation_info = self.operation.info();
            // Operations in place need no separate input, except `open`, which is repeated on one ciphertext.
            let in_place = operation_info.in_place && self.operation != Operation::Open;
            let input = if in_place { 0 } else { info.length(operation_info.input, self.bytes, tag_length) };
            let data = info.length(operation_info.output, self.bytes, tag_length);
            let tag = vec![0; info.length(operation_info.tag, self.bytes, tag_length)];
            let aligned = |length| Aligned::new(length, self.alignment, index);
            let mut slot = Slot { iv, input: aligned(input), data: aligned(data), tag, written: 0 };
            if operation_info.kind == Kind::Packet {
                // The sequence number 1, and the next header 4 (IPv4), as `Operands::from_fields` reads them.
                (slot.iv, slot.tag) = (1u64.to_be_bytes().to_vec(), vec![4]);
            }
            if operation_info.kind == Kind::Kem {
                slot.iv.clear();
            }
            slot
        };
        let mut slots: Vec<Slot> = (0..self.requests()).map(slot).collect();
        let compressed = if self.operation == Operation::Decompress { self.compress_sample()? } else { Vec::new() };
        for Slot { iv, input, tag, written, .. } in &mut slots {
            match self.operation {
                Operation::Open => self.session.seal(iv, &AAD, input.bytes_mut(), tag)?,
                Operation::Verify => self.session.sign(input.bytes(), tag)?,
                Operation::Protect => *written = self.bytes,
                Operation::Compress => input.bytes_mut().copy_from_slice(&gantry_core::sample_text(self.bytes)),
                Operation::Decompress => {
                    *input = Aligned::new(compressed.len(), self.alignment, 0);
                    input.bytes_mut().copy_from_slice(&compressed);
                }
                // Not every number is a valid public key.
                Operation::Derive => input.bytes_mut().copy_from_slice(info.generator),
                Operation::Encipher => input.bytes_mut().copy_from_slice(&encipher_sample(self)?.0),
                Operation::Decipher => input.bytes_mut().copy_from_slice(&encipher_sample(self)?.1),
                Operation::Encapsulate => input.bytes_mut().copy_from_slice(&public_key(self.session)?),
                Operation::Decapsulate => {
                    let mut secret = vec![0; self.session.params().tag_len()];
                    self.session.encapsulate(&public_key(self.session)?, input.bytes_mut(), &mut secret)?;
                }
                _ => {}
            }
        }
        Ok(Buffers { slots })
    }
}

impl Load<'_> {
    /// Compresses a sample text.
    fn compress_sample(&self) -> Result<Vec<u8>, gantry_core::Error> {
        let mut output = vec![0; AlgorithmInfo::compressed_max(self.bytes)];
        let length = self.session.compress(&gantry_core::sample_text(self.bytes), &mut output)?;
        output.truncate(length);
        Ok(output)
    }
}

/// Returns a short message and its ciphertext.
fn encipher_sample(load: &Load<'_>) -> Result<(Vec<u8>, Vec<u8>), gantry_core::Error> {
    let info = load.session.params().algorithm().info();
    // This message is below any modulus.
    let message = vec![2; if load.operation == Operation::Encipher { load.bytes } else { info.min_data }];
    let mut ciphertext = vec![0; info.tag.max];
    load.session.encipher(&message, &mut ciphertext)?;
    Ok((message, ciphertext))
}

/// Returns the public key that belongs to the session's private key, which is a seed.
fn public_key(session: &Session) -> Result<Vec<u8>, gantry_core::Error> {
    let (params, info) = (session.params(), session.params().algorithm().info());
    let (mut private, mut public) = (vec![0; info.key.min], vec![0; info.public_key.max]);
    session.run(Operands::KeyGen { seed: params.key(), private: &mut private, public: &mut public })?.ok()?;
    Ok(public)
}

/// The calls that a thread repeats.
pub(crate) enum Calls<'m> {
    Direct(Vec<Operands<'m>>),
    Batches(Vec<Vec<Request<'m>>>),
}

impl<'m> Calls<'m> {
    pub(crate) fn new(load: &Load<'_>, buffers: &'m mut Buffers) -> Self {
        let operands = buffers.operands(load.operation);
        let batch = load.mode.batch();
        if batch == 1 {
            return Calls::Direct(operands.collect());
        }
        let mut batches = Vec::new();
        for operands in operands {
            if batches.last().is_none_or(|last: &Vec<_>| last.len() == batch) {
                batches.push(Vec::with_capacity(batch));
            }
            if let Some(last) = batches.last_mut() {
                last.push(operands.into());
            }
        }
        Calls::Batches(batches)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Calls::Direct(calls) => calls.len(),
            Calls::Batches(batches) => batches.len(),
        }
    }

    /// Makes `times` calls, starting after `index`. Not inlined, because the inlined calls into core are large.
    #[inline(never)]
    pub(crate) fn repeat(
        &mut self,
        index: &mut usize,
        session: &Session,
        times: u64,
    ) -> Result<(), gantry_core::Error> {
        for _ in 0..times {
            *index = if *index + 1 < self.len() { *index + 1 } else { 0 };
            match self {
                Calls::Direct(calls) => session.run(calls[*index].reborrow())?.ok()?,
                Calls::Batches(batches) => session.process(&mut batches[*index])?,
            }
        }
        Ok(())
    }

    /// Returns the problem of the last calls, if any: a request of a batch that was refused or run by another device.
    pub(crate) fn problem(&self, device_index: Option<usize>) -> Option<String> {
        let Calls::Batches(batches) = self else { return None };
        for request in batches.iter().flatten() {
            match request.outcome() {
                Some(Outcome::Done) => {}
                Some(outcome) => return Some(outcome.to_string()),
                None => return Some("a request was not run".to_owned()),
            }
            if device_index.is_some() && request.route().map(|route| route.device) != device_index {
                return Some("another device ran it".to_owned());
            }
        }
        None
    }
}

impl Slot {
    fn operands(&mut self, operation: Operation) -> Operands<'_> {
        let Self { iv, input, data, tag, written } = self;
        let input = (input.length > 0 || !operation.info().in_place).then_some(input.bytes());
        Operands::from_fields(operation, Fields { iv, aad: &AAD, input, output: data.bytes_mut(), tag, written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_aligned() {
        for alignment in [64, 4096] {
            for length in [1, 100, 5000] {
                let mut data = Aligned::new(length, alignment, 7);
                assert_eq!(data.bytes().as_ptr().addr() % alignment, 0);
                assert_eq!((data.bytes().len(), data.bytes_mut().len()), (length, length));
            }
        }
    }
}

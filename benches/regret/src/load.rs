//! The requests that a thread repeats.

use gantry_core::driver::{Buffers, Operands};
use gantry_core::{Algorithm, Kind, Operation, Outcome, Request, Session};

/// Bytes of the buffers that a thread cycles through: more than a first-level cache, less than a second-level one.
const WORKING_SET_BYTES: usize = 256 << 10;
const MAX_REQUESTS: usize = 1024;
/// Associated data as long as in TLS 1.2.
const AAD: [u8; 13] = [7; 13];

struct Slot {
    iv: Vec<u8>,
    data: Vec<u8>,
    /// Digest, MAC or tag.
    result: Vec<u8>,
}

/// Requests of one thread, in batches: digests, MACs, encryption or seals.
pub(crate) struct Load {
    kind: Kind,
    batch: usize,
    slots: Vec<Slot>,
    next_slot: usize,
}

impl Load {
    /// Makes a load. Returns `None` if the algorithm is not a digest, a MAC, a cipher or an AEAD.
    pub(crate) fn new(algorithm: Algorithm, bytes: usize, batch: usize) -> Option<Self> {
        let info = algorithm.info();
        if !matches!(info.kind, Kind::Digest | Kind::Mac | Kind::Cipher | Kind::Aead) {
            return None;
        }
        let iv_len = if info.iv.allows(12) { 12 } else { info.iv.max };
        let result_len = gantry_core::sample_params(algorithm).tag_len();
        let max_batches = (MAX_REQUESTS / batch).max(1);
        let requests = batch * (WORKING_SET_BYTES / (batch * bytes.max(1))).clamp(1, max_batches);
        let slot = |index: usize| Slot {
            iv: (0..iv_len).map(|at| (index * 7 + at) as u8).collect(),
            data: (0..bytes).map(|at| (at * 31 + index) as u8).collect(),
            result: vec![0; result_len],
        };
        Some(Self { kind: info.kind, batch, slots: (0..requests).map(slot).collect(), next_slot: 0 })
    }

    /// Runs `times` batches, each with one call: `process`, or `run` if the batch is a single request.
    #[inline(never)]
    pub(crate) fn repeat(&mut self, session: &Session, times: usize) -> Result<(), gantry_core::Error> {
        for _ in 0..times {
            let first = self.next_slot;
            self.next_slot = (first + self.batch) % self.slots.len();
            let slots = &mut self.slots[first..first + self.batch];
            if let [slot] = slots {
                session.run(slot.operands(self.kind))?.ok()?;
                continue;
            }
            let mut requests: Vec<Request<'_>> = slots.iter_mut().map(|slot| slot.operands(self.kind).into()).collect();
            session.process(&mut requests)?;
            for request in &requests {
                request.outcome().unwrap_or(Outcome::Malformed).ok()?;
            }
        }
        Ok(())
    }
}

impl Slot {
    fn operands(&mut self, kind: Kind) -> Operands<'_> {
        let Self { iv, data, result } = self;
        match kind {
            Kind::Digest => Operands::Digest { input: data, output: result },
            Kind::Mac => Operands::Mac { iv, input: data, output: result },
            Kind::Cipher => Operands::Cipher { operation: Operation::Encrypt, iv, data: Buffers::InPlace(data) },
            _ => Operands::Seal { iv, aad: &AAD, data: Buffers::InPlace(data), tag: result },
        }
    }
}

//! Requests of virtio-crypto in a ring: header, input, output and status in guest memory, and the chain of their descriptors.

use std::time::Duration;

use crate::Error;
use crate::memory::Memory;
use crate::request::{Reply, Request};
use crate::ring::{DESCRIPTOR, Part, Ring};

/// Descriptors of an indirect table.
const TABLE: usize = 256;
/// The initial value of the status byte and the output.
const UNTOUCHED: u8 = 0xff;

/// The memory layout of requests.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of descriptors of the ring.
    pub ring: u16,
    /// True if chains are in indirect tables.
    pub indirect: bool,
    /// Most bytes of one descriptor.
    pub piece: usize,
    /// The number of requests that have memory at the same time.
    pub slots: usize,
    /// Memory of each request in bytes: its table (4 KiB), input, output, and status.
    pub slot: usize,
    /// The index of the region that holds the requests. Rings are in region 0.
    pub region: usize,
    /// True if both sides tell when they want to be notified.
    pub event_index: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { ring: 256, indirect: true, piece: usize::MAX, slots: 256, slot: 16 << 10, region: 0, event_index: true }
    }
}

/// A request in memory that has not been offered to the device yet.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Guest address of the input, which begins with the header.
    pub input: u64,
    /// The chain.
    pub parts: Vec<Part>,
    /// Guest address of the indirect table, if the chain is in one.
    pub table: Option<u64>,
    /// Guest address of the output.
    pub output: u64,
    /// Length of the output in bytes.
    pub output_bytes: usize,
    /// Guest address of the status.
    pub status: u64,
    /// Bytes of the status: 1, or 16 for the answer to a request that opens a session.
    pub status_bytes: usize,
    slot: u64,
}

/// A queue of requests.
pub struct Queue {
    /// The ring. Direct writes to it may confuse the queue.
    pub ring: Ring,
    memory: Memory,
    shape: Shape,
    /// Free memory for requests.
    slots: Vec<u64>,
    /// Requests that the device has, by the head of their chain.
    pending: Vec<Option<Prepared>>,
}

impl Queue {
    /// Creates a queue with its ring and the memory of its requests.
    pub fn new(memory: &mut Memory, shape: Shape) -> Result<Self, Error> {
        let ring = Ring::new(memory, 0, shape.ring, shape.event_index)?;
        let slots = (0..shape.slots).map(|_| memory.allocate(shape.region, shape.slot)).collect::<Result<_, _>>()?;
        let pending = vec![None; usize::from(shape.ring)];
        Ok(Self { ring, memory: memory.clone(), shape, slots, pending })
    }

    /// Writes a request into memory.
    pub fn prepare(&mut self, request: &Request) -> Result<Prepared, Error> {
        let table = 16 * TABLE;
        let (input, output, status) = (request.input.len(), request.output(), request.status);
        if table + input + output + status > self.shape.slot {
            return Err(Error::Full);
        }
        let slot = self.slots.pop().ok_or(Error::Full)?;
        let mut prepared = Prepared {
            input: slot + table as u64,
            parts: Vec::new(),
            table: self.shape.indirect.then_some(slot),
            output: slot + (table + input) as u64,
            output_bytes: output,
            status: slot + (table + input + output) as u64,
            status_bytes: status,
            slot,
        };
        let mut address = prepared.input;
        let inputs = request.ends.iter().scan(0, |begin, end| Some((end - std::mem::replace(begin, *end), false)));
        let outputs = request.outputs.iter().chain([&status]).map(|bytes| (*bytes, true));
        for (bytes, writable) in inputs.chain(outputs) {
            self.push_parts(address, bytes, writable, &mut prepared.parts);
            address += bytes as u64;
        }
        if prepared.parts.len() > TABLE {
            self.slots.push(slot);
            return Err(Error::Full);
        }
        self.memory.write(prepared.input, &request.input)?;
        self.memory.write(prepared.output, &vec![UNTOUCHED; output + status])?;
        Ok(prepared)
    }

    /// Adds a request to the ring. The device sees it after [`Ring::publish`].
    pub fn offer(&mut self, prepared: Prepared) -> Result<(), Error> {
        if let Some(head) = self.ring.add(&prepared.parts, prepared.table)? {
            self.pending[usize::from(head)] = Some(prepared);
            return Ok(());
        }
        self.release(&prepared);
        Err(Error::Full)
    }

    /// Frees the memory of a request that the device does not have.
    pub fn release(&mut self, prepared: &Prepared) {
        self.slots.push(prepared.slot);
    }

    /// Waits for a finished request. `None`: the device finished none in this time.
    pub fn done(&mut self, patience: Duration) -> Result<Option<(Prepared, u32)>, Error> {
        let Some(used) = self.ring.wait(patience)? else { return Ok(None) };
        match self.pending.get_mut(used.head as usize).and_then(Option::take) {
            Some(prepared) => Ok(Some((prepared, used.written))),
            None => Err(Error::Foreign(used.head)),
        }
    }

    /// Reads the output and status of a finished request, and frees its memory.
    pub fn reply(&mut self, prepared: &Prepared, written: u32) -> Result<Reply, Error> {
        let output = self.memory.read(prepared.output, prepared.output_bytes)?;
        let status = self.memory.read(prepared.status, prepared.status_bytes)?;
        self.release(prepared);
        Ok(Reply { output, status, written })
    }

    /// Runs requests, all in flight at the same time, and returns their replies in order. Each may take as long as `patience`.
    pub fn run(&mut self, requests: &[Request], patience: Duration) -> Result<Vec<Reply>, Error> {
        let mut replies: Vec<Option<Reply>> = vec![None; requests.len()];
        let mut places = std::collections::HashMap::new();
        for (at, request) in requests.iter().enumerate() {
            let prepared = self.prepare(request)?;
            places.insert(prepared.slot, at);
            self.offer(prepared)?;
        }
        self.ring.publish()?;
        for _ in requests {
            let (prepared, written) = self.done(patience)?.ok_or(Error::Unanswered)?;
            let place = *places.get(&prepared.slot).ok_or(Error::Unanswered)?;
            replies[place] = Some(self.reply(&prepared, written)?);
        }
        replies.into_iter().map(|reply| reply.ok_or(Error::Unanswered)).collect()
    }

    /// Appends the descriptors of a field; none for an empty field.
    fn push_parts(&self, address: u64, bytes: usize, writable: bool, parts: &mut Vec<Part>) {
        for begin in (0..bytes).step_by(self.shape.piece.clamp(1, DESCRIPTOR as usize * TABLE * TABLE)) {
            let bytes = (bytes - begin).min(self.shape.piece) as u32;
            parts.push(Part { address: address + begin as u64, bytes, writable });
        }
    }
}

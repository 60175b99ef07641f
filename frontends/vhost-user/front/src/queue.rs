//! Requests of virtio-crypto in a ring: header, input, output and status in guest memory, and the chain of their descriptors.

use std::time::Duration;

use crate::Error;
use crate::memory::Memory;
use crate::request::{Reply, Request};
use crate::ring::{DESCRIPTOR_BYTES, Part, Ring};

/// Descriptors of an indirect table.
const TABLE_DESCRIPTORS: usize = 256;
/// The initial value of the status byte and the output.
const UNTOUCHED: u8 = 0xff;

/// The memory layout of requests.
#[derive(Clone, Copy, Debug)]
pub struct QueueLayout {
    /// The number of descriptors of the ring.
    pub ring_size: u16,
    /// True if chains are in indirect tables.
    pub indirect: bool,
    /// Most bytes of one descriptor.
    pub max_descriptor_bytes: usize,
    /// The number of requests that have memory at the same time.
    pub slots: usize,
    /// Memory of each request in bytes: its table (4 KiB), input, output, and status.
    pub slot_bytes: usize,
    /// The index of the region that holds the requests. Rings are in region 0.
    pub region: usize,
    /// True if both sides tell when they want to be notified.
    pub event_index: bool,
}

impl Default for QueueLayout {
    fn default() -> Self {
        Self {
            ring_size: 256,
            indirect: true,
            max_descriptor_bytes: usize::MAX,
            slots: 256,
            slot_bytes: 16 << 10,
            region: 0,
            event_index: true,
        }
    }
}

/// A request in memory that has not been offered to the device yet.
#[derive(Clone, Debug)]
pub struct PreparedRequest {
    /// Guest address of the input, which begins with the header.
    pub input_address: u64,
    /// The chain.
    pub parts: Vec<Part>,
    /// Guest address of the indirect table, if the chain is in one.
    pub table_address: Option<u64>,
    /// Guest address of the output.
    pub output_address: u64,
    /// Length of the output in bytes.
    pub output_bytes: usize,
    /// Guest address of the status.
    pub status_address: u64,
    /// Bytes of the status: 1, or 16 for the answer to a request that opens a session.
    pub status_bytes: usize,
    slot_address: u64,
}

/// A queue of requests.
pub struct Queue {
    /// The ring. Direct writes to it may confuse the queue.
    pub ring: Ring,
    memory: Memory,
    layout: QueueLayout,
    /// Free memory for requests.
    free_slots: Vec<u64>,
    /// Requests that the device has, by the head of their chain.
    pending: Vec<Option<PreparedRequest>>,
}

impl Queue {
    /// Creates a queue with its ring and the memory of its requests.
    pub fn new(memory: &mut Memory, layout: QueueLayout) -> Result<Self, Error> {
        let ring = Ring::new(memory, 0, layout.ring_size, layout.event_index)?;
        let free_slots =
            (0..layout.slots).map(|_| memory.allocate(layout.region, layout.slot_bytes)).collect::<Result<_, _>>()?;
        let pending = vec![None; usize::from(layout.ring_size)];
        Ok(Self { ring, memory: memory.clone(), layout, free_slots, pending })
    }

    /// Writes a request into memory.
    pub fn prepare(&mut self, request: &Request) -> Result<PreparedRequest, Error> {
        let table = 16 * TABLE_DESCRIPTORS;
        let (input, output, status) = (request.input.len(), request.output_length(), request.status_length);
        if table + input + output + status > self.layout.slot_bytes {
            return Err(Error::Full);
        }
        let slot = self.free_slots.pop().ok_or(Error::Full)?;
        let mut prepared = PreparedRequest {
            input_address: slot + table as u64,
            parts: Vec::new(),
            table_address: self.layout.indirect.then_some(slot),
            output_address: slot + (table + input) as u64,
            output_bytes: output,
            status_address: slot + (table + input + output) as u64,
            status_bytes: status,
            slot_address: slot,
        };
        let mut address = prepared.input_address;
        let inputs =
            request.field_ends.iter().scan(0, |begin, end| Some((end - std::mem::replace(begin, *end), false)));
        let outputs = request.output_lengths.iter().chain([&status]).map(|bytes| (*bytes, true));
        for (bytes, writable) in inputs.chain(outputs) {
            self.push_parts(address, bytes, writable, &mut prepared.parts);
            address += bytes as u64;
        }
        if prepared.parts.len() > TABLE_DESCRIPTORS {
            self.free_slots.push(slot);
            return Err(Error::Full);
        }
        self.memory.write(prepared.input_address, &request.input)?;
        self.memory.write(prepared.output_address, &vec![UNTOUCHED; output + status])?;
        Ok(prepared)
    }

    /// Adds a request to the ring. The device sees it after [`Ring::publish`].
    pub fn offer(&mut self, prepared: PreparedRequest) -> Result<(), Error> {
        if let Some(head) = self.ring.add(&prepared.parts, prepared.table_address)? {
            self.pending[usize::from(head)] = Some(prepared);
            return Ok(());
        }
        self.release(&prepared);
        Err(Error::Full)
    }

    /// Frees the memory of a request that the device does not have.
    pub fn release(&mut self, prepared: &PreparedRequest) {
        self.free_slots.push(prepared.slot_address);
    }

    /// Waits for a finished request. `None`: the device finished none in this time.
    pub fn wait_for_finished(&mut self, timeout: Duration) -> Result<Option<(PreparedRequest, u32)>, Error> {
        let Some(used) = self.ring.wait_for_used(timeout)? else { return Ok(None) };
        match self.pending.get_mut(used.head as usize).and_then(Option::take) {
            Some(prepared) => Ok(Some((prepared, used.written))),
            None => Err(Error::UnknownChain(used.head)),
        }
    }

    /// Reads the output and status of a finished request, and frees its memory.
    pub fn take_reply(&mut self, prepared: &PreparedRequest, written: u32) -> Result<Reply, Error> {
        let output = self.memory.read(prepared.output_address, prepared.output_bytes)?;
        let status = self.memory.read(prepared.status_address, prepared.status_bytes)?;
        self.release(prepared);
        Ok(Reply { output, status, written })
    }

    /// Runs requests, all in flight at the same time, and returns their replies in order. Each may take as long as `timeout`.
    pub fn run(&mut self, requests: &[Request], timeout: Duration) -> Result<Vec<Reply>, Error> {
        let mut replies: Vec<Option<Reply>> = vec![None; requests.len()];
        let mut index_by_slot = std::collections::HashMap::new();
        for (at, request) in requests.iter().enumerate() {
            let prepared = self.prepare(request)?;
            index_by_slot.insert(prepared.slot_address, at);
            self.offer(prepared)?;
        }
        self.ring.publish()?;
        for _ in requests {
            let (prepared, written) = self.wait_for_finished(timeout)?.ok_or(Error::Unanswered)?;
            let index = *index_by_slot.get(&prepared.slot_address).ok_or(Error::Unanswered)?;
            replies[index] = Some(self.take_reply(&prepared, written)?);
        }
        replies.into_iter().map(|reply| reply.ok_or(Error::Unanswered)).collect()
    }

    /// Appends the descriptors of a field; none for an empty field.
    fn push_parts(&self, address: u64, bytes: usize, writable: bool, parts: &mut Vec<Part>) {
        for begin in (0..bytes).step_by(
            self.layout
                .max_descriptor_bytes
                .clamp(1, DESCRIPTOR_BYTES as usize * TABLE_DESCRIPTORS * TABLE_DESCRIPTORS),
        ) {
            let bytes = (bytes - begin).min(self.layout.max_descriptor_bytes) as u32;
            parts.push(Part { address: address + begin as u64, length: bytes, writable });
        }
    }
}

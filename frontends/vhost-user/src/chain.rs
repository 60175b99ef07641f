//! A chain of descriptors, walked once and copied.

use smallvec::SmallVec;
use virtio_queue::DescriptorChain;
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Address and length of each buffer, as the descriptors contained them at the time of the walk. The table is not read
/// again.
pub(crate) type Buffers = SmallVec<[(u64, u32); 8]>;

/// The buffers of a chain.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Buffers that the device may read, in order.
    pub(crate) readable: Buffers,
    /// Buffers that the device may write, in order.
    pub(crate) writable: Buffers,
    /// True if a descriptor lies outside the table, or the chain loops, is truncated, or has a readable buffer after a
    /// writable one.
    pub(crate) is_malformed: bool,
}

impl Chain {
    /// Follows the descriptors. A chain has at most as many descriptors as its table.
    pub(crate) fn walk(mut descriptors: DescriptorChain<&GuestMemoryMmap>) -> Self {
        let mut chain = Self::default();
        let mut last: Option<Descriptor> = None;
        for descriptor in descriptors.by_ref() {
            last = Some(descriptor);
            let buffer = (descriptor.addr().0, descriptor.len());
            if descriptor.is_write_only() {
                chain.writable.push(buffer);
            } else {
                chain.is_malformed |= !chain.writable.is_empty();
                chain.readable.push(buffer);
            }
        }
        // The iterator ends silently at an error; then its last descriptor announces another one.
        chain.is_malformed |= last.is_none_or(|last| last.has_next());
        chain
    }
}

/// Reads the readable part of a chain from its front.
pub(crate) struct Reader<'c> {
    memory: &'c GuestMemoryMmap,
    buffers: &'c [(u64, u32)],
    /// Bytes of the first buffer that have been read.
    offset: u32,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(memory: &'c GuestMemoryMmap, chain: &'c Chain) -> Self {
        Self { memory, buffers: &chain.readable, offset: 0 }
    }

    /// Copies the next bytes of the chain to `bytes`. Returns `false` if too few are left, or they lie outside the guest's memory.
    pub(crate) fn read(&mut self, mut bytes: &mut [u8]) -> bool {
        while !bytes.is_empty() {
            let Some((address, length)) = self.buffers.first().copied() else { return false };
            let count = ((length - self.offset) as usize).min(bytes.len());
            let (front, rest) = bytes.split_at_mut(count);
            let Some(address) = address.checked_add(u64::from(self.offset)) else { return false };
            if count > 0 && self.memory.read_slice(front, GuestAddress(address)).is_err() {
                return false;
            }
            bytes = rest;
            self.offset += count as u32;
            if self.offset == length {
                (self.buffers, self.offset) = (&self.buffers[1..], 0);
            }
        }
        true
    }

    /// Returns the number of unread bytes.
    pub(crate) fn remaining(&self) -> u64 {
        total_length(self.buffers) - u64::from(self.offset)
    }
}

/// Returns the total bytes of the buffers.
pub(crate) fn total_length(buffers: &[(u64, u32)]) -> u64 {
    buffers.iter().map(|(_, length)| u64::from(*length)).sum()
}

/// Writes bytes at the front of the buffers. Returns `false` if the buffers are too short, or lie outside the guest's memory.
pub(crate) fn write_front(memory: &GuestMemoryMmap, buffers: &[(u64, u32)], parts: &[&[u8]]) -> bool {
    let mut buffers = buffers.iter().copied();
    let (mut address, mut remaining) = (0, 0_u32);
    for part in parts {
        let mut part = *part;
        while !part.is_empty() {
            while remaining == 0 {
                let Some(next) = buffers.next() else { return false };
                (address, remaining) = next;
            }
            let (front, rest) = part.split_at((remaining as usize).min(part.len()));
            if memory.write_slice(front, GuestAddress(address)).is_err() {
                return false;
            }
            // The bytes lie in the guest's memory, so the sum does not overflow.
            address += front.len() as u64;
            remaining -= front.len() as u32;
            part = rest;
        }
    }
    true
}

/// Writes the last byte of the buffers. Returns `false` if the buffers are empty, or the byte lies outside the guest's memory.
pub(crate) fn write_last(memory: &GuestMemoryMmap, buffers: &[(u64, u32)], byte: u8) -> bool {
    let last = buffers.iter().rev().find(|(_, length)| *length > 0);
    let address = last.and_then(|(address, length)| address.checked_add(u64::from(*length) - 1));
    address.is_some_and(|address| memory.write_slice(&[byte], GuestAddress(address)).is_ok())
}

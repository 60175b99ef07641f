//! The driver's side of a split virtqueue (virtio 1.3, 2.7), with indirect tables and event indices.
//!
//! [`Ring::add`] writes valid chains. [`Ring::write_descriptor`], [`Ring::offer_head`] and [`Ring::publish`] can also leave the ring in
//! states in which no driver may leave it: a device has to withstand them.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::Error;
use crate::memory::Memory;

/// Flag of a descriptor (virtio 1.3, 2.7.5): the chain continues with the descriptor `next`.
pub const DESC_F_NEXT: u16 = 1;
/// Flag of a descriptor: the device writes into this buffer.
pub const DESC_F_WRITE: u16 = 2;
/// Flag of a descriptor: the buffer is a table of descriptors.
pub const DESC_F_INDIRECT: u16 = 4;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u32 = 16;

/// A descriptor as in memory: guest address, bytes, flags, and the index of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest address of the buffer.
    pub address: u64,
    /// Length of the buffer in bytes.
    pub length: u32,
    /// [`DESC_F_NEXT`], [`DESC_F_WRITE`], [`DESC_F_INDIRECT`].
    pub flags: u16,
    /// The next descriptor's index, with [`DESC_F_NEXT`].
    pub next: u16,
}

impl Descriptor {
    /// Encodes the descriptor.
    pub fn encode(self) -> [u8; DESCRIPTOR_BYTES as usize] {
        let mut bytes = [0; DESCRIPTOR_BYTES as usize];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.flags.to_le_bytes());
        bytes[14..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

/// A piece of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Guest address.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// True if the device writes into this piece.
    pub writable: bool,
}

/// An element of the used ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedElement {
    /// The head of the chain that the device has used.
    pub head: u32,
    /// Number of written bytes according to the device.
    pub written: u32,
}

/// A split virtqueue in guest memory.
pub struct Ring {
    memory: Memory,
    size: u16,
    table_address: u64,
    available_address: u64,
    used_address: u64,
    event_index: bool,
    /// Descriptors that are in no chain, in the order in which they became free. DPDK's back end puts a chain into the used ring at the
    /// index of its head, which works only if heads advance like the ring.
    free_descriptors: VecDeque<u16>,
    /// The descriptors of the chain that begins at each index. Their copies in memory may have been changed.
    chains: Vec<Vec<u16>>,
    /// The available index of the next chain, and the available index that the device sees.
    next_available: u16,
    published_index: u16,
    /// The next element of the used ring.
    next_used: u16,
    kick_event: EventFd,
    call_event: EventFd,
    /// Waits for `call`.
    call_epoll: Epoll,
}

impl Ring {
    /// Creates a ring of `size` descriptors, a power of two, in region `region`. With `event_index` both sides tell when they want to be
    /// notified (`VIRTIO_F_EVENT_IDX`).
    pub fn new(memory: &mut Memory, region: usize, size: u16, event_index: bool) -> Result<Self, Error> {
        let entries = usize::from(size);
        let table_address = memory.allocate(region, 16 * entries)?;
        let available_address = memory.allocate(region, 6 + 2 * entries)?;
        let used_address = memory.allocate(region, 6 + 8 * entries)?;
        let call_event = EventFd::new(EFD_NONBLOCK)?;
        let call_epoll = Epoll::new()?;
        call_epoll.ctl(ControlOperation::Add, call_event.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))?;
        Ok(Self {
            memory: memory.clone(),
            size,
            table_address,
            available_address,
            used_address,
            event_index,
            free_descriptors: (0..size).collect(),
            chains: vec![Vec::new(); entries],
            next_available: 0,
            published_index: 0,
            next_used: 0,
            kick_event: EventFd::new(EFD_NONBLOCK)?,
            call_event,
            call_epoll,
        })
    }

    /// Returns the number of descriptors.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Returns the guest addresses of the descriptor table, the available ring and the used ring.
    pub fn addresses(&self) -> [u64; 3] {
        [self.table_address, self.available_address, self.used_address]
    }

    /// Returns the available index at which the device begins: all earlier chains have been used.
    pub fn base(&self) -> Result<u16, Error> {
        self.load_u16(self.used_address + 2)
    }

    /// Returns the event by which the driver notifies the device.
    pub fn kick_event(&self) -> &EventFd {
        &self.kick_event
    }

    /// Returns the event by which the device notifies the driver.
    pub fn call_event(&self) -> &EventFd {
        &self.call_event
    }

    /// Adds a chain, through an indirect table at `table` if given. The device sees it after [`Ring::publish`]. Returns the chain's
    /// head, or `None` if too few descriptors are free.
    pub fn add(&mut self, parts: &[Part], table: Option<u64>) -> Result<Option<u16>, Error> {
        let needed = if table.is_some() { 1 } else { parts.len() };
        if needed == 0 || needed > self.free_descriptors.len() {
            return Ok(None);
        }
        let chain: Vec<u16> = self.free_descriptors.drain(..needed).collect();
        let last = parts.len() - 1;
        let describe = |at: usize, next: u16| Descriptor {
            address: parts[at].address,
            length: parts[at].length,
            flags: if parts[at].writable { DESC_F_WRITE } else { 0 } | if at == last { 0 } else { DESC_F_NEXT },
            next: if at == last { 0 } else { next },
        };
        match table {
            Some(table) => {
                let bytes: Vec<u8> = (0..parts.len()).flat_map(|at| describe(at, at as u16 + 1).encode()).collect();
                self.memory.write(table, &bytes)?;
                let bytes = bytes.len() as u32;
                self.write_descriptor(
                    chain[0],
                    Descriptor { address: table, length: bytes, flags: DESC_F_INDIRECT, next: 0 },
                )?;
            }
            None => {
                for (at, index) in chain.iter().enumerate() {
                    self.write_descriptor(*index, describe(at, chain.get(at + 1).copied().unwrap_or(0)))?;
                }
            }
        }
        let head = chain[0];
        self.chains[usize::from(head)] = chain;
        self.offer_head(head)?;
        Ok(Some(head))
    }

    /// Writes a descriptor of the ring's own table.
    pub fn write_descriptor(&self, index: u16, descriptor: Descriptor) -> Result<(), Error> {
        self.memory.write(self.table_address + 16 * u64::from(index), &descriptor.encode())
    }

    /// Writes any number into the available ring as the head of the next chain.
    pub fn offer_head(&mut self, head: u16) -> Result<(), Error> {
        let at = self.available_address + 4 + 2 * u64::from(self.next_available % self.size);
        self.memory.write(at, &head.to_le_bytes())?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(())
    }

    /// Publishes the added chains: in memory, and by an event if the device asks for one.
    pub fn publish(&mut self) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.published_index, self.next_available);
        self.publish_index(self.next_available)?;
        // The device reads the index after it has asked for events: either the device sees the new index, or its request is seen here.
        fence(Ordering::SeqCst);
        let needs_kick = if self.event_index {
            let event = self.load_u16(self.used_address + 4 + 8 * u64::from(self.size))?;
            // virtio 1.3, 2.7.10: the index that the device waits for is among the new ones.
            self.next_available.wrapping_sub(event).wrapping_sub(1) < self.next_available.wrapping_sub(before)
        } else {
            self.load_u16(self.used_address)? & 1 == 0
        };
        if needs_kick { self.kick() } else { Ok(()) }
    }

    /// Writes any number as the available index.
    pub fn publish_index(&self, index: u16) -> Result<(), Error> {
        let at = GuestAddress(self.available_address + 2);
        self.memory.map().store(index, at, Ordering::Release).map_err(Error::memory)
    }

    /// Notifies the device, even if it does not ask for that.
    pub fn kick(&self) -> Result<(), Error> {
        Ok(self.kick_event.write(1)?)
    }

    /// Returns the next chain that the device has used, if there is one, and frees its descriptors.
    pub fn pop_used(&mut self) -> Result<Option<UsedElement>, Error> {
        let index = self.memory.map().load::<u16>(GuestAddress(self.used_address + 2), Ordering::Acquire);
        if index.map_err(Error::memory)? == self.next_used {
            return Ok(None);
        }
        let bytes = self.memory.read(self.used_address + 4 + 8 * u64::from(self.next_used % self.size), 8)?;
        self.next_used = self.next_used.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let used = UsedElement { head: word(0), written: word(4) };
        if let Some(chain) = self.chains.get_mut(used.head as usize) {
            self.free_descriptors.extend(chain.drain(..));
        }
        Ok(Some(used))
    }

    /// Like [`Ring::pop_used`], but waits for the device's event.
    pub fn wait_for_used(&mut self, timeout: Duration) -> Result<Option<UsedElement>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(used) = self.pop_used()? {
                return Ok(Some(used));
            }
            if self.event_index {
                let at = GuestAddress(self.available_address + 4 + 2 * u64::from(self.size));
                self.memory.map().store(self.next_used, at, Ordering::SeqCst).map_err(Error::memory)?;
                // The counterpart of the fence in `publish`.
                fence(Ordering::SeqCst);
                if let Some(used) = self.pop_used()? {
                    return Ok(Some(used));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up: a timeout of zero milliseconds would not wait.
            let milliseconds = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            if left.is_zero() {
                return Ok(None);
            }
            match self.call_epoll.wait(milliseconds, &mut [EpollEvent::default()]) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                // This process was stopped and continues (signal(7)).
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            match self.call_event.read() {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
    }

    fn load_u16(&self, address: u64) -> Result<u16, Error> {
        self.memory.map().load(GuestAddress(address), Ordering::Acquire).map_err(Error::memory)
    }
}

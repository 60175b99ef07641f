//! The driver's side of a split virtqueue (virtio 1.3, 2.7), with indirect tables and event indices.
//!
//! [`Ring::add`] writes chains as a driver has to. The rest of the ring can be written as no driver may ([`Ring::set`], [`Ring::offer`],
//! [`Ring::publish`]): a device has to withstand that.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::Error;
use crate::memory::Memory;

/// Flags of a descriptor (virtio 1.3, 2.7.5).
pub const NEXT: u16 = 1;
/// The device writes into this buffer.
pub const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;

/// Bytes of a descriptor.
pub const DESCRIPTOR: u32 = 16;

/// A descriptor as it lies in memory: guest address, bytes, flags, and the index of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Guest address of the buffer.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u32,
    /// [`NEXT`], [`WRITE`], [`INDIRECT`].
    pub flags: u16,
    /// The next descriptor's index, with [`NEXT`].
    pub next: u16,
}

impl Descriptor {
    /// The 16 bytes of it.
    pub fn bytes(self) -> [u8; DESCRIPTOR as usize] {
        let mut bytes = [0; DESCRIPTOR as usize];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
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
    pub bytes: u32,
    /// The device writes it.
    pub writable: bool,
}

/// An element of the used ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The head of the chain that the device has used.
    pub head: u32,
    /// How many bytes it says it has written.
    pub written: u32,
}

/// A split virtqueue in guest memory.
pub struct Ring {
    memory: Memory,
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    event_index: bool,
    /// Descriptors that are in no chain, the one that has been free for longest first. DPDK's back end puts a chain into the used ring at the
    /// index of its head, which is right only if heads come round as the ring does.
    free: VecDeque<u16>,
    /// The descriptors of the chain that begins at each index. What lies in memory may have been changed.
    chains: Vec<Vec<u16>>,
    /// The available index that the next chain gets, and that which the device has been told of.
    next: u16,
    told: u16,
    /// The next element of the used ring.
    seen: u16,
    kick: EventFd,
    call: EventFd,
    /// Waits for `call`.
    poll: Epoll,
}

impl Ring {
    /// A ring of `size` descriptors, a power of two, in region `region`. With `event_index` both sides say when they want to be notified
    /// (`VIRTIO_F_EVENT_IDX`).
    pub fn new(memory: &mut Memory, region: usize, size: u16, event_index: bool) -> Result<Self, Error> {
        let entries = usize::from(size);
        let descriptors = memory.take(region, 16 * entries)?;
        let available = memory.take(region, 6 + 2 * entries)?;
        let used = memory.take(region, 6 + 8 * entries)?;
        let call = EventFd::new(EFD_NONBLOCK)?;
        let poll = Epoll::new()?;
        poll.ctl(ControlOperation::Add, call.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))?;
        Ok(Self {
            memory: memory.clone(),
            size,
            descriptors,
            available,
            used,
            event_index,
            free: (0..size).collect(),
            chains: vec![Vec::new(); entries],
            next: 0,
            told: 0,
            seen: 0,
            kick: EventFd::new(EFD_NONBLOCK)?,
            call,
            poll,
        })
    }

    /// Number of descriptors.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Guest addresses of the descriptor table, the available ring and the used ring.
    pub fn addresses(&self) -> [u64; 3] {
        [self.descriptors, self.available, self.used]
    }

    /// The available index at which the device begins: everything before it has been used.
    pub fn base(&self) -> Result<u16, Error> {
        self.load(self.used + 2)
    }

    /// What the device is notified with.
    pub fn kick_event(&self) -> &EventFd {
        &self.kick
    }

    /// What the device notifies with.
    pub fn call_event(&self) -> &EventFd {
        &self.call
    }

    /// Adds a chain, through an indirect table at `table` when there is one. The device sees it with [`Ring::publish`]. Returns the
    /// chain's head, or nothing while too few descriptors are free.
    pub fn add(&mut self, parts: &[Part], table: Option<u64>) -> Result<Option<u16>, Error> {
        let needed = if table.is_some() { 1 } else { parts.len() };
        if needed == 0 || needed > self.free.len() {
            return Ok(None);
        }
        let chain: Vec<u16> = self.free.drain(..needed).collect();
        let last = parts.len() - 1;
        let describe = |at: usize, next: u16| Descriptor {
            address: parts[at].address,
            bytes: parts[at].bytes,
            flags: if parts[at].writable { WRITE } else { 0 } | if at == last { 0 } else { NEXT },
            next: if at == last { 0 } else { next },
        };
        match table {
            Some(table) => {
                let bytes: Vec<u8> = (0..parts.len()).flat_map(|at| describe(at, at as u16 + 1).bytes()).collect();
                self.memory.write(table, &bytes)?;
                let bytes = bytes.len() as u32;
                self.set(chain[0], Descriptor { address: table, bytes, flags: INDIRECT, next: 0 })?;
            }
            None => {
                for (at, index) in chain.iter().enumerate() {
                    self.set(*index, describe(at, chain.get(at + 1).copied().unwrap_or(0)))?;
                }
            }
        }
        let head = chain[0];
        self.chains[usize::from(head)] = chain;
        self.offer(head)?;
        Ok(Some(head))
    }

    /// Writes a descriptor of the ring's own table.
    pub fn set(&self, index: u16, descriptor: Descriptor) -> Result<(), Error> {
        self.memory.write(self.descriptors + 16 * u64::from(index), &descriptor.bytes())
    }

    /// Writes any number into the available ring as the head of the next chain.
    pub fn offer(&mut self, head: u16) -> Result<(), Error> {
        let at = self.available + 4 + 2 * u64::from(self.next % self.size);
        self.memory.write(at, &head.to_le_bytes())?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Tells the device of what has been added: in memory, and with an event when the device asks for one.
    pub fn publish(&mut self) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.told, self.next);
        self.publish_index(self.next)?;
        // The device looks at the index after it has asked for events: either it sees the new index, or its wish is seen here.
        fence(Ordering::SeqCst);
        let wanted = if self.event_index {
            let event = self.load(self.used + 4 + 8 * u64::from(self.size))?;
            // virtio 1.3, 2.7.10: the index that the device waits for is among those that are new.
            self.next.wrapping_sub(event).wrapping_sub(1) < self.next.wrapping_sub(before)
        } else {
            self.load(self.used)? & 1 == 0
        };
        if wanted { self.kick() } else { Ok(()) }
    }

    /// Writes any number as the available index.
    pub fn publish_index(&self, index: u16) -> Result<(), Error> {
        let at = GuestAddress(self.available + 2);
        self.memory.map().store(index, at, Ordering::Release).map_err(Error::memory)
    }

    /// Notifies the device, whether or not it asks for that.
    pub fn kick(&self) -> Result<(), Error> {
        Ok(self.kick.write(1)?)
    }

    /// The next chain that the device has used, if there is one. Its descriptors are free again.
    pub fn used(&mut self) -> Result<Option<Used>, Error> {
        let index = self.memory.map().load::<u16>(GuestAddress(self.used + 2), Ordering::Acquire);
        if index.map_err(Error::memory)? == self.seen {
            return Ok(None);
        }
        let bytes = self.memory.read(self.used + 4 + 8 * u64::from(self.seen % self.size), 8)?;
        self.seen = self.seen.wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let used = Used { head: word(0), written: word(4) };
        if let Some(chain) = self.chains.get_mut(used.head as usize) {
            self.free.extend(chain.drain(..));
        }
        Ok(Some(used))
    }

    /// As [`Ring::used`], but waits for the device's event.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<Used>, Error> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(used) = self.used()? {
                return Ok(Some(used));
            }
            if self.event_index {
                let at = GuestAddress(self.available + 4 + 2 * u64::from(self.size));
                self.memory.map().store(self.seen, at, Ordering::SeqCst).map_err(Error::memory)?;
                // As in `publish`, seen from the other side.
                fence(Ordering::SeqCst);
                if let Some(used) = self.used()? {
                    return Ok(Some(used));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up: a wait of zero milliseconds would only look.
            let milliseconds = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            if left.is_zero() {
                return Ok(None);
            }
            match self.poll.wait(milliseconds, &mut [EpollEvent::default()]) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                // A process that was stopped and goes on (signal(7)).
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            match self.call.read() {
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
    }

    fn load(&self, address: u64) -> Result<u16, Error> {
        self.memory.map().load(GuestAddress(address), Ordering::Acquire).map_err(Error::memory)
    }
}

//! Queue pairs and their slots, and the layout of requests in slots. The numbered rules are those of [`sys`](super).

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use gantry_core::driver::Segment;

use super::{
    BUFFER_BYTES, Cryptodev, DATA_OFFSET, IV_BYTES, MAX_DATA_BYTES, MAX_TAG_BYTES, Session, Shim, SlotAddresses,
};

/// Kinds of RSA requests (`shim/gantry_dpdk.h`).
const RSA_PRIVATE: u32 = 5;
const RSA_PUBLIC: u32 = 6;
/// Maximum number of completions taken from the device at a time.
const MAX_COMPLETIONS: usize = 64;

/// A queue pair with its slots, for one thread at a time.
pub(crate) struct Pair {
    shim: Shim,
    /// Its index in the device, from 0.
    pub(crate) index: u32,
    queue: NonNull<c_void>,
    memory: Vec<SlotAddresses>,
    /// For each slot: true if the slot is in the device.
    in_device: Vec<bool>,
    /// For each slot: the memory outside of the slot that the slot's request points to (rule 5).
    lent_memory: Vec<Option<LentMemory>>,
}

// SAFETY: DPDK allows one thread at a time, any thread, to use a queue pair. The slots' memory is reachable only through the
// pair and the slots.
unsafe impl Send for Pair {}

/// A caller's memory that a request uses in place.
pub(crate) struct LentMemory {
    input: Segment,
    /// `None` if the result goes into the slot.
    output: Option<Segment>,
    /// True if the request no longer points to this memory.
    redirected: bool,
}

impl LentMemory {
    /// Takes an input, and optionally an output of the same length that does not overlap it.
    pub(crate) fn new(input: &Segment, output: Option<&Segment>) -> Self {
        Self { input: input.clone(), output: output.cloned(), redirected: false }
    }

    /// Returns whether the result goes to its destination directly.
    pub(crate) fn takes_result(&self) -> bool {
        self.output.is_some()
    }

    /// Overwrites the result with zeros.
    pub(crate) fn wipe(&self) {
        const ZEROS: [u8; 1024] = [0; 1024];
        let Some(output) = &self.output else { return };
        let mut done = 0;
        while done < output.len() {
            let count = ZEROS.len().min(output.len() - done);
            output.region().write(output.offset() + done, &ZEROS[..count]).expect("a segment is within its region");
            done += count;
        }
    }
}

impl Cryptodev {
    /// Makes the memory for `slots` requests of a queue pair; `None` if memory ran out. Call it once for each `index`.
    pub(crate) fn create_pair(&self, index: u32, slots: u32) -> Option<(Pair, Vec<Slot>)> {
        let mut memory = vec![SlotAddresses { data: null_mut(), iv: null_mut() }; slots as usize];
        // SAFETY: there is room for the addresses of all slots; `configure` has created the queue pair of this index.
        let queue = NonNull::new(unsafe { (self.shim.0.queue_new)(self.id, index, slots, memory.as_mut_ptr()) })?;
        let (in_device, lent_memory) = (vec![false; memory.len()], memory.iter().map(|_| None).collect());
        Some((Pair { shim: self.shim, index, queue, memory, in_device, lent_memory }, (0..slots).map(Slot).collect()))
    }
}

/// A slot that the device does not have.
#[repr(transparent)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) fn index(&self) -> usize {
        self.0 as usize
    }
}

/// The memory of a slot.
pub(crate) struct SlotMemory<'a> {
    /// The data begin at [`DATA_OFFSET`].
    pub(crate) buffer: &'a mut [u8],
    pub(crate) iv: &'a mut [u8; IV_BYTES],
}

/// The result of a request in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    BadTag,
    /// The request failed for this reason.
    Failed(&'static str),
}

/// The reason why a queue pair makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// The device permanently refuses the first of the requests.
    Refused,
    /// The device was stopped.
    Stopped,
}

impl Pair {
    pub(crate) fn memory(&mut self, slot: &Slot) -> SlotMemory<'_> {
        let memory = self.memory[slot.index()];
        // SAFETY: the shim returned these addresses for the slot, with this many bytes. All bytes are initialised: zeroed at first, or
        // written since. The device does not have the slot (rule 2), and `self` is borrowed as long as the slot memory.
        unsafe {
            SlotMemory { buffer: std::slice::from_raw_parts_mut(memory.data, BUFFER_BYTES), iv: &mut *memory.iv.cast() }
        }
    }

    /// Makes a request read its data outside of its slot, and write its result there, too, if `lent_memory` has an output.
    pub(crate) fn lend(&mut self, request: &mut Request, lent_memory: LentMemory) {
        let length = lent_memory.input.len();
        let is_whole = request.packet as usize == DATA_OFFSET && request.data_len() == length;
        assert!(
            is_whole && lent_memory.output.as_ref().is_none_or(|output| output.len() == length),
            "a lent segment must be all of the request's data"
        );
        request.input = lent_memory.input.address().as_ptr();
        request.output = lent_memory.output.as_ref().map_or(null_mut(), |output| output.address().as_ptr());
        self.lent_memory[request.slot.index()] = Some(lent_memory);
    }

    /// Returns the slot of a request that the device refused. The result in lent memory becomes zero, because a PMD may have begun a
    /// request that it refuses.
    pub(crate) fn take_back_refused(&mut self, request: Request) -> Slot {
        if let Some(lent_memory) = self.lent_memory[request.slot.index()].take() {
            lent_memory.wipe();
        }
        request.slot
    }

    /// Points all requests in the device to their slots instead of lent memory, and overwrites results in lent memory with zeros. Call this
    /// before the jobs of the requests are dropped. Keeps the lent memory until the requests return, because a PMD may still use it for a
    /// request that it has begun.
    pub(crate) fn redirect(&mut self) {
        for (slot, lent_memory) in self.lent_memory.iter_mut().enumerate().filter(|(slot, _)| self.in_device[*slot]) {
            if let Some(lent_memory) = lent_memory.as_mut().filter(|lent_memory| !lent_memory.redirected) {
                // SAFETY: `slot` is a slot of this pair, and the device has it. The PMD reads its request only in calls for this pair, and
                // none runs while `self` is borrowed (`Cryptodev::supports_lending`).
                unsafe { (self.shim.0.redirect)(self.queue.as_ptr(), slot as u32) };
                lent_memory.redirected = true;
                lent_memory.wipe();
            }
        }
    }

    /// Moves requests from the front of `requests` to the device, as many as it has room for.
    pub(crate) fn enqueue(&mut self, requests: &mut Vec<Request>) -> Result<(), QueueError> {
        // SAFETY: the slots of these requests are owned (rule 2), their offsets are within them (`Request::new`), and `lent_memory` keeps
        // the memory of their other addresses (rule 5).
        let taken = unsafe { (self.shim.0.enqueue)(self.queue.as_ptr(), requests.as_ptr(), requests.len() as u32) };
        match usize::try_from(taken) {
            Ok(taken) => {
                requests.drain(..taken).for_each(|request| self.in_device[request.slot.index()] = true);
                Ok(())
            }
            Err(_) if taken == -libc::ENOTSUP => Err(QueueError::Stopped),
            Err(_) => Err(QueueError::Refused),
        }
    }

    /// Takes at most [`MAX_COMPLETIONS`] finished requests from the device, and passes each to `on_completion`. Returns their number.
    pub(crate) fn dequeue(
        &mut self,
        mut on_completion: impl FnMut(&mut Self, Slot, Status, Option<LentMemory>),
    ) -> Result<usize, QueueError> {
        let mut done = [Completion::default(); MAX_COMPLETIONS];
        // SAFETY: there is room for `MAX_COMPLETIONS`; the pair is borrowed, so no other thread uses it.
        let count = unsafe { (self.shim.0.dequeue)(self.queue.as_ptr(), done.as_mut_ptr(), MAX_COMPLETIONS as u32) };
        let count = usize::try_from(count).map_err(|_| QueueError::Stopped)?;
        for Completion { slot, status } in done.into_iter().take(count) {
            // Rule 2 depends on this: a slot must not come back twice.
            let in_device = self.in_device.get_mut(slot as usize).is_some_and(std::mem::take);
            assert!(in_device, "DPDK returned a request that it did not have");
            let status = match status {
                0 => Status::Done,
                1 => Status::BadTag,
                2 => Status::Failed("DPDK: the session is invalid"),
                3 => Status::Failed("DPDK: the arguments are invalid"),
                _ => Status::Failed("DPDK: the device reports an error"),
            };
            let lent_memory = self.lent_memory[slot as usize].take();
            on_completion(self, Slot(slot), status, lent_memory);
        }
        Ok(count)
    }
}

/// A request in a slot that it owns, ready for the device.
#[repr(C)]
pub(crate) struct Request {
    session: NonNull<c_void>,
    slot: Slot,
    kind: u32,
    packet: u32,
    packet_length: u32,
    cipher: u32,
    cipher_length: u32,
    auth: u32,
    auth_length: u32,
    tag: u32,
    aad: u32,
    input: *mut u8,
    output: *mut u8,
}

// SAFETY: any thread may use the session (rule 3 keeps it) and memory of regions (rule 5); the rest are numbers.
unsafe impl Send for Request {}

/// The kind of a request, and the places of its parts. Offsets count from the start of the slot's buffer, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) kind: u32,
    /// Start of the packet that the device sees. The packet ends with the tag.
    pub(crate) packet_offset: usize,
    /// Length of the data, which begin at [`DATA_OFFSET`].
    pub(crate) data_len: usize,
    /// Length of the tag, which follows the data.
    pub(crate) tag_len: usize,
    /// Start of the associated data, for AEADs. For CCM, start of the 18 bytes that DPDK reserves before them.
    pub(crate) aad_offset: usize,
}

impl Request {
    pub(crate) fn new(slot: Slot, session: &Session, layout: &Layout) -> Self {
        let Layout { kind, packet_offset, data_len, tag_len, aad_offset } = *layout;
        assert!(
            packet_offset <= DATA_OFFSET
                && aad_offset <= DATA_OFFSET
                && data_len <= MAX_DATA_BYTES
                && tag_len <= MAX_TAG_BYTES,
            "a request must fit its slot"
        );
        let front = (DATA_OFFSET - packet_offset) as u32;
        Self {
            session: session.pointer,
            slot,
            kind,
            packet: packet_offset as u32,
            packet_length: front + (data_len + tag_len) as u32,
            cipher: front,
            cipher_length: data_len as u32,
            auth: 0,
            auth_length: front + data_len as u32,
            tag: (DATA_OFFSET + data_len) as u32,
            aad: aad_offset as u32,
            input: null_mut(),
            output: null_mut(),
        }
    }

    /// Makes a request that raises the number at [`DATA_OFFSET`] to the private or public exponent of an RSA session. The result follows
    /// the number, and has its length.
    pub(crate) fn modular_power(slot: Slot, session: &Session, private: bool, bytes: usize) -> Self {
        assert!(session.is_rsa && bytes <= MAX_DATA_BYTES / 2, "a number must fit its slot");
        let kind = if private { RSA_PRIVATE } else { RSA_PUBLIC };
        Self::new(
            slot,
            session,
            &Layout { kind, packet_offset: DATA_OFFSET, data_len: bytes, tag_len: 0, aad_offset: DATA_OFFSET },
        )
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Returns the length of the data in bytes.
    fn data_len(&self) -> usize {
        self.cipher_length as usize
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    slot: u32,
    status: u32,
}

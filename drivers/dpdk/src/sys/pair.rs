//! Queue pairs and their slots, and what a request looks like there.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use gantry_core::driver::Segment;

use super::{Cryptodev, DATA, IV, MOST_DATA, MOST_TAG, Memory, ROOM, Session, Shim};

/// Kinds of requests of RSA.
const RSA_PRIVATE: u32 = 5;
const RSA_PUBLIC: u32 = 6;
/// Completions that are taken from the device at a time.
const BURST: usize = 64;

/// A queue pair with its slots, for one thread at a time.
pub(crate) struct Pair {
    shim: Shim,
    /// Counted from 0, in its device.
    pub(crate) number: u32,
    queue: NonNull<c_void>,
    memory: Vec<Memory>,
    /// By slot: the device has it.
    inside: Vec<bool>,
    /// By slot: the memory outside of it that its request points to (rule 5).
    lent: Vec<Option<Lent>>,
}

// SAFETY: DPDK lets one thread at a time use a queue pair, whichever it is; the memory of the slots is only reached through
// the pair and the slots.
unsafe impl Send for Pair {}

/// Memory of a caller's that a request reads and writes where it lies.
pub(crate) struct Lent {
    input: Segment,
    /// `None` where the result goes into the slot.
    output: Option<Segment>,
    /// The request no longer points here.
    redirected: bool,
}

impl Lent {
    /// Segments of one length. They do not overlap: what reads and what writes are not the same memory.
    pub(crate) fn new(input: &Segment, output: Option<&Segment>) -> Self {
        Self { input: input.clone(), output: output.cloned(), redirected: false }
    }

    /// Whether the result is where it belongs.
    pub(crate) fn takes_result(&self) -> bool {
        self.output.is_some()
    }

    /// Overwrites the result with zeros.
    pub(crate) fn wipe(&self) {
        const ZEROS: [u8; 1024] = [0; 1024];
        let Some(output) = &self.output else { return };
        let mut done = 0;
        while done < output.len() {
            let some = ZEROS.len().min(output.len() - done);
            output.region().write(output.offset() + done, &ZEROS[..some]).expect("a segment lies in its region");
            done += some;
        }
    }
}

impl Cryptodev {
    /// The queue pair of this number, with memory for so many requests: `None` when memory ran out. Once for each number.
    pub(crate) fn pair(&self, number: u32, slots: u32) -> Option<(Pair, Vec<Slot>)> {
        let mut memory = vec![Memory { data: null_mut(), iv: null_mut() }; slots as usize];
        // SAFETY: room for the addresses of so many slots; the number is of a pair that `configure` made.
        let queue = NonNull::new(unsafe { (self.shim.0.queue_new)(self.id, number, slots, memory.as_mut_ptr()) })?;
        let (inside, lent) = (vec![false; memory.len()], memory.iter().map(|_| None).collect());
        Some((Pair { shim: self.shim, number, queue, memory, inside, lent }, (0..slots).map(Slot).collect()))
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
pub(crate) struct Room<'a> {
    /// [`DATA`] says where data begin.
    pub(crate) buffer: &'a mut [u8],
    pub(crate) iv: &'a mut [u8; IV],
}

/// How a device answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    BadTag,
    /// In words.
    Failed(&'static str),
}

/// Why a queue pair does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The device refuses the first of the requests for good.
    Refused,
    /// The device was stopped.
    Stopped,
}

impl Pair {
    pub(crate) fn room(&mut self, slot: &Slot) -> Room<'_> {
        let memory = self.memory[slot.index()];
        // SAFETY: the shim gave these addresses for the slot, with so many bytes behind them that it had zeroed or somebody has
        // written since; the device does not have it (rule 2), and `self` is borrowed for as long as the room.
        unsafe { Room { buffer: std::slice::from_raw_parts_mut(memory.data, ROOM), iv: &mut *memory.iv.cast() } }
    }

    /// Lets a request read its data outside of its slot, and write its result there where the memory says so.
    pub(crate) fn lend(&mut self, request: &mut Request, lent: Lent) {
        let length = lent.input.len();
        let is_whole = request.packet as usize == DATA && request.data() == length;
        assert!(
            is_whole && lent.output.as_ref().is_none_or(|output| output.len() == length),
            "all of the data, and nothing else"
        );
        request.input = lent.input.address().as_ptr();
        request.output = lent.output.as_ref().map_or(null_mut(), |output| output.address().as_ptr());
        self.lent[request.slot.index()] = Some(lent);
    }

    /// The slot of a request that the device did not take. The result in lent memory is zeros: a PMD may have begun with what it
    /// then refuses.
    pub(crate) fn withdraw(&mut self, request: Request) -> Slot {
        if let Some(lent) = self.lent[request.slot.index()].take() {
            lent.wipe();
        }
        request.slot
    }

    /// Ends the use of lent memory by requests in the device whose jobs are about to be given up: what they wrote is zeros, and
    /// the device writes into their slots if it goes on. The memory is kept until they come back: a PMD may have begun.
    pub(crate) fn redirect(&mut self) {
        for (slot, lent) in self.lent.iter_mut().enumerate().filter(|(slot, _)| self.inside[*slot]) {
            if let Some(lent) = lent.as_mut().filter(|lent| !lent.redirected) {
                // SAFETY: a slot of this pair, which the device has. It reads its request in calls for this pair only, of which none
                // runs while `self` is borrowed (`Cryptodev::lends`).
                unsafe { (self.shim.0.redirect)(self.queue.as_ptr(), slot as u32) };
                lent.redirected = true;
                lent.wipe();
            }
        }
    }

    /// Hands requests to the device, as many as it has room for, from the front.
    pub(crate) fn enqueue(&mut self, requests: &mut Vec<Request>) -> Result<(), Blocked> {
        // SAFETY: so many requests whose slots are ours to give (rule 2), whose offsets are within them (`Request::new`)
        // and whose other addresses are of memory that `lent` keeps (rule 5).
        let taken = unsafe { (self.shim.0.enqueue)(self.queue.as_ptr(), requests.as_ptr(), requests.len() as u32) };
        match usize::try_from(taken) {
            Ok(taken) => {
                requests.drain(..taken).for_each(|request| self.inside[request.slot.index()] = true);
                Ok(())
            }
            Err(_) if taken == -libc::ENOTSUP => Err(Blocked::Stopped),
            Err(_) => Err(Blocked::Refused),
        }
    }

    /// Takes back what the device is done with, up to a burst, and says how many that were.
    pub(crate) fn dequeue(
        &mut self,
        mut each: impl FnMut(&mut Self, Slot, Status, Option<Lent>),
    ) -> Result<usize, Blocked> {
        let mut done = [Completion::default(); BURST];
        // SAFETY: room for so many; the pair is this thread's as long as it is borrowed.
        let count = unsafe { (self.shim.0.dequeue)(self.queue.as_ptr(), done.as_mut_ptr(), BURST as u32) };
        let count = usize::try_from(count).map_err(|_| Blocked::Stopped)?;
        for Completion { slot, status } in done.into_iter().take(count) {
            // Rule 2 hangs on this: a slot must not come back twice.
            let inside = self.inside.get_mut(slot as usize).is_some_and(std::mem::take);
            assert!(inside, "DPDK gave back a request that it did not have");
            let status = match status {
                0 => Status::Done,
                1 => Status::BadTag,
                2 => Status::Failed("DPDK: the session is invalid"),
                3 => Status::Failed("DPDK: the arguments are invalid"),
                _ => Status::Failed("DPDK: the device reports an error"),
            };
            let lent = self.lent[slot as usize].take();
            each(self, Slot(slot), status, lent);
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

// SAFETY: the session may be used by any thread (rule 3 keeps it), as may memory of regions (rule 5); the rest are numbers.
unsafe impl Send for Request {}

/// Where the parts of a request lie. Offsets count from the start of the slot's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) kind: u32,
    /// Where the packet begins that the device sees. It ends with the tag.
    pub(crate) packet: usize,
    /// Bytes of data, which begin at [`DATA`].
    pub(crate) data: usize,
    /// Bytes of the tag behind the data.
    pub(crate) tag: usize,
    /// Where associated data begin, of AEADs.
    pub(crate) aad: usize,
}

impl Request {
    pub(crate) fn new(slot: Slot, session: &Session, layout: &Layout) -> Self {
        let Layout { kind, packet, data, tag, aad } = *layout;
        assert!(packet <= DATA && aad <= DATA && data <= MOST_DATA && tag <= MOST_TAG, "a request within its slot");
        let front = (DATA - packet) as u32;
        Self {
            session: session.pointer,
            slot,
            kind,
            packet: packet as u32,
            packet_length: front + (data + tag) as u32,
            cipher: front,
            cipher_length: data as u32,
            auth: 0,
            auth_length: front + data as u32,
            tag: (DATA + data) as u32,
            aad: aad as u32,
            input: null_mut(),
            output: null_mut(),
        }
    }

    /// A power of a number that lies at [`DATA`], with a session of RSA. The result lies behind it, and has its length.
    pub(crate) fn power(slot: Slot, session: &Session, private: bool, bytes: usize) -> Self {
        assert!(session.rsa && bytes <= MOST_DATA / 2, "a number within its slot");
        let kind = if private { RSA_PRIVATE } else { RSA_PUBLIC };
        Self::new(slot, session, &Layout { kind, packet: DATA, data: bytes, tag: 0, aad: DATA })
    }

    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Bytes of data.
    fn data(&self) -> usize {
        self.cipher_length as usize
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    slot: u32,
    status: u32,
}

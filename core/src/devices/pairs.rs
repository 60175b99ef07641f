//! Queue pairs as core keeps them: the driver's object, and the requests in flight.

#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::algorithm::{Fault, Shape};
use crate::driver::chain::{Chain, InFlight};
use crate::driver::entry::EntryPtr;
use crate::driver::{Batch, Completions, QueuePair, catch_panic};
use crate::request::{Inbox, List, Request};

/// A queue pair, in use or idle, and its requests in flight. Only this type calls a [`QueuePair`].
pub(crate) struct OpenPair {
    /// `None` once the queue pair has been closed.
    pair: Option<Box<dyn QueuePair>>,
    in_flight: InFlight,
    /// Pointers to the requests that are being offered; empty between calls of `submit`, and kept to reuse the allocation.
    burst: Vec<EntryPtr>,
    /// A request was submitted since the last doorbell.
    needs_doorbell: bool,
    /// The driver panicked where no error can be returned. The next call that returns errors closes the pair, whose state may be broken.
    has_panicked: bool,
}

// SAFETY: the pointers in `burst` are used within one call only. The other fields are `Send` themselves, or are a list of requests that the
// pair owns while they are in flight.
unsafe impl Send for OpenPair {}

impl OpenPair {
    pub(crate) fn new(pair: Box<dyn QueuePair>) -> Self {
        Self {
            pair: Some(pair),
            in_flight: InFlight::new(),
            burst: Vec::new(),
            needs_doorbell: false,
            has_panicked: false,
        }
    }

    /// Returns `true` if the device still takes requests through this queue pair.
    pub(crate) fn is_open(&self) -> bool {
        self.pair.is_some()
    }

    /// Returns the number of requests in flight.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns `true` if a request of this inbox is in flight.
    pub(crate) fn has_requests_of(&self, inbox: &Inbox) -> bool {
        // SAFETY: the requests live while they are in flight; a device does not touch core's metadata of a request.
        let inbox_of =
            |entry: EntryPtr| unsafe { (&raw const (*entry.cast::<Request<'_>>().as_ptr()).meta.inbox).read() };
        self.in_flight.entries().any(|entry| inbox_of(entry) == Some(std::ptr::NonNull::from(inbox)))
    }

    /// Returns the address of the oldest request in flight, and the length of its data.
    pub(crate) fn oldest(&self) -> Option<(usize, usize)> {
        let entry = self.in_flight.oldest()?;
        // SAFETY: as in `has_requests_of`.
        let Shape { bytes, .. } = unsafe { (&raw const (*entry.cast::<Request<'_>>().as_ptr()).meta.shape).read() };
        Some((entry.addr().get(), bytes))
    }

    /// Offers requests to the device. Requests for which it has no room stay in the list; requests that it completes at once go to `done`.
    /// Returns `true` if the device has taken all offered requests, and each [is done](Request::is_done). After an error, this pair is
    /// closed.
    #[inline]
    pub(crate) fn submit(&mut self, offered: &mut List, done: &mut List) -> Result<bool, Fault> {
        if self.has_panicked {
            return Err(self.take_back_after_panic(List::new(), done));
        }
        let Some(pair) = &mut self.pair else { return Err(Fault::Lost) };
        self.burst.extend(std::mem::take(offered).entries());
        // SAFETY: the list's handles are now in this burst and nowhere else; `Handle::set_route` has set the session of each request.
        let mut batch = unsafe { Batch::new(&mut self.burst) };
        // A queue pair that panics here is dropped below, so its broken state is never used.
        let result = catch_panic(|| pair.submit(&mut batch));
        let (mut returned, mut are_done) = (Chain::new(), true);
        let taken = batch.close(|entry, is_back| {
            // SAFETY: a request that is back belongs to core again and is in no chain. Any other request belongs to the device, and its
            // owner keeps it alive until it has left the list.
            unsafe {
                if is_back {
                    are_done &= entry.cast::<Request<'_>>().as_ref().is_done();
                    returned.push(entry);
                } else {
                    are_done = false;
                    self.in_flight.push(entry);
                }
            }
        });
        let mut refused = Chain::new();
        for entry in self.burst.drain(..).skip(taken) {
            // SAFETY: the request was not taken, so it belongs to the list as before.
            unsafe { refused.push(entry) };
        }
        // SAFETY: these pointers come from the handles of this list.
        (*offered, self.needs_doorbell) = (unsafe { List::from_chain(refused) }, true);
        // SAFETY: as above.
        let mut returned = unsafe { List::from_chain(returned) };
        if result.is_err() {
            return Err(self.take_back_after_panic(returned, done));
        }
        let all_done = are_done && offered.is_empty();
        done.append(&mut returned);
        Ok(all_done)
    }

    /// Notifies the device of submitted requests, unless it has been notified of all of them.
    #[inline]
    pub(crate) fn doorbell(&mut self) {
        if self.needs_doorbell && !self.in_flight.is_empty() {
            self.ring_doorbell();
        }
        self.needs_doorbell = false;
    }

    #[cold]
    fn ring_doorbell(&mut self) {
        if let Some(pair) = &mut self.pair {
            self.has_panicked = catch_panic(|| pair.doorbell()).is_err();
        }
    }

    /// Collects completions. Returns the number of requests that came back.
    pub(crate) fn poll(&mut self, done: &mut List) -> Result<usize, Fault> {
        self.doorbell();
        if self.has_panicked {
            return Err(self.take_back_after_panic(List::new(), done));
        }
        let Some(pair) = &mut self.pair else { return Ok(self.take_returned(done)) };
        let mut completions = Completions::new(&mut self.in_flight);
        let polled = catch_panic(|| pair.poll(&mut completions));
        // SAFETY: completed requests belong to core again; every entry in flight came from a handle.
        let mut returned = unsafe { List::from_chain(completions.into_completed()) };
        match polled {
            Ok(remaining) => {
                let completed = returned.len();
                done.append(&mut returned);
                // If the counts differ, jobs were dropped, or were completed through another queue pair of the device.
                Ok(completed + if remaining == self.in_flight.len() { 0 } else { self.take_returned(done) })
            }
            Err(_) => Err(self.take_back_after_panic(returned, done)),
        }
    }

    fn take_returned(&mut self, done: &mut List) -> usize {
        let mut returned = Chain::new();
        let taken = self.in_flight.take_returned(&mut returned);
        // SAFETY: as in `poll`.
        done.append(&mut unsafe { List::from_chain(returned) });
        taken
    }

    /// Drops the queue pair to take all requests back, done or not. Returns `false` if the device keeps a request even then.
    pub(crate) fn take_back(&mut self, done: &mut List) -> bool {
        let pair = self.pair.take();
        let _ = catch_panic(|| drop(pair));
        self.take_returned(done);
        self.in_flight.is_empty()
    }

    /// Asks the device to wake `waker` when a request is ready. Returns `true` if the device can do this, or if no request is in flight.
    pub(crate) fn arm(&mut self, waker: &std::task::Waker) -> bool {
        self.doorbell();
        let (Some(pair), false) = (&mut self.pair, self.has_panicked || self.in_flight.is_empty()) else {
            return self.in_flight.is_empty();
        };
        let armed = catch_panic(|| pair.arm(waker));
        self.has_panicked = armed.is_err();
        armed == Ok(true)
    }

    /// Takes back all requests after a panic, in addition to the requests in `returned`. A request that the driver has lost gets the
    /// fault `Panicked`.
    #[cold]
    fn take_back_after_panic(&mut self, mut returned: List, done: &mut List) -> Fault {
        self.has_panicked = false;
        self.take_back(&mut returned);
        returned.each(|handle| {
            if handle.fault() == Some(&Fault::Lost) {
                handle.entry.finish(Err(Fault::Panicked));
            }
        });
        done.append(&mut returned);
        Fault::failed("the driver panicked")
    }
}

/// Idle queue pairs. No thread waits: if a slot is locked, the next slot is tried, and if all are locked, a new queue pair is attached.
#[derive(Default)]
pub(crate) struct Pool {
    slots: [IdleSlot; 16],
}

/// A slot in its own cache line, because a thread takes a queue pair and puts it back with every batch.
#[derive(Default)]
#[repr(align(64))]
struct IdleSlot(Mutex<Option<OpenPair>>);

impl Pool {
    pub(crate) fn take(&self) -> Option<OpenPair> {
        self.slots_from_own().find_map(|slot| slot.try_lock().ok()?.take())
    }

    /// Puts a queue pair back. Returns it if every slot is full.
    pub(crate) fn put(&self, pair: OpenPair) -> Option<OpenPair> {
        for slot in self.slots_from_own() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                return slot.replace(pair);
            }
        }
        Some(pair)
    }

    /// Iterates over all slots, starting at a different slot in each thread to avoid contention.
    fn slots_from_own(&self) -> impl Iterator<Item = &Mutex<Option<OpenPair>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()].0)
    }
}

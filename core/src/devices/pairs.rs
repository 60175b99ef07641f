//! A queue pair in use: the device's end of it, and the requests that are in there.

#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::algorithm::{Fault, Shape};
use crate::driver::entry::{Chain, Flight, Place};
use crate::driver::{Batch, Completions, QueuePair, survived};
use crate::request::{Inbox, List, Request};

/// The only place that calls a [`QueuePair`].
pub(crate) struct OpenPair {
    /// None once the device has lost the trust that a queue pair needs.
    pair: Option<Box<dyn QueuePair>>,
    flight: Flight,
    /// The burst at hand; empty between bursts, and kept for its memory.
    burst: Vec<Place>,
    /// Something was submitted since the doorbell was rung.
    unrung: bool,
}

// SAFETY: the places of a burst are used within one call only; the rest is Send by itself, or a list of requests that the
// pair has in hand.
unsafe impl Send for OpenPair {}

impl OpenPair {
    pub(crate) fn new(pair: Box<dyn QueuePair>) -> Self {
        Self { pair: Some(pair), flight: Flight::new(), burst: Vec::new(), unrung: false }
    }

    /// Whether the device still gets requests this way.
    pub(crate) fn is_open(&self) -> bool {
        self.pair.is_some()
    }

    /// Requests in the device.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Whether a request is in the device that is at home in this inbox.
    pub(crate) fn has_of(&self, home: &Inbox) -> bool {
        // SAFETY: the requests live while they are in flight; a device touches no note of core's.
        let home_of = |place: Place| unsafe { (&raw const (*place.cast::<Request<'_>>().as_ptr()).note.home).read() };
        self.flight.places().any(|place| home_of(place) == Some(std::ptr::NonNull::from(home)))
    }

    /// The request that has been in the device for longest, by its address, and the bytes of its data.
    pub(crate) fn oldest(&self) -> Option<(usize, usize)> {
        let place = self.flight.oldest()?;
        // SAFETY: as in `has_of`.
        let Shape { bytes, .. } = unsafe { (&raw const (*place.cast::<Request<'_>>().as_ptr()).note.shape).read() };
        Some((place.addr().get(), bytes))
    }

    /// Offers requests to the device; those that it has no room for stay in the list. Those that it did right away go to
    /// `done`; whether that was all, and each [is done](Request::is_done). An error is the end of this pair.
    #[inline]
    pub(crate) fn submit(&mut self, offered: &mut List, done: &mut List) -> Result<bool, Fault> {
        let Some(pair) = &mut self.pair else { return Err(Fault::Lost) };
        self.burst.extend(std::mem::take(offered).places());
        // SAFETY: the list's handles are in this burst now and nowhere else; requests that are sent have been addressed.
        let mut batch = unsafe { Batch::new(&mut self.burst) };
        // What the queue pair was about is dropped with it, so nobody sees it half-done.
        let ended = survived(|| pair.submit(&mut batch));
        let (mut back, mut plain) = (Chain::new(), true);
        let taken = batch.settle(|place, is_back| {
            // SAFETY: what is back is core's again, and is in no chain; what is not is the device's, and its owner keeps it
            // alive until it has left the flight.
            unsafe {
                if is_back {
                    plain &= place.cast::<Request<'_>>().as_ref().is_done();
                    back.push(place);
                } else {
                    plain = false;
                    self.flight.push(place);
                }
            }
        });
        let mut left = Chain::new();
        for place in self.burst.drain(..).skip(taken) {
            // SAFETY: it was not taken, so it is the list's as before.
            unsafe { left.push(place) };
        }
        // SAFETY: the places of handles that came in this list.
        (*offered, self.unrung) = (unsafe { List::of_chain(left) }, true);
        // SAFETY: as above.
        let mut back = unsafe { List::of_chain(back) };
        if ended.is_err() {
            return Err(self.panicked(back, done));
        }
        let all_done = plain && offered.is_empty();
        done.append(&mut back);
        Ok(all_done)
    }

    /// Tells the device of what was submitted, unless it knows.
    #[inline]
    pub(crate) fn doorbell(&mut self) {
        if self.unrung && !self.flight.is_empty() {
            self.ring();
        }
        self.unrung = false;
    }

    #[cold]
    fn ring(&mut self) {
        if let Some(pair) = &mut self.pair {
            // A queue pair that panics here is found at the next call, as the requests do not come back.
            let _ = survived(|| pair.doorbell());
        }
    }

    /// Takes what is ready. The number is that of the requests that came back.
    pub(crate) fn poll(&mut self, done: &mut List) -> Result<usize, Fault> {
        self.doorbell();
        let Some(pair) = &mut self.pair else { return Ok(self.sweep(done)) };
        let mut completions = Completions::new(&mut self.flight);
        let polled = survived(|| pair.poll(&mut completions));
        // SAFETY: what the device completed is core's again; every entry in flight was a handle's.
        let mut back = unsafe { List::of_chain(completions.into_back()) };
        match polled {
            Ok(left) => {
                let came = back.len();
                done.append(&mut back);
                // Others were dropped, or completed by way of another queue pair of the device.
                Ok(came + if left == self.flight.len() { 0 } else { self.sweep(done) })
            }
            Err(_) => Err(self.panicked(back, done)),
        }
    }

    fn sweep(&mut self, done: &mut List) -> usize {
        let mut back = Chain::new();
        let found = self.flight.sweep(&mut back);
        // SAFETY: as in `poll`.
        done.append(&mut unsafe { List::of_chain(back) });
        found
    }

    /// Takes everything back from the device, done or not, by dropping the queue pair. `false` if the device keeps something
    /// even so.
    pub(crate) fn take_back(&mut self, done: &mut List) -> bool {
        let pair = self.pair.take();
        let _ = survived(|| drop(pair));
        self.sweep(done);
        self.flight.is_empty()
    }

    pub(crate) fn arm(&mut self, waker: &std::task::Waker) -> bool {
        self.doorbell();
        let mut arm = |pair: &mut Box<dyn QueuePair>| survived(|| pair.arm(waker)) == Ok(true);
        self.flight.is_empty() || self.pair.as_mut().is_some_and(&mut arm)
    }

    /// Takes back what the driver had in hand, besides what came `back` in the call. The fault is that of requests which it
    /// has not touched.
    #[cold]
    fn panicked(&mut self, mut back: List, done: &mut List) -> Fault {
        self.take_back(&mut back);
        back.each(|handle| {
            if handle.fault() == Some(&Fault::Lost) {
                handle.entry.finish(Err(Fault::Panicked));
            }
        });
        done.append(&mut back);
        Fault::failed("the driver panicked")
    }
}

/// No thread ever waits here: where a slot is busy, the next one is tried, and where all are, a queue pair is attached anew.
#[derive(Default)]
pub(crate) struct Pool {
    slots: [Idle; 16],
}

/// In a cache line of its own, because a thread takes and puts with every batch.
#[derive(Default)]
#[repr(align(64))]
struct Idle(Mutex<Option<OpenPair>>);

impl Pool {
    pub(crate) fn take(&self) -> Option<OpenPair> {
        self.in_turn().find_map(|slot| slot.try_lock().ok()?.take())
    }

    /// Gives the queue pair back where every slot is full.
    pub(crate) fn put(&self, pair: OpenPair) -> Option<OpenPair> {
        for slot in self.in_turn() {
            if let Ok(mut slot) = slot.try_lock()
                && slot.is_none()
            {
                return slot.replace(pair);
            }
        }
        Some(pair)
    }

    /// All slots, each thread from one of its own on, so that threads seldom meet.
    fn in_turn(&self) -> impl Iterator<Item = &Mutex<Option<OpenPair>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static FIRST: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let first = FIRST.with(|first| *first);
        (0..self.slots.len()).map(move |index| &self.slots[(first + index) % self.slots.len()].0)
    }
}

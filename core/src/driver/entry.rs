//! Requests that change hands: from core to a device and back.
//!
//! A device may keep a request beyond the call that brought it: a ring is filled now and emptied later. Rust's borrows
//! end with a call, so core's lists and a device's [`Job`](super::Job)s point. What makes that sound:
//!
//! 1. *One hand.* A request is touched through its owner's borrow, or through one handle of core's, or through one job or
//!    offer; never by two of these at a time. While a device has it, it is marked `IN_DEVICE`, and core touches nothing of
//!    it but that mark and its own notes ([`Links`], and what `dispatch` keeps beside), through raw pointers to these very
//!    fields.
//! 2. *Long enough.* Whoever makes a handle promises that the request, and the sessions that it points to, stay where they
//!    are until the handle has come back. `Session::process` does not return before; a `Queue` owns the memory, and leaks it
//!    where a device never gives it back.
//! 3. *Visible.* The last touch of a job is a `Release` store to the mark, and core reads it with `Acquire`.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::operands::{Operands, Scattered};
use super::session::DeviceSession;
use crate::algorithm::{Fault, Outcome};

/// Where a request's entry is. It is a raw pointer: whoever turns one into a reference says why that is sound.
pub(crate) type Place = NonNull<Entry<'static>>;

/// A request as a device has it. `dispatch` keeps its own notes behind it, in one allocation.
pub(crate) struct Entry<'a> {
    pub(crate) operands: Operands<'a>,
    /// The data, where they lie in segments and were not copied: then the operands have none.
    pub(crate) scattered: Option<Scattered<'a>>,
    /// How it ended, if a device says so.
    pub(crate) outcome: Option<Outcome>,
    /// What the device said that failed to do it. In a box, because it is seldom there.
    pub(crate) fault: Option<Box<Fault>>,
    state: AtomicU8,
    pub(crate) links: Links,
}

/// The request is its owner's, or core has it in hand.
const IDLE: u8 = 0;
/// A device has the operands and the result; nobody else touches these.
const IN_DEVICE: u8 = 1;

/// Core's notes about where a request is. A device never touches them.
pub(crate) struct Links {
    next: Option<Place>,
    previous: Option<Place>,
    /// The [`Flight`] that the request is in; 0 for none. Atomic, because another queue pair of the device may be given the job
    /// while this one is still noting it.
    flight: AtomicUsize,
    /// As the device opened it, where the request goes next.
    session: Option<NonNull<dyn DeviceSession>>,
}

// SAFETY: what it points to is Sync (sessions), or used only by whoever has the request in hand (its neighbours in a list).
unsafe impl Send for Links {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Links {}

impl<'a> Entry<'a> {
    pub(crate) fn new(operands: Operands<'a>) -> Self {
        let links = Links { next: None, previous: None, flight: AtomicUsize::new(0), session: None };
        Self { operands, scattered: None, outcome: None, fault: None, state: AtomicU8::new(IDLE), links }
    }

    /// Whether no device has it.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE
    }

    /// Forgets how it ended.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.outcome = None;
        if self.fault.is_some() {
            self.fault = None;
        }
    }

    #[inline]
    pub(crate) fn finish(&mut self, result: Result<Outcome, Fault>) {
        match result {
            Ok(outcome) => self.outcome = Some(outcome),
            Err(fault) => set_fault(&mut self.fault, Some(fault)),
        }
    }

    /// What a device gave back.
    pub(crate) fn result(&self) -> Result<Outcome, Fault> {
        self.outcome.ok_or_else(|| self.fault.as_deref().cloned().unwrap_or(Fault::Lost))
    }
}

#[cold]
fn set_fault(place: &mut Option<Box<Fault>>, fault: Option<Fault>) {
    *place = fault.map(Box::new);
}

impl Links {
    /// Notes the session that the request goes to next.
    ///
    /// # Safety
    ///
    /// The session lives until the request has come back from there (rule 2).
    #[inline]
    pub(crate) unsafe fn set_session(&mut self, session: &dyn DeviceSession) {
        // SAFETY: only the lifetime changes, and the caller answers for that.
        let session = unsafe {
            std::mem::transmute::<NonNull<dyn DeviceSession + '_>, NonNull<dyn DeviceSession>>(NonNull::from(session))
        };
        self.session = Some(session);
    }
}

/// The session that a request was addressed to.
///
/// # Safety
///
/// Rules 1 and 2 hold for the place, and the session was set and lives for as long as the answer is used.
#[inline]
pub(super) unsafe fn session<'s>(place: Place) -> &'s dyn DeviceSession {
    // SAFETY: the caller answers for the place; `links` are core's own and are not changed while a device has the request.
    let session = unsafe { (&raw const (*place.as_ptr()).links.session).read() };
    // SAFETY: as the caller says.
    unsafe { session.expect("core names the session before it offers a request").as_ref() }
}

#[inline]
fn next(place: Place) -> Option<Place> {
    // SAFETY: rule 2 keeps the entry alive. Links are core's own fields: a device never touches them, so they may be read
    // while a job has the rest (rule 1).
    unsafe { (&raw const (*place.as_ptr()).links.next).read() }
}

#[inline]
fn set_next(place: Place, next: Option<Place>) {
    // SAFETY: as `next`, and only the thread that has the list writes its links.
    unsafe { (&raw mut (*place.as_ptr()).links.next).write(next) }
}

#[inline]
fn set_previous(place: Place, previous: Option<Place>) {
    // SAFETY: as `set_next`.
    unsafe { (&raw mut (*place.as_ptr()).links.previous).write(previous) }
}

/// The flight that an entry is in.
#[inline]
pub(super) fn flight_of(place: Place) -> usize {
    // SAFETY: as `next`.
    unsafe { (*place.as_ptr()).links.flight.load(Ordering::Relaxed) }
}

#[inline]
fn set_flight(place: Place, flight: usize) {
    // SAFETY: as `next`; the field is atomic.
    unsafe { (*place.as_ptr()).links.flight.store(flight, Ordering::Relaxed) }
}

/// Gives a request its result, in place of one that it may have been given before. The device has the entry.
#[inline]
pub(super) fn finish(place: Place, result: Result<Outcome, Fault>) {
    // SAFETY: the device has these two fields (rule 1), and they are alive (rule 2). It has not the entry as a whole: core may be
    // looking at the links.
    let (outcome, fault) = unsafe { (&mut (*place.as_ptr()).outcome, &mut (*place.as_ptr()).fault) };
    match result {
        Ok(done) => {
            *outcome = Some(done);
            if fault.is_some() {
                set_fault(fault, None);
            }
        }
        Err(what) => {
            *outcome = None;
            set_fault(fault, Some(what));
        }
    }
}

/// Whether a request has been given a result. The device has the entry.
#[inline]
pub(super) fn has_result(place: Place) -> bool {
    // SAFETY: as `finish`.
    unsafe { (*place.as_ptr()).outcome.is_some() || (*place.as_ptr()).fault.is_some() }
}

/// Whether a device has given an entry back.
#[inline]
pub(crate) fn is_back(place: Place) -> bool {
    // SAFETY: the mark is alive as the entry is (rule 2), and is only used through shared references to itself.
    unsafe { (*place.as_ptr()).state.load(Ordering::Acquire) == IDLE }
}

/// Marks an entry as a device's, or as core's again.
#[inline]
pub(super) fn mark(place: Place, in_device: bool) {
    let state = if in_device { IN_DEVICE } else { IDLE };
    // SAFETY: as `is_back`.
    unsafe { (*place.as_ptr()).state.store(state, Ordering::Release) };
}

/// Entries in a row, linked through themselves. Every entry in a chain is alive and in nobody else's hands: [`push`](Self::push)
/// asks its caller for that promise.
pub(crate) struct Chain {
    head: Option<Place>,
    tail: Option<Place>,
    len: usize,
}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { head: None, tail: None, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Place> {
        self.head
    }

    /// Adds an entry at the end.
    ///
    /// # Safety
    ///
    /// The entry stays alive, and is in nobody else's hands, until it has left the chain (rules 1 and 2).
    #[inline]
    pub(crate) unsafe fn push(&mut self, place: Place) {
        set_next(place, None);
        match self.tail {
            Some(tail) => set_next(tail, Some(place)),
            None => self.head = Some(place),
        }
        self.tail = Some(place);
        self.len += 1;
    }

    /// Takes out the first entry. Its link still leads to what was behind it.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Place> {
        let place = self.head?;
        self.head = next(place);
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(place)
    }

    /// Adds all of `other` at the end.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut Chain) {
        let other = std::mem::take(other);
        match self.tail {
            Some(tail) => {
                set_next(tail, other.head);
                self.tail = other.tail.or(self.tail);
                self.len += other.len;
            }
            None => *self = other,
        }
    }

    /// The first `count`, or all there are.
    pub(crate) fn take_front(&mut self, count: usize) -> Chain {
        if count >= self.len {
            return std::mem::take(self);
        }
        let head = self.head;
        let mut tail = None;
        for _ in 0..count {
            tail = self.pop();
        }
        let Some(last) = tail else { return Chain::new() };
        set_next(last, None);
        Chain { head, tail, len: count }
    }

    /// A chain of entries that lie in a row and were linked by [`link`].
    ///
    /// # Safety
    ///
    /// From `first` on, `len` entries are linked and fulfil what [`push`](Self::push) asks for.
    #[inline]
    pub(crate) unsafe fn of_linked(first: Place, last: Option<Place>, len: usize) -> Self {
        let Some(last) = last else { return Chain::new() };
        set_next(last, None);
        Self { head: Some(first), tail: Some(last), len }
    }

    /// The first and the last entry, for a list that several threads share.
    pub(crate) fn into_ends(self) -> Option<(Place, Place)> {
        Some((self.head?, self.tail?))
    }

    /// The chain that begins with `first`, as [`into_ends`](Self::into_ends) gave it, or several with each last entry leading
    /// to the next chain.
    ///
    /// # Safety
    ///
    /// Nobody else has any of these chains any more.
    pub(crate) unsafe fn of_ends(first: Option<Place>) -> Self {
        let mut chain = Chain::new();
        let mut place = first;
        while let Some(here) = place {
            place = next(here);
            // SAFETY: the chains were made by `push`, and are ours now.
            unsafe { chain.push(here) };
        }
        chain
    }

    #[inline]
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        std::iter::successors(self.head, |place| next(*place))
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// Leads an entry to the next one of its chain.
#[inline]
pub(crate) fn link(place: Place, behind: Option<Place>) {
    set_next(place, behind);
}

/// Requests that are in a device, in the order in which it took them. Linked both ways, so that one leaves in the same time
/// wherever it stands.
pub(crate) struct Flight {
    chain: Chain,
    /// Unique in the process.
    id: usize,
}

impl Flight {
    pub(crate) fn new() -> Self {
        static FLIGHTS: AtomicUsize = AtomicUsize::new(1);
        Self { chain: Chain::new(), id: FLIGHTS.fetch_add(1, Ordering::Relaxed) }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.chain.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.chain.head.is_none()
    }

    pub(super) fn id(&self) -> usize {
        self.id
    }

    /// The one that has been in the device for longest.
    pub(crate) fn oldest(&self) -> Option<Place> {
        self.chain.head
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        self.chain.places()
    }

    /// Adds an entry that a device keeps.
    ///
    /// # Safety
    ///
    /// The entry stays alive until it has left the flight (rule 2), and is in no other chain.
    pub(crate) unsafe fn push(&mut self, place: Place) {
        set_previous(place, self.chain.tail);
        set_flight(place, self.id);
        // SAFETY: as the caller says; the device has the entry, and touches none of its links.
        unsafe { self.chain.push(place) };
    }

    /// Takes out an entry that [is here](flight_of), from wherever it stands.
    pub(super) fn remove(&mut self, place: Place) {
        debug_assert_eq!(flight_of(place), self.id);
        // SAFETY: as `next`.
        let previous = unsafe { (&raw const (*place.as_ptr()).links.previous).read() };
        let behind = next(place);
        match previous {
            Some(previous) => set_next(previous, behind),
            None => self.chain.head = behind,
        }
        match behind {
            Some(behind) => set_previous(behind, previous),
            None => self.chain.tail = previous,
        }
        self.chain.len -= 1;
        set_flight(place, 0);
    }

    /// Moves those to `done` that came back without a completion: dropped, or completed by way of another queue pair. It looks
    /// at all of them.
    pub(crate) fn sweep(&mut self, done: &mut Chain) -> usize {
        let mut found = 0;
        let mut place = self.chain.head;
        while let Some(here) = place {
            place = next(here);
            if is_back(here) {
                self.remove(here);
                // SAFETY: the device has given it back, and it is in no chain any more.
                unsafe { done.push(here) };
                found += 1;
            }
        }
        found
    }
}

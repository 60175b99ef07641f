//! Core's handles of requests, and lists of them.
//!
//! Why pointing at requests is sound is said once, in `driver/entry.rs`; the rules that the comments here cite are those.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::Request;
use crate::algorithm::Fault;
use crate::driver::DeviceSession;
use crate::driver::entry::{Chain, Place};
use crate::route::{RequestSizes, Route};

/// A request that core has in hand.
pub(crate) struct Handle(Place);

// SAFETY: a handle is the only way to its request (rule 1), whose parts (slices, streams, plain values) are Send.
unsafe impl Send for Handle {}

impl Handle {
    /// # Safety
    ///
    /// Until the handle is gone, the request stays where it is, with what it borrows and with the sessions that it points
    /// to, and nothing else touches it (rules 1 and 2).
    #[inline]
    pub(crate) unsafe fn new(request: NonNull<Request<'_>>) -> Self {
        // A request begins with its entry.
        Self(request.cast())
    }

    /// Ends the handle; the request is its owner's again.
    #[inline]
    pub(crate) fn into_place(self) -> Place {
        self.0
    }

    /// Notes where the request goes next, and the session as that device opened it.
    ///
    /// # Safety
    ///
    /// The session lives until the request has come back from there (rule 2).
    #[inline]
    pub(crate) unsafe fn address(&mut self, session: &dyn DeviceSession, route: Option<Route>) {
        // SAFETY: as the caller says.
        unsafe { self.entry.links.set_session(session) };
        self.route = route;
    }
}

impl Deref for Handle {
    type Target = Request<'static>;

    #[inline]
    fn deref(&self) -> &Request<'static> {
        // SAFETY: rules 1 and 2, and every handle was made of a whole request. The lifetimes inside are longer than those of
        // the truth; core only passes them on shorter.
        unsafe { self.0.cast().as_ref() }
    }
}

impl DerefMut for Handle {
    #[inline]
    fn deref_mut(&mut self) -> &mut Request<'static> {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { self.0.cast().as_mut() }
    }
}

/// Handles in a row, linked through the requests themselves.
#[derive(Default)]
pub(crate) struct List(Chain);

// SAFETY: as for the handles that it is made of.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> Self {
        Self(Chain::new())
    }

    /// # Safety
    ///
    /// The chain consists of handles' places, which are in nobody else's hands.
    #[inline]
    pub(crate) unsafe fn of_chain(chain: Chain) -> Self {
        Self(chain)
    }

    #[inline]
    pub(crate) fn into_chain(self) -> Chain {
        self.0
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.first().is_none()
    }

    #[inline]
    pub(crate) fn push(&mut self, handle: Handle) {
        // SAFETY: the handle was promised that its request lives, and goes into the list.
        unsafe { self.0.push(handle.into_place()) };
    }

    /// Adds a request before all others.
    pub(crate) fn push_front(&mut self, handle: Handle) {
        let mut rest = std::mem::take(self);
        self.push(handle);
        self.append(&mut rest);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Handle> {
        self.0.pop().map(Handle)
    }

    /// Adds all of `other` at the end.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut List) {
        self.0.append(&mut other.0);
    }

    /// The first `count`, or all there are.
    pub(crate) fn take_front(&mut self, count: usize) -> List {
        List(self.0.take_front(count))
    }

    #[inline]
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        self.0.places()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request<'static>> {
        // SAFETY: the list holds handles; as `Handle::deref`, and `self` is borrowed.
        self.0.places().map(|place| unsafe { place.cast().as_ref() })
    }

    /// Calls `each` for every request.
    #[inline]
    pub(crate) fn each(&mut self, mut each: impl FnMut(&mut Handle)) {
        for place in self.0.places() {
            each(&mut Handle(place));
        }
    }

    /// Ends all of them with this fault, and moves them to `back`.
    pub(crate) fn fail(&mut self, fault: &Fault, back: &mut List) {
        self.each(|handle| handle.entry.finish(Err(fault.clone())));
        back.append(self);
    }

    /// Takes out the requests for which `out` says so, in order.
    pub(crate) fn extract(&mut self, mut out: impl FnMut(&Request<'static>) -> bool) -> List {
        let mut extracted = List::new();
        let mut rest = std::mem::take(self);
        while let Some(handle) = rest.pop() {
            if out(&handle) { extracted.push(handle) } else { self.push(handle) }
        }
        extracted
    }
}

impl RequestSizes for List {
    fn sizes(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        Box::new(self.iter().map(|request| request.note.shape.bytes))
    }
}

impl Iterator for List {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        self.pop()
    }
}

impl FromIterator<Handle> for List {
    fn from_iter<I: IntoIterator<Item = Handle>>(handles: I) -> Self {
        let mut list = List::new();
        list.extend(handles);
        list
    }
}

impl Extend<Handle> for List {
    fn extend<I: IntoIterator<Item = Handle>>(&mut self, handles: I) {
        for handle in handles {
            self.push(handle);
        }
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests", self.len())
    }
}

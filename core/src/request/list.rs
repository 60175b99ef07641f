//! Core's handles of requests, and lists of them.
//!
//! `driver/entry.rs` explains why pointers to requests are sound; comments here cite its rules.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::Request;
use crate::algorithm::Fault;
use crate::driver::DeviceSession;
use crate::driver::chain::Chain;
use crate::driver::entry::EntryPtr;
use crate::route::{RequestSizes, Route};

/// A request owned by core.
pub(crate) struct Handle(EntryPtr);

// SAFETY: a handle is the only access to its request (rule 1), whose parts (slices, streams, plain values) are Send.
unsafe impl Send for Handle {}

impl Handle {
    /// # Safety
    ///
    /// As long as the handle exists, the request must stay in place, and so must the data that it borrows and the sessions that it points
    /// to. Nothing else may access the request (rules 1 and 2).
    #[inline]
    pub(crate) unsafe fn new(request: NonNull<Request<'_>>) -> Self {
        // A request begins with its entry.
        Self(request.cast())
    }

    /// Ends the handle. Access to the request passes to the caller.
    #[inline]
    pub(crate) fn into_entry(self) -> EntryPtr {
        self.0
    }

    /// Sets the route of the request, and the session that the device opened.
    ///
    /// # Safety
    ///
    /// The session must live until the request has come back (rule 2).
    #[inline]
    pub(crate) unsafe fn set_route(&mut self, session: &dyn DeviceSession, route: Option<Route>) {
        // SAFETY: promised by the caller.
        unsafe { self.entry.links.set_session(session) };
        self.route = route;
    }
}

impl Deref for Handle {
    type Target = Request<'static>;

    #[inline]
    fn deref(&self) -> &Request<'static> {
        // SAFETY: rules 1 and 2, and every handle was made from a whole request. The lifetimes inside are longer than the real ones;
        // core only passes them on shortened.
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

/// A list of handles, linked through the requests themselves.
#[derive(Default)]
pub(crate) struct List(Chain);

// SAFETY: as for `Handle`; a list consists of handles.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> Self {
        Self(Chain::new())
    }

    /// # Safety
    ///
    /// The chain must consist of entries of handles, and have no other owner.
    #[inline]
    pub(crate) unsafe fn from_chain(chain: Chain) -> Self {
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
        // SAFETY: the handle guarantees that its request lives, and moves into the list.
        unsafe { self.0.push(handle.into_entry()) };
    }

    /// Adds a request at the front.
    pub(crate) fn push_front(&mut self, handle: Handle) {
        let mut rest = std::mem::take(self);
        self.push(handle);
        self.append(&mut rest);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Handle> {
        self.0.pop().map(Handle)
    }

    /// Moves all handles of `other` to the end of this list.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut List) {
        self.0.append(&mut other.0);
    }

    /// Takes the first `count` requests, or all if there are fewer.
    pub(crate) fn take_front(&mut self, count: usize) -> List {
        List(self.0.take_front(count))
    }

    #[inline]
    pub(crate) fn entries(&self) -> impl Iterator<Item = EntryPtr> + use<> {
        self.0.entries()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request<'static>> {
        // SAFETY: the list holds handles; as in `Handle::deref`, and `self` is borrowed.
        self.0.entries().map(|entry| unsafe { entry.cast().as_ref() })
    }

    /// Calls `each` for every request.
    #[inline]
    pub(crate) fn each(&mut self, mut each: impl FnMut(&mut Handle)) {
        for entry in self.0.entries() {
            each(&mut Handle(entry));
        }
    }

    /// Ends all requests with this fault, and moves them to `returned`.
    pub(crate) fn fail(&mut self, fault: &Fault, returned: &mut List) {
        self.each(|handle| handle.entry.finish(Err(fault.clone())));
        returned.append(self);
    }

    /// Takes out the requests for which `selects` returns `true`, in order.
    pub(crate) fn extract(&mut self, mut selects: impl FnMut(&Request<'static>) -> bool) -> List {
        let mut extracted = List::new();
        let mut rest = std::mem::take(self);
        while let Some(handle) = rest.pop() {
            if selects(&handle) { extracted.push(handle) } else { self.push(handle) }
        }
        extracted
    }
}

impl RequestSizes for List {
    fn sizes(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        Box::new(self.iter().map(|request| request.meta.shape.bytes))
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

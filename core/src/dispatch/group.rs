//! Requests that can share a route, and where they go.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::session::{OpenSession, SessionCore};
use crate::algorithm::{Operation, Shape};
use crate::devices::Urgency;
use crate::request::{Handle, List, Request};
use crate::route::{Needs, Route};

/// What requests have in common that can share a route: the same operation, and streams of one device, with whole messages
/// among them as they come.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) list: List,
    pub(crate) operation: Option<Operation>,
    pub(crate) needs: Needs,
    /// Of all requests.
    pub(crate) bytes: usize,
    /// The route of the streams: their state is on that device already.
    pub(crate) bound: Option<Route>,
    /// They are not all of one session, or not all of one thread.
    pub(crate) mixed: bool,
}

impl Group {
    /// An empty group.
    #[inline]
    pub(crate) fn new(mixed: bool) -> Self {
        Self { mixed, ..Self::default() }
    }

    /// Whether a request can go along; if so, what it needs is needed by all. `session` is that of one that is here.
    #[inline]
    pub(crate) fn takes_in(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let shape = request.note.shape;
        // Nearly always it is one more whole message.
        let whole = self.bound.is_none() && request.bound.is_none();
        let fits = whole && self.operation == Some(shape.operation) || self.agrees_with(session, request);
        if fits {
            self.count_in(shape);
        }
        fits
    }

    /// Whether it can go along otherwise: the first one always can, and streams have a device already.
    #[inline(never)]
    fn agrees_with(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let Shape { operation, bytes, .. } = request.note.shape;
        let before = self.operation.replace(operation);
        if before.is_some_and(|before| before != operation) {
            self.operation = before;
            return false;
        }
        let theirs = request.bound.as_ref().map(|bound| bound.route);
        if let Some(route) = self.bound.or(theirs) {
            // Whole messages go along only where they may go by themselves.
            let mixed = self.bound.is_none() && before.is_some() || theirs.is_none();
            let elsewhere = theirs.is_some_and(|theirs| theirs.device != route.device);
            if elsewhere || mixed && !session.serves(route.device, self.needs.max_bytes.max(bytes)) {
                return false;
            }
            self.bound = Some(route);
        }
        true
    }

    /// Takes in another whole message of the same operation, where no streams are.
    #[inline]
    pub(crate) fn count_in(&mut self, Shape { bytes, in_place, .. }: Shape) {
        self.bytes += bytes;
        self.needs.in_place |= in_place;
        self.needs.max_bytes = self.needs.max_bytes.max(bytes);
    }
}

/// Notes on a request where it goes, under a session that its owner or the lead of its group has opened there.
#[inline]
pub(crate) fn address(handle: &mut Handle, session: &OpenSession<'_>, route: Route) {
    handle.copy_unless_taken(route.device);
    // SAFETY: a session that its owner keeps lives as long as that does, which is until the request is back; one that a cache
    // has is kept beside the request.
    unsafe { handle.address(&**session, Some(route)) };
    if let OpenSession::Cached(session) = session {
        handle.rare().session = Some(session.clone());
    }
}

/// The same under the request's own session. `false` if the device does not open it.
pub(crate) fn address_by_owner(handle: &mut Handle, place: usize, route: Route) -> bool {
    let owner = NonNull::from(handle.owner());
    // SAFETY: the owner lives until the request is back, and is only ever shared; it is no part of the request.
    match unsafe { owner.as_ref() }.opened(place, Urgency::Brief.on(route)) {
        Ok(session) => {
            address(handle, &session, route);
            true
        }
        Err(_) => false,
    }
}

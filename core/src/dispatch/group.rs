//! Groups: requests that can share a route, and their addressing.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::session::{OpenSession, SessionCore};
use crate::algorithm::{Operation, Shape};
use crate::devices::Urgency;
use crate::request::{Handle, List, Request};
use crate::route::{Needs, Question, Route};

/// Requests that can share a route. They have the same operation. If some of them are steps of streams, the state of all these streams is
/// on one device, and this device takes the whole messages of the group, too.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) list: List,
    pub(crate) operation: Option<Operation>,
    pub(crate) needs: Needs,
    /// Bytes of all requests.
    pub(crate) bytes: usize,
    /// The route of the group's streams, to the device that has their state. `None` if the group has no streams.
    pub(crate) bound: Option<Route>,
    /// The requests belong to several sessions or threads.
    pub(crate) mixed: bool,
    /// Maximum number of requests in the group.
    most: usize,
    /// `true` if whole messages run on the device of the streams. `None` until a whole message and a stream are to share the group.
    messages_join: Option<bool>,
}

impl Group {
    /// Creates an empty group for at most `most` requests.
    #[inline]
    pub(crate) fn new(mixed: bool, most: usize) -> Self {
        Self { mixed, most, ..Self::default() }
    }

    /// If the request fits into the group, adds the request's needs to the group's needs and returns `true`. `session` is a session of the
    /// group.
    #[inline]
    pub(crate) fn try_add(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let shape = request.meta.shape;
        // The common case is another whole message.
        let whole = self.bound.is_none() && request.bound.is_none();
        let fits = whole && self.operation == Some(shape.operation) || self.can_join(session, request);
        if fits {
            self.add_shape(shape);
        }
        fits
    }

    /// Handles the other cases: the first request, which always fits, a request with another operation, and steps of streams, which are
    /// bound to a device.
    #[inline(never)]
    fn can_join(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let shape = request.meta.shape;
        let Shape { operation, bytes, .. } = shape;
        let previous = self.operation.replace(operation);
        if previous.is_some_and(|previous| previous != operation) {
            self.operation = previous;
            return false;
        }
        let own_route = request.bound.as_ref().map(|bound| bound.route);
        if let Some(route) = self.bound.or(own_route) {
            let mixed = self.bound.is_none() && previous.is_some() || own_route.is_none();
            let is_elsewhere = own_route.is_some_and(|own| own.device != route.device);
            let serves = || session.serves(route.device, self.needs.max_bytes.max(bytes));
            if is_elsewhere || mixed && !(serves() && self.messages_join(session, route, shape)) {
                return false;
            }
            self.bound = Some(route);
        }
        true
    }

    /// Returns `true` if the policy would send `most` whole messages to the device of the streams, so that the messages can run in the same
    /// group as the streams.
    fn messages_join(&mut self, session: &SessionCore, streams: Route, shape: Shape) -> bool {
        let (requests, bytes) = (self.most, shape.bytes.saturating_mul(self.most));
        *self.messages_join.get_or_insert_with(|| {
            let best = session.ask_hypothetically(&Question { requests, bytes, ..Question::one(shape, 0) });
            best.is_none_or(|best| best.device == streams.device)
        })
    }

    /// Adds the needs of a request that fits into the group. A whole message of the same operation always fits into a group without
    /// streams.
    #[inline]
    pub(crate) fn add_shape(&mut self, Shape { bytes, in_place, .. }: Shape) {
        self.bytes += bytes;
        self.needs.in_place |= in_place;
        self.needs.max_bytes = self.needs.max_bytes.max(bytes);
    }
}

/// Sets a request's route and its session on the route's device. The request's owner or the leading session of the group has opened this
/// session.
#[inline]
pub(crate) fn address(handle: &mut Handle, session: &OpenSession<'_>, route: Route) {
    handle.copy_unless_taken(route.device);
    // SAFETY: a session kept by its owner lives as long as the owner, which outlives the request. The request's cold data keeps a cached
    // session alive, below.
    unsafe { handle.address(&**session, Some(route)) };
    if let OpenSession::Cached(session) = session {
        handle.cold_mut().session = Some(session.clone());
    }
}

/// Sets a request's route, and the session that its owner has on the route's device. Returns `false` if the device does not open the
/// session.
pub(crate) fn address_by_owner(handle: &mut Handle, place: usize, route: Route) -> bool {
    let owner = NonNull::from(handle.owner());
    // SAFETY: the owner lives until the request is back, is only ever shared, and is not part of the request.
    match unsafe { owner.as_ref() }.opened(place, Urgency::Brief.for_route(route)) {
        Ok(session) => {
            address(handle, &session, route);
            true
        }
        Err(_) => false,
    }
}

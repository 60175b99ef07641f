//! Groups: requests that can share a route, and their routes.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::session::{OpenSession, SessionCore};
use crate::algorithm::{Operation, Shape};
use crate::devices::TestWait;
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
    pub(crate) stream_route: Option<Route>,
    /// The requests may belong to several sessions or threads.
    pub(crate) mixed: bool,
    /// Maximum number of requests in the group.
    max_requests: usize,
    /// `true` if whole messages run on the device of the streams. `None` until a whole message and a stream are to share the group.
    whole_messages_join: Option<bool>,
}

impl Group {
    /// Creates an empty group for at most `max_requests` requests.
    #[inline]
    pub(crate) fn new(mixed: bool, max_requests: usize) -> Self {
        Self { mixed, max_requests, ..Self::default() }
    }

    /// If the request fits into the group, adds the request's bytes and needs to those of the group and returns `true`. The caller puts the
    /// request into `list`. `session` is a session of the group.
    #[inline]
    pub(crate) fn try_add(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let shape = request.meta.shape;
        // The common case is another whole message.
        let whole = self.stream_route.is_none() && request.stream.is_none();
        let fits = whole && self.operation == Some(shape.operation) || self.try_join(session, request);
        if fits {
            self.add_shape(shape);
        }
        fits
    }

    /// Handles the other cases: the first request of a group, another operation, and groups with steps of streams, which are bound to a
    /// device. The first request always fits.
    #[inline(never)]
    fn try_join(&mut self, session: &SessionCore, request: &Request<'_>) -> bool {
        let shape = request.meta.shape;
        let Shape { operation, bytes, .. } = shape;
        let previous = self.operation.replace(operation);
        if previous.is_some_and(|previous| previous != operation) {
            self.operation = previous;
            return false;
        }
        let own_route = request.stream.as_ref().map(|stream| stream.route);
        if let Some(route) = self.stream_route.or(own_route) {
            let mixed = self.stream_route.is_none() && previous.is_some() || own_route.is_none();
            let is_elsewhere = own_route.is_some_and(|own| own.device != route.device);
            let serves = || session.serves(route.device, self.needs.max_bytes.max(bytes));
            if is_elsewhere || mixed && !(serves() && self.whole_messages_join(session, route, shape)) {
                return false;
            }
            self.stream_route = Some(route);
        }
        true
    }

    /// Returns `true` if the policy would send `max_requests` whole messages to the device of the streams, so that the messages can run in
    /// the same group as the streams.
    fn whole_messages_join(&mut self, session: &SessionCore, streams: Route, shape: Shape) -> bool {
        let (requests, bytes) = (self.max_requests, shape.bytes.saturating_mul(self.max_requests));
        *self.whole_messages_join.get_or_insert_with(|| {
            let best = session.ask_hypothetically(&Question { requests, bytes, ..Question::one(shape, 0) });
            best.is_none_or(|best| best.device == streams.device)
        })
    }

    /// Adds the bytes and needs of a request that fits into the group. Callers may skip `try_add` for a whole message in a group without
    /// streams: it fits if its operation is the group's.
    #[inline]
    pub(crate) fn add_shape(&mut self, Shape { bytes, in_place, .. }: Shape) {
        self.bytes += bytes;
        self.needs.in_place |= in_place;
        self.needs.max_bytes = self.needs.max_bytes.max(bytes);
    }
}

/// Sets a request's route, and the device session that runs the request. The request's own session has opened the device session on the
/// route's device.
#[inline]
pub(crate) fn set_route(handle: &mut Handle, session: &OpenSession<'_>, route: Route) {
    handle.copy_segments_unless_taken(route.device);
    // SAFETY: the request's session outlives the request, and keeps a borrowed device session alive. The request's cold data keeps a
    // cached one alive, below.
    unsafe { handle.set_route(&**session, Some(route)) };
    if let OpenSession::Cached(session) = session {
        handle.cold_mut().session = Some(session.clone());
    }
}

/// Sets a request's route, and the device session that its session has on the route's device. Returns `false` if the device does not open
/// the session.
pub(crate) fn set_route_of_own_session(handle: &mut Handle, index: usize, route: Route) -> bool {
    let session = NonNull::from(handle.session());
    // SAFETY: the session lives until the request is back, is only ever shared, and is not part of the request.
    match unsafe { session.as_ref() }.device_session(index, TestWait::Brief.for_route(route)) {
        Ok(session) => {
            set_route(handle, &session, route);
            true
        }
        Err(_) => false,
    }
}

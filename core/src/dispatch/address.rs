//! Where a request goes, and under which session.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::admission::Urgency;
use super::list::Handle;
use super::session::OpenSession;
use crate::route::Route;

/// Notes on a request where it goes, under a session that its owner or the lead of its group has opened there.
#[inline]
pub(super) fn address(handle: &mut Handle, session: &OpenSession<'_>, route: Route) {
    handle.copy_unless_taken(route.device);
    // SAFETY: a session that its owner keeps lives as long as that does, which is until the request is back; one that a cache
    // has is kept beside the request.
    unsafe { handle.address(&**session, Some(route)) };
    if let OpenSession::Cached(session) = session {
        handle.rare().session = Some(session.clone());
    }
}

/// The same under the request's own session. `false` if the device does not open it.
pub(super) fn address_by_owner(handle: &mut Handle, place: usize, route: Route) -> bool {
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

//! Batches of borrowed requests, which a synchronous call lends to core.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::Request;
use super::inbox::Inbox;
use super::list::List;
use crate::driver::chain::{Chain, link};
use crate::driver::entry::EntryPtr;

/// A slice of requests that is lent to core. The call cannot return, even by a panic, before all requests are back.
pub(crate) struct BorrowedBatch<'r> {
    list: List,
    inbox: &'r Inbox,
    requests: PhantomData<&'r mut Request<'r>>,
}

impl<'r> BorrowedBatch<'r> {
    /// Lends all requests, after `examine` has checked each and returned the address of its session. Stops at the first error from
    /// `examine`.
    ///
    /// # Safety
    ///
    /// The result of `examine` must be the address of a session that lives as long as the batch, or `None`.
    #[inline]
    pub(crate) unsafe fn new<E>(
        requests: &'r mut [Request<'_>],
        inbox: &'r Inbox,
        mut examine: impl FnMut(usize, &mut Request<'_>) -> Result<Option<NonNull<()>>, E>,
    ) -> Result<Self, E> {
        let len = requests.len();
        // The slice and the inbox are borrowed until the batch ends, and until then only the handles give access to the slice. All handles
        // come back before the batch ends (`run`), and handles cannot be copied.
        let first: NonNull<Request<'static>> = NonNull::from(requests).cast();
        for index in 0..len {
            // SAFETY: both pointers are within the slice, or one past its end.
            let (current, next) = unsafe { (first.add(index), first.add(index + 1)) };
            // SAFETY: the request is in the slice, and nothing else accesses it.
            let request = unsafe { current.cast::<Request<'_>>().as_mut() };
            let session = examine(index, request)?;
            (request.meta.session, request.meta.inbox, request.meta.tried_devices) =
                (session, Some(NonNull::from(inbox)), 0);
            // The last link leads past the end of the slice, until `from_linked` clears it.
            link(current.cast(), Some(next.cast()));
        }
        // SAFETY: the pointer is within the slice.
        let last: Option<EntryPtr> = len.checked_sub(1).map(|last| unsafe { first.add(last) }.cast());
        // SAFETY: the requests were just linked, and have no other owner.
        let list = unsafe { List::from_chain(Chain::from_linked(first.cast(), last, len)) };
        Ok(Self { list, inbox, requests: PhantomData })
    }

    /// Removes the requests that already have an outcome or an error.
    #[cold]
    pub(crate) fn remove_finished(&mut self) {
        self.list.extract(|request| request.entry.outcome.is_some() || request.cold.is_some());
    }

    /// Lends the requests to `work`, which must return all of them.
    #[inline]
    pub(crate) fn run(self, work: impl FnOnce(List) -> List) {
        /// Aborts the process before requests are freed that a device may still write to.
        struct Bail;
        impl Drop for Bail {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let (bail, requests) = (Bail, self.list.len());
        let returned = work(self.list);
        self.inbox.wait_for_deliverers();
        if returned.len() == requests {
            std::mem::forget(bail);
        }
    }
}

//! Requests of a call that borrows them, about to be handed to devices.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::Request;
use super::inbox::Inbox;
use super::list::List;
use crate::driver::entry::{Chain, Place, link};

/// A slice of requests that is lent to core. The call cannot return, not even by a panic, before they are back.
pub(crate) struct Loan<'r> {
    list: List,
    home: &'r Inbox,
    requests: PhantomData<&'r mut Request<'r>>,
}

impl<'r> Loan<'r> {
    /// Of all of them, once `examine` has looked at each and said whose it is. An error of its is the end of it.
    ///
    /// # Safety
    ///
    /// What `examine` answers is the address of a session, or nothing; it lives as long as the loan.
    #[inline]
    pub(crate) unsafe fn of<E>(
        requests: &'r mut [Request<'_>],
        home: &'r Inbox,
        mut examine: impl FnMut(usize, &mut Request<'_>) -> Result<Option<NonNull<()>>, E>,
    ) -> Result<Self, E> {
        let len = requests.len();
        // The slice and the inbox are borrowed for as long as the loan lives, and the slice is not used by its own name
        // meanwhile. What the loan hands out comes back before it ends (`run`), and handles cannot be copied.
        let first: NonNull<Request<'static>> = NonNull::from(requests).cast();
        for place in 0..len {
            // SAFETY: within the slice, or right behind it.
            let (here, behind) = unsafe { (first.add(place), first.add(place + 1)) };
            // SAFETY: in the slice, and nobody else has it.
            let request = unsafe { here.cast::<Request<'_>>().as_mut() };
            let owner = examine(place, request)?;
            (request.note.owner, request.note.home, request.note.tried) = (owner, Some(NonNull::from(home)), 0);
            link(here.cast(), Some(behind.cast()));
        }
        // SAFETY: within the slice.
        let last: Option<Place> = len.checked_sub(1).map(|last| unsafe { first.add(last) }.cast());
        // SAFETY: they were linked just now, and are in nobody else's hands.
        let list = unsafe { List::of_chain(Chain::of_linked(first.cast(), last, len)) };
        Ok(Self { list, home, requests: PhantomData })
    }

    /// Keeps those that have an outcome or an error already.
    #[cold]
    pub(crate) fn leave_out_ended(&mut self) {
        self.list.extract(|request| request.entry.outcome.is_some() || request.rare.is_some());
    }

    /// Lends them to `work`, which gives every one of them back.
    #[inline]
    pub(crate) fn run(self, work: impl FnOnce(List) -> List) {
        /// Ends the process when requests are about to be freed that something may still write to.
        struct Bail;
        impl Drop for Bail {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let (bail, lent) = (Bail, self.list.len());
        let back = work(self.list);
        self.home.settle();
        if back.len() == lent {
            std::mem::forget(bail);
        }
    }
}

//! Requests that any thread puts down, and one at a time picks up, without a lock.

#![allow(unsafe_code)]

use std::ptr::null_mut;

use super::list::List;
use crate::driver::entry::{Chain, Entry, Place, link};
use crate::sync::{AtomicPtr, Ordering};

/// Lists of requests, the last one on top. Only whole stacks are taken, so there is no ABA problem.
///
/// All operations are sequentially consistent: those who look here and at a flag beside it (`Inbox`) rely on one order.
pub(crate) struct Stack {
    top: AtomicPtr<Entry<'static>>,
}

impl Stack {
    pub(crate) fn new() -> Self {
        Self { top: AtomicPtr::new(null_mut()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.top.load(Ordering::SeqCst).is_null()
    }

    /// Puts a list on top.
    pub(crate) fn push(&self, list: List) {
        let Some((first, last)) = list.into_chain().into_ends() else { return };
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            link(last, Place::new(top));
            match self.top.compare_exchange_weak(top, first.as_ptr(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes everything.
    pub(crate) fn take(&self) -> List {
        let top = self.top.swap(null_mut(), Ordering::SeqCst);
        // SAFETY: the swap took the chains out of the stack, and whoever pushed them gave them away.
        unsafe { List::of_chain(Chain::of_ends(Place::new(top))) }
    }
}

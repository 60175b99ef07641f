//! Where requests come back to that another thread had in hand.

#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};
use std::task::Waker;

use super::Request;
use super::list::{Handle, List};
use crate::driver::entry::{Chain, Entry, Place, link};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Mutex, Ordering, lock, pause};

/// Requests that are back. One thread owns it, any thread delivers.
///
/// The owner may free an inbox when all of its requests are back and it has [settled](Self::settle).
pub(crate) struct Inbox {
    requests: Stack,
    /// Threads that are delivering.
    deliverers: AtomicUsize,
    asleep: AtomicBool,
    /// Who is told about a delivery, once.
    sleeper: Mutex<Option<Waker>>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            requests: Stack::new(),
            deliverers: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            sleeper: Mutex::new(None),
        }
    }

    /// Gives requests back to the owner. Called by any thread.
    pub(crate) fn deliver(&self, list: List) {
        // Before the owner can see the requests, and think that nobody needs the inbox any more.
        self.deliverers.fetch_add(1, Ordering::SeqCst);
        self.requests.push(list);
        // A swap, as the owner's: the later of the two sees what was before the earlier one.
        if self.asleep.swap(false, Ordering::SeqCst) {
            let sleeper = lock(&self.sleeper).take();
            if let Some(waker) = sleeper {
                waker.wake();
            }
        }
        self.deliverers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes what is back.
    pub(crate) fn take(&self) -> List {
        if self.requests.is_empty() { List::new() } else { self.requests.take() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Tells `sleeper` about the next delivery. `false` if there is one already, and then nobody is told.
    pub(crate) fn sleep(&self, sleeper: Waker) -> bool {
        *lock(&self.sleeper) = Some(sleeper);
        self.asleep.swap(true, Ordering::SeqCst);
        // A delivery that did not see the flag is one that is seen here.
        self.requests.is_empty() || !self.asleep.swap(false, Ordering::SeqCst)
    }
}

impl Inbox {
    /// Waits until nobody is delivering any more. The owner calls it when all of its requests are back, before it frees the
    /// inbox; not in `Drop`, whose `&mut` says already that nobody else is here.
    pub(crate) fn settle(&self) {
        while self.deliverers.load(Ordering::SeqCst) > 0 {
            pause();
        }
    }
}

impl Request<'_> {
    /// Whether the request comes back to this inbox.
    #[inline]
    pub(crate) fn is_at_home(&self, home: &Inbox) -> bool {
        self.note.home == Some(NonNull::from(home))
    }
}

impl Handle {
    /// Gives the request back to whoever it belongs to.
    #[allow(unsafe_code)]
    pub(crate) fn deliver(self) {
        let home = self.note.home.expect("a request that left its thread has a home");
        // SAFETY: only an inbox's address is ever noted, and rule 2 (`driver/entry.rs`) keeps it alive until the request came
        // back through it.
        let home = unsafe { home.as_ref() };
        let mut list = List::new();
        list.push(self);
        home.deliver(list);
    }
}

/// Loom complains about whoever comes after this.
#[cfg(loom)]
impl Drop for Inbox {
    fn drop(&mut self) {
        self.deliverers.with_mut(|_| ());
    }
}

#[cfg(all(test, loom))]
mod races {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::dispatch::races::{Bell, request, session, slots};

    /// FreeBSD: a completion that came between the submission and the wait was never noticed. Here both come at once.
    #[test]
    fn completion_before_the_submitter_waits() {
        loom::model(|| {
            let (session, inbox) = (session(), Arc::new(Inbox::new()));
            let deliverers = [1, 2].map(|slot| {
                let (inbox, list) = (inbox.clone(), request(&session, &inbox, slot));
                thread::spawn(move || inbox.deliver(list))
            });
            let mut back = List::new();
            while back.len() < 2 {
                let bell = Bell::new();
                if inbox.sleep(bell.clone().into()) {
                    bell.wait();
                }
                back.append(&mut inbox.take());
            }
            assert_eq!(slots(back), [1, 2]);
            for deliverer in deliverers {
                deliverer.join().unwrap();
            }
        });
    }

    /// The owner frees its inbox as soon as it has everything, with the deliverer still on its way out.
    #[test]
    fn an_inbox_is_not_freed_under_a_deliverer() {
        #[derive(Clone, Copy)]
        struct Shared(NonNull<Inbox>);
        // SAFETY: an inbox is Sync, and `settle` waits for those who deliver. That is what is tested.
        #[allow(unsafe_code)]
        unsafe impl Send for Shared {}
        impl Shared {
            fn deliver(self, list: List) {
                // SAFETY: as above.
                #[allow(unsafe_code)]
                unsafe { self.0.as_ref() }.deliver(list);
            }
        }
        loom::model(|| {
            let session = session();
            let inbox = Box::new(Inbox::new());
            let (shared, list) = (Shared(NonNull::from(&*inbox)), request(&session, &inbox, 1));
            let deliverer = thread::spawn(move || shared.deliver(list));
            while inbox.take().is_empty() {
                thread::yield_now();
            }
            inbox.settle();
            drop(inbox);
            deliverer.join().unwrap();
        });
    }
}

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

//! Inboxes, to which other threads return requests.

#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};
use std::task::Waker;

use super::Request;
use super::list::{Handle, List};
use crate::driver::chain::{Chain, link};
use crate::driver::entry::{Entry, EntryPtr};
use crate::sync::{AtomicBool, AtomicPtr, AtomicUsize, Mutex, Ordering, lock, pause};

/// Requests that have come back. One thread owns the inbox, and any thread delivers to it.
///
/// The owner may free an inbox when all its requests are back and [no deliverer is left](Self::wait_for_deliverers).
pub(crate) struct Inbox {
    requests: Stack,
    /// Number of threads that are delivering.
    deliverers: AtomicUsize,
    /// The owner has registered a waker, and no request has been delivered since then.
    is_waiting: AtomicBool,
    /// The waker to wake once, at the next delivery.
    waker: Mutex<Option<Waker>>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self {
            requests: Stack::new(),
            deliverers: AtomicUsize::new(0),
            is_waiting: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Returns requests to the owner. Any thread may call this function.
    pub(crate) fn deliver(&self, list: List) {
        // Count before the owner can see the requests and consider the inbox unused.
        self.deliverers.fetch_add(1, Ordering::SeqCst);
        self.requests.push(list);
        // A swap, as in `register_waker`: the later of the two swaps sees everything that happened before the earlier one.
        if self.is_waiting.swap(false, Ordering::SeqCst) {
            let waker = lock(&self.waker).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        self.deliverers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes the requests that have come back.
    pub(crate) fn take(&self) -> List {
        if self.requests.is_empty() { List::new() } else { self.requests.take() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Registers `waker` for the next delivery. Returns `false` if the inbox already has requests; `waker` is then not woken.
    pub(crate) fn register_waker(&self, waker: Waker) -> bool {
        *lock(&self.waker) = Some(waker);
        self.is_waiting.swap(true, Ordering::SeqCst);
        // A delivery that did not see the flag is visible here.
        self.requests.is_empty() || !self.is_waiting.swap(false, Ordering::SeqCst)
    }
}

impl Inbox {
    /// Waits until no thread is delivering. The owner calls it when all its requests are back, before it frees the inbox: `Drop`
    /// is too late, because its `&mut self` already excludes other threads.
    pub(crate) fn wait_for_deliverers(&self) {
        while self.deliverers.load(Ordering::SeqCst) > 0 {
            pause();
        }
    }
}

impl Request<'_> {
    /// Returns `true` if the request comes back to this inbox.
    #[inline]
    pub(crate) fn comes_back_to(&self, inbox: &Inbox) -> bool {
        self.meta.inbox == Some(NonNull::from(inbox))
    }
}

impl Handle {
    /// Returns the request to its owner.
    #[allow(unsafe_code)]
    pub(crate) fn deliver(self) {
        let inbox = self.meta.inbox.expect("a request that left its thread has an inbox");
        // SAFETY: `inbox` is always the address of an inbox, and rule 2 (`driver/entry.rs`) keeps it alive until the request has come
        // back through it.
        let inbox = unsafe { inbox.as_ref() };
        let mut list = List::new();
        list.push(self);
        inbox.deliver(list);
    }
}

/// Makes loom report any access to an inbox after its drop.
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

    /// FreeBSD once missed a completion between the submission and the wait. Here the completion and the wait happen concurrently.
    #[test]
    fn completion_before_the_submitter_waits() {
        loom::model(|| {
            let (session, inbox) = (session(), Arc::new(Inbox::new()));
            let deliverers = [1, 2].map(|slot| {
                let (inbox, list) = (inbox.clone(), request(&session, &inbox, slot));
                thread::spawn(move || inbox.deliver(list))
            });
            let mut returned = List::new();
            while returned.len() < 2 {
                let bell = Bell::new();
                if inbox.register_waker(bell.clone().into()) {
                    bell.wait();
                }
                returned.append(&mut inbox.take());
            }
            assert_eq!(slots(returned), [1, 2]);
            for deliverer in deliverers {
                deliverer.join().unwrap();
            }
        });
    }

    /// The owner frees its inbox as soon as all requests are back, while the delivering thread has not yet returned from `deliver`.
    #[test]
    fn an_inbox_is_not_freed_under_a_deliverer() {
        #[derive(Clone, Copy)]
        struct Shared(NonNull<Inbox>);
        // SAFETY: an inbox is Sync, and `wait_for_deliverers` waits for deliverers, which is tested here.
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
            inbox.wait_for_deliverers();
            drop(inbox);
            deliverer.join().unwrap();
        });
    }
}

/// A stack of request lists. Only whole stacks are taken, so there is no ABA problem.
///
/// All changes are sequentially consistent, and so is `is_empty`: threads that read the stack and the flag `Inbox::is_waiting` rely on one
/// order of these operations.
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
            link(last, EntryPtr::new(top));
            match self.top.compare_exchange_weak(top, first.as_ptr(), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes all requests.
    pub(crate) fn take(&self) -> List {
        let top = self.top.swap(null_mut(), Ordering::SeqCst);
        // SAFETY: the swap took the chains out of the stack, and the threads that pushed them gave up their ownership.
        unsafe { List::from_chain(Chain::from_first(EntryPtr::new(top))) }
    }
}

//! Primitives that threads share: from the standard library, or from loom, which tries every order of events (`scripts/loom`).

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(loom)]
use loom::thread::{Thread, current};
use std::sync::{Arc, OnceLock, TryLockError};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};
use std::task::{Wake, Waker};
#[cfg(not(loom))]
use std::thread::{Thread, current};

/// Returns the number of threads that can run at once. Only the first call reads the limits of the process's control group, which are in
/// several files.
pub fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Locks a mutex. A thread that panicked while it held the lock has left the data valid: our code does not panic halfway through a change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks the mutex, unless another thread has locked it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Sleeps until this thread is woken up, at most for `longest`. Under loom only a wake-up ends the sleep, so that loom finds a lost
/// wake-up.
pub(crate) fn sleep(longest: std::time::Duration) {
    #[cfg(loom)]
    {
        let _ = longest;
        loom::thread::park();
    }
    #[cfg(not(loom))]
    std::thread::park_timeout(longest);
}

/// Returns a waker of the calling thread.
#[cfg(not(loom))]
pub(crate) fn this_thread_waker() -> Waker {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(current())));
    }
    WAKER.with(Clone::clone)
}

/// Returns a waker of the calling thread. It is not kept in a thread-local: all threads of a model run on one thread of the machine, and
/// would share it.
#[cfg(loom)]
pub(crate) fn this_thread_waker() -> Waker {
    Waker::from(Arc::new(Unpark(current())))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Lets other threads run. A loop that waits for another thread calls this function.
pub(crate) fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

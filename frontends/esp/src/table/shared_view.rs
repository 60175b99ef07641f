//! The view: the thread that answers the daemon changes it, and the threads of the data path read it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::View;

#[derive(Debug, Default)]
pub(crate) struct SharedView {
    /// The view. A reader holds the lock for a few look-ups only.
    view: RwLock<View>,
    /// The number of changes of the view.
    generation: AtomicU64,
    /// Descriptors that wake the threads of the data path, one for each thread.
    wakers: Mutex<Vec<Arc<EventFd>>>,
}

impl SharedView {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, View> {
        // No thread leaves the view half changed when it panics.
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the view. Every look-up that begins after the return sees the change.
    pub(crate) fn change(&self, change: impl FnOnce(&mut View)) {
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut view);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of changes so far. Results of look-ups are valid until this number changes.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Creates a descriptor that wakes a waiting thread when it must release SAs.
    pub(crate) fn new_waker(&self) -> nix::Result<Arc<EventFd>> {
        let waker = Arc::new(new_event_fd()?);
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker.clone());
        Ok(waker)
    }

    /// Makes the threads release SAs that are no longer in the view, and so their keys.
    pub(crate) fn release_removed_sas(&self) {
        for waker in &*self.wakers.lock().unwrap_or_else(PoisonError::into_inner) {
            // The write cannot fail: the descriptor counts to 2^64.
            let _ = waker.write(1);
        }
    }
}

pub(crate) fn new_event_fd() -> nix::Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
}

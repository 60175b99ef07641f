//! Queues as file descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use gantry_core::Queue;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A descriptor that becomes readable when a queue has a completion, for `poll`, `epoll` and the like.
///
/// ```no_run
/// # fn serve(queue: &mut gantry_core::Queue) -> std::io::Result<()> {
/// let readiness = gantry_runtime::Readiness::new()?;
/// // Before every wait:
/// if readiness.arm(queue) {
///     // ... wait until the descriptor is readable or another event comes, at most for `queue.max_sleep()`:
///     // a stalled device does not notify ...
/// }
/// queue.complete(|completion| drop(completion));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Event>);

#[derive(Debug)]
struct Event(EventFd);

impl Readiness {
    /// Creates a descriptor (eventfd(2)) that is closed on `exec`.
    ///
    /// # Errors
    /// The process has no free descriptor, or the system does not support eventfd.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self(Arc::new(Event(EventFd::from_flags(flags)?))))
    }

    /// Arms the descriptor before every wait: resets it, and makes it readable once `queue` has a completion. Returns `false` if there is
    /// no need to wait: a completion is ready, the queue is empty, or a device must be polled.
    pub fn arm(&self, queue: &mut Queue) -> bool {
        // Earlier notifications are covered by the result of `arm`.
        while self.0.0.read().is_ok() {}
        queue.arm(&Waker::from(self.0.clone()))
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

impl Wake for Event {
    fn wake(self: Arc<Self>) {
        // The counter is full only after 2^64 - 2 unread wake-ups, and the descriptor is then readable anyway.
        while self.0.write(1) == Err(Errno::EINTR) {}
    }
}

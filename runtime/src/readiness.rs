use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use gantry_core::Queue;
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A descriptor that becomes readable when a queue has something to complete, for `poll`, `epoll` and their kin.
///
/// ```no_run
/// # fn serve(queue: &mut gantry_core::Queue) -> std::io::Result<()> {
/// let readiness = gantry_runtime::Readiness::new()?;
/// // Before every wait:
/// if readiness.arm(queue) {
///     // ... wait until the descriptor is readable, or for whatever else there is, and no longer than `queue.patience()`:
///     // a device that has stalled does not tell ...
/// }
/// queue.complete(|completion| drop(completion));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Event>);

#[derive(Debug)]
struct Event(EventFd);

impl Readiness {
    /// A descriptor of its own (eventfd(2)), closed in programs that are executed.
    ///
    /// # Errors
    /// The process has no descriptor left, or the system has none of this kind.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self(Arc::new(Event(EventFd::from_flags(flags)?))))
    }

    /// To be called before every wait: makes the descriptor not readable, and lets it become so as soon as `queue` has
    /// something to complete. `false` when there is nothing to wait for: something is ready, nothing is in flight, or a device
    /// has to be polled.
    pub fn arm(&self, queue: &mut Queue) -> bool {
        // What is told until now is told by what `arm` answers.
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
        // Full only after 2^64 - 2 wakes that nobody read; then it is readable anyway.
        while self.0.write(1) == Err(Errno::EINTR) {}
    }
}

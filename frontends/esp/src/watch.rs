//! The thread that watches for changes of guards, routes and addresses by other programs, and restores guards and routes.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::route::{Changes, Routes};
use crate::shared::{Shared, lock};

/// Milliseconds between two attempts to restore something.
const RETRY_INTERVAL_MS: u16 = 500;
/// Delays in milliseconds until the filters of the devices are updated for new policies: the delay after the last change, and
/// the maximum delay.
const FILTER_DELAY_MS: u16 = 20;
const MAX_FILTER_DELAY_MS: u128 = 500;

pub(crate) struct Watcher {
    pub(crate) changes: Changes,
    pub(crate) routes: Arc<Mutex<Routes>>,
    pub(crate) shared: Arc<Shared>,
}

impl Watcher {
    /// Watches until the process ends.
    ///
    /// # Errors
    /// The thread cannot wait for the sockets.
    pub(crate) fn run(self) -> io::Result<()> {
        let (mut needs_retry, mut outdated_since) = (false, None::<Instant>);
        loop {
            let mut fds: Vec<_> = self.changes.sockets().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let timeout = match outdated_since {
                Some(_) => PollTimeout::from(FILTER_DELAY_MS),
                None if needs_retry => PollTimeout::from(RETRY_INTERVAL_MS),
                None => PollTimeout::NONE,
            };
            let is_quiet = match poll(&mut fds, timeout) {
                Ok(changed) => changed == 0,
                Err(Errno::EINTR) => false,
                Err(error) => return Err(error.into()),
            };
            let mut routes = lock(&self.routes);
            let (addresses_changed, mut done) = routes.restore(&self.changes);
            if addresses_changed {
                done = done.and(routes.local_addresses().map(|local_addresses| {
                    self.shared.view.change(|view| view.local_addresses = local_addresses);
                }));
            }
            if routes.has_outdated_filters() {
                let is_overdue =
                    outdated_since.get_or_insert_with(Instant::now).elapsed().as_millis() > MAX_FILTER_DELAY_MS;
                if is_quiet || is_overdue {
                    done = done.and(routes.update_filters());
                    outdated_since = None;
                }
            } else {
                outdated_since = None;
            }
            self.shared.set_guard_status(routes.guard_status());
            needs_retry = done.is_err();
        }
    }
}

//! The thread that watches for changes of guards, routes and addresses by other programs, and restores guards and routes.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::route::{Changes, Routes};
use crate::shared::{Shared, lock};

/// Milliseconds between two attempts to restore something.
const RETRY: u16 = 500;
/// Delays in milliseconds until the filters of the devices are updated for new policies: the delay after the last change, and
/// the maximum delay.
const QUIET: u16 = 20;
const BUSY: u128 = 500;

pub(crate) struct Watch {
    pub(crate) changes: Changes,
    pub(crate) routes: Arc<Mutex<Routes>>,
    pub(crate) shared: Arc<Shared>,
}

impl Watch {
    /// Watches until the process ends.
    ///
    /// # Errors
    /// The thread cannot wait for the sockets.
    pub(crate) fn run(self) -> io::Result<()> {
        let (mut is_behind, mut since) = (false, None::<Instant>);
        loop {
            let mut fds: Vec<_> = self.changes.all().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let timeout = match since {
                Some(_) => PollTimeout::from(QUIET),
                None if is_behind => PollTimeout::from(RETRY),
                None => PollTimeout::NONE,
            };
            let is_quiet = match poll(&mut fds, timeout) {
                Ok(changed) => changed == 0,
                Err(Errno::EINTR) => false,
                Err(error) => return Err(error.into()),
            };
            let mut routes = lock(&self.routes);
            let (addresses, mut done) = routes.restore(&self.changes);
            if addresses {
                done = done.and(routes.local_addresses().map(|local_addresses| {
                    self.shared.view.change(|view| view.local_addresses = local_addresses);
                }));
            }
            if routes.is_behind() {
                let due = since.get_or_insert_with(Instant::now).elapsed().as_millis() > BUSY;
                if is_quiet || due {
                    done = done.and(routes.catch_up());
                    since = None;
                }
            } else {
                since = None;
            }
            self.shared.set_guards(routes.guards());
            is_behind = done.is_err();
        }
    }
}

//! The thread that watches for changes of guards, routes and addresses by other programs, and restores guards and routes.

use std::io;
use std::sync::{Arc, Mutex};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::route::{Changes, Routes};
use crate::shared::{Shared, lock};

/// Milliseconds between two attempts to restore something.
const RETRY: u16 = 500;

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
        let mut is_behind = false;
        loop {
            let mut fds: Vec<_> = self.changes.all().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            match poll(&mut fds, if is_behind { PollTimeout::from(RETRY) } else { PollTimeout::NONE }) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut routes = lock(&self.routes);
            let (addresses, mut done) = routes.restore(&self.changes);
            if addresses {
                done = done.and(
                    routes.local_addresses().map(|local_addresses| self.shared.set_local_addresses(local_addresses)),
                );
            }
            self.shared.set_guards(routes.guards());
            is_behind = done.is_err();
        }
    }
}

//! The threads of the server, and the sockets for front ends.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use gantry_abi_virtio_crypto::Config;
use gantry_core::Gantry;
use nix::sys::epoll::{Epoll, EpollCreateFlags};

use crate::algorithms;
use crate::backend::Backend;
use crate::connection;
use crate::counters::{CounterSnapshot, Counters};
use crate::guest::{DATA_QUEUES, Guest};
use crate::partition::Limits;
use crate::session::Sessions;
use crate::socket::Socket;
use crate::task::MAX_REQUEST_BYTES;
use crate::worker::Shared;

/// Pause after an error that the front end did not cause, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves guests with one framework, in threads of its own, until the process ends.
pub struct Server {
    gantry: Gantry,
    shared: Arc<Shared>,
    config: Config,
    guests: Mutex<Vec<(String, Counters)>>,
}

impl Server {
    /// Starts as many worker threads as the process has CPUs. All but one sleep while one thread can handle the requests of all
    /// guests.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn new(gantry: Gantry) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?));
        for _ in 0..thread::available_parallelism()?.get() {
            let shared = shared.clone();
            Builder::new().name("guests".to_owned()).spawn(move || shared.serve())?;
        }
        let config = algorithms::device_config(&gantry, DATA_QUEUES as u32, MAX_REQUEST_BYTES);
        Ok(Self { gantry, shared, config, guests: Mutex::default() })
    }

    /// Creates a socket for one guest, and serves one connection at a time: a front end that reconnects finds a fresh device. The
    /// guest's usage is counted in `counters`.
    ///
    /// # Errors
    /// The socket cannot be created, or no threads are left.
    pub fn listen(&self, socket: &Socket, limits: Limits, counters: Counters) -> io::Result<()> {
        let listener = socket.bind()?;
        let name = socket.guest_name();
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).push((name.clone(), counters));
        let (gantry, shared, config) = (self.gantry.clone(), self.shared.clone(), self.config);
        let serve = move || {
            loop {
                let connection = listener.accept().and_then(|(stream, _)| {
                    let sessions = Sessions::new(gantry.clone(), limits.sessions);
                    let guest = Arc::new(Guest::new(shared.assign_guest_id(), limits, counters, sessions)?);
                    Ok((stream, guest))
                });
                let Ok((stream, guest)) = connection else {
                    thread::sleep(ACCEPT_RETRY_DELAY);
                    continue;
                };
                counters.record_connection();
                shared.add_guest(guest.clone());
                // After any end of the connection the front end may reconnect.
                let _ = connection::serve(stream, &guest, Backend::new(guest.clone(), shared.clone(), config));
                shared.remove_guest(&guest);
            }
        };
        Builder::new().name(format!("guest {name}")).spawn(serve).map(drop)
    }

    /// Returns the counters of each guest, by name, in the order of their sockets.
    pub fn guests(&self) -> Vec<(String, CounterSnapshot)> {
        let guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.iter().map(|(name, counters)| (name.clone(), counters.snapshot())).collect()
    }
}

//! State shared by the threads of the data path and the daemon's thread.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gantry_abi_xfrm::SaId;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::counters::Counters;
use crate::local_addresses::LocalAddresses;
use crate::packet::ip::Flow;
use crate::route::Guards;
use crate::table::{InstalledPolicy, LimitKind, View};
use crate::wipe::overwrite_stack;

/// A report from a thread of the data path to the daemon.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet matched a policy that has no SA.
    SaRequested(Arc<InstalledPolicy>, Flow),
    /// The SA with this serial number has reached a volume limit or its last sequence numbers.
    LimitReached(SaId, u64, LimitKind),
    /// Packets of the SA with this serial number come from a new address or port.
    PeerMoved(SaId, u64, SocketAddr),
}

/// Most events that wait for the daemon. Excess events are dropped: each is repeated while its cause lasts.
const EVENTS: usize = 1024;

/// The view and addresses that a thread of the data path works with.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) view: Arc<View>,
    pub(crate) local_addresses: Arc<LocalAddresses>,
    generation: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    view: Mutex<Arc<View>>,
    local_addresses: Mutex<Arc<LocalAddresses>>,
    guards: Mutex<Guards>,
    /// Counts changes of the view and of addresses.
    generation: AtomicU64,
    /// Wake the threads of the data path, one descriptor each.
    threads: Mutex<Vec<Arc<EventFd>>>,
    events: Mutex<Vec<Event>>,
    /// Wakes the thread of the daemon.
    pub(crate) daemon_event: EventFd,
    pub(crate) counters: Counters,
    start: Instant,
}

impl Shared {
    pub(crate) fn new() -> nix::Result<Self> {
        Ok(Self {
            view: Mutex::default(),
            local_addresses: Mutex::default(),
            guards: Mutex::default(),
            generation: AtomicU64::new(0),
            threads: Mutex::default(),
            events: Mutex::default(),
            daemon_event: new_event()?,
            counters: Counters::default(),
            start: Instant::now(),
        })
    }

    /// Creates a descriptor that wakes a waiting thread after each change of the view.
    pub(crate) fn waker(&self) -> nix::Result<Arc<EventFd>> {
        let waker = Arc::new(new_event()?);
        lock(&self.threads).push(waker.clone());
        Ok(waker)
    }

    /// Publishes another view to all threads. Objects that only the old view held are freed once every thread has
    /// renewed its own.
    pub(crate) fn publish(&self, view: View) {
        *lock(&self.view) = Arc::new(view);
        self.wake_threads();
    }

    /// Publishes other addresses of this host to all threads.
    pub(crate) fn set_local_addresses(&self, local_addresses: LocalAddresses) {
        *lock(&self.local_addresses) = Arc::new(local_addresses);
        self.wake_threads();
    }

    pub(crate) fn local_addresses(&self) -> Arc<LocalAddresses> {
        lock(&self.local_addresses).clone()
    }

    fn wake_threads(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        for waker in &*lock(&self.threads) {
            // The write cannot fail: the descriptor counts to 2^64.
            let _ = waker.write(1);
        }
    }

    /// Brings a thread up to date. Returns whether anything has changed.
    pub(crate) fn renew(&self, snapshot: &mut Snapshot) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        let is_new = snapshot.generation != generation;
        if is_new {
            *snapshot = Snapshot { view: self.view(), local_addresses: self.local_addresses(), generation };
            // The old view may have held the last references to SAs, and so to their keys.
            overwrite_stack();
        }
        is_new
    }

    pub(crate) fn view(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    pub(crate) fn guards(&self) -> Guards {
        *lock(&self.guards)
    }

    pub(crate) fn set_guards(&self, guards: Guards) {
        *lock(&self.guards) = guards;
    }

    /// Queues an event for the thread of the daemon, and wakes it.
    pub(crate) fn notify(&self, event: Event) {
        let mut events = lock(&self.events);
        if events.len() < EVENTS {
            events.push(event);
            let _ = self.daemon_event.write(1);
        }
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events))
    }

    /// Lowers the MTU of all SAs to `peer`, whose path turned out narrower.
    pub(crate) fn lower_mtu(&self, peer: IpAddr, mtu: usize) {
        for sa in self.view().outgoing.iter().filter(|sa| sa.endpoints.to.ip() == peer) {
            let least = if peer.is_ipv6() { 1280 } else { 576 };
            sa.mtu.fetch_min(mtu.max(least), Ordering::Relaxed);
        }
    }

    /// Returns the milliseconds since the start, counted from 1.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }
}

fn new_event() -> nix::Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
}

/// Locks the mutex even if another thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No thread leaves the data half changed when it panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What the threads of the data path and the one of the daemon have in common.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gantry_abi_xfrm::SaId;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::counters::Counters;
use crate::own::Own;
use crate::packet::ip::Flow;
use crate::route::Guards;
use crate::table::{Reached, Registered, View};
use crate::wipe::overwrite_stack;

/// What a thread of the data path has to tell the daemon.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet matched a policy that has no SA.
    Wanted(Arc<Registered>, Flow),
    /// The SA of this serial number has come to a limit of its volume or numbers.
    Reached(SaId, u64, Reached),
    /// Packets of the SA of this serial number come from another address or port.
    Moved(SaId, u64, SocketAddr),
}

/// Events that wait for the daemon. More are left out: each is repeated as long as its cause is there.
const EVENTS: usize = 1024;

/// The view and addresses that a thread of the data path works with.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) view: Arc<View>,
    pub(crate) own: Arc<Own>,
    generation: u64,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Shared {
    view: Mutex<Arc<View>>,
    own: Mutex<Arc<Own>>,
    guards: Mutex<Guards>,
    /// Counts changes of the view and of addresses.
    generation: AtomicU64,
    /// Wakes the threads of the data path, each by its own descriptor.
    threads: Mutex<Vec<Arc<EventFd>>>,
    events: Mutex<Vec<Event>>,
    /// Wakes the thread of the daemon.
    pub(crate) told: EventFd,
    pub(crate) counters: Counters,
    start: Instant,
}

impl Shared {
    pub(crate) fn new() -> nix::Result<Self> {
        Ok(Self {
            view: Mutex::default(),
            own: Mutex::default(),
            guards: Mutex::default(),
            generation: AtomicU64::new(0),
            threads: Mutex::default(),
            events: Mutex::default(),
            told: wake()?,
            counters: Counters::default(),
            start: Instant::now(),
        })
    }

    /// A descriptor by which a thread that waits is woken when there is another view.
    pub(crate) fn waker(&self) -> nix::Result<Arc<EventFd>> {
        let waker = Arc::new(wake()?);
        lock(&self.threads).push(waker.clone());
        Ok(waker)
    }

    /// Has all threads look at another view. What only the old one had is gone once each has looked.
    pub(crate) fn publish(&self, view: View) {
        *lock(&self.view) = Arc::new(view);
        self.renewed();
    }

    /// Gives all threads other addresses of this host.
    pub(crate) fn set_own(&self, own: Own) {
        *lock(&self.own) = Arc::new(own);
        self.renewed();
    }

    fn renewed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
        for waker in &*lock(&self.threads) {
            // It counts to 2^64.
            let _ = waker.write(1);
        }
    }

    /// Brings a thread up to date. Returns whether anything has changed.
    pub(crate) fn renew(&self, seen: &mut Seen) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        let is_new = seen.generation != generation;
        if is_new {
            *seen = Seen { view: self.view(), own: lock(&self.own).clone(), generation };
            // SAs may have gone with the old one.
            overwrite_stack();
        }
        is_new
    }

    /// The view that threads work with.
    pub(crate) fn view(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    /// The guards that are in force.
    pub(crate) fn guards(&self) -> Guards {
        *lock(&self.guards)
    }

    pub(crate) fn set_guards(&self, guards: Guards) {
        *lock(&self.guards) = guards;
    }

    /// Tells the thread of the daemon something.
    pub(crate) fn tell(&self, event: Event) {
        let mut events = lock(&self.events);
        if events.len() < EVENTS {
            events.push(event);
            let _ = self.told.write(1);
        }
    }

    /// What it has been told since it last asked.
    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events))
    }

    /// A path is narrower than was known.
    pub(crate) fn narrow(&self, peer: IpAddr, mtu: usize) {
        for sa in self.view().outgoing.iter().filter(|sa| sa.way.to.ip() == peer) {
            let least = if peer.is_ipv6() { 1280 } else { 576 };
            sa.mtu.fetch_min(mtu.max(least), Ordering::Relaxed);
        }
    }

    /// Milliseconds since the start, from 1 on.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }
}

fn wake() -> nix::Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
}

/// Locks, whoever panicked with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in them is half done when somebody panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

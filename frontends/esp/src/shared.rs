//! State shared by the threads of the data path and the server thread, which answers the IKE daemon.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gantry_abi_xfrm::SaId;
use nix::sys::eventfd::EventFd;

use crate::counters::Counters;
use crate::packet::ip::Flow;
use crate::route::GuardStatus;
use crate::table::{InstalledPolicy, LimitKind, SharedView, new_event_fd};

/// A report from a thread of the data path to the server thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// A packet matched a policy that has no SA.
    SaRequested(Arc<InstalledPolicy>, Flow),
    /// The SA with this serial number has reached a volume limit or its last sequence numbers.
    LimitReached(SaId, u64, LimitKind),
    /// Packets of the SA with this serial number come from a new address or port.
    PeerMoved(SaId, u64, SocketAddr),
}

/// Maximum number of events that wait for the server thread. Excess events are dropped: packets request SAs and report moved peers again,
/// and the server thread also checks all limits itself.
const MAX_EVENTS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) view: Arc<SharedView>,
    guard_status: Mutex<GuardStatus>,
    events: Mutex<Vec<Event>>,
    /// Wakes the server thread.
    pub(crate) daemon_waker: EventFd,
    pub(crate) counters: Counters,
    start: Instant,
}

impl Shared {
    pub(crate) fn new(view: Arc<SharedView>) -> nix::Result<Self> {
        Ok(Self {
            view,
            guard_status: Mutex::default(),
            events: Mutex::default(),
            daemon_waker: new_event_fd()?,
            counters: Counters::default(),
            start: Instant::now(),
        })
    }

    pub(crate) fn guard_status(&self) -> GuardStatus {
        *lock(&self.guard_status)
    }

    pub(crate) fn set_guard_status(&self, status: GuardStatus) {
        *lock(&self.guard_status) = status;
    }

    /// Queues an event for the server thread, and wakes that thread. Returns false if the queue is full.
    pub(crate) fn notify(&self, event: Event) -> bool {
        let mut events = lock(&self.events);
        let has_room = events.len() < MAX_EVENTS;
        if has_room {
            events.push(event);
            let _ = self.daemon_waker.write(1);
        }
        has_room
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events))
    }

    /// Lowers the path MTU of all outgoing SAs with the destination `peer` to `mtu` bytes. Does not lower it below 1280 bytes
    /// for IPv6, or 576 bytes for IPv4.
    pub(crate) fn lower_path_mtu(&self, peer: IpAddr, mtu: usize) {
        for sa in self.view.read().outgoing.values().filter(|sa| sa.id.destination == peer) {
            let least = if peer.is_ipv6() { 1280 } else { 576 };
            sa.path_mtu.fetch_min(mtu.max(least), Ordering::Relaxed);
        }
    }

    /// Returns the milliseconds since the start, plus 1: a stored time of 0 means "never".
    pub(crate) fn uptime_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }
}

/// Locks the mutex even if another thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No thread leaves the data half changed when it panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_events_until_they_are_taken() {
        let shared = Shared::new(Arc::default()).unwrap();
        let id = SaId { destination: [192, 0, 2, 1].into(), spi: 0x1001, protocol: 50 };
        let event = || Event::PeerMoved(id, 1, ([192, 0, 2, 2], 4500).into());
        assert!((0..MAX_EVENTS).all(|_| shared.notify(event())));
        assert!(!shared.notify(event()));
        assert_eq!(shared.take_events().len(), MAX_EVENTS);
        assert!(shared.notify(event()));
    }
}

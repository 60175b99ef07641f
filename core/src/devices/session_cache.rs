//! A cache of the open sessions on a device that limits their number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::algorithm::{Fault, Refusal};
use crate::driver::DeviceSession;

/// Open sessions by their id. The least recently used session without requests in flight is evicted to make room.
pub(crate) struct SessionCache {
    limit: usize,
    open: Mutex<OpenSessions>,
}

#[derive(Default)]
struct OpenSessions {
    /// Each session with the value of `use_count` at its last use.
    sessions: HashMap<usize, (Arc<dyn DeviceSession>, u64)>,
    /// Number of uses of any session so far.
    use_count: u64,
}

impl SessionCache {
    /// Creates a cache for a device with at most `limit` open sessions. Reserves two of them for known-answer tests, but keeps at least one
    /// for the cache.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.saturating_sub(2).max(1), open: Mutex::default() }
    }

    /// Returns the session with this id, and opens it if needed; until it is open, other threads that need a session of the device wait.
    /// Declines if the cache is full and every open session has requests in flight.
    pub(crate) fn get_or_open(
        &self,
        id: usize,
        open: impl FnOnce() -> Result<Arc<dyn DeviceSession>, Refusal>,
    ) -> Result<Arc<dyn DeviceSession>, Refusal> {
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        all.use_count += 1;
        let use_count = all.use_count;
        if let Some((session, last_use)) = all.sessions.get_mut(&id) {
            *last_use = use_count;
            return Ok(session.clone());
        }
        if all.sessions.len() >= self.limit {
            // Requests in flight hold their session.
            let idle = all.sessions.iter().filter(|(_, (session, _))| Arc::strong_count(session) == 1);
            let oldest = idle.min_by_key(|(_, (_, last_use))| *last_use).map(|(id, _)| *id);
            all.sessions.remove(&oldest.ok_or(Fault::Declined("all of its sessions are in use"))?);
        }
        let session = open()?;
        all.sessions.insert(id, (session.clone(), use_count));
        Ok(session)
    }

    /// Returns `true` if the session is open.
    pub(crate) fn is_open(&self, id: usize) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).sessions.contains_key(&id)
    }

    /// Closes a session that has ended.
    pub(crate) fn close(&self, id: usize) {
        // The statement releases the lock before the session is dropped.
        let closed = self.open.lock().unwrap_or_else(PoisonError::into_inner).sessions.remove(&id);
        drop(closed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithm::Outcome;
    use crate::driver::Operands;

    struct Nothing;

    impl DeviceSession for Nothing {
        fn run(&self, _operands: Operands<'_>) -> Result<Outcome, Fault> {
            Ok(Outcome::Done)
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "as the cache calls it")]
    fn open() -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(Nothing))
    }

    #[test]
    fn evicts_the_least_recently_used_session() {
        let cache = SessionCache::new(4);
        let held = cache.get_or_open(1, open).unwrap();
        drop(cache.get_or_open(2, open).unwrap());
        assert!(Arc::ptr_eq(&held, &cache.get_or_open(1, || panic!("it is open")).unwrap()));
        drop(cache.get_or_open(3, open).unwrap());
        let is_open = |id| cache.open.lock().unwrap().sessions.contains_key(&id);
        assert!(!is_open(2) && is_open(1) && is_open(3));

        let other = cache.get_or_open(3, open).unwrap();
        let refused = cache.get_or_open(4, || panic!("there is no room"));
        assert!(matches!(refused, Err(Refusal::Fault(Fault::Declined(_)))), "both have requests in flight");
        drop(other);
        assert!(cache.get_or_open(4, open).is_ok(), "now there is");
        cache.close(4);
        assert!(!is_open(4));
    }
}

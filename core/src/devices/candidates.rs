//! The devices that offer an algorithm, as policies see them.

use std::sync::{Arc, PoisonError, RwLock};

use crate::algorithm::Algorithm;
use crate::route::Candidate;

/// The devices that offer an algorithm, by algorithm, for all of its sessions. A device that comes later stands behind those that
/// were there, so that the places of these are the same for older and younger sessions.
pub(crate) struct Candidates(Box<[RwLock<Made>]>);

/// `None` before the first session, and when a device has come since.
type Made = Option<Arc<[Candidate]>>;

impl Default for Candidates {
    fn default() -> Self {
        Self((0..Algorithm::COUNT).map(|_| RwLock::new(None)).collect())
    }
}

impl Candidates {
    /// Those that the youngest session has, if there is one.
    pub(crate) fn get(&self, algorithm: Algorithm) -> Option<Arc<[Candidate]>> {
        self.0[algorithm as usize].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn get_or_make(
        &self,
        algorithm: Algorithm,
        make: impl FnOnce() -> Arc<[Candidate]>,
    ) -> Arc<[Candidate]> {
        self.get(algorithm).unwrap_or_else(|| {
            let mut candidates = self.0[algorithm as usize].write().unwrap_or_else(PoisonError::into_inner);
            candidates.get_or_insert_with(make).clone()
        })
    }

    /// Has them made anew for the next session.
    pub(crate) fn forget(&self) {
        for candidates in &self.0 {
            *candidates.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

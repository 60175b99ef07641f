//! The devices that offer an algorithm, as policies see them.

use std::sync::{Arc, PoisonError, RwLock};

use crate::algorithm::Algorithm;
use crate::route::Candidate;

/// The devices that offer each algorithm, shared by its sessions. A device added later comes last, so that indexes are the same in older
/// and newer sessions.
pub(crate) struct Candidates(Box<[RwLock<CandidateList>]>);

/// The devices for one algorithm; `None` until a session needs the list, and again after a device was added.
type CandidateList = Option<Arc<[Candidate]>>;

impl Default for Candidates {
    fn default() -> Self {
        Self((0..Algorithm::COUNT).map(|_| RwLock::new(None)).collect())
    }
}

impl Candidates {
    /// Returns the devices for an algorithm. Returns `None` if no session has needed them since the last [`clear`](Self::clear).
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

    /// Drops all lists; the next session makes a new one.
    pub(crate) fn clear(&self) {
        for candidates in &self.0 {
            *candidates.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

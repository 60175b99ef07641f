//! A key of one direction of a connection, and its session once lanes are faster.

use std::time::Instant;

use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, CallerDevice, Direction, Operation, Session, SessionParams};
use rustls::crypto::cipher::AeadKey;

use crate::framework::Framework;

/// A key. aws-lc-rs serves it until there is a session, and never again: its AES-GCM refuses nonces that skip the first record.
pub(crate) struct Lanes {
    /// Contains the key, which is zeroized on drop.
    params: SessionParams,
    operation: Operation,
    framework: Option<&'static Framework>,
    /// Nanoseconds lost so far by staying with aws-lc-rs.
    lost: u32,
    session: Option<Session>,
}

impl Lanes {
    pub(crate) fn new(algorithm: Algorithm, operation: Operation, key: &AeadKey) -> Self {
        let direction = if operation == Operation::Seal { Direction::Encrypt } else { Direction::Decrypt };
        let params = SessionParams::new(algorithm, key.as_ref()).with_direction(direction);
        Self { params, operation, framework: None, lost: 0, session: None }
    }

    /// Returns the session if lanes serve this key. `bytes` is the length of the next record.
    #[inline]
    pub(crate) fn session(&mut self, bytes: usize) -> Option<&Session> {
        if self.session.is_none() && bytes >= SizeSet::SMALLEST {
            self.session = self.session_if_faster(bytes);
        }
        self.session.as_ref()
    }

    fn session_if_faster(&mut self, bytes: usize) -> Option<Session> {
        self.framework = self.framework.filter(|framework| framework.is_current()).or_else(Framework::current);
        let caller = self.framework?.caller()?;
        let algorithm = self.params.algorithm();
        let saved = caller.saved_ns(algorithm, self.operation, bytes, || self.open(caller, bytes));
        self.lost = self.lost.saturating_add(saved);
        let worth = caller.worth(algorithm, self.operation);
        if saved == 0 || self.lost < worth.open_ns() {
            return None;
        }
        let begun = Instant::now();
        let session = self.open(caller, bytes);
        worth.opened_in(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
        session
    }

    /// Opens a session, ready for its first record.
    fn open(&self, caller: &CallerDevice, bytes: usize) -> Option<Session> {
        let session = caller.gantry().session(self.params.clone()).ok()?;
        session.prepare(self.operation, bytes).ok()?;
        Some(session)
    }
}

impl Drop for Lanes {
    /// In a child of a fork, leaks the parent's session: dropping it could wait for threads that do not exist here.
    fn drop(&mut self) {
        if !self.framework.is_some_and(Framework::is_current) {
            std::mem::forget(self.session.take());
        }
    }
}

//! A key of one direction of a connection, and its session once lanes are faster.

use std::time::Instant;

use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, CallerDevice, Direction, Operation, Session, SessionParams};
use rustls::Error;
use rustls::crypto::cipher::{AeadKey, PrefixedPayload};

use crate::framework::Framework;

/// Bytes of the tag of AES-GCM.
pub(crate) const TAG_LEN: usize = 16;

/// A key. aws-lc-rs serves the key until the key has a session, and never afterwards: aws-lc-rs' AES-GCM refuses nonces that skip the first
/// record.
pub(crate) struct RecordKey {
    /// Contains the key, which is zeroized on drop.
    params: SessionParams,
    operation: Operation,
    /// `None` if aws-lc-rs serves this key for good.
    framework: Option<&'static Framework>,
    /// Nanoseconds lost so far by staying with aws-lc-rs.
    lost_ns: u32,
    session: Option<Session>,
}

impl RecordKey {
    pub(crate) fn new(algorithm: Algorithm, operation: Operation, key: &AeadKey) -> Self {
        let direction = if operation == Operation::Seal { Direction::Encrypt } else { Direction::Decrypt };
        let params = SessionParams::new(algorithm, key.as_ref()).with_direction(direction);
        Self { params, operation, framework: Framework::current(), lost_ns: 0, session: None }
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
        // In a child of a fork, the framework is the parent's.
        let caller_device = self.framework.filter(|framework| framework.is_current())?.caller_device()?;
        let algorithm = self.params.algorithm();
        let saved_ns = caller_device.saved_ns(algorithm, self.operation, bytes, || self.open(caller_device, bytes));
        self.lost_ns = self.lost_ns.saturating_add(saved_ns);
        let savings = caller_device.savings(algorithm, self.operation);
        if saved_ns == 0 || self.lost_ns < savings.open_ns() {
            return None;
        }
        let begun = Instant::now();
        let session = self.open(caller_device, bytes);
        savings.record_opening(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
        if session.is_none() {
            self.framework = None;
        }
        session
    }

    /// Opens a session, ready for its first record.
    fn open(&self, caller_device: &CallerDevice, bytes: usize) -> Option<Session> {
        let session = caller_device.gantry().session(self.params.clone()).ok()?;
        session.prepare(self.operation, bytes).ok()?;
        Some(session)
    }
}

/// Encrypts a record from byte `start` on, and appends its tag.
pub(crate) fn seal(
    session: &Session,
    nonce: &[u8],
    aad: &[u8],
    record: &mut PrefixedPayload,
    start: usize,
) -> Result<(), Error> {
    let mut tag = [0; TAG_LEN];
    session.seal(nonce, aad, &mut record.as_mut()[start..], &mut tag).map_err(|_| Error::EncryptError)?;
    record.extend_from_slice(&tag);
    Ok(())
}

/// Verifies and decrypts a record that ends with its tag. Returns the bytes before the tag.
pub(crate) fn open(session: &Session, nonce: &[u8], aad: &[u8], record: &mut [u8]) -> Result<usize, Error> {
    let data_len = record.len().checked_sub(TAG_LEN).ok_or(Error::DecryptError)?;
    let (data, tag) = record.split_at_mut(data_len);
    session.open(nonce, aad, data, tag).map_err(|_| Error::DecryptError)?;
    Ok(data_len)
}

impl Drop for RecordKey {
    /// In a child of a fork, leaks the parent's session: dropping it could wait for threads that do not exist here.
    fn drop(&mut self) {
        if !self.framework.is_some_and(Framework::is_current) {
            std::mem::forget(self.session.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use gantry_core::driver::{Device, DeviceInfo, DeviceSession, Driver, Found, Refusal};
    use gantry_core::route::Pin;
    use gantry_core::{Gantry, Unsupported};

    use super::*;

    /// The software device, which refuses sessions on request.
    #[derive(Clone)]
    struct ScriptedDevice {
        software: Arc<dyn Device>,
        refuses_sessions: Arc<AtomicBool>,
        opened_sessions: Arc<AtomicUsize>,
    }

    impl Driver for ScriptedDevice {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn discover(&self) -> Vec<Found> {
            vec![Found::Device(Arc::new(self.clone()))]
        }
    }

    impl Device for ScriptedDevice {
        fn info(&self) -> &DeviceInfo {
            self.software.info()
        }

        fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
            self.opened_sessions.fetch_add(1, Relaxed);
            if self.refuses_sessions.load(Relaxed) {
                return Err(Unsupported::because("scripted").into());
            }
            self.software.open(params)
        }
    }

    #[test]
    fn a_key_whose_session_was_refused_stays_with_aws_lc_rs() {
        let software = gantry_runtime::software().unwrap();
        let device = ScriptedDevice { software, refuses_sessions: Arc::default(), opened_sessions: Arc::default() };
        let policy = Pin { device: device.info().name.clone() };
        let gantry = Gantry::builder().driver(&device).policy(policy).build();
        let framework = Framework::leak(Some(CallerDevice::new(gantry, "none", true, |_| true)));
        let key = || {
            let mut key = RecordKey::new(Algorithm::Aes256Gcm, Operation::Seal, &AeadKey::from([7; 32]));
            key.framework = Some(framework);
            key
        };
        let opened_sessions = || device.opened_sessions.load(Relaxed);
        let mut other = key();
        assert!(other.session(4096).is_some());
        let (before, mut key) = (opened_sessions(), key());
        device.refuses_sessions.store(true, Relaxed);
        assert!((0..10).all(|_| key.session(4096).is_none()));
        assert_eq!(opened_sessions(), before + 1);
        assert!(other.session(4096).is_some());
    }
}

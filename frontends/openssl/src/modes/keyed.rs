//! The key of a cipher that is no AEAD, and requests under it.

use gantry_core::route::{SizeSet, Worth};
use gantry_core::{Algorithm, Direction, Operation, Outcome, Request, SessionParams};

use crate::framework::{DeviceResult, Engine, Side};
use crate::host::Io;
use crate::modes::key::Key;
use crate::provider::Wrapped;

#[derive(Clone, Default)]
pub(crate) struct KeyedCipher {
    pub(crate) encrypt: bool,
    /// The direction when the key was set.
    key_encrypt: bool,
    key: Key,
    engine: Engine,
}

impl KeyedCipher {
    pub(crate) fn init_accepted(&mut self, wrapped: &Wrapped, encrypt: bool, key: Option<&[u8]>) {
        let another = key.is_some_and(|key| !self.key.equals(key));
        if another || encrypt != self.encrypt {
            // A session has one direction and one key.
            self.engine.new_key();
        }
        self.encrypt = encrypt;
        if let Some(key) = key {
            self.key_encrypt = encrypt;
            self.key.set(key);
            if another && let Some(worth) = self.worth(wrapped) {
                worth.new_key();
            }
        }
    }

    /// Returns true if the direction changed after the key was set. In modes that decrypt with a key schedule of their own, only
    /// the host knows the result.
    pub(crate) fn direction_changed(&self) -> bool {
        self.encrypt != self.key_encrypt
    }

    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.equals(key)
    }

    pub(crate) fn forget(&mut self) {
        self.key.set(&[]);
        self.engine.new_key();
    }

    pub(crate) fn operation(&self) -> Operation {
        if self.encrypt { Operation::Encrypt } else { Operation::Decrypt }
    }

    fn worth<'w>(&self, wrapped: &'w Wrapped) -> Option<&'w Worth> {
        Some(wrapped.framework_if_open()?.worth(wrapped.algorithm()?, self.operation()))
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the host.
    pub(crate) fn device_sizes(&self, wrapped: &Wrapped) -> SizeSet {
        self.worth(wrapped).map_or(wrapped.initial_sizes(), Worth::sizes)
    }

    /// Runs one request on a device, if the device is faster.
    pub(crate) fn run_on_device(&mut self, wrapped: &Wrapped, io: &mut Io<'_>, iv: &[u8]) -> DeviceResult {
        let (bytes, operation, in_place) = (io.len(), self.operation(), io.in_place());
        if let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) {
            let params = one_way(algorithm, &self.key, self.encrypt);
            if self.engine.side(framework, operation, bytes, params, algorithm) == Side::Device
                && let (Some(session), Some(data)) = (self.engine.session_for_use(), io.buffers())
            {
                let result = match operation {
                    Operation::Encrypt => session.encrypt(iv, data),
                    _ => session.decrypt(iv, data),
                };
                let done = result.map_or_else(|error| self.engine.failed(&error, in_place), |()| DeviceResult::Done);
                if done != DeviceResult::Host {
                    wrapped.count(operation, Side::Device, bytes);
                    return done;
                }
            }
        }
        wrapped.count(operation, Side::Host, bytes);
        DeviceResult::Host
    }

    /// Runs a batch on a device, if the device is faster for its size. Returns true if the device ran it. The caller then
    /// runs each request that the device has not done.
    pub(crate) fn batch(&mut self, wrapped: &Wrapped, requests: &mut [Request<'_>]) -> bool {
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) else { return false };
        let operation = self.operation();
        let bytes: usize = requests.iter().map(Request::bytes).sum();
        let params = one_way(algorithm, &self.key, self.encrypt);
        let size = (bytes, requests.len());
        let Some(session) = self.engine.session_for_batch(framework, operation, size, params) else { return false };
        // Requests without an outcome are examined one by one afterwards.
        let _ = session.process(requests);
        let done = requests.iter().filter(|request| request.outcome() == Some(Outcome::Done));
        done.for_each(|request| wrapped.count(operation, Side::Device, request.bytes()));
        true
    }
}

/// Returns the parameters of a session with one direction, for which a device may keep less state.
fn one_way(algorithm: Algorithm, key: &Key, encrypt: bool) -> impl Fn() -> SessionParams {
    let direction = if encrypt { Direction::Encrypt } else { Direction::Decrypt };
    move || SessionParams::new(algorithm, &key.bytes()).with_direction(direction)
}

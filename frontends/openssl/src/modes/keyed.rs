//! The key of a cipher that is no AEAD, and requests under it.

use gantry_core::route::{Savings, SizeSet};
use gantry_core::{Algorithm, Direction, Operation, Outcome, Request, SessionParams};

use crate::framework::{DeviceResult, DeviceSide, Side};
use crate::libcrypto::Io;
use crate::modes::key::Key;
use crate::provider::WrappedAlgorithm;

#[derive(Clone, Default)]
pub(crate) struct KeyedCipher {
    pub(crate) encrypt: bool,
    /// True if the key was set for encryption.
    key_set_for_encrypt: bool,
    key: Key,
    device_side: DeviceSide,
}

impl KeyedCipher {
    pub(crate) fn init_accepted(&mut self, wrapped: &WrappedAlgorithm, encrypt: bool, key: Option<&[u8]>) {
        let is_another_key = key.is_some_and(|key| !self.key.equals(key));
        if is_another_key || encrypt != self.encrypt {
            // A session has one direction and one key.
            self.device_side.new_key();
        }
        self.encrypt = encrypt;
        if let Some(key) = key {
            self.key_set_for_encrypt = encrypt;
            self.key.set(key);
            if is_another_key && let Some(savings) = self.savings(wrapped) {
                savings.count_key();
            }
        }
    }

    /// Returns true if the direction changed after the key was set. A mode with a separate key schedule for decryption then keeps the
    /// schedule of the old direction, and only the default provider can compute the result.
    pub(crate) fn direction_changed(&self) -> bool {
        self.encrypt != self.key_set_for_encrypt
    }

    #[inline(always)]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.key.equals(key)
    }

    pub(crate) fn forget(&mut self) {
        self.key.set(&[]);
        self.device_side.new_key();
    }

    pub(crate) fn operation(&self) -> Operation {
        if self.encrypt { Operation::Encrypt } else { Operation::Decrypt }
    }

    fn savings<'w>(&self, wrapped: &'w WrappedAlgorithm) -> Option<&'w Savings> {
        Some(wrapped.framework_if_open()?.savings(wrapped.algorithm()?, self.operation()))
    }

    /// Returns the call sizes that a device may serve; calls of other sizes can go straight to the default provider.
    pub(crate) fn device_sizes(&self, wrapped: &WrappedAlgorithm) -> SizeSet {
        self.savings(wrapped).map_or(wrapped.initial_sizes(), Savings::sizes)
    }

    /// Runs one request on a device, if the device is faster.
    pub(crate) fn run_on_device(&mut self, wrapped: &WrappedAlgorithm, io: &mut Io<'_>, iv: &[u8]) -> DeviceResult {
        let (bytes, operation, is_in_place) = (io.len(), self.operation(), io.is_in_place());
        if let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) {
            let params = one_way_params(algorithm, &self.key, self.encrypt);
            if self.device_side.choose_side(framework, operation, bytes, params, algorithm) == Side::Device
                && let (Some(session), Some(data)) = (self.device_side.session_for_use(), io.buffers())
            {
                let result = match operation {
                    Operation::Encrypt => session.encrypt(iv, data),
                    _ => session.decrypt(iv, data),
                };
                let device_result = result
                    .map_or_else(|error| self.device_side.give_up_after(&error, is_in_place), |()| DeviceResult::Done);
                if device_result != DeviceResult::Declined {
                    wrapped.count(operation, Side::Device, bytes);
                    return device_result;
                }
            }
        }
        wrapped.count(operation, Side::DefaultProvider, bytes);
        DeviceResult::Declined
    }

    /// Runs a batch on a device, if the device is faster for a batch of this size. Returns true if the batch was given to the device. The
    /// caller then examines each outcome, because the device may have failed.
    pub(crate) fn run_batch(&mut self, wrapped: &WrappedAlgorithm, requests: &mut [Request<'_>]) -> bool {
        let Some((framework, algorithm)) = wrapped.framework().zip(wrapped.algorithm()) else { return false };
        let operation = self.operation();
        let bytes: usize = requests.iter().map(Request::bytes).sum();
        let params = one_way_params(algorithm, &self.key, self.encrypt);
        let size = (bytes, requests.len());
        let Some(session) = self.device_side.session_for_batch(framework, operation, size, params) else {
            return false;
        };
        // After an error, the requests that failed have no outcome. The caller finds them.
        let _ = session.process(requests);
        let done = requests.iter().filter(|request| request.outcome() == Some(Outcome::Done));
        done.for_each(|request| wrapped.count(operation, Side::Device, request.bytes()));
        true
    }
}

/// Returns the parameters of a session with one direction, for which a device may keep less state.
fn one_way_params(algorithm: Algorithm, key: &Key, encrypt: bool) -> impl Fn() -> SessionParams {
    let direction = if encrypt { Direction::Encrypt } else { Direction::Decrypt };
    move || SessionParams::new(algorithm, &key.bytes()).with_direction(direction)
}

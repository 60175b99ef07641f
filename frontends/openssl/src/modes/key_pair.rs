//! Our state of a key pair that belongs to the default provider: its raw keys, and the sessions that use them on another device.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use gantry_core::driver::Operands;
use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, Operation, Outcome, SessionParams};
use zeroize::Zeroizing;

use crate::framework::{DeviceSide, Side};
use crate::provider::WrappedAlgorithm;

/// Bytes of a private key, of a shared secret, and of each half of a signature, with Curve25519.
pub(crate) const KEY_LEN: usize = 32;

/// Raw keys, as the default provider reports them. A key is absent if it is not reported, or has another form.
#[derive(Default)]
pub(crate) struct RawKeys {
    private: Option<Zeroizing<Box<[u8]>>>,
    public: Option<Box<[u8]>>,
}

impl RawKeys {
    pub(crate) fn new(private: Option<&[u8]>, public: Option<&[u8]>) -> Self {
        Self { private: private.map(|key| Zeroizing::new(key.into())), public: public.map(Into::into) }
    }

    pub(crate) fn private(&self) -> Option<&[u8]> {
        self.private.as_deref().map(|key| &**key)
    }

    pub(crate) fn public(&self) -> Option<&[u8]> {
        self.public.as_deref()
    }
}

type DeviceSides = Vec<(Algorithm, Operation, DeviceSide)>;

#[derive(Default)]
pub(crate) struct KeyPairState {
    raw: OnceLock<RawKeys>,
    /// True if the default provider's key changed after the raw keys were read: that provider serves everything from then on.
    has_changed: AtomicBool,
    /// The device sides of the operations used so far.
    device_sides: Mutex<DeviceSides>,
}

impl KeyPairState {
    /// Returns the raw keys, read at the first call; `None` if the default provider's key has changed since.
    pub(crate) fn raw(&self, read: impl FnOnce() -> RawKeys) -> Option<&RawKeys> {
        let raw = self.raw.get_or_init(read);
        (!self.has_changed.load(Relaxed)).then_some(raw)
    }

    pub(crate) fn mark_changed(&self) {
        self.has_changed.store(self.raw.get().is_some(), Relaxed);
    }

    /// Returns true if a request may go to another device. Decides without the keys, because reading the keys takes longer than some
    /// devices save.
    pub(crate) fn may_use_device(wrapped: &WrappedAlgorithm, algorithm: Algorithm, operation: Operation) -> bool {
        let Some(framework) = wrapped.may_use_device().then(|| wrapped.framework()).flatten() else { return false };
        let may_save = framework.caller_device.may_save(algorithm, operation, SizeSet::SMALLEST);
        if !may_save {
            // Counts as a new key: after enough of them, the savings are forgotten and determined again.
            framework.savings(algorithm, operation).count_key();
        }
        may_save
    }

    /// Runs a request on another device, if that is faster and the keys are known. `None` leaves it to the default provider.
    pub(crate) fn run<'r>(
        &self,
        wrapped: &WrappedAlgorithm,
        algorithm: Algorithm,
        raw: impl FnOnce() -> Option<&'r RawKeys>,
        mut operands: Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let raw = Some(()).filter(|()| Self::may_use_device(wrapped, algorithm, operation)).and_then(|()| raw());
        let outcome = raw.and_then(|raw| self.run_on_device(wrapped, algorithm, raw, &mut operands));
        let side = if outcome.is_some() { Side::Device } else { Side::DefaultProvider };
        wrapped.count(operation, side, length);
        outcome
    }

    fn run_on_device(
        &self,
        wrapped: &WrappedAlgorithm,
        algorithm: Algorithm,
        raw: &RawKeys,
        operands: &mut Operands<'_>,
    ) -> Option<Outcome> {
        let operation = operands.operation();
        // A public key in another form stays with the default provider.
        let public = raw.public().filter(|public| algorithm.info().public_key.allows(public.len()));
        let key = if operation == Operation::Verify { public } else { raw.private() };
        let (framework, key) = (wrapped.framework()?, key?);
        let params = || SessionParams::new(algorithm, key).with_direction(operation);
        // The cost of a short message does not depend on its length.
        let bytes = operands.bytes().max(SizeSet::SMALLEST);
        let session = {
            // Does not wait for the lock: another thread may hold it, or may have held it when this process was forked.
            let mut device_sides = self.device_sides.try_lock().ok()?;
            let device_side = device_side(&mut device_sides, algorithm, operation);
            if device_side.choose_side(framework, operation, bytes, params, algorithm) == Side::DefaultProvider {
                return None;
            }
            device_side.session_for_use()?.clone()
        };
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none()
            && let Ok(mut device_sides) = self.device_sides.try_lock()
        {
            device_side(&mut device_sides, algorithm, operation).give_up();
        }
        outcome
    }
}

/// Returns the device side of an operation, new if there was none.
fn device_side(device_sides: &mut DeviceSides, algorithm: Algorithm, operation: Operation) -> &mut DeviceSide {
    let index = device_sides.iter().position(|(of, to, _)| (*of, *to) == (algorithm, operation)).unwrap_or_else(|| {
        device_sides.push((algorithm, operation, DeviceSide::default()));
        device_sides.len() - 1
    });
    &mut device_sides[index].2
}

//! Our own state of an SLH-DSA signature context (FIPS 205, in OpenSSL since 3.5), and the choice of a side.
//!
//! The default provider's context receives all parameters too, and serves the requests that no device takes. The choice needs no
//! measurement. A signature takes the default provider from milliseconds to nearly a second. A device that hashes in lanes takes a half to
//! a fifth of that.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Operation, Outcome, SessionParams};

use crate::framework::{DeviceSide, Side};
use crate::libcrypto::ParamValues;
use crate::modes::key_pair::RawKeys;
use crate::provider::WrappedAlgorithm;

/// The state of a signature context without its key: the parameters of its messages, and the session on a device.
#[derive(Clone, Default)]
pub(crate) struct SlhDsaParams {
    context: Vec<u8>,
    is_deterministic: bool,
    /// True if the program set the random numbers of signatures, as tests do: the default provider signs.
    is_seeded: bool,
    /// True if a parameter was set that only the default provider supports, for example that messages are already framed.
    needs_default_provider: bool,
    /// The operation of the session, once there was a request.
    operation: Option<Operation>,
    device_side: DeviceSide,
}

impl SlhDsaParams {
    /// Records parameters; `accepted` tells if the default provider accepted them.
    pub(crate) fn record_params(&mut self, params: ParamValues<'_>, accepted: bool) {
        let (known_params, is_complete) =
            params.find_all([c"context-string", c"deterministic", c"message-encoding", c"test-entropy"]);
        let [context, deterministic, encoding, entropy] = known_params;
        let context_bytes = context.octets_or_none();
        let is_supported = accepted
            && is_complete
            && !params.has_repeated()
            && context.is_present() == context_bytes.is_some()
            && deterministic.is_present() == deterministic.number().is_some()
            // Devices support only the encoding of FIPS 205 with a context.
            && (!encoding.is_present() || encoding.number() == Some(1));
        self.needs_default_provider |= !is_supported;
        self.is_seeded |= entropy.is_present();
        if let Some(context) = context_bytes {
            self.context = context.to_vec();
        }
        if let Some(deterministic) = deterministic.number() {
            self.is_deterministic = deterministic != 0;
        }
        self.device_side.new_key();
    }

    /// Runs a request on another device, if that is faster, and counts it. `raw` reads the raw keys; it is `None` if there is no key.
    /// Returns `None` if the default provider must serve the request.
    pub(crate) fn run<'r>(
        &mut self,
        wrapped: &WrappedAlgorithm,
        algorithm: Algorithm,
        raw: Option<impl FnOnce() -> Option<&'r RawKeys>>,
        mut operands: Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let outcome = raw.and_then(|raw| self.run_on_device(wrapped, algorithm, raw, &mut operands));
        wrapped.count(operation, if outcome.is_some() { Side::Device } else { Side::DefaultProvider }, length);
        outcome
    }

    fn run_on_device<'r>(
        &mut self,
        wrapped: &WrappedAlgorithm,
        algorithm: Algorithm,
        raw: impl FnOnce() -> Option<&'r RawKeys>,
        operands: &mut Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        // The initial sizes include 0 bytes only if the configuration names a policy, because a named policy decides about all sizes.
        let has_named_policy = wrapped.initial_sizes().has(0);
        let needs_default_provider = self.needs_default_provider || self.is_seeded && operation == Operation::Sign;
        if needs_default_provider
            || !wrapped.may_use_device()
            || !(has_named_policy || is_worth_it(algorithm, operation))
        {
            return None;
        }
        let framework = wrapped.framework()?;
        let raw = raw()?;
        let info = algorithm.info();
        let (bytes, needed) = match operation {
            Operation::Sign => (raw.private()?, info.key.max),
            _ => (raw.public()?, info.public_key.max),
        };
        if bytes.len() != needed {
            return None;
        }
        if self.operation.replace(operation) != Some(operation) {
            self.device_side.new_key();
        }
        let Self { context, is_deterministic, device_side, .. } = self;
        let params = || {
            let params = SessionParams::new(algorithm, bytes).with_direction(operation).with_context(context);
            if *is_deterministic && operation == Operation::Sign { params.deterministic() } else { params }
        };
        let session = device_side.session(framework, params)?;
        if !framework.caller_device.routes_elsewhere(&session, operation, length, 1) {
            return None;
        }
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none() {
            device_side.give_up();
        }
        outcome
    }
}

/// The estimated time that a device could have saved in this process so far. A device's known-answer tests take [`OPENING_COST_UNITS`]
/// of these units.
static SAVED_UNITS: AtomicU32 = AtomicU32::new(0);
const OPENING_COST_UNITS: u32 = 256;

/// Adds the saving of a request, and returns true if the savings so far are worth opening a device. The first signature of a small set
/// (`s`) is worth it. Measured with OpenSSL 4.0 on Zen 4: a small signature saves 76 to 540 ms, a fast one at least 3.6 ms, a verification
/// at least 0.05 ms. The known-answer tests of the fast sets take some 15 ms.
fn is_worth_it(algorithm: Algorithm, operation: Operation) -> bool {
    let saves = match operation {
        Operation::Sign if algorithm.name().ends_with('s') => OPENING_COST_UNITS,
        Operation::Sign => OPENING_COST_UNITS / 4,
        _ => 1,
    };
    // Concurrent threads may count as one; the exact number does not matter.
    let saved = SAVED_UNITS.load(Relaxed).saturating_add(saves);
    SAVED_UNITS.store(saved, Relaxed);
    saved >= OPENING_COST_UNITS
}

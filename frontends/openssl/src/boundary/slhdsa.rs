//! Signatures of SLH-DSA (FIPS 205), which OpenSSL has since 3.5: our entries, and who serves a request.
//!
//! All that a program says goes to the host's context, too, which serves whatever is not led elsewhere. Nothing is tried out: a request
//! takes the host milliseconds to the better part of a second, and a device that hashes in lanes a third of that.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Direction, Operation, Outcome, SessionParams};
use zeroize::Zeroizing;

use super::core::dispatch;
use super::guard;
use super::params::{self, Answers};
use super::signature::{SignatureCtx, Signer, keyed, sign_message, verify_message};
use super::wrapped::Wrapped;
use crate::abi::fns::*;
use crate::abi::{Dispatch, Param};
use crate::framework::{Engine, Side};
use crate::pair::Raw;

/// Bytes of the longest public key; a private one has twice as many.
const LONGEST: usize = 64;

/// What a context was told of its messages, beside its key.
#[derive(Clone, Default)]
pub(super) struct Framing {
    context: Vec<u8>,
    deterministic: bool,
    /// The random numbers of signatures were said, for a test: the host signs.
    is_seeded: bool,
    /// Something was said that only the host does, as that a message is framed already.
    is_hosts: bool,
    /// With a session of this operation, once there was a request of it.
    operation: Option<Operation>,
    engine: Engine,
}

impl Framing {
    /// What the host has understood, or has not.
    fn told(&mut self, params: Answers<'_>, understood: bool) {
        let (known, is_all) = params.of([c"context-string", c"deterministic", c"message-encoding", c"test-entropy"]);
        let [context, deterministic, encoding, entropy] = known;
        let context_bytes = context.octets_or_none();
        let good = understood
            && is_all
            && !params.has_repeated()
            && context.is_there() == context_bytes.is_some()
            && deterministic.is_there() == deterministic.number().is_some()
            // The one of FIPS 205, with a context.
            && (!encoding.is_there() || encoding.number() == Some(1));
        self.is_hosts |= !good;
        self.is_seeded |= entropy.is_there();
        if let Some(context) = context_bytes {
            self.context = context.to_vec();
        }
        if let Some(deterministic) = deterministic.number() {
            self.deterministic = deterministic != 0;
        }
        self.engine.new_key();
    }
}

/// What a device saves, in parts of what it takes until it has shown what it can, in a process that has asked for nothing yet.
static SAVED: AtomicU32 = AtomicU32::new(0);
const SHOWN: u32 = 256;

/// Whether a request is worth it. A small signature takes long, so that the first one is. (Measured with OpenSSL 4.0 on a Zen 4: of small
/// ones 76 to 540 ms are saved, of fast ones 3.6 ms and more, and of verifications 0.05 ms and more; devices show their fast sets in some
/// 15 ms.)
fn is_worth_it(algorithm: Algorithm, operation: Operation) -> bool {
    let saves = match operation {
        Operation::Sign if algorithm.name().ends_with('s') => SHOWN,
        Operation::Sign => SHOWN / 4,
        _ => 1,
    };
    // Threads that come at the same time may count as one: nothing hangs on the exact number.
    let saved = SAVED.load(Relaxed).saturating_add(saves);
    SAVED.store(saved, Relaxed);
    saved >= SHOWN
}

impl Signer {
    /// A request to another device, if it is to go there.
    pub(super) fn slh_dsa(
        &mut self,
        wrapped: &Wrapped,
        algorithm: Algorithm,
        mut operands: Operands<'_>,
    ) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let outcome = self.try_slh_dsa(wrapped, algorithm, &mut operands);
        wrapped.count(operation, if outcome.is_some() { Side::Device } else { Side::Host }, length);
        outcome
    }

    fn try_slh_dsa(&mut self, wrapped: &Wrapped, algorithm: Algorithm, operands: &mut Operands<'_>) -> Option<Outcome> {
        let (operation, length) = (operands.operation(), operands.bytes());
        let Signer { key: Some(key), framing, .. } = self else { return None };
        // All sizes are asked about where the operator named the policy.
        let named = wrapped.asked().has(0);
        let is_hosts = framing.is_hosts || framing.is_seeded && operation == Operation::Sign;
        if is_hosts || !wrapped.leads() || !(named || is_worth_it(algorithm, operation)) {
            return None;
        }
        let framework = wrapped.framework()?;
        let raw = key.raw()?;
        let info = algorithm.info();
        let (bytes, needed, direction) = match operation {
            Operation::Sign => (raw.private()?, info.key.max, Direction::Encrypt),
            _ => (raw.public()?, info.public_key.max, Direction::Decrypt),
        };
        if bytes.len() != needed {
            return None;
        }
        if framing.operation.replace(operation) != Some(operation) {
            framing.engine.new_key();
        }
        let Framing { context, deterministic, engine, .. } = framing;
        let params = || {
            let params = SessionParams::new(algorithm, bytes).direction(direction).context(context);
            if *deterministic && operation == Operation::Sign { params.deterministic() } else { params }
        };
        let session = engine.shared(framework, params)?;
        if !framework.beside.leads(&session, operation, length, 1) {
            return None;
        }
        let outcome = session.run(operands.reborrow()).ok();
        if outcome.is_none() {
            engine.give_up();
        }
        outcome
    }
}

/// The raw keys of the host's key, which `ask` asks for what it says of itself; `public` is the bytes of a public key. (An export would
/// leave a copy of them in memory that was freed.)
pub(super) fn raw(public: usize, ask: impl FnOnce(*mut Param) -> c_int) -> Raw {
    let (mut open, mut secret) = ([0_u8; LONGEST], Zeroizing::new([0_u8; 2 * LONGEST]));
    let mut table = [
        Param::octets(c"pub", open.as_mut_ptr().cast(), open.len()),
        Param::octets(c"priv", secret.as_mut_ptr().cast(), secret.len()),
        params::end(),
    ];
    let told = ask(table.as_mut_ptr()) == 1;
    // What is not there has no length.
    let is_there = |place: usize, length: usize| told && table[place].return_size == length;
    let private = is_there(1, 2 * public).then(|| &secret[..2 * public]);
    Raw::new(private, is_there(0, public).then(|| &open[..public]))
}

/// Notes what was said at once with a key, or later, after the host has heard it: `result` is its answer.
///
/// # Safety
///
/// The call.
unsafe fn told(context: *mut c_void, params: *const Param, result: c_int) -> c_int {
    // SAFETY: the call: a context of ours, and null or a table with its end.
    let (this, params) = unsafe { (SignatureCtx::of(context).0, Answers::new(params)) };
    this.state.framing.told(params, result == 1);
    result
}

unsafe extern "C" fn digest_init<const SIGN: bool>(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    guard(0, || unsafe {
        let result = keyed(context, key, true, |functions, context, key| {
            Some(functions.digest_init::<SIGN>()?(context, digest, key, params))
        });
        told(context, params, result)
    })
}

unsafe extern "C" fn message_init<const SIGN: bool>(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    guard(0, || unsafe {
        let result = keyed(context, key, true, |functions, context, key| {
            Some(functions.message_init::<SIGN>()?(context, key, params))
        });
        told(context, params, result)
    })
}

unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the call, and the host with what it brought.
    guard(0, || unsafe {
        let result = SignatureCtx::of(context).0.host.set_params(params);
        told(context, params, result)
    })
}

/// Our entries beside those that all signatures have.
pub(super) fn entries() -> Vec<Dispatch> {
    dispatch! {
        OSSL_FUNC_SIGNATURE_SIGN_MESSAGE_INIT => message_init::<true>, KeyedInit;
        OSSL_FUNC_SIGNATURE_SIGN => sign_message::<false>, SignatureSign;
        OSSL_FUNC_SIGNATURE_VERIFY_MESSAGE_INIT => message_init::<false>, KeyedInit;
        OSSL_FUNC_SIGNATURE_VERIFY => verify_message::<false>, SignatureVerify;
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT => digest_init::<true>, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_SIGN => sign_message::<true>, SignatureSign;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY_INIT => digest_init::<false>, SignatureDigestInit;
        OSSL_FUNC_SIGNATURE_DIGEST_VERIFY => verify_message::<true>, SignatureVerify;
        OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS => set_ctx_params, SetParams;
    }
    .to_vec()
}

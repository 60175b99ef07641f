//! Our functions for key encapsulation in hybrid TLS groups that the default provider also has, which OpenSSL calls. We agree on a secret with
//! a peer's share. The default provider does everything else.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use gantry_core::Operation;

use super::agreement::{Buffer, encapsulate_to};
use super::context::{Context, Contexts, new_context};
use super::keys::KeyData;
use crate::abi::Param;
use crate::abi::fns::*;
use crate::framework::Side;
use crate::groups::hybrid_group;
use crate::libcrypto::catch_panic;
use crate::libcrypto::functions::KemFns;
use crate::libcrypto::params::is_empty;
use crate::provider::WrappedAlgorithm;

/// The core's `kemctx`.
type KemCtx = Context<KemFns>;

/// The key of a context.
#[derive(Clone, Default)]
pub(crate) struct KemKey {
    key: Option<Arc<KeyData>>,
    /// True if the default provider's context has no key yet.
    is_deferred: bool,
}

impl Contexts for KemFns {
    type State = KemKey;
}

pub(super) unsafe extern "C" fn newctx<const ROW: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call; the default provider, with its own context.
    unsafe { new_context(provider, ROW, KemFns::call_newctx, |_, _| KemKey::default()) }
}

pub(super) unsafe extern "C" fn encapsulate_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key, has_no_params) =
            unsafe { (KemCtx::parts(context), KeyData::share(key), is_empty(params)) };
        let is_deferred = has_no_params && key.as_ref().is_some_and(|key| key.unseen_share().is_some());
        this.state = KemKey { key, is_deferred };
        // SAFETY: the call.
        if is_deferred { 1 } else { unsafe { init_default(this, functions.encapsulate_init, params) } }
    })
}

pub(super) unsafe extern "C" fn decapsulate_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (KemCtx::parts(context), KeyData::share(key)) };
        this.state = KemKey { key, is_deferred: false };
        // SAFETY: the call.
        unsafe { init_default(this, functions.decapsulate_init, params) }
    })
}

/// Sets the key in the default provider's context.
///
/// # Safety
///
/// The call, or no parameters.
unsafe fn init_default(this: &KemCtx, init: Option<KeyedInit>, params: *const Param) -> c_int {
    let default_key = this.state.key.as_ref().map_or(ptr::null_mut(), |key| key.default_key());
    // SAFETY: the default provider, with its own key and the caller's parameters.
    init.map_or(0, |init| unsafe { init(this.default_ctx.as_ptr(), default_key, params) })
}

/// Counts an agreement of the default provider, if there was one.
fn count(wrapped: &WrappedAlgorithm, operation: Operation, has_agreed: bool) {
    if has_agreed && let Some(group) = hybrid_group(wrapped.row().name) {
        wrapped.count(operation, Side::DefaultProvider, group.secret_len());
    }
}

/// Gives the key to the default provider's context, which serves all calls from then on. Returns false if that fails: the context has no key
/// then, and OpenSSL's code would crash.
fn hand_over(this: &mut KemCtx, functions: &KemFns) -> bool {
    // SAFETY: there are no parameters.
    this.state.is_deferred = unsafe { init_default(this, functions.encapsulate_init, ptr::null()) } != 1;
    !this.state.is_deferred
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { KemCtx::parts(context) };
        // Only the default provider understands parameters.
        let is_ready = !this.state.is_deferred || hand_over(this, functions);
        // SAFETY: the call.
        if is_ready { unsafe { this.default_ctx.set_params(params) } } else { 0 }
    })
}

pub(super) unsafe extern "C" fn encapsulate(
    context: *mut c_void,
    answer: *mut u8,
    answer_length: *mut usize,
    secret: *mut u8,
    secret_length: *mut usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { KemCtx::parts(context) };
        let provider = wrapped.provider();
        if !answer.is_null() && wrapped.raise_if_forced() {
            return 0;
        }
        if this.state.is_deferred {
            let share = this.state.key.as_ref().and_then(|key| key.unseen_share());
            let (answer, secret) =
                (Buffer { start: answer, length: answer_length }, Buffer { start: secret, length: secret_length });
            // SAFETY: the call.
            let agree = |share| unsafe { encapsulate_to(share, provider, &answer, &secret) }.is_ok();
            if share.is_some_and(|share| provider.default_provider.discarding_errors(|| agree(share))) {
                return 1;
            }
            if !hand_over(this, functions) {
                return 0;
            }
        }
        // SAFETY: the default provider, with the call's arguments.
        let result = functions.encapsulate.map_or(0, |encapsulate| unsafe {
            encapsulate(this.default_ctx.as_ptr(), answer, answer_length, secret, secret_length)
        });
        count(wrapped, Operation::Encapsulate, !answer.is_null() && result == 1);
        result
    })
}

pub(super) unsafe extern "C" fn decapsulate(
    context: *mut c_void,
    secret: *mut u8,
    secret_length: *mut usize,
    answer: *const u8,
    answer_length: usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { KemCtx::parts(context) };
        if !secret.is_null() && wrapped.raise_if_forced() {
            return 0;
        }
        // SAFETY: the default provider, with the call's arguments.
        let result = functions.decapsulate.map_or(0, |decapsulate| unsafe {
            decapsulate(this.default_ctx.as_ptr(), secret, secret_length, answer, answer_length)
        });
        count(wrapped, Operation::Decapsulate, !secret.is_null() && result == 1);
        result
    })
}

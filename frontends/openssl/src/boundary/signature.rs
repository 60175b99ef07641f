//! Our functions for signatures, which OpenSSL calls.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Outcome};

use super::context::{Context, Contexts, bytes, new_context};
use super::keys::KeyData;
use crate::abi::Param;
use crate::framework::Side;
use crate::libcrypto::functions::SignatureFns;
use crate::libcrypto::params::is_empty;
use crate::libcrypto::{ParamValues, catch_panic};
use crate::modes::slh_dsa::SlhDsaParams;
use crate::provider::WrappedAlgorithm;

/// The core's `sigctx`.
pub(super) type SignatureCtx = Context<SignatureFns>;

#[derive(Clone, Default)]
pub(crate) struct SignatureState {
    /// The key for whole messages. `None` if the operation is on a digest. Also `None` after a parameter was set that only the default
    /// provider understands, such as the parameter that selects Ed25519ph (RFC 8032).
    pub(super) key: Option<Arc<KeyData>>,
    pub(super) slh_dsa: SlhDsaParams,
}

impl SignatureState {
    /// Runs a request of any algorithm but SLH-DSA on another device, if that is faster. Counts the request in either case.
    fn run_on_device(
        &self,
        wrapped: &WrappedAlgorithm,
        algorithm: Algorithm,
        operands: Operands<'_>,
    ) -> Option<Outcome> {
        let Some(key) = &self.key else {
            wrapped.count(operands.operation(), Side::DefaultProvider, operands.bytes());
            return None;
        };
        key.pair().run(wrapped, algorithm, || key.raw(), operands)
    }

    /// Runs a request with a whole message, of any algorithm, on another device, if that is faster. `None` leaves the request to the
    /// default provider.
    fn run_message(&mut self, wrapped: &WrappedAlgorithm, operands: Operands<'_>) -> Option<Outcome> {
        match wrapped.algorithm()? {
            slh_dsa if slh_dsa.is_slh_dsa() => {
                let raw = self.key.as_deref().map(|key| || key.raw());
                self.slh_dsa.run(wrapped, slh_dsa, raw, operands)
            }
            other => self.run_on_device(wrapped, other, operands),
        }
    }
}

pub(super) unsafe extern "C" fn newctx<const ROW: usize>(
    provider: *mut c_void,
    properties: *const c_char,
) -> *mut c_void {
    let call_newctx = |functions: &SignatureFns, provctx| {
        // SAFETY: the default provider, with its own context and the call's arguments.
        functions.newctx.map(|newctx| unsafe { newctx(provctx, properties) })
    };
    // SAFETY: the call; the default provider, with its own context.
    unsafe { new_context(provider, ROW, call_newctx, |_, _| SignatureState::default()) }
}

/// Returns true if none of the parameters can change a signature. From OpenSSL 4.0 on, libssl passes the version of TLS, which matters only
/// to SM2.
///
/// # Safety
///
/// The call: null, or a terminated table.
unsafe fn has_plain_params(params: *const Param) -> bool {
    // SAFETY: as the caller promises.
    unsafe { is_empty(params) || ParamValues::new(params).is_only(c"tls-version") }
}

/// Starts an operation in both contexts: `init` starts it in the default provider's. Another device may serve the operation only if
/// `is_plain` is true: it takes whole messages, and no parameter reserves it for the default provider.
///
/// # Safety
///
/// The call. `init` calls one of the default provider's functions that set a context's key.
pub(super) unsafe fn init_with_key(
    context: *mut c_void,
    key: *mut c_void,
    is_plain: bool,
    init: impl FnOnce(&SignatureFns, *mut c_void, *mut c_void) -> Option<c_int>,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, functions, _), key) = unsafe { (SignatureCtx::parts(context), KeyData::share(key)) };
        let default_key = key.as_ref().map_or(ptr::null_mut(), |key| key.default_key());
        let result = init(functions, this.default_ctx.as_ptr(), default_key).unwrap_or(0);
        // Without a key, the previous one stays.
        let key = key.or_else(|| this.state.key.take());
        this.state.key = key.filter(|_| is_plain && result == 1);
        result
    })
}

/// Starts an operation on a whole message, despite its name: `EVP_DigestSignInit` or `EVP_DigestVerifyInit`.
pub(super) unsafe extern "C" fn digest_init<const SIGN: bool>(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    unsafe {
        init_with_key(context, key, has_plain_params(params), |functions, context, key| {
            Some(functions.digest_init::<SIGN>()?(context, digest, key, params))
        })
    }
}

/// Starts an operation on a digest, which the default provider serves alone.
pub(super) unsafe extern "C" fn init<const SIGN: bool>(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    unsafe {
        init_with_key(context, key, false, |functions, context, key| {
            Some(functions.init::<SIGN>()?(context, key, params))
        })
    }
}

/// Starts an operation on a whole message: `EVP_PKEY_sign_message_init` or `EVP_PKEY_verify_message_init` (OpenSSL 3.4 and later).
pub(super) unsafe extern "C" fn message_init<const SIGN: bool>(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    unsafe {
        init_with_key(context, key, has_plain_params(params), |functions, context, key| {
            Some(functions.message_init::<SIGN>()?(context, key, params))
        })
    }
}

/// If `DIGEST`, the call is `EVP_DigestSign`. Otherwise it is `EVP_PKEY_sign`, which also takes a whole message from OpenSSL 3.4 on.
pub(super) unsafe extern "C" fn sign_message<const DIGEST: bool>(
    context: *mut c_void,
    signature: *mut u8,
    written: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::parts(context) };
        // Without a buffer, the call only queries the length.
        if !signature.is_null() {
            if wrapped.raise_if_forced() {
                return 0;
            }
            let size = wrapped.algorithm().map_or(usize::MAX, |algorithm| algorithm.info().tag.max);
            if size <= room {
                // SAFETY: the call: there is room for these bytes, and the message can be read.
                let (input, output) = unsafe { (bytes(input, length), slice::from_raw_parts_mut(signature, size)) };
                if this.state.run_message(wrapped, Operands::Sign { input, output }) == Some(Outcome::Done) {
                    // SAFETY: the call.
                    unsafe { *written = size };
                    return 1;
                }
            }
        }
        let sign = if DIGEST { functions.digest_sign } else { functions.sign };
        // SAFETY: the default provider, with the call's arguments.
        sign.map_or(0, |sign| unsafe { sign(this.default_ctx.as_ptr(), signature, written, room, input, length) })
    })
}

/// `DIGEST` as in [`sign_message`].
pub(super) unsafe extern "C" fn verify_message<const DIGEST: bool>(
    context: *mut c_void,
    signature: *const u8,
    size: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { SignatureCtx::parts(context) };
        if wrapped.raise_if_forced() {
            return 0;
        }
        // SAFETY: the call: message and signature can be read.
        let (message, signature_bytes) = unsafe { (bytes(input, length), bytes(signature, size)) };
        match this.state.run_message(wrapped, Operands::Verify { input: message, signature: signature_bytes }) {
            Some(Outcome::Done) => return 1,
            Some(Outcome::BadTag) => return 0,
            _ => {}
        }
        let verify = if DIGEST { functions.digest_verify } else { functions.verify };
        // SAFETY: the default provider, with the call's arguments.
        verify.map_or(0, |verify| unsafe { verify(this.default_ctx.as_ptr(), signature, size, input, length) })
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let ((this, ..), is_plain) = unsafe { (SignatureCtx::parts(context), has_plain_params(params)) };
        if !is_plain {
            this.state.key = None;
        }
        // SAFETY: the call.
        unsafe { this.default_ctx.set_params(params) }
    })
}

impl Contexts for SignatureFns {
    type State = SignatureState;
}

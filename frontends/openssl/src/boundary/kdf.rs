//! Our functions for key derivations, which OpenSSL calls.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use super::context::{Context, Contexts, new_context};
use crate::abi::Param;
use crate::libcrypto::functions::KdfFns;
use crate::libcrypto::params::is_empty;
use crate::libcrypto::{ParamValues, catch_panic};
use crate::modes::kdf::KdfState;

/// The core's `kctx`.
type KdfCtx = Context<KdfFns>;

impl KdfCtx {
    /// Sets parameters in the default provider's context. If they are accepted, also records them in our state.
    ///
    /// # Safety
    ///
    /// The call: null, or a terminated table.
    unsafe fn set_params(&mut self, params: *const Param) -> c_int {
        // SAFETY: the call.
        let result = unsafe { self.default_ctx.set_params(params) };
        if result == 1 {
            // SAFETY: the call.
            self.state.params_accepted(unsafe { ParamValues::new(params) });
        } else {
            self.state.params_refused();
        }
        result
    }
}

pub(super) unsafe extern "C" fn newctx<const ROW: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the call.
    unsafe { new_context(provider, ROW, KdfFns::call_newctx, |_, wrapped| KdfState::new(wrapped)) }
}

pub(super) unsafe extern "C" fn reset(context: *mut c_void) {
    catch_panic((), || {
        // SAFETY: the call.
        let (this, functions, _) = unsafe { KdfCtx::parts(context) };
        this.state.reset();
        if let Some(reset) = functions.reset {
            // SAFETY: the default provider, with its own context.
            unsafe { reset(this.default_ctx.as_ptr()) };
        }
    });
}

pub(super) unsafe extern "C" fn derive(
    context: *mut c_void,
    key: *mut u8,
    length: usize,
    params: *const Param,
) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call.
        let (this, functions, wrapped) = unsafe { KdfCtx::parts(context) };
        // SAFETY: the call.
        if wrapped.raise_if_forced() || (!unsafe { is_empty(params) } && unsafe { this.set_params(params) } != 1) {
            return 0;
        }
        // The thread counts as one that derives until the key is ready. It takes up a CPU even if the default provider derives the key.
        let thread = this.state.register(wrapped);
        if let Some(thread) = &thread
            && !key.is_null()
        {
            // SAFETY: the call: there is room for these bytes.
            let output = unsafe { slice::from_raw_parts_mut(key, length) };
            if let Some(lane_use) = this.state.derive(thread, output) {
                wrapped.count_derivation(lane_use, length);
                return 1;
            }
        }
        wrapped.count_default_provider_requests(0, 1, length);
        // SAFETY: the default provider, with its own context and the call's arguments.
        functions.derive.map_or(0, |derive| unsafe { derive(this.default_ctx.as_ptr(), key, length, ptr::null()) })
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the call.
    catch_panic(0, || unsafe { KdfCtx::parts(context).0.set_params(params) })
}

impl Contexts for KdfFns {
    type State = KdfState;

    const HAS_KEY: bool = true;
}

//! Our functions for SLH-DSA, in addition to the functions that all signatures share. Devices support some parameters of SLH-DSA, such as
//! the context string, so these functions record the parameters.

use std::ffi::{c_char, c_int, c_void};

use super::signature::{SignatureCtx, init_with_key};
use crate::abi::Param;
use crate::libcrypto::{ParamValues, catch_panic};

/// Records parameters after the default provider has received them, and returns `result`, its answer.
///
/// # Safety
///
/// The call.
unsafe fn record_params(context: *mut c_void, params: *const Param, result: c_int) -> c_int {
    // SAFETY: the call: one of our contexts, and null or a terminated table.
    let (this, params) = unsafe { (SignatureCtx::parts(context).0, ParamValues::new(params)) };
    this.state.slh_dsa.record_params(params, result == 1);
    result
}

pub(super) unsafe extern "C" fn digest_init<const SIGN: bool>(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    catch_panic(0, || unsafe {
        let result = init_with_key(context, key, true, |functions, context, key| {
            Some(functions.digest_init::<SIGN>()?(context, digest, key, params))
        });
        record_params(context, params, result)
    })
}

pub(super) unsafe extern "C" fn message_init<const SIGN: bool>(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    catch_panic(0, || unsafe {
        let result = init_with_key(context, key, true, |functions, context, key| {
            Some(functions.message_init::<SIGN>()?(context, key, params))
        });
        record_params(context, params, result)
    })
}

pub(super) unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the call; the default provider, with the call's arguments.
    catch_panic(0, || unsafe {
        let result = SignatureCtx::parts(context).0.default_ctx.set_params(params);
        record_params(context, params, result)
    })
}

//! Our functions for key generation, which OpenSSL calls.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::context::functions;
use super::keys::KeyData;
use crate::abi::Param;
use crate::abi::fns::*;
use crate::host::functions::{Functions, KeyFns};
use crate::host::guard;
use crate::provider::Wrapped;

/// The core's `genctx`.
struct Generator {
    host: *mut c_void,
    wrapped: *const Wrapped,
}

impl Generator {
    /// # Safety
    ///
    /// The call: a context from `gen_init`.
    unsafe fn parts<'c>(context: *mut c_void) -> (&'c Self, &'c Wrapped, &'c KeyFns) {
        // SAFETY: as the caller promises; the provider owns the algorithm and its functions, and outlives its contexts.
        let (this, wrapped) = unsafe { (&*context.cast::<Self>(), &*(*context.cast::<Self>()).wrapped) };
        let Functions::Keys(functions) = &wrapped.functions else { unreachable!("generators belong to key types") };
        (this, wrapped, functions)
    }
}

pub(super) unsafe extern "C" fn gen_init<const PLACE: usize>(
    provider: *mut c_void,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with its own context and the call's arguments.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null_mut() };
            let init = functions.gen_init;
            let host = init.map_or(ptr::null_mut(), |init| init(wrapped.default_ctx(), selection, params));
            if host.is_null() { host } else { Box::into_raw(Box::new(Generator { host, wrapped })).cast() }
        }
    })
}

pub(super) unsafe extern "C" fn gen_set_template(context: *mut c_void, template: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with its own context and key.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            let host_template = KeyData::borrow(template).map_or(ptr::null_mut(), |(template, _)| template.host);
            functions.gen_set_template.map_or(0, |set| set(this.host, host_template))
        }
    })
}

pub(super) unsafe extern "C" fn gen_get_params(context: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's parameters.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            functions.gen_get_params.map_or(0, |get| get(this.host, params))
        }
    })
}

pub(super) unsafe extern "C" fn gen_set_params(context: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: the call; the host, with the call's parameters.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            functions.gen_set_params.map_or(0, |set| set(this.host, params))
        }
    })
}

pub(super) unsafe extern "C" fn gen_settable_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<PLACE>(context, provider, |functions| functions.gen_settable_params) }
}

pub(super) unsafe extern "C" fn gen_gettable_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<PLACE>(context, provider, |functions| functions.gen_gettable_params) }
}

/// # Safety
///
/// The call: one of our contexts or null.
unsafe fn gen_params<const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
    which: fn(&KeyFns) -> Option<GettableCtx>,
) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, PLACE) else { return ptr::null() };
            let host = if context.is_null() { context } else { Generator::parts(context).0.host };
            which(functions).map_or(ptr::null(), |which| which(host, wrapped.default_ctx()))
        }
    })
}

pub(super) unsafe extern "C" fn generate(
    context: *mut c_void,
    progress: Option<ParamsCallback>,
    data: *mut c_void,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the call; the host, with the call's arguments.
        unsafe {
            let (this, wrapped, functions) = Generator::parts(context);
            let host = functions.generate.map_or(ptr::null_mut(), |generate| generate(this.host, progress, data));
            KeyData::into_raw(wrapped, host)
        }
    })
}

pub(super) unsafe extern "C" fn gen_cleanup(context: *mut c_void) {
    guard((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `gen_init`, and the core frees it once; the host, with its own context, once.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            if let Some(cleanup) = functions.gen_cleanup {
                cleanup(this.host);
            }
            drop(Box::from_raw(context.cast::<Generator>()));
        }
    });
}

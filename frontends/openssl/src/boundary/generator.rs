//! Our functions for key generation, which OpenSSL calls.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::context::functions;
use super::keys::{KeyData, PROPERTIES};
use crate::abi::Param;
use crate::abi::fns::*;
use crate::libcrypto::catch_panic;
use crate::libcrypto::functions::{Functions, KeyFns};
use crate::libcrypto::params::ParamValues;
use crate::provider::WrappedAlgorithm;

/// The core's `genctx`.
struct Generator {
    default_genctx: *mut c_void,
    wrapped: *const WrappedAlgorithm,
    /// True if a property query was set for the keys.
    has_properties: AtomicBool,
}

impl Generator {
    /// # Safety
    ///
    /// The call: a context from `gen_init`.
    unsafe fn parts<'c>(context: *mut c_void) -> (&'c Self, &'c WrappedAlgorithm, &'c KeyFns) {
        // SAFETY: as the caller promises; the provider owns the algorithm and its functions, and outlives its contexts.
        let (this, wrapped) = unsafe { (&*context.cast::<Self>(), &*(*context.cast::<Self>()).wrapped) };
        let Functions::Keys(functions) = &wrapped.functions else { unreachable!("generators belong to key types") };
        (this, wrapped, functions)
    }
}

pub(super) unsafe extern "C" fn gen_init<const ROW: usize>(
    provider: *mut c_void,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call; the default provider, with its own context and the call's arguments.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, ROW) else { return ptr::null_mut() };
            let init = functions.gen_init;
            let default_genctx =
                init.map_or(ptr::null_mut(), |init| init(wrapped.default_provctx(), selection, params));
            if default_genctx.is_null() {
                default_genctx
            } else {
                let has_properties = ParamValues::new(params).has(PROPERTIES).into();
                Box::into_raw(Box::new(Generator { default_genctx, wrapped, has_properties })).cast()
            }
        }
    })
}

pub(super) unsafe extern "C" fn gen_set_template(context: *mut c_void, template: *mut c_void) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with its own context and key.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            let default_template =
                KeyData::borrow(template).map_or(ptr::null_mut(), |(template, _)| template.default_key());
            functions.gen_set_template.map_or(0, |set| set(this.default_genctx, default_template))
        }
    })
}

pub(super) unsafe extern "C" fn gen_get_params(context: *mut c_void, params: *mut Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's parameters.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            functions.gen_get_params.map_or(0, |get| get(this.default_genctx, params))
        }
    })
}

pub(super) unsafe extern "C" fn gen_set_params(context: *mut c_void, params: *const Param) -> c_int {
    catch_panic(0, || {
        // SAFETY: the call; the default provider, with the call's parameters.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            this.has_properties.fetch_or(ParamValues::new(params).has(PROPERTIES), Ordering::Relaxed);
            functions.gen_set_params.map_or(0, |set| set(this.default_genctx, params))
        }
    })
}

pub(super) unsafe extern "C" fn gen_settable_params<const ROW: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<ROW>(context, provider, |functions| functions.gen_settable_params) }
}

pub(super) unsafe extern "C" fn gen_gettable_params<const ROW: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { gen_params::<ROW>(context, provider, |functions| functions.gen_gettable_params) }
}

/// # Safety
///
/// The call: one of our contexts or null.
unsafe fn gen_params<const ROW: usize>(
    context: *mut c_void,
    provider: *mut c_void,
    which: fn(&KeyFns) -> Option<GettableCtx>,
) -> *const Param {
    catch_panic(ptr::null(), || {
        // SAFETY: the call; the default provider, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<KeyFns>(provider, ROW) else { return ptr::null() };
            let default_genctx = if context.is_null() { context } else { Generator::parts(context).0.default_genctx };
            which(functions).map_or(ptr::null(), |which| which(default_genctx, wrapped.default_provctx()))
        }
    })
}

pub(super) unsafe extern "C" fn generate(
    context: *mut c_void,
    progress: Option<ParamsCallback>,
    data: *mut c_void,
) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call; the default provider, with the call's arguments.
        unsafe {
            let (this, wrapped, functions) = Generator::parts(context);
            let default_key =
                functions.generate.map_or(ptr::null_mut(), |generate| generate(this.default_genctx, progress, data));
            KeyData::into_raw(wrapped, default_key, this.has_properties.load(Ordering::Relaxed))
        }
    })
}

pub(super) unsafe extern "C" fn gen_cleanup(context: *mut c_void) {
    catch_panic((), || {
        if context.is_null() {
            return;
        }
        // SAFETY: ours: made by `gen_init`, and the core frees it once; the default provider, with its own context, once.
        unsafe {
            let (this, _, functions) = Generator::parts(context);
            if let Some(cleanup) = functions.gen_cleanup {
                cleanup(this.default_genctx);
            }
            drop(Box::from_raw(context.cast::<Generator>()));
        }
    });
}

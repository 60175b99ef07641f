//! What digests, ciphers and MACs have in common: how a function that is told only its place finds the host's, and the parameters
//! that a context of ours knows, which are those of the host's context in it.

use std::ffi::c_void;
use std::ptr;

use super::guard;
use super::provider::{Functions, Provider, Wrapped};
use crate::abi::Param;
use crate::abi::fns::*;

/// The host's functions of an algorithm of one kind.
pub(super) trait Family: Sized + 'static {
    /// The place of the kind among those that we serve.
    const KIND: usize;

    fn of(functions: &Functions) -> Option<&Self>;

    fn gettable_params(&self) -> Option<Gettable>;

    fn gettable_ctx_params(&self) -> Option<GettableCtx>;

    fn settable_ctx_params(&self) -> Option<GettableCtx>;

    /// # Safety
    ///
    /// The call: a context that is ours, and not null.
    unsafe fn host_context(context: *mut c_void) -> *mut c_void;
}

/// # Safety
///
/// The call: `provider` is what `OSSL_provider_init` gave out.
pub(super) unsafe fn functions<'p, F: Family>(provider: *mut c_void, place: usize) -> Option<(&'p Wrapped, &'p F)> {
    // SAFETY: as the caller promises.
    let wrapped = unsafe { Provider::wrapped(provider, F::KIND, place) }?;
    Some((wrapped, F::of(&wrapped.functions)?))
}

pub(super) unsafe extern "C" fn gettable_params<F: Family, const PLACE: usize>(provider: *mut c_void) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, PLACE) else { return ptr::null() };
            functions.gettable_params().map_or(ptr::null(), |gettable| gettable(wrapped.default_ctx()))
        }
    })
}

pub(super) unsafe extern "C" fn gettable_ctx_params<F: Family, const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params(context, provider, PLACE, F::gettable_ctx_params) }
}

pub(super) unsafe extern "C" fn settable_ctx_params<F: Family, const PLACE: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params(context, provider, PLACE, F::settable_ctx_params) }
}

/// # Safety
///
/// The call: a context of ours or null.
unsafe fn ctx_params<F: Family>(
    context: *mut c_void,
    provider: *mut c_void,
    place: usize,
    which: fn(&F) -> Option<GettableCtx>,
) -> *const Param {
    guard(ptr::null(), || {
        // SAFETY: the call; the host, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, place) else { return ptr::null() };
            let context = if context.is_null() { context } else { F::host_context(context) };
            which(functions).map_or(ptr::null(), |which| which(context, wrapped.default_ctx()))
        }
    })
}

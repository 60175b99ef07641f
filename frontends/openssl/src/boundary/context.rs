//! Our contexts of ciphers, key derivations, key exchange and signatures, each with a context of the default provider. If OpenSSL may call
//! a function without a context, the function finds those of the default provider by the index of its row, with [`functions`].

use std::ffi::{c_int, c_void};
use std::{mem, ptr, slice};

use crate::abi::Param;
use crate::abi::fns::*;
use crate::libcrypto::context::DefaultProviderCtx;
use crate::libcrypto::functions::{CommonFns, ContextFns, OperationFns};
use crate::libcrypto::{catch_panic, stack};
use crate::provider::{Provider, WrappedAlgorithm};

/// A kind of algorithm that has contexts, with our part of such a context.
pub(super) trait Contexts: ContextFns {
    /// Our own state of a context, in addition to the default provider's context.
    type State: Clone;

    /// True if the state contains a key.
    const HAS_KEY: bool = false;
}

/// Our context of an algorithm, as passed to the core.
pub(super) struct Context<F: Contexts> {
    pub(super) default_ctx: DefaultProviderCtx<F>,
    wrapped: *const WrappedAlgorithm,
    pub(super) forwarded: ForwardedTally,
    pub(super) state: F::State,
}

/// Calls and bytes that went straight to the default provider and are not counted yet. They are counted at the end of a message, when
/// another message begins, or at [`FLUSH_BYTES`] bytes: finding a thread's counters takes longer than most calls.
#[derive(Default)]
pub(super) struct ForwardedTally {
    /// True if the operation is decrypt or open.
    pub(super) is_decrypting: bool,
    calls: usize,
    bytes: usize,
}

/// The most bytes that stay uncounted, so that a message without an end, or a context that is never freed, is counted too.
const FLUSH_BYTES: usize = 4096;

impl<F: Contexts> Context<F> {
    /// Counts the calls that went straight to the default provider.
    #[inline(always)]
    pub(super) fn count_forwarded(&mut self) {
        if self.forwarded.calls > 0 {
            self.flush_forwarded();
        }
    }

    /// Records a call with `bytes` bytes that goes straight to the default provider.
    #[inline(always)]
    pub(super) fn record_forwarded(&mut self, bytes: usize) {
        let ForwardedTally { calls, bytes: all, .. } = &mut self.forwarded;
        (*calls, *all) = (calls.wrapping_add(1), all.wrapping_add(bytes));
        if *all >= FLUSH_BYTES {
            self.flush_forwarded();
        }
    }

    #[inline(never)]
    fn flush_forwarded(&mut self) {
        let ForwardedTally { is_decrypting, ref mut calls, ref mut bytes } = self.forwarded;
        let (calls, bytes) = (mem::take(calls), mem::take(bytes));
        // SAFETY: the provider owns the algorithm, and outlives its contexts.
        unsafe { &*self.wrapped }.count_default_provider_requests(usize::from(is_decrypting), calls, bytes);
    }

    /// # Safety
    ///
    /// The call: a context from `newctx` or `dupctx`.
    #[inline(always)]
    pub(super) unsafe fn parts<'c>(context: *mut c_void) -> (&'c mut Self, &'c F, &'c WrappedAlgorithm) {
        // SAFETY: as the caller promises; the provider owns the others, and outlives its contexts.
        unsafe {
            let this = context.cast::<Self>();
            let (functions, wrapped) = (&*(*this).default_ctx.functions, &*(*this).wrapped);
            (&mut *this, functions, wrapped)
        }
    }

    /// Makes a context in its final place on the heap: moving it there would cost as much as the rest of the call.
    #[inline(always)]
    fn allocate(
        default_ctx: DefaultProviderCtx<F>,
        wrapped: &WrappedAlgorithm,
        state: impl FnOnce() -> F::State,
    ) -> *mut c_void {
        let allocation = Box::<Self>::new_uninit();
        Box::into_raw(Box::write(
            allocation,
            Self { default_ctx, wrapped, forwarded: ForwardedTally::default(), state: state() },
        ))
        .cast()
    }
}

/// # Safety
///
/// The call: `provider` is the context from `OSSL_provider_init`.
pub(super) unsafe fn functions<'p, F: OperationFns>(
    provider: *mut c_void,
    row: usize,
) -> Option<(&'p WrappedAlgorithm, &'p F)> {
    // SAFETY: as the caller promises.
    let wrapped = unsafe { Provider::wrapped_algorithm(provider, F::OPERATION_INDEX, row) }?;
    Some((wrapped, F::select(&wrapped.functions)?))
}

/// Makes our context around one of the default provider's, which `call_newctx` makes.
///
/// # Safety
///
/// The call: `provider` is the context from `OSSL_provider_init`; `call_newctx` as for [`DefaultProviderCtx::new`].
pub(super) unsafe fn new_context<F: Contexts>(
    provider: *mut c_void,
    row: usize,
    call_newctx: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    state: impl FnOnce(&F, &WrappedAlgorithm) -> F::State,
) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        let context = || {
            // SAFETY: as the caller promises.
            let (wrapped, functions) = unsafe { functions::<F>(provider, row) }?;
            // SAFETY: as the caller promises.
            let default_ctx = unsafe { DefaultProviderCtx::new(wrapped.default_provctx(), functions, call_newctx) }?;
            Some(Context::allocate(default_ctx, wrapped, || state(functions, wrapped)))
        };
        context().unwrap_or(ptr::null_mut())
    })
}

pub(super) unsafe extern "C" fn dupctx<F: Contexts>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the call.
    let copy = unsafe { duplicate::<F>(context) };
    if F::HAS_KEY {
        // Copying may have left the key on the stack.
        stack::wipe();
    }
    copy
}

/// # Safety
///
/// The call.
#[inline(never)]
unsafe fn duplicate<F: Contexts>(context: *mut c_void) -> *mut c_void {
    catch_panic(ptr::null_mut(), || {
        // SAFETY: the call.
        let (this, _, wrapped) = unsafe { Context::<F>::parts(context) };
        let copy = |default_ctx| Context::allocate(default_ctx, wrapped, || this.state.clone());
        this.default_ctx.duplicate().map_or(ptr::null_mut(), copy)
    })
}

pub(super) unsafe extern "C" fn freectx<F: Contexts>(context: *mut c_void) {
    catch_panic((), || {
        if !context.is_null() {
            // SAFETY: ours: made by `newctx` or `dupctx`; the core frees it once.
            unsafe { Box::from_raw(context.cast::<Context<F>>()) }.count_forwarded();
        }
    });
}

pub(super) unsafe extern "C" fn get_ctx_params<F: Contexts>(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the call.
    catch_panic(0, || unsafe { Context::<F>::parts(context).0.default_ctx.get_params(params) })
}

pub(super) unsafe extern "C" fn gettable_params<F: OperationFns, const ROW: usize>(
    provider: *mut c_void,
) -> *const Param {
    catch_panic(ptr::null(), || {
        // SAFETY: the call; the default provider, with its own context.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, ROW) else { return ptr::null() };
            functions.gettable_params().map_or(ptr::null(), |gettable| gettable(wrapped.default_provctx()))
        }
    })
}

pub(super) unsafe extern "C" fn gettable_ctx_params<F: Contexts, const ROW: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params::<F>(context, provider, ROW, |common| common.gettable_ctx_params) }
}

pub(super) unsafe extern "C" fn settable_ctx_params<F: Contexts, const ROW: usize>(
    context: *mut c_void,
    provider: *mut c_void,
) -> *const Param {
    // SAFETY: the call.
    unsafe { ctx_params::<F>(context, provider, ROW, |common| common.settable_ctx_params) }
}

/// # Safety
///
/// The call: one of our contexts or null.
unsafe fn ctx_params<F: Contexts>(
    context: *mut c_void,
    provider: *mut c_void,
    row: usize,
    which: fn(&CommonFns) -> Option<GettableCtx>,
) -> *const Param {
    catch_panic(ptr::null(), || {
        // SAFETY: the call; the default provider, with its own contexts.
        unsafe {
            let Some((wrapped, functions)) = functions::<F>(provider, row) else { return ptr::null() };
            let context = if context.is_null() { context } else { Context::<F>::parts(context).0.default_ctx.as_ptr() };
            which(functions.common()).map_or(ptr::null(), |which| which(context, wrapped.default_provctx()))
        }
    })
}

/// Returns the input of a call.
///
/// # Safety
///
/// The call: null, or `length` bytes that can be read for as long as the result lives.
pub(super) unsafe fn bytes<'c>(input: *const u8, length: usize) -> &'c [u8] {
    // SAFETY: as the caller promises.
    if length == 0 || input.is_null() { &[] } else { unsafe { slice::from_raw_parts(input, length) } }
}

//! A context of the default provider, of any kind. The `SAFETY` comments name the promises of [`super`].

use std::ffi::{c_int, c_void};

use super::functions::ContextFns;
use crate::abi::Param;

/// A context of the default provider and its functions. Dropping this value frees the context.
pub(crate) struct DefaultProviderCtx<F: ContextFns> {
    ctx: *mut c_void,
    pub(crate) functions: *const F,
}

// SAFETY: the default provider: a context is not bound to a thread.
unsafe impl<F: ContextFns> Send for DefaultProviderCtx<F> {}

impl<F: ContextFns> DefaultProviderCtx<F> {
    /// Makes a context with `newctx`, which receives the provider context of the default provider.
    ///
    /// # Safety
    ///
    /// `newctx` returns null or a context that has no other owner; ours: the provider owns the functions, and outlives this.
    pub(crate) unsafe fn new(
        provctx: *mut c_void,
        functions: *const F,
        newctx: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<Self> {
        if provctx.is_null() {
            return None;
        }
        // SAFETY: as the caller promises.
        let ctx = newctx(unsafe { &*functions }, provctx)?;
        (!ctx.is_null()).then_some(Self { ctx, functions })
    }

    pub(crate) fn duplicate(&self) -> Option<Self> {
        // SAFETY: the default provider, with its own context, which it copies.
        unsafe { Self::new(self.as_ptr(), self.functions, |functions, ctx| Some(functions.common().dupctx?(ctx))) }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.ctx
    }

    pub(crate) fn functions(&self) -> &F {
        // SAFETY: ours: the provider owns them, and outlives its contexts.
        unsafe { &*self.functions }
    }

    /// Queries parameters of the default provider's context.
    ///
    /// # Safety
    ///
    /// The call, or a terminated table of ours whose data has room.
    pub(crate) unsafe fn get_params(&self, params: *mut Param) -> c_int {
        // SAFETY: the default provider, as the caller promises.
        self.functions().common().get_ctx_params.map_or(0, |get| unsafe { get(self.as_ptr(), params) })
    }

    /// # Safety
    ///
    /// The call, or a terminated table of ours.
    pub(crate) unsafe fn set_params(&self, params: *const Param) -> c_int {
        // SAFETY: the default provider, as the caller promises.
        self.functions().common().set_ctx_params.map_or(0, |set| unsafe { set(self.as_ptr(), params) })
    }
}

impl<F: ContextFns> Drop for DefaultProviderCtx<F> {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions().common().freectx {
            // SAFETY: the default provider, with its own context, once.
            unsafe { freectx(self.ctx) };
        }
    }
}

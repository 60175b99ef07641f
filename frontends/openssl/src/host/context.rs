//! A context of the host, of any kind.

use std::ffi::{c_int, c_void};

use super::functions::ContextFns;
use crate::abi::Param;

/// A context of the host, owned by this and freed with it, and its functions.
pub(crate) struct Host<F: ContextFns> {
    context: *mut c_void,
    pub(crate) functions: *const F,
}

// SAFETY: the host: a context is not bound to a thread.
unsafe impl<F: ContextFns> Send for Host<F> {}

impl<F: ContextFns> Host<F> {
    /// Makes a context with `begin`, which receives the provider context of the host.
    ///
    /// # Safety
    ///
    /// `begin` returns null or a context that has no other owner; ours: the provider owns the functions, and outlives this.
    pub(crate) unsafe fn new(
        provider_ctx: *mut c_void,
        functions: *const F,
        begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<Self> {
        if provider_ctx.is_null() {
            return None;
        }
        // SAFETY: as the caller promises.
        let context = begin(unsafe { &*functions }, provider_ctx)?;
        (!context.is_null()).then_some(Self { context, functions })
    }

    pub(crate) fn duplicate(&self) -> Option<Self> {
        // SAFETY: the host, with its own context, which it copies.
        unsafe {
            Self::new(self.context(), self.functions, |functions, context| Some(functions.common().dupctx?(context)))
        }
    }

    #[inline(always)]
    pub(crate) fn context(&self) -> *mut c_void {
        self.context
    }

    pub(crate) fn functions(&self) -> &F {
        // SAFETY: ours: the provider owns them, and outlives its contexts.
        unsafe { &*self.functions }
    }

    /// Queries parameters of the host's context.
    ///
    /// # Safety
    ///
    /// The call, or a terminated table of ours whose data has room.
    pub(crate) unsafe fn get_params(&self, params: *mut Param) -> c_int {
        // SAFETY: the host, as the caller promises.
        self.functions().common().get_ctx_params.map_or(0, |get| unsafe { get(self.context(), params) })
    }

    /// # Safety
    ///
    /// The call, or a terminated table of ours.
    pub(crate) unsafe fn set_params(&self, params: *const Param) -> c_int {
        // SAFETY: the host, as the caller promises.
        self.functions().common().set_ctx_params.map_or(0, |set| unsafe { set(self.context(), params) })
    }
}

impl<F: ContextFns> Drop for Host<F> {
    fn drop(&mut self) {
        if let Some(freectx) = self.functions().common().freectx {
            // SAFETY: the host, with its own context, once.
            unsafe { freectx(self.context) };
        }
    }
}

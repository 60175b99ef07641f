//! Keys of the host that no program made: those of the device that the host is.

use std::ffi::c_void;

use super::family::{Contexts, Host};
use super::functions::{Functions, KeyFns};
use super::params;
use super::wrapped::Wrapped;
use crate::abi::{self, Param};

/// A key pair of the host that is ours alone.
pub(crate) struct HostKey {
    key: *mut c_void,
    functions: *const KeyFns,
}

// SAFETY: the host: a key belongs to no thread.
unsafe impl Send for HostKey {}
// SAFETY: the host: a key may be used by several threads as long as nobody changes it.
unsafe impl Sync for HostKey {}

impl HostKey {
    /// The host's key from a private or a public one.
    pub(super) fn new(wrapped: &Wrapped, raw: &[u8], is_private: bool) -> Option<Self> {
        let Functions::Keys(functions) = &wrapped.functions else { return None };
        let theirs = wrapped.default_ctx();
        let (new, import) = (functions.new?, functions.import.filter(|_| !theirs.is_null())?);
        // SAFETY: the host, with its own context.
        let key = unsafe { new(theirs) };
        let this = (!key.is_null()).then_some(Self { key, functions })?;
        let (name, selection) = if is_private {
            (c"priv", abi::OSSL_KEYMGMT_SELECT_KEYPAIR)
        } else {
            (c"pub", abi::OSSL_KEYMGMT_SELECT_PUBLIC_KEY)
        };
        let table = [Param::octets(name, raw.as_ptr().cast_mut().cast(), raw.len()), params::end()];
        // SAFETY: the host, with its own key and a table with its end.
        (unsafe { import(this.key, selection, table.as_ptr()) } == 1).then_some(this)
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.key
    }
}

impl Drop for HostKey {
    fn drop(&mut self) {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        if let Some(free) = unsafe { (*self.functions).free } {
            // SAFETY: the host, with its own key, once.
            unsafe { free(self.key) };
        }
    }
}

/// The host's keys of one type and what it does with them, for keys that no program asked for.
#[derive(Clone, Copy)]
pub(crate) struct HostPair {
    theirs: *const Wrapped,
    keys: *const Wrapped,
}

// SAFETY: the host: contexts may be made and used on any thread.
unsafe impl Send for HostPair {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for HostPair {}

impl HostPair {
    pub(crate) fn new(theirs: &Wrapped) -> Option<Self> {
        Some(Self { theirs, keys: theirs.keys()? })
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(crate) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        unsafe { &*self.theirs }.quietly(body)
    }

    /// A private key, or one that is only public.
    pub(crate) fn key(&self, raw: &[u8], is_private: bool) -> Option<HostKey> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        HostKey::new(unsafe { &*self.keys }, raw, is_private)
    }

    /// A context of the host, from `begin`, which gets the host's own context.
    pub(super) fn context<F: Contexts>(
        &self,
        begin: impl FnOnce(&F, *mut c_void) -> Option<*mut c_void>,
    ) -> Option<Host<F>> {
        // SAFETY: ours: the provider owns them, and outlives its framework.
        let wrapped = unsafe { &*self.theirs };
        // SAFETY: as above; the host made the context for us.
        unsafe { Host::new(wrapped.default_ctx(), F::of(&wrapped.functions)?, begin) }
    }
}

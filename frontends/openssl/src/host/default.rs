//! Finds the default provider among the providers that the core reports.
//!
//! The core reports providers under its own locks, where a callback may do next to nothing and make no upcall (provider-base(7)). So the
//! callbacks only keep a list of activated providers; a later call of a program finds the default provider in this list.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::core::{Core, Table, entry};
use super::guard;
use crate::abi::fns::*;
use crate::abi::{AlgorithmRow, CoreHandle};

/// The default provider, if there is one.
pub(crate) struct DefaultProvider {
    core: Core,
    active: Mutex<Active>,
    /// The provider's context, `query_operation` and `get_capabilities`; null if the default provider is absent or not found yet.
    context: AtomicPtr<c_void>,
    query: AtomicPtr<c_void>,
    capabilities: AtomicPtr<c_void>,
}

struct Active {
    all: Vec<*const CoreHandle>,
    /// The default provider, once it is found; otherwise null.
    default: *const CoreHandle,
}

impl DefaultProvider {
    pub(crate) fn new(core: Core) -> Self {
        Self {
            core,
            active: Mutex::new(Active { all: Vec::new(), default: ptr::null() }),
            context: AtomicPtr::default(),
            query: AtomicPtr::default(),
            capabilities: AtomicPtr::default(),
        }
    }

    /// Asks the core to report providers.
    ///
    /// # Safety
    ///
    /// This is not moved until [`unwatch`](Self::unwatch) has returned.
    pub(crate) unsafe fn watch(&self) -> bool {
        // SAFETY: as the caller promises; the functions only take a shared reference to it.
        unsafe { self.core.watch(created, removed, properties, ptr::from_ref(self).cast_mut().cast()) }
    }

    /// Stops the core from reporting providers.
    pub(crate) fn unwatch(&self) {
        self.core.unwatch();
    }

    /// Runs `body`, which no program asked for, and removes its errors.
    pub(crate) fn without_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        self.core.without_errors(body)
    }

    /// Returns the default provider's context; null if there is none.
    #[inline(always)]
    pub(crate) fn context(&self) -> *mut c_void {
        self.load_or_find(&self.context)
    }

    /// Returns the default provider's table of an operation, terminated or null. Returns `None` if there is no default provider.
    pub(crate) fn algorithms(&self, operation: c_int) -> Option<*const AlgorithmRow> {
        let query = self.query()?;
        let mut no_cache = 0;
        // SAFETY: the host: its own context.
        Some(unsafe { query(self.context(), operation, &raw mut no_cache) })
    }

    pub(crate) fn query(&self) -> Option<QueryOperation> {
        let query = self.load_or_find(&self.query);
        // SAFETY: the host: the pointer is its `query_operation`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<QueryOperation>>(query) }
    }

    pub(crate) fn capabilities(&self) -> Option<GetCapabilities> {
        let capabilities = self.load_or_find(&self.capabilities);
        // SAFETY: the host: the pointer is its `get_capabilities`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<GetCapabilities>>(capabilities) }
    }

    #[inline(always)]
    fn load_or_find(&self, slot: &AtomicPtr<c_void>) -> *mut c_void {
        let pointer = slot.load(Ordering::Acquire);
        if pointer.is_null() { self.find(slot) } else { pointer }
    }

    /// Looks for the default provider, unless it was found before. Returns the pointer in `slot`.
    #[cold]
    fn find(&self, slot: &AtomicPtr<c_void>) -> *mut c_void {
        // While the lock is held, no provider in the list goes away, because it must be taken off the list first.
        let mut active = self.active();
        if active.default.is_null() {
            // SAFETY: the providers in the list are activated.
            let default =
                |provider: &*const CoreHandle| Some((*provider, unsafe { self.core.default_provider(*provider) }?));
            if let Some((provider, (context, table))) = active.all.iter().find_map(default) {
                // SAFETY: the host: the table of a provider.
                let table = unsafe { Table::new(table) };
                let query = entry!(table, OSSL_FUNC_PROVIDER_QUERY_OPERATION, QueryOperation);
                let capabilities = entry!(table, OSSL_FUNC_PROVIDER_GET_CAPABILITIES, GetCapabilities);
                active.default = provider;
                self.context.store(context, Ordering::Release);
                let capabilities = capabilities.map_or(ptr::null_mut(), |capabilities| capabilities as *mut c_void);
                self.capabilities.store(capabilities, Ordering::Release);
                self.query.store(query.map_or(ptr::null_mut(), |query| query as *mut c_void), Ordering::Release);
            }
        }
        slot.load(Ordering::Acquire)
    }

    fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called when a provider was activated.
unsafe extern "C" fn created(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    guard(1, || {
        // SAFETY: `this` is the pointer from `watch`, and `unwatch` has not returned.
        let mut active = unsafe { &*this.cast::<DefaultProvider>() }.active();
        if !active.all.contains(&provider) {
            active.all.push(provider);
        }
        1
    })
}

/// Called when a provider is about to go away.
unsafe extern "C" fn removed(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    guard(1, || {
        // SAFETY: `this` is the pointer from `watch`, and `unwatch` has not returned.
        let this = unsafe { &*this.cast::<DefaultProvider>() };
        let mut active = this.active();
        active.all.retain(|other| *other != provider);
        if active.default == provider {
            active.default = ptr::null();
            for pointer in [&this.query, &this.capabilities, &this.context] {
                pointer.store(ptr::null_mut(), Ordering::Release);
            }
        }
        1
    })
}

/// Called when the library context's default properties change; ignored.
unsafe extern "C" fn properties(_: *const c_char, _: *mut c_void) -> c_int {
    1
}

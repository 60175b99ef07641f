//! Finds the default provider among the providers that the core reports.
//!
//! The core reports providers under its own locks, where a callback may do next to nothing and make no upcall (provider-base(7)). So the
//! callbacks only keep a list of activated providers; a later call of a program finds the default provider in this list.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::catch_panic;
use super::core::{Core, DispatchTable, entry};
use crate::abi::fns::*;
use crate::abi::{AlgorithmRow, CoreHandle};

/// The default provider, if there is one.
pub(crate) struct DefaultProvider {
    core: Core,
    active: Mutex<ActiveProviders>,
    /// The provider's context, `query_operation` and `get_capabilities`; null if the default provider is absent or not found yet.
    provctx: AtomicPtr<c_void>,
    query_operation: AtomicPtr<c_void>,
    get_capabilities: AtomicPtr<c_void>,
}

struct ActiveProviders {
    all: Vec<*const CoreHandle>,
    /// The default provider, once it is found; otherwise null.
    default: *const CoreHandle,
}

impl DefaultProvider {
    pub(crate) fn new(core: Core) -> Self {
        Self {
            core,
            active: Mutex::new(ActiveProviders { all: Vec::new(), default: ptr::null() }),
            provctx: AtomicPtr::default(),
            query_operation: AtomicPtr::default(),
            get_capabilities: AtomicPtr::default(),
        }
    }

    /// Asks the core to report providers.
    ///
    /// # Safety
    ///
    /// This is not moved until [`unwatch_providers`](Self::unwatch_providers) has returned.
    pub(crate) unsafe fn watch_providers(&self) -> bool {
        // SAFETY: as the caller promises; the functions only take a shared reference to it.
        unsafe {
            self.core.register_child_callbacks(
                provider_created,
                provider_removed,
                properties_changed,
                ptr::from_ref(self).cast_mut().cast(),
            )
        }
    }

    /// Stops the core from reporting providers.
    pub(crate) fn unwatch_providers(&self) {
        self.core.deregister_child_callbacks();
    }

    /// Runs `body`, which no program asked for, and removes its errors.
    pub(crate) fn discarding_errors<T>(&self, body: impl FnOnce() -> T) -> T {
        self.core.discarding_errors(body)
    }

    /// Returns the default provider's context; null if there is none.
    #[inline(always)]
    pub(crate) fn provctx(&self) -> *mut c_void {
        self.load_or_find(&self.provctx)
    }

    /// Returns the default provider's algorithms for an operation: a terminated table, or null. Returns `None` if there is no
    /// default provider.
    pub(crate) fn algorithms(&self, operation: c_int) -> Option<*const AlgorithmRow> {
        let query = self.query_operation()?;
        let mut no_cache = 0;
        // SAFETY: the default provider: its own context.
        Some(unsafe { query(self.provctx(), operation, &raw mut no_cache) })
    }

    pub(crate) fn query_operation(&self) -> Option<QueryOperation> {
        let query = self.load_or_find(&self.query_operation);
        // SAFETY: the default provider: the pointer is its `query_operation`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<QueryOperation>>(query) }
    }

    pub(crate) fn get_capabilities(&self) -> Option<GetCapabilities> {
        let get = self.load_or_find(&self.get_capabilities);
        // SAFETY: the default provider: the pointer is its `get_capabilities`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<GetCapabilities>>(get) }
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
            let as_default =
                |provider: &*const CoreHandle| Some((*provider, unsafe { self.core.as_default_provider(*provider) }?));
            if let Some((provider, (context, table))) = active.all.iter().find_map(as_default) {
                // SAFETY: the default provider: the table of a provider.
                let table = unsafe { DispatchTable::new(table) };
                let query = entry!(table, OSSL_FUNC_PROVIDER_QUERY_OPERATION, QueryOperation);
                let capabilities = entry!(table, OSSL_FUNC_PROVIDER_GET_CAPABILITIES, GetCapabilities);
                active.default = provider;
                self.provctx.store(context, Ordering::Release);
                let capabilities = capabilities.map_or(ptr::null_mut(), |capabilities| capabilities as *mut c_void);
                self.get_capabilities.store(capabilities, Ordering::Release);
                self.query_operation
                    .store(query.map_or(ptr::null_mut(), |query| query as *mut c_void), Ordering::Release);
            }
        }
        slot.load(Ordering::Acquire)
    }

    fn active(&self) -> MutexGuard<'_, ActiveProviders> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Called when a provider was activated.
unsafe extern "C" fn provider_created(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    catch_panic(1, || {
        // SAFETY: `this` is the pointer from `watch_providers`, and `unwatch_providers` has not returned.
        let mut active = unsafe { &*this.cast::<DefaultProvider>() }.active();
        if !active.all.contains(&provider) {
            active.all.push(provider);
        }
        1
    })
}

/// Called when a provider is about to go away.
unsafe extern "C" fn provider_removed(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    catch_panic(1, || {
        // SAFETY: `this` is the pointer from `watch_providers`, and `unwatch_providers` has not returned.
        let this = unsafe { &*this.cast::<DefaultProvider>() };
        let mut active = this.active();
        active.all.retain(|other| *other != provider);
        if active.default == provider {
            active.default = ptr::null();
            for pointer in [&this.query_operation, &this.get_capabilities, &this.provctx] {
                pointer.store(ptr::null_mut(), Ordering::Release);
            }
        }
        1
    })
}

/// Called when the library context's default properties change; ignored.
unsafe extern "C" fn properties_changed(_: *const c_char, _: *mut c_void) -> c_int {
    1
}

//! The default provider, found among those that the core tells of.
//!
//! The core tells of providers under locks of its own, where a callback may do next to nothing, and no upcall (provider-base(7)). So the
//! callbacks keep the list of the providers that are activated, and a call of a program finds out which of them is the default one.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::core::{Core, Table, entry};
use super::guard;
use crate::abi::fns::*;
use crate::abi::{AlgorithmRow, CoreHandle};

/// The default provider, as far as there is one.
pub(super) struct DefaultProvider {
    core: Core,
    active: Mutex<Active>,
    /// Its context, its `query_operation` and `get_capabilities`; null while there is none, or nobody has looked for it.
    context: AtomicPtr<c_void>,
    query: AtomicPtr<c_void>,
    capabilities: AtomicPtr<c_void>,
}

/// The providers that are activated.
struct Active {
    all: Vec<*const CoreHandle>,
    /// The default one, once it was found; otherwise null.
    default: *const CoreHandle,
}

impl DefaultProvider {
    pub(super) fn new(core: Core) -> Self {
        Self {
            core,
            active: Mutex::new(Active { all: Vec::new(), default: ptr::null() }),
            context: AtomicPtr::default(),
            query: AtomicPtr::default(),
            capabilities: AtomicPtr::default(),
        }
    }

    /// Asks the core to be told of providers.
    ///
    /// # Safety
    ///
    /// This stays where it is until [`unwatch`](Self::unwatch) has returned.
    pub(super) unsafe fn watch(&self) -> bool {
        // SAFETY: as the caller promises; the functions take nothing but a shared reference to it.
        unsafe { self.core.watch(created, removed, properties, ptr::from_ref(self).cast_mut().cast()) }
    }

    /// The core tells of no provider any more.
    pub(super) fn unwatch(&self) {
        self.core.unwatch();
    }

    /// Its context; null while there is none.
    #[inline(always)]
    pub(super) fn context(&self) -> *mut c_void {
        self.known_or_found(&self.context)
    }

    /// Its table of an operation: one with its end, or null. `None` while there is no such provider.
    pub(super) fn algorithms(&self, operation: c_int) -> Option<*const AlgorithmRow> {
        let query = self.query()?;
        let mut no_cache = 0;
        // SAFETY: the host: its own context.
        Some(unsafe { query(self.context(), operation, &raw mut no_cache) })
    }

    /// Its `query_operation`.
    pub(super) fn query(&self) -> Option<QueryOperation> {
        let query = self.known_or_found(&self.query);
        // SAFETY: the host: what was stored is its `query_operation`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<QueryOperation>>(query) }
    }

    /// Its `get_capabilities`.
    pub(super) fn capabilities(&self) -> Option<GetCapabilities> {
        let capabilities = self.known_or_found(&self.capabilities);
        // SAFETY: the host: what was stored is its `get_capabilities`, and null is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<GetCapabilities>>(capabilities) }
    }

    #[inline(always)]
    fn known_or_found(&self, what: &AtomicPtr<c_void>) -> *mut c_void {
        let known = what.load(Ordering::Acquire);
        if known.is_null() { self.look(what) } else { known }
    }

    /// Looks for the default provider, unless it is known; then what is known of it.
    #[cold]
    fn look(&self, what: &AtomicPtr<c_void>) -> *mut c_void {
        // While this is held, no provider of the list goes away: whoever lets one go has to take it off the list.
        let mut active = self.active();
        if active.default.is_null() {
            // SAFETY: activated, as the list says.
            let ask =
                |provider: &*const CoreHandle| Some((*provider, unsafe { self.core.default_provider(*provider) }?));
            if let Some((provider, (context, table))) = active.all.iter().find_map(ask) {
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
        what.load(Ordering::Acquire)
    }

    fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A provider was activated.
unsafe extern "C" fn created(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    guard(1, || {
        // SAFETY: what `watch` gave out, and `unwatch` has not returned.
        let mut active = unsafe { &*this.cast::<DefaultProvider>() }.active();
        if !active.all.contains(&provider) {
            active.all.push(provider);
        }
        1
    })
}

/// A provider is going away.
unsafe extern "C" fn removed(provider: *const CoreHandle, this: *mut c_void) -> c_int {
    guard(1, || {
        // SAFETY: what `watch` gave out, and `unwatch` has not returned.
        let this = unsafe { &*this.cast::<DefaultProvider>() };
        let mut active = this.active();
        active.all.retain(|other| *other != provider);
        if active.default == provider {
            active.default = ptr::null();
            for known in [&this.query, &this.capabilities, &this.context] {
                known.store(ptr::null_mut(), Ordering::Release);
            }
        }
        1
    })
}

/// The library context has other default properties.
unsafe extern "C" fn properties(_: *const c_char, _: *mut c_void) -> c_int {
    1
}

//! The provider, one for each library context that loads the module, and the algorithms that it serves. The `unsafe` code
//! relies on the promises that [`libcrypto`](crate::libcrypto) defines.

#![allow(unsafe_code)]

mod group_backends;
mod wrapped_algorithm;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use gantry_core::Algorithm;
use gantry_core::route::SizeSet;
use gantry_core::stats::Tally;
use group_backends::GroupBackends;

use crate::abi::{self, AlgorithmRow};
use crate::config::Settings;
use crate::counters::{self, Tallies};
use crate::driver::{DefaultProviderAlgorithm, DefaultProviderDriver};
use crate::framework::{Framework, FrameworkState};
use crate::libcrypto::core::{Core, DispatchTable, find_algorithm};
use crate::libcrypto::default::DefaultProvider;
use crate::libcrypto::functions::{Functions, SERVED_OPERATIONS};
use crate::startup::Startup;
use crate::table::{CIPHERS, KDFS, KEMS, KEY_PAIR_ALGORITHMS, KEY_TYPES, Mode, Row};
pub(crate) use wrapped_algorithm::WrappedAlgorithm;

/// The core's `provctx`.
pub(crate) struct Provider {
    core: Core,
    pub(crate) settings: Settings,
    pub(crate) version: (u32, u32),
    pub(crate) default_provider: DefaultProvider,
    /// The served algorithms of each operation, in the order of [`SERVED_OPERATIONS`].
    served: [OnceLock<ServedAlgorithms>; SERVED_OPERATIONS.len()],
    /// The framework. Null until the first request that may need it.
    state: AtomicPtr<FrameworkState>,
    /// Counts the requests that the default provider serves. Other processes read this counter.
    default_provider_tally: Option<Tally>,
    /// Counts keys derived in lanes, which no framework counts.
    lane_tally: Option<Tally>,
    /// Counts agreements in TLS groups, which no framework counts.
    group_tally: Option<Tally>,
    group_backends: GroupBackends,
    startup: Startup,
    /// The rows of keys and of key encapsulation, if we serve TLS groups. The core keeps pointers into these rows.
    pub(crate) group_rows: [OnceLock<Box<[AlgorithmRow]>>; 2],
}

/// The served algorithms of an operation. The core keeps pointers into this as long as the provider lives.
pub(crate) struct ServedAlgorithms {
    /// The algorithms, by the index of their row in our own table.
    pub(crate) wrapped: Box<[Option<Box<WrappedAlgorithm>>]>,
    /// The rows for the core. Empty until the core asks for them.
    pub(crate) rows: OnceLock<Box<[AlgorithmRow]>>,
}

// SAFETY: everything is written once, before it is shared or under a lock. The strings behind the pointers belong to the default provider
// and stay valid.
unsafe impl Send for ServedAlgorithms {}
// SAFETY: as above.
unsafe impl Sync for ServedAlgorithms {}

/// Returns the implementation of an algorithm for the device that represents the default provider.
fn default_provider_algorithm(wrapped: &WrappedAlgorithm) -> Option<(Algorithm, DefaultProviderAlgorithm)> {
    let mode = wrapped.row.mode;
    let implementation = match mode {
        Mode::Aead(_) | Mode::Xts | Mode::Chain(_) => DefaultProviderAlgorithm::Cipher(mode, wrapped.default_cipher()?),
        Mode::Signature | Mode::Exchange => DefaultProviderAlgorithm::KeyPair(wrapped.default_key_algorithm()?),
        // SLH-DSA and KEMs are not routed by speed.
        Mode::Kdf(_) | Mode::SlhDsa | Mode::Kem | Mode::KeyType => return None,
    };
    Some((wrapped.algorithm()?, implementation))
}

impl Provider {
    pub(crate) fn new(core: Core, settings: Settings, startup: Startup, tallies: Option<Tallies>) -> Self {
        let (default_provider_tally, lane_tally, group_tally) = tallies.map_or((None, None, None), |tallies| {
            (Some(tallies.default_provider), Some(tallies.lanes), Some(tallies.groups))
        });
        Self {
            core,
            version: core.version(),
            settings,
            default_provider: DefaultProvider::new(core),
            served: Default::default(),
            state: AtomicPtr::default(),
            default_provider_tally,
            lane_tally,
            group_tally,
            group_backends: GroupBackends::default(),
            startup,
            group_rows: Default::default(),
        }
    }

    pub(crate) fn framework(&self) -> Option<&Framework> {
        match self.current_state() {
            // A failure to open is not retried in this process.
            Some(state) => state.framework.as_ref(),
            None => self.open_framework(),
        }
    }

    fn open_framework(&self) -> Option<&Framework> {
        // The default provider is a device for all operations from the start, whichever the program uses first.
        let wrapped = SERVED_OPERATIONS.into_iter().filter(|operation| *operation != abi::OSSL_OP_KEYMGMT);
        let wrapped = wrapped
            .filter_map(|operation| self.served_algorithms(operation))
            .flat_map(|served| &served.wrapped)
            .flatten();
        let default_provider = DefaultProviderDriver::new(
            wrapped.filter_map(|wrapped| default_provider_algorithm(wrapped)).collect(),
            self.version,
        );
        let new = Box::into_raw(Box::new(FrameworkState::new(&self.settings, &self.startup, &default_provider)));
        let old = self.state.load(Ordering::Acquire);
        // A state that is not current belongs to the parent. It is leaked, because its threads are not in this process.
        // SAFETY: ours: the state is not freed before the provider.
        if !old.is_null() && unsafe { (*old).is_current() } {
            // Another thread was faster, before `old` was loaded.
            // SAFETY: ours: `new` was just made, and is not shared yet.
            drop(unsafe { Box::from_raw(new) });
        } else if self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster, after `old` was loaded.
            // SAFETY: ours: `new` was just made, and is not shared yet.
            drop(unsafe { Box::from_raw(new) });
        }
        self.framework_if_open()
    }

    fn framework_if_open(&self) -> Option<&Framework> {
        self.current_state()?.framework.as_ref()
    }

    fn current_state(&self) -> Option<&FrameworkState> {
        // SAFETY: ours: the pointer is null, or its state is not freed before the provider.
        let state = unsafe { self.state.load(Ordering::Acquire).as_ref() };
        state.filter(|state| state.is_current())
    }

    /// Returns one algorithm, for functions that know only its index and the provider.
    ///
    /// # Safety
    ///
    /// The call: `provider` is the context from `OSSL_provider_init`.
    pub(crate) unsafe fn wrapped_algorithm<'p>(
        provider: *mut c_void,
        operation: usize,
        row: usize,
    ) -> Option<&'p WrappedAlgorithm> {
        // SAFETY: as the caller promises.
        let provider = unsafe { &*provider.cast::<Provider>() };
        provider.served[operation].get()?.wrapped.get(row)?.as_deref()
    }

    pub(crate) fn served_algorithms(&self, operation: c_int) -> Option<&ServedAlgorithms> {
        let rows: &'static [Row] = match operation {
            abi::OSSL_OP_CIPHER => &CIPHERS,
            abi::OSSL_OP_KDF => &KDFS,
            abi::OSSL_OP_KEYMGMT => &KEY_TYPES,
            abi::OSSL_OP_KEM => &KEMS,
            _ => &KEY_PAIR_ALGORITHMS,
        };
        let index = SERVED_OPERATIONS.iter().position(|known| *known == operation)?;
        if let Some(served) = self.served[index].get() {
            return Some(served);
        }
        if !rows.iter().any(|row| self.selects(operation, row)) {
            return None;
        }
        let default_rows = self.default_provider.algorithms(operation)?;
        Some(self.served[index].get_or_init(|| {
            let wrapped = rows.iter().map(|row| {
                let serves = self.selects(operation, row);
                // SAFETY: the default provider: its own table.
                let found = serves.then(|| unsafe { find_algorithm(default_rows, row.name) })??;
                Some(self.wrap(operation, row, found))
            });
            ServedAlgorithms { wrapped: wrapped.collect(), rows: OnceLock::new() }
        }))
    }

    /// Returns true if we serve a row for an operation.
    pub(crate) fn selects(&self, operation: c_int, row: &Row) -> bool {
        let settings = &self.settings;
        let selection = match (operation, row.mode) {
            (abi::OSSL_OP_CIPHER, _) => &settings.ciphers,
            (abi::OSSL_OP_KDF, _) => &settings.derivations,
            // All operations of a key type are served together: for an operation elsewhere, OpenSSL would first export each key.
            (abi::OSSL_OP_SIGNATURE, Mode::Signature | Mode::SlhDsa) | (abi::OSSL_OP_KEYEXCH, Mode::Exchange) => {
                return self.serves_key_type(row.key_type());
            }
            (abi::OSSL_OP_KEM, Mode::Kem) => return self.serves_kem(row),
            (abi::OSSL_OP_KEYMGMT, Mode::KeyType) => return self.serves_key_type(row),
            _ => return false,
        };
        selection.serves(row, self.version)
    }

    /// Returns true if we serve keys of a type.
    fn serves_key_type(&self, key_type: &Row) -> bool {
        let has_type = |used: &&Row| ptr::eq(used.key_type(), key_type);
        KEY_PAIR_ALGORITHMS.iter().filter(has_type).any(|used| self.may_use_device(used))
            || KEMS.iter().filter(has_type).any(|used| self.serves_kem(used))
    }

    /// Returns true if another device than the default provider may serve requests of a served row.
    fn may_use_device(&self, row: &Row) -> bool {
        match row.mode {
            Mode::Signature | Mode::SlhDsa => self.settings.signatures.serves(row, self.version),
            Mode::Exchange => self.settings.exchanges.serves(row, self.version),
            _ => true,
        }
    }

    fn wrap(&self, operation: c_int, row: &'static Row, default_row: AlgorithmRow) -> Box<WrappedAlgorithm> {
        // SAFETY: the default provider: the dispatch table of one of its algorithms.
        let functions = Functions::new(operation, unsafe { DispatchTable::new(default_row.implementation) });
        let (counted_row, first_counter) = (counters::counted_row(row), counters::first_counter(row));
        let stays_with_default_provider =
            self.settings.counts_all && !self.settings.configuration_serves(row, self.version);
        let examines_all_calls = self.settings.force_fail && !stays_with_default_provider;
        let initial_sizes = if stays_with_default_provider { SizeSet::NONE } else { self.settings.initial_sizes() };
        Box::new(WrappedAlgorithm {
            provider: self,
            row,
            default_row,
            counted_row,
            first_counter,
            functions,
            dispatch: OnceLock::new(),
            takes_aad_after_data: OnceLock::new(),
            examines_all_calls,
            stays_with_default_provider,
            initial_sizes,
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let state = *self.state.get_mut();
        // SAFETY: ours: nothing else frees the state. If it is valid only in the parent, it is leaked.
        unsafe {
            if !state.is_null() && (*state).is_current() {
                drop(Box::from_raw(state));
            }
        }
    }
}

//! The provider, one for each library context that loads the module, and the algorithms that it serves. The `unsafe` code
//! relies on the promises that [`host`](crate::host) defines.

#![allow(unsafe_code)]

mod engines;
mod wrapped;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use engines::Engines;
use gantry_core::Algorithm;
use gantry_core::route::SizeSet;
use gantry_core::stats::Tally;

use crate::abi::{self, AlgorithmRow};
use crate::config::Settings;
use crate::counters::{self, Tallies};
use crate::driver::{HostDriver, Offer};
use crate::framework::{Framework, FrameworkState};
use crate::host::core::{Core, Table, find};
use crate::host::default::DefaultProvider;
use crate::host::functions::{Functions, KINDS};
use crate::startup::Startup;
use crate::table::{CIPHERS, KDFS, KEYS, Mode, PAIRS, Row};
pub(crate) use wrapped::Wrapped;

/// The core's `provctx`.
pub(crate) struct Provider {
    core: Core,
    pub(crate) settings: Settings,
    pub(crate) version: (u32, u32),
    pub(crate) default: DefaultProvider,
    /// The served algorithms of each operation, in the order of [`KINDS`].
    served: [OnceLock<ServedAlgorithms>; KINDS.len()],
    /// The framework. Null until the first request that may need it.
    state: AtomicPtr<FrameworkState>,
    /// Counts the requests that the host serves. Other processes read this counter.
    host_tally: Option<Tally>,
    /// Counts keys derived in lanes, which no framework counts.
    lane_tally: Option<Tally>,
    /// Counts agreements in TLS groups, which no framework counts.
    group_tally: Option<Tally>,
    engines: Engines,
    startup: Startup,
    /// The rows of keys and of key encapsulation, if we serve TLS groups. The core keeps pointers into these rows.
    pub(crate) group_rows: [OnceLock<Box<[AlgorithmRow]>>; 2],
}

/// The served algorithms of an operation. The core keeps pointers into this as long as the provider lives.
pub(crate) struct ServedAlgorithms {
    /// The algorithms, by the index of their row in our own table.
    pub(crate) wrapped: Box<[Option<Box<Wrapped>>]>,
    /// The rows for the core. Empty until the core asks for them.
    pub(crate) rows: OnceLock<Box<[AlgorithmRow]>>,
}

// SAFETY: everything is written once, before it is shared or under a lock. The strings behind the pointers belong to the host and
// stay valid.
unsafe impl Send for ServedAlgorithms {}
// SAFETY: as above.
unsafe impl Sync for ServedAlgorithms {}

/// Returns how the host computes an algorithm as a device.
fn offer(wrapped: &Wrapped) -> Option<(Algorithm, Offer)> {
    let mode = wrapped.row.mode;
    let offer = match mode {
        Mode::Aead(_) | Mode::Xts | Mode::Chain(_) => Offer::Cipher(mode, wrapped.host_algorithm()?),
        Mode::Signature | Mode::Exchange => Offer::Pair(wrapped.host_pair()?),
        // SLH-DSA is not routed by speed.
        Mode::Kdf(_) | Mode::SlhDsa | Mode::Keys => return None,
    };
    Some((wrapped.algorithm()?, offer))
}

impl Provider {
    pub(crate) fn new(core: Core, settings: Settings, startup: Startup, tallies: Option<Tallies>) -> Self {
        let (host_tally, lane_tally, group_tally) = tallies
            .map_or((None, None, None), |tallies| (Some(tallies.host), Some(tallies.lanes), Some(tallies.groups)));
        Self {
            core,
            version: core.version(),
            settings,
            default: DefaultProvider::new(core),
            served: Default::default(),
            state: AtomicPtr::default(),
            host_tally,
            lane_tally,
            group_tally,
            engines: Engines::default(),
            startup,
            group_rows: Default::default(),
        }
    }

    pub(crate) fn framework(&self) -> Option<&Framework> {
        match self.current_state() {
            // A failure to open is not retried in this process.
            Some(state) => state.framework.as_ref(),
            None => self.open(),
        }
    }

    fn open(&self) -> Option<&Framework> {
        // The host is a device for all operations from the start, whichever the program uses first.
        let wrapped = KINDS.into_iter().filter(|operation| *operation != abi::OSSL_OP_KEYMGMT);
        let wrapped = wrapped
            .filter_map(|operation| self.served_algorithms(operation))
            .flat_map(|served| &served.wrapped)
            .flatten();
        let host = HostDriver::new(wrapped.filter_map(|wrapped| offer(wrapped)).collect(), self.version);
        let new = Box::into_raw(Box::new(FrameworkState::new(&self.settings, &self.startup, &host)));
        let old = self.state.load(Ordering::Acquire);
        // An older state belongs to another process. The state is leaked, because its threads are not in this process.
        // SAFETY: ours.
        if !old.is_null() && unsafe { (*old).is_current() } {
            // SAFETY: ours: `new` was just made, and is not shared yet.
            drop(unsafe { Box::from_raw(new) });
        } else if self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // Another thread was faster.
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
    pub(crate) unsafe fn wrapped<'p>(provider: *mut c_void, operation: usize, place: usize) -> Option<&'p Wrapped> {
        // SAFETY: as the caller promises.
        let provider = unsafe { &*provider.cast::<Provider>() };
        provider.served[operation].get()?.wrapped.get(place)?.as_deref()
    }

    pub(crate) fn served_algorithms(&self, operation: c_int) -> Option<&ServedAlgorithms> {
        let rows: &'static [Row] = match operation {
            abi::OSSL_OP_CIPHER => &CIPHERS,
            abi::OSSL_OP_KDF => &KDFS,
            abi::OSSL_OP_KEYMGMT => &KEYS,
            _ => &PAIRS,
        };
        let kind = KINDS.iter().position(|known| *known == operation)?;
        if let Some(served) = self.served[kind].get() {
            return Some(served);
        }
        if !rows.iter().any(|row| self.selects(operation, row)) {
            return None;
        }
        let host_rows = self.default.algorithms(operation)?;
        Some(self.served[kind].get_or_init(|| {
            let wrapped = rows.iter().map(|row| {
                let serves = self.selects(operation, row);
                // SAFETY: the host: its own table.
                let found = serves.then(|| unsafe { find(host_rows, row.name) })??;
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
            // All operations of a key type are served together: for another provider, OpenSSL would first export each key to it.
            (abi::OSSL_OP_SIGNATURE, Mode::Signature | Mode::SlhDsa) | (abi::OSSL_OP_KEYEXCH, Mode::Exchange) => {
                return self.has_keys(row.keys());
            }
            (abi::OSSL_OP_KEYMGMT, Mode::Keys) => return self.has_keys(row),
            _ => return false,
        };
        selection.serves(row, self.version)
    }

    /// Returns true if we serve keys of a type.
    fn has_keys(&self, keys: &Row) -> bool {
        PAIRS.iter().any(|used| ptr::eq(used.keys(), keys) && self.may_use_device(used))
    }

    /// Returns true if another device than the host may serve requests of a served row.
    fn may_use_device(&self, row: &Row) -> bool {
        match row.mode {
            Mode::Signature | Mode::SlhDsa => self.settings.signatures.serves(row, self.version),
            Mode::Exchange => self.settings.exchanges.serves(row, self.version),
            _ => true,
        }
    }

    fn wrap(&self, operation: c_int, row: &'static Row, host_row: AlgorithmRow) -> Box<Wrapped> {
        // SAFETY: the host: the dispatch table of one of its algorithms.
        let functions = Functions::new(operation, unsafe { Table::new(host_row.implementation) });
        let (place, counter) = (counters::place(row), counters::first_counter(row));
        let only_counted = self.settings.counts_all && !self.settings.serves_regularly(row, self.version);
        let is_watched = self.settings.force_fail && !only_counted;
        let initial_sizes = if only_counted { SizeSet::NONE } else { self.settings.initial_sizes() };
        Box::new(Wrapped {
            provider: self,
            row,
            host_row,
            place,
            counter,
            functions,
            dispatch: OnceLock::new(),
            takes_aad_after_data: OnceLock::new(),
            is_watched,
            only_counted,
            initial_sizes,
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let state = *self.state.get_mut();
        // SAFETY: ours, if it was made in this process; a parent's is leaked.
        unsafe {
            if !state.is_null() && (*state).is_current() {
                drop(Box::from_raw(state));
            }
        }
    }
}

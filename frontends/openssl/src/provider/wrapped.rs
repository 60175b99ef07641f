//! Algorithms of the default provider. OpenSSL calls each through a function table of ours.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, Operation};

use super::Provider;
use crate::abi::{self, AlgorithmRow, Dispatch};
use crate::counters;
use crate::derivations::LaneUse;
use crate::framework::{Framework, Side};
use crate::host::functions::Functions;
use crate::host::{HostAlgorithm, HostKdf, HostPair, stack};
use crate::table::{Kdf, Mode, Row};

/// An algorithm of the default provider, which OpenSSL calls through our function table.
pub(crate) struct Wrapped {
    pub(super) provider: *const Provider,
    pub(crate) row: &'static Row,
    /// The row's index among the counted rows; `None` for keys.
    pub(super) place: Option<usize>,
    /// The index of the row's first host counter. The row has one such counter for each operation, and they follow each other.
    pub(super) counter: usize,
    /// The host's row.
    pub(crate) host_row: AlgorithmRow,
    pub(crate) functions: Functions,
    /// The dispatch table. Empty until the core asks for it.
    pub(crate) dispatch: OnceLock<Vec<Dispatch>>,
    /// True if the host takes associated data after data. Empty until a message has such data.
    pub(super) takes_aad_after_data: OnceLock<bool>,
    /// True if every call is examined.
    pub(super) is_watched: bool,
    /// True if the algorithm is served only to be counted: the configuration leaves it to the host.
    pub(super) only_counted: bool,
    /// The sizes of requests that another device than the host may serve, until measurements are known.
    pub(super) initial_sizes: SizeSet,
}

impl Wrapped {
    fn provider(&self) -> &Provider {
        // SAFETY: ours: the provider owns this, and is not moved.
        unsafe { &*self.provider }
    }

    pub(crate) fn row(&self) -> &'static Row {
        self.row
    }

    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.row.algorithm
    }

    /// Returns the host's release.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.provider().version
    }

    /// Returns the default provider's context, for its `newctx`.
    pub(crate) fn default_ctx(&self) -> *mut c_void {
        self.provider().default.context()
    }

    /// Returns the host's cipher, for the device that represents the host.
    pub(super) fn host_algorithm(&self) -> Option<HostAlgorithm> {
        HostAlgorithm::new(&self.provider().default, &self.functions)
    }

    /// Returns true if the host's cipher takes associated data after data. This differs even between patch releases, so the host is asked.
    pub(crate) fn takes_aad_after_data(&self) -> bool {
        let ask = |host: HostAlgorithm| {
            let taken = || {
                let mut context = host.context()?;
                let is_begun =
                    context.init(true, Some(&[0; 32]), Some(&[0; 12])) && context.update((&mut [0][..]).into());
                Some(is_begun && context.update_aad(&[0]))
            };
            host.without_errors(taken).unwrap_or(false)
        };
        *self.takes_aad_after_data.get_or_init(|| self.host_algorithm().is_some_and(ask))
    }

    /// Returns the host's operation with its key type, for the device that represents the host.
    pub(super) fn host_pair(&self) -> Option<HostPair> {
        HostPair::new(&self.provider().default, &self.keys()?.functions, &self.functions)
    }

    /// Returns the host's PBKDF2, for measurements; `None` for another algorithm.
    pub(crate) fn host_pbkdf2(&self) -> Option<HostKdf<'_>> {
        let is_pbkdf2 = self.row.mode == Mode::Kdf(Kdf::Pbkdf2);
        if is_pbkdf2 { HostKdf::new(&self.provider().default, &self.functions) } else { None }
    }

    /// Returns the key type of a signature or key exchange.
    fn keys(&self) -> Option<&Wrapped> {
        let served = self.provider().served_algorithms(abi::OSSL_OP_KEYMGMT)?;
        served.wrapped.iter().flatten().find(|keys| ptr::eq(keys.row, self.row.keys())).map(|keys| &**keys)
    }

    /// Returns the framework, opened if necessary. Returns `None` if all requests of this algorithm stay with the host, or if the
    /// stack has no room for a device.
    pub(crate) fn framework(&self) -> Option<&Framework> {
        if self.only_counted || !stack::has_room() { None } else { self.provider().framework() }
    }

    pub(crate) fn framework_if_open(&self) -> Option<&Framework> {
        if self.only_counted { None } else { self.provider().framework_if_open() }
    }

    /// Returns the sizes of requests that another device than the host may serve, until measurements are known.
    pub(crate) fn initial_sizes(&self) -> SizeSet {
        self.initial_sizes
    }

    /// Returns true if each call must be examined, because the configuration makes it fail.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Returns true if another device may serve requests of this algorithm. Returns false if the key type is served only for another
    /// operation of the same keys.
    pub(crate) fn may_use_device(&self) -> bool {
        self.provider().may_use_device(self.row)
    }

    /// Returns true if the configuration makes operations fail. Then also puts an error on the stack.
    pub(crate) fn is_forced_to_fail(&self) -> bool {
        let provider = self.provider();
        let is_forced = provider.settings.force_fail && self.may_use_device() && !self.only_counted;
        if is_forced {
            let sentence = format!("gantry: made to fail by FORCE_FAIL:{}", self.row.name);
            provider.core.raise(abi::ERR_R_OPERATION_FAIL, &sentence);
        }
        is_forced
    }

    /// Puts one of the reasons `PROV_R_*` on the stack, as the host would.
    pub(crate) fn raise(&self, reason: c_int) {
        self.provider().core.raise_as_host(reason);
    }

    pub(crate) fn count(&self, operation: Operation, side: Side, bytes: usize) {
        // The framework counts the requests of devices.
        if side == Side::Host {
            self.count_host_requests(operation.index(), 1, bytes);
        }
    }

    /// Counts a key of `bytes` bytes that was derived in lanes.
    pub(crate) fn count_derivation(&self, lane_use: LaneUse, bytes: usize) {
        if let Some(tally) = &self.provider().lane_tally {
            tally.count(counters::derivation(self.row, lane_use), 1, bytes as u64);
        }
    }

    /// Counts requests of an operation, given by its [index](Operation::index), that went to the host.
    pub(crate) fn count_host_requests(&self, operation: usize, requests: usize, bytes: usize) {
        if let (Some(tally), Some(_)) = (&self.provider().host_tally, self.place) {
            tally.count(self.counter + operation, requests as u64, bytes as u64);
        }
    }
}

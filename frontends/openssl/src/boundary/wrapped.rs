//! Algorithms of the default provider, each with ours in front of it.

use std::ffi::c_void;
use std::ptr;

use gantry_core::route::SizeSet;
use gantry_core::{Algorithm, Operation};

use super::functions::Functions;
use super::host_cipher::HostAlgorithm;
use super::provider::Provider;
use super::stack;
use crate::abi::{self, Dispatch};
use crate::derivations::Derived;
use crate::framework::{Framework, Side};
use crate::report;
use crate::table::Row;

/// An algorithm of the default provider, and ours in front of it.
pub(crate) struct Wrapped {
    pub(super) provider: *const Provider,
    pub(super) row: &'static Row,
    /// The row's place among those that are counted. Keys are not.
    pub(super) place: Option<usize>,
    /// Its first counter among those of the operations that the host served.
    pub(super) counter: usize,
    pub(super) functions: Functions,
    pub(super) dispatch: Vec<Dispatch>,
    /// Each call is looked at.
    pub(super) watched: bool,
    /// It comes by here only to be counted: the configuration leaves it to the host.
    pub(super) only_counted: bool,
    /// The sizes of requests that may be led elsewhere, as long as nothing else is known.
    pub(super) asked: SizeSet,
}

impl Wrapped {
    fn provider(&self) -> &Provider {
        // SAFETY: ours: the provider owns this, and stays where it is.
        unsafe { &*self.provider }
    }

    pub(crate) fn row(&self) -> &'static Row {
        self.row
    }

    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.row.algorithm
    }

    /// The host's release.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.provider().version
    }

    /// The default provider's context, for its `newctx`.
    pub(super) fn default_ctx(&self) -> *mut c_void {
        self.provider().default_ctx()
    }

    /// The host's own, for the device that it is.
    pub(crate) fn host_algorithm(&self) -> Option<HostAlgorithm> {
        HostAlgorithm::new(self)
    }

    /// What serves the keys of a signature or key exchange.
    pub(super) fn keys(&self) -> Option<&Wrapped> {
        let served = self.provider().serves(abi::OSSL_OP_KEYMGMT)?;
        served.wrapped.iter().flatten().find(|keys| ptr::eq(keys.row, self.row.keys())).map(|keys| &**keys)
    }

    /// The framework, opened if it was not. `None` also where nothing of this is to be led elsewhere, and on a stack that has no
    /// room for a device.
    pub(crate) fn framework(&self) -> Option<&Framework> {
        if self.only_counted || !stack::has_room() { None } else { self.provider().framework() }
    }

    /// The framework, if it is open.
    pub(crate) fn opened(&self) -> Option<&Framework> {
        if self.only_counted { None } else { self.provider().opened() }
    }

    /// The requests that may be led elsewhere, as long as nothing else is known.
    pub(crate) fn asked(&self) -> SizeSet {
        self.asked
    }

    /// Whether each call must be looked at: it is made to fail.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.watched
    }

    /// Whether requests may be led elsewhere: they may not where only the keys are served, for something else that is done with
    /// them.
    pub(crate) fn leads(&self) -> bool {
        self.provider().leads(self.row)
    }

    /// Whether operations are made to fail; if so, it is on the error stack.
    pub(super) fn fails(&self) -> bool {
        let provider = self.provider();
        let fails = provider.settings.force_fail && self.leads() && !self.only_counted;
        if fails {
            let sentence = format!("gantry: made to fail by FORCE_FAIL:{}", self.row.name);
            provider.core.raise(abi::ERR_R_OPERATION_FAIL, &sentence);
        }
        fails
    }

    /// Runs what no program asked for, and leaves no errors of it.
    pub(super) fn quietly<T>(&self, body: impl FnOnce() -> T) -> T {
        self.provider().core.quietly(body)
    }

    /// A request was served by one side or the other.
    pub(crate) fn count(&self, operation: Operation, side: Side, bytes: usize) {
        // What devices do their framework counts.
        if side == Side::Host {
            self.hosts(operation.index(), 1, bytes);
        }
    }

    /// A key of so many bytes was derived in lanes.
    pub(super) fn derived(&self, derived: Derived, bytes: usize) {
        if let Some(tally) = &self.provider().derived {
            tally.count(report::derivation(self.row, derived), 1, bytes as u64);
        }
    }

    /// So many requests of an operation, named by its [index](Operation::index), went to the host.
    pub(super) fn hosts(&self, operation: usize, requests: usize, bytes: usize) {
        if let (Some(tally), Some(_)) = (&self.provider().tally, self.place) {
            tally.count(self.counter + operation, requests as u64, bytes as u64);
        }
    }
}

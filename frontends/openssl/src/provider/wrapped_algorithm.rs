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
use crate::libcrypto::functions::Functions;
use crate::libcrypto::{DefaultProviderCipher, DefaultProviderKdf, DefaultProviderKeyAlgorithm, stack};
use crate::table::{Kdf, Mode, Row};

/// An algorithm of the default provider, which OpenSSL calls through our function table.
pub(crate) struct WrappedAlgorithm {
    pub(super) provider: *const Provider,
    pub(crate) row: &'static Row,
    /// The row's index among the counted rows; `None` for a key type.
    pub(super) counted_row: Option<usize>,
    /// The index of the row's first counter of the default provider's requests. The row has one such counter for each operation, and they
    /// follow each other.
    pub(super) first_counter: usize,
    /// The default provider's row.
    pub(crate) default_row: AlgorithmRow,
    pub(crate) functions: Functions,
    /// The dispatch table. Empty until the core asks for it.
    pub(crate) dispatch: OnceLock<Vec<Dispatch>>,
    /// True if the default provider takes associated data after data. Empty until a message has such data.
    pub(super) takes_aad_after_data: OnceLock<bool>,
    /// True if every call is examined, because the configuration makes calls fail.
    pub(super) examines_all_calls: bool,
    /// True if the configuration leaves the algorithm to the default provider. The algorithm is then served only to be counted.
    pub(super) stays_with_default_provider: bool,
    /// The sizes of requests that another device than the default provider may serve, until measurements are known.
    pub(super) initial_sizes: SizeSet,
}

impl WrappedAlgorithm {
    pub(crate) fn provider(&self) -> &Provider {
        // SAFETY: ours: the provider owns this, and is not moved.
        unsafe { &*self.provider }
    }

    pub(crate) fn row(&self) -> &'static Row {
        self.row
    }

    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.row.algorithm
    }

    /// Returns OpenSSL's release.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.provider().version
    }

    /// Returns the default provider's provider context, for its `newctx`.
    pub(crate) fn default_provctx(&self) -> *mut c_void {
        self.provider().default_provider.provctx()
    }

    /// Returns the default provider's cipher, for the device that represents the default provider.
    pub(super) fn default_cipher(&self) -> Option<DefaultProviderCipher> {
        DefaultProviderCipher::new(&self.provider().default_provider, &self.functions)
    }

    /// Returns true if the default provider's cipher takes associated data after data. Even patch releases differ, so the first
    /// call tries it.
    pub(crate) fn takes_aad_after_data(&self) -> bool {
        let ask = |cipher: DefaultProviderCipher| {
            let taken = || {
                let mut context = cipher.new_context()?;
                let has_begun =
                    context.init(true, Some(&[0; 32]), Some(&[0; 12])) && context.update((&mut [0][..]).into());
                Some(has_begun && context.update_aad(&[0]))
            };
            cipher.discarding_errors(taken).unwrap_or(false)
        };
        *self.takes_aad_after_data.get_or_init(|| self.default_cipher().is_some_and(ask))
    }

    /// Returns the default provider's operation with its key type, for the device that represents the default provider.
    pub(super) fn default_key_algorithm(&self) -> Option<DefaultProviderKeyAlgorithm> {
        DefaultProviderKeyAlgorithm::new(
            &self.provider().default_provider,
            &self.key_type()?.functions,
            &self.functions,
        )
    }

    /// Returns the default provider's PBKDF2, for measurements; `None` for another algorithm.
    pub(crate) fn default_pbkdf2(&self) -> Option<DefaultProviderKdf<'_>> {
        let is_pbkdf2 = self.row.mode == Mode::Kdf(Kdf::Pbkdf2);
        if is_pbkdf2 { DefaultProviderKdf::new(&self.provider().default_provider, &self.functions) } else { None }
    }

    /// Returns the key type of a signature or key exchange.
    fn key_type(&self) -> Option<&WrappedAlgorithm> {
        let served = self.provider().served_algorithms(abi::OSSL_OP_KEYMGMT)?;
        served
            .wrapped
            .iter()
            .flatten()
            .find(|key_type| ptr::eq(key_type.row, self.row.key_type()))
            .map(|key_type| &**key_type)
    }

    /// Returns the framework, opened if necessary. Returns `None` if all requests of this algorithm stay with the default provider, or if
    /// the current call stack has no room for a device.
    pub(crate) fn framework(&self) -> Option<&Framework> {
        if self.stays_with_default_provider || !stack::has_room() { None } else { self.provider().framework() }
    }

    pub(crate) fn framework_if_open(&self) -> Option<&Framework> {
        if self.stays_with_default_provider { None } else { self.provider().framework_if_open() }
    }

    /// Returns the sizes of requests that another device than the default provider may serve, until measurements are known.
    pub(crate) fn initial_sizes(&self) -> SizeSet {
        self.initial_sizes
    }

    /// Returns true if each call must be examined, because the configuration makes it fail.
    #[inline(always)]
    pub(crate) fn examines_all_calls(&self) -> bool {
        self.examines_all_calls
    }

    /// Returns true if another device may serve requests of this algorithm. Returns false if the key type is served only for another
    /// operation of the same keys.
    pub(crate) fn may_use_device(&self) -> bool {
        self.provider().may_use_device(self.row)
    }

    /// Puts an error on OpenSSL's error stack and returns true if the configuration makes operations fail.
    pub(crate) fn raise_if_forced(&self) -> bool {
        let provider = self.provider();
        let is_forced = provider.settings.force_fail && self.may_use_device() && !self.stays_with_default_provider;
        if is_forced {
            let sentence = format!("gantry: made to fail by FORCE_FAIL:{}", self.row.name);
            provider.core.raise(abi::ERR_R_OPERATION_FAIL, &sentence);
        }
        is_forced
    }

    /// Puts an error with one of the reasons `PROV_R_*` on OpenSSL's error stack, as the default provider would.
    pub(crate) fn raise(&self, reason: c_int) {
        self.provider().core.raise_prov_error(reason);
    }

    pub(crate) fn count(&self, operation: Operation, side: Side, bytes: usize) {
        // The framework counts the requests of devices.
        if side == Side::DefaultProvider {
            self.count_default_provider_requests(operation.index(), 1, bytes);
        }
    }

    /// Counts a key of `bytes` bytes that was derived in lanes.
    pub(crate) fn count_derivation(&self, lane_use: LaneUse, bytes: usize) {
        if let Some(tally) = &self.provider().lane_tally {
            tally.count(counters::derivation_counter(self.row, lane_use), 1, bytes as u64);
        }
    }

    /// Counts requests of an operation, given by its [index](Operation::index), that went to the default provider.
    pub(crate) fn count_default_provider_requests(&self, operation: usize, requests: usize, bytes: usize) {
        if let (Some(tally), Some(_)) = (&self.provider().default_provider_tally, self.counted_row) {
            tally.count(self.first_counter + operation, requests as u64, bytes as u64);
        }
    }
}

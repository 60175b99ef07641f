//! The implementations behind TLS groups: ML-KEM of the software device, and the default provider's curves.
//!
//! There is no route to choose and no framework to open: no other device has ML-KEM. The default provider has none before OpenSSL 3.5, and
//! is slower up to 4.0. So handshakes also work behind system call filters.

use std::sync::{Arc, OnceLock};

use gantry_core::driver::{Class, Device};

use super::Provider;
use crate::abi;
use crate::groups::{Curve, GROUPS, Group, NATIVE_SINCE};
use crate::libcrypto::{CurveFns, DefaultProviderKeyAlgorithm};
use crate::table::Row;

#[derive(Default)]
pub(super) struct GroupBackends {
    software: OnceLock<Option<Arc<dyn Device>>>,
    x25519: OnceLock<Option<CurveFns>>,
    /// The default provider's functions for P-256 and P-384: both curves use the same functions.
    weierstrass: OnceLock<Option<CurveFns>>,
    /// For each [`Curve`], by its index: true if the default provider has the curve.
    curves: [OnceLock<bool>; 3],
}

impl Provider {
    /// Returns true if we serve the TLS groups that the default provider lacks.
    pub(crate) fn serves_own_groups(&self) -> bool {
        self.version < NATIVE_SINCE && self.may_serve_groups()
    }

    /// Returns true if we serve a hybrid TLS group that the default provider also has. A configuration without soft drivers leaves it there.
    pub(crate) fn serves_kem(&self, kem: &Row) -> bool {
        let is_faster = kem.faster_before.is_some_and(|release| self.version < release);
        let has_software = self.settings.soft_drivers.allows(Class::Software);
        self.version >= NATIVE_SINCE && is_faster && has_software && self.may_serve_groups()
    }

    fn may_serve_groups(&self) -> bool {
        let is_allowed = !self.settings.runtime.requires_validated()
            || self.software().is_some_and(|device| device.info().validated);
        cfg!(feature = "software") && self.settings.groups && is_allowed
    }

    /// Returns the default provider's operations on a curve.
    pub(crate) fn curve(&self, curve: Curve) -> Option<DefaultProviderKeyAlgorithm> {
        let GroupBackends { x25519, weierstrass, .. } = &self.group_backends;
        let curve_fns = if curve == Curve::X25519 { x25519 } else { weierstrass };
        curve_fns
            .get_or_init(|| CurveFns::new(&self.default_provider, curve))
            .as_ref()?
            .key_algorithm(&self.default_provider)
    }

    /// Returns true if the default provider has the curve that a group needs.
    pub(crate) fn has_curve_of(&self, group: &Group) -> bool {
        group.curve.is_none_or(|curve| {
            let ask = || self.curve(curve).is_some_and(|algorithm| algorithm.has_curve(curve));
            *self.group_backends.curves[curve as usize].get_or_init(|| self.default_provider.discarding_errors(ask))
        })
    }

    /// Returns the device with ML-KEM; `None` in builds without it.
    pub(crate) fn software(&self) -> Option<&dyn Device> {
        self.group_backends.software.get_or_init(gantry_runtime::software).as_deref()
    }

    /// Counts an agreement on a secret in a group, as a server or as a client.
    pub(crate) fn count_agreement(&self, group: &Group, is_server: bool) {
        let index = GROUPS.iter().position(|other| other.id == group.id).unwrap_or(GROUPS.len());
        if let Some(tally) = &self.group_tally {
            tally.count(2 * index + usize::from(!is_server), 1, group.secret_len() as u64);
        }
    }

    /// Puts an error on OpenSSL's error stack and returns true if the configuration makes operations fail.
    pub(crate) fn raise_if_forced(&self, group: &Group) -> bool {
        if self.settings.force_fail {
            let sentence = format!("gantry: made to fail by FORCE_FAIL:{}", group.name_str());
            self.core.raise(abi::ERR_R_OPERATION_FAIL, &sentence);
        }
        self.settings.force_fail
    }

    /// Puts an error on OpenSSL's error stack: the reason to refuse a share or a call.
    pub(crate) fn raise_refusal(&self, group: &Group, reason: &str) {
        self.core.raise(abi::ERR_R_PASSED_INVALID_ARGUMENT, &format!("gantry: {}: {reason}", group.name_str()));
    }
}

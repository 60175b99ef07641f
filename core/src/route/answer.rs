//! The answer of a policy.

use crate::stats::Reason;

/// The choice of a device, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its place in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// Number of requests, counted from the first one, that run there; at least one.
    pub requests: usize,
    /// Why.
    pub reason: Reason,
    /// The policy learns from this one: how long the device takes shall be measured.
    pub measure: bool,
}

//! The answer of a policy.

use crate::stats::Reason;

/// The choice of a device, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The index of the device in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// Number of requests, counted from the first one, that run on the device; at least one.
    pub requests: usize,
    /// The reason for the choice.
    pub reason: Reason,
    /// The time of these requests is measured, so that the policy learns from it.
    pub measure: bool,
}

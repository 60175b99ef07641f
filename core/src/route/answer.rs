//! What a policy answers.

use crate::stats::Reason;

/// The choice of a device, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its place in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// How many of the requests in hand go there, from the front; at least one.
    pub requests: usize,
    /// Why.
    pub reason: Reason,
    /// The policy learns from this one: how long the device takes shall be measured.
    pub measure: bool,
}

/// How many requests should run together, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// A request of a queue waits a short while for so many. 1 when batches do not pay.
    pub requests: usize,
    /// Nanoseconds of the calling thread that each of them saves.
    pub saving_ns: u32,
}

impl BatchSize {
    /// Every request by itself.
    pub const ONE: Self = Self { requests: 1, saving_ns: 0 };
}

//! Where requests run. A [`Policy`] is asked; it answers with a [`Route`].

mod break_even;
mod fixed;

use std::fmt;

pub use break_even::BreakEven;
pub use fixed::{Failover, Pin, RoundRobin, SizeThreshold};

use crate::driver::{Capability, DeviceInfo};
use crate::registry::RegisteredDevice;
use crate::session::Candidate;
use crate::{Algorithm, Operation, Request};

/// What a route optimises.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name in the configuration, in tables and JSON.
    fn name(&self) -> &'static str;

    /// Where the first of the requests in hand run. Called again for those that the answer leaves over, and for a
    /// request whose device failed. `None` when none of the choices will do.
    fn route(&self, ask: &Ask<'_>) -> Option<Route>;
}

/// The choice of a device, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its place in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// How many of the requests in hand go there, from the front; at least one.
    pub requests: usize,
    /// Why.
    pub reason: Reason,
}

/// Why a route leads where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No other device can.
    OnlyChoice,
    /// Enough requests are in hand for the device's break-even.
    EnoughCompany,
    /// Too few requests are in hand for any device that needs company.
    TooFew,
    /// The policy names the device.
    Pinned,
    /// First in the policy's order of those that work.
    FirstInOrder,
    /// It was the device's turn.
    Turn,
    /// Smaller than the policy's size threshold.
    BelowThreshold,
    /// At or above the policy's size threshold.
    AboveThreshold,
    /// The state of the stream lives there.
    Stream,
}

impl Reason {
    /// The reason code in tables and JSON.
    pub const fn code(self) -> &'static str {
        match self {
            Reason::OnlyChoice => "only-choice",
            Reason::EnoughCompany => "enough-company",
            Reason::TooFew => "too-few",
            Reason::Pinned => "pinned",
            Reason::FirstInOrder => "first-in-order",
            Reason::Turn => "turn",
            Reason::BelowThreshold => "below-threshold",
            Reason::AboveThreshold => "above-threshold",
            Reason::Stream => "stream",
        }
    }
}

/// The question to a policy: these requests are in hand, these devices can serve them.
pub struct Ask<'a> {
    /// Of the session.
    pub algorithm: Algorithm,
    /// The same for all requests in hand.
    pub operation: Operation,
    /// How many are in hand; at least one.
    pub requests: usize,
    pub(crate) sizes: Sizes<'a>,
    pub(crate) needs: Needs,
    pub(crate) devices: &'a [RegisteredDevice],
    pub(crate) candidates: &'a [Candidate],
    /// Bit n: candidate n has failed or declined already.
    pub(crate) tried: u64,
}

/// What the requests demand of a capability beyond algorithm and operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) in_place: bool,
    pub(crate) streaming: bool,
    pub(crate) max_bytes: usize,
}

pub(crate) enum Sizes<'a> {
    One(usize),
    Many(&'a [Request<'a>]),
}

/// A device that can serve the requests in hand.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// Its place in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// What it is.
    pub info: &'a DeviceInfo,
    /// What it offers for this algorithm.
    pub capability: &'a Capability,
}

impl Ask<'_> {
    /// Bytes of data in the `index`th request in hand.
    pub fn bytes(&self, index: usize) -> usize {
        match &self.sizes {
            Sizes::One(bytes) => *bytes,
            Sizes::Many(requests) => requests[index].body.operands.bytes(),
        }
    }

    /// The devices that can serve the requests, in the order in which they were registered: working, not tried before,
    /// and with no limit that the requests exceed.
    pub fn choices(&self) -> impl Iterator<Item = Choice<'_>> {
        let Needs { in_place, streaming, max_bytes } = self.needs;
        self.candidates.iter().enumerate().filter_map(move |(place, candidate)| {
            let device = &self.devices[candidate.device];
            let capability = &candidate.capability;
            let able = self.tried >> place & 1 == 0
                && candidate.is_open()
                && device.is_ready()
                && capability.operations.contains(&self.operation)
                && (capability.in_place || !in_place)
                && (capability.streaming || !streaming)
                && capability.max_bytes >= max_bytes;
            able.then(|| Choice { device: candidate.device, info: device.info(), capability })
        })
    }

    /// All requests in hand to this device.
    pub fn all_to(&self, choice: &Choice<'_>, reason: Reason) -> Route {
        Route { device: choice.device, requests: self.requests, reason }
    }
}

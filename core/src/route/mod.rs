//! Where requests run. A [`Policy`] is asked; it answers with a [`Route`].

mod break_even;
pub(crate) mod calibrate;
pub(crate) mod cost;
mod fixed;
pub(crate) mod learned;
pub(crate) mod ledger;

use std::fmt;

pub use break_even::BreakEven;
pub use calibrate::{CostRecord, CostStore};
pub use cost::{BYTES, Costs, Estimate, REQUESTS};
pub use fixed::{Failover, Pin, RoundRobin, SizeThreshold};
pub use learned::{Learned, PATIENCE};

use crate::coded::coded;
use crate::driver::{Capability, DeviceInfo};
use crate::job::List;
use crate::request::Shape;
use crate::session::{self, Candidate};
use crate::{Algorithm, Gantry, Operation};
use ledger::Ledgers;

/// What a route optimises.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name in the configuration, in tables and JSON.
    fn name(&self) -> &'static str;

    /// Where the first of the requests in hand run. Called again for those that the answer leaves over, and for a
    /// request whose device failed. `None` when none of the choices will do.
    fn route(&self, ask: &Ask<'_>) -> Option<Route>;

    /// The company that is worth waiting for, for a request like the one in hand, where no more than `most` can come.
    fn company(&self, ask: &Ask<'_>, most: usize) -> Company {
        let _ = (ask, most);
        Company::NONE
    }
}

/// Requests that run together, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Company {
    /// How many: one that is alone may wait for so many, for a short while. 1 when company does not pay.
    pub requests: usize,
    /// Nanoseconds of the calling thread that each of them saves. Where there are more threads than CPUs, one that could let
    /// others run until they are enough does so when this is more than that costs.
    pub saving_ns: u32,
}

impl Company {
    /// Every request by itself.
    pub const NONE: Self = Self { requests: 1, saving_ns: 0 };
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
    /// The policy learns from this one: how long the device takes shall be measured.
    pub measure: bool,
}

coded! {
    /// Why a route leads where it does.
    pub enum Reason {
        /// No other device can.
        OnlyChoice = "only-choice";
        /// Enough requests are in hand for the device's break-even.
        EnoughCompany = "enough-company";
        /// Too few requests are in hand for any device that needs company.
        TooFew = "too-few";
        /// The policy names the device.
        Pinned = "pinned";
        /// First in the policy's order of those that work.
        FirstInOrder = "first-in-order";
        /// It was the device's turn.
        Turn = "turn";
        /// Smaller than the policy's size threshold.
        BelowThreshold = "below-threshold";
        /// At or above the policy's size threshold.
        AboveThreshold = "above-threshold";
        /// The state of the stream lives there.
        Stream = "stream";
        /// By what was measured, it is done first.
        Fastest = "fastest";
        /// A part of the requests, so that all of them are done first.
        Split = "split";
        /// By what was measured, the device that would be done first has too many other requests before these.
        Busy = "busy";
        /// By what was measured, it takes the least time of the calling thread.
        LeastCpu = "least-cpu";
        /// To measure a device that is thought to be slower.
        Trial = "trial";
    }
}

/// The question to a policy: these requests are in hand, these devices can serve them.
pub struct Ask<'a> {
    /// Of the session.
    pub algorithm: Algorithm,
    pub(crate) question: &'a Question<'a>,
    pub(crate) session: &'a session::Inner,
    /// Somebody wants to know, and will not run anything.
    pub(crate) hypothetical: bool,
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
    Many(&'a List),
}

/// What a session adds to an [`Ask`].
pub(crate) struct Question<'a> {
    pub(crate) operation: Operation,
    pub(crate) requests: usize,
    /// Of all requests.
    pub(crate) bytes: usize,
    pub(crate) sizes: Sizes<'a>,
    pub(crate) needs: Needs,
    /// Bit n: candidate n has failed or declined already.
    pub(crate) tried: u64,
}

impl Question<'static> {
    /// About one request by itself.
    #[inline]
    pub(crate) fn one(shape: Shape, tried: u64) -> Self {
        let Shape { operation, bytes, in_place } = shape;
        let needs = Needs { in_place, streaming: false, max_bytes: bytes };
        Self { operation, requests: 1, bytes, sizes: Sizes::One(bytes), needs, tried }
    }
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
    /// What it costs, as far as that is known.
    pub costs: &'a Costs,
    /// Requests that these would wait for: those in its rings, and those that wait for room there.
    pub ahead: u64,
}

impl Ask<'_> {
    /// The operation, the same for all requests in hand.
    #[inline]
    pub fn operation(&self) -> Operation {
        self.question.operation
    }

    /// How many requests are in hand; at least one.
    #[inline]
    pub fn requests(&self) -> usize {
        self.question.requests
    }

    /// Bytes of data in all requests in hand.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        self.question.bytes
    }

    /// Bytes of data in each request in hand.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        let (one, many) = match self.question.sizes {
            Sizes::One(bytes) => (Some(std::iter::repeat_n(bytes, self.question.requests)), None),
            Sizes::Many(list) => (None, Some(list.iter().map(|request| request.link.shape.bytes))),
        };
        one.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// Bytes of data in a request, on the average of those in hand.
    #[inline]
    pub fn mean_bytes(&self) -> usize {
        // Most come alone, and a division costs more than the rest of the choice.
        if self.question.requests == 1 { self.question.bytes } else { self.question.bytes / self.question.requests }
    }

    /// The devices that can serve the requests, in the order in which they were registered: working, not tried before,
    /// and with no limit that the requests exceed.
    #[inline]
    pub fn choices(&self) -> impl Iterator<Item = Choice<'_>> {
        self.choices_among(|_| true)
    }

    /// The device of this name, if it can serve the requests.
    pub fn choice<'a>(&'a self, name: &'a str) -> Option<Choice<'a>> {
        self.choices_among(move |info| info.name == name).next()
    }

    #[inline]
    fn choices_among<'a>(&'a self, among: impl Fn(&DeviceInfo) -> bool + 'a) -> impl Iterator<Item = Choice<'a>> {
        let able = move |&(place, candidate): &(usize, &Candidate)| {
            among(self.gantry().devices()[candidate.device].info())
                && self.question.tried >> place & 1 == 0
                && self.can(place, candidate)
        };
        self.session.candidates.iter().enumerate().filter(able).map(|(_, candidate)| {
            let device = &self.gantry().devices()[candidate.device];
            let capability = &candidate.capability;
            Choice {
                device: candidate.device,
                info: device.info(),
                capability,
                costs: device.costs_here(self.algorithm, self.question.operation),
                ahead: if capability.direct { 0 } else { device.held() },
            }
        })
    }

    #[inline]
    pub(crate) fn gantry(&self) -> &Gantry {
        &self.session.gantry
    }

    /// All requests in hand to this device.
    #[inline]
    pub fn all_to(&self, choice: &Choice<'_>, reason: Reason) -> Route {
        Route { device: choice.device, requests: self.requests(), reason, measure: false }
    }

    /// Whether a device could serve the requests.
    #[inline]
    fn can(&self, place: usize, candidate: &Candidate) -> bool {
        let Needs { in_place, streaming, max_bytes } = self.question.needs;
        let capability = &candidate.capability;
        self.session.has_not_declined(place)
            && self.gantry().devices()[candidate.device].is_ready()
            && capability.operations.contains(&self.question.operation)
            && (capability.in_place || !in_place)
            && (capability.streaming || !streaming)
            && capability.max_bytes >= max_bytes
    }

    /// The same by the device's place in the framework.
    #[inline]
    fn is_able(&self, device: usize) -> bool {
        let able = |(place, candidate): (usize, &Candidate)| candidate.device == device && self.can(place, candidate);
        self.session.candidates.iter().enumerate().any(able)
    }

    /// Candidates that offer the operation, in whatever state they are.
    fn offers(&self) -> usize {
        let offering = |candidate: &&Candidate| candidate.capability.operations.contains(&self.question.operation);
        self.session.candidates.iter().filter(offering).count()
    }

    /// A question like those before and after it: requests will be run, nothing has failed, no stream begins.
    #[inline]
    fn is_plain(&self) -> bool {
        self.question.tried == 0 && !self.hypothetical && !self.question.needs.streaming
    }

    #[inline]
    fn ledgers(&self) -> &Ledgers {
        self.gantry().ledgers()
    }
}

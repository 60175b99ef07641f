//! The question to a policy: the requests of a batch, and the devices that can serve them.

use super::answer::Route;
use super::candidate::Candidate;
use super::cost::Costs;
use super::ledger::Ledgers;
use crate::algorithm::{Algorithm, Operation, Shape};
use crate::driver::{Capability, DeviceInfo};
use crate::stats::Reason;

/// The question to a policy: the requests of a batch, and the devices that can serve them.
pub struct Ask<'a> {
    /// The algorithm of the session.
    pub algorithm: Algorithm,
    pub(crate) question: &'a Question<'a>,
    /// Devices that offer the algorithm.
    pub(crate) candidates: &'a [Candidate],
    /// Bit mask of the devices that cannot serve the requests: they have been tried, have declined the session, or are in quarantine.
    pub(crate) excluded: u64,
    /// No request will run: the caller only wants the answer.
    pub(crate) hypothetical: bool,
    pub(crate) ledgers: &'a Ledgers,
    pub(crate) calibrator: &'a dyn Calibrator,
}

/// Measures devices for a policy.
pub(crate) trait Calibrator {
    /// Loads the costs that earlier processes kept, once. Returns `true` if this call loaded them.
    fn load_costs(&self) -> bool;

    /// Measures for a moment. Returns `true` if more costs are known now.
    fn continue_calibration(&self, algorithm: Algorithm, operation: Operation) -> bool;
}

/// Requirements on a capability in addition to the algorithm and the operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) in_place: bool,
    pub(crate) streaming: bool,
    pub(crate) max_bytes: usize,
}

/// Bytes of data in the requests.
pub(crate) enum Sizes<'a> {
    /// Each request has this number of bytes.
    One(usize),
    /// The sizes may differ.
    Many(&'a dyn RequestSizes),
}

/// The sizes of single requests, for the few policies that read them.
pub(crate) trait RequestSizes {
    fn sizes(&self) -> Box<dyn Iterator<Item = usize> + '_>;
}

/// The part of an [`Ask`] that describes the requests.
pub(crate) struct Question<'a> {
    pub(crate) operation: Operation,
    pub(crate) requests: usize,
    /// Bytes of all requests together.
    pub(crate) bytes: usize,
    pub(crate) sizes: Sizes<'a>,
    pub(crate) needs: Needs,
    /// Bit mask of the devices that have failed or declined already.
    pub(crate) tried_devices: u64,
}

impl Question<'static> {
    /// Makes the question about a single request.
    #[inline]
    pub(crate) fn one(shape: Shape, tried_devices: u64) -> Self {
        let Shape { operation, bytes, in_place } = shape;
        let needs = Needs { in_place, streaming: false, max_bytes: bytes };
        Self { operation, requests: 1, bytes, sizes: Sizes::One(bytes), needs, tried_devices }
    }
}

/// A device that can serve the requests.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The index of the device in [`Gantry::devices`](crate::Gantry::devices).
    pub device: usize,
    /// Its description.
    pub info: &'a DeviceInfo,
    /// Its capability for this algorithm.
    pub capability: &'a Capability,
    /// Its costs, as far as they are known.
    pub costs: &'a Costs,
    /// Number of earlier requests that are on the device's queue pairs or wait for room there.
    pub requests_ahead: u64,
}

impl Ask<'_> {
    /// Returns the operation, which is the same for all requests.
    #[inline]
    pub fn operation(&self) -> Operation {
        self.question.operation
    }

    /// Returns the number of requests; at least one.
    #[inline]
    pub fn requests(&self) -> usize {
        self.question.requests
    }

    /// Returns the bytes of data in all requests together.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        self.question.bytes
    }

    /// Returns the bytes of data in each request.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        let (equal, different) = match self.question.sizes {
            Sizes::One(bytes) => (Some(std::iter::repeat_n(bytes, self.question.requests)), None),
            Sizes::Many(requests) => (None, Some(requests.sizes())),
        };
        equal.into_iter().flatten().chain(different.into_iter().flatten())
    }

    /// Returns the mean bytes of data in a request.
    #[inline]
    pub fn mean_bytes(&self) -> usize {
        // Most requests come alone, and a division costs more than the rest of the choice.
        if self.question.requests == 1 { self.question.bytes } else { self.question.bytes / self.question.requests }
    }

    /// Returns the devices that can serve the requests, in the order of registration. They work, have not been tried, and have no limit
    /// that the requests exceed.
    #[inline]
    pub fn choices(&self) -> impl Iterator<Item = Choice<'_>> {
        self.choices_among(|_| true)
    }

    /// Returns the device of this name, if it can serve the requests.
    pub fn choice<'a>(&'a self, name: &'a str) -> Option<Choice<'a>> {
        self.choices_among(move |info| info.name == name).next()
    }

    #[inline]
    fn choices_among<'a>(&'a self, is_wanted: impl Fn(&DeviceInfo) -> bool + 'a) -> impl Iterator<Item = Choice<'a>> {
        let can_run = move |candidate: &&Candidate| is_wanted(&candidate.info) && self.can_run(candidate);
        self.candidates.iter().filter(can_run).map(|candidate| Choice {
            device: candidate.device,
            info: &candidate.info,
            capability: &candidate.capability,
            costs: candidate.costs(self.question.operation),
            requests_ahead: if candidate.capability.synchronous { 0 } else { candidate.load.pending() },
        })
    }

    /// Returns a route that sends all requests to this device.
    #[inline]
    pub fn all_to(&self, choice: &Choice<'_>, reason: Reason) -> Route {
        Route { device: choice.device, requests: self.requests(), reason, measure: false }
    }

    /// Returns whether a device could serve the requests.
    #[inline]
    pub(super) fn can_run(&self, candidate: &Candidate) -> bool {
        let Needs { in_place, streaming, max_bytes } = self.question.needs;
        let capability = &candidate.capability;
        self.excluded & candidate.bit() == 0
            && capability.operations.contains(&self.question.operation)
            && (capability.in_place || !in_place)
            && (capability.streaming || !streaming)
            && capability.max_bytes >= max_bytes
    }

    /// Returns whether the device at this index in the framework could serve the requests.
    #[inline]
    pub(super) fn can_run_on(&self, device: usize) -> bool {
        self.candidates.iter().any(|candidate| candidate.device == device && self.can_run(candidate))
    }

    /// Returns the number of candidates that offer the operation, in any state.
    pub(super) fn count_offering(&self) -> usize {
        let offers_operation =
            |candidate: &&Candidate| candidate.capability.operations.contains(&self.question.operation);
        self.candidates.iter().filter(offers_operation).count()
    }

    /// Returns whether the question is an ordinary one: requests will run, no device has failed, and no stream begins.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.question.tried_devices == 0 && !self.hypothetical && !self.question.needs.streaming
    }
}

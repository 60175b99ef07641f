//! Learns from measured requests.

use super::candidate::Candidate;
use super::cost::DeviceChange;
use super::ledger::Ledgers;
use super::table::TablePosition;
use crate::algorithm::{Algorithm, Operation};
use crate::clock::Clock;
use crate::stats::Reason;

/// Number of requests that fill any device without lanes.
pub(super) const FULL_LOAD_REQUESTS: usize = 64;

/// Requests that ran on a route, and their time.
pub(crate) struct Measurement<'a> {
    pub(crate) ledgers: &'a Ledgers,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) algorithm: Algorithm,
    pub(crate) operation: Operation,
    pub(crate) device: usize,
    pub(crate) reason: Reason,
    pub(crate) requests: usize,
    /// Bytes of each request.
    pub(crate) bytes: usize,
    /// The start, by the [meter](Ledgers::meter) of the device.
    pub(crate) started: u64,
    /// Number of earlier requests on the queue pair.
    pub(crate) requests_ahead: usize,
    /// For requests on a queue pair, the nanoseconds in which the thread was busy with them.
    pub(crate) cpu_ns: Option<u64>,
}

/// Learns from a measurement that ends now.
#[cold]
pub(crate) fn learn(candidates: &[Candidate], measured: &Measurement<'_>) {
    let Measurement {
        ledgers,
        clock,
        algorithm,
        operation,
        device,
        reason,
        requests,
        bytes,
        started,
        requests_ahead,
        cpu_ns,
    } = *measured;
    let Some(candidate) = candidates.iter().find(|candidate| candidate.device == device) else { return };
    let costs = candidate.costs(operation);
    if !costs.is_known() {
        return;
    }
    let expected = costs.estimate(requests, bytes).wall_ns;
    #[allow(clippy::cast_precision_loss, reason = "times that fit into 24 bits or need no more")]
    let wall =
        ledgers.meter(clock, candidate.info.class, candidate.capability.synchronous).since(started, clock) as f32;
    // Assume that the earlier requests deviated from their estimate by the same factor.
    #[allow(clippy::cast_precision_loss, reason = "as above")]
    let ahead_ns =
        costs.estimate(FULL_LOAD_REQUESTS, bytes).wall_ns / FULL_LOAD_REQUESTS as f32 * requests_ahead as f32;
    let wall = wall * expected / (expected + ahead_ns);
    let ledger = ledgers.ledger(algorithm, operation);
    #[allow(clippy::cast_precision_loss, reason = "as above")]
    let learn_costs = || costs.learn(requests, bytes, wall, cpu_ns.map(|ns| ns as f32));
    let change = match (reason == Reason::Trial, costs.is_unconfirmed(requests, bytes)) {
        (true, true) => {
            ledger.count_loss(wall - expected);
            costs.learn_unconfirmed(requests, bytes, wall)
        }
        (true, false) => {
            ledger.record_trial(device, expected, wall);
            // The caches are cold for a rarely used device, so only a faster trial is learned.
            if wall >= expected {
                return;
            }
            costs.learn_faster(requests, bytes, wall);
            learn_costs()
        }
        (false, unconfirmed) => {
            ledger.update_expected(requests, bytes, wall);
            let position = TablePosition::new(requests, bytes);
            let follows_cpu = candidate.capability.synchronous && !unconfirmed;
            match follows_cpu.then(|| ledger.pace.follow(device, position, expected, wall)).flatten() {
                Some(factor) => DeviceChange::CpuSpeed(factor),
                None => learn_costs(),
            }
        }
    };
    let synchronous = || candidates.iter().filter(|candidate| candidate.capability.synchronous);
    match change {
        DeviceChange::None => {}
        DeviceChange::CpuSpeed(factor) => {
            synchronous().for_each(|candidate| candidate.costs(operation).drift_by(factor));
        }
        DeviceChange::DeviceSpeed(factor) => {
            ledger.hasten_trials();
            if candidate.capability.synchronous {
                // The CPU may have changed, and with it the other devices that compute on it. Their next trial shows whether this device
                // alone has changed.
                let others = synchronous().filter(|other| other.device != device);
                others.for_each(|other| other.costs(operation).drift_by(factor));
            }
        }
        DeviceChange::LoadedCostsWrong => {
            // Costs of the other devices were stored together with these.
            for candidate in candidates {
                candidate.costs(operation).forget_loaded();
            }
            ledger.reset();
        }
    }
}

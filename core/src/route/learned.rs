//! The policies that learn: `latency`, `throughput` and `offload`.
//!
//! All three read the same [`Costs`], and add up different parts of them. A *ring* is the queue pair of a device that works in parallel to
//! the calling thread.
//!
//! * `latency`: the time until the requests are done. This is the default.
//! * `throughput`: the time for which a device is occupied. On a ring, a request is charged its share of the time of a full ring, even if
//!   the ring is slow for a single request. Under load, `latency` does the same with rings that are not slow for a single request. With a
//!   given number of requests in flight, a higher rate finishes each one earlier (Little's law).
//! * `offload`: the time of the calling thread alone. A device that takes more than [`MAX_OFFLOAD_SLOWDOWN`] times as long as the fastest
//!   one is left out.
//!
//! The times of devices in the calling thread add up, because they run one after the other. Devices with a ring work in parallel to the
//! thread, unless measurements show that they keep it busy: some libraries behind a ring compute when they are polled. So requests are
//! split in two ways. Rings and the thread get parts that end at the same moment. In the thread, full batches go to the lanes, and a
//! remainder that leaves lanes empty goes to the best device for it.
//!
//! While the costs of a device are unknown, and calibration may still measure them, [`BreakEven`] chooses by the declared capabilities.
//! After ten milliseconds of work for an algorithm and operation, its devices are calibrated (`devices/calibrate.rs`), unless an earlier
//! process stored their costs. Later, one request in each `MEASUREMENT_INTERVAL_NS` of work is measured.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times and sizes that fit into 24 bits or need no more"
)]

/// The devices that a policy chooses from.
mod measured_devices;

use super::answer::Route;
use super::ask::Ask;
use super::break_even::BreakEven;
use super::ledger::{Ledger, Verdict};
use super::measurement::FULL_LOAD_REQUESTS;
use super::policy::Policy;
use crate::algorithm::Kind;
use crate::stats::Reason;
use measured_devices::{Device, MeasuredDevices};

/// A policy that chooses by measured costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Requests are done as early as possible.
    Latency,
    /// As many requests as possible are done in the long run.
    Throughput,
    /// The calling thread has as little to do as possible, and no request takes more than 32 times as long as on the
    /// fastest device.
    Offload,
}

/// Maximum time of a request under `offload`, as a multiple of its time on the fastest device.
pub const MAX_OFFLOAD_SLOWDOWN: f32 = 32.0;
/// Cost of a separate part, in addition to the cost of its requests, in nanoseconds: another question to the policy, and another queue.
const PART_OVERHEAD_NS: f32 = 200.0;
/// A device is close to the best one if it takes longer by less than this share of the best one's time.
const MAX_CLOSE_EXCESS: f32 = 0.5;
/// A trial of at least this many nanoseconds needs no earlier request that warms up the caches.
const MIN_LONG_TRIAL_NS: f32 = 20_000.0;
/// A split must take less than this share of the time without a split.
const MAX_SPLIT_SHARE: f32 = 0.97;
/// The previous device stays if it costs at most 1/`SWITCHING_SHARE` times as much as the best.
const SWITCHING_SHARE: f32 = 0.98;
/// Assumed bytes of a chunk of a stream.
const STREAM_CHUNK_BYTES: usize = 16 << 10;

impl Policy for Learned {
    fn name(&self) -> &'static str {
        match self {
            Learned::Latency => "latency",
            Learned::Throughput => "throughput",
            Learned::Offload => "offload",
        }
    }

    // Has no `#[inline]`, so it is compiled only here, with this crate's optimisation, and not again in each crate that names the policy.
    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        if let [only] = ask.candidates {
            let can_run = ask.can_run(only);
            let (device, requests, reason) = (only.device, ask.requests(), Reason::OnlyChoice);
            return can_run.then_some(Route { device, requests, reason, measure: false });
        }
        let ledgers = ask.ledgers;
        let ledger = ledgers.ledger(ask.algorithm, ask.operation());
        let is_plain = ask.is_plain();
        if is_plain
            && let Some(verdict) = ledger.verdict(ask.requests(), ask.mean_bytes())
            && ask.can_run_on(verdict.device)
        {
            if !ledgers.count_work(verdict.expected_ns) {
                return Some(verdict.route());
            }
            // `decide` counts the same work: this lets it find the measurement due, too.
            ledgers.measure_next();
        }
        self.decide(ask, ledger)
    }

    fn batch_size(&self, ask: &Ask<'_>) -> usize {
        let (ledger, bytes) = (ask.ledgers.ledger(ask.algorithm, ask.operation()), ask.mean_bytes());
        ledger.batch_size(bytes).unwrap_or_else(|| {
            let requests = self.choose_batch_size(ask, bytes);
            ledger.remember_batch_size(bytes, requests);
            requests
        })
    }
}

impl Learned {
    /// Returns the smallest size of a batch in which each request costs hardly more than in the best batch. Returns 1 if batches save
    /// hardly anything.
    #[cold]
    fn choose_batch_size(self, ask: &Ask<'_>, bytes: usize) -> usize {
        let measured = MeasuredDevices::new(ask, self, 2, bytes);
        if measured.unmeasured > 0 || measured.len == 0 {
            return BreakEven.batch_size(ask);
        }
        // Rings and the calling thread work side by side, if there are several requests to divide.
        let is_parallel = measured.rings < measured.len && measured.iter().any(|device| device.is_pipelined);
        let each = |requests: usize| {
            if is_parallel && requests > 1 {
                return self
                    .balance(&measured, requests, bytes)
                    .map_or(f32::INFINITY, |best| best.expected_ns / requests as f32);
            }
            let least = measured.least(|device| self.idle_cost(device, requests, bytes));
            least.map_or(f32::INFINITY, |(_, time)| (time + PART_OVERHEAD_NS) / requests as f32)
        };
        let cheapest = BATCH_SIZES.iter().map(|requests| each(*requests)).fold(f32::INFINITY, f32::min);
        if cheapest > each(1) * MAX_BATCHING_SHARE {
            return 1;
        }
        let enough = BATCH_SIZES.into_iter().find(|requests| each(*requests) <= cheapest * MAX_BATCH_EXCESS);
        enough.unwrap_or(1)
    }
}

/// Batching pays if a request in a batch costs at most this share of a single request.
const MAX_BATCHING_SHARE: f32 = 0.85;
/// A batch is large enough if a request costs at most this multiple of its cost in the best batch.
const MAX_BATCH_EXCESS: f32 = 1.02;
/// The batch sizes that are compared.
const BATCH_SIZES: [usize; 12] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Assumed nanoseconds of a group of requests with unknown costs, in addition to 1 ns per byte.
const ASSUMED_REQUEST_NS: u32 = 100;
/// Assumed nanoseconds of a request that uses a key pair and has unknown costs.
const ASSUMED_KEY_PAIR_NS: u32 = 50_000;

/// Returns the assumed nanoseconds of requests with unknown costs.
fn assumed_ns(kind: Kind, requests: usize, bytes: usize) -> u32 {
    match kind {
        Kind::Signature | Kind::Exchange | Kind::Kem | Kind::Encipherment => {
            ASSUMED_KEY_PAIR_NS.saturating_mul(requests as u32)
        }
        _ => ASSUMED_REQUEST_NS + bytes.saturating_mul(requests).min(1 << 30) as u32,
    }
}

impl Learned {
    /// Compares the devices, because no stored verdict applies, or because a measurement is due.
    #[cold]
    #[inline(never)]
    fn decide(self, ask: &Ask<'_>, ledger: &Ledger) -> Option<Route> {
        let (requests, bytes) =
            (ask.requests(), if ask.question.needs.streaming { STREAM_CHUNK_BYTES } else { ask.mean_bytes() });
        let measured_choices = || MeasuredDevices::new(ask, self, requests, bytes);
        let mut measured = measured_choices();
        // Only a plain question counts as work and stores a verdict: no hypothetical one, no retry and no stream.
        let count_work = |expected_ns: u32| {
            let is_due = ask.is_plain() && ask.ledgers.count_work(expected_ns);
            if is_due {
                ledger.tick(expected_ns);
            }
            is_due
        };
        if !ledger.is_calibration_over(ask.candidates) {
            let work = assumed_ns(ask.algorithm.kind(), requests, bytes);
            let mut has_new_costs = (!ask.is_plain() || ledger.loading_pays(work)) && ask.calibrator.load_costs();
            if measured.unmeasured > 0 {
                count_work(work);
            }
            if ask.is_plain() && ledger.calibration_pays() {
                has_new_costs |= ask.calibrator.continue_calibration(ask.algorithm, ask.operation());
            }
            if has_new_costs {
                measured = measured_choices();
            }
            if measured.unmeasured > 0 && !ledger.is_calibration_over(ask.candidates) {
                // The request is not measured, because there is no table for its time.
                return BreakEven.route(ask);
            }
        }
        let Some(mut best) = self.best(&measured, requests, bytes) else { return BreakEven.route(ask) };
        if measured.rings == 0 && best.requests == requests {
            best = self.keep_previous(&measured, best, ledger.verdict(requests, bytes), bytes);
        }
        if ask.is_plain() && measured.is_complete && measured.rings == 0 {
            ledger.remember(requests, bytes, best.verdict());
        }
        let is_due = count_work(best.verdict().expected_ns) && measured.len > 1;
        // Stored costs are compared with the first request that uses them.
        let is_first_use = ask.is_plain() && measured.len > 1 && best.device.costs.is_unconfirmed(best.requests, bytes);
        if is_due
            && !is_first_use
            && let Some((trial, measure)) = choose_trial(&measured, ledger, &best, requests, bytes)
        {
            if !measure {
                ask.ledgers.measure_next();
            }
            return Some(Route { measure, ..trial.verdict().route() });
        }
        Some(Route { measure: is_due || is_first_use, ..best.verdict().route() })
    }

    /// Returns `best`, but on the device of the last verdict if that device costs hardly more. When a policy switches to another device,
    /// the estimates of the two are nearly equal. Afterwards requests measure only the new device, and noise alone must not make the
    /// policy switch back.
    fn keep_previous<'a>(
        self,
        measured: &MeasuredDevices<'a>,
        best: Decision<'a>,
        last: Option<Verdict>,
        bytes: usize,
    ) -> Decision<'a> {
        let last = last.filter(|last| last.requests == best.requests && last.device != best.device.index);
        let device = last.and_then(|last| measured.iter().find(|device| device.index == last.device));
        match device {
            Some(device)
                if self.cost(device, best.requests, bytes) * SWITCHING_SHARE
                    <= self.cost(&best.device, best.requests, bytes) =>
            {
                Decision { device: *device, expected_ns: device.wall_ns(best.requests, bytes), ..best }
            }
            _ => best,
        }
    }

    /// Returns the device for all requests, or for the first part of them.
    fn best<'a>(self, measured: &MeasuredDevices<'a>, requests: usize, bytes: usize) -> Option<Decision<'a>> {
        let fastest = measured.iter().map(|device| device.wall_ns(1, bytes)).fold(f32::INFINITY, f32::min);
        let serves = |device: &Device<'_>| {
            self != Learned::Offload || device.wall_ns(1, bytes) <= fastest * MAX_OFFLOAD_SLOWDOWN
        };
        let cost = |device: &Device<'_>| {
            if serves(device) { self.cost(device, requests, bytes) } else { f32::INFINITY }
        };
        let (device, time) = measured.least(cost)?;
        let all = |reason, expected_ns| Some(Decision { device, requests, reason, expected_ns });
        if measured.len == 1 {
            return all(Reason::OnlyChoice, time);
        }
        if self == Learned::Offload {
            return all(Reason::LeastCpu, device.wall_ns(requests, bytes));
        }
        if measured.rings > 0 && requests > 1 {
            return self.balance(measured, requests, bytes);
        }
        let unhindered = measured.least(|device| self.idle_cost(device, requests, bytes))?.0;
        let reason = if unhindered.index == device.index { Reason::Fastest } else { Reason::Busy };
        let whole = all(reason, time - device.ahead_ns)?;
        Some(if measured.rings > 0 { whole } else { split(measured, whole, bytes) })
    }

    /// Splits the requests into parts for rings and for the calling thread that end at the same moment. Returns the largest part of a ring,
    /// because the ring works while the thread does its own part. Returns the thread's part if no ring gets any.
    fn balance<'a>(self, measured: &MeasuredDevices<'a>, requests: usize, bytes: usize) -> Option<Decision<'a>> {
        // A pipelined ring gets no part if serving it keeps the thread at least as busy as the request itself would.
        let work = measured.iter().filter(|device| device.in_thread).map(|device| device.wall_ns(1, bytes));
        let work = work.fold(f32::INFINITY, f32::min);
        let helps = |device: &Device<'_>| !device.is_pipelined || device.costs.estimate(1, bytes).cpu_ns < work;
        let part = |device: &Device<'_>, time: f32| {
            if helps(device) { self.requests_within(device, requests, bytes, time) } else { 0 }
        };
        let enough = |time: f32| {
            let rings =
                measured.iter().filter(|device| !device.in_thread).map(|device| part(device, time)).sum::<usize>();
            let thread = measured.iter().filter(|device| device.in_thread).map(|device| part(device, time)).max();
            rings.saturating_add(thread.unwrap_or(0)) >= requests
        };
        // The best device alone could do all requests in this time.
        let mut late = measured.least(|device| self.cost(device, requests, bytes))?.1;
        let mut early = 0.0;
        for _ in 0..16 {
            let middle = f32::midpoint(early, late);
            if enough(middle) {
                late = middle;
            } else {
                early = middle;
            }
        }
        // A pipelined ring gets work beyond that moment, for the time of a single request, so that it does not wait for the thread.
        let reach = |device: &Device<'_>| if device.is_pipelined { late + device.wall_ns(1, bytes) } else { late };
        let largest = |in_thread: bool| {
            let devices = measured.iter().filter(|device| device.in_thread == in_thread);
            let parts = devices.map(|device| (device, part(device, reach(device)).min(requests)));
            parts.filter(|(_, part)| *part > 0).max_by_key(|(_, part)| *part)
        };
        let (device, part) = largest(false).or_else(|| largest(true))?;
        let reason = if part < requests { Reason::Split } else { Reason::Fastest };
        Some(Decision { device: *device, requests: part, reason, expected_ns: late })
    }

    /// Returns the number of requests that a device can finish by a time.
    fn requests_within(self, device: &Device<'_>, requests: usize, bytes: usize, time: f32) -> usize {
        // Bisects: `enough` requests are done in time, `late` are not.
        let (mut enough, mut late) = (0, requests + 1);
        while late - enough > 1 {
            let middle = usize::midpoint(enough, late);
            if self.cost(device, middle, bytes) <= time {
                enough = middle;
            } else {
                late = middle;
            }
        }
        enough
    }

    /// Returns the cost that the policy minimises, in nanoseconds, of `requests` requests on a device.
    fn cost(self, device: &Device<'_>, requests: usize, bytes: usize) -> f32 {
        let wait_ns = if self == Learned::Offload { 0.0 } else { device.ahead_ns };
        wait_ns + self.idle_cost(device, requests, bytes)
    }

    /// Returns this cost on a device that has no earlier requests.
    fn idle_cost(self, device: &Device<'_>, requests: usize, bytes: usize) -> f32 {
        if self == Learned::Offload {
            device.costs.estimate(requests, bytes).cpu_ns
        } else if device.is_pipelined {
            device.wall_ns(FULL_LOAD_REQUESTS, bytes) / FULL_LOAD_REQUESTS as f32 * requests as f32
        } else {
            device.wall_ns(requests, bytes)
        }
    }
}

/// Returns a device other than the best one if a trial is due, and whether the trial is to be measured.
fn choose_trial<'a>(
    measured: &MeasuredDevices<'a>,
    ledger: &Ledger,
    best: &Decision<'a>,
    requests: usize,
    bytes: usize,
) -> Option<(Decision<'a>, bool)> {
    let make_trial = |device: &Device<'a>, requests| Decision {
        device: *device,
        requests,
        reason: Reason::Trial,
        expected_ns: device.wall_ns(requests, bytes),
    };
    let loss = |device: &Device<'a>, requests| device.wall_ns(requests, bytes) - best.device.wall_ns(requests, bytes);
    let is_unconfirmed = |device: &&Device<'a>| device.costs.is_unconfirmed(requests, bytes);
    let check = |device: &Device<'a>, first: bool| {
        let first = first || !device.costs.is_confirmed_anywhere();
        ledger.try_pay_for_check(first, loss(device, requests)).then_some(requests)
    };
    // Try all requests, or one if all are too expensive.
    let pay = |device: &Device<'a>| {
        [requests, 1].into_iter().find(|requests| ledger.try_pay_for_trial(device.index, loss(device, *requests)))
    };
    // A device with requests in flight is measured without a trial.
    let others = || measured.iter().filter(|device| device.index != best.device.index && device.ahead_ns == 0.0);
    if let Some(warm) = ledger.take_warmed_device()
        && let Some(device) = others().find(|device| device.index == warm)
        && let Some(requests) = if is_unconfirmed(&device) { check(device, true) } else { pay(device) }
    {
        return Some((make_trial(device, requests), true));
    }
    let unconfirmed = || others().filter(is_unconfirmed).find_map(|device| Some((device, check(device, false)?)));
    let most_overdue = || {
        let is_close = |device| loss(device, requests) < best.device.wall_ns(requests, bytes) * MAX_CLOSE_EXCESS;
        let ticks = others().filter_map(|device| Some((device, ledger.overdue(device.index, is_close(device))?)));
        let (device, _) = ticks.filter(|(_, ticks)| *ticks >= 0).max_by_key(|(_, ticks)| *ticks)?;
        Some((device, pay(device)?))
    };
    let (device, requests) = unconfirmed().or_else(most_overdue)?;
    let trial = make_trial(device, requests);
    let is_long = trial.expected_ns >= MIN_LONG_TRIAL_NS;
    if !is_long {
        ledger.set_warmed_device(device.index);
    }
    Some((trial, is_long))
}

/// Splits requests into full lanes on one device and the rest on another, if that is faster than `whole`. All devices compute in the
/// calling thread.
fn split<'a>(measured: &MeasuredDevices<'a>, whole: Decision<'a>, bytes: usize) -> Decision<'a> {
    let mut best = whole;
    let mut limit = whole.expected_ns * MAX_SPLIT_SHARE;
    for device in measured.iter() {
        let rest = whole.requests % device.lanes;
        let full = whole.requests - rest;
        if device.lanes == 1 || rest == 0 || full == 0 {
            continue;
        }
        let others = measured.iter().filter(|other| other.index != device.index);
        let others = others.map(|other| other.wall_ns(rest, bytes)).fold(f32::INFINITY, f32::min);
        let time = device.wall_ns(full, bytes) + others + PART_OVERHEAD_NS;
        if time < limit {
            limit = time;
            best = Decision {
                device: *device,
                requests: full,
                reason: Reason::Split,
                expected_ns: device.wall_ns(full, bytes),
            };
        }
    }
    best
}

/// The choice of a device for all requests, or for the first part of them.
#[derive(Clone, Copy)]
struct Decision<'a> {
    device: Device<'a>,
    requests: usize,
    reason: Reason,
    /// Nanoseconds that the requests take.
    expected_ns: f32,
}

impl Decision<'_> {
    fn verdict(&self) -> Verdict {
        let Self { device, requests, reason, expected_ns } = *self;
        Verdict { device: device.index, requests, reason, expected_ns: expected_ns.clamp(1.0, 1e9) as u32 }
    }
}

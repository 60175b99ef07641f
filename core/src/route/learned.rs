//! The policies that learn: `latency`, `throughput` and `offload`.
//!
//! All three read the same [`Costs`], and add up different parts of them:
//!
//! * `latency`: the time until the requests are done. This is the default.
//! * `throughput`: the time for which a device is occupied. If a ring is slow for one request but can hold many, a request is charged its
//!   cost in a full ring. Under load `latency` does the same with rings that are not slow for one request. With many requests in flight, a
//!   higher rate finishes each one earlier (Little's law).
//! * `offload`: the time of the calling thread alone. A device that takes more than [`PATIENCE`] times as long as the fastest one is left
//!   out.
//!
//! The times of devices in the calling thread add up, because they run one after the other. Devices with a ring work in parallel to the
//! thread, unless measurements show that they keep it busy: libraries behind a ring compute when they are polled. So requests are split in
//! two ways. Rings and the thread get parts that end at the same moment. In the thread, full batches go to the lanes, and a remainder that
//! leaves lanes empty goes to the best device for it.
//!
//! While the costs of a device are unknown, [`BreakEven`] chooses by the declared capabilities. After ten milliseconds of work for an
//! algorithm, its devices are calibrated (`devices/calibrate.rs`), unless an earlier process stored their costs. Later, one request in each
//! `INTERVAL` of work is measured.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times and sizes that fit into 24 bits or need no more"
)]

/// The devices that a policy chooses from.
mod known;

use super::answer::Route;
use super::ask::Ask;
use super::break_even::BreakEven;
use super::ledger::{Ledger, Verdict};
use super::measurement::MANY;
use super::policy::Policy;
use crate::algorithm::Kind;
use crate::stats::Reason;
use known::{Device, Known};

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

/// Maximum time of a request, as a multiple of its time on the fastest device, if the calling thread then has less to do.
pub const PATIENCE: f32 = 32.0;
/// Cost of a separate part, in addition to the cost of its requests, in nanoseconds: another question to the policy, and another queue.
const PART: f32 = 200.0;
/// A device is close to the best one if it takes longer by less than this share of the best one's time.
const CLOSE: f32 = 0.5;
/// A trial of at least this many nanoseconds needs no earlier request that warms up the caches.
const LONG: f32 = 20_000.0;
/// A split must take less than this share of the time without a split.
const GAIN: f32 = 0.97;
/// The previous device stays if it costs at most 1/`STAY` times as much as the best.
const STAY: f32 = 0.98;
/// Assumed bytes of a chunk of a stream.
const PIECE: usize = 16 << 10;

impl Policy for Learned {
    fn name(&self) -> &'static str {
        match self {
            Learned::Latency => "latency",
            Learned::Throughput => "throughput",
            Learned::Offload => "offload",
        }
    }

    // Without `#[inline]`, it is compiled here with this crate's optimisation, and not in each crate that names the policy.
    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        if let [only] = ask.candidates {
            let able = ask.can_run(only);
            let (device, requests, reason) = (only.device, ask.requests(), Reason::OnlyChoice);
            return able.then_some(Route { device, requests, reason, measure: false });
        }
        let ledgers = ask.ledgers;
        let ledger = ledgers.ledger(ask.algorithm, ask.operation());
        let plain = ask.is_plain();
        if plain
            && let Some(verdict) = ledger.verdict(ask.requests(), ask.mean_bytes())
            && ask.can_run_on(verdict.device)
        {
            if !ledgers.is_due(verdict.expected) {
                return Some(verdict.route());
            }
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
        let known = Known::new(ask, self, 2, bytes);
        if known.unmeasured > 0 || known.len == 0 {
            return BreakEven.batch_size(ask);
        }
        // Rings and the calling thread work side by side, if there are several requests to divide.
        let is_parallel = known.rings < known.len && known.iter().any(|device| device.is_pipelined);
        let each = |requests: usize| {
            if is_parallel && requests > 1 {
                return self
                    .balance(&known, requests, bytes)
                    .map_or(f32::INFINITY, |best| best.expected / requests as f32);
            }
            let least = known.least(|device| self.cost(device, requests, bytes) - device.ahead);
            least.map_or(f32::INFINITY, |(_, time)| (time + PART) / requests as f32)
        };
        let cheapest = BATCH_SIZES.iter().map(|requests| each(*requests)).fold(f32::INFINITY, f32::min);
        if cheapest > each(1) * BATCHING_PAYS {
            return 1;
        }
        let enough = BATCH_SIZES.into_iter().find(|requests| each(*requests) <= cheapest * NEARLY_CHEAPEST);
        enough.unwrap_or(1)
    }
}

/// Batching pays if a request in a batch costs at most this share of a single request.
const BATCHING_PAYS: f32 = 0.85;
/// A batch is large enough if a request costs at most this multiple of its cost in the best batch.
const NEARLY_CHEAPEST: f32 = 1.02;
/// The batch sizes that are compared.
const BATCH_SIZES: [usize; 12] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Assumed nanoseconds of a request with unknown costs, in addition to 1 ns per byte.
const PRIOR: u32 = 100;
/// Assumed nanoseconds of a request that uses a key pair and has unknown costs.
const PAIR: u32 = 50_000;

/// Returns the assumed nanoseconds of requests with unknown costs.
fn prior(kind: Kind, requests: usize, bytes: usize) -> u32 {
    match kind {
        Kind::Signature | Kind::Exchange | Kind::Kem | Kind::Encipherment => PAIR.saturating_mul(requests as u32),
        _ => PRIOR + bytes.saturating_mul(requests).min(1 << 30) as u32,
    }
}

impl Learned {
    /// Compares the devices if no stored verdict decides.
    #[cold]
    #[inline(never)]
    fn decide(self, ask: &Ask<'_>, ledger: &Ledger) -> Option<Route> {
        let (requests, bytes) = (ask.requests(), if ask.question.needs.streaming { PIECE } else { ask.mean_bytes() });
        let measured_choices = || Known::new(ask, self, requests, bytes);
        let mut known = measured_choices();
        // A hypothetical question counts nothing and stores nothing.
        let is_due = |expected: u32| {
            let due = ask.is_plain() && ask.ledgers.is_due(expected);
            if due {
                ledger.tick(expected);
            }
            due
        };
        if !ledger.is_settled(ask.candidates) {
            let work = prior(ask.algorithm.kind(), requests, bytes);
            let mut has_new_costs = (!ask.is_plain() || ledger.loading_pays(work)) && ask.calibrator.load_costs();
            if known.unmeasured > 0 {
                is_due(work);
            }
            if ask.is_plain() && ledger.calibration_pays() {
                has_new_costs |= ask.calibrator.continue_calibration(ask.algorithm, ask.operation());
            }
            if has_new_costs {
                known = measured_choices();
            }
            if known.unmeasured > 0 && !ledger.is_settled(ask.candidates) {
                // The request is not measured, because there is no table for its time.
                return BreakEven.route(ask);
            }
        }
        let Some(mut best) = self.best(&known, requests, bytes) else { return BreakEven.route(ask) };
        if known.rings == 0 && best.requests == requests {
            best = self.keep_previous(&known, best, ledger.verdict(requests, bytes), bytes);
        }
        if ask.is_plain() && known.is_complete && known.rings == 0 {
            ledger.remember(requests, bytes, best.verdict());
        }
        let due = is_due(best.verdict().expected) && known.len > 1;
        // Stored costs are compared with the first request that uses them.
        let is_first_use = ask.is_plain() && known.len > 1 && best.device.costs.is_unconfirmed(best.requests, bytes);
        if due
            && !is_first_use
            && let Some((trial, measure)) = choose_trial(&known, ledger, &best, requests, bytes)
        {
            if !measure {
                ask.ledgers.measure_next();
            }
            return Some(Route { measure, ..trial.verdict().route() });
        }
        Some(Route { measure: due || is_first_use, ..best.verdict().route() })
    }

    /// Returns the device of the last verdict if it costs hardly more. The policy changes to the next device when the estimate of the
    /// previous one reaches that of the next. It does not measure the previous device from then on. So the two estimates stay close, and
    /// noise alone must not lead back to the previous device.
    fn keep_previous<'a>(self, known: &Known<'a>, best: Best<'a>, last: Option<Verdict>, bytes: usize) -> Best<'a> {
        let last = last.filter(|last| last.requests == best.requests && last.device != best.device.place);
        let device = last.and_then(|last| known.iter().find(|device| device.place == last.device));
        match device {
            Some(device)
                if self.cost(device, best.requests, bytes) * STAY <= self.cost(&best.device, best.requests, bytes) =>
            {
                Best { device: *device, expected: device.wall(best.requests, bytes), ..best }
            }
            _ => best,
        }
    }

    /// Returns the device for all requests, or for the first part of them.
    fn best<'a>(self, known: &Known<'a>, requests: usize, bytes: usize) -> Option<Best<'a>> {
        let fastest = known.iter().map(|device| device.wall(1, bytes)).fold(f32::INFINITY, f32::min);
        let serves = |device: &Device<'_>| self != Learned::Offload || device.wall(1, bytes) <= fastest * PATIENCE;
        let cost = |device: &Device<'_>| {
            if serves(device) { self.cost(device, requests, bytes) } else { f32::INFINITY }
        };
        let (device, time) = known.least(cost)?;
        let all = |reason, expected| Some(Best { device, requests, reason, expected });
        if known.len == 1 {
            return all(Reason::OnlyChoice, time);
        }
        if self == Learned::Offload {
            return all(Reason::LeastCpu, device.wall(requests, bytes));
        }
        if known.rings > 0 && requests > 1 {
            return self.balance(known, requests, bytes);
        }
        let unhindered = known.least(|device| self.cost(device, requests, bytes) - device.ahead)?.0;
        let reason = if unhindered.place == device.place { Reason::Fastest } else { Reason::Busy };
        let whole = all(reason, time - device.ahead)?;
        Some(if known.rings > 0 { whole } else { split(known, whole, bytes) })
    }

    /// Splits the requests into parts for rings and for the calling thread that end at the same moment. Returns the largest part of a ring,
    /// because the ring works while the thread does its own part. Returns the thread's part if no ring gets any.
    fn balance<'a>(self, known: &Known<'a>, requests: usize, bytes: usize) -> Option<Best<'a>> {
        // A pipelined ring that keeps the thread busy for longer than the work itself gets no part.
        let work = known.iter().filter(|device| device.in_thread).map(|device| device.wall(1, bytes));
        let work = work.fold(f32::INFINITY, f32::min);
        let helps = |device: &Device<'_>| !device.is_pipelined || device.costs.estimate(1, bytes).cpu_ns < work;
        let part = |device: &Device<'_>, time: f32| {
            if helps(device) { self.requests_within(device, requests, bytes, time) } else { 0 }
        };
        let enough = |time: f32| {
            let rings = known.iter().filter(|device| !device.in_thread).map(|device| part(device, time)).sum::<usize>();
            let thread = known.iter().filter(|device| device.in_thread).map(|device| part(device, time)).max();
            rings.saturating_add(thread.unwrap_or(0)) >= requests
        };
        // The best device alone could do all requests in this time.
        let mut late = known.least(|device| self.cost(device, requests, bytes))?.1;
        let mut early = 0.0;
        for _ in 0..16 {
            let middle = f32::midpoint(early, late);
            if enough(middle) {
                late = middle;
            } else {
                early = middle;
            }
        }
        // A pipelined ring gets one request more than it can finish by then, so that it does not wait for the thread.
        let reach = |device: &Device<'_>| if device.is_pipelined { late + device.wall(1, bytes) } else { late };
        let largest = |in_thread: bool| {
            let devices = known.iter().filter(|device| device.in_thread == in_thread);
            let parts = devices.map(|device| (device, part(device, reach(device)).min(requests)));
            parts.filter(|(_, part)| *part > 0).max_by_key(|(_, part)| *part)
        };
        let (device, part) = largest(false).or_else(|| largest(true))?;
        let reason = if part < requests { Reason::Split } else { Reason::Fastest };
        Some(Best { device: *device, requests: part, reason, expected: late })
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
        if self == Learned::Offload {
            return device.costs.estimate(requests, bytes).cpu_ns;
        }
        let full = || device.wall(MANY, bytes) / MANY as f32 * requests as f32;
        device.ahead + if device.is_pipelined { full() } else { device.wall(requests, bytes) }
    }
}

/// Returns a device other than the best one if a trial is due, and whether the trial is to be measured.
fn choose_trial<'a>(
    known: &Known<'a>,
    ledger: &Ledger,
    best: &Best<'a>,
    requests: usize,
    bytes: usize,
) -> Option<(Best<'a>, bool)> {
    let make_trial = |device: &Device<'a>, requests| Best {
        device: *device,
        requests,
        reason: Reason::Trial,
        expected: device.wall(requests, bytes),
    };
    let loss = |device: &Device<'a>, requests| device.wall(requests, bytes) - best.device.wall(requests, bytes);
    let is_unconfirmed = |device: &&Device<'a>| device.costs.is_unconfirmed(requests, bytes);
    let check = |device: &Device<'a>, first: bool| {
        let first = first || !device.costs.is_confirmed_anywhere();
        ledger.pay_for_check(first, loss(device, requests)).then_some(requests)
    };
    // Try all requests, or one if all are too expensive.
    let pay = |device: &Device<'a>| {
        [requests, 1].into_iter().find(|requests| ledger.pay_for_trial(device.place, loss(device, *requests)))
    };
    // A device with requests in flight is measured without a trial.
    let others = || known.iter().filter(|device| device.place != best.device.place && device.ahead == 0.0);
    if let Some(warm) = ledger.take_warm()
        && let Some(device) = others().find(|device| device.place == warm)
        && let Some(requests) = if is_unconfirmed(&device) { check(device, true) } else { pay(device) }
    {
        return Some((make_trial(device, requests), true));
    }
    let unconfirmed = || others().filter(is_unconfirmed).find_map(|device| Some((device, check(device, false)?)));
    let most_overdue = || {
        let is_close = |device| loss(device, requests) < best.device.wall(requests, bytes) * CLOSE;
        let ticks = others().filter_map(|device| Some((device, ledger.overdue(device.place, is_close(device))?)));
        let (device, _) = ticks.filter(|(_, ticks)| *ticks >= 0).max_by_key(|(_, ticks)| *ticks)?;
        Some((device, pay(device)?))
    };
    let (device, requests) = unconfirmed().or_else(most_overdue)?;
    let trial = make_trial(device, requests);
    let is_long = trial.expected >= LONG;
    if !is_long {
        ledger.set_warm(device.place);
    }
    Some((trial, is_long))
}

/// Splits requests into full lanes on one device and the rest on another, if that is faster than `whole`. All devices compute in the
/// calling thread.
fn split<'a>(known: &Known<'a>, whole: Best<'a>, bytes: usize) -> Best<'a> {
    let mut best = whole;
    let mut limit = whole.expected * GAIN;
    for device in known.iter() {
        let rest = whole.requests % device.lanes;
        let full = whole.requests - rest;
        if device.lanes == 1 || rest == 0 || full == 0 {
            continue;
        }
        let others = known.iter().filter(|other| other.place != device.place);
        let others = others.map(|other| other.wall(rest, bytes)).fold(f32::INFINITY, f32::min);
        let time = device.wall(full, bytes) + others + PART;
        if time < limit {
            limit = time;
            best = Best { device: *device, requests: full, reason: Reason::Split, expected: device.wall(full, bytes) };
        }
    }
    best
}

/// A decision.
#[derive(Clone, Copy)]
struct Best<'a> {
    device: Device<'a>,
    requests: usize,
    reason: Reason,
    /// Nanoseconds that the requests take.
    expected: f32,
}

impl Best<'_> {
    fn verdict(&self) -> Verdict {
        let Self { device, requests, reason, expected } = *self;
        Verdict { device: device.place, requests, reason, expected: expected.clamp(1.0, 1e9) as u32 }
    }
}

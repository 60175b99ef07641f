//! The memory of the learned policies of a framework: verdicts, and the cost of trials.
//!
//! A request of 16 bytes takes 40 ns, and a well chosen device saves a few of them, so the choice must be almost free. A verdict is stored
//! for each number of requests and class of sizes, and found by one look-up. A verdict does not expire with time. Instead, each thread
//! measures one request after every [`MEASUREMENT_INTERVAL_NS`] of work, compares the devices for it again, and stores the new verdict. So
//! verdicts in heavy use are reviewed soon, and rare ones cost hardly anything.
//!
//! These measurements also pay for trials. Each adds a two-hundredth of its interval to a credit. Once the credit covers the expected loss,
//! a request goes to the device with the most overdue trial. The credit is then corrected by the real loss or gain. A short trial is two
//! requests, because the first one warms up the caches. A device that loses as expected is tried half as often from then on.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "times that fit into 24 bits or need no more"
)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::answer::Route;
use super::candidate::Candidate;
use super::cost::MEASUREMENT_INTERVAL_NS;
use super::meter::{ClockCosts, Meter};
use super::pace::Pace;
use crate::algorithm::{Algorithm, Operation};
use crate::clock::Clock;
use crate::driver::Class;
use crate::stats::{MAX_DEVICES, Reason};

/// The share of each interval that may be spent on trials of devices with higher estimates: one part in this number.
const TRIAL_SHARE: i64 = 200;
/// Maximum credit, in nanoseconds.
const MAX_CREDIT_NS: i64 = 20_000_000;
/// The share of the work that may be lost by the first check of loaded costs of a device: one part in this number.
const FIRST_CHECK_SHARE: f32 = 8.0;
/// The share of the work that may be lost by later checks.
const LATER_CHECK_SHARE: f32 = 32.0;
/// Intervals of work between two trials of a device at first.
const MIN_TRIAL_WAIT: u32 = 8;
/// Intervals of work between two trials of a device that has lost many times (2048 intervals are about a second).
const MAX_TRIAL_WAIT: u32 = 2048;
/// Maximum number of intervals between two trials of a device with nearly the best estimate.
const MAX_CLOSE_TRIAL_WAIT: u32 = 16;
/// Intervals of work for which a batch size stays valid.
const BATCH_SIZE_LIFETIME: u32 = 8;
/// Nanoseconds of work after which a calibration pays. A process that ends earlier never calibrates.
const MIN_CALIBRATION_WORK_NS: u32 = 10_000_000;
/// Minimum nanoseconds of a first request for which reading stored costs pays. Reading them takes about as long.
const MIN_LOADING_WORK_NS: u32 = 100_000;

thread_local! {
    /// The id of a framework, and the nanoseconds that are left of this thread's interval of work for this framework.
    static INTERVAL_LEFT: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// The memory of a framework.
pub(crate) struct Ledgers {
    /// Identifies the framework in [`INTERVAL_LEFT`]: a thread keeps its interval for only one framework at a time.
    id: u32,
    /// The ledger of each algorithm and operation, at the index that `Algorithm::entry_index` returns.
    ledgers: Box<[OnceLock<Box<Ledger>>]>,
    clock_costs: OnceLock<ClockCosts>,
}

/// The memory for one algorithm and operation.
pub(crate) struct Ledger {
    /// A verdict for each number of requests and class of sizes; 0 for none. From the lowest bit: the device plus one (8 bits), the number
    /// of requests (16), the index of the reason (8), and the expected nanoseconds (32).
    verdicts: Box<[AtomicU64]>,
    /// The best batch size of each class of sizes, with the value of `age` when it was stored.
    batch_sizes: Box<[AtomicU64]>,
    /// Intervals of work so far: the time by which trials are scheduled.
    ticks: AtomicU32,
    /// Nanoseconds that trials may lose.
    credit_ns: AtomicI64,
    /// Nanoseconds lost by verifying loaded costs: a check adds its expected loss when it begins, and any further loss when it ends.
    check_loss_ns: AtomicI64,
    pub(super) pace: Pace,
    trials: Box<[TrialSchedule; MAX_DEVICES]>,
    /// The device that has just been warmed up for a trial, plus one.
    warmed_device: AtomicUsize,
    /// Number of devices, counted from the first, whose calibration is over: their unknown costs stay unknown.
    calibrated_devices: AtomicUsize,
}

/// The schedule of a device's trials.
struct TrialSchedule {
    next_tick: AtomicU32,
    wait_ticks: AtomicU32,
}

impl Default for TrialSchedule {
    fn default() -> Self {
        Self { next_tick: AtomicU32::new(MIN_TRIAL_WAIT), wait_ticks: AtomicU32::new(MIN_TRIAL_WAIT) }
    }
}

impl Ledgers {
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        let ledgers = (0..Algorithm::ENTRY_COUNT).map(|_| OnceLock::new()).collect();
        Self { id: NEXT_ID.fetch_add(1, Relaxed), ledgers, clock_costs: OnceLock::new() }
    }

    #[inline]
    pub(crate) fn ledger(&self, algorithm: Algorithm, operation: Operation) -> &Ledger {
        self.ledgers[algorithm.entry_index(operation)].get_or_init(Box::default)
    }

    /// Counts work of this thread. Returns whether a measurement is due.
    #[inline]
    pub(crate) fn count_work(&self, expected_ns: u32) -> bool {
        INTERVAL_LEFT.with(|cell| {
            let (id, left) = cell.get();
            if id == self.id && left > expected_ns {
                cell.set((id, left - expected_ns));
                return false;
            }
            cell.set((self.id, MEASUREMENT_INTERVAL_NS));
            true
        })
    }

    /// Makes the next request of this thread due for a measurement, too.
    pub(crate) fn measure_next(&self) {
        INTERVAL_LEFT.set((self.id, 0));
    }

    /// Returns the clock that measures a device.
    pub(crate) fn meter(&self, clock: &dyn Clock, class: Class, synchronous: bool) -> Meter {
        self.clock_costs.get_or_init(|| ClockCosts::new(clock)).meter(class, synchronous)
    }
}

/// A stored route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) device: usize,
    pub(crate) requests: usize,
    pub(crate) reason: Reason,
    /// Nanoseconds that the requests are expected to take.
    pub(crate) expected_ns: u32,
}

/// Largest batch for which verdicts are stored. A larger batch can afford an evaluation.
const MAX_VERDICT_REQUESTS: usize = 64;
/// Classes of sizes: eight for each doubling from 8 bytes to 2 MiB. Larger sizes are in the last class.
const SIZE_CLASSES: usize = 8 * 18;

/// Returns the class of a size. Sizes of the same class differ by an eighth at most.
#[inline]
fn size_class(bytes: usize) -> usize {
    let bytes = bytes.clamp(8, (1 << 21) - 1);
    let octave = bytes.ilog2() as usize;
    (octave - 3) * 8 + (bytes >> (octave - 3) & 7)
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            // The allocator usually gets these zeros from the system. A page that is never used then takes no memory.
            verdicts: vec![0; MAX_VERDICT_REQUESTS * SIZE_CLASSES].into_iter().map(AtomicU64::new).collect(),
            batch_sizes: (0..SIZE_CLASSES).map(|_| AtomicU64::default()).collect(),
            ticks: AtomicU32::new(0),
            credit_ns: AtomicI64::new(0),
            check_loss_ns: AtomicI64::new(0),
            pace: Pace::default(),
            trials: Box::new(std::array::from_fn(|_| TrialSchedule::default())),
            warmed_device: AtomicUsize::new(0),
            calibrated_devices: AtomicUsize::new(0),
        }
    }
}

impl Ledger {
    #[inline]
    fn verdict_cell(&self, requests: usize, bytes: usize) -> Option<&AtomicU64> {
        (requests <= MAX_VERDICT_REQUESTS).then(|| &self.verdicts[(requests - 1) * SIZE_CLASSES + size_class(bytes)])
    }

    /// Returns the last verdict for this number and size of requests.
    #[inline]
    pub(crate) fn verdict(&self, requests: usize, bytes: usize) -> Option<Verdict> {
        let packed = self.verdict_cell(requests, bytes)?.load(Relaxed);
        let reason = *VERDICT_REASONS.get((packed >> 24 & 0xff) as usize)?;
        let device = (packed & 0xff).checked_sub(1)? as usize;
        Some(Verdict { device, requests: (packed >> 8 & 0xffff) as usize, reason, expected_ns: (packed >> 32) as u32 })
    }

    pub(crate) fn remember(&self, requests: usize, bytes: usize, verdict: Verdict) {
        let Verdict { device, requests: part, reason, expected_ns } = verdict;
        let reason = VERDICT_REASONS.iter().position(|known| *known == reason);
        if let (Some(cell), Some(reason), 0..255) = (self.verdict_cell(requests, bytes), reason, device) {
            let packed =
                (device as u64 + 1) | (part as u64) << 8 | (reason as u64) << 24 | u64::from(expected_ns) << 32;
            if cell.load(Relaxed) != packed {
                cell.store(packed, Relaxed);
            }
        }
    }

    /// Returns the best batch size for requests of this size, if it was computed recently.
    #[inline]
    pub(crate) fn batch_size(&self, bytes: usize) -> Option<usize> {
        let packed = self.batch_sizes[size_class(bytes)].load(Relaxed);
        let is_fresh = packed >> 16 == u64::from(self.age());
        (is_fresh && packed != 0).then_some((packed & 0xffff) as usize)
    }

    pub(crate) fn remember_batch_size(&self, bytes: usize, requests: usize) {
        let packed = requests.min(0xffff) as u64 | u64::from(self.age()) << 16;
        self.batch_sizes[size_class(bytes)].store(packed, Relaxed);
    }

    /// Returns a number that changes after every [`BATCH_SIZE_LIFETIME`] intervals of work.
    fn age(&self) -> u16 {
        (self.ticks.load(Relaxed) / BATCH_SIZE_LIFETIME) as u16
    }

    /// Stores the measured time of this number and size of requests. Until the next evaluation, this time counts as the work of such
    /// requests.
    #[allow(clippy::cast_sign_loss, reason = "from 1 on")]
    pub(crate) fn update_expected(&self, requests: usize, bytes: usize, wall_ns: f32) {
        if let Some(verdict) = self.verdict(requests, bytes) {
            self.remember(requests, bytes, Verdict { expected_ns: wall_ns.clamp(1.0, 1e9) as u32, ..verdict });
        }
    }

    /// Lets the devices be measured again, because the stored costs are wrong.
    pub(crate) fn reset(&self) {
        self.calibrated_devices.store(0, Relaxed);
        self.check_loss_ns.store(0, Relaxed);
        self.forget_verdicts();
    }

    /// Forgets all verdicts and batch sizes, because the costs have changed.
    pub(crate) fn forget_verdicts(&self) {
        for verdict in self.verdicts.iter().chain(&self.batch_sizes) {
            verdict.store(0, Relaxed);
        }
    }

    /// Counts work that is done: an interval, or one request that takes longer.
    pub(crate) fn tick(&self, expected_ns: u32) {
        let work = expected_ns.max(MEASUREMENT_INTERVAL_NS);
        let credit = self.credit_ns.load(Relaxed) + i64::from(work) / TRIAL_SHARE;
        self.credit_ns.store(credit.min(MAX_CREDIT_NS), Relaxed);
        self.ticks.fetch_add(work / MEASUREMENT_INTERVAL_NS, Relaxed);
    }

    /// Returns whether reading the costs of earlier processes pays after the work so far and the next request. It never does for a program
    /// that makes one short request.
    pub(crate) fn loading_pays(&self, next_ns: u32) -> bool {
        self.ticks.load(Relaxed) != 0 || next_ns >= MIN_LOADING_WORK_NS
    }

    /// Returns whether a calibration pays after the work so far.
    pub(crate) fn calibration_pays(&self) -> bool {
        self.ticks.load(Relaxed) >= MIN_CALIBRATION_WORK_NS / MEASUREMENT_INTERVAL_NS
    }

    /// Returns whether the unknown costs of these candidates stay unknown.
    pub(crate) fn is_calibration_over(&self, candidates: &[Candidate]) -> bool {
        candidates.last().is_none_or(|last| self.is_calibration_over_for(last.device + 1))
    }

    /// Returns whether the unknown costs of the first `devices` devices of the framework stay unknown.
    pub(crate) fn is_calibration_over_for(&self, devices: usize) -> bool {
        devices <= self.calibrated_devices.load(Relaxed)
    }

    /// Ends the calibration of the first `devices` devices: unknown costs stay unknown.
    pub(crate) fn end_calibration(&self, devices: usize) {
        self.calibrated_devices.fetch_max(devices, Relaxed);
    }

    /// Returns the ticks since the trial of a device was due; negative if it is not yet due. `is_close`: the device has nearly the best
    /// estimate, so that a trial costs little.
    pub(crate) fn overdue(&self, device: usize, is_close: bool) -> Option<i32> {
        let trial = self.trials.get(device)?;
        let early = if is_close { trial.wait_ticks.load(Relaxed).saturating_sub(MAX_CLOSE_TRIAL_WAIT) } else { 0 };
        Some(self.ticks.load(Relaxed).wrapping_add(early).wrapping_sub(trial.next_tick.load(Relaxed)) as i32)
    }

    /// Returns the device that was warmed up since the last call, if any.
    pub(crate) fn take_warmed_device(&self) -> Option<usize> {
        if self.warmed_device.load(Relaxed) == 0 { None } else { self.warmed_device.swap(0, Relaxed).checked_sub(1) }
    }

    pub(crate) fn set_warmed_device(&self, device: usize) {
        self.warmed_device.store(device + 1, Relaxed);
    }

    /// Makes trials of all devices due now, because estimates have changed.
    pub(crate) fn hasten_trials(&self) {
        let now = self.ticks.load(Relaxed);
        for trial in &*self.trials {
            trial.wait_ticks.store(MIN_TRIAL_WAIT, Relaxed);
            trial.next_tick.store(now, Relaxed);
        }
    }

    /// Pays for a trial of `device`, if the credit suffices.
    pub(crate) fn try_pay_for_trial(&self, device: usize, loss_ns: f32) -> bool {
        let Some(trial) = self.trials.get(device) else { return false };
        let credit = self.credit_ns.load(Relaxed);
        let loss = loss_ns.max(0.0) as i64;
        if loss > credit {
            return false;
        }
        self.credit_ns.store(credit - loss, Relaxed);
        let wait = trial.wait_ticks.load(Relaxed).clamp(MIN_TRIAL_WAIT, MAX_TRIAL_WAIT);
        trial.next_tick.store(self.ticks.load(Relaxed).wrapping_add(wait), Relaxed);
        true
    }

    /// Returns whether the work so far allows a loss of `loss_ns` to verify the stored costs of a device. If so, counts the loss.
    pub(crate) fn try_pay_for_check(&self, first: bool, loss_ns: f32) -> bool {
        let work = self.ticks.load(Relaxed) as f32 * MEASUREMENT_INTERVAL_NS as f32;
        let lost = self.check_loss_ns.load(Relaxed) as f32 + loss_ns.max(0.0);
        let pays = self.calibration_pays() && lost * if first { FIRST_CHECK_SHARE } else { LATER_CHECK_SHARE } <= work;
        if pays {
            self.count_loss(loss_ns);
        }
        pays
    }

    /// Adds `ns` to the loss from verifying loaded costs; a gain is ignored.
    pub(crate) fn count_loss(&self, ns: f32) {
        self.check_loss_ns.fetch_add(ns.max(0.0) as i64, Relaxed);
    }

    /// Records the end of a trial that was expected to take `expected_ns` nanoseconds, and took `wall_ns`.
    pub(crate) fn record_trial(&self, device: usize, expected_ns: f32, wall_ns: f32) {
        let Some(trial) = self.trials.get(device) else { return };
        let credit = self.credit_ns.load(Relaxed) + (expected_ns - wall_ns) as i64;
        self.credit_ns.store(credit.min(MAX_CREDIT_NS), Relaxed);
        let wait = trial.wait_ticks.load(Relaxed).clamp(MIN_TRIAL_WAIT, MAX_TRIAL_WAIT);
        let wait = if wall_ns < expected_ns * 0.9 { MIN_TRIAL_WAIT } else { (wait * 2).min(MAX_TRIAL_WAIT) };
        trial.wait_ticks.store(wait, Relaxed);
        trial.next_tick.store(self.ticks.load(Relaxed).wrapping_add(wait), Relaxed);
    }
}

impl Verdict {
    #[inline]
    pub(crate) fn route(self) -> Route {
        let Self { device, requests, reason, .. } = self;
        Route { device, requests, reason, measure: false }
    }
}

/// Reasons that a verdict may have.
const VERDICT_REASONS: [Reason; 4] = [Reason::OnlyChoice, Reason::Fastest, Reason::Split, Reason::LeastCpu];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_class_differ_by_an_eighth_at_most() {
        let mut last = 0;
        let mut first = 0;
        for bytes in 0..2_200_000 {
            let now = size_class(bytes);
            assert!((last..SIZE_CLASSES).contains(&now), "{bytes}");
            if now != last {
                (last, first) = (now, bytes);
            }
            assert!(bytes <= 8 || bytes >= 1 << 21 || bytes * 8 <= first * 9, "{first} and {bytes} in one class");
        }
        assert_eq!(size_class(usize::MAX), SIZE_CLASSES - 1);
    }

    #[test]
    fn verdicts_round_trip() {
        let ledger = Ledger::default();
        assert_eq!(ledger.verdict(17, 1024), None);
        let verdict = Verdict { device: 3, requests: 16, reason: Reason::Split, expected_ns: 123_456 };
        ledger.remember(17, 1024, verdict);
        assert_eq!(ledger.verdict(17, 1030), Some(verdict), "of the same class");
        assert_eq!(ledger.verdict(16, 1024), None);
        ledger.remember(65, 1024, verdict);
        assert_eq!(ledger.verdict(65, 1024), None, "too many to remember");
        ledger.remember(1, 1, Verdict { device: 255, ..verdict });
        assert_eq!(ledger.verdict(1, 1), None);
        ledger.forget_verdicts();
        assert_eq!(ledger.verdict(17, 1024), None);
    }

    #[test]
    fn a_thread_measures_once_in_an_interval_of_its_work() {
        let ledgers = Ledgers::new();
        assert!(ledgers.count_work(40), "the first time");
        let between = (0..10_000_000).take_while(|_| !ledgers.count_work(40)).count();
        assert!((between + 1).abs_diff(MEASUREMENT_INTERVAL_NS as usize / 40) <= 1, "{between}");
        assert!(
            ledgers.count_work(MEASUREMENT_INTERVAL_NS) && ledgers.count_work(u32::MAX),
            "requests of this length are always measured"
        );
        let other = Ledgers::new();
        assert!(other.count_work(40), "frameworks do not count for each other");
    }

    #[test]
    fn trials_cost_at_most_their_share() {
        let ledger = Ledger::default();
        let (mut work, mut lost) = (0.0, 0.0);
        for _ in 0..200_000 {
            ledger.tick(1);
            work += MEASUREMENT_INTERVAL_NS as f32;
            // Each trial takes much longer than expected.
            if ledger.overdue(1, false).unwrap() >= 0 && ledger.try_pay_for_trial(1, 5000.0) {
                ledger.record_trial(1, 15_000.0, 105_000.0);
                lost += 95_000.0;
            }
        }
        assert!(lost > 0.0 && lost / work <= 0.005 + 95_000.0 / work, "{lost} of {work}");
    }

    #[test]
    fn losing_devices_are_tried_less_often_than_winning_ones() {
        let ledger = Ledger::default();
        let trials = |expected_ns: f32, wall_ns: f32| {
            let mut made = 0;
            for _ in 0..10_000 {
                ledger.tick(1);
                if ledger.overdue(0, false).unwrap() >= 0 && ledger.try_pay_for_trial(0, 100.0) {
                    ledger.record_trial(0, expected_ns, wall_ns);
                    made += 1;
                }
            }
            made
        };
        let losing = trials(1000.0, 1000.0);
        assert!((5..20).contains(&losing), "{losing}");
        assert!(trials(1000.0, 500.0) > 500);
        assert_eq!(ledger.overdue(MAX_DEVICES, true), None);
        assert!(!ledger.try_pay_for_trial(MAX_DEVICES, 0.0));
    }
}

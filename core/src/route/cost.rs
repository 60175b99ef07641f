//! The costs of a device for one algorithm and operation, as far as they are known.
//!
//! The model is a table of times. Its rows are numbers of requests side by side, and its columns are bytes in each request. Times are
//! linear between the cells and beyond the last. A formula (setup time, time per byte, lanes) would be shorter, but wrong. One device with
//! 16 lanes takes as long for 17 requests as for 32, and another has a separate loop for the last requests. Large requests exceed the
//! caches.
//!
//! Many threads read the table, and writes are rare. So it consists of relaxed atomics: no lock, and no cache line that moves between CPUs
//! for each request. If two threads learn at the same moment, one of the two measurements may be lost.
//!
//! The machine does other work, too: one measurement in a hundred may be a thousand times too long. A measurement therefore moves the
//! table by a small step in its direction, regardless of its distance, as in a running median. Steps grow after 16 in the same direction. A
//! device that differs from its estimates by more than a quarter during 32 ms of work has changed as a whole, for example in its clock or
//! its load. Then one factor changes all cells, including those without measurements, by half of the smallest of these differences.
//!
//! Costs of an earlier process are compared with the first requests that use them, cell by cell. They are discarded and measured again if
//! 32 ms of work contradict them, or if one trial is faster by a quarter.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "times and sizes that fit into 24 bits or need no more"
)]

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libm::{exp2f, expf, logf};

use super::measured::Measured;
use super::pace::{CLOCK_RESOLUTION_NS, IGNORED_DIFFERENCE};
use super::record::CostCell;
use super::table::{REQUESTS, SharedF32, Table, TablePosition};

/// Nanoseconds of a thread's work between two measurements. A measurement takes about 200 ns, so more of them would be affordable. But then
/// a machine that is slow for a moment would change the table too soon.
pub(super) const MEASUREMENT_INTERVAL_NS: u32 = 500_000;

/// The estimated time of a device for requests that it gets together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Nanoseconds until all requests are done, if nothing else is in the device.
    pub wall_ns: f32,
    /// The part of these nanoseconds that the calling thread spends.
    pub cpu_ns: f32,
}

/// A measurement that differs from its estimate by more than this share may mean that the device has changed as a whole, or that loaded
/// costs are invalid.
const MIN_CHANGE: f32 = 0.25;
/// Minimum nanoseconds of work that show such a change: other programs occasionally slow the machine for some milliseconds.
const MIN_EVIDENCE_NS: f32 = 32e6;
/// Minimum number of measurements that show such a change.
const MIN_EVIDENCE_MEASUREMENTS: i32 = 4;
/// A trial that takes less than this share of the loaded cost contradicts it, because no disturbance makes a device faster.
const CONTRADICTING_SHARE: f32 = 0.75;
/// A trial that takes less than this share of the loaded cost, but does not contradict it, lowers it. A longer trial is compared with the
/// cost like any other measurement.
const CONFIRMING_SHARE: f32 = 0.95;

/// The conclusion from one measurement about a device as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DeviceChange {
    None,
    /// The times of all devices that compute on the CPU have changed by this factor.
    CpuSpeed(f32),
    /// The times of the device have changed by this factor.
    DeviceSpeed(f32),
    /// The loaded costs do not hold.
    LoadedCostsWrong,
}

/// The costs of one device for one algorithm and operation.
pub struct Costs {
    is_known: AtomicBool,
    /// The measurements from which the tables are made.
    measured: Mutex<Option<Arc<Measured>>>,
    /// The costs come from an earlier process or from the caller.
    is_loaded: AtomicBool,
    /// A bit mask for each row: bit `n` is set if this process has confirmed the cell in column `n`.
    confirmed: [AtomicU32; REQUESTS.len()],
    /// Nanoseconds of work that contradicted the loaded costs since work last confirmed them.
    contradicting_ns: SharedF32,
    wall: Table,
    /// The times of the calling thread. Only for devices that work in parallel to it.
    cpu: OnceLock<Box<Table>>,
    /// The factor by which the times of all cells in `wall` are multiplied.
    drift: SharedF32,
    /// Number of consecutive measurements above (positive) or below (negative) the estimate.
    run_length: AtomicI32,
    /// The smallest error of these measurements, as a natural logarithm. All of them deviate at least this much.
    min_run_error: SharedF32,
    /// Nanoseconds of work that these measurements represent.
    run_ns: SharedF32,
}

impl Costs {
    pub(crate) fn unknown() -> Self {
        Self {
            is_known: AtomicBool::new(false),
            measured: Mutex::default(),
            is_loaded: AtomicBool::new(false),
            confirmed: Default::default(),
            contradicting_ns: SharedF32::new(0.0),
            wall: Table::default(),
            cpu: OnceLock::new(),
            drift: SharedF32::new(1.0),
            run_length: AtomicI32::new(0),
            min_run_error: SharedF32::new(0.0),
            run_ns: SharedF32::new(0.0),
        }
    }

    /// Returns whether an estimate is possible.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.is_known.load(Relaxed)
    }

    /// Estimates the cost of `requests` requests of `bytes` bytes each. Meaningless while the costs are not [known](Self::is_known).
    #[inline]
    pub fn estimate(&self, requests: usize, bytes: usize) -> Estimate {
        let position = TablePosition::new(requests, bytes);
        let wall_ns = self.wall.read(position) * self.drift.get();
        Estimate { wall_ns, cpu_ns: self.cpu.get().map_or(wall_ns, |cpu| cpu.read(position)) }
    }

    /// Returns the change of the whole device since its calibration: 2 means that the device is half as fast.
    pub fn drift(&self) -> f32 {
        self.drift.get()
    }

    /// Takes over a calibration of this process, or a loaded one. `synchronous`: the device computes in the calling thread.
    pub(crate) fn set(&self, measured: Measured, synchronous: bool, loaded: bool) {
        self.wall.set(&measured.wall());
        if !synchronous {
            self.cpu.get_or_init(Box::default).set(&measured.cpu());
        }
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(measured));
        self.confirmed.iter().for_each(|row| row.store(0, Relaxed));
        self.is_loaded.store(loaded, Relaxed);
        self.contradicting_ns.set(0.0);
        self.drift.set(1.0);
        self.run_length.store(0, Relaxed);
        self.is_known.store(true, Relaxed);
    }

    /// Discards loaded costs.
    pub(crate) fn forget_loaded(&self) {
        if self.is_loaded.swap(false, Relaxed) {
            self.is_known.store(false, Relaxed);
        }
    }

    /// Returns the measurements, without later corrections by requests.
    pub(crate) fn measured(&self) -> Option<Arc<Measured>> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|_| self.is_known())
    }

    /// Returns whether the estimate for this number and size of requests relies on loaded costs alone.
    #[inline]
    pub(crate) fn is_unconfirmed(&self, requests: usize, bytes: usize) -> bool {
        self.is_loaded.load(Relaxed) && {
            let (row, column) = TablePosition::new(requests, bytes).nearest();
            self.confirmed[row].load(Relaxed) >> column & 1 == 0
        }
    }

    /// Returns whether any estimate is confirmed.
    pub(crate) fn is_confirmed_anywhere(&self) -> bool {
        self.confirmed.iter().any(|row| row.load(Relaxed) != 0)
    }

    /// Returns the measured cell that is nearest to this number and size of requests, and the time of its measurement, in seconds since
    /// 1970.
    pub fn basis(&self, requests: usize, bytes: usize) -> Option<(CostCell, u64)> {
        let measured = self.measured()?;
        Some((*measured.nearest(requests, bytes)?, measured.measured_at))
    }

    /// Learns from a measurement below the estimate, with a large weight: no disturbance makes a device faster.
    pub(crate) fn learn_faster(&self, requests: usize, bytes: usize, wall_ns: f32) {
        let position = TablePosition::new(requests, bytes);
        let share = wall_ns / (self.wall.read(position) * self.drift.get());
        if self.is_known() && share > 0.0 && share < 1.0 {
            // Goes half of the way, on a logarithmic scale, but at most to half of the time.
            self.wall.scale(position, share.max(0.25).sqrt() - 1.0);
        }
    }

    /// Learns from a trial of requests whose estimate is not confirmed.
    pub(crate) fn learn_unconfirmed(&self, requests: usize, bytes: usize, wall_ns: f32) -> DeviceChange {
        // Leaves out a drift above 1: a CPU that was slow and has recovered does not contradict the costs.
        let share = wall_ns / self.estimate(requests, bytes).wall_ns * self.drift().max(1.0);
        if share < CONTRADICTING_SHARE {
            return DeviceChange::LoadedCostsWrong;
        }
        if share < CONFIRMING_SHARE {
            self.learn_faster(requests, bytes, wall_ns);
            return DeviceChange::None;
        }
        self.compare_with_loaded(requests, bytes, wall_ns)
    }

    /// Learns from a measurement of `requests` requests of `bytes` bytes each. `cpu_ns` is the thread's own time, if it was measured
    /// separately.
    pub(crate) fn learn(&self, requests: usize, bytes: usize, wall_ns: f32, cpu_ns: Option<f32>) -> DeviceChange {
        /// Maximum relative step of the thread's time. This time has no drift.
        const MAX_CPU_STEP: f32 = 0.02;
        /// Consecutive measurements after which steps grow.
        const MIN_GROWING_RUN: i32 = 16;

        if !(self.is_known() && wall_ns > 0.0 && wall_ns.is_finite()) {
            return DeviceChange::None;
        }
        let position = TablePosition::new(requests, bytes);
        if let (Some(cpu), Some(cpu_ns)) = (self.cpu.get(), cpu_ns) {
            let error = logf(cpu_ns.max(1.0) / cpu.read(position));
            if error.abs() > IGNORED_DIFFERENCE {
                cpu.scale(position, MAX_CPU_STEP.min(error.abs() / 2.0).copysign(error));
            }
        }
        if self.is_unconfirmed(requests, bytes) {
            return self.compare_with_loaded(requests, bytes, wall_ns);
        }
        let estimate = self.wall.read(position) * self.drift.get();
        let error = logf(wall_ns / estimate);
        let last_run = self.run_length.load(Relaxed);
        if error.abs() < IGNORED_DIFFERENCE.max(CLOCK_RESOLUTION_NS / estimate) {
            if last_run != 0 {
                self.run_length.store(0, Relaxed);
            }
            return DeviceChange::None;
        }
        let direction = if error > 0.0 { 1 } else { -1 };
        // A large error does not continue a run of small ones, nor the other way round.
        let continues_run =
            last_run.signum() == direction && (error.abs() > MIN_CHANGE) == (self.min_run_error.get() > MIN_CHANGE);
        let run = if continues_run { last_run + direction } else { direction };
        let min_run_error = if continues_run { error.abs().min(self.min_run_error.get()) } else { error.abs() };
        let work = wall_ns.min(10.0 * estimate).max(MEASUREMENT_INTERVAL_NS as f32);
        let run_ns = work + if continues_run { self.run_ns.get() } else { 0.0 };
        self.min_run_error.set(min_run_error);
        self.run_ns.set(run_ns);
        // If the whole device may have changed, the drift will follow, so the cells take only half a step.
        let grown = if min_run_error > MIN_CHANGE {
            0.5
        } else {
            exp2f((run.abs() - MIN_GROWING_RUN).clamp(0, 24) as f32 / 8.0)
        };
        let step = (0.005 * grown).min(error.abs() / 2.0);
        let step = step * direction as f32;
        self.wall.scale(position, step);
        if run.abs() >= MIN_EVIDENCE_MEASUREMENTS && run_ns >= MIN_EVIDENCE_NS && min_run_error > MIN_CHANGE {
            // One of the measurements may be a thousand times too long, but not all of them.
            let factor = expf(min_run_error / 2.0 * direction as f32);
            self.drift_by(factor);
            return DeviceChange::DeviceSpeed(factor);
        }
        self.run_length.store(run.clamp(-99, 99), Relaxed);
        DeviceChange::None
    }

    /// Compares a measurement with the loaded costs. A single similar measurement confirms the nearest cell. At least four dissimilar ones
    /// in a row, with 32 ms of work, contradict all loaded costs.
    fn compare_with_loaded(&self, requests: usize, bytes: usize, wall_ns: f32) -> DeviceChange {
        let (estimate, drift) = (self.estimate(requests, bytes).wall_ns, self.drift());
        let min = estimate / drift.max(1.0) / (1.0 + MIN_CHANGE) - CLOCK_RESOLUTION_NS;
        let max = estimate / drift.min(1.0) * (1.0 + MIN_CHANGE) + CLOCK_RESOLUTION_NS;
        if (min..max).contains(&wall_ns) {
            let (row, column) = TablePosition::new(requests, bytes).nearest();
            self.confirmed[row].fetch_or(1 << column, Relaxed);
            self.contradicting_ns.set(0.0);
            return DeviceChange::None;
        }
        // A thread that computes itself works for an interval between two measurements, so each of them counts as at least an interval.
        let min = if self.cpu.get().is_some() { 0.0 } else { MEASUREMENT_INTERVAL_NS as f32 };
        let contradicting_ns =
            self.contradicting_ns.get() + wall_ns.clamp(min, MIN_EVIDENCE_NS / MIN_EVIDENCE_MEASUREMENTS as f32);
        self.contradicting_ns.set(contradicting_ns);
        if contradicting_ns >= MIN_EVIDENCE_NS { DeviceChange::LoadedCostsWrong } else { DeviceChange::None }
    }

    /// Resets the drift: the device is as fast as it was at its calibration.
    pub(crate) fn reset_drift(&self) {
        self.drift.set(1.0);
    }

    /// Multiplies the drift: the device has changed as a whole.
    pub(crate) fn drift_by(&self, factor: f32) {
        self.drift.set((self.drift.get() * factor).clamp(1e-4, 1e4));
        self.run_length.store(0, Relaxed);
    }
}

impl fmt::Debug for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Costs").field("known", &self.is_known()).field("drift", &self.drift()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::float_cmp, reason = "untouched values are exactly the same")]

    use super::super::table::BYTES;
    use super::*;

    /// Makes a measured table from a formula for the time until requests are done, and for the time of the thread.
    pub(crate) fn measured(formula: impl Fn(f32, f32) -> (f32, f32)) -> Measured {
        let cell = |requests: usize, bytes: usize| {
            let (wall_ns, cpu_ns) = formula(requests as f32, bytes as f32);
            CostCell { requests, bytes, measurements: 5, wall_ns, cpu_ns }
        };
        let cells = REQUESTS.iter().flat_map(|requests| BYTES.map(|bytes| cell(*requests, bytes)));
        Measured::new(cells.collect(), 5).unwrap()
    }

    pub(crate) fn costs(formula: impl Fn(f32, f32) -> f32) -> Costs {
        let costs = Costs::unknown();
        costs.set(measured(|requests, bytes| (formula(requests, bytes), formula(requests, bytes))), true, false);
        costs
    }

    fn is_near(a: f32, b: f32) -> bool {
        (a / b - 1.0).abs() < 0.03
    }

    #[test]
    fn estimates_are_linear_between_cells_and_beyond() {
        let costs = costs(|requests, bytes| requests * (100.0 + bytes));
        for (requests, bytes, time) in [
            (1, 16, 116.0),
            (1, 0, 100.0),
            (1, 1500, 1600.0),
            (7, 100, 1400.0),
            (9, 65_536, 590_724.0),
            (64, 1_000_000, 64_006_400.0),
            (640, 16, 74_240.0),
        ] {
            let estimate = costs.estimate(requests, bytes);
            assert!(is_near(estimate.wall_ns, time), "{requests} x {bytes}: {estimate:?}, not {time}");
            assert_eq!(estimate.cpu_ns, estimate.wall_ns, "in the calling thread both times are the same");
        }
    }

    #[test]
    fn ignores_invalid_measurements_and_clamps_sizes() {
        let costs = costs(|_, bytes| 10.0 + 10.0 * bytes);
        assert!(costs.estimate(0, 0).wall_ns > 0.0);
        assert!(costs.estimate(usize::MAX, usize::MAX).wall_ns.is_finite());
        let before = costs.estimate(1, 64);
        for wall in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            costs.learn(1, 64, wall, None);
        }
        assert_eq!(costs.estimate(1, 64), before);
        let unknown = Costs::unknown();
        unknown.learn(1, 64, 5.0, None);
        assert!(!unknown.is_known(), "one cell is no table");
    }

    #[test]
    fn measurements_change_nearby_cells_only() {
        let costs = costs(|_, _| 100_000.0);
        for _ in 0..100 {
            costs.learn(16, 1024, 120_000.0, None);
        }
        assert!(is_near(costs.estimate(16, 1024).wall_ns, 120_000.0), "{:?}", costs.estimate(16, 1024));
        assert!(is_near(costs.estimate(1, 64).wall_ns, 100_000.0));
        assert!(is_near(costs.drift(), 1.0));
    }

    #[test]
    fn one_interruption_in_ten_changes_nothing() {
        let costs = costs(|_, _| 1000.0);
        for sample in 0..1000 {
            let wall = if sample % 10 == 3 { 4_000_000.0 } else { 1000.0 };
            costs.learn(4, 256, wall, None);
        }
        assert!((costs.estimate(4, 256).wall_ns / 1000.0 - 1.0).abs() < 0.05, "{:?}", costs.estimate(4, 256));
    }

    #[test]
    fn a_short_slowdown_with_an_interruption_does_not_change_the_drift() {
        let costs = costs(|_, _| 1000.0);
        for sample in 0..40 {
            let wall = if sample % 8 == 7 { 9_000_000.0 } else { 1400.0 };
            costs.learn(4, 256, wall, None);
        }
        assert!(costs.estimate(4, 256).wall_ns < 1700.0, "{costs:?}");
    }

    #[test]
    fn a_single_measurement_only_lowers_the_estimate() {
        let costs = costs(|_, _| 1000.0);
        costs.learn_faster(4, 256, 4000.0);
        assert_eq!(costs.estimate(4, 256).wall_ns, 1000.0);
        costs.learn_faster(4, 256, 640.0);
        assert!(is_near(costs.estimate(4, 256).wall_ns, 800.0));
    }

    #[test]
    fn a_slowdown_scales_all_cells_until_the_device_recovers() {
        let costs = costs(|requests, bytes| 500.0 + requests * bytes);
        for (factor, at_most) in [(10.0, 600), (1.0, 600)] {
            let true_time = |requests: f32, bytes: f32| factor * (500.0 + requests * bytes);
            let mut samples = 0;
            while !is_near(costs.estimate(8, 4096).wall_ns, true_time(8.0, 4096.0)) {
                costs.learn(8, 4096, true_time(8.0, 4096.0), None);
                samples += 1;
                assert!(samples < at_most, "{:?}", costs.estimate(8, 4096));
            }
            let elsewhere = costs.estimate(1, 64).wall_ns / true_time(1.0, 64.0);
            assert!((0.5..2.0).contains(&elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn ignores_differences_below_the_resolution_of_the_clock() {
        let costs = costs(|_, _| 50.0);
        for _ in 0..100 {
            costs.learn(1, 16, 70.0, None);
        }
        assert_eq!(costs.estimate(1, 16).wall_ns, 50.0);
    }

    #[test]
    fn learns_the_cpu_time_of_rings_separately() {
        let costs = Costs::unknown();
        costs.set(measured(|_, _| (100_000.0, 2000.0)), false, false);
        for _ in 0..200 {
            costs.learn(1, 1024, 100_000.0, Some(3000.0));
            costs.learn(1, 1024, 110_000.0, Some(3000.0));
        }
        let Estimate { wall_ns, cpu_ns } = costs.estimate(1, 1024);
        assert!((95_000.0..115_000.0).contains(&wall_ns) && is_near(cpu_ns, 3000.0), "{wall_ns} {cpu_ns}");
    }

    #[test]
    fn loaded_costs_are_confirmed_cell_by_cell() {
        let costs = costs(|requests, bytes| requests * (1000.0 + bytes));
        assert!(!costs.is_unconfirmed(1, 64), "this process has measured it");
        costs.is_loaded.store(true, Relaxed);
        assert!(costs.is_unconfirmed(1, 64) && costs.is_unconfirmed(8, 4096) && !costs.is_confirmed_anywhere());
        assert_eq!(costs.learn(1, 64, 1100.0, None), DeviceChange::None);
        assert_eq!(costs.learn_unconfirmed(8, 4096, 50_000.0), DeviceChange::None);
        assert!(!costs.is_unconfirmed(1, 64) && !costs.is_unconfirmed(8, 4096) && costs.is_unconfirmed(8, 64));
        assert_eq!(costs.learn_unconfirmed(8, 64, 8000.0), DeviceChange::None);
        assert!(costs.is_unconfirmed(8, 64) && is_near(costs.estimate(8, 64).wall_ns, 8260.0), "{costs:?}");
        assert_eq!(costs.learn_unconfirmed(1, 16, 700.0), DeviceChange::LoadedCostsWrong);
        costs.forget_loaded();
        assert!(!costs.is_known() && costs.measured().is_none());
    }

    #[test]
    fn only_sustained_deviation_contradicts_loaded_costs() {
        let costs = costs(|_, bytes| 1000.0 + bytes);
        costs.is_loaded.store(true, Relaxed);
        let learn_outlier = |_| costs.learn(1, 64, 9_000_000.0, None);
        assert_eq!((0..3).map(learn_outlier).collect::<Vec<_>>(), [DeviceChange::None; 3]);
        costs.learn(1, 64, 1064.0, None);
        let slower = |_| costs.learn(1, 4096, 8000.0, None);
        let needed = (1..200).find(|sample| slower(*sample) == DeviceChange::LoadedCostsWrong);
        assert_eq!(needed, Some(64), "32 ms");
    }
}

//! What a device costs for one algorithm and operation, as far as it is known.
//!
//! The model is a table over requests side by side and bytes in each, linear in between and beyond. A formula (setup time,
//! time per byte, lanes) would be shorter and wrong where it matters: a device with 16 lanes needs as long for 17 requests
//! as for 32, a kernel has another loop for the last few, and the caches end somewhere. The table takes devices as they are.
//!
//! Every route reads it and hardly anybody writes it, so it consists of relaxed atomics: no lock, and no cache line that
//! travels between CPUs per request. Two threads that learn at the same moment may lose one of two measurements.
//!
//! Measurements come from a machine that does other things too: one in a hundred is a thousand times too long. So a
//! measurement moves the table by a small step in its direction, however far away it is, as one follows a median; steps grow when
//! all point in the same direction for long. A device that is slower than thought for 32 ms of work on end, by more than a quarter
//! each time, has changed as a whole (its clock, its load): then one factor moves all cells, also those that were not
//! measured, by half of what all measurements agree on.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "times and sizes that fit into 24 bits or need no more"
)]

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};

use libm::{exp2f, expf, logf};

/// Nanoseconds of a thread's work between two measurements. Reading the clock twice and thinking costs about 200 ns, so more of
/// them could be had; but a machine that is slow for a moment would be believed too soon.
pub(super) const INTERVAL: u32 = 500_000;

/// Requests side by side for which the table has a row: close together where devices have steps.
pub const REQUESTS: [usize; 22] =
    [1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 20, 24, 32, 33, 48, 64, 128, 256, 512, 1024, 2048, 4096];
/// Bytes in a request for which the table has a column.
pub const BYTES: [usize; 17] = {
    let mut bytes = [16; 17];
    let mut column = 1;
    while column < bytes.len() {
        bytes[column] = 2 * bytes[column - 1];
        column += 1;
    }
    bytes
};

/// What a device is thought to need for requests that are handed to it together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Nanoseconds until all of them are done, if nothing else is in the device.
    pub wall_ns: f32,
    /// Of those, the ones that the calling thread spends.
    pub cpu_ns: f32,
}

/// What one device costs for one algorithm and operation.
pub struct Costs {
    known: AtomicBool,
    wall: Table,
    /// Only of devices that work beside the calling thread.
    cpu: OnceLock<Box<Table>>,
    /// What all cells are multiplied with.
    drift: Number,
    /// Measurements on end that were above (positive) or below the estimate.
    run: AtomicI32,
    /// The least of their errors: what all of them agree on.
    agreed: Number,
    /// Nanoseconds of work that they stand for.
    lasts: Number,
}

/// Rows of [`REQUESTS`] with a column for each of [`BYTES`], in nanoseconds for all of the requests.
pub(crate) type Grid = [[f32; BYTES.len()]; REQUESTS.len()];

impl Costs {
    pub(crate) fn unknown() -> Self {
        Self {
            known: AtomicBool::new(false),
            wall: Table::default(),
            cpu: OnceLock::new(),
            drift: Number::new(1.0),
            run: AtomicI32::new(0),
            agreed: Number::new(0.0),
            lasts: Number::new(0.0),
        }
    }

    /// Whether there is anything to estimate from.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// What so many requests of so many bytes each would cost; nothing sensible while the device [is not
    /// known](Self::is_known).
    #[inline]
    pub fn estimate(&self, requests: usize, bytes: usize) -> Estimate {
        let place = Place::of(requests, bytes);
        let wall_ns = self.wall.read(place) * self.drift.get();
        Estimate { wall_ns, cpu_ns: self.cpu.get().map_or(wall_ns, |cpu| cpu.read(place)) }
    }

    /// How far the device as a whole has moved from what was calibrated: 2 is half as fast.
    pub fn drift(&self) -> f32 {
        self.drift.get()
    }

    /// Starts anew from a calibration. `cpu` only of devices that work beside the calling thread.
    pub(crate) fn set(&self, wall: &Grid, cpu: Option<&Grid>) {
        self.wall.set(wall);
        if let Some(cpu) = cpu {
            self.cpu.get_or_init(Box::default).set(cpu);
        }
        self.drift.set(1.0);
        self.run.store(0, Relaxed);
        self.known.store(true, Relaxed);
    }

    /// All cells as they are now, with the drift in them.
    pub(crate) fn grids(&self) -> Option<(Grid, Option<Grid>)> {
        let drift = self.drift.get();
        self.is_known().then(|| (self.wall.grid(drift), self.cpu.get().map(|cpu| cpu.grid(1.0))))
    }

    /// Takes in that so many requests took less time than was thought, once: nothing makes a device faster than it is, so a
    /// single measurement counts for much.
    pub(crate) fn was_faster(&self, requests: usize, bytes: usize, wall_ns: f32) {
        let place = Place::of(requests, bytes);
        let share = wall_ns / (self.wall.read(place) * self.drift.get());
        if self.is_known() && share > 0.0 && share < 1.0 {
            self.wall.scale(place, share.max(0.25).sqrt() - 1.0);
        }
    }

    /// Takes in a measurement of so many requests of so many bytes each; `cpu_ns` where the time of the thread was measured
    /// apart. The answer is the factor, if that is why the device is thought to have changed as a whole.
    pub fn learn(&self, requests: usize, bytes: usize, wall_ns: f32, cpu_ns: Option<f32>) -> Option<f32> {
        /// A difference that nothing depends on.
        const NOTHING: f32 = 0.02;
        /// What the clock cannot tell apart, in nanoseconds.
        const CLOCK: f32 = 40.0;
        /// A difference from which on the device may have changed as a whole.
        const CHANGE: f32 = 0.25;
        /// Nanoseconds of work that show that it has, measured a few times at least: a machine that does other things is
        /// slow for some milliseconds now and then.
        const SURE: (f32, i32) = (32e6, 4);
        /// The step of the thread's time, which has no drift.
        const THREAD: f32 = 0.02;
        /// Measurements on end from which on steps grow.
        const PATIENT: i32 = 16;

        if !(self.is_known() && wall_ns > 0.0 && wall_ns.is_finite()) {
            return None;
        }
        let place = Place::of(requests, bytes);
        if let (Some(cpu), Some(cpu_ns)) = (self.cpu.get(), cpu_ns) {
            let error = logf(cpu_ns.max(1.0) / cpu.read(place));
            if error.abs() > NOTHING {
                cpu.scale(place, THREAD.min(error.abs() / 2.0).copysign(error));
            }
        }
        let estimate = self.wall.read(place) * self.drift.get();
        let error = logf(wall_ns / estimate);
        let before = self.run.load(Relaxed);
        if error.abs() < NOTHING.max(CLOCK / estimate) {
            if before != 0 {
                self.run.store(0, Relaxed);
            }
            return None;
        }
        let direction = if error > 0.0 { 1 } else { -1 };
        // A large error does not continue what small ones have begun, nor the other way round.
        let goes_on = before.signum() == direction && (error.abs() > CHANGE) == (self.agreed.get() > CHANGE);
        let run = if goes_on { before + direction } else { direction };
        let agreed = if goes_on { error.abs().min(self.agreed.get()) } else { error.abs() };
        let work = wall_ns.min(10.0 * estimate).max(INTERVAL as f32);
        let lasts = work + if goes_on { self.lasts.get() } else { 0.0 };
        self.agreed.set(agreed);
        self.lasts.set(lasts);
        // What may be a change as a whole is left to the drift.
        let grown = if agreed > CHANGE { 0.5 } else { exp2f((run.abs() - PATIENT).clamp(0, 24) as f32 / 8.0) };
        let step = (0.005 * grown).min(error.abs() / 2.0);
        let step = step * direction as f32;
        self.wall.scale(place, step);
        if run.abs() >= SURE.1 && lasts >= SURE.0 && agreed > CHANGE {
            // One of the measurements may be a thousand times too long, but not all of them.
            let factor = expf(agreed / 2.0 * direction as f32);
            self.drift_by(factor);
            return Some(factor);
        }
        self.run.store(run.clamp(-99, 99), Relaxed);
        None
    }

    /// The device has changed as a whole.
    pub(crate) fn drift_by(&self, factor: f32) {
        self.drift.set((self.drift.get() * factor).clamp(1e-4, 1e4));
        self.run.store(0, Relaxed);
    }
}

impl fmt::Debug for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Costs").field("known", &self.is_known()).field("drift", &self.drift()).finish_non_exhaustive()
    }
}

/// A number that threads share.
struct Number(AtomicU32);

impl Number {
    const fn new(number: f32) -> Self {
        Self(AtomicU32::new(number.to_bits()))
    }

    #[inline]
    fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Relaxed))
    }

    fn set(&self, number: f32) {
        self.0.store(number.to_bits(), Relaxed);
    }
}

/// Where a group of requests lies in a table: between four cells, or beyond the last.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    column: usize,
    /// The way to the next row, 0 to 1.
    down: f32,
    /// The way to the next column: from -1 (below the first) on.
    across: f32,
    /// Requests beyond the last row take their time in proportion.
    times: f32,
}

/// The row from which on each is twice the one before: that of 64 requests.
const DOUBLING: usize = 15;

/// For each number of requests up to there the row above, and the way to the next one.
const ROWS: [(u8, f32); REQUESTS[DOUBLING] + 1] = {
    let mut rows = [(0, 0.0); REQUESTS[DOUBLING] + 1];
    let (mut row, mut requests) = (0, 1);
    while requests < rows.len() {
        if row < DOUBLING && requests >= REQUESTS[row + 1] {
            row += 1;
        }
        rows[requests] = (row as u8, (requests - REQUESTS[row]) as f32 / (REQUESTS[row + 1] - REQUESTS[row]) as f32);
        requests += 1;
    }
    rows
};

impl Place {
    #[inline]
    fn of(requests: usize, bytes: usize) -> Self {
        let within = requests.clamp(1, REQUESTS[REQUESTS.len() - 1]);
        let (row, down) = ROWS.get(within).copied().unwrap_or_else(|| {
            let row = (DOUBLING + (within / REQUESTS[DOUBLING]).ilog2() as usize).min(REQUESTS.len() - 2);
            (row as u8, (within - REQUESTS[row]) as f32 / (REQUESTS[row + 1] - REQUESTS[row]) as f32)
        });
        let column = ((bytes | BYTES[0]).ilog2() as usize - 4).min(BYTES.len() - 2);
        let start = BYTES[column];
        let across = (bytes as f32 - start as f32) / start as f32;
        let times = if requests > within { requests as f32 / within as f32 } else { 1.0 };
        Self { row: row as usize, column, down, across, times }
    }

    /// The four cells around, each with its weight.
    fn around(self) -> [(usize, usize, f32); 4] {
        let Self { row, column, down, across, .. } = self;
        let across = across.clamp(0.0, 1.0);
        [
            (row, column, (1.0 - down) * (1.0 - across)),
            (row, column + 1, (1.0 - down) * across),
            (row + 1, column, down * (1.0 - across)),
            (row + 1, column + 1, down * across),
        ]
    }
}

struct Table([[Number; BYTES.len()]; REQUESTS.len()]);

impl Default for Table {
    fn default() -> Self {
        Self([const { [const { Number::new(1.0) }; BYTES.len()] }; REQUESTS.len()])
    }
}

impl Table {
    #[inline]
    fn read(&self, place: Place) -> f32 {
        let Place { row, column, down, across, times } = place;
        let in_row = |row: usize| {
            let (from, to) = (self.0[row][column].get(), self.0[row][column + 1].get());
            // Below the first column the line may lead below zero.
            (from + (to - from) * across).max(from / 2.0)
        };
        let from = in_row(row);
        // Most requests come alone.
        if down == 0.0 { from * times } else { (from + (in_row(row + 1) - from) * down) * times }
    }

    /// Moves the cells around a place by this share, those that are nearest by all of it.
    fn scale(&self, place: Place, share: f32) {
        let around = place.around();
        let nearest = around.iter().fold(0.0, |most: f32, (.., weight)| most.max(*weight));
        for (row, column, weight) in around {
            if weight > 0.0 {
                let cell = &self.0[row][column];
                cell.set((cell.get() * (1.0 + share * weight / nearest)).clamp(0.1, 1e12));
            }
        }
    }

    fn set(&self, grid: &Grid) {
        for (cell, number) in self.0.iter().flatten().zip(grid.iter().flatten()) {
            cell.set(*number);
        }
    }

    fn grid(&self, times: f32) -> Grid {
        std::array::from_fn(|row| std::array::from_fn(|column| self.0[row][column].get() * times))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::float_cmp, reason = "what was not touched is exactly the same")]

    use super::*;

    /// A table by a formula.
    pub(crate) fn grid(formula: impl Fn(f32, f32) -> f32) -> Grid {
        REQUESTS.map(|requests| BYTES.map(|bytes| formula(requests as f32, bytes as f32)))
    }

    pub(crate) fn costs(formula: impl Fn(f32, f32) -> f32) -> Costs {
        let costs = Costs::unknown();
        costs.set(&grid(formula), None);
        costs
    }

    fn near(a: f32, b: f32) -> bool {
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
            assert!(near(estimate.wall_ns, time), "{requests} x {bytes}: {estimate:?}, not {time}");
            assert_eq!(estimate.cpu_ns, estimate.wall_ns, "in the calling thread it is the same");
        }
    }

    #[test]
    fn nothing_comes_of_absurd_questions_and_measurements() {
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
    fn a_cell_follows_its_measurements_and_others_stay() {
        let costs = costs(|_, _| 100_000.0);
        for _ in 0..100 {
            costs.learn(16, 1024, 120_000.0, None);
        }
        assert!(near(costs.estimate(16, 1024).wall_ns, 120_000.0), "{:?}", costs.estimate(16, 1024));
        assert!(near(costs.estimate(1, 64).wall_ns, 100_000.0));
        assert!(near(costs.drift(), 1.0));
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
    fn a_bad_moment_with_an_interruption_in_it_is_no_other_device() {
        let costs = costs(|_, _| 1000.0);
        for sample in 0..40 {
            let wall = if sample % 8 == 7 { 9_000_000.0 } else { 1400.0 };
            costs.learn(4, 256, wall, None);
        }
        assert!(costs.estimate(4, 256).wall_ns < 1700.0, "{costs:?}");
    }

    #[test]
    fn a_single_measurement_counts_for_much_only_when_it_was_faster() {
        let costs = costs(|_, _| 1000.0);
        costs.was_faster(4, 256, 4000.0);
        assert_eq!(costs.estimate(4, 256).wall_ns, 1000.0);
        costs.was_faster(4, 256, 640.0);
        assert!(near(costs.estimate(4, 256).wall_ns, 800.0));
    }

    #[test]
    fn a_device_that_slows_down_is_slower_everywhere_and_comes_back() {
        let costs = costs(|requests, bytes| 500.0 + requests * bytes);
        for (factor, at_most) in [(10.0, 600), (1.0, 600)] {
            let true_time = |requests: f32, bytes: f32| factor * (500.0 + requests * bytes);
            let mut samples = 0;
            while !near(costs.estimate(8, 4096).wall_ns, true_time(8.0, 4096.0)) {
                costs.learn(8, 4096, true_time(8.0, 4096.0), None);
                samples += 1;
                assert!(samples < at_most, "{:?}", costs.estimate(8, 4096));
            }
            let elsewhere = costs.estimate(1, 64).wall_ns / true_time(1.0, 64.0);
            assert!((0.5..2.0).contains(&elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn what_the_clock_cannot_tell_apart_is_not_learned() {
        let costs = costs(|_, _| 50.0);
        for _ in 0..100 {
            costs.learn(1, 16, 70.0, None);
        }
        assert_eq!(costs.estimate(1, 16).wall_ns, 50.0);
    }

    #[test]
    fn the_time_of_the_thread_is_learned_apart_where_the_device_works_beside_it() {
        let costs = Costs::unknown();
        costs.set(&grid(|_, _| 100_000.0), Some(&grid(|_, _| 2000.0)));
        for _ in 0..200 {
            costs.learn(1, 1024, 100_000.0, Some(3000.0));
            costs.learn(1, 1024, 110_000.0, Some(3000.0));
        }
        let Estimate { wall_ns, cpu_ns } = costs.estimate(1, 1024);
        assert!((95_000.0..115_000.0).contains(&wall_ns) && near(cpu_ns, 3000.0), "{wall_ns} {cpu_ns}");
    }

    #[test]
    fn what_goes_out_comes_back_in() {
        let first = costs(|requests, bytes| 7.0 * requests + bytes);
        for _ in 0..100 {
            first.learn(1, 4096, 20_000.0, None);
        }
        let second = Costs::unknown();
        let (wall, cpu) = first.grids().unwrap();
        second.set(&wall, cpu.as_ref());
        assert!(near(second.estimate(12, 300).wall_ns, first.estimate(12, 300).wall_ns));
    }
}

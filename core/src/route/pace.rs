//! The pace of the CPU, shown by the devices that compute in the calling thread.
//!
//! When the CPU becomes slower, or a neighbour takes a part of its caches, these devices become slower together. If each device learned the
//! change only by its own requests, the device in use would soon seem slower than the others. So if requests of several devices or shapes
//! agree, each step moves all of these devices.

#![allow(clippy::cast_precision_loss, reason = "runs that fit into 24 bits")]

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

use libm::{exp2f, expf, logf};

use super::table::TablePosition;

/// A relative difference that is ignored.
pub(super) const IGNORED_DIFFERENCE: f32 = 0.02;
/// The resolution of the clock, in nanoseconds.
pub(super) const CLOCK_RESOLUTION_NS: f32 = 40.0;
/// The smallest step.
const MIN_STEP: f32 = 0.005;
/// Consecutive measurements before the first step.
const MIN_RUN: i32 = 8;
/// Further measurements until steps are eight times as large.
const GROWING_RUN: i32 = 24;

/// The pace of one algorithm and operation.
#[derive(Default)]
pub(super) struct Pace {
    /// Consecutive measurements above (positive) or below (negative) the estimate, each of a cell other than the previous one.
    run_length: AtomicI32,
    /// The cell of the last measurement.
    last_cell: AtomicU32,
}

impl Pace {
    /// Learns from a measurement. Returns the factor of a step, if several cells agree.
    pub(super) fn follow(&self, device: usize, position: TablePosition, expected_ns: f32, wall_ns: f32) -> Option<f32> {
        let error = logf(wall_ns / expected_ns);
        let direction = match error.abs() > IGNORED_DIFFERENCE.max(CLOCK_RESOLUTION_NS / expected_ns) {
            true if error > 0.0 => 1,
            true => -1,
            false => 0,
        };
        let (row, column) = position.nearest();
        let cell = (device << 16 | row << 8 | column) as u32;
        let (before, last) = (self.run_length.load(Relaxed), self.last_cell.swap(cell, Relaxed));
        let run = match before.signum() == direction {
            true if cell == last => before,
            true => (before + direction).clamp(-MIN_RUN - GROWING_RUN, MIN_RUN + GROWING_RUN),
            false => direction,
        };
        self.run_length.store(run, Relaxed);
        let grown = exp2f((run.abs() - MIN_RUN) as f32 / 8.0);
        (run.abs() > MIN_RUN).then(|| expf((MIN_STEP * grown).min(error.abs() / 2.0) * direction as f32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the factor of the CPU's pace after repeated measurements of these cells. The last field of a cell is its time divided by the
    /// estimate.
    fn factor_of(cells: &[(usize, usize, usize, f32)], measurements: usize) -> f32 {
        let (pace, mut factor) = (Pace::default(), 1.0);
        for &(device, requests, bytes, times) in cells.iter().cycle().take(measurements) {
            let step = pace.follow(device, TablePosition::new(requests, bytes), 1000.0 * factor, 1000.0 * times);
            factor *= step.unwrap_or(1.0);
        }
        factor
    }

    #[test]
    fn the_pace_changes_only_if_several_cells_agree() {
        let slower = factor_of(&[(0, 1, 64, 2.0), (1, 16, 256, 2.0), (0, 1, 4096, 2.0)], 60);
        assert!((1.9..2.1).contains(&slower), "{slower}");
        let faster = factor_of(&[(0, 1, 64, 0.5), (0, 1, 4096, 0.5)], 60);
        assert!((0.45..0.55).contains(&faster), "{faster}");
        let unchanged = [
            factor_of(&[(0, 1, 64, 2.0)], 1000),
            factor_of(&[(0, 1, 64, 2.0), (0, 1, 4096, 1.0), (1, 1, 64, 1.0)], 1000),
        ];
        assert!(unchanged.iter().all(|factor| (factor - 1.0).abs() < 1e-6), "{unchanged:?}");
    }
}

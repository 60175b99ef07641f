//! Selects the plausible measured cells of a table, and computes the whole table from them.
//!
//! Other work of the machine makes measurements longer, never shorter. So a cell that took longer than a larger one was disturbed, and
//! is left out. The rest makes a table that is monotone: a larger request never costs less, and a batch never costs less than a part of it.

#![allow(clippy::cast_precision_loss, reason = "times and sizes that fit into 24 bits or need no more")]

use std::time::SystemTime;

use super::record::CostCell;
use super::table::{BYTES, Grid, REQUESTS};

/// A cell may take this many times as long as a larger one: measurements of the same cell differ by as much.
const MAX_TIME_RATIO: f32 = 1.1;
/// A cell with fewer measurements than this was disturbed if it takes far longer than a smaller cell suggests.
const MIN_MEASUREMENTS: u32 = 3;
/// A cell takes far longer if it exceeds a limit. The limit is the time of the smaller cell, in proportion to requests and bytes, times
/// this factor, plus [`OUTLIER_NS`].
const OUTLIER_FACTOR: f32 = 3.0;
/// Nanoseconds in this limit that do not depend on the smaller cell.
const OUTLIER_NS: f32 = 2000.0;

/// The result of calibrating one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    cells: Vec<CostCell>,
    /// Rounds of the calibration; 0 if too many cells were disturbed.
    pub(crate) turns: u32,
    /// The time of the measurement, in seconds since 1970.
    pub(crate) measured_at: u64,
}

/// The measured cells, by row and column.
type SparseGrid = [[Option<f32>; BYTES.len()]; REQUESTS.len()];

impl Measured {
    /// Makes a result from new measurements of `turns` rounds. Returns `None` if no measurement is left.
    pub(crate) fn new(mut cells: Vec<CostCell>, turns: u32) -> Option<Self> {
        let all = cells.len();
        remove_disturbed(&mut cells);
        let measured_at = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        // If more than a quarter was disturbed, no round is valid, and a later process measures again.
        let turns = if all - cells.len() <= all / 4 { turns } else { 0 };
        (!cells.is_empty()).then_some(Self { cells, turns, measured_at })
    }

    /// Makes a result from stored measurements, if they are plausible.
    pub(crate) fn from_stored(cells: &[CostCell], turns: u32, measured_at: u64) -> Option<Self> {
        let is_time = |ns: f32| (0.1..1e12).contains(&ns);
        let mut plausible = cells.to_vec();
        plausible.retain(|cell| {
            let is_on_grid = REQUESTS.contains(&cell.requests) && BYTES.contains(&cell.bytes);
            is_on_grid && cell.measurements > 0 && is_time(cell.wall_ns) && is_time(cell.cpu_ns)
        });
        plausible.sort_by_key(|cell| (cell.requests, cell.bytes));
        plausible.dedup_by_key(|cell| (cell.requests, cell.bytes));
        remove_disturbed(&mut plausible);
        let is_whole = plausible.len() == cells.len() && !cells.is_empty();
        is_whole.then_some(Self { cells: plausible, turns, measured_at })
    }

    pub(crate) fn cells(&self) -> &[CostCell] {
        &self.cells
    }

    /// Returns the measured cell that is nearest to these requests.
    pub(crate) fn nearest(&self, requests: usize, bytes: usize) -> Option<&CostCell> {
        let distance = |a: usize, b: usize| (a.max(1) as f32 / b.max(1) as f32).log2().abs();
        let from = |cell: &&CostCell| distance(cell.requests, requests) + distance(cell.bytes, bytes.max(BYTES[0]));
        self.cells.iter().min_by(|a, b| from(a).total_cmp(&from(b)))
    }

    /// Returns the grid of the times until all requests are done.
    pub(crate) fn wall(&self) -> Grid {
        fill(&sparse_grid(&self.cells, |cell| cell.wall_ns))
    }

    /// Returns the grid of the thread's own times.
    pub(crate) fn cpu(&self) -> Grid {
        fill(&sparse_grid(&self.cells, |cell| cell.cpu_ns))
    }
}

/// Removes disturbed measurements.
fn remove_disturbed(cells: &mut Vec<CostCell>) {
    let least = ceilings(&sparse_grid(cells, |cell| cell.wall_ns));
    cells.retain(|cell| {
        cell_position(cell).is_some_and(|(row, column)| cell.wall_ns <= least[row][column] * MAX_TIME_RATIO)
    });
    if cells.iter().all(|cell| cell.measurements >= MIN_MEASUREMENTS) {
        return;
    }
    let sound = cells.clone();
    cells.retain(|cell| {
        let times = |of: usize, part: usize| of as f32 / part as f32;
        let parts = sound.iter().filter(|part| part.requests <= cell.requests && part.bytes <= cell.bytes);
        let parts = parts.filter(|part| *part != cell).map(|part| {
            part.wall_ns * times(cell.requests, part.requests) * times(cell.bytes, part.bytes) * OUTLIER_FACTOR
                + OUTLIER_NS
        });
        cell.measurements >= MIN_MEASUREMENTS || cell.wall_ns <= parts.fold(f32::INFINITY, f32::min)
    });
}

/// Returns the row and the column of a cell.
fn cell_position(cell: &CostCell) -> Option<(usize, usize)> {
    let row = REQUESTS.iter().position(|requests| *requests == cell.requests);
    row.zip(BYTES.iter().position(|bytes| *bytes == cell.bytes))
}

fn sparse_grid(cells: &[CostCell], time: impl Fn(&CostCell) -> f32) -> SparseGrid {
    let mut sparse = [[None; BYTES.len()]; REQUESTS.len()];
    for cell in cells {
        if let Some((row, column)) = cell_position(cell) {
            sparse[row][column] = Some(time(cell));
        }
    }
    sparse
}

/// Returns a whole table. Times between two measured sizes are interpolated, as are times between two numbers of requests. Beyond the
/// measured sizes of a row, the ratio to the neighbouring row is the same as at the nearest measured size.
fn fill(measured: &SparseGrid) -> Grid {
    let ceilings = ceilings(measured);
    let mut rows: Vec<Row> = (0..REQUESTS.len()).filter_map(|row| Row::new(row, measured, &ceilings)).collect();
    // Starts with the row that has the widest range of sizes: the first one if there are several.
    let Some(base) = (0..rows.len()).rev().max_by_key(|row| rows[*row].last - rows[*row].first) else {
        return [[1.0; BYTES.len()]; REQUESTS.len()];
    };
    for row in (0..base).rev() {
        let next = rows[row + 1].times;
        rows[row].extend(&next);
    }
    for row in base + 1..rows.len() {
        let next = rows[row - 1].times;
        rows[row].extend(&next);
    }
    let mut grid = [[0.0; BYTES.len()]; REQUESTS.len()];
    for column in 0..BYTES.len() {
        let points: Vec<_> = rows.iter().map(|row| (row.requests, row.times[column])).collect();
        for (row, requests) in REQUESTS.iter().enumerate() {
            let above = if row > 0 { grid[row - 1][column] } else { 0.0 };
            let before = if column > 0 { grid[row][column - 1] } else { 0.0 };
            let time = interpolate_requests(&points, *requests as f32).min(ceilings[row][column]);
            grid[row][column] = time.max(above).max(before);
        }
    }
    grid
}

/// A row with measurements.
struct Row {
    requests: f32,
    /// The first and the last column that were measured.
    first: usize,
    last: usize,
    times: [f32; BYTES.len()],
}

impl Row {
    fn new(row: usize, measured: &SparseGrid, ceilings: &Grid) -> Option<Self> {
        let columns: Vec<usize> = (0..BYTES.len()).filter(|column| measured[row][*column].is_some()).collect();
        let (first, last) = (*columns.first()?, *columns.last()?);
        let points: Vec<_> = columns.iter().map(|column| (BYTES[*column] as f32, ceilings[row][*column])).collect();
        Some(Self {
            requests: REQUESTS[row] as f32,
            first,
            last,
            times: BYTES.map(|bytes| interpolate(&points, bytes as f32)),
        })
    }

    fn extend(&mut self, next: &[f32; BYTES.len()]) {
        for column in (0..self.first).chain(self.last + 1..BYTES.len()) {
            let nearest = if column < self.first { self.first } else { self.last };
            self.times[column] = self.times[nearest] * next[column] / next[nearest];
        }
    }
}

/// Returns for each cell the least measured time of this cell and all larger ones.
fn ceilings(measured: &SparseGrid) -> Grid {
    let mut least = [[f32::INFINITY; BYTES.len()]; REQUESTS.len()];
    for row in (0..REQUESTS.len()).rev() {
        for column in (0..BYTES.len()).rev() {
            let below = if row + 1 < REQUESTS.len() { least[row + 1][column] } else { f32::INFINITY };
            let after = if column + 1 < BYTES.len() { least[row][column + 1] } else { f32::INFINITY };
            least[row][column] = measured[row][column].unwrap_or(f32::INFINITY).min(below).min(after);
        }
    }
    least
}

/// Returns the value at `x` of the line through the points around it. `points` are sorted by `x`, and their values grow with `x`.
fn interpolate(points: &[(f32, f32)], x: f32) -> f32 {
    let Some(&(first, time)) = points.first() else { return 1.0 };
    if points.len() == 1 {
        return time;
    }
    let after = points.iter().position(|(at, _)| *at >= x).unwrap_or(points.len()).clamp(1, points.len() - 1);
    let [(x0, y0), (x1, y1)] = [points[after - 1], points[after]];
    let value = y0 + (y1 - y0) / (x1 - x0) * (x - x0);
    // Below the first point the line may lead below zero.
    if x < first { value.max(time / 2.0) } else { value }
}

/// Returns the time of a number of requests. Beyond the largest measured number, for example 64, each further request adds as much as each
/// of the requests 33 to 64. It adds at least half of the mean time per request, and at most the mean.
fn interpolate_requests(points: &[(f32, f32)], requests: f32) -> f32 {
    let Some(&(most, time)) = points.last().filter(|(most, _)| *most < requests) else {
        return interpolate(points, requests);
    };
    let each = time / most;
    let half = points.iter().rfind(|(requests, _)| requests * 2.0 <= most);
    let slope = half.map_or(each, |(half, half_time)| (time - half_time) / (most - half));
    time + slope.clamp(each / 2.0, each) * (requests - most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(times: &[(usize, usize, f32)]) -> Vec<CostCell> {
        let cell = |&(requests, bytes, ns)| CostCell { requests, bytes, measurements: 1, wall_ns: ns, cpu_ns: ns };
        times.iter().map(cell).collect()
    }

    fn remaining(times: &[(usize, usize, f32)]) -> Vec<(usize, usize)> {
        let mut cells = cells(times);
        remove_disturbed(&mut cells);
        cells.iter().map(|cell| (cell.requests, cell.bytes)).collect()
    }

    #[test]
    fn drops_cells_slower_than_a_larger_one() {
        assert_eq!(remaining(&[(1, 16, 11_152.0), (1, 64, 104.0), (1, 256, 286.0)]), [(1, 64), (1, 256)]);
        assert_eq!(remaining(&[(1, 64, 104.0), (2, 16, 11_152.0), (3, 16, 749.0)]), [(1, 64), (3, 16)]);
        assert_eq!(remaining(&[(1, 16, 105.0), (1, 64, 100.0)]), [(1, 16), (1, 64)], "they are alike");
    }

    #[test]
    fn drops_outliers_until_they_were_measured_often() {
        let times = [(1, 1024, 825.0), (1, 4096, 199_590.0), (1, 16_384, 216_000.0)];
        assert_eq!(remaining(&times), [(1, 1024)]);
        let mut often = cells(&times);
        for cell in &mut often {
            cell.measurements = MIN_MEASUREMENTS;
        }
        let before = often.clone();
        remove_disturbed(&mut often);
        assert_eq!(often, before, "an engine that has large requests only");
    }

    #[test]
    fn loads_all_cells_or_none() {
        let sound = cells(&[(1, 16, 100.0), (1, 1024, 900.0), (16, 1024, 9000.0)]);
        assert_eq!(Measured::from_stored(&sound, 5, 7).unwrap().cells(), sound);
        let spoilt = |spoil: fn(&mut Vec<CostCell>)| {
            let mut cells = sound.clone();
            spoil(&mut cells);
            Measured::from_stored(&cells, 5, 7)
        };
        for spoil in [
            (|cells| cells.clear()) as fn(&mut Vec<CostCell>),
            |cells| cells[0].wall_ns = 11_000.0,
            |cells| cells[1].bytes = 1000,
            |cells| cells[1].requests = 7,
            |cells| cells[1].wall_ns = f32::NAN,
            |cells| cells[1].cpu_ns = -1.0,
            |cells| cells[1].measurements = 0,
            |cells| cells.push(cells[0]),
        ] {
            assert_eq!(spoilt(spoil), None);
        }
    }

    /// Returns the whole table that follows from a formula's cells in some rows and columns.
    fn table(rows: &[usize], columns: &[usize], formula: impl Fn(f32, f32) -> f32) -> Grid {
        let pairs = rows.iter().flat_map(|requests| columns.iter().map(move |bytes| (*requests, *bytes)));
        let times: Vec<_> =
            pairs.map(|(requests, bytes)| (requests, bytes, formula(requests as f32, bytes as f32))).collect();
        Measured::new(cells(&times), 1).unwrap().wall()
    }

    #[test]
    fn interpolates_a_table_from_few_cells() {
        let formula = |requests: f32, bytes: f32| requests * (100.0 + bytes);
        let grid = table(&[1, 2, 8, 32], &[16, 64, 256, 1024, 16_384, 1 << 20], formula);
        for (row, requests) in REQUESTS.iter().enumerate() {
            for (column, bytes) in BYTES.iter().enumerate() {
                let (found, right) = (grid[row][column], formula(*requests as f32, *bytes as f32));
                assert!((found / right - 1.0).abs() < 0.01, "{requests} x {bytes}: {found}, not {right}");
            }
        }
        // Hardly any single request is measured, but in these lanes four requests take as long as one.
        let lanes = |requests: f32, bytes: f32| (requests / 4.0).ceil() * (100.0 + bytes);
        let most = |bytes| table(&[2, 4, 8], &[16, 64, 256, 1024, 16_384, 1 << 20], lanes)[1][bytes];
        let mut few: Vec<_> = cells(&[(1, 1024, lanes(1.0, 1024.0))]);
        for bytes in [16, 64, 256, 1024, 16_384, 1 << 20] {
            few.extend(cells(&[2, 4, 8].map(|requests| (requests, bytes, lanes(requests as f32, bytes as f32)))));
        }
        let found = Measured::new(few, 1).unwrap().wall()[0];
        assert!((0..found.len()).all(|column| (found[column] / most(column) - 1.0).abs() < 1e-6), "{found:?}");
        let one = table(&[1], &[4096], formula);
        assert!((one[0][0], one[3][8]) == (4196.0, 4.0 * 4196.0), "one cell says little: {one:?}");
    }

    #[test]
    fn tables_are_monotone_for_any_measurements() {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        for _ in 0..200 {
            let cell =
                |_| (REQUESTS[(next() % 22) as usize], BYTES[(next() % 17) as usize], (next() % 100_000 + 1) as f32);
            let mut cells: Vec<_> = cells(&(0..60).map(cell).collect::<Vec<_>>());
            cells.sort_by_key(|cell| (cell.requests, cell.bytes));
            cells.dedup_by_key(|cell| (cell.requests, cell.bytes));
            let grid = Measured::new(cells, 1).unwrap().wall();
            assert!(grid.iter().all(|row| row.is_sorted()), "{grid:?}");
            assert!((0..BYTES.len()).all(|column| grid.iter().is_sorted_by_key(|row| row[column])), "{grid:?}");
        }
    }
}

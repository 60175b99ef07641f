//! A whole table of times, which threads read and change without a lock.

#![allow(clippy::cast_precision_loss, reason = "times and sizes that fit into 24 bits or need no more")]

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The numbers of requests side by side for which the table has a row. They are close together where the times of devices rise in steps.
pub const REQUESTS: [usize; 22] =
    [1, 2, 3, 4, 5, 6, 8, 12, 16, 17, 20, 24, 32, 33, 48, 64, 128, 256, 512, 1024, 2048, 4096];
/// The numbers of bytes in a request for which the table has a column.
pub const BYTES: [usize; 17] = {
    let mut bytes = [16; 17];
    let mut column = 1;
    while column < bytes.len() {
        bytes[column] = 2 * bytes[column - 1];
        column += 1;
    }
    bytes
};

/// A table of times, with a row for each of [`REQUESTS`] and a column for each of [`BYTES`]. A time is the nanoseconds of all requests
/// together.
pub(crate) type Grid = [[f32; BYTES.len()]; REQUESTS.len()];

/// A number that threads share.
pub(super) struct SharedF32(AtomicU32);

impl SharedF32 {
    pub(super) const fn new(number: f32) -> Self {
        Self(AtomicU32::new(number.to_bits()))
    }

    #[inline]
    pub(super) fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Relaxed))
    }

    pub(super) fn set(&self, number: f32) {
        self.0.store(number.to_bits(), Relaxed);
    }
}

/// The position of a group of requests in a table: between four cells, or beyond the last.
#[derive(Clone, Copy)]
pub(super) struct TablePosition {
    row: usize,
    column: usize,
    /// The fraction of the way to the next row, 0 to 1.
    row_fraction: f32,
    /// The fraction of the way to the next column: below 0 before the first column (-1 for 0 bytes), above 1 beyond the last.
    column_fraction: f32,
    /// The factor for numbers of requests beyond the last row, where the time is proportional to the number; 1 up to the last row.
    beyond_factor: f32,
}

/// The row of 64 requests. Each row after it has twice as many requests as the row before.
const FIRST_DOUBLING_ROW: usize = 15;

/// For each number of requests up to the row [`FIRST_DOUBLING_ROW`]: the last row that does not exceed the number, and the fraction of the
/// way to the next row.
const ROW_POSITIONS: [(u8, f32); REQUESTS[FIRST_DOUBLING_ROW] + 1] = {
    let mut rows = [(0, 0.0); REQUESTS[FIRST_DOUBLING_ROW] + 1];
    let (mut row, mut requests) = (0, 1);
    while requests < rows.len() {
        if row < FIRST_DOUBLING_ROW && requests >= REQUESTS[row + 1] {
            row += 1;
        }
        rows[requests] = (row as u8, (requests - REQUESTS[row]) as f32 / (REQUESTS[row + 1] - REQUESTS[row]) as f32);
        requests += 1;
    }
    rows
};

impl TablePosition {
    #[inline]
    pub(super) fn new(requests: usize, bytes: usize) -> Self {
        let within = requests.clamp(1, REQUESTS[REQUESTS.len() - 1]);
        let (row, row_fraction) = ROW_POSITIONS.get(within).copied().unwrap_or_else(|| {
            let row =
                (FIRST_DOUBLING_ROW + (within / REQUESTS[FIRST_DOUBLING_ROW]).ilog2() as usize).min(REQUESTS.len() - 2);
            (row as u8, (within - REQUESTS[row]) as f32 / (REQUESTS[row + 1] - REQUESTS[row]) as f32)
        });
        let column = ((bytes | BYTES[0]).ilog2() as usize - 4).min(BYTES.len() - 2);
        let start = BYTES[column];
        let column_fraction = (bytes as f32 - start as f32) / start as f32;
        let beyond_factor = if requests > within { requests as f32 / within as f32 } else { 1.0 };
        Self { row: row as usize, column, row_fraction, column_fraction, beyond_factor }
    }

    /// Returns the row and the column of the nearest cell.
    pub(super) fn nearest(self) -> (usize, usize) {
        (self.row + usize::from(self.row_fraction > 0.5), self.column + usize::from(self.column_fraction > 0.5))
    }

    /// Returns the four cells around the position, each with its weight.
    fn corners(self) -> [(usize, usize, f32); 4] {
        let Self { row, column, row_fraction, column_fraction, .. } = self;
        let column_fraction = column_fraction.clamp(0.0, 1.0);
        [
            (row, column, (1.0 - row_fraction) * (1.0 - column_fraction)),
            (row, column + 1, (1.0 - row_fraction) * column_fraction),
            (row + 1, column, row_fraction * (1.0 - column_fraction)),
            (row + 1, column + 1, row_fraction * column_fraction),
        ]
    }
}

pub(super) struct Table([[SharedF32; BYTES.len()]; REQUESTS.len()]);

impl Default for Table {
    fn default() -> Self {
        Self([const { [const { SharedF32::new(1.0) }; BYTES.len()] }; REQUESTS.len()])
    }
}

impl Table {
    #[inline]
    pub(super) fn read(&self, position: TablePosition) -> f32 {
        let TablePosition { row, column, row_fraction, column_fraction, beyond_factor } = position;
        let in_row = |row: usize| {
            let (from, to) = (self.0[row][column].get(), self.0[row][column + 1].get());
            // Below the first column the line may lead below zero.
            (from + (to - from) * column_fraction).max(from / 2.0)
        };
        let from = in_row(row);
        // Most requests come alone.
        if row_fraction == 0.0 {
            from * beyond_factor
        } else {
            (from + (in_row(row + 1) - from) * row_fraction) * beyond_factor
        }
    }

    /// Changes the cells around a position in proportion to their weights. The cell with the largest weight changes by the whole `share`.
    pub(super) fn scale(&self, position: TablePosition, share: f32) {
        let corners = position.corners();
        let nearest = corners.iter().fold(0.0, |most: f32, (.., weight)| most.max(*weight));
        for (row, column, weight) in corners {
            if weight > 0.0 {
                let cell = &self.0[row][column];
                cell.set((cell.get() * (1.0 + share * weight / nearest)).clamp(0.1, 1e12));
            }
        }
    }

    pub(super) fn set(&self, grid: &Grid) {
        for (cell, number) in self.0.iter().flatten().zip(grid.iter().flatten()) {
            cell.set(*number);
        }
    }
}

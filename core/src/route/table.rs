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
pub(super) struct Number(AtomicU32);

impl Number {
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
pub(super) struct Place {
    row: usize,
    column: usize,
    /// The fraction of the way to the next row, 0 to 1.
    down: f32,
    /// The fraction of the way to the next column, from -1 (below the first) on.
    across: f32,
    /// The factor for numbers of requests beyond the last row, where the time is proportional to the number; 1 up to the last row.
    times: f32,
}

/// The row of 64 requests. Each row after it has twice as many requests as the row before.
const DOUBLING: usize = 15;

/// For each number of requests up to the row [`DOUBLING`]: the last row that does not exceed the number, and the fraction of the way to
/// the next row.
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
    pub(super) fn new(requests: usize, bytes: usize) -> Self {
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

    /// Returns the row and the column of the nearest cell.
    pub(super) fn nearest(self) -> (usize, usize) {
        (self.row + usize::from(self.down > 0.5), self.column + usize::from(self.across > 0.5))
    }

    /// Returns the four cells around the place, each with its weight.
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

pub(super) struct Table([[Number; BYTES.len()]; REQUESTS.len()]);

impl Default for Table {
    fn default() -> Self {
        Self([const { [const { Number::new(1.0) }; BYTES.len()] }; REQUESTS.len()])
    }
}

impl Table {
    #[inline]
    pub(super) fn read(&self, place: Place) -> f32 {
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

    /// Changes the cells around a place in proportion to their weights. The cell with the largest weight changes by the whole `share`.
    pub(super) fn scale(&self, place: Place, share: f32) {
        let around = place.around();
        let nearest = around.iter().fold(0.0, |most: f32, (.., weight)| most.max(*weight));
        for (row, column, weight) in around {
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

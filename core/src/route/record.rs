//! Costs as plain data, and the store that keeps them for later processes.

use std::fmt;

/// A store that keeps costs for later processes. Core itself accesses no file.
pub trait CostStore: Send + Sync + fmt::Debug {
    /// Returns all records of this machine, or the reason why they cannot be used.
    fn load(&self) -> Result<Vec<CostRecord>, String>;

    /// Keeps these records, and replaces earlier ones of the same device, algorithm and operation.
    fn save(&self, records: &[CostRecord]) -> Result<(), String>;
}

/// The costs of a device for one algorithm and operation, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct CostRecord {
    /// The name of the device.
    pub device: String,
    /// The [version](crate::driver::DeviceInfo::version) and [description](crate::driver::DeviceInfo::description) of the measured device.
    /// A device with another version is another device.
    pub version: String,
    /// The name of the algorithm.
    pub algorithm: String,
    /// The name of the operation.
    pub operation: String,
    /// The time of the measurement, in seconds since 1970.
    pub measured_at: u64,
    /// Rounds of the calibration; few if it was interrupted, and 0 if too many cells were disturbed.
    pub turns: u32,
    /// Measured cells. Times between and beyond them are computed when needed, and not stored.
    pub cells: Vec<CostCell>,
}

/// A number of requests side by side, and their measured times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostCell {
    /// One of [`REQUESTS`](super::REQUESTS).
    pub requests: usize,
    /// Bytes in each request: one of [`BYTES`](super::BYTES).
    pub bytes: usize,
    /// Number of measurements.
    pub measurements: u32,
    /// Nanoseconds until all requests are done: the least of all measurements.
    pub wall_ns: f32,
    /// The part of `wall_ns` that the calling thread spends; all of it if the device computes in the thread.
    pub cpu_ns: f32,
}

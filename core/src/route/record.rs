//! Costs as plain data, and where they are kept between two processes.

use std::fmt;

/// Where costs are kept between two processes. Core touches no file.
pub trait CostStore: Send + Sync + fmt::Debug {
    /// Everything that was kept for this machine; or why it cannot be used.
    fn load(&self) -> Result<Vec<CostRecord>, String>;

    /// Keeps this too, in place of what was kept about the same device, algorithm and operation.
    fn save(&self, records: &[CostRecord]) -> Result<(), String>;
}

/// What a device costs for one algorithm and operation, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct CostRecord {
    /// The name of the device.
    pub device: String,
    /// The [version](crate::driver::DeviceInfo::version) and [description](crate::driver::DeviceInfo::description) of it
    /// that was measured: another one is another device.
    pub version: String,
    /// The name of the algorithm.
    pub algorithm: String,
    /// The name of the operation.
    pub operation: String,
    /// Nanoseconds for requests side by side: row after row of [`REQUESTS`](super::REQUESTS), with a column for each of
    /// [`BYTES`](super::BYTES).
    pub wall_ns: Vec<f32>,
    /// The same of the calling thread alone; empty where the device works in it.
    pub cpu_ns: Vec<f32>,
}

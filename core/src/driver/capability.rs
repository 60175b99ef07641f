//! What a device offers for one algorithm, as data.

use crate::algorithm::{Algorithm, Kind, Operation};

/// What a device offers for one algorithm. `..Capability::new(algorithm)` fills in what is usual.
///
/// An [`Algorithm`] says *which*; a capability says *what this device makes of it*.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a promise of its own")]
pub struct Capability {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Which of its operations.
    pub operations: &'static [Operation],
    /// Requests that run side by side at hardly any extra time; 1 for plain software.
    pub lanes: usize,
    /// Requests that can be in the device at once; `usize::MAX` when only memory ends it.
    pub ring: usize,
    /// Most bytes of data in one request.
    pub max_bytes: usize,
    /// Requests in flight from which the device is worth its start: the break-even against plain software. `usize::MAX` where
    /// plain software is better at any number.
    pub break_even: usize,
    /// The device works in the calling thread: [`DeviceSession::run`](super::DeviceSession::run) works, and what a queue pair
    /// is given is done when `submit` returns.
    pub direct: bool,
    /// Requests may have input and output in the same buffer.
    pub in_place: bool,
    /// [`DeviceSession::digest_stream`](super::DeviceSession::digest_stream), `cipher_stream` or `aead_stream` works: the one
    /// of the algorithm's kind.
    pub streaming: bool,
    /// Of signatures that take a random number: the device also makes them without one, if a session asks for
    /// [that](crate::SessionParams::deterministic).
    pub deterministic: bool,
}

impl Capability {
    /// Every operation, one at a time, in the calling thread, in place (but for compression and encipherment) or not, without limits and without streams.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            operations: algorithm.kind().operations(),
            lanes: 1,
            ring: usize::MAX,
            max_bytes: usize::MAX,
            break_even: 1,
            direct: true,
            in_place: !matches!(algorithm.kind(), Kind::Compression | Kind::Encipherment),
            streaming: false,
            deterministic: false,
        }
    }
}

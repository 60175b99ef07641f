//! The support of a device for one algorithm, as data.

use crate::algorithm::{Algorithm, Kind, Operation};

/// The support of a device for one algorithm. `..Capability::new(algorithm)` fills in the usual values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a promise of its own")]
pub struct Capability {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The supported operations of the algorithm.
    pub operations: &'static [Operation],
    /// The number of requests processed side by side in hardly more time than one request; 1 for plain software.
    pub lanes: usize,
    /// Maximum requests in flight; `usize::MAX` if only memory limits them.
    pub max_in_flight: usize,
    /// Maximum bytes of data in one request.
    pub max_bytes: usize,
    /// The break-even: requests in flight from which the device beats plain software. `usize::MAX` if plain software is
    /// always faster.
    pub break_even: usize,
    /// The device works in the calling thread: [`DeviceSession::run`](super::DeviceSession::run) is supported, and a queue
    /// pair has completed its requests when `submit` returns.
    pub synchronous: bool,
    /// Requests may have input and output in the same buffer.
    pub in_place: bool,
    /// The stream method for the algorithm's kind works: [`DeviceSession::digest_stream`](super::DeviceSession::digest_stream),
    /// `cipher_stream` or `aead_stream`.
    pub streaming: bool,
    /// The device can also sign without a random number, if a session [asks for it](crate::SessionParams::deterministic).
    /// Only for signatures that normally take a random number.
    pub deterministic: bool,
}

impl Capability {
    /// Makes the capability of a device that supports every operation in the calling thread, one request at a time, without
    /// limits and without streams. In-place requests are supported except for compression and encipherment.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            operations: algorithm.kind().operations(),
            lanes: 1,
            max_in_flight: usize::MAX,
            max_bytes: usize::MAX,
            break_even: 1,
            synchronous: true,
            in_place: !matches!(algorithm.kind(), Kind::Compression | Kind::Encipherment),
            streaming: false,
            deterministic: false,
        }
    }
}

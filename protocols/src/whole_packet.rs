//! Devices that process a whole packet: header, padding, encryption and integrity check value in one operation.

use gantry_core::driver::Class;
use gantry_core::{Algorithm, Gantry, Operation, Session};

/// The fields of a whole packet. The number is always input. The other fields are input when protecting, and results when unprotecting.
#[derive(Clone, Copy, Default)]
pub(crate) struct PacketFields {
    pub(crate) number: u64,
    /// Length of the payload in bytes.
    pub(crate) payload_len: usize,
    pub(crate) next_header: u8,
}

/// Returns whether a device other than plain software processes whole packets. Plain software would gain nothing, because it
/// would still process each part of a packet in turn.
pub(crate) fn is_offered(gantry: &Gantry, algorithm: Algorithm) -> bool {
    gantry.devices().iter().any(|device| device.class() != Class::Software && device.capability(algorithm).is_some())
}

/// Returns whether whole packets take at most as long as their parts, by the known costs. If costs are unknown, returns true, so that whole
/// packets are tried. Ignores whole packets in plain software, which takes about as long for the parts.
pub(crate) fn is_faster(whole: &Session, parts: &Session, operation: Operation, requests: usize, bytes: usize) -> bool {
    let best_ns = |session: &Session, operation, is_eligible: fn(Class) -> bool| {
        let algorithm = session.params().algorithm();
        let devices = session.gantry().devices().iter().filter(|device| is_eligible(device.class()));
        let known = devices.filter_map(|device| device.costs(algorithm, operation)).filter(|costs| costs.is_known());
        known.map(|costs| costs.estimate(requests, bytes).wall_ns).min_by(f32::total_cmp)
    };
    let part = if operation == Operation::Protect { Operation::Seal } else { Operation::Open };
    match (best_ns(whole, operation, |class| class != Class::Software), best_ns(parts, part, |_| true)) {
        (Some(whole), Some(parts)) => whole <= parts,
        _ => true,
    }
}

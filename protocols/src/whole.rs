//! Devices that do a whole packet: header, padding, encryption and integrity check value in one operation.

use gantry_core::driver::Class;
use gantry_core::{Algorithm, Gantry, Operation, Session};

/// What a device is told of a packet, or tells.
#[derive(Clone, Copy, Default)]
pub(crate) struct Content {
    pub(crate) number: u64,
    /// Bytes of the payload.
    pub(crate) payload: usize,
    pub(crate) next_header: u8,
}

/// Whether a device does whole packets that is not plain software: that would do their parts, one packet after another.
pub(crate) fn is_there(gantry: &Gantry, algorithm: Algorithm) -> bool {
    gantry.devices().iter().any(|device| device.class() != Class::Software && device.capability(algorithm).is_some())
}

/// Whether whole packets take less time than their parts, by what is known of the devices. What is not known yet is tried.
pub(crate) fn pays(whole: &Session, parts: &Session, operation: Operation, requests: usize, bytes: usize) -> bool {
    let best = |session: &Session, operation| {
        let algorithm = session.params().algorithm();
        let costs = session.gantry().devices().iter().filter_map(|device| device.costs(algorithm, operation));
        let known = costs.filter(|costs| costs.is_known());
        known.map(|costs| costs.estimate(requests, bytes).wall_ns).min_by(f32::total_cmp)
    };
    let part = if operation == Operation::Protect { Operation::Seal } else { Operation::Open };
    match (best(whole, operation), best(parts, part)) {
        (Some(whole), Some(parts)) => whole <= parts,
        _ => true,
    }
}

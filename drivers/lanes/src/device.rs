//! The device: the lanes of this CPU.

use std::sync::Arc;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, QueuePair};
use gantry_core::{Algorithm, Fault, Operation, Refusal, SessionParams};
use gantry_digest::Level;

use crate::queue::LanesQueue;
use crate::session::{Family, lanes_of, open};

/// The lanes of this CPU.
pub(crate) struct LanesDevice {
    level: Level,
    info: DeviceInfo,
}

impl LanesDevice {
    pub(crate) fn new(level: Level) -> Self {
        let info = DeviceInfo {
            description: description(level),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities: Algorithm::ALL.iter().filter_map(|&algorithm| capability(level, algorithm)).collect(),
            ..DeviceInfo::new(crate::NAME, Class::Simd)
        };
        LanesDevice { level, info }
    }
}

impl Device for LanesDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(open(self.level, params)?)
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(LanesQueue)))
    }
}

/// Returns the capability for an algorithm at a level. `None` if the algorithm has no lanes.
fn capability(level: Level, algorithm: Algorithm) -> Option<Capability> {
    let (lanes, break_even) = lanes_of(level, algorithm)?;
    let base = Capability::new(algorithm);
    Some(match Family::of(algorithm)?.0 {
        // Only encryption has lanes: each of its blocks waits for the previous one. In decryption, the blocks are independent.
        Family::Cbc => Capability { operations: &[Operation::Encrypt], lanes, break_even, streaming: true, ..base },
        // These modes accept only whole data units and messages.
        Family::Xts | Family::Ccm | Family::Etm => Capability { lanes, break_even, ..base },
        _ => Capability { lanes, break_even, streaming: true, ..base },
    })
}

/// Describes the CPU for users: the level in use, the level of the CPU if it differs, and further instructions that the kernels
/// use.
fn description(level: Level) -> String {
    let features = [
        (level.wide_aes(), "VAES"),
        (level.aes() && !level.wide_aes(), "AES"),
        (level.vpclmul(), "VPCLMULQDQ"),
        (level.sha(), "SHA"),
        (level.sha512(), "SHA-512"),
    ];
    let mut parts = vec![format!("level {}", level.name())];
    if level.name() != level.detected() {
        parts.push(format!("{} found", level.detected()));
    }
    parts.extend(features.into_iter().filter(|(present, _)| *present).map(|(_, name)| format!("{name} instructions")));
    parts.join(", ")
}

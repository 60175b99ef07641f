//! The device: the lanes of this CPU, as data.

use std::sync::Arc;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, QueuePair};
use gantry_core::{Algorithm, Fault, Operation, Refusal, SessionParams};
use gantry_digest::Level;

use crate::queue::LanesQueue;
use crate::session::{Family, LanesSession, lanes_of};

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
        Ok(Arc::new(LanesSession::open(self.level, params)?))
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        Ok(Some(Box::new(LanesQueue::default())))
    }
}

/// What the lanes offer for an algorithm at a level.
fn capability(level: Level, algorithm: Algorithm) -> Option<Capability> {
    let (lanes, break_even) = lanes_of(level, algorithm)?;
    let usual = Capability::new(algorithm);
    Some(match Family::of(algorithm)?.0 {
        // Has lanes only where its blocks wait for each other.
        Family::Cbc => Capability { operations: &[Operation::Encrypt], lanes, break_even, streaming: true, ..usual },
        // Data units and messages are whole.
        Family::Xts | Family::Ccm | Family::Etm => Capability { lanes, break_even, ..usual },
        _ => Capability { lanes, break_even, streaming: true, ..usual },
    })
}

/// For people: the level, what limits it, and the instructions beside it.
fn description(level: Level) -> String {
    let beside = [
        (level.wide_aes(), "VAES"),
        (level.aes() && !level.wide_aes(), "AES"),
        (level.vpclmul(), "VPCLMULQDQ"),
        (level.sha(), "SHA"),
        (level.sha512(), "SHA-512"),
    ];
    let mut parts = vec![format!("level {}", level.name())];
    if level.name() != level.found() {
        parts.push(format!("{} found", level.found()));
    }
    parts.extend(beside.into_iter().filter(|(there, _)| *there).map(|(_, name)| format!("{name} instructions")));
    parts.join(", ")
}

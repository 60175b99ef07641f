//! Modelled accelerators: devices with the timing of real ones, correct results, and faults on demand.
//!
//! A [`Profile`] is a row of data: the cost of a request, the capacity, and the degree of parallelism. The results come from a reference
//! device that the caller supplies. Computing them adds nothing to the measured times: in real time a thread of the model does it, and in
//! [virtual time](ModelClock::Virtual) it takes no time.
//!
//! A profile is a card with a ring that all its queues share, or the software of a modelled board ([`Profile::is_software`]). Such
//! software works in the calling thread and uses its time.
//!
//! | file | content |
//! |---|---|
//! | `profile.rs` | the engines as rows of data, each with its source |
//! | `card.rs` | the ring and the schedule |
//! | `card/session.rs` | a session, with the results of the reference |
//! | `faults.rs`, `random.rs` | faults on demand |
//! | `running.rs` | a card with its thread |
//! | `clock.rs` | real or virtual time |

#![forbid(unsafe_code)]

/// The card: its ring, its units, and the requests in it.
mod card;
/// The two clocks.
mod clock;
/// The `Device` that core uses.
mod device;
/// Faults on demand.
mod faults;
/// Engines as rows of data.
mod profile;
mod queue;
mod random;
mod running;

use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};

pub use card::Meter;
pub use clock::ModelClock;
use device::ModelDevice;
pub use faults::{FaultInjector, FaultPlan, InjectedFault};
pub use profile::{Completion, InvalidProfile, PROFILES, Power, Profile, Rate};

/// Discovers one modelled device.
pub struct ModelDriver {
    device: Arc<ModelDevice>,
}

impl ModelDriver {
    /// Creates a device with this profile, and the results of `reference`.
    ///
    /// # Errors
    /// The profile is impossible, or names an algorithm that the reference does not run directly.
    pub fn new(profile: Profile, reference: Arc<dyn Device>, clock: ModelClock) -> Result<Self, InvalidProfile> {
        Self::with_faults(profile, reference, clock, FaultInjector::default())
    }

    /// Creates a device like [`new`](Self::new), with faults that can be changed later. The faults affect only cards, not the software of a
    /// board ([`Profile::is_software`]).
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_faults(
        profile: Profile,
        reference: Arc<dyn Device>,
        clock: ModelClock,
        faults: FaultInjector,
    ) -> Result<Self, InvalidProfile> {
        Ok(Self { device: Arc::new(ModelDevice::new(profile, reference, clock, faults)?) })
    }

    /// Returns the work that the device has done so far.
    pub fn meter(&self) -> Meter {
        self.device.meter()
    }
}

impl Driver for ModelDriver {
    fn name(&self) -> &'static str {
        "model"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(self.device.clone())]
    }
}

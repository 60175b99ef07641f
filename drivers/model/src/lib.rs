//! Modelled accelerators: devices with the timing of real ones, true results, and faults on demand.
//!
//! A [`Profile`] is a row of data: what one request costs, how many fit in, what runs side by side. The results come from a
//! reference device that the caller hands over. They are computed off the measured path: by a thread of the model where time
//! is real, and in no time at all where it is [virtual](Time::Virtual).
//!
//! A profile is either a card with a ring that all its queues share, or ([`Profile::direct`]) the software of a modelled
//! board, which works in the calling thread and whose time is that thread's.
//!
//! | file | content |
//! |---|---|
//! | `profile.rs` | the engines as rows of data, each with its source |
//! | `card.rs` | the ring and the schedule |
//! | `session.rs` | asks the reference |
//! | `faults.rs`, `random.rs` | make it go wrong |
//! | `running.rs` | a card with its thread |
//! | `time.rs` | real or virtual time |

#![forbid(unsafe_code)]

/// The card: its ring, its units, and what is in it.
mod card;
/// The `Device`.
mod device;
/// What goes wrong on demand.
mod faults;
/// Engines as rows of data.
mod profile;
mod queue;
mod random;
mod running;
mod session;
/// The two clocks.
mod time;

use std::sync::Arc;

use gantry_core::driver::{Device, Driver, Found};

pub use card::Meter;
use device::ModelDevice;
pub use faults::{FaultPlan, Faults, Injected};
pub use profile::{Absurd, Completion, PROFILES, Power, Profile, Rate};
pub use time::Time;

/// Discovers one modelled device.
pub struct ModelDriver {
    device: Arc<ModelDevice>,
}

impl ModelDriver {
    /// A device of this profile, which computes what `reference` computes.
    ///
    /// # Errors
    /// A profile that no engine can have, or with an algorithm that the reference does not run directly.
    pub fn new(profile: Profile, reference: Arc<dyn Device>, time: Time) -> Result<Self, Absurd> {
        Self::with_faults(profile, reference, time, Faults::default())
    }

    /// The same; `faults` says what goes wrong, from now on and later. They happen to cards: the software of a board
    /// ([`Profile::direct`]) has none.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn with_faults(
        profile: Profile,
        reference: Arc<dyn Device>,
        time: Time,
        faults: Faults,
    ) -> Result<Self, Absurd> {
        Ok(Self { device: Arc::new(ModelDevice::new(profile, reference, time, faults)?) })
    }

    /// What the device has done so far.
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

//! Runs the suite on every modelled device in virtual time, and on two of them in real time.

use std::path::Path;
use std::sync::Arc;

use gantry_conformance::Options;
use gantry_core::driver::{Device, Driver, Found};
use gantry_core::{Clock, Gantry, RealClock, VirtualClock};
use gantry_driver_model::{ModelClock, ModelDriver, PROFILES, Profile};
use gantry_driver_software::SoftwareDriver;

/// The framework's clock, at a hundredth of real speed. A short stall of the machine then makes no card miss a time limit.
#[derive(Debug, Default)]
struct SlowClock(RealClock);

impl Clock for SlowClock {
    fn now(&self) -> u64 {
        self.0.now() / 100
    }

    fn wait(&self, until: Option<u64>) {
        self.0.wait(until);
    }

    fn spend(&self, ns: u64) {
        self.0.spend(ns);
    }
}

fn conforms(profile: &Profile, model_clock: ModelClock, clock: Arc<dyn Clock>) {
    let driver = ModelDriver::new(profile.clone(), reference(), model_clock).unwrap();
    let gantry = Gantry::builder().driver(&SoftwareDriver).driver(&driver).clock(clock).build();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared").join(format!("model-{}.txt", profile.name));
    gantry_conformance::assert_conforms(
        &gantry,
        &format!("model:{}", profile.name),
        &Options::with_reference("software"),
        file,
    );
}

fn reference() -> Arc<dyn Device> {
    match SoftwareDriver.discover().remove(0) {
        Found::Device(device) => device,
        Found::Excluded { reason, .. } => panic!("{reason}"),
    }
}

#[test]
fn every_model_in_virtual_time() {
    for profile in PROFILES {
        let clock = Arc::new(VirtualClock::default());
        conforms(profile, ModelClock::Virtual(clock.clone()), clock);
    }
}

#[test]
fn a_card_and_software_in_real_time() {
    for name in ["faulty", "cortex-a9-cpu"] {
        conforms(Profile::named(name).unwrap(), ModelClock::real(), Arc::new(SlowClock::default()));
    }
}

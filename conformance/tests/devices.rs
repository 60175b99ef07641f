//! Runs the suite on every device that needs no hardware. Each line has a test, a device, its driver, and the name of its
//! declaration under `declared/`. The software device is the reference.

use std::path::Path;

use gantry_conformance::Options;
use gantry_core::driver::Driver;
use gantry_core::{Gantry, GantryBuilder};
use gantry_driver_lanes::{LanesDriver, Level, LevelName};
use gantry_driver_null::NullDriver;
use gantry_driver_software::SoftwareDriver;

macro_rules! devices {
    ($($test:ident: $device:literal, $driver:expr, $declaration:expr;)+) => {
        $(#[test]
        fn $test() {
            conforms(&$driver, $device, $declaration.as_ref());
        })+
    };
}

devices! {
    null: "null", NullDriver, "null";
    software: "software", SoftwareDriver, "software";
    lanes_base: "lanes", lanes(LevelName::Base), declaration_of_lanes(LevelName::Base);
    lanes_avx2: "lanes", lanes(LevelName::Avx2), declaration_of_lanes(LevelName::Avx2);
    lanes_vaes: "lanes", lanes(LevelName::Vaes), declaration_of_lanes(LevelName::Vaes);
    lanes_avx512: "lanes", lanes(LevelName::Avx512), declaration_of_lanes(LevelName::Avx512);
}

fn lanes(limit: LevelName) -> LanesDriver {
    LanesDriver::new(Level::detect_at_most(Some(limit)))
}

/// Returns the declaration of the level in use, which is below `limit` on a CPU that lacks the instructions of `limit`.
fn declaration_of_lanes(limit: LevelName) -> String {
    format!("lanes-{}-{}", std::env::consts::ARCH, Level::detect_at_most(Some(limit)).name())
}

fn conforms(driver: &dyn Driver, device: &str, declaration: &str) {
    let reference = SoftwareDriver;
    let drivers = [&reference as &dyn Driver, driver].into_iter().skip(usize::from(driver.name() == reference.name()));
    let gantry = drivers.fold(Gantry::builder(), GantryBuilder::driver).build();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared").join(declaration).with_extension("txt");
    gantry_conformance::assert_conforms(&gantry, device, &Options::with_reference("software"), file);
}

//! Every device of this repository against the suite: one line each.
//!
//! The software device is the reference of all others.

use std::path::Path;

use gantry::Gantry;
use gantry::driver::Driver;
use gantry_driver_null::NullDriver;
use gantry_driver_software::SoftwareDriver;

macro_rules! conforms {
    ($($test:ident: $device:literal of $driver:expr, as $declaration:literal;)+) => {
        $(#[test]
        fn $test() {
            conforms(&$driver, $device, $declaration);
        })+
    };
}

conforms! {
    null: "null" of NullDriver, as "null";
    software: "software" of SoftwareDriver, as "software";
}

fn conforms(driver: &dyn Driver, device: &str, declaration: &str) {
    let gantry =
        if driver.name() == "software" { Gantry::builder() } else { Gantry::builder().driver(&SoftwareDriver) };
    let gantry = gantry.driver(driver).build();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared").join(declaration).with_extension("txt");
    gantry_conformance::assert_conforms(&gantry, device, Some("software"), file);
}

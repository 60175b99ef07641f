//! The lanes against a short part of the suite, with no other device to compare with. `conformance/tests/devices.rs` runs all of it
//! beside the software device; this needs no AWS-LC, so that it runs wherever the lanes do (`scripts/arm`).

use gantry_conformance::{Options, Random, run};
use gantry_core::Gantry;
use gantry_driver_lanes::{LanesDriver, Level, LevelName};

#[test]
fn every_level_conforms() {
    let options = Options { random: Random::Rounds(2), step: 19, ..Options::default() };
    for name in LevelName::ALL {
        let gantry = Gantry::builder().driver(&LanesDriver::new(Level::detect_at_most(Some(name)))).build();
        let report = run(&gantry, "lanes", &options, &mut |_| ()).expect("there is such a device");
        assert!(!report.rows.is_empty(), "{name}: nothing was tested");
        let problems = report.problems();
        assert!(problems.is_empty(), "{name}\n{}", problems.join("\n"));
    }
}

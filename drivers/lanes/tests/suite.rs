//! Runs a short part of the conformance suite on the lanes alone. `conformance/tests/devices.rs` runs the whole suite on the lanes, with
//! the software device as the reference; this test needs no AWS-LC, so it runs on every target of the lanes (`scripts/arm`).

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

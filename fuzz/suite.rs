//! The conformance suite on the software device and on the lanes of every CPU level, in the build of the fuzz targets: with
//! AddressSanitizer and debug assertions. `scripts/fuzz` runs it.

use std::process::ExitCode;
use std::time::Duration;

use gantry_conformance::Options;
use gantry_core::Gantry;
use gantry_driver_lanes::{LanesDriver, Level, LevelName};
use gantry_driver_software::SoftwareDriver;

fn main() -> ExitCode {
    let mut problems = suite(&Gantry::builder().driver(&SoftwareDriver).build(), "software");
    for limit in LevelName::ALL {
        let level = Level::detect_at_most(Some(limit));
        // A CPU that lacks a level has the next lower one, which runs under its own name.
        if level.name() == limit {
            let lanes = LanesDriver::new(level);
            problems += suite(&Gantry::builder().driver(&SoftwareDriver).driver(&lanes).build(), "lanes");
        }
    }
    if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the suite on a device, as far as it gets in this time with at least one case of each check, and returns the number of problems.
fn suite(gantry: &Gantry, device: &str) -> usize {
    let options = Options { time_limit: Some(Duration::from_secs(20)), ..Options::sampled("software") };
    let report = gantry_conformance::run(gantry, device, &options, &mut |_| ());
    let problems = report.expect("the framework has both devices").problems();
    println!("-- suite {device}: {} problems", problems.len());
    problems.iter().for_each(|problem| println!("{problem}"));
    problems.len()
}

//! `gantry bench`: a score for each use.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "52 bits are more than any clock has")]

/// Scores beside saved ones.
mod compare;
/// The page.
mod html;
/// Rounds, and more of them where they differ.
mod measure;
/// Times become scores.
mod score;
/// The definitions.
mod uses;

use std::fs;
use std::time::Instant;

use crate::args::{Bench as Arguments, Settings};
use crate::machine::Machine;
use crate::output::{self, Failure, Output, must_be_writable, progress_bar};
use compare::Baseline;
use score::Bench;

pub(crate) fn run(args: &Arguments, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let start = Instant::now();
    let baseline = args.compare.as_deref().map(Baseline::read).transpose()?;
    for file in args.save.iter().chain(&args.html) {
        must_be_writable(file)?;
    }
    let gantry = settings.open()?;
    let bar = progress_bar(args.seconds.ceil() as u64);
    bar.set_message("learns what the devices cost");
    let mut points = measure::points(&gantry)?;
    measure::run(&mut points, start, args.seconds, &bar)?;
    bar.finish_and_clear();
    let mut bench = Bench::new(&points, Machine::here(&gantry), gantry.policy().name(), args.seconds);
    if let Some(file) = &args.save {
        fs::write(file, output::json(&bench)?).map_err(|error| Failure::at(file.display(), &error))?;
    }
    if let Some(baseline) = &baseline {
        bench.compare(baseline);
    }
    if let Some(file) = &args.html {
        fs::write(file, html::page(&bench)).map_err(|error| Failure::at(file.display(), &error))?;
    }
    if args.json { output.json(&bench) } else { output.write(&bench.text()) }
}

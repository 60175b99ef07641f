//! `gantry check`: runs the conformance suite on the devices of this machine.

#![allow(clippy::cast_precision_loss, reason = "devices times algorithms are few")]

mod vectors;

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use gantry_conformance::{Check as Part, Options, Progress, Random, Report, SKIPPED_FOR_TIME};
use gantry_core::{Algorithm, DeviceState, Gantry, RegisteredDevice};
use gantry_runtime::Origin;
use serde::Serialize;

use crate::args::{self, Check, Settings};
use crate::output::{Failure, Output, print_message, progress_bar};
use crate::table::Table;
use crate::terminal::{Colour, paint};
use crate::units::share;
use vectors::VectorSource;

/// The device whose results are the reference for other devices.
const REFERENCE: &str = "software";

pub(crate) fn run(args: &Check, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let config = settings.config()?;
    let configured: Vec<String> = (config.show().into_iter())
        .filter(|shown| shown.origin != Origin::Default)
        .map(|shown| format!(" --set {}={}", shown.key, shown.value))
        .collect();
    let gantry = gantry_runtime::open(config)?;
    let wanted = args::algorithms(&args.algorithm)?;
    let devices = devices(&gantry, &args.device, &wanted)?;
    let algorithm_count = |device: &&RegisteredDevice| offered_algorithms(device, &wanted).count();
    let total: usize = devices.iter().map(algorithm_count).sum();
    let bar = progress_bar((total * Part::ALL.len()) as u64);
    let time = Duration::from_secs_f64(args.seconds);
    let deadline = Instant::now() + time;
    let time_left = || deadline.saturating_duration_since(Instant::now());
    let (vectors, source) = vectors::find(env::current_exe());
    if let VectorSource::Unusable(_) = source {
        print_message(&source.to_string());
    }
    // Run the known-answer tests of every device first. The report has their failures.
    for device in &devices {
        for algorithm in offered_algorithms(device, &wanted) {
            bar.set_message(format!("known answers  {} {algorithm}", device.name()));
            let _ = device.admit(algorithm);
        }
    }
    let mut results = Vec::new();
    let mut remaining = total;
    for device in devices {
        let options = Options {
            algorithms: wanted.clone(),
            reference: gantry.device(REFERENCE).map(|device| device.name().to_owned()),
            seed: args.seed,
            random: Random::Time(time / total as u32),
            vectors: vectors.clone(),
            time_limit: (!args.all).then(|| time_left().mul_f64(algorithm_count(&device) as f64 / remaining as f64)),
            ..Options::default()
        };
        remaining -= algorithm_count(&device);
        let (name, before) = (device.name(), bar.position());
        let report = gantry_conformance::run(&gantry, name, &options, &mut |progress: Progress| {
            bar.set_position(before + progress.done as u64);
            let left = if args.all { bar.eta() } else { time_left() };
            bar.set_message(format!("{} s left  {name} {} {}", left.as_secs(), progress.algorithm, progress.check));
        });
        bar.set_position(before + (algorithm_count(&device) * Part::ALL.len()) as u64);
        results.extend(report.map(|report| Row::new(&report, args.all, &source, &configured.concat())));
    }
    bar.finish_and_clear();
    if args.json {
        output.json(&results)?;
    } else {
        output.write(&summary(&results, &source, args.seed))?;
    }
    let has_passed = results.iter().all(|row| row.passed) && !matches!(source, VectorSource::Unusable(_));
    if has_passed { Ok(()) } else { Err(Failure::Reported) }
}

/// Returns the devices to check: the named ones, or without names all that serve a wanted algorithm.
fn devices<'g>(
    gantry: &'g Gantry,
    names: &[String],
    wanted: &[Algorithm],
) -> Result<Vec<&'g RegisteredDevice>, Failure> {
    let mut devices = Vec::new();
    for name in names {
        let device = &gantry.devices()[args::device(gantry, name)?];
        if let DeviceState::Excluded(reason) = device.state() {
            return Err(Failure::Failed(format!("{name} is excluded: {reason}")));
        }
        if offered_algorithms(device, wanted).next().is_none() {
            return Err(Failure::Failed(format!("{name} serves none of these algorithms")));
        }
        devices.push(device);
    }
    if names.is_empty() {
        devices.extend(gantry.devices().iter().filter(|device| offered_algorithms(device, wanted).next().is_some()));
    }
    if devices.is_empty() {
        return Err(Failure::Failed("no device serves any of these algorithms".to_owned()));
    }
    Ok(devices)
}

fn offered_algorithms(device: &RegisteredDevice, wanted: &[Algorithm]) -> impl Iterator<Item = Algorithm> {
    let algorithms = device.capabilities().iter().map(|capability| capability.algorithm);
    algorithms.filter(|algorithm| wanted.is_empty() || wanted.contains(algorithm))
}

/// A device in the JSON.
#[derive(Serialize)]
struct Row {
    device: String,
    passed: bool,
    /// True if `--all` ran the complete suite, including Wycheproof's vectors.
    whole: bool,
    wycheproof: VectorSource,
    /// Steps of the suite that ran. A step is a vector, a batch, or a message cut at one place. Random requests are not counted.
    steps: u64,
    /// Steps for which the time was too short.
    steps_left_out: u64,
    algorithms: Vec<AlgorithmRow>,
    /// Failures and other problems, in words.
    problems: Vec<String>,
    /// Commands that repeat the mismatches.
    repeat: Vec<String>,
}

/// A part of the suite on one algorithm, in the JSON.
#[derive(Serialize)]
struct AlgorithmRow {
    algorithm: &'static str,
    check: &'static str,
    cases: u64,
    mismatches: usize,
    /// Cases that do not apply, and steps for which the time was too short, counted by reason.
    left_out: BTreeMap<String, u64>,
}

impl Row {
    fn new(report: &Report, whole: bool, source: &VectorSource, configured: &str) -> Self {
        let row = |row: &gantry_conformance::CheckResult| AlgorithmRow {
            algorithm: row.algorithm.name(),
            check: row.check.name(),
            cases: row.passed + row.mismatches.len() as u64,
            mismatches: row.mismatches.len(),
            left_out: row.skipped.clone(),
        };
        let mut repeat = Vec::new();
        for row in &report.rows {
            for mismatch in &row.mismatches {
                // A round of random cases begins with its own seed, and --seconds 0 runs exactly one round.
                let command = format!(
                    "gantry{configured} check --all --device {} --algorithm {} --seed {} --seconds 0",
                    report.device, row.algorithm, mismatch.seed
                );
                if !repeat.contains(&command) {
                    repeat.push(command);
                }
            }
        }
        let late_steps =
            |row: &gantry_conformance::CheckResult| row.skipped.get(SKIPPED_FOR_TIME).copied().unwrap_or(0);
        let steps_left_out = report.rows.iter().map(late_steps).sum();
        Self {
            device: report.device.clone(),
            passed: report.passed(),
            whole: steps_left_out == 0 && whole && matches!(source, VectorSource::From(_)),
            wycheproof: source.clone(),
            steps: report.rows.iter().map(|row| row.steps).sum(),
            steps_left_out,
            algorithms: report.rows.iter().map(row).collect(),
            problems: report.problems(),
            repeat,
        }
    }
}

/// Formats the results as text.
fn summary(results: &[Row], source: &VectorSource, seed: u64) -> String {
    let mut table = Table::new(&["DEVICE", "ALGORITHMS", "CASES", "MISMATCHES", "SUITE", "RESULT"], &[1, 2, 3, 4]);
    for row in results {
        let mut algorithms: Vec<&str> = row.algorithms.iter().map(|row| row.algorithm).collect();
        algorithms.dedup();
        table.add_row([
            row.device.clone(),
            algorithms.len().to_string(),
            row.algorithms.iter().map(|row| row.cases).sum::<u64>().to_string(),
            row.algorithms.iter().map(|row| row.mismatches).sum::<usize>().to_string(),
            share(row.steps, row.steps + row.steps_left_out),
            if row.passed { paint("passed", Colour::Green) } else { paint("FAILED", Colour::Red) },
        ]);
    }
    let mut lines =
        vec![format!("seed {seed}; cases that do not apply to a device are listed with --json"), source.to_string()];
    let sum = |steps: fn(&Row) -> u64| results.iter().map(steps).sum::<u64>();
    let (run, late) = (sum(|row| row.steps), sum(|row| row.steps_left_out));
    if late > 0 {
        lines.push(format!("{run} of {} steps of the suite ran in this time; --all runs all of them", run + late));
    } else if results.iter().all(|row| row.whole) {
        lines.push(format!("the whole suite, {run} steps, and random requests"));
    }
    for row in results.iter().filter(|row| !row.passed) {
        lines.push(String::new());
        lines.extend(row.problems.iter().cloned());
        lines.extend(row.repeat.iter().map(|command| format!("repeat: {command}")));
    }
    format!("{}{}\n", table.render(), lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_conformance::Mismatch;

    #[test]
    fn a_mismatch_comes_with_the_command_that_repeats_it() {
        let mismatch = |seed| Mismatch { description: "batch of 7: the output is wrong".to_owned(), seed };
        let row = |check, passed, mismatches| gantry_conformance::CheckResult {
            algorithm: Algorithm::Sha256,
            check,
            passed,
            steps: 3,
            skipped: BTreeMap::new(),
            mismatches,
        };
        let rows = vec![row(Part::Vectors, 9, vec![]), row(Part::Random, 5, vec![mismatch(41), mismatch(41)])];
        let report = Report { device: "lanes".into(), capabilities: Vec::new(), rows };
        let (from, missing) = (VectorSource::From("/a/file".into()), VectorSource::Missing("no file".into()));
        let row = |source| Row::new(&report, true, source, " --set cpu=avx2");
        assert!(!row(&missing).whole, "not whole without Wycheproof's vectors");
        let row = row(&from);
        assert!(!row.passed);
        assert_eq!((row.algorithms[1].cases, row.algorithms[1].mismatches), (7, 2));
        let repeat = "gantry --set cpu=avx2 check --all --device lanes --algorithm sha256 --seed 41 --seconds 0";
        assert_eq!(row.repeat, [repeat]);
        let text = summary(&[row], &from, 1);
        assert!(text.contains("with Wycheproof's vectors, from /a/file\n"), "{text}");
        assert!(text.contains("the whole suite, 6 steps"), "{text}");
        assert!(text.contains("lanes            1     16           2  100 %  FAILED"), "{text}");
        assert!(text.contains(&format!("repeat: {repeat}\n")), "{text}");
    }
}

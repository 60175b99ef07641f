//! `gantry route`: explains the device that the policy chooses for requests.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "52 bits are more than any size has")]

use std::time::SystemTime;

use gantry_core::{Algorithm, Gantry, Operation};
use serde::Serialize;

use crate::args::{self, Route, Settings};
use crate::output::{Failure, Output, print_message};
use crate::speed::accepts_size;
use crate::table::Table;
use crate::units::duration;

/// The answer, in the JSON.
#[derive(Serialize)]
struct Answer {
    algorithm: &'static str,
    operation: &'static str,
    bytes: usize,
    batch: usize,
    policy: &'static str,
    /// The parts of the batch in the order of submission.
    routes: Vec<BatchPart>,
    devices: Vec<Estimate>,
}

/// Requests with the same route.
#[derive(Serialize)]
struct BatchPart {
    device: String,
    requests: usize,
    reason: &'static str,
}

/// Estimated time of a device for all requests, in nanoseconds; `null` if unknown.
#[derive(Serialize)]
struct Estimate {
    device: String,
    wall_ns: Option<f32>,
    cpu_ns: Option<f32>,
    /// Number of measurements in the nearest cell of the cost table; `age_s` is their age in seconds.
    measurements: Option<u32>,
    age_s: Option<u64>,
}

pub(crate) fn run(args: &Route, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let gantry = settings.open()?;
    let algorithms = args::algorithms(std::slice::from_ref(&args.algorithm))?;
    let mut answers = Vec::new();
    let &Route { bytes, batch, .. } = args;
    if bytes.max(1).checked_mul(batch).is_none_or(|all| all > isize::MAX as usize) {
        return Err(Failure::Usage(format!("{batch} requests of {bytes} bytes do not fit into any memory")));
    }
    let several = algorithms.len() > 1;
    for algorithm in algorithms {
        if !accepts_size(algorithm, bytes) {
            if several {
                print_message(&format!("{algorithm} takes no data of {bytes} bytes and is left out"));
                continue;
            }
            return Err(Failure::Usage(format!("{algorithm} takes no data of {bytes} bytes")));
        }
        let operations = algorithm.kind().operations();
        let operation = args.operation.map_or(operations[0], |wanted| wanted.0);
        if !operations.contains(&operation) {
            return Err(Failure::Usage(format!("{algorithm} has no operation {operation}")));
        }
        answers.push(answer(&gantry, algorithm, operation, args)?);
    }
    if answers.is_empty() {
        return Err(Failure::Usage(format!("none of {} takes data of {bytes} bytes", args.algorithm)));
    }
    gantry.warnings().iter().for_each(|warning| print_message(warning));
    if args.json {
        // A name that stands for one algorithm gives one object.
        return if let [answer] = &*answers { output.json(answer) } else { output.json(&answers) };
    }
    let texts: Vec<String> = answers.iter().map(Answer::text).collect();
    output.write(&texts.join("\n"))
}

fn answer(gantry: &Gantry, algorithm: Algorithm, operation: Operation, args: &Route) -> Result<Answer, Failure> {
    let &Route { bytes, batch, .. } = args;
    let offering = |device: &&gantry_core::RegisteredDevice| {
        device.capability(algorithm).is_some_and(|capability| capability.operations.contains(&operation))
    };
    let devices: Vec<_> = gantry.devices().iter().filter(offering).collect();
    if devices.len() > 1 {
        gantry.calibrate(algorithm, operation, false);
    }
    let session = gantry.session(gantry_core::sample_params(algorithm))?;
    let mut routes = Vec::new();
    let mut left = batch;
    while left > 0 {
        let route = session
            .route(operation, bytes, left)
            .ok_or_else(|| Failure::Failed(format!("no device can {operation} {bytes} bytes with {algorithm}")))?;
        let requests = route.requests.clamp(1, left);
        let device = gantry.devices()[route.device].name().to_owned();
        routes.push(BatchPart { device, requests, reason: route.reason.code() });
        left -= requests;
    }
    let estimate = |device: &&gantry_core::RegisteredDevice| {
        let costs = device.costs(algorithm, operation).filter(|costs| costs.is_known());
        let estimate = costs.map(|costs| costs.estimate(batch, bytes));
        let basis = costs.and_then(|costs| costs.basis(batch, bytes));
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        Estimate {
            device: device.name().to_owned(),
            wall_ns: estimate.map(|estimate| estimate.wall_ns.round()),
            cpu_ns: estimate.map(|estimate| estimate.cpu_ns.round()),
            measurements: basis.map(|(cell, _)| cell.measurements),
            age_s: basis.map(|(_, at)| now.saturating_sub(at)),
        }
    };
    let devices = devices.iter().map(estimate).collect();
    let (algorithm, operation, policy) = (algorithm.name(), operation.name(), gantry.policy().name());
    Ok(Answer { algorithm, operation, bytes, batch, policy, routes, devices })
}

impl Answer {
    fn text(&self) -> String {
        let Self { algorithm, operation, bytes, batch, policy, routes, devices } = self;
        let mut parts = Table::new(&["REQUESTS", "DEVICE", "REASON"], &[0]);
        for BatchPart { device, requests, reason } in routes {
            parts.add_row([requests.to_string(), device.clone(), (*reason).to_owned()]);
        }
        let all = format!("TIME FOR {batch}");
        let mut estimates = Table::new(&["DEVICE", &all, "OF THE THREAD", "MB/s", "MEASURED"], &[1, 2, 3]);
        for Estimate { device, wall_ns, cpu_ns, measurements, age_s } in devices {
            let time = |ns: &Option<f32>| ns.map_or_else(|| "unknown".to_owned(), |ns| duration(f64::from(ns)));
            let rate = wall_ns.map(|wall| (bytes * batch) as f64 / f64::from(wall) * 1e3);
            let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
            let measured = measurements.zip(*age_s).map(|(times, age)| format!("{times} times, {}", ago(age)));
            let measured = measured.unwrap_or_else(|| "-".to_owned());
            estimates.add_row([device.clone(), time(wall_ns), time(cpu_ns), rate, measured]);
        }
        let (parts, estimates) = (parts.render(), estimates.render());
        format!("{algorithm} {operation}, {bytes} bytes, {batch} in flight, policy {policy}\n\n{parts}\n{estimates}")
    }
}

/// Formats an age in the largest unit that gives at least 2.
fn ago(seconds: u64) -> String {
    let units = [(86_400, "days"), (3600, "hours"), (60, "minutes")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    unit.map_or_else(|| "now".to_owned(), |(unit, name)| format!("{} {name} ago", seconds / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (0, "now"),
            (119, "now"),
            (120, "2 minutes ago"),
            (7199, "119 minutes ago"),
            (7200, "2 hours ago"),
            (300_000, "3 days ago"),
        ] {
            assert_eq!(ago(seconds), text);
        }
    }
}

//! The throughput of a policy, divided by the throughput of the best single device. Only the measurement shows which device is the best.
//!
//! Each point is measured on every device alone and under the policy, in turns of a fraction of a millisecond. A turn in which the kernel
//! took the CPU away is repeated. The ratio is the median of all turns; a point at which the policy seems to lose is measured for three
//! times as long. The ratio of a single run varies by chance. With `--runs 5`, a point's ratio is the median of five runs. Its best device
//! is the best device of the middle run.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "measured, not counted")]

mod load;

use std::error::Error;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use gantry_core::route::Pin;
use gantry_core::{Algorithm, DeviceState, Gantry, Operation, Session};
use gantry_runtime::Config;
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use load::Load;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Duration of one turn: shorter than the time slices on a busy machine.
const TURN_TIME: Duration = Duration::from_micros(400);
/// Maximum repetitions of an interrupted turn.
const MAX_REPETITIONS: usize = 10;
/// A point with a lower ratio is measured longer.
const DOUBTFUL_RATIO: f64 = 0.985;
/// The additional measurement takes this many times as long as the first one.
const EXTRA_ROUNDS_FACTOR: usize = 2;

/// Compare a policy with the best single device, point by point; JSON on stdout
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Digests, MACs, ciphers (encryption) and AEADs (seals)
    #[arg(default_values_t = [Algorithm::Sha256, Algorithm::HmacSha256, Algorithm::Aes128Cbc, Algorithm::Aes128Gcm])]
    algorithms: Vec<Algorithm>,
    #[arg(long, value_delimiter = ',', default_values_t = [16, 64, 256, 1024, 4096, 16384, 65536])]
    bytes: Vec<usize>,
    /// Batch size: requests in flight
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    batch: Vec<usize>,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Seconds for each device and for the policy, at each point
    #[arg(long, default_value_t = 0.04)]
    seconds: f64,
    /// Repeat everything, and take the median of each point
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// A setting of the configuration, as KEY=VALUE
    #[arg(long)]
    set: Vec<String>,
}

#[derive(Serialize)]
struct Regret {
    policy: &'static str,
    worst_ratio: f64,
    mean_ratio: f64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    bytes: usize,
    batch: usize,
    threads: usize,
    best_device: String,
    /// Throughput of the policy / throughput of the best device.
    ratio: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mut config = Config::from_env()?;
    for setting in &options.set {
        let (key, value) = setting.split_once('=').ok_or("--set takes KEY=VALUE")?;
        config.set(key, value, setting.as_str())?;
    }
    let gantry = gantry_runtime::open(config)?;
    let points = points(&options);
    let mut results: Vec<Vec<PointResult>> = points.iter().map(|_| Vec::with_capacity(options.runs)).collect();
    for _ in 0..options.runs.max(1) {
        let mut modes: Option<(Algorithm, Vec<DispatchMode>)> = None;
        for (point, results) in points.iter().zip(&mut results) {
            if modes.as_ref().is_none_or(|(algorithm, _)| *algorithm != point.algorithm) {
                modes = Some((point.algorithm, DispatchMode::all(&gantry, point.algorithm)?));
            }
            let Some((_, modes)) = &modes else { continue };
            results.push(point.measure(modes, options.seconds)?);
        }
    }
    let rows: Vec<Row> = points.iter().zip(results).map(|(point, results)| point.row(median_result(results))).collect();
    let worst_ratio = rows.iter().map(|row| row.ratio).fold(f64::INFINITY, f64::min);
    let mean_ratio = round_to_four_digits(rows.iter().map(|row| row.ratio).sum::<f64>() / rows.len() as f64);
    let regret = Regret { policy: gantry.policy().name(), worst_ratio, mean_ratio, rows };
    println!("{}", serde_json::to_string_pretty(&regret)?);
    Ok(())
}

/// The best device of a point, and the ratio that the policy reaches.
#[derive(Clone, Debug, PartialEq)]
struct PointResult {
    ratio: f64,
    best_device: String,
}

/// Returns the median ratio, and the best device of the middle run.
fn median_result(mut results: Vec<PointResult>) -> PointResult {
    let ratio = median(results.iter().map(|result| result.ratio).collect());
    results.sort_unstable_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let best_device = results.swap_remove((results.len() - 1) / 2).best_device;
    PointResult { ratio, best_device }
}

/// A point at which policy and devices are compared.
struct Point {
    algorithm: Algorithm,
    bytes: usize,
    batch: usize,
    threads: usize,
}

fn points(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for &algorithm in &options.algorithms {
        for &bytes in &options.bytes {
            for &batch in &options.batch {
                points.extend(options.threads.iter().map(|&threads| Point { algorithm, bytes, batch, threads }));
            }
        }
    }
    points
}

/// A mode to run requests: on one device, or as the policy chooses.
struct DispatchMode {
    /// The device's name; `None` for the policy.
    device: Option<String>,
    /// Equal sessions, used in turn: speeds of equal sessions on one device differ by a few per cent.
    sessions: Vec<Session>,
}

/// Number of sessions of each mode.
const SESSIONS_PER_MODE: usize = 4;

impl DispatchMode {
    /// Returns a mode for each device that serves the algorithm, then the mode of the policy.
    fn all(gantry: &Gantry, algorithm: Algorithm) -> Result<Vec<Self>> {
        let operation: Operation = algorithm.kind().operations()[0];
        gantry.calibrate(algorithm, operation, false);
        let mut modes = Vec::new();
        for device in gantry.devices() {
            let offers = |device: &gantry_core::RegisteredDevice| {
                device.capability(algorithm).is_some_and(|capability| capability.operations.contains(&operation))
            };
            if device.state() == DeviceState::Ready && offers(device) && device.admit(algorithm).is_ok() {
                let pinned = gantry.with_policy(Pin { device: device.name().to_owned() });
                modes.push(DispatchMode::new(Some(device.name().to_owned()), &pinned, algorithm)?);
            }
        }
        if modes.is_empty() {
            return Err(format!("no device serves {algorithm} {operation}").into());
        }
        modes.push(DispatchMode::new(None, gantry, algorithm)?);
        Ok(modes)
    }

    fn new(device: Option<String>, gantry: &Gantry, algorithm: Algorithm) -> Result<Self> {
        let sessions = (0..SESSIONS_PER_MODE)
            .map(|_| gantry.session(gantry_core::sample_params(algorithm)))
            .collect::<Result<_, _>>()?;
        Ok(Self { device, sessions })
    }
}

impl Point {
    fn row(&self, PointResult { ratio, best_device }: PointResult) -> Row {
        let &Self { algorithm, bytes, batch, threads } = self;
        Row { algorithm: algorithm.name(), bytes, batch, threads, best_device, ratio: round_to_four_digits(ratio) }
    }

    fn measure(&self, modes: &[DispatchMode], seconds: f64) -> Result<PointResult> {
        let rounds = ((seconds / TURN_TIME.as_secs_f64()).ceil() as usize).max(3);
        let mut times_by_mode = self.rounds(modes, rounds)?;
        let mut result = compare_with_best_device(&times_by_mode);
        if result.1 < DOUBTFUL_RATIO {
            let longer = self.rounds(modes, rounds * EXTRA_ROUNDS_FACTOR)?;
            for (times, more) in times_by_mode.iter_mut().zip(longer) {
                times.extend(more);
            }
            result = compare_with_best_device(&times_by_mode);
        }
        let (best, ratio) = result;
        Ok(PointResult { ratio, best_device: modes[best].device.clone().unwrap_or_default() })
    }

    /// Returns the nanoseconds per request in each round, for each mode.
    fn rounds(&self, modes: &[DispatchMode], rounds: usize) -> Result<Vec<Vec<f64>>> {
        let barrier = Barrier::new(self.threads);
        let worker = || self.work(modes, rounds, &barrier);
        let workers: Vec<Result<Vec<Vec<f64>>>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread panicked")?).collect()
        });
        let workers = workers.into_iter().collect::<Result<Vec<_>>>()?;
        // The rates of parallel threads add up.
        let rate = |mode: usize, round: usize| workers.iter().map(|times| times[mode][round].recip()).sum::<f64>();
        Ok((0..modes.len()).map(|mode| (0..rounds).map(|round| rate(mode, round).recip()).collect()).collect())
    }

    /// Runs the rounds on one of the threads.
    fn work(&self, modes: &[DispatchMode], rounds: usize, barrier: &Barrier) -> Result<Vec<Vec<f64>>> {
        let Self { algorithm, bytes, batch, .. } = *self;
        let Some(mut load) = Load::new(algorithm, bytes, batch) else {
            // Every thread must reach the barrier equally often.
            (0..rounds * modes.len()).for_each(|_| _ = barrier.wait());
            return Err(format!("{algorithm} is neither a digest, a MAC, a cipher nor an AEAD").into());
        };
        let mut first_error = None;
        let mut repeat = |session: &Session, times: usize, first_error: &mut Option<gantry_core::Error>| {
            let start = Instant::now();
            if let Err(error) = load.repeat(session, times) {
                first_error.get_or_insert(error);
            }
            start.elapsed()
        };
        // Opens sessions, touches memory, and determines the number of calls in a turn.
        let turns: Vec<usize> = (modes.iter())
            .map(|mode| {
                let mut times = 1;
                mode.sessions.iter().for_each(|session| _ = repeat(session, 1, &mut first_error));
                loop {
                    let took = repeat(&mode.sessions[0], times, &mut first_error);
                    if took >= TURN_TIME / 2 {
                        break (times as f64 * TURN_TIME.as_secs_f64() / took.as_secs_f64()).ceil() as usize;
                    }
                    times *= 2;
                }
            })
            .collect();
        let mut times_by_mode = vec![vec![0.0; rounds]; modes.len()];
        #[allow(clippy::needless_range_loop, reason = "rounds are the inner index")]
        for round in 0..rounds {
            // Rotates the order, so that each mode comes first, last, and after every other mode.
            for place in 0..modes.len() {
                let forward = (round / 2 + place) % modes.len();
                let mode = if round % 2 == 0 { forward } else { modes.len() - 1 - forward };
                barrier.wait();
                let mut took = Duration::MAX;
                for _ in 0..MAX_REPETITIONS {
                    let before = interruptions();
                    took = took.min(repeat(
                        &modes[mode].sessions[round / 2 % SESSIONS_PER_MODE],
                        turns[mode],
                        &mut first_error,
                    ));
                    if interruptions() == before {
                        break;
                    }
                }
                times_by_mode[mode][round] = took.as_secs_f64() * 1e9 / (turns[mode] * batch) as f64;
            }
        }
        first_error.map_or(Ok(times_by_mode), |error| Err(error.into()))
    }
}

/// Returns the index of the best device, and the ratio that the policy (the last row) reaches: the median over all rounds.
fn compare_with_best_device(times_by_mode: &[Vec<f64>]) -> (usize, f64) {
    let (policy, devices) = (times_by_mode.len() - 1, 0..times_by_mode.len() - 1);
    let median_time = |mode: usize| median(times_by_mode[mode].clone());
    let best = devices.min_by(|a, b| median_time(*a).total_cmp(&median_time(*b))).unwrap_or(0);
    (best, median(times_by_mode[best].iter().zip(&times_by_mode[policy]).map(|(best, policy)| best / policy).collect()))
}

/// Returns how often the kernel has taken the CPU away from this thread.
fn interruptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// Rounds to four digits.
fn round_to_four_digits(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 { numbers[middle] } else { f64::midpoint(numbers[middle - 1], numbers[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_compared_with_the_best_device_round_by_round() {
        // The machine was half as fast in the second round, and stalled in the third.
        let slow = vec![40.0, 80.0, 40.0, 40.0, 40.0];
        let fast = vec![10.0, 20.0, 10.0, 10.0, 10.0];
        let policy = vec![12.5, 25.0, 900.0, 12.5, 12.5];
        assert_eq!(compare_with_best_device(&[slow, fast, policy]), (1, 0.8));
    }

    #[test]
    fn reports_the_median_of_several_runs() {
        let result = |ratio, device: &str| PointResult { ratio, best_device: device.to_owned() };
        let runs = vec![result(1.01, "lanes"), result(0.4, "software"), result(0.98, "null")];
        assert_eq!(median_result(runs), result(0.98, "null"));
        assert_eq!(median_result(vec![result(1.0, "lanes"), result(0.5, "software")]), result(0.75, "software"));
        assert_eq!(median_result(vec![result(0.9, "lanes")]), result(0.9, "lanes"));
    }

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}

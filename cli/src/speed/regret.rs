use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use gantry::route::Pin;
use gantry::{Algorithm, DeviceState, Gantry, Operation, Session};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use super::load::{Calls, How, LINE, Load};
use super::{fits, must_fit, say_what_is_left_out};
use crate::args::{self, Speed};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{Failure, Output, must_be_writable, progress_bar};
use crate::plot::heat::{self, Cell};
use crate::table::Table;
use crate::terminal::{Colour, paint};

/// What is measured when nothing is named: devices differ much at these, and at the last one there is but one.
const USUAL: [Algorithm; 4] = [Algorithm::Sha256, Algorithm::HmacSha256, Algorithm::Aes128Cbc, Algorithm::Aes128Gcm];

/// One turn of a way to work: shorter than the time for which a busy machine leaves a thread its CPU.
const TURN: Duration = Duration::from_micros(400);
/// So often a turn is taken again that was interrupted.
const AGAIN: usize = 10;
/// A point with a lower ratio is measured longer.
const DOUBTFUL: f64 = 0.985;
/// How many times longer.
const LONGER: usize = 2;

/// The result, as JSON.
#[derive(Serialize)]
struct Regret {
    #[serde(flatten)]
    machine: Machine,
    worst_ratio: f64,
    mean_ratio: f64,
    rows: Vec<Row>,
}

/// One point of the grid.
#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    #[serde(skip)]
    operation: &'static str,
    bytes: usize,
    batch: usize,
    threads: usize,
    best_device: String,
    /// Throughput of the policy / of the best device.
    ratio: f64,
}

pub(super) fn run(args: &Speed, gantry: &Gantry, output: &mut Output) -> Result<(), Failure> {
    must_fit(args)?;
    let named = !args.algorithms.is_empty();
    let algorithms = if named { args::algorithms(&args.algorithms)? } else { USUAL.to_vec() };
    let points = points(args, &algorithms);
    if points.is_empty() {
        return Err(Failure::Failed("nothing of this can be measured".to_owned()));
    }
    if let Some(file) = &args.plot {
        must_be_writable(file)?;
    }
    let mut verdicts: Vec<Vec<Verdict>> = points.iter().map(|_| Vec::with_capacity(args.runs)).collect();
    let bar = progress_bar((points.len() * args.runs) as u64);
    'runs: for run in 1..=args.runs {
        let mut ways: Option<(Algorithm, Operation, Vec<Way>)> = None;
        for (point, verdicts) in points.iter().zip(&mut verdicts) {
            if interrupt::asked() {
                break 'runs;
            }
            let &Point { algorithm, operation, bytes, batch, threads } = point;
            let of_all = if args.runs > 1 { format!(", run {run} of {}", args.runs) } else { String::new() };
            let at = format!("{algorithm} {operation}, {bytes} bytes, {batch} in hand, {threads} threads{of_all}");
            bar.set_message(at);
            let same = |(known, of, _): &(Algorithm, Operation, Vec<Way>)| (*known, *of) == (algorithm, operation);
            if !ways.as_ref().is_some_and(same) {
                ways = Some((algorithm, operation, Way::all(gantry, algorithm, operation)?));
            }
            let Some((.., ways)) = &ways else { continue };
            let wrong = |what| Failure::Failed(format!("{algorithm} {operation} of {bytes} bytes: {what}"));
            verdicts.push(point.measure(ways, args.seconds).map_err(wrong)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let measured = points.iter().zip(verdicts).filter(|(_, verdicts)| !verdicts.is_empty());
    let rows = measured.map(|(point, verdicts)| point.row(typical(verdicts))).collect();
    let regret = Regret::new(rows, Machine::here(gantry));
    if regret.rows.is_empty() {
        return interrupt::end();
    }
    if let Some(file) = &args.plot {
        let title =
            format!("What policy {} reaches of the best device, by gantry speed --regret", gantry.policy().name());
        let devices: Vec<&str> = gantry.devices().iter().map(gantry::RegisteredDevice::name).collect();
        fs::write(file, heat::draw(&title, &devices, &regret.cells(), &regret.machine))
            .map_err(|error| Failure::at(file.display(), &error))?;
    }
    if args.json { output.json(&regret) } else { output.write(&regret.table(gantry.policy().name(), args.runs)) }?;
    interrupt::end()
}

/// The best device of a point, and what the policy reaches of it.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    ratio: f64,
    best_device: String,
}

/// The run in the middle: its device, and its ratio, or that between the two in the middle.
fn typical(mut verdicts: Vec<Verdict>) -> Verdict {
    let ratio = median(verdicts.iter().map(|verdict| verdict.ratio).collect());
    verdicts.sort_unstable_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let best_device = verdicts.swap_remove((verdicts.len() - 1) / 2).best_device;
    Verdict { ratio, best_device }
}

impl Regret {
    fn new(rows: Vec<Row>, machine: Machine) -> Self {
        let worst_ratio = rows.iter().map(|row| row.ratio).fold(f64::INFINITY, f64::min);
        let mean_ratio = rounded(rows.iter().map(|row| row.ratio).sum::<f64>() / rows.len() as f64);
        Self { machine, worst_ratio, mean_ratio, rows }
    }

    fn cells(&self) -> Vec<Cell> {
        let cell = |row: &Row| {
            let &Row { algorithm, operation, bytes, batch, threads, ratio, .. } = row;
            let panel = format!("{algorithm} {operation}, {threads} thread{}", if threads == 1 { "" } else { "s" });
            Cell { panel, bytes, batch, ratio, best_device: row.best_device.clone() }
        };
        self.rows.iter().map(cell).collect()
    }

    fn table(&self, policy: &str, runs: usize) -> String {
        let mut table = Table::new(&["ALGORITHM", "BYTES", "BATCH", "THREADS", "BEST DEVICE", "RATIO"], &[1, 2, 3, 5]);
        for Row { algorithm, bytes, batch, threads, best_device, ratio, .. } in &self.rows {
            let numbers = [bytes, batch, threads].map(ToString::to_string);
            let [bytes, batch, threads] = numbers;
            let shown = format!("{ratio:.3}");
            let shown = if *ratio < DOUBTFUL { paint(&shown, Colour::Red) } else { shown };
            table.row([(*algorithm).to_owned(), bytes, batch, threads, best_device.clone(), shown]);
        }
        let Regret { worst_ratio, mean_ratio, rows, .. } = self;
        let points = rows.len();
        let rows = table.render();
        let medians = if runs > 1 { format!(", medians of {runs} runs") } else { String::new() };
        format!(
            "{rows}\n{policy}: worst ratio {worst_ratio:.3}, mean ratio {mean_ratio:.3}, of {points} points{medians}\n"
        )
    }
}

/// Where policy and devices are compared.
struct Point {
    algorithm: Algorithm,
    operation: Operation,
    bytes: usize,
    batch: usize,
    threads: usize,
}

fn points(args: &Speed, algorithms: &[Algorithm]) -> Vec<Point> {
    let mut points = Vec::new();
    for &algorithm in algorithms {
        let operations = algorithm.kind().operations();
        let wanted: Vec<Operation> = if args.operation.is_empty() {
            operations[..1].to_vec()
        } else {
            args.operation.iter().map(|wanted| wanted.0).filter(|wanted| operations.contains(wanted)).collect()
        };
        say_what_is_left_out(algorithm, &args.bytes);
        for operation in wanted {
            for &bytes in args.bytes.iter().filter(|bytes| fits(algorithm, **bytes)) {
                for &batch in &args.batch {
                    let point = |&threads| Point { algorithm, operation, bytes, batch, threads };
                    points.extend(args.threads.iter().map(point));
                }
            }
        }
    }
    points
}

/// A way to work: a device alone, or what the policy chooses.
struct Way {
    /// The device's name; `None` is the policy.
    device: Option<String>,
    /// Equal ones, taken in turn: one and the same device was a few hundredths faster with one than with the other.
    sessions: Vec<Session>,
}

/// Sessions of each way.
const SESSIONS: usize = 4;

impl Way {
    /// The devices that serve it, then the policy.
    fn all(gantry: &Gantry, algorithm: Algorithm, operation: Operation) -> Result<Vec<Self>, Failure> {
        gantry.calibrate(algorithm, operation, false);
        let mut ways = Vec::new();
        for device in gantry.devices() {
            let offers = |device: &gantry::RegisteredDevice| {
                device.capability(algorithm).is_some_and(|capability| capability.operations.contains(&operation))
            };
            if device.state() == DeviceState::Ready && offers(device) && device.admit(algorithm).is_ok() {
                let alone = gantry.with_policy(Pin { device: device.name().to_owned() });
                ways.push(Way::new(Some(device.name().to_owned()), &alone, algorithm)?);
            }
        }
        if ways.is_empty() {
            return Err(Failure::Failed(format!("no device serves {algorithm} {operation}")));
        }
        ways.push(Way::new(None, gantry, algorithm)?);
        Ok(ways)
    }

    fn new(device: Option<String>, gantry: &Gantry, algorithm: Algorithm) -> Result<Self, Failure> {
        let sessions =
            (0..SESSIONS).map(|_| gantry.session(gantry::sample_params(algorithm))).collect::<Result<_, _>>()?;
        Ok(Self { device, sessions })
    }
}

impl Point {
    fn row(&self, Verdict { ratio, best_device }: Verdict) -> Row {
        let &Self { algorithm, operation, bytes, batch, threads } = self;
        let (algorithm, operation) = (algorithm.name(), operation.name());
        Row { algorithm, operation, bytes, batch, threads, best_device, ratio: rounded(ratio) }
    }

    fn measure(&self, ways: &[Way], seconds: f64) -> Result<Verdict, String> {
        let rounds = ((seconds / TURN.as_secs_f64()).ceil() as usize).max(3);
        let mut found = self.rounds(ways, rounds)?;
        let mut verdict = judge(&found);
        if verdict.1 < DOUBTFUL {
            let longer = self.rounds(ways, rounds * LONGER)?;
            for (times, more) in found.iter_mut().zip(longer) {
                times.extend(more);
            }
            verdict = judge(&found);
        }
        let (best, ratio) = verdict;
        Ok(Verdict { ratio, best_device: ways[best].device.clone().unwrap_or_default() })
    }

    /// For each way, its time for a request in each round, in nanoseconds.
    fn rounds(&self, ways: &[Way], rounds: usize) -> Result<Vec<Vec<f64>>, String> {
        let barrier = Barrier::new(self.threads);
        let worker = || self.work(ways, rounds, &barrier);
        let workers: Vec<Result<Vec<Vec<f64>>, String>> = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread panicked".to_owned())?).collect()
        });
        let workers = workers.into_iter().collect::<Result<Vec<_>, String>>()?;
        // Of threads side by side, the rates add up.
        let rate = |way: usize, round: usize| workers.iter().map(|times| times[way][round].recip()).sum::<f64>();
        Ok((0..ways.len()).map(|way| (0..rounds).map(|round| rate(way, round).recip()).collect()).collect())
    }

    /// The same by one of the threads.
    fn work(&self, ways: &[Way], rounds: usize, barrier: &Barrier) -> Result<Vec<Vec<f64>>, String> {
        let Self { operation, bytes, batch, .. } = *self;
        let wrong = |error: gantry::Error| error.to_string();
        // Every thread comes to the barrier as often as the others, whatever happens to it.
        let load = Load { session: &ways[0].sessions[0], operation, bytes, how: How::Batch(batch), alignment: LINE };
        let prepared = load.memory().map_err(wrong);
        let mut memory = match prepared {
            Ok(memory) => memory,
            Err(what) => {
                (0..rounds * ways.len()).for_each(|_| _ = barrier.wait());
                return Err(what);
            }
        };
        let mut calls = Calls::new(&load, &mut memory);
        let mut index = 0;
        let mut trouble = None;
        let mut repeat = |session: &Session, times: usize, trouble: &mut Option<String>| {
            let start = Instant::now();
            if let Err(error) = calls.repeat(&mut index, session, times as u64) {
                trouble.get_or_insert(error.to_string());
            }
            start.elapsed()
        };
        // Opens sessions, touches memory, and finds out how many calls are a turn.
        let turns: Vec<usize> = (ways.iter())
            .map(|way| {
                let mut times = 1;
                way.sessions.iter().for_each(|session| _ = repeat(session, 1, &mut trouble));
                loop {
                    let took = repeat(&way.sessions[0], times, &mut trouble);
                    if took >= TURN / 2 {
                        break (times as f64 * TURN.as_secs_f64() / took.as_secs_f64()).ceil() as usize;
                    }
                    times *= 2;
                }
            })
            .collect();
        let mut found = vec![vec![0.0; rounds]; ways.len()];
        #[allow(clippy::needless_range_loop, reason = "rounds are the inner index")]
        for round in 0..rounds {
            // Each way comes first, last and after each other one.
            for place in 0..ways.len() {
                let forward = (round / 2 + place) % ways.len();
                let way = if round % 2 == 0 { forward } else { ways.len() - 1 - forward };
                barrier.wait();
                let mut took = Duration::MAX;
                for _ in 0..AGAIN {
                    let before = interruptions();
                    took = took.min(repeat(&ways[way].sessions[round / 2 % SESSIONS], turns[way], &mut trouble));
                    if interruptions() == before {
                        break;
                    }
                }
                found[way][round] = took.as_secs_f64() * 1e9 / (turns[way] * batch) as f64;
            }
        }
        trouble.map_or(Ok(found), Err)
    }
}

/// The best of the devices, and what the policy, which comes last, reaches of it: the median over all rounds.
fn judge(found: &[Vec<f64>]) -> (usize, f64) {
    let (policy, devices) = (found.len() - 1, 0..found.len() - 1);
    let typical = |way: usize| median(found[way].clone());
    let best = devices.min_by(|a, b| typical(*a).total_cmp(&typical(*b))).unwrap_or(0);
    (best, median(found[best].iter().zip(&found[policy]).map(|(best, policy)| best / policy).collect()))
}

/// How often the kernel has taken the CPU away from this thread.
fn interruptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// With four digits.
fn rounded(ratio: f64) -> f64 {
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
        // The machine was half as fast in the second round, and stopped for a moment in the third.
        let slow = vec![40.0, 80.0, 40.0, 40.0, 40.0];
        let fast = vec![10.0, 20.0, 10.0, 10.0, 10.0];
        let policy = vec![12.5, 25.0, 900.0, 12.5, 12.5];
        assert_eq!(judge(&[slow, fast, policy]), (1, 0.8));
    }

    #[test]
    fn of_several_runs_the_one_in_the_middle_counts() {
        let verdict = |ratio, device: &str| Verdict { ratio, best_device: device.to_owned() };
        let runs = vec![verdict(1.01, "lanes"), verdict(0.4, "software"), verdict(0.98, "null")];
        assert_eq!(typical(runs), verdict(0.98, "null"));
        assert_eq!(typical(vec![verdict(1.0, "lanes"), verdict(0.5, "software")]), verdict(0.75, "software"));
        assert_eq!(typical(vec![verdict(0.9, "lanes")]), verdict(0.9, "lanes"));
    }

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}

//! Partitions of one engine: the published curves for the SEC of Freescale's P4080, on the model `freescale-sec`.
//!
//! Each partition is a guest with its own vhost-user connection. A thread of a guest's program waits for its request before it makes the
//! next one, so the number of threads is the number of requests in flight.

use std::sync::Arc;
use std::time::Duration;

use gantry_core::{
    Algorithm, Clock, Gantry, Outcome, Queue, QueueOptions, RealClock, SessionParams, Submission, VirtualClock,
};
use gantry_runtime::model::{ModelClock, ModelDriver, Profile};
use gantry_vhost_user::{Counters, Limits, Server, Socket};
use gantry_vhost_user_front::load::{self, LoadGenerator, RunResult};
use gantry_vhost_user_front::parameters::Layout;
use tempfile::TempDir;

use crate::report::{Result, Row, make_model, say};

use crate::table::Table;

const ENGINE: &str = "freescale-sec";
const SIMULATED: &str = "simulated";
const SIZES: [usize; 5] = [SMALL_FRAME, 256, 1024, 8192, LARGE_FRAME];
const SMALL_FRAME: usize = 64;
const LARGE_FRAME: usize = 65_536;
const PARTITIONS: usize = 4;

/// Number of partitions, and number of threads per partition.
type Case = (usize, usize);
/// One partition with several threads; then several partitions with one thread each, and with four threads each.
const CASES: [Case; 11] =
    [(1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (2, 1), (3, 1), (4, 1), (2, 4), (3, 4), (PARTITIONS, 4)];

/// Throughput of each case in Mb/s.
struct Curve {
    bytes: usize,
    rates: [f64; CASES.len()],
}

impl Curve {
    fn new(bytes: usize, mut rate: impl FnMut(usize, Case) -> Result<f64>) -> Result<Self> {
        let mut rates = [0.0; CASES.len()];
        for (found, case) in rates.iter_mut().zip(CASES) {
            *found = rate(bytes, case)?;
        }
        Ok(Self { bytes, rates })
    }

    fn rate(&self, case: Case) -> f64 {
        CASES.iter().zip(self.rates).find(|(other, _)| **other == case).map_or(f64::NAN, |(_, rate)| rate)
    }
}

/// A statement about the curves that was published with them: throughput of a case relative to another case or to the engine's bandwidth.
struct ExpectedRatio {
    what: &'static str,
    bytes: usize,
    case: Case,
    baseline: Option<Case>,
    at_least: f64,
    at_most: Option<f64>,
}

const EXPECTED_RATIOS: [ExpectedRatio; 5] = [
    expected_ratio("small frames: 3 partitions by 1", SMALL_FRAME, (3, 1), Some((1, 1)), 2.4, Some(3.3)),
    expected_ratio("small frames: 4 threads by 1", SMALL_FRAME, (1, 4), Some((1, 1)), 2.4, None),
    expected_ratio("large frames: 3 partitions by the engine's bandwidth", LARGE_FRAME, (3, 4), None, 0.9, Some(1.01)),
    expected_ratio("large frames: 4 partitions by 3", LARGE_FRAME, (4, 4), Some((3, 4)), 0.9, Some(1.1)),
    expected_ratio("large frames: 16 threads by 8", LARGE_FRAME, (1, 16), Some((1, 8)), 0.9, Some(1.1)),
];

const fn expected_ratio(
    what: &'static str,
    bytes: usize,
    case: Case,
    baseline: Option<Case>,
    at_least: f64,
    at_most: Option<f64>,
) -> ExpectedRatio {
    ExpectedRatio { what, bytes, case, baseline, at_least, at_most }
}

pub(crate) fn run(simulated_only: bool, rows: &mut Vec<Row>) -> Result<String> {
    let profile = Profile::named(ENGINE).expect("the engine is built in");
    let bandwidth = profile.cap_megabits.map_or(f64::NAN, |megabits| megabits as f64);
    let mut methods = vec![(SIMULATED, measure_curves(simulate)?)];
    if !simulated_only {
        let server = PartitionServer::new(profile)?;
        let measured = |bytes, case| server.rate(bytes, case);
        methods.push(("vhost-user", measure_curves(measured)?));
    }
    let titles = [
        format!(
            "AES-128-CBC by the model {ENGINE}, in Mb/s: partitions x threads of each, simulated, on a host with one CPU.\n\n"
        ),
        "\nIn real time, each partition a guest over vhost-user.\n\n".to_owned(),
    ];
    let mut text = String::new();
    for (method, curves) in &methods {
        text += &titles[usize::from(*method != SIMULATED)];
        let names = CASES.map(|(partitions, threads)| format!("{partitions}x{threads}"));
        let header: Vec<&str> = ["BYTES"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut table = Table::new(&header, 0);
        for curve in curves {
            let cells = curve.rates.iter().map(|rate| format!("{rate:.0}"));
            table.push_row(std::iter::once(curve.bytes.to_string()).chain(cells));
            rows.extend(CASES.iter().zip(curve.rates).map(|((partitions, threads), rate)| {
                let case = format!("{} bytes, {partitions}x{threads}", curve.bytes);
                Row::new(method, case, "Mb/s", None, rate)
            }));
        }
        text += &table.render();
    }
    text += "\n";
    let header =
        ["SHAPE", "PROMISED"].into_iter().chain(methods.iter().map(|(method, _)| *method)).map(str::to_uppercase);
    let header: Vec<String> = header.collect();
    let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>(), 2);
    for expected in &EXPECTED_RATIOS {
        let promised = match expected.at_most {
            Some(most) => format!("{:.2} to {most:.2}", expected.at_least),
            None => format!("at least {:.2}", expected.at_least),
        };
        let mut cells = vec![expected.what.to_owned(), promised];
        for (method, curves) in &methods {
            let found = expected.ratio(curves, bandwidth);
            cells.push(format!("{found:.2}"));
            let row = Row::new(method, expected.what.to_owned(), "times", None, found);
            // Measured values depend on the machine and its load.
            let is_promised = *method == SIMULATED;
            rows.push(if is_promised { row.with_bounds(Some(expected.at_least), expected.at_most) } else { row });
        }
        table.push_row(cells);
    }
    text += &table.render();
    Ok(text)
}

impl ExpectedRatio {
    fn ratio(&self, curves: &[Curve], bandwidth: f64) -> f64 {
        let Some(curve) = curves.iter().find(|curve| curve.bytes == self.bytes) else { return f64::NAN };
        curve.rate(self.case) / self.baseline.map_or(bandwidth, |baseline| curve.rate(baseline))
    }
}

fn measure_curves(mut rate: impl FnMut(usize, Case) -> Result<f64>) -> Result<Vec<Curve>> {
    SIZES.iter().map(|bytes| Curve::new(*bytes, &mut rate)).collect()
}

fn megabits(bytes: usize, requests: u64, seconds: f64) -> f64 {
    requests as f64 * bytes as f64 * 8.0 / seconds / 1e6
}

/// Simulates a queue for each partition, all in one thread: in virtual time, the order of execution is part of the model.
fn simulate(bytes: usize, (partitions, threads): Case) -> Result<f64> {
    /// Virtual nanoseconds until the engine is saturated, and virtual nanoseconds of the measurement.
    const WARM_UP_NS: u64 = 5_000_000;
    const MEASURE_NS: u64 = 50_000_000;
    let clock = Arc::new(VirtualClock::default());
    let driver = make_model(Profile::named(ENGINE).expect("the engine is built in"), &clock)?;
    let gantry = Gantry::builder().driver(&driver).clock(clock.clone()).build();
    let session = gantry.session(SessionParams::new(Algorithm::Aes128Cbc, &[3; 16]))?;
    let options = || QueueOptions { depth: threads, coalesce: Duration::ZERO, ..QueueOptions::default() };
    let mut queues = (0..partitions).map(|_| gantry.queue(options())).collect::<Result<Vec<Queue>, _>>()?;
    let mut idle = vec![vec![vec![0x5a; bytes]; threads]; partitions];
    let (mut done, mut failed) = (0_u64, 0_u64);
    let mut run_until = |end: u64| -> Result<(u64, u64)> {
        while clock.now() < end {
            let before = done;
            let mut submitted = false;
            for (queue, idle) in queues.iter_mut().zip(&mut idle) {
                while let Some(buffer) = idle.pop() {
                    let submission = Submission::encrypt(&[7; 16], buffer);
                    queue.submit(&session, submission).map_err(|full| full.why.to_string())?;
                    submitted = true;
                }
                queue.complete(|completion| {
                    done += 1;
                    failed += u64::from(completion.result != Ok(Outcome::Done));
                    idle.push(completion.submission.into_buffers().0);
                });
            }
            if !submitted && done == before {
                clock.wait(None);
            }
        }
        Ok((clock.now(), done))
    };
    let begin = run_until(WARM_UP_NS)?;
    let end = run_until(begin.0 + MEASURE_NS)?;
    if failed > 0 {
        return Err(format!("{ENGINE}: {failed} requests failed").into());
    }
    Ok(megabits(bytes, end.1 - begin.1, (end.0 - begin.0) as f64 / 1e9))
}

/// A server in this process with a socket for each partition.
struct PartitionServer {
    folder: TempDir,
}

impl PartitionServer {
    fn new(profile: &Profile) -> Result<Self> {
        let folder = TempDir::new()?;
        let clock = Arc::new(RealClock::default());
        let driver = ModelDriver::new(profile.clone(), gantry_runtime::reference(), ModelClock::Real(clock.clone()))?;
        let gantry = Gantry::builder().driver(&driver).clock(clock).build();
        // The server's threads run until the process ends.
        let server = Server::new(gantry)?;
        let partitions = Self { folder };
        for partition in 0..PARTITIONS {
            let path = partitions.socket(partition);
            let socket = Socket { path, mode: 0o600, owner: (None, None) };
            server.listen(&socket, Limits::default(), Counters::default())?;
        }
        Ok(partitions)
    }

    fn socket(&self, partition: usize) -> std::path::PathBuf {
        self.folder.path().join(format!("partition{partition}.sock"))
    }

    /// Returns the best rate of several rounds in Mb/s: other load slows down a model in real time, and nothing speeds it up. Discards
    /// rounds with refused requests: if the machine stalls for 20 ms, the engine misses a deadline and is quarantined until it passes its
    /// known-answer tests.
    fn rate(&self, bytes: usize, (partitions, threads): Case) -> Result<f64> {
        const ROUND: Duration = Duration::from_millis(100);
        /// Rounds of a measurement. The first round warms up.
        const ROUNDS: usize = 4;
        const MAX_ROUNDS: usize = 40;
        say(format_args!("{bytes} bytes, partitions x threads: {partitions}x{threads}"));
        let guests = 0..partitions;
        let guests = guests.map(|guest| LoadGenerator::new(&self.socket(guest), Layout::Qemu10, bytes, threads));
        let mut guests = guests.collect::<Result<Vec<LoadGenerator>, _>>()?;
        let mut rates = Vec::with_capacity(ROUNDS);
        for _ in 0..MAX_ROUNDS {
            let done = load::run_all(&mut guests.iter_mut().collect::<Vec<_>>(), ROUND)?;
            if done.iter().all(|done| done.refused == 0) {
                let of = |done: &RunResult| megabits(bytes, done.requests, done.time.as_secs_f64());
                rates.push(done.iter().map(of).sum::<f64>());
            }
            if rates.len() == ROUNDS {
                return Ok(rates.into_iter().skip(1).fold(0.0, f64::max));
            }
        }
        Err(format!("{ENGINE} refuses requests").into())
    }
}

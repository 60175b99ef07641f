//! The cost of dispatch: requests to the null device, which does nothing.
//!
//! ```text
//! gantry-bench-dispatch time           nanoseconds per request, as JSON
//! gantry-bench-dispatch statistics     nanoseconds per request with and without statistics, alternating, as JSON
//! gantry-bench-dispatch scaling        requests per second on all CPUs relative to one, as JSON
//! gantry-bench-dispatch check FILE     instructions per request, compared with a recorded file
//! gantry-bench-dispatch record FILE    writes that file
//! gantry-bench-dispatch loop MODE N    N requests and nothing else, to be run in valgrind
//! ```
//!
//! `valgrind --tool=callgrind` counts the instructions of the whole program, once with few requests and once with more. The difference is
//! the cost of the additional requests. Counts depend on the compiler, but not on other load of the machine.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "counts and times of a short run")]

mod tasks;

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::Barrier;
use std::time::Instant;
use std::{env, fs};

use gantry_core::route::Pin;
use gantry_core::{Algorithm, Gantry, Kind, QueueOptions, Request, Session, SessionParams, Submission};
use gantry_driver_lanes::LanesDriver;
use gantry_driver_null::NullDriver;
use gantry_driver_software::SoftwareDriver;
use nix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of each request. The null device does not touch them.
const BYTES: usize = 64;
/// Requests in a batch.
const BATCH: usize = 32;
/// Bytes of a request to a real device.
const REAL_DEVICE_BYTES: usize = 1024;
/// Points at which the cost of statistics is measured: a real device, a fast algorithm, and the batch size, which must divide 256.
const REAL_DEVICE_POINTS: [(&str, Algorithm, usize); 5] = [
    ("software", Algorithm::Aes128Gcm, 1),
    ("software", Algorithm::Sha256, 1),
    ("software", Algorithm::Aes128Cbc, 16),
    ("lanes", Algorithm::Sha256, 16),
    ("lanes", Algorithm::Aes128Cbc, 16),
];
/// The allowed relative difference from the recorded count.
const MAX_RELATIVE_CHANGE: f64 = 0.03;

/// A way to submit requests.
struct DispatchMode {
    name: &'static str,
    /// The promised maximum of nanoseconds per request, if any.
    goal_ns: Option<u32>,
    /// Runs requests on a session. The number of requests must be a multiple of [`BATCH`].
    run: fn(&Session, usize),
}

const MODES: [DispatchMode; 3] = [
    DispatchMode { name: "direct", goal_ns: Some(50), run: run_direct },
    DispatchMode { name: "batch-32", goal_ns: Some(15), run: run_batch },
    DispatchMode { name: "queue-32", goal_ns: None, run: run_queue },
];

fn run_direct(session: &Session, requests: usize) {
    let mut data = [0; BYTES];
    for _ in 0..requests {
        session.encrypt(&[], black_box(&mut data)).expect("the null device takes everything");
    }
}

fn run_batch(session: &Session, requests: usize) {
    let mut data = [[0; BYTES]; BATCH];
    let mut batch: Vec<_> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    for _ in 0..requests / BATCH {
        session.process(black_box(&mut batch)).expect("the null device takes everything");
    }
}

/// Submits requests to a queue. Completed submissions are submitted again.
fn run_queue(session: &Session, requests: usize) {
    let mut queue = session.gantry().queue(QueueOptions::default()).expect("the default options are valid");
    let mut free: Vec<_> = (0..BATCH).map(|_| Submission::encrypt(&[], vec![0; BYTES])).collect();
    for _ in 0..requests / BATCH {
        while let Some(submission) = free.pop() {
            queue.submit(session, black_box(submission)).expect("the queue has room for a batch");
        }
        while free.len() < BATCH {
            queue.wait(|completion| {
                completion
                    .result
                    .expect("the null device takes everything")
                    .ok()
                    .expect("the null device returns no bad outcomes");
                free.push(completion.submission);
            });
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["time"] => report_times(),
        ["statistics"] => report_cost_of_statistics(),
        ["scaling"] => report_scaling(),
        ["check", file] => check_counts(file),
        ["record", file] => record_counts(file),
        ["loop", mode, requests] => run_loop(mode, requests),
        _ => Err("usage: gantry-bench-dispatch time | statistics | scaling | check FILE | record FILE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantry-bench-dispatch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open_session(is_counting: bool) -> Result<Session> {
    let gantry = Gantry::builder().driver(&NullDriver).counting(is_counting).build();
    Ok(gantry.session(SessionParams::new(Algorithm::Null, &[]))?)
}

/// Number of runs. A run is so short that other programs interrupt few runs, which do not affect the median.
const RUN_COUNT: usize = 1001;
const REQUESTS_PER_RUN: u32 = 32 * BATCH as u32;

/// Returns nanoseconds per request in one short run.
fn time_run(mode: &DispatchMode, session: &Session) -> f64 {
    let start = Instant::now();
    (mode.run)(session, REQUESTS_PER_RUN as usize);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS_PER_RUN)
}

fn report_times() -> Result<()> {
    let session = open_session(true)?;
    let mut rows = Vec::new();
    for mode in &MODES {
        let mut runs: Vec<f64> = (0..RUN_COUNT).map(|_| time_run(mode, &session)).collect();
        runs.sort_by(f64::total_cmp);
        rows.push(format!(
            r#"{{"dispatch":"{}","ns":{:.2},"p99_ns":{:.2},"goal_ns":{}}}"#,
            mode.name,
            runs[RUN_COUNT / 2],
            runs[RUN_COUNT * 99 / 100],
            mode.goal_ns.map_or_else(|| "null".to_owned(), |goal| goal.to_string())
        ));
    }
    for tasks in [100, 1000, 10_000] {
        let ns = tasks::time_per_task(&session, tasks)?;
        rows.push(format!(r#"{{"dispatch":"tasks-{tasks}","ns":{ns:.2},"goal_ns":1000}}"#));
    }
    println!("[{}]", rows.join(","));
    Ok(())
}

/// Measures the cost of statistics: the median difference between a run with statistics and a run without, in pairs of alternating order.
fn report_cost_of_statistics() -> Result<()> {
    let mut rows = Vec::new();
    let mut row = |name: &str, work: &mut dyn FnMut(bool) -> f64| {
        let pair = |index: usize, work: &mut dyn FnMut(bool) -> f64| {
            let counting_first = index.is_multiple_of(2);
            let (first, second) = (work(counting_first), work(!counting_first));
            if counting_first { (first, second) } else { (second, first) }
        };
        let pairs: Vec<(f64, f64)> = (0..RUN_COUNT).map(|index| pair(index, work)).collect();
        let median = |of: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[RUN_COUNT / 2]
        };
        rows.push(format!(
            r#"{{"requests":"{name}","without_ns":{:.2},"cost_ns":{:.2},"cost_percent":{:.2}}}"#,
            median(|pair| pair.1),
            median(|pair| pair.0 - pair.1),
            median(|pair| (pair.0 / pair.1 - 1.0) * 100.0),
        ));
    };
    let (counting_session, plain_session) = (open_session(true)?, open_session(false)?);
    for mode in &MODES {
        row(&format!("null, {}", mode.name), &mut |counting| {
            time_run(mode, if counting { &counting_session } else { &plain_session })
        });
    }
    for (device, algorithm, batch) in REAL_DEVICE_POINTS {
        let open = |counting| -> Result<Session> {
            let builder = Gantry::builder().driver(&SoftwareDriver).driver(&LanesDriver::default());
            let gantry = builder.counting(counting).policy(Pin { device: device.to_owned() }).build();
            Ok(gantry.session(SessionParams::new(algorithm, &[7; 16][..algorithm.info().key.max.min(16)]))?)
        };
        let (counting_session, plain_session) = (open(true)?, open(false)?);
        row(&format!("{device}, {algorithm}, {REAL_DEVICE_BYTES} bytes, batch {batch}"), &mut |counting| {
            time_on_real_device(if counting { &counting_session } else { &plain_session }, batch)
        });
    }
    println!("[{}]", rows.join(",\n "));
    Ok(())
}

/// Returns nanoseconds per request of 1 KiB on a real device, in one short run.
fn time_on_real_device(session: &Session, batch: usize) -> f64 {
    const REQUESTS: u32 = 256;
    let rounds = REQUESTS as usize / batch;
    let iv = [7; 16];
    let (mut data, mut tags) = (vec![[7; REAL_DEVICE_BYTES]; batch], vec![[0; 32]; batch]);
    let works = "the device serves this algorithm";
    let start = Instant::now();
    match (session.params().algorithm().kind(), batch) {
        (Kind::Aead, 1) => {
            for _ in 0..rounds {
                session.seal(&iv[..12], &[], &mut data[0], &mut tags[0][..16]).expect(works);
            }
        }
        (Kind::Digest, 1) => {
            for _ in 0..rounds {
                session.digest(&data[0], &mut tags[0]).expect(works);
            }
        }
        (kind, _) => {
            let mut requests: Vec<Request<'_>> = (data.iter_mut().zip(&mut tags))
                .map(|(data, tag)| match kind {
                    Kind::Cipher => Request::encrypt(&iv, data),
                    _ => Request::digest(data, tag),
                })
                .collect();
            for _ in 0..rounds {
                session.process(&mut requests).expect(works);
            }
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
}

/// Measures the throughput of all CPUs relative to one CPU. If requests wrote a cache line that threads share, one shared session would
/// scale worse than separate sessions, each with its own framework. Uses the CPU time of the threads, so that other load does not matter.
fn report_scaling() -> Result<()> {
    const ROUNDS: usize = 51;
    /// Requests per thread and round: some milliseconds, so that the start of threads does not matter.
    const REQUESTS: usize = 1 << 18;
    let cpus = std::thread::available_parallelism()?.get();
    let shared_session = open_session(true)?;
    let own_sessions = (0..cpus).map(|_| open_session(true)).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for mode in &MODES {
        let rate = |sessions: &[&Session]| {
            let begin = Barrier::new(sessions.len());
            let seconds = std::thread::scope(|scope| {
                let threads: Vec<_> = (sessions.iter())
                    .map(|session| {
                        scope.spawn(|| {
                            begin.wait();
                            let start = cpu_seconds();
                            (mode.run)(session, REQUESTS);
                            cpu_seconds() - start
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("requests do not panic")).fold(0.0, f64::max)
            });
            (sessions.len() * REQUESTS) as f64 / seconds
        };
        let (mut shared_rates, mut separate_rates) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let rate_of_one_thread = rate(&[&shared_session]);
            shared_rates.push(rate(&vec![&shared_session; cpus]) / rate_of_one_thread);
            separate_rates.push(rate(&own_sessions.iter().collect::<Vec<_>>()) / rate_of_one_thread);
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        rows.push(format!(
            r#"{{"dispatch":"{}","cpus":{cpus},"one_session":{:.3},"frameworks_apart":{:.3}}}"#,
            mode.name,
            median(shared_rates),
            median(separate_rates)
        ));
    }
    println!("[{}]", rows.join(",\n "));
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn run_loop(mode: &str, requests: &str) -> Result<()> {
    let mode = MODES.iter().find(|other| other.name == mode).ok_or("unknown dispatch mode")?;
    (mode.run)(&open_session(true)?, requests.parse()?);
    Ok(())
}

fn check_counts(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let recorded = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    if recorded("arch") != Some(env::consts::ARCH) {
        println!("counts: SKIPPED, {file} is of another architecture than {}", env::consts::ARCH);
        return Ok(());
    }
    let mut has_changed = false;
    for mode in &MODES {
        let expected: f64 =
            recorded(mode.name).ok_or_else(|| format!("{file}: no count for {}", mode.name))?.parse()?;
        let counted = instructions_per_request(mode)?;
        let change = counted / expected - 1.0;
        println!(
            "counts: {:9} {counted:8.1} instructions a request, recorded {expected:.1} ({:+.1} %)",
            mode.name,
            change * 100.0
        );
        has_changed |= change.abs() > MAX_RELATIVE_CHANGE;
    }
    if has_changed {
        let (old_rustc, new_rustc) = (recorded("rustc").unwrap_or("an unknown compiler"), rustc_version()?);
        if old_rustc != new_rustc {
            println!("counts: NOT COMPARED: recorded with {old_rustc}, and this is {new_rustc}");
            return Ok(());
        }
        return Err(format!(
            "a count differs by more than {:.0} % from the recorded one. Counts depend on the compiler: recorded with \
             {old_rustc}, this is {new_rustc}. If the change is intended, record them again with `scripts/counts record` \
             and say why in the commit",
            MAX_RELATIVE_CHANGE * 100.0
        )
        .into());
    }
    Ok(())
}

fn record_counts(file: &str) -> Result<()> {
    let mut text = String::from("# Instructions per request, dispatched to the null device: see `make counts`.\n");
    writeln!(text, "arch {}\nrustc {}", env::consts::ARCH, rustc_version()?)?;
    for mode in &MODES {
        writeln!(text, "{} {:.1}", mode.name, instructions_per_request(mode)?)?;
    }
    print!("{text}");
    Ok(fs::write(file, text)?)
}

/// Returns instructions per request.
fn instructions_per_request(mode: &DispatchMode) -> Result<f64> {
    const FEW: usize = 32 * BATCH;
    const MORE: u32 = 64 * BATCH as u32;
    Ok((count_instructions(mode, FEW + MORE as usize)? - count_instructions(mode, FEW)?) / f64::from(MORE))
}

/// Returns the number of instructions that this program executes in a run of `requests` requests.
fn count_instructions(mode: &DispatchMode, requests: usize) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["loop", mode.name, &requests.to_string()])
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, number)) if output.status.success() => Ok(number.trim().parse()?),
        _ => Err(format!("valgrind did not count:\n{report}").into()),
    }
}

fn rustc_version() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    Ok(version.split_whitespace().nth(1).unwrap_or("unknown").to_owned())
}

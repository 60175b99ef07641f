//! What dispatch itself costs: requests to the null device, whose own work is nothing.
//!
//! ```text
//! gantry-bench-dispatch time           nanoseconds per request, as JSON
//! gantry-bench-dispatch check FILE     instructions per request, compared with a recorded file
//! gantry-bench-dispatch record FILE    writes that file
//! gantry-bench-dispatch loop WAY N     N requests and nothing else: what valgrind runs
//! ```
//!
//! Instructions are counted by `valgrind --tool=callgrind` over the whole program, for two numbers of requests; the
//! difference is the requests' own. Counts do not depend on what else the machine does, but they do on the compiler.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

use gantry::{Algorithm, Gantry, Request, Session, SessionParams};
use gantry_driver_null::NullDriver;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of each request. The null device looks at none of them.
const BYTES: usize = 64;
/// Requests in a batch.
const BATCH: usize = 32;
/// How far a count may lie from the recorded one.
const TOLERANCE: f64 = 0.03;

/// A way to hand over requests.
struct Way {
    name: &'static str,
    /// Nanoseconds below which a request should stay.
    goal_ns: u32,
    /// Runs this many requests, a multiple of [`BATCH`].
    run: fn(&Session, usize),
}

const WAYS: [Way; 2] =
    [Way { name: "direct", goal_ns: 50, run: direct }, Way { name: "batch-32", goal_ns: 15, run: batch }];

fn direct(session: &Session, requests: usize) {
    let mut data = [0; BYTES];
    for _ in 0..requests {
        session.encrypt(&[], black_box(&mut data)).expect("the null device takes everything");
    }
}

fn batch(session: &Session, requests: usize) {
    let mut data = [[0; BYTES]; BATCH];
    let mut batch: Vec<_> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    for _ in 0..requests / BATCH {
        session.process(black_box(&mut batch)).expect("the null device takes everything");
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["time"] => time(),
        ["check", file] => check(file),
        ["record", file] => record(file),
        ["loop", way, requests] => run_loop(way, requests),
        _ => Err("usage: gantry-bench-dispatch time | check FILE | record FILE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantry-bench-dispatch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn session() -> Result<Session> {
    let gantry = Gantry::builder().driver(&NullDriver).build();
    Ok(gantry.session(SessionParams::new(Algorithm::Null, &[]))?)
}

/// The median of many short runs: a run that was interrupted is then no part of the answer.
fn time() -> Result<()> {
    const RUNS: usize = 1001;
    const REQUESTS: u32 = 32 * BATCH as u32;
    let session = session()?;
    let mut rows = Vec::new();
    for way in &WAYS {
        let mut runs: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                (way.run)(&session, REQUESTS as usize);
                start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        rows.push(format!(
            r#"{{"dispatch":"{}","ns":{:.2},"p99_ns":{:.2},"goal_ns":{}}}"#,
            way.name,
            runs[RUNS / 2],
            runs[RUNS * 99 / 100],
            way.goal_ns
        ));
    }
    println!("[{}]", rows.join(","));
    Ok(())
}

fn run_loop(way: &str, requests: &str) -> Result<()> {
    let way = WAYS.iter().find(|known| known.name == way).ok_or("no such way")?;
    (way.run)(&session()?, requests.parse()?);
    Ok(())
}

fn check(file: &str) -> Result<()> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let recorded = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    if recorded("arch") != Some(env::consts::ARCH) {
        println!("counts: SKIPPED, {file} is of another architecture than {}", env::consts::ARCH);
        return Ok(());
    }
    let mut wrong = false;
    for way in &WAYS {
        let was: f64 = recorded(way.name).ok_or_else(|| format!("{file}: no count for {}", way.name))?.parse()?;
        let is = count(way)?;
        let change = is / was - 1.0;
        println!(
            "counts: {:9} {is:8.1} instructions a request, recorded {was:.1} ({:+.1} %)",
            way.name,
            change * 100.0
        );
        wrong |= change.abs() > TOLERANCE;
    }
    if wrong {
        let (then, now) = (recorded("rustc").unwrap_or("an unknown compiler"), rustc()?);
        if then != now {
            println!("counts: NOT JUDGED, they are of {then}, and this is {now}");
            return Ok(());
        }
        return Err(format!(
            "a count lies more than {:.0} % from the recorded one. Counts depend on the compiler: recorded with \
             {then}, this is {now}. If the change is meant, record them anew with `scripts/counts record` and say \
             why in the commit",
            TOLERANCE * 100.0
        )
        .into());
    }
    Ok(())
}

fn record(file: &str) -> Result<()> {
    let mut text = String::from("# Instructions per request, dispatched to the null device: see `make counts`.\n");
    writeln!(text, "arch {}\nrustc {}", env::consts::ARCH, rustc()?)?;
    for way in &WAYS {
        writeln!(text, "{} {:.1}", way.name, count(way)?)?;
    }
    print!("{text}");
    Ok(fs::write(file, text)?)
}

/// Instructions per request.
fn count(way: &Way) -> Result<f64> {
    const FEW: usize = 32 * BATCH;
    const MORE: u32 = 64 * BATCH as u32;
    Ok((instructions(way, FEW + MORE as usize)? - instructions(way, FEW)?) / f64::from(MORE))
}

/// Instructions of this program from start to end, with that many requests in it.
fn instructions(way: &Way, requests: usize) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["loop", way.name, &requests.to_string()])
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

fn rustc() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    Ok(version.split_whitespace().nth(1).unwrap_or("unknown").to_owned())
}

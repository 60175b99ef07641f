//! What coalescing is worth: many threads that hash one message at a time, and one thread with a queue.
//!
//! ```text
//! gantry-bench-coalesce [--threads 16] [--others 0] [--algorithm sha256] [--seconds 0.2] [--rounds 9] [BYTES...]
//! ```
//!
//! Plain software, the policy under test and its batches take turns in short slices; a row has the medians of the ratios of
//! neighbouring slices, for wall time and for CPU time. JSON on stdout.
//!
//! `--others`: so many processes want a CPU all the time, in the same session, so that Linux shares the CPUs out among their
//! threads and ours as equals. A row then says nothing of a thread alone and of queues.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::{Child, Command};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gantry::{Algorithm, Gantry, QueueOptions, Request, Session, SessionParams, Submission};
use gantry_runtime::Config;
use nix::sys::resource::{UsageWho, getrusage};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Options {
    threads: usize,
    others: usize,
    algorithm: Algorithm,
    slice: Duration,
    rounds: usize,
    bytes: Vec<usize>,
}

fn main() -> Result<()> {
    let options = options()?;
    let gantry = gantry_runtime::open(Config::from_env()?)?;
    let software = gantry_runtime::open(pinned()?)?;
    let mut rows = Vec::new();
    let _others = (0..options.others).map(|_| Other::start()).collect::<Result<Vec<_>>>()?;
    for bytes in &options.bytes {
        let mut row = serde_json::json!({
            "algorithm": options.algorithm.name(),
            "bytes": bytes,
            "threads": options.threads,
            "others": options.others,
            "threads_to_software": threads(&options, &gantry, &software, options.threads, *bytes)?,
        });
        if options.others == 0 {
            row["alone_to_software"] = threads(&options, &gantry, &software, 1, *bytes)?;
            row["queue_to_batch"] = queue(&options, &gantry, *bytes)?;
        }
        rows.push(row);
    }
    println!("{}", serde_json::to_string_pretty(&rows)?);
    Ok(())
}

fn options() -> Result<Options> {
    let mut options = Options {
        threads: 16,
        others: 0,
        algorithm: Algorithm::Sha256,
        slice: Duration::from_millis(200),
        rounds: 9,
        bytes: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match &*argument {
            "--threads" => options.threads = value()?.parse()?,
            "--others" => options.others = value()?.parse()?,
            "--algorithm" => options.algorithm = value()?.parse()?,
            "--seconds" => options.slice = Duration::from_secs_f64(value()?.parse()?),
            "--rounds" => options.rounds = value()?.parse()?,
            bytes => options.bytes.push(bytes.parse()?),
        }
    }
    if options.bytes.is_empty() {
        options.bytes = vec![64, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
    }
    Ok(options)
}

fn pinned() -> Result<Config> {
    let mut config = Config::from_env()?;
    config.set("policy", "pin:software", "pin:software")?;
    Ok(config)
}

/// A process that wants a CPU all the time.
struct Other(Child);

impl Other {
    fn start() -> Result<Self> {
        Ok(Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn session(gantry: &Gantry, algorithm: Algorithm) -> Result<Session> {
    let key = vec![7; algorithm.info().key.max.min(64)];
    Ok(gantry.session(SessionParams::new(algorithm, &key))?)
}

/// What threads that ask for one thing at a time do, against the same on plain software.
fn threads(
    options: &Options,
    gantry: &Gantry,
    software: &Gantry,
    threads: usize,
    bytes: usize,
) -> Result<serde_json::Value> {
    let (ours, theirs) = (session(gantry, options.algorithm)?, session(software, options.algorithm)?);
    Ok(compare(options, || crowd(options, &ours, threads, bytes), || crowd(options, &theirs, threads, bytes)))
}

/// What a queue with 32 in flight does, against batches of 32.
fn queue(options: &Options, gantry: &Gantry, bytes: usize) -> Result<serde_json::Value> {
    let session = session(gantry, options.algorithm)?;
    Ok(compare(options, || in_flight(options, &session, bytes), || batches(options, &session, bytes)))
}

/// The work of a slice: requests, wall time and CPU time.
struct Slice {
    requests: f64,
    wall: f64,
    cpu: f64,
}

fn measure(work: impl FnOnce() -> u64) -> Slice {
    let (start, before) = (Instant::now(), cpu());
    #[allow(clippy::cast_precision_loss, reason = "counts of a second")]
    let requests = work() as f64;
    Slice { requests, wall: start.elapsed().as_secs_f64(), cpu: cpu() - before }
}

fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("it cannot fail for oneself");
    let seconds = |time: nix::sys::time::TimeVal| {
        #[allow(clippy::cast_precision_loss, reason = "microseconds of a process")]
        let micros = time.tv_usec() as f64;
        #[allow(clippy::cast_precision_loss, reason = "seconds of a process")]
        let seconds = time.tv_sec() as f64;
        seconds + micros / 1e6
    };
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn compare(options: &Options, ours: impl Fn() -> Slice, theirs: impl Fn() -> Slice) -> serde_json::Value {
    ours();
    theirs();
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let (one, other) = (ours(), theirs());
        wall.push((one.requests / one.wall) / (other.requests / other.wall));
        cpu.push((one.requests / one.cpu) / (other.requests / other.cpu));
    }
    serde_json::json!({ "wall": median(wall), "cpu": median(cpu) })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2] * 1000.0).round() / 1000.0
}

fn crowd(options: &Options, session: &Session, threads: usize, bytes: usize) -> Slice {
    let (begin, end, total) = (Barrier::new(threads + 1), AtomicBool::new(false), AtomicU64::new(0));
    let work = || {
        let (message, mut output) = (vec![1; bytes], vec![0; session.params().tag_length()]);
        let mut requests = 0;
        begin.wait();
        while !end.load(Ordering::Relaxed) {
            match session.params().algorithm().kind() {
                gantry::Kind::Digest => session.digest(&message, &mut output),
                _ => session.mac(&message, &mut output),
            }
            .expect("software at least can do it");
            requests += 1;
        }
        total.fetch_add(requests, Ordering::Relaxed);
    };
    measure(|| {
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
            begin.wait();
            std::thread::sleep(options.slice);
            end.store(true, Ordering::Relaxed);
        });
        total.load(Ordering::Relaxed)
    })
}

fn batches(options: &Options, session: &Session, bytes: usize) -> Slice {
    let messages = vec![vec![1; bytes]; 32];
    let mut outputs = vec![vec![0; session.params().tag_length()]; 32];
    measure(|| {
        let (start, mut requests) = (Instant::now(), 0);
        while start.elapsed() < options.slice {
            let mut batch: Vec<Request<'_>> = (messages.iter().zip(&mut outputs))
                .map(|(message, output)| match session.params().algorithm().kind() {
                    gantry::Kind::Digest => Request::digest(message, output),
                    _ => Request::mac(message, output),
                })
                .collect();
            session.process(&mut batch).expect("software at least can do it");
            requests += 32;
        }
        requests
    })
}

fn in_flight(options: &Options, session: &Session, bytes: usize) -> Slice {
    let mut queue = session.gantry().queue(QueueOptions::default()).expect("the defaults are right");
    let request = |data| match session.params().algorithm().kind() {
        gantry::Kind::Digest => Submission::digest(data),
        _ => Submission::mac(data),
    };
    let mut free: Vec<Submission> = (0..32).map(|_| request(vec![1; bytes])).collect();
    measure(|| {
        let (start, mut requests) = (Instant::now(), 0);
        while start.elapsed() < options.slice {
            while let Some(submission) = free.pop() {
                queue.submit(session, submission).expect("there is room for 32");
            }
            requests += queue.wait(|completion| {
                completion.result.expect("software at least can do it").ok().expect("a digest is always done");
                free.push(completion.submission);
            }) as u64;
        }
        requests
    })
}

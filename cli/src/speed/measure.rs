//! Runs a load on several threads, and measures time, CPU time and latencies.

use std::sync::mpsc::{self, Sender};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::load::{Buffers, Calls, Load, SubmissionMode};
use super::queue_load::{QueueLoad, QueueLoadResult};
use super::rounds::{Round, Rounds, cpu_time};
use crate::interrupt;

/// Results of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// Number of requests of all threads.
    pub(super) requests: u64,
    /// Seconds from the start of the first thread to the end of the last.
    pub(super) wall_s: f64,
    /// CPU seconds of the process.
    pub(super) cpu_s: f64,
    /// Sampled latencies in nanoseconds.
    pub(super) latencies: Vec<u64>,
    /// Rounds of each thread.
    pub(super) rounds: Vec<Round>,
}

impl Measurement {
    /// Adds a later measurement.
    pub(super) fn add(&mut self, other: Measurement) {
        let Measurement { requests, wall_s, cpu_s, mut latencies, mut rounds } = other;
        self.requests += requests;
        self.wall_s += wall_s;
        self.cpu_s += cpu_s;
        self.latencies.append(&mut latencies);
        self.rounds.append(&mut rounds);
    }

    /// Returns the sample at this share of the sorted latencies: the median for 0.5. `None` without samples.
    pub(super) fn percentile(&self, share: f64) -> Option<u64> {
        let mut samples = self.latencies.clone();
        let last = samples.len().checked_sub(1)?;
        let index = (share * last as f64).round() as usize;
        Some(*samples.select_nth_unstable(index).1)
    }
}

/// Share of the time that may be spent on reading the clock.
const MAX_CLOCK_SHARE: f64 = 0.005;

/// Runs the load on `threads` threads for about `seconds`. `device_index` is the index of the device that must run the requests; `None` for
/// any device.
pub(super) fn run(
    load: &Load<'_>,
    device_index: Option<usize>,
    threads: usize,
    seconds: f64,
) -> Result<Measurement, String> {
    let clock_cost = clock_cost();
    // The gate is locked for writing until all threads are ready. Its value is true if the threads should run.
    let start_gate = RwLock::new(false);
    let (report, reports) = mpsc::channel();
    let worker = |report: Sender<()>| {
        let mut buffers = None;
        let prepared = Prepared::new(load, device_index, clock_cost, &mut buffers);
        let _ = report.send(());
        let go = *start_gate.read().unwrap_or_else(PoisonError::into_inner);
        let result = if go {
            prepared.and_then(|prepared| prepared.work(load, device_index, clock_cost, seconds))
        } else {
            Err("not all threads were started".to_owned())
        };
        let _ = report.send(());
        result
    };
    thread::scope(|scope| {
        let mut go = start_gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut workers = Vec::new();
        for _ in 0..threads {
            let report = report.clone();
            let started = thread::Builder::new().spawn_scoped(scope, || worker(report));
            workers.push(started.map_err(|error| format!("{threads} threads cannot be started: {error}"))?);
        }
        drop(report);
        let wait_for_all = || (0..threads).for_each(|_| reports.recv().unwrap_or_default());
        wait_for_all();
        let before = cpu_time(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        *go = true;
        drop(go);
        wait_for_all();
        let mut measurement =
            Measurement { cpu_s: cpu_time(ClockId::CLOCK_PROCESS_CPUTIME_ID) - before, ..Measurement::default() };
        let mut span: Option<(Instant, Instant)> = None;
        for worker in workers {
            let ThreadResult { start, end, requests, mut latencies, mut rounds } =
                worker.join().map_err(|_| "a thread panicked".to_owned())??;
            span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
            measurement.requests += requests;
            measurement.latencies.append(&mut latencies);
            measurement.rounds.append(&mut rounds);
        }
        measurement.wall_s = span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        Ok(measurement)
    })
}

/// The prepared work of a thread, and the approximate time of one call, or of one request of a queue.
enum Prepared<'m> {
    Calls(Calls<'m>, Duration),
    Queue(Box<QueueLoad<'m>>, Duration),
}

/// Results of one thread.
struct ThreadResult {
    start: Instant,
    end: Instant,
    requests: u64,
    latencies: Vec<u64>,
    rounds: Vec<Round>,
}

impl<'m> Prepared<'m> {
    /// Opens the session on its device, touches all memory, and brings the CPU up to speed. Measures the time of a call meanwhile.
    fn new(
        load: &'m Load<'m>,
        device_index: Option<usize>,
        clock_cost: Duration,
        buffers: &'m mut Option<Buffers>,
    ) -> Result<Self, String> {
        const WARM_UP_TIME: Duration = Duration::from_millis(25);
        let to_text = |error: gantry_core::Error| error.to_string();
        if let SubmissionMode::Queue(_) = load.mode {
            let mut queue_load = QueueLoad::new(load, device_index).map_err(to_text)?;
            let mut call_time = Duration::MAX;
            for time in [Duration::ZERO, WARM_UP_TIME] {
                // With an odd interval, every position in a batch of 2^n requests is timed in turn.
                let QueueLoadResult { start, end, requests, .. } =
                    queue_load.run(time, timing_interval(clock_cost, call_time) | 1)?;
                call_time = (end - start).div_f64(requests.max(1) as f64);
            }
            return Ok(Prepared::Queue(Box::new(queue_load), call_time));
        }
        let mut calls = Calls::new(load, buffers.insert(load.allocate_buffers().map_err(to_text)?));
        let mut index = 0;
        let mut round = |calls: &mut Calls<'_>| calls.repeat(&mut index, load.session, calls.len() as u64);
        round(&mut calls).map_err(to_text)?;
        let (start, mut made) = (Instant::now(), 0);
        while made == 0 || start.elapsed() < WARM_UP_TIME {
            round(&mut calls).map_err(to_text)?;
            made += calls.len() as u32;
        }
        Ok(Prepared::Calls(calls, start.elapsed() / made))
    }

    fn work(
        self,
        load: &Load<'_>,
        device_index: Option<usize>,
        clock_cost: Duration,
        seconds: f64,
    ) -> Result<ThreadResult, String> {
        match self {
            Prepared::Calls(calls, call_time) => {
                call(load, calls, timing_interval(clock_cost, call_time), device_index, clock_cost, seconds)
            }
            Prepared::Queue(mut queue_load, call_time) => {
                // The interval is odd, as in `new`.
                let interval = timing_interval(clock_cost, call_time) | 1;
                let QueueLoadResult { start, end, requests, latencies, rounds } =
                    queue_load.run(Duration::from_secs_f64(seconds), interval)?;
                let nanoseconds = |latency: Duration| latency.saturating_sub(clock_cost).as_nanos() as u64;
                let latencies = latencies.into_iter().map(nanoseconds).collect();
                Ok(ThreadResult { start, end, requests, latencies, rounds })
            }
        }
    }
}

/// Returns the number of calls from one timed call to the next. Each timed call takes two clock readings.
fn timing_interval(clock_cost: Duration, call_time: Duration) -> u64 {
    (2.0 * clock_cost.as_secs_f64() / (MAX_CLOCK_SHARE * call_time.as_secs_f64().max(1e-9))).ceil().max(1.0) as u64
}

/// Makes the calls in turn for about `seconds`, and times the first of every `interval` calls.
fn call(
    load: &Load<'_>,
    mut calls: Calls<'_>,
    interval: u64,
    device_index: Option<usize>,
    clock_cost: Duration,
    seconds: f64,
) -> Result<ThreadResult, String> {
    let to_text = |error: gantry_core::Error| error.to_string();
    let (mut made, mut index) = (0, 0);
    let mut next = |times| calls.repeat(&mut index, load.session, times).map_err(to_text);
    let mut latencies = Vec::new();
    let time = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let (deadline, mut rounds) = (start + time, Rounds::new(start, time));
    let end = loop {
        let before = Instant::now();
        next(1)?;
        let after = Instant::now();
        latencies.push((after - before).saturating_sub(clock_cost).as_nanos() as u64);
        made += 1;
        rounds.record(after, made * load.mode.batch() as u64);
        if after >= deadline || interrupt::is_interrupted() {
            break after;
        }
        next(interval - 1)?;
        made += interval - 1;
    };
    if let Some(problem) = calls.problem(device_index) {
        return Err(problem);
    }
    Ok(ThreadResult { start, end, requests: made * load.mode.batch() as u64, latencies, rounds: rounds.completed })
}

/// Returns the cost of reading the clock: the smallest of several means, which excludes interruptions.
fn clock_cost() -> Duration {
    const CLOCK_READINGS: u32 = 50;
    let mean = |_| {
        let start = Instant::now();
        for _ in 0..CLOCK_READINGS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed() / CLOCK_READINGS
    };
    (0..20).map(mean).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let measurement = Measurement { latencies: (1..=100).rev().collect(), ..Measurement::default() };
        assert_eq!(measurement.percentile(0.5), Some(51));
        assert_eq!(measurement.percentile(0.99), Some(99));
        assert_eq!(Measurement::default().percentile(0.5), None);
    }

    #[test]
    fn measurements_add_up() {
        let round = Round { cpu_s: 0.5, wall_s: 1.0 };
        let mut measurement =
            Measurement { requests: 1, wall_s: 1.0, cpu_s: 0.5, latencies: vec![1], rounds: vec![round] };
        measurement.add(Measurement {
            requests: 3,
            wall_s: 2.0,
            cpu_s: 2.0,
            latencies: vec![2, 3],
            rounds: vec![round; 2],
        });
        assert_eq!(
            (measurement.requests, measurement.wall_s, measurement.cpu_s, measurement.latencies.len()),
            (4, 3.0, 2.5, 3)
        );
        assert_eq!(measurement.rounds.len(), 3);
    }
}

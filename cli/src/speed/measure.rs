//! Runs a load on several threads, and measures time, CPU time and latencies.

use std::sync::mpsc::{self, Sender};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::flight::{FlightResult, QueueLoad};
use super::load::{Calls, Load, Memory, SubmissionMode};
use super::rounds::{Round, Rounds, cpu_time};
use crate::interrupt;

/// Results of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Requests of all threads.
    pub(super) requests: u64,
    /// Seconds from the first start to the last end.
    pub(super) wall: f64,
    /// CPU seconds of the process.
    pub(super) cpu: f64,
    /// Sampled latencies in nanoseconds.
    pub(super) latencies: Vec<u64>,
    /// Rounds of each thread.
    pub(super) rounds: Vec<Round>,
}

impl Tally {
    /// Adds a later measurement.
    pub(super) fn add(&mut self, other: Tally) {
        let Tally { requests, wall, cpu, mut latencies, mut rounds } = other;
        self.requests += requests;
        self.wall += wall;
        self.cpu += cpu;
        self.latencies.append(&mut latencies);
        self.rounds.append(&mut rounds);
    }

    /// Returns the latency that this share of the samples does not exceed.
    pub(super) fn percentile(&self, share: f64) -> Option<u64> {
        let mut samples = self.latencies.clone();
        let last = samples.len().checked_sub(1)?;
        let place = (share * last as f64).round() as usize;
        Some(*samples.select_nth_unstable(place).1)
    }
}

/// Share of the time that may be spent on reading the clock.
const CLOCK_SHARE: f64 = 0.005;

/// Runs the load on `threads` threads for about `seconds`. `place` is the index of the device that must run the requests.
pub(super) fn run(load: &Load<'_>, place: Option<usize>, threads: usize, seconds: f64) -> Result<Tally, String> {
    let clock = clock_cost();
    // The gate is locked for writing until all threads are ready. Its value tells if the threads should run.
    let gate = RwLock::new(false);
    let (report, reports) = mpsc::channel();
    let worker = |report: Sender<()>| {
        let mut memory = None;
        let prepared = Prepared::new(load, place, clock, &mut memory);
        let _ = report.send(());
        let go = *gate.read().unwrap_or_else(PoisonError::into_inner);
        let result = if go {
            prepared.and_then(|prepared| prepared.work(load, place, clock, seconds))
        } else {
            Err("not all threads were started".to_owned())
        };
        let _ = report.send(());
        result
    };
    thread::scope(|scope| {
        let mut closed = gate.write().unwrap_or_else(PoisonError::into_inner);
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
        *closed = true;
        drop(closed);
        wait_for_all();
        let mut tally = Tally { cpu: cpu_time(ClockId::CLOCK_PROCESS_CPUTIME_ID) - before, ..Tally::default() };
        let mut span: Option<(Instant, Instant)> = None;
        for worker in workers {
            let Worked { start, end, requests, mut latencies, mut rounds } =
                worker.join().map_err(|_| "a thread panicked".to_owned())??;
            span = Some(span.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
            tally.requests += requests;
            tally.latencies.append(&mut latencies);
            tally.rounds.append(&mut rounds);
        }
        tally.wall = span.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        Ok(tally)
    })
}

/// The prepared work of a thread, and the approximate time of one call, or of one request of a queue.
enum Prepared<'m> {
    Calls(Calls<'m>, Duration),
    Flight(Box<QueueLoad<'m>>, Duration),
}

/// Results of one thread.
struct Worked {
    start: Instant,
    end: Instant,
    requests: u64,
    latencies: Vec<u64>,
    rounds: Vec<Round>,
}

impl<'m> Prepared<'m> {
    /// Opens the session on its device, touches all memory, and brings the CPU up to speed.
    fn new(
        load: &'m Load<'m>,
        place: Option<usize>,
        clock: Duration,
        memory: &'m mut Option<Memory>,
    ) -> Result<Self, String> {
        const WARM: Duration = Duration::from_millis(25);
        let wrong = |error: gantry_core::Error| error.to_string();
        if let SubmissionMode::Queue(_) = load.mode {
            let mut flight = QueueLoad::new(load, place).map_err(wrong)?;
            let mut each = Duration::MAX;
            for time in [Duration::ZERO, WARM] {
                let FlightResult { start, end, requests, .. } = flight.run(time, every(clock, each) | 1)?;
                each = (end - start).div_f64(requests.max(1) as f64);
            }
            return Ok(Prepared::Flight(Box::new(flight), each));
        }
        let mut calls = Calls::new(load, memory.insert(load.memory().map_err(wrong)?));
        let mut index = 0;
        let mut round = |calls: &mut Calls<'_>| calls.repeat(&mut index, load.session, calls.len() as u64);
        round(&mut calls).map_err(wrong)?;
        let (start, mut made) = (Instant::now(), 0);
        while made == 0 || start.elapsed() < WARM {
            round(&mut calls).map_err(wrong)?;
            made += calls.len() as u32;
        }
        Ok(Prepared::Calls(calls, start.elapsed() / made))
    }

    fn work(self, load: &Load<'_>, place: Option<usize>, clock: Duration, seconds: f64) -> Result<Worked, String> {
        match self {
            Prepared::Calls(calls, each) => call(load, calls, every(clock, each), place, clock, seconds),
            Prepared::Flight(mut flight, each) => {
                // With an odd interval, every position in an even batch is timed in turn.
                let every = every(clock, each) | 1;
                let FlightResult { start, end, requests, latencies, rounds } =
                    flight.run(Duration::from_secs_f64(seconds), every)?;
                let nanoseconds = |latency: Duration| latency.saturating_sub(clock).as_nanos() as u64;
                let latencies = latencies.into_iter().map(nanoseconds).collect();
                Ok(Worked { start, end, requests, latencies, rounds })
            }
        }
    }
}

/// Returns the number of calls from one timed call to the next. To time a call takes two clock readings.
fn every(clock: Duration, each: Duration) -> u64 {
    (2.0 * clock.as_secs_f64() / (CLOCK_SHARE * each.as_secs_f64().max(1e-9))).ceil().max(1.0) as u64
}

/// Makes the calls in turn.
fn call(
    load: &Load<'_>,
    mut calls: Calls<'_>,
    every: u64,
    place: Option<usize>,
    clock: Duration,
    seconds: f64,
) -> Result<Worked, String> {
    let wrong = |error: gantry_core::Error| error.to_string();
    let (mut made, mut index) = (0, 0);
    let mut next = |times| calls.repeat(&mut index, load.session, times).map_err(wrong);
    let mut latencies = Vec::new();
    let time = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let (deadline, mut rounds) = (start + time, Rounds::new(start, time));
    let end = loop {
        let before = Instant::now();
        next(1)?;
        let after = Instant::now();
        latencies.push((after - before).saturating_sub(clock).as_nanos() as u64);
        made += 1;
        rounds.see(after, made * load.mode.batch() as u64);
        if after >= deadline || interrupt::is_interrupted() {
            break after;
        }
        next(every - 1)?;
        made += every - 1;
    };
    if let Some(problem) = calls.problem(place) {
        return Err(problem);
    }
    Ok(Worked { start, end, requests: made * load.mode.batch() as u64, latencies, rounds: rounds.all })
}

/// Returns the cost of reading the clock: the smallest of several means, which excludes interruptions.
fn clock_cost() -> Duration {
    const LOOKS: u32 = 50;
    let mean = |_| {
        let start = Instant::now();
        for _ in 0..LOOKS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed() / LOOKS
    };
    (0..20).map(mean).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let tally = Tally { latencies: (1..=100).rev().collect(), ..Tally::default() };
        assert_eq!(tally.percentile(0.5), Some(51));
        assert_eq!(tally.percentile(0.99), Some(99));
        assert_eq!(Tally::default().percentile(0.5), None);
    }

    #[test]
    fn measurements_add_up() {
        let round = Round { cpu: 0.5, wall: 1.0 };
        let mut tally = Tally { requests: 1, wall: 1.0, cpu: 0.5, latencies: vec![1], rounds: vec![round] };
        tally.add(Tally { requests: 3, wall: 2.0, cpu: 2.0, latencies: vec![2, 3], rounds: vec![round; 2] });
        assert_eq!((tally.requests, tally.wall, tally.cpu, tally.latencies.len()), (4, 3.0, 2.5, 3));
        assert_eq!(tally.rounds.len(), 3);
    }
}

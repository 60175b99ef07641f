use std::time::{Duration, Instant};

use gantry::route::Pin;
use gantry::{Gantry, Session};
use indicatif::ProgressBar;
use nix::time::ClockId;

use super::uses::{Part, USES};
use crate::output::Failure;
use crate::speed::load::{Calls, How, LINE, Load, Memory};
use crate::speed::measure::cpu_time;
use crate::speed::rounds::{Round, Spread};

/// The single engine that stands beside the route.
const ALONE: &str = "software";
const ROUND: Duration = Duration::from_millis(15);
/// What brings code, keys and data back into the caches.
const WARM: Duration = Duration::from_millis(1);
/// Rounds that everything has, however little time there is: as many as a spread needs.
const FEWEST: usize = 4;
/// The share of the time in which all have their turns. The rest is for those that vary most.
const EQUAL: f64 = 0.6;

/// A part, by the route that Gantry takes, and by software alone.
pub(super) struct Point {
    pub(super) part: Part,
    /// The route, then software.
    pub(super) ways: [Way; 2],
}

/// One way to work.
pub(super) struct Way {
    session: Session,
    memory: Memory,
    /// Calls between two looks at the clock.
    chunk: u64,
    pub(super) rounds: Vec<Round>,
}

/// The points of all uses, each once.
pub(super) fn points(gantry: &Gantry) -> Result<Vec<Point>, Failure> {
    let alone = gantry.with_policy(Pin { device: ALONE.to_owned() });
    let mut points: Vec<Point> = Vec::new();
    for part in USES.iter().flat_map(|of| of.parts) {
        if points.iter().any(|point| point.part.is_like(part)) {
            continue;
        }
        gantry.calibrate(part.algorithm, part.operation, false);
        let wrong = |error: gantry::Error| Failure::Failed(format!("{} {}: {error}", part.algorithm, part.operation));
        let way = |gantry: &Gantry| Way::new(gantry, part).map_err(wrong);
        points.push(Point { part: *part, ways: [way(gantry)?, way(&alone)?] });
    }
    Ok(points)
}

/// Measures the points until so long after the start, in turns, and then again those that make the scores most doubtful.
pub(super) fn run(points: &mut [Point], start: Instant, seconds: f64, bar: &ProgressBar) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(seconds);
    let mut turns = 0;
    while turns < FEWEST || start.elapsed() < time.mul_f64(EQUAL) {
        for point in &mut *points {
            show(bar, start, time, &point.part);
            point.round(turns)?;
        }
        turns += 1;
    }
    while start.elapsed() < time {
        let doubt = |point: &Point| USES.iter().map(|of| doubt(of.parts, points, point)).fold(0.0, f64::max);
        let doubts: Vec<f64> = points.iter().map(doubt).collect();
        let Some(place) = (0..doubts.len()).max_by(|a, b| doubts[*a].total_cmp(&doubts[*b])) else { break };
        show(bar, start, time, &points[place].part);
        points[place].round(turns)?;
        turns += 1;
    }
    Ok(())
}

fn show(bar: &ProgressBar, start: Instant, time: Duration, part: &Part) {
    let gone = start.elapsed();
    let left = time.saturating_sub(gone).as_secs();
    bar.set_position(gone.as_secs());
    bar.set_message(format!("{left} s left  {} {}", part.algorithm, part.operation));
}

/// The points of some parts, with how often they count.
pub(super) fn points_of<'p>(parts: &'p [Part], points: &'p [Point]) -> impl Iterator<Item = (f64, &'p Point)> + Clone {
    parts.iter().filter_map(|part| Some((part.times, points.iter().find(|point| point.part.is_like(part))?)))
}

/// How much a point adds to the doubt about a score, as a share of it.
fn doubt(parts: &[Part], points: &[Point], point: &Point) -> f64 {
    let of = points_of(parts, points);
    let of_way = |way: usize| {
        let total: f64 = of.clone().map(|(times, point)| times * point.ways[way].time()).sum();
        let mine = of.clone().filter(|(_, other)| std::ptr::eq(*other, point));
        mine.map(|(times, point)| times * point.ways[way].time() * point.ways[way].error()).sum::<f64>() / total
    };
    of_way(0).max(of_way(1))
}

impl Point {
    fn round(&mut self, turn: usize) -> Result<(), Failure> {
        let part = self.part;
        for way in [turn % 2, 1 - turn % 2] {
            let wrong = |problem| Failure::Failed(format!("{} {}: {problem}", part.algorithm, part.operation));
            self.ways[way].round(&part).map_err(wrong)?;
        }
        Ok(())
    }
}

impl Way {
    fn new(gantry: &Gantry, part: &Part) -> Result<Self, gantry::Error> {
        let session = gantry.session(gantry::sample_params(part.algorithm))?;
        let memory = load(&session, part).memory()?;
        Ok(Self { session, memory, chunk: 1, rounds: Vec::new() })
    }

    fn round(&mut self, part: &Part) -> Result<(), String> {
        let load = load(&self.session, part);
        let mut calls = Calls::new(&load, &mut self.memory);
        let mut index = 0;
        let mut work = |time: Duration, chunk: u64| -> Result<(u64, Duration), String> {
            let (start, mut made) = (Instant::now(), 0);
            loop {
                calls.repeat(&mut index, load.session, chunk).map_err(|error| error.to_string())?;
                made += chunk;
                let took = start.elapsed();
                if took >= time {
                    return Ok((made, took));
                }
            }
        };
        let (made, took) = work(WARM, self.chunk)?;
        // A clock is read some twenty times in a round.
        self.chunk = (ROUND.as_secs_f64() / 20.0 * made as f64 / took.as_secs_f64()).max(1.0) as u64;
        let before = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let (made, took) = work(ROUND, self.chunk)?;
        let cpu = cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID) - before;
        let requests = made as f64 * part.batch as f64;
        self.rounds.push(Round { cpu: cpu / requests, wall: took.as_secs_f64() / requests });
        calls.problem(None).map_or(Ok(()), Err)
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        Spread::of(&self.rounds)
    }

    /// Seconds for a request.
    pub(super) fn time(&self) -> f64 {
        self.spread().map_or(0.0, |spread| spread.median)
    }

    /// How far the median of other such rounds may be from this one, as a share of it: two standard errors, as of a normal distribution with
    /// this spread.
    pub(super) fn error(&self) -> f64 {
        self.spread().map_or(1.0, |spread| 1.86 * spread.relative / (self.rounds.len() as f64).sqrt())
    }
}

fn load<'s>(session: &'s Session, part: &Part) -> Load<'s> {
    Load { session, operation: part.operation, bytes: part.bytes, how: How::Batch(part.batch), alignment: LINE }
}

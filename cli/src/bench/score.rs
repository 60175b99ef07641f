use serde::Serialize;

use super::compare::Baseline;
use super::measure::{Point, points_of};
use super::uses::{USES, Use};
use crate::machine::Machine;
use crate::speed::rounds::Round;
use crate::table::Table;
use crate::terminal::{Colour, paint, reading_width, wrap};
use crate::units::round;

/// Of another meaning of the fields.
pub(super) const FORMAT: u64 = 1;
/// Scores that are less certain are not to be trusted.
const NOISY: f64 = 0.03;
/// Nor are those from a machine that is this busy with other things.
const BUSY: f64 = 0.25;

/// The whole result, as JSON.
#[derive(Serialize)]
pub(super) struct Bench {
    format: u64,
    #[serde(flatten)]
    pub(super) machine: Machine,
    pub(super) policy: &'static str,
    pub(super) seconds: f64,
    /// The share of the CPU time that other programs had meanwhile.
    pub(super) others: f64,
    pub(super) trusted: bool,
    pub(super) scores: Vec<Score>,
    /// Where the other scores are from, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) baseline: Option<Machine>,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the score itself is what the name says")]
pub(super) struct Score {
    #[serde(rename = "use")]
    pub(super) name: &'static str,
    #[serde(skip)]
    pub(super) title: &'static str,
    pub(super) score: f64,
    pub(super) unit: &'static str,
    pub(super) formula: &'static str,
    /// How far the score is likely to be off, as a share of it.
    pub(super) noise: f64,
    /// The score of software alone, and the score over it.
    pub(super) software: f64,
    pub(super) ratio: f64,
    pub(super) parts: Vec<PartScore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
}

/// One of the times that a score is made of.
#[derive(Serialize)]
pub(super) struct PartScore {
    pub(super) algorithm: &'static str,
    pub(super) operation: &'static str,
    pub(super) bytes: usize,
    pub(super) batch: usize,
    pub(super) times: f64,
    /// For one request.
    pub(super) ns: f64,
    pub(super) software_ns: f64,
    pub(super) rounds: usize,
    pub(super) spread: f64,
}

/// A score beside that of the baseline.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Change {
    pub(super) baseline: f64,
    /// The score over that.
    pub(super) ratio: f64,
    /// Whether both are more apart than noise is.
    pub(super) differs: bool,
}

impl Bench {
    pub(super) fn new(points: &[Point], machine: Machine, policy: &'static str, seconds: f64) -> Self {
        let ways = points.iter().flat_map(|point| &point.ways).filter(|way| Round::compute(&way.rounds));
        let lost = ways.flat_map(|way| &way.rounds).map(|round| (1.0 - round.cpu / round.wall).max(0.0));
        let lost: Vec<f64> = lost.collect();
        let mean = lost.iter().sum::<f64>() / lost.len().max(1) as f64;
        let scores: Vec<Score> = USES.iter().map(|of| Score::new(of, points)).collect();
        let trusted = mean <= BUSY && scores.iter().all(|score| score.noise <= NOISY);
        Self { format: FORMAT, machine, policy, seconds, others: round(mean, 3), trusted, scores, baseline: None }
    }

    /// Puts the scores beside others.
    pub(super) fn compare(&mut self, baseline: &Baseline) {
        for score in &mut self.scores {
            score.change = baseline.change(score);
        }
        self.baseline = Some(baseline.machine.clone());
    }

    /// One screen.
    pub(super) fn text(&self) -> String {
        let mut header = vec!["USE", "SCORE", "UNIT", "NOISE", "SOFTWARE", "RATIO"];
        header.extend(self.baseline.as_ref().into_iter().flat_map(|_| ["BEFORE", "CHANGE"]));
        let mut table = Table::new(&header, &[1, 3, 4, 5, 6, 7]);
        for score in &self.scores {
            let noise = percent(score.noise);
            let noise = if score.noise > NOISY { paint(&noise, Colour::Yellow) } else { noise };
            let mut cells = vec![
                score.title.to_owned(),
                short(score.score),
                score.unit.to_owned(),
                noise,
                short(score.software),
                ratio(score.ratio, score.noise),
            ];
            if self.baseline.is_some() {
                cells.extend(score.change.map_or(["-".to_owned(), "-".to_owned()], |change| {
                    let text = if change.differs { ratio(change.ratio, 0.0) } else { "same".to_owned() };
                    [short(change.baseline), text]
                }));
            }
            table.row(cells);
        }
        let [cpu, gantry] = self.machine.lines();
        let verdict = self.verdict();
        let mut lines: Vec<String> = wrap(&verdict, reading_width(), "");
        if !self.trusted {
            lines = lines.iter().map(|line| paint(line, Colour::Yellow)).collect();
        }
        lines.extend([format!("Per core, by CPU time; {} s, policy {}.", self.seconds, self.policy), cpu, gantry]);
        lines.extend(self.about_baseline().iter().flat_map(|line| wrap(line, reading_width(), "")));
        format!("{}\n{}\n", table.render(), lines.join("\n"))
    }

    /// Whether the scores can be trusted, and why not.
    pub(super) fn verdict(&self) -> String {
        let worst = self.scores.iter().map(|score| score.noise).fold(0.0, f64::max);
        if self.trusted {
            return format!("Quiet enough: the scores are certain within {}.", percent(worst));
        }
        let noisy: Vec<&str> = self.scores.iter().filter(|score| score.noise > NOISY).map(|score| score.name).collect();
        let mut reasons = Vec::new();
        if self.others > BUSY {
            reasons.push(format!("other programs had {:.0} % of the CPU time", 100.0 * self.others));
        }
        if !noisy.is_empty() {
            reasons.push(format!("{} may be off by {}", noisy.join(", "), percent(worst)));
        }
        format!("Do not trust these scores: {}. Repeat this on a quiet machine.", reasons.join("; "))
    }

    /// What the scores are compared with.
    pub(super) fn about_baseline(&self) -> Vec<String> {
        let Some(other) = &self.baseline else { return Vec::new() };
        let [cpu, gantry] = other.lines();
        let mut lines = vec![format!("Before: {cpu}; {gantry}")];
        let same = |one: &str, other: &str| one == other;
        if !same(&other.cpu_model, &self.machine.cpu_model) {
            lines.push("These are different CPUs: the change is not that of Gantry alone.".to_owned());
        } else if !same(&other.cpu_level, &self.machine.cpu_level) {
            lines.push("The CPU was used at different levels.".to_owned());
        }
        if self.scores.iter().any(|score| score.change.is_none()) {
            lines.push("Scores that were defined otherwise before are not compared.".to_owned());
        }
        lines
    }
}

impl Score {
    fn new(of: &'static Use, points: &[Point]) -> Self {
        let points = points_of(of.parts, points);
        let time = |way: usize| points.clone().map(|(times, point)| times * point.ways[way].time()).sum::<f64>();
        let error = |way: usize| {
            let errors = points.clone().map(|(times, point)| times * point.ways[way].time() * point.ways[way].error());
            errors.sum::<f64>() / time(way)
        };
        let part = |(times, point): (f64, &Point)| {
            let [ours, software] = &point.ways;
            PartScore {
                algorithm: point.part.algorithm.name(),
                operation: point.part.operation.name(),
                bytes: point.part.bytes,
                batch: point.part.batch,
                times,
                ns: round(ours.time() * 1e9, 1),
                software_ns: round(software.time() * 1e9, 1),
                rounds: ours.rounds.len(),
                spread: ours.spread().map_or(1.0, |spread| round(spread.relative, 4)),
            }
        };
        let [score, software] = [0, 1].map(|way| of.amount / time(way));
        Self {
            name: of.name,
            title: of.title,
            score: round(score, 4),
            unit: of.unit,
            formula: of.formula,
            noise: round(error(0), 4),
            software: round(software, 4),
            ratio: round(score / software, 4),
            parts: points.clone().map(part).collect(),
            change: None,
        }
    }
}

/// A score with three or four digits that count.
pub(super) fn short(score: f64) -> String {
    let places = if score < 9.995 { 2 } else { usize::from(score < 99.95) };
    format!("{score:.places$}")
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Green and red where it differs from 1 by more than noise, and a little.
fn ratio(ratio: f64, noise: f64) -> String {
    let text = format!("{ratio:.2}x");
    match ratio - 1.0 {
        less if less < -noise.max(0.02) => paint(&text, Colour::Red),
        more if more > noise.max(0.02) => paint(&text, Colour::Green),
        _ => text,
    }
}

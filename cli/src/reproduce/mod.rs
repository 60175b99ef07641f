//! `gantry reproduce`: what others published, next to what Gantry's models and this machine do.

#![allow(clippy::cast_precision_loss, reason = "measured, not counted")]

mod boards;
mod dispatch;
mod flow_control;
mod ocf2003;
mod paper;
mod sec;
mod table9;

use std::sync::Arc;

use gantry::VirtualClock;
use gantry_runtime::model::{ModelDriver, Profile};
use serde::Serialize;

use crate::args::{Reproduce, Work};
use crate::output::{Failure, Output, say};

pub(crate) fn run(args: &Reproduce, output: &mut Output) -> Result<(), Failure> {
    match args.work {
        Work::Ocf2003 => ocf2003::run(args, output),
        Work::Boards => boards::run(args, output),
        Work::FlowControl => flow_control::run(args, output),
        Work::Sec => sec::run(args, output),
        Work::Table9 => table9::run(args, output),
    }
}

/// A modelled device in virtual time.
fn model(profile: &Profile, clock: &Arc<VirtualClock>) -> Result<ModelDriver, Failure> {
    let driver = ModelDriver::new(profile.clone(), gantry_runtime::reference(), clock.clone().into());
    driver.map_err(|absurd| Failure::Failed(absurd.to_string()))
}

/// In percent of the published figure.
fn deviation(published: f64, found: f64) -> f64 {
    100.0 * (found / published - 1.0)
}

/// The same for people.
fn deviates(published: f64, found: f64) -> String {
    format!("{:+.1}%", deviation(published, found))
}

/// A figure with what was found for it.
#[derive(Serialize)]
struct Row {
    /// What it is of: a table of the paper.
    table: String,
    /// What was run, in words.
    case: String,
    unit: &'static str,
    /// The figure, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<f64>,
    found: f64,
    /// How far what was found lies from the figure, in percent of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation: Option<f64>,
    /// What `found` must be, at least and at most, where something was promised.
    at_least: Option<f64>,
    at_most: Option<f64>,
    ok: bool,
}

impl Row {
    fn new(table: &str, case: String, unit: &'static str, published: Option<f64>, found: f64) -> Self {
        let deviation = published.filter(|published| *published != 0.0).map(|published| deviation(published, found));
        let (table, ok) = (table.into(), found.is_finite());
        Self { table, case, unit, published, found, deviation, at_least: None, at_most: None, ok }
    }

    fn within(mut self, at_least: Option<f64>, at_most: Option<f64>) -> Self {
        self.ok &= at_least.is_none_or(|least| self.found >= least) && at_most.is_none_or(|most| self.found <= most);
        Self { at_least, at_most, ..self }
    }
}

/// The whole result, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    rows: &'a [Row],
}

/// Writes the rows, as JSON or as `text`, and fails when one of them is not what it must be.
fn conclude(args: &Reproduce, rows: &[Row], text: &str, output: &mut Output) -> Result<(), Failure> {
    let missed: Vec<&Row> = rows.iter().filter(|row| !row.ok).collect();
    if args.json {
        output.json(&Report { ok: missed.is_empty(), rows })?;
    } else {
        output.write(text)?;
    }
    for row in &missed {
        let bound = |word, bound: Option<f64>| {
            bound.map_or_else(String::new, |bound| format!("; at {word} {bound:.1} was promised"))
        };
        let Row { table, case, unit, found, at_least, at_most, .. } = row;
        say(&format!("{table}, {case}: {found:.1} {unit}{}{}", bound("least", *at_least), bound("most", *at_most)));
    }
    if missed.is_empty() { Ok(()) } else { Err(Failure::Said) }
}

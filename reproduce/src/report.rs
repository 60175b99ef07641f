//! Published figures with Gantry's figures, and the promised bounds of Gantry's figures.

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use gantry_core::VirtualClock;
use gantry_runtime::model::{ModelDriver, Profile};
use serde::Serialize;

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Makes a modelled device in virtual time.
pub(crate) fn make_model(profile: &Profile, clock: &Arc<VirtualClock>) -> Result<ModelDriver> {
    Ok(ModelDriver::new(profile.clone(), gantry_runtime::reference(), clock.clone().into())?)
}

/// Returns the deviation in percent of the published figure.
pub(crate) fn deviation(published: f64, found: f64) -> f64 {
    100.0 * (found / published - 1.0)
}

/// Formats the deviation.
pub(crate) fn format_deviation(published: f64, found: f64) -> String {
    format!("{:+.1}%", deviation(published, found))
}

/// Prints a message on stderr.
pub(crate) fn say(message: impl Display) {
    eprintln!("gantry-reproduce: {message}");
}

/// A published figure and Gantry's figure.
#[derive(Serialize)]
pub(crate) struct Row {
    /// The table of the paper, or another source.
    table: String,
    /// The case, in words.
    case: String,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<f64>,
    found: f64,
    /// The deviation of `found`, in percent of the published figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    deviation: Option<f64>,
    /// Promised bounds of `found`.
    at_least: Option<f64>,
    at_most: Option<f64>,
    ok: bool,
}

impl Row {
    pub(crate) fn new(table: &str, case: String, unit: &'static str, published: Option<f64>, found: f64) -> Self {
        let deviation = published.filter(|published| *published != 0.0).map(|published| deviation(published, found));
        let (table, ok) = (table.into(), found.is_finite());
        Self { table, case, unit, published, found, deviation, at_least: None, at_most: None, ok }
    }

    pub(crate) fn with_bounds(mut self, at_least: Option<f64>, at_most: Option<f64>) -> Self {
        self.ok &= at_least.is_none_or(|least| self.found >= least) && at_most.is_none_or(|most| self.found <= most);
        Self { at_least, at_most, ..self }
    }
}

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn to_json(&self) -> Result<String> {
        let ok = self.rows.iter().all(|row| row.ok);
        Ok(serde_json::to_string_pretty(&serde_json::json!({ "ok": ok, "rows": self.rows }))?)
    }

    /// Prints the figures that are out of their bounds. Returns true if there are none.
    pub(crate) fn print_violations(&self) -> bool {
        for row in self.rows.iter().filter(|row| !row.ok) {
            let Row { table, case, unit, found, at_least, at_most, .. } = row;
            let bound = |word, bound: &Option<f64>| {
                bound.map_or_else(String::new, |bound| format!("; the limit is at {word} {bound:.1}"))
            };
            say(format_args!(
                "{table}, {case}: {found:.1} {unit}{}{}",
                bound("least", at_least),
                bound("most", at_most)
            ));
        }
        self.rows.iter().all(|row| row.ok)
    }
}

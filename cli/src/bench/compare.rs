use std::io::ErrorKind;
use std::path::Path;

use gantry_runtime::bounded;
use serde_json::Value;

use super::score::{Change, FORMAT, Score};
use crate::machine::Machine;
use crate::output::Failure;

/// Scores that were saved.
pub(super) struct Baseline {
    pub(super) machine: Machine,
    scores: Vec<Value>,
}

/// Two programs, or two starts of the same one, lie differently in memory, which no repetition within one shows.
const LEAST: f64 = 0.01;

impl Baseline {
    /// Reads what `--save` wrote.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        // What is no file, or too long for one of these, is no result.
        let text = bounded::read(path).or_else(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::FileTooLarge | ErrorKind::IsADirectory => Ok(Vec::new()),
            _ => Err(Failure::at(path.display(), &error)),
        })?;
        Self::parse(&text)
            .ok_or_else(|| Failure::Failed(format!("{}: this is no result of gantry bench", path.display())))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let field = |name: &str| value[name].as_str().map(clean);
        let machine = Machine {
            cpu_model: field("cpu_model")?,
            cpu_level: field("cpu_level")?,
            gantry_version: field("gantry_version")?,
            date: field("date")?,
        };
        let scores = value["scores"].as_array().filter(|_| value["format"] == FORMAT)?.clone();
        Some(Self { machine, scores })
    }

    /// What became of a score; `None` where the other one was defined otherwise.
    pub(super) fn change(&self, score: &Score) -> Option<Change> {
        let known = self.scores.iter().find(|known| known["use"] == score.name)?;
        if known["formula"] != score.formula {
            return None;
        }
        let number = |name: &str| known[name].as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        let (baseline, noise) = (number("score").filter(|score| *score > 0.0)?, number("noise")?);
        let ratio = score.score / baseline;
        let differs = (ratio - 1.0).abs() > (score.noise + noise).max(LEAST);
        Some(Change { baseline, ratio: crate::units::round(ratio, 4), differs })
    }
}

/// Text from a file that goes to a terminal: one line, and no more than is read.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::uses::USES;

    fn score(score: f64, noise: f64) -> Score {
        let of = &USES[0];
        Score {
            name: of.name,
            title: of.title,
            score,
            unit: of.unit,
            formula: of.formula,
            noise,
            software: score,
            ratio: 1.0,
            parts: Vec::new(),
            change: None,
        }
    }

    fn baseline(change: impl Fn(&mut Value)) -> Option<Baseline> {
        let mut value = serde_json::json!({
            "format": FORMAT, "cpu_model": "a\u{1b}[31m", "cpu_level": "avx2", "gantry_version": "1", "date": "today",
            "scores": [{ "use": "tls", "score": 100.0, "noise": 0.02, "formula": USES[0].formula }],
        });
        change(&mut value);
        Baseline::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_change_is_more_than_the_noise_of_both() {
        let baseline = baseline(|_| ()).unwrap();
        assert_eq!(baseline.machine.cpu_model, "a[31m", "a file does not speak to the terminal");
        let change = |now, noise| baseline.change(&score(now, noise)).unwrap();
        assert!(change(104.0, 0.01).differs && change(96.0, 0.01).differs);
        assert!(!change(102.5, 0.01).differs && !change(104.0, 0.03).differs);
        assert!((change(150.0, 0.0).ratio - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_comparable_is_not_compared() {
        let none = |value: Option<Baseline>| value.is_some_and(|baseline| baseline.change(&score(1.0, 0.0)).is_none());
        assert!(none(baseline(|value| value["scores"][0]["formula"] = "otherwise".into())));
        assert!(none(baseline(|value| value["scores"] = serde_json::json!([]))));
        assert!(none(baseline(|value| value["scores"][0]["score"] = 0.into())));
        for wrong in ["format", "date", "scores"] {
            assert!(baseline(|value| value[wrong] = Value::Null).is_none(), "{wrong}");
        }
        assert!(Baseline::parse(b"[]").is_none() && Baseline::parse(b"").is_none());
    }
}

//! Counters of the data path of `gantry esp`, from its socket `status`. They never decrease, even if the data path is restarted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::metrics::{Format, Samples, labels, write_counter, write_gauge};
use crate::status;

type Counters = BTreeMap<String, u64>;

/// A data path, and earlier data paths that had the same socket.
pub(super) struct DataPath {
    socket: PathBuf,
    /// The counters of data paths that have ended.
    ended_counters: Counters,
    /// The process that answered last, and its answer.
    last_answer: Option<(i32, Report)>,
    /// True if the data path answered the last query.
    is_up: bool,
}

impl DataPath {
    /// Creates the state for the socket in this folder. The folder need not exist.
    pub(super) fn new(folder: &Path) -> Self {
        Self { socket: folder.join("status"), ended_counters: Counters::new(), last_answer: None, is_up: false }
    }

    /// Asks for the counters. Keeps the previous ones if there is no answer.
    pub(super) fn refresh(&mut self) {
        let answer = query(&self.socket);
        self.is_up = answer.is_ok();
        if let Ok((process, report)) = answer {
            self.record(process, report);
        }
    }

    fn record(&mut self, process: i32, report: Report) {
        let has_restarted = |(before, last): &(i32, Report)| {
            let went_back = |(name, count)| report.counters.get(name).is_some_and(|now| now < count);
            *before != process || last.counters.iter().any(went_back)
        };
        // A process in another PID namespace appears with PID 0, so also look for counters that decreased.
        if let Some((_, last)) = self.last_answer.take_if(|last| has_restarted(last)) {
            for (name, count) in last.counters {
                *self.ended_counters.entry(name).or_default() += count;
            }
        }
        self.last_answer = Some((process, report));
    }

    /// Appends the metrics of the data path; nothing if no data path has ever answered.
    pub(super) fn render(&self, text: &mut String, format: Format) {
        let Some((_, last)) = &self.last_answer else { return };
        let count = |name: &str| [&self.ended_counters, &last.counters].iter().filter_map(|all| all.get(name)).sum();
        for (name, help, suffix) in DIRECTION_COUNTERS {
            let samples = [("out", "sent"), ("in", "received")]
                .map(|(direction, side)| (labels(&[("direction", direction)]), count(&format!("{side}_{suffix}"))));
            write_counter(text, format, name, help, &samples.into());
        }
        let dropped = DROP_REASONS.map(|reason| (labels(&[("reason", reason)]), count(reason)));
        let help = "Packets that did not pass through the tunnel.";
        write_counter(text, format, "gantry_esp_dropped_packets", help, &dropped.into());
        let help = "Packets that were cut into fragments before the tunnel.";
        let fragmented = Samples::from([(String::new(), count("fragmented"))]);
        write_counter(text, format, "gantry_esp_fragmented_packets", help, &fragmented);
        if self.is_up {
            let Associations { incoming, outgoing } = last.associations;
            let samples = [("in", incoming), ("out", outgoing)]
                .map(|(direction, number)| (labels(&[("direction", direction)]), number));
            write_gauge(text, "gantry_esp_associations", "Security associations with keys.", &samples.into());
            let policies = Samples::from([(String::new(), last.policies)]);
            write_gauge(text, "gantry_esp_policies", "Security policies.", &policies);
        }
        let up = Samples::from([(String::new(), self.is_up.into())]);
        write_gauge(text, "gantry_esp_up", "1 if the data path of gantry esp is running.", &up);
    }
}

/// Counters of both directions: name of the metric, help, and the suffix of the data path's counters.
const DIRECTION_COUNTERS: [(&str, &str, &str); 3] = [
    ("gantry_esp_packets", "Packets that passed through the tunnel.", "packets"),
    ("gantry_esp_bytes", "Bytes of these packets, without ESP.", "bytes"),
    ("gantry_esp_batches", "Batches in which devices got these packets.", "batches"),
];

/// Counters of packets that did not pass (frontends/esp/src/counters.rs).
const DROP_REASONS: [&str; 18] = [
    "congested",
    "dummies",
    "expired",
    "failed",
    "forged",
    "malformed",
    "mismatched",
    "replayed",
    "short",
    "too_long",
    "unadmitted",
    "undelivered",
    "unfit",
    "unknown_spi",
    "unprotected",
    "unreadable",
    "unsent",
    "without_sa",
];

/// The used fields of a report (frontends/esp/src/status.rs).
#[derive(Deserialize)]
struct Report {
    counters: Counters,
    associations: Associations,
    policies: u64,
}

#[derive(Deserialize)]
struct Associations {
    #[serde(rename = "in")]
    incoming: u64,
    #[serde(rename = "out")]
    outgoing: u64,
}

/// Returns the PID of the process behind a socket, and its report.
fn query(path: &Path) -> io::Result<(i32, Report)> {
    let (process, bytes) = status::ask(path)?;
    Ok((process, serde_json::from_slice(&bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sent: u64, forged: u64) -> Report {
        let counters = BTreeMap::from([("sent_packets".to_owned(), sent), ("forged".to_owned(), forged)]);
        Report { counters, associations: Associations { incoming: 3, outgoing: 2 }, policies: 6 }
    }

    fn text(path: &DataPath) -> String {
        let mut text = String::new();
        path.render(&mut text, Format::Text);
        text
    }

    fn has(path: &DataPath, line: &str) -> bool {
        text(path).lines().any(|found| found == line)
    }

    #[test]
    fn counters_survive_a_restart_of_the_data_path() {
        let mut path = DataPath::new(Path::new("/nonexistent"));
        let sent =
            |path: &DataPath, count: u64| has(path, &format!("gantry_esp_packets_total{{direction=\"out\"}} {count}"));
        path.record(7, report(10, 0));
        assert!(sent(&path, 10) && has(&path, "gantry_esp_dropped_packets_total{reason=\"forged\"} 0"));
        path.record(7, report(12, 1));
        assert!(sent(&path, 12));
        path.record(8, report(20, 0));
        assert!(sent(&path, 32) && has(&path, "gantry_esp_dropped_packets_total{reason=\"forged\"} 1"));
        // A process of another namespace may have the same PID: its counter is smaller.
        path.record(8, report(5, 0));
        assert!(sent(&path, 37), "{}", text(&path));
    }

    #[test]
    fn a_data_path_that_has_ended_keeps_its_counters_and_has_no_associations() {
        let mut path = DataPath::new(Path::new("/nonexistent"));
        path.refresh();
        assert_eq!(text(&path), "", "no data path has ever answered");
        path.record(7, report(10, 0));
        path.is_up = true;
        assert!(has(&path, "gantry_esp_associations{direction=\"in\"} 3") && has(&path, "gantry_esp_policies 6"));
        assert!(has(&path, "gantry_esp_up 1"));
        path.refresh();
        assert!(has(&path, "gantry_esp_packets_total{direction=\"out\"} 10") && has(&path, "gantry_esp_up 0"));
        assert!(!text(&path).contains("gantry_esp_associations"));
    }
}

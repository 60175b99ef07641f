//! Activity of the guests of servers between two samples.

#![allow(clippy::cast_precision_loss, reason = "rates for people")]

use std::collections::HashMap;

use gantry_runtime::stats::{self, Report};
use serde::Serialize;

use crate::units::round;

/// A guest of one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Guest {
    pub(super) name: String,
    /// Sessions open at the end of the interval.
    pub(super) sessions: u64,
    /// Requests since the start of the server.
    pub(super) requests: u64,
    pub(super) requests_per_s: f64,
    pub(super) bytes_per_s: f64,
    /// Mean size of the bursts, including requests of other guests; `None` without requests.
    pub(super) burst: Option<f64>,
    /// Requests refused in the interval.
    pub(super) refused: u64,
    pub(super) broken: u64,
}

/// Returns the guests of one process, in the order of their sockets.
pub(super) fn between(before: &Report, now: &Report, seconds: f64) -> Vec<Guest> {
    let before: HashMap<&str, &stats::Guest> = before.guests.iter().map(|guest| (guest.name.as_str(), guest)).collect();
    let guest = |guest: &stats::Guest| {
        let number = |guest: &stats::Guest, name: &str| guest.numbers.get(name).copied().unwrap_or(0);
        let earlier = before.get(guest.name.as_str());
        let since = |name: &str| number(guest, name).saturating_sub(earlier.map_or(0, |earlier| number(earlier, name)));
        let rate = |name: &str| if seconds > 0.0 { since(name) as f64 / seconds } else { 0.0 };
        let requests = since("requests");
        Guest {
            name: guest.name.clone(),
            sessions: number(guest, "sessions"),
            requests: number(guest, "requests"),
            requests_per_s: round(rate("requests"), 1),
            bytes_per_s: round(rate("bytes"), 0),
            burst: (requests > 0).then(|| round(since("burst_sum") as f64 / requests as f64, 1)),
            refused: since("refused"),
            broken: since("broken"),
        }
    };
    now.guests.iter().map(guest).collect()
}

#[cfg(test)]
mod tests {
    use super::super::columns::{GUESTS, render_table};
    use super::*;

    fn report(requests: u64, burst_sum: u64) -> Report {
        let json = format!(
            r#"{{"processes":[],"rows":[],"guests":[{{"name":"vm1","numbers":
                {{"requests":{requests},"bytes":{},"burst_sum":{burst_sum},"sessions":2,"refused":1}}}}]}}"#,
            requests * 1000
        );
        Report::from_json(&json).unwrap()
    }

    #[test]
    fn guests_have_rates_of_the_interval_and_sessions_of_its_end() {
        let guests = between(&report(100, 100), &report(300, 900), 2.0);
        assert_eq!(
            render_table(GUESTS, &guests, None),
            "GUEST  REQ/S  MB/S  BURST  SESSIONS  REFUSED  BROKEN\nvm1      100   0.1    4.0         2        0       0\n"
        );
        let first = between(&Report::default(), &report(300, 900), 2.0);
        assert!((first[0].requests_per_s - 150.0).abs() < 0.1 && first[0].refused == 1);
        assert_eq!(between(&report(5, 5), &report(5, 5), 2.0)[0].burst, None);
    }
}

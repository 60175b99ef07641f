//! What guests of servers had between two looks: data, and the columns of their table.

#![allow(clippy::cast_precision_loss, reason = "rates for people")]

use std::collections::HashMap;

use gantry_runtime::stats::{self, Report};
use serde::Serialize;

use super::columns::{Column, number, rate, words};
use crate::units::round;

/// A guest of one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Guest {
    name: String,
    /// Open at the end of the interval.
    sessions: u64,
    /// Since the beginning.
    requests: u64,
    requests_per_s: f64,
    bytes_per_s: f64,
    /// Requests in a burst, those of other guests among them; `None` where there were none.
    burst: Option<f64>,
    /// In the interval.
    refused: u64,
    broken: u64,
}

/// The guests of one process, in the order of their sockets.
pub(super) fn between(before: &Report, now: &Report, seconds: f64) -> Vec<Guest> {
    let before: HashMap<&str, &stats::Guest> = before.guests.iter().map(|guest| (guest.name.as_str(), guest)).collect();
    let guest = |guest: &stats::Guest| {
        let number = |guest: &stats::Guest, name: &str| guest.numbers.get(name).copied().unwrap_or(0);
        let then = before.get(guest.name.as_str());
        let since = |name: &str| number(guest, name).saturating_sub(then.map_or(0, |then| number(then, name)));
        let rate = |name: &str| if seconds > 0.0 { since(name) as f64 / seconds } else { 0.0 };
        let requests = since("requests");
        Guest {
            name: guest.name.clone(),
            sessions: number(guest, "sessions"),
            requests: number(guest, "requests"),
            requests_per_s: round(rate("requests"), 1),
            bytes_per_s: round(rate("bytes"), 0),
            burst: (requests > 0).then(|| round(since("company") as f64 / requests as f64, 1)),
            refused: since("refused"),
            broken: since("broken"),
        }
    };
    now.guests.iter().map(guest).collect()
}

/// Guests.
pub(super) const GUESTS: &[Column<Guest>] = &[
    words("GUEST", (8, 24), 0, |g| g.name.clone()),
    number("REQ/S", 8, 1, |g| rate(g.requests_per_s)),
    number("MB/S", 7, 2, |g| rate(g.bytes_per_s / 1e6)),
    number("BURST", 6, 4, |g| g.burst.map_or_else(|| "-".to_owned(), rate)),
    number("SESSIONS", 8, 3, |g| g.sessions.to_string()),
    number("REFUSED", 7, 5, |g| g.refused.to_string()),
    number("BROKEN", 6, 6, |g| g.broken.to_string()),
];

#[cfg(test)]
mod tests {
    use super::super::columns::text;
    use super::*;

    fn report(requests: u64, company: u64) -> Report {
        let json = format!(
            r#"{{"processes":[],"rows":[],"guests":[{{"name":"vm1","numbers":
                {{"requests":{requests},"bytes":{},"company":{company},"sessions":2,"refused":1}}}}]}}"#,
            requests * 1000
        );
        Report::from_json(&json).unwrap()
    }

    #[test]
    fn guests_have_rates_of_the_interval_and_sessions_of_its_end() {
        let guests = between(&report(100, 100), &report(300, 900), 2.0);
        assert_eq!(
            text(GUESTS, &guests, None),
            "GUEST  REQ/S  MB/S  BURST  SESSIONS  REFUSED  BROKEN\nvm1      100   0.1    4.0         2        0       0\n"
        );
        let first = between(&Report::default(), &report(300, 900), 2.0);
        assert!((first[0].requests_per_s - 150.0).abs() < 0.1 && first[0].refused == 1);
        assert_eq!(between(&report(5, 5), &report(5, 5), 2.0)[0].burst, None);
    }
}

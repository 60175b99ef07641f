//! Counters by the names that Prometheus wants, in its text format or in OpenMetrics 1.0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gantry_runtime::stats::{Report, Row, Times};

use super::esp::DataPath;

/// How metrics are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0: a counter is named without `_total`, and the end is marked.
    OpenMetrics,
}

impl Format {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What samples are told apart by, beside device, algorithm and operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Labels {
    None,
    /// The name of the program.
    Program,
}

/// The upper ends of the buckets of times, in nanoseconds, and how Prometheus writes them in seconds.
const BUCKETS: [(u64, &str); 12] = [
    (250, "2.5e-07"),
    (1_000, "1e-06"),
    (4_000, "4e-06"),
    (16_000, "1.6e-05"),
    (64_000, "6.4e-05"),
    (250_000, "0.00025"),
    (1_000_000, "0.001"),
    (4_000_000, "0.004"),
    (16_000_000, "0.016"),
    (64_000_000, "0.064"),
    (250_000_000, "0.25"),
    (1_000_000_000, "1"),
];

/// The labels of a sample, written already, and its value.
pub(super) type Samples = BTreeMap<String, u64>;

/// A counter: its name without `_total`, what it counts, and which samples a row has: more labels, and the number.
type Counter = (&'static str, &'static str, fn(&Row) -> Vec<(String, u64)>);

const COUNTERS: [Counter; 6] = [
    (
        "gantry_requests",
        "Requests that were handed to a device; those of the device host were left to the program's own libcrypto.",
        |row| vec![(site(row), row.requests)],
    ),
    ("gantry_request_bytes", "Bytes of data in these requests.", |row| vec![(site(row), row.bytes)]),
    ("gantry_batches", "Batches of two requests or more.", |row| vec![(site(row), row.batches)]),
    ("gantry_batched_requests", "Requests in batches.", |row| vec![(site(row), row.batched)]),
    ("gantry_routed_requests", "Requests by the reason of their route.", |row| {
        row.reasons.iter().map(|(reason, requests)| (labels(&[device(row), ("reason", reason)]), *requests)).collect()
    }),
    ("gantry_events", "What else happened: faults, quarantines, full rings and the like.", |row| {
        let events = row.events.iter().filter(|(event, _)| *event != COPIED);
        events.map(|(event, times)| (labels(&[device(row), ("event", event)]), *times)).collect()
    }),
];

/// Counters of guests: a name without `_total`, what it counts, and what the server calls it.
const OF_GUESTS: [(&str, &str, &str); 6] = [
    ("gantry_guest_connections", "Connections of a guest's front end.", "connections"),
    ("gantry_guest_requests", "Requests of a guest that were taken.", "requests"),
    ("gantry_guest_request_bytes", "Bytes of these requests, read and written.", "bytes"),
    ("gantry_guest_refused_requests", "Requests of a guest that were not answered with OK.", "refused"),
    ("gantry_guest_burst_requests", "Requests in the burst of each request of a guest, summed up.", "company"),
    ("gantry_guest_breaks", "How often a guest's device was found broken.", "broken"),
];

/// The one event that counts bytes.
const COPIED: &str = "copied";

/// All metrics of what programs did, of so many processes that run, and of a data path.
pub(super) fn render(
    totals: &BTreeMap<String, Report>,
    processes: usize,
    path: &DataPath,
    format: Format,
    by: Labels,
) -> String {
    let mut text = String::new();
    for (name, about, of) in COUNTERS {
        counter(&mut text, format, name, about, &sum(totals, by, of));
    }
    let copied = |row: &Row| vec![(labels(&[device(row)]), row.events.get(COPIED).copied().unwrap_or(0))];
    let copied = sum(totals, by, copied);
    counter(&mut text, format, "gantry_copied_bytes", "Bytes that were copied between segments and devices.", &copied);
    for (name, about, number) in OF_GUESTS {
        let samples = of_guests(totals, number);
        // Most machines have none.
        if !samples.is_empty() {
            counter(&mut text, format, name, about, &samples);
        }
    }
    histogram(&mut text, &times(totals, by));
    let processes = Samples::from([(String::new(), processes as u64)]);
    gauge(&mut text, "gantry_processes", "Processes that use Gantry.", &processes);
    path.render(&mut text, format);
    let version = Samples::from([(labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1)]);
    gauge(&mut text, "gantry_build_info", "The release of this exporter.", &version);
    if format == Format::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

/// A number of each guest, whoever serves it.
fn of_guests(totals: &BTreeMap<String, Report>, number: &str) -> Samples {
    let mut samples = Samples::new();
    for guest in totals.values().flat_map(|report| &report.guests) {
        let sum = samples.entry(labels(&[("guest", &guest.name)])).or_default();
        *sum += guest.numbers.get(number).copied().unwrap_or(0);
    }
    samples
}

fn device(row: &Row) -> (&'static str, &str) {
    ("device", row.device.as_deref().unwrap_or("none"))
}

fn site(row: &Row) -> String {
    labels(&[device(row), ("algorithm", &row.algorithm), ("operation", &row.operation)])
}

/// `name="value",...`, each with a comma behind.
pub(super) fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    labels.iter().fold(String::new(), |text, (name, value)| text + name + "=\"" + &escaped(value) + "\",")
}

fn program(by: Labels, program: &str) -> String {
    if by == Labels::Program { labels(&[("program", program)]) } else { String::new() }
}

/// The samples of all rows, those of the same labels together; those that are zero are left out.
fn sum(totals: &BTreeMap<String, Report>, by: Labels, of: impl Fn(&Row) -> Vec<(String, u64)>) -> Samples {
    let mut samples = Samples::new();
    for (name, report) in totals {
        for (labels, number) in report.rows.iter().flat_map(&of).filter(|(_, number)| *number > 0) {
            let sample = samples.entry(program(by, name) + &labels).or_default();
            *sample = sample.saturating_add(number);
        }
    }
    samples
}

pub(super) fn counter(text: &mut String, format: Format, name: &str, about: &str, samples: &Samples) {
    let family = if format == Format::Text { format!("{name}_total") } else { name.to_owned() };
    head(text, &family, about, "counter");
    for (labels, number) in samples {
        let _ = writeln!(text, "{name}_total{} {number}", braced(labels));
    }
}

pub(super) fn gauge(text: &mut String, name: &str, about: &str, samples: &Samples) {
    head(text, name, about, "gauge");
    for (labels, number) in samples {
        let _ = writeln!(text, "{name}{} {number}", braced(labels));
    }
}

fn head(text: &mut String, family: &str, about: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {family} {about}\n# TYPE {family} {kind}");
}

fn braced(labels: &str) -> String {
    let labels = labels.trim_end_matches(',');
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// How long devices took, by site.
fn times(totals: &BTreeMap<String, Report>, by: Labels) -> BTreeMap<String, Times> {
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    for (name, report) in totals {
        for row in &report.rows {
            let Some(of_row) = row.stages.get("invoke") else { continue };
            times.entry(program(by, name) + &site(row)).or_default().add(&of_row.histogram());
        }
    }
    times
}

#[allow(clippy::cast_precision_loss, reason = "seconds")]
fn histogram(text: &mut String, times: &BTreeMap<String, Times>) {
    let name = "gantry_device_duration_seconds";
    head(text, name, "Time in the device, of few requests that stand for all.", "histogram");
    for (labels, times) in times {
        for (end, le) in BUCKETS {
            // A bucket of ours is told by its lower end, and is 6 % wide at most.
            let below = times
                .buckets
                .iter()
                .filter(|(ns, _)| *ns < end)
                .fold(0, |sum: u64, (_, requests)| sum.saturating_add(*requests));
            let _ = writeln!(text, "{name}_bucket{{{labels}le=\"{le}\"}} {below}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", times.requests);
        let _ = writeln!(text, "{name}_sum{} {}", braced(labels), times.total_ns as f64 / 1e9);
        let _ = writeln!(text, "{name}_count{} {}", braced(labels), times.requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_core::stats::Histogram;

    fn row(device: &str, algorithm: &str, requests: u64, bytes: u64) -> Row {
        let json = format!(
            r#"{{"device":{},"class":null,"algorithm":"{algorithm}","operation":"digest","requests":{requests},"bytes":{bytes},
                "batches":0,"batched":0,"reasons":{{"turn":{requests}}},"events":{{"copied":5,"fault":1}},"stages":{{}}}}"#,
            serde_json::to_string(device).unwrap()
        );
        serde_json::from_str(&json).unwrap()
    }

    fn totals() -> BTreeMap<String, Report> {
        let report = |rows| Report { rows, ..Report::default() };
        let mut timed = row("lanes", "sha256", 3, 300);
        let mut histogram = Histogram::default();
        histogram.add(500, 2);
        histogram.add(2_000_000, 1);
        timed.stages.insert("invoke".to_owned(), Times::from(&histogram));
        BTreeMap::from([
            ("one".to_owned(), report(vec![timed])),
            ("two".to_owned(), report(vec![row("lanes", "sha256", 4, 0), row("a\"b\\", "md5", 1, 1)])),
        ])
    }

    #[test]
    fn guests_have_counters_of_their_own_where_there_are_any() {
        let none = DataPath::new(std::path::Path::new("/nonexistent"));
        let mut totals = totals();
        assert!(!render(&totals, 7, &none, Format::Text, Labels::None).contains("guest"));
        for (server, requests) in [("one", 3), ("two", 4)] {
            let guest =
                format!(r#"{{"name":"vm1","numbers":{{"requests":{requests},"bytes":9,"of-a-later-version":1}}}}"#);
            totals.get_mut(server).unwrap().guests.push(serde_json::from_str(&guest).unwrap());
        }
        let text = render(&totals, 7, &none, Format::Text, Labels::None);
        for line in [
            r#"gantry_guest_requests_total{guest="vm1"} 7"#,
            r#"gantry_guest_request_bytes_total{guest="vm1"} 18"#,
            r#"gantry_guest_breaks_total{guest="vm1"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn programs_are_added_up_unless_they_are_told_apart() {
        let none = DataPath::new(std::path::Path::new("/nonexistent"));
        let text = render(&totals(), 7, &none, Format::Text, Labels::None);
        for line in [
            r#"gantry_requests_total{device="lanes",algorithm="sha256",operation="digest"} 7"#,
            r#"gantry_request_bytes_total{device="lanes",algorithm="sha256",operation="digest"} 300"#,
            r#"gantry_requests_total{device="a\"b\\",algorithm="md5",operation="digest"} 1"#,
            r#"gantry_routed_requests_total{device="lanes",reason="turn"} 7"#,
            r#"gantry_events_total{device="lanes",event="fault"} 2"#,
            r#"gantry_copied_bytes_total{device="lanes"} 10"#,
            r#"gantry_device_duration_seconds_bucket{device="lanes",algorithm="sha256",operation="digest",le="2.5e-07"} 0"#,
            r#"gantry_device_duration_seconds_bucket{device="lanes",algorithm="sha256",operation="digest",le="1e-06"} 2"#,
            r#"gantry_device_duration_seconds_bucket{device="lanes",algorithm="sha256",operation="digest",le="+Inf"} 3"#,
            r#"gantry_device_duration_seconds_count{device="lanes",algorithm="sha256",operation="digest"} 3"#,
            r#"gantry_device_duration_seconds_sum{device="lanes",algorithm="sha256",operation="digest"} 0.002001"#,
            "gantry_processes 7",
            "# TYPE gantry_requests_total counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("program=") && !text.contains("EOF") && !text.contains("copied\""));
        let text = render(&totals(), 7, &none, Format::OpenMetrics, Labels::Program);
        for line in [
            r#"gantry_requests_total{program="one",device="lanes",algorithm="sha256",operation="digest"} 3"#,
            r#"gantry_requests_total{program="two",device="lanes",algorithm="sha256",operation="digest"} 4"#,
            "# TYPE gantry_requests counter",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

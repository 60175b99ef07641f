//! Metrics in Prometheus' text format or in OpenMetrics 1.0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gantry_runtime::stats::{Report, Row, Times};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0: a counter's family has no suffix `_total`, and the end is marked.
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

/// Labels of samples in addition to device, algorithm and operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraLabels {
    None,
    Program,
}

/// Upper bounds of the buckets of times in nanoseconds, and their notation in seconds.
const BUCKET_BOUNDS: [(u64, &str); 12] = [
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

/// Values by formatted labels.
pub(super) type Samples = BTreeMap<String, u64>;

/// A counter: its name without `_total`, its help, and a function from a row to samples (labels and value).
type Counter = (&'static str, &'static str, fn(&Row) -> Vec<(String, u64)>);

const COUNTERS: [Counter; 6] = [
    (
        "gantry_requests",
        "Requests handed to a device; those of the device host were left to the program's own libcrypto.",
        |row| vec![(row_labels(row), row.requests)],
    ),
    ("gantry_request_bytes", "Bytes of data in these requests.", |row| vec![(row_labels(row), row.bytes)]),
    ("gantry_batches", "Batches of two requests or more.", |row| vec![(row_labels(row), row.batches)]),
    ("gantry_batched_requests", "Requests in batches.", |row| vec![(row_labels(row), row.batched)]),
    ("gantry_routed_requests", "Requests by the reason of their route.", |row| {
        row.reasons
            .iter()
            .map(|(reason, requests)| (labels(&[device_label(row), ("reason", reason)]), *requests))
            .collect()
    }),
    ("gantry_events", "Other events, such as faults, quarantines and full rings.", |row| {
        let events = row.events.iter().filter(|(event, _)| *event != COPIED);
        events.map(|(event, times)| (labels(&[device_label(row), ("event", event)]), *times)).collect()
    }),
];

/// Counters of guests: name without `_total`, help, and the server's name of the counter.
const GUEST_COUNTERS: [(&str, &str, &str); 6] = [
    ("gantry_guest_connections", "Connections of a guest's front end.", "connections"),
    ("gantry_guest_requests", "Requests of a guest that were taken.", "requests"),
    ("gantry_guest_request_bytes", "Bytes of these requests, read and written.", "bytes"),
    ("gantry_guest_refused_requests", "Requests of a guest that were not answered with OK.", "refused"),
    ("gantry_guest_burst_requests", "Sum of the burst sizes in which each request of a guest arrived.", "burst_sum"),
    ("gantry_guest_breaks", "Times that a guest's device was found broken.", "broken"),
];

/// The one event that counts bytes.
const COPIED: &str = "copied";

/// Formats all metrics: the metrics of programs, the number of running processes, then `data_path`, the metrics of a data path.
pub(super) fn render(
    totals: &BTreeMap<String, Report>,
    processes: usize,
    data_path: &str,
    format: Format,
    extra: ExtraLabels,
) -> String {
    let mut text = String::new();
    for (name, help, of) in COUNTERS {
        write_counter(&mut text, format, name, help, &sum_samples(totals, extra, of));
    }
    let copied = |row: &Row| vec![(labels(&[device_label(row)]), row.events.get(COPIED).copied().unwrap_or(0))];
    let copied = sum_samples(totals, extra, copied);
    write_counter(
        &mut text,
        format,
        "gantry_copied_bytes",
        "Bytes that were copied between segments and devices.",
        &copied,
    );
    for (name, help, server_name) in GUEST_COUNTERS {
        let samples = guest_samples(totals, server_name);
        // Most machines have no guests.
        if !samples.is_empty() {
            write_counter(&mut text, format, name, help, &samples);
        }
    }
    write_histogram(&mut text, &device_times(totals, extra));
    let processes = Samples::from([(String::new(), processes as u64)]);
    write_gauge(&mut text, "gantry_processes", "Processes that use Gantry.", &processes);
    text += data_path;
    let version = Samples::from([(labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1)]);
    write_gauge(&mut text, "gantry_build_info", "The release of this exporter.", &version);
    if format == Format::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

/// Sums the counter named `counter` of each guest over all servers.
fn guest_samples(totals: &BTreeMap<String, Report>, counter: &str) -> Samples {
    let mut samples = Samples::new();
    for guest in totals.values().flat_map(|report| &report.guests) {
        let sum = samples.entry(labels(&[("guest", &guest.name)])).or_default();
        *sum += guest.numbers.get(counter).copied().unwrap_or(0);
    }
    samples
}

fn device_label(row: &Row) -> (&'static str, &str) {
    ("device", row.device.as_deref().unwrap_or("none"))
}

fn row_labels(row: &Row) -> String {
    labels(&[device_label(row), ("algorithm", &row.algorithm), ("operation", &row.operation)])
}

/// Formats labels as `name="value",`, each followed by a comma.
pub(super) fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    labels.iter().fold(String::new(), |text, (name, value)| text + name + "=\"" + &escaped(value) + "\",")
}

fn program_label(extra: ExtraLabels, program: &str) -> String {
    if extra == ExtraLabels::Program { labels(&[("program", program)]) } else { String::new() }
}

/// Sums the samples of all rows by labels; leaves out zeros.
fn sum_samples(
    totals: &BTreeMap<String, Report>,
    extra: ExtraLabels,
    of: impl Fn(&Row) -> Vec<(String, u64)>,
) -> Samples {
    let mut samples = Samples::new();
    for (name, report) in totals {
        for (labels, number) in report.rows.iter().flat_map(&of).filter(|(_, number)| *number > 0) {
            let sample = samples.entry(program_label(extra, name) + &labels).or_default();
            *sample = sample.saturating_add(number);
        }
    }
    samples
}

pub(super) fn write_counter(text: &mut String, format: Format, name: &str, help: &str, samples: &Samples) {
    let family = if format == Format::Text { format!("{name}_total") } else { name.to_owned() };
    write_head(text, &family, help, "counter");
    for (labels, number) in samples {
        let _ = writeln!(text, "{name}_total{} {number}", braced(labels));
    }
}

pub(super) fn write_gauge(text: &mut String, name: &str, help: &str, samples: &Samples) {
    write_head(text, name, help, "gauge");
    for (labels, number) in samples {
        let _ = writeln!(text, "{name}{} {number}", braced(labels));
    }
}

fn write_head(text: &mut String, family: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} {kind}");
}

fn braced(labels: &str) -> String {
    let labels = labels.trim_end_matches(',');
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// Returns the times of devices by labels.
fn device_times(totals: &BTreeMap<String, Report>, extra: ExtraLabels) -> BTreeMap<String, Times> {
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    for (name, report) in totals {
        for row in &report.rows {
            let Some(of_row) = row.stages.get("invoke") else { continue };
            times.entry(program_label(extra, name) + &row_labels(row)).or_default().add(&of_row.histogram());
        }
    }
    times
}

#[allow(clippy::cast_precision_loss, reason = "seconds")]
fn write_histogram(text: &mut String, times: &BTreeMap<String, Times>) {
    let name = "gantry_device_duration_seconds";
    write_head(text, name, "Time in the device, estimated from a sample of the requests.", "histogram");
    for (labels, times) in times {
        for (end, le) in BUCKET_BOUNDS {
            // `ns` is the lower bound of a bucket of `times`, and a bucket is at most 6 % wide.
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
    fn guests_have_their_own_counters_if_there_are_any() {
        let mut totals = totals();
        assert!(!render(&totals, 7, "", Format::Text, ExtraLabels::None).contains("guest"));
        for (server, requests) in [("one", 3), ("two", 4)] {
            let guest =
                format!(r#"{{"name":"vm1","numbers":{{"requests":{requests},"bytes":9,"of-a-later-version":1}}}}"#);
            totals.get_mut(server).unwrap().guests.push(serde_json::from_str(&guest).unwrap());
        }
        let text = render(&totals, 7, "", Format::Text, ExtraLabels::None);
        for line in [
            r#"gantry_guest_requests_total{guest="vm1"} 7"#,
            r#"gantry_guest_request_bytes_total{guest="vm1"} 18"#,
            r#"gantry_guest_breaks_total{guest="vm1"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn programs_are_summed_unless_labelled() {
        let text = render(&totals(), 7, "", Format::Text, ExtraLabels::None);
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
        let text = render(&totals(), 7, "", Format::OpenMetrics, ExtraLabels::Program);
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

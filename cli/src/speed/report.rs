//! Rows of the report as a table, JSON or CSV.

use serde::Serialize;

use super::Group;
use super::load::SubmissionMode;
use super::measure::Measurement;
use super::rounds::{Round, Spread};
use crate::args::Speed;
use crate::machine::Machine;
use crate::output::{Failure, Output, print_message};
use crate::table::{fitting_columns, format_line, omission_note};
use crate::terminal::{self, Colour, paint};
use crate::units::{duration, round};

/// A row of the report, as in the JSON.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: &'static str,
    pub(super) operation: &'static str,
    /// A device, `auto`, or `openssl`.
    pub(super) device: String,
    /// Bytes of data in each request.
    pub(super) bytes: usize,
    /// Requests per call.
    pub(super) batch: usize,
    pub(super) threads: usize,
    /// Requests of all threads.
    pub(super) requests: u64,
    /// Seconds from the first start to the last end.
    pub(super) wall_s: f64,
    /// CPU seconds of the process.
    pub(super) cpu_s: f64,
    /// Millions of bytes per second of wall time, all threads together.
    pub(super) mb_per_s: f64,
    pub(super) requests_per_s: f64,
    /// Median latency; `null` if there are no samples (`openssl`).
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Number of rounds of all threads; 0 for `openssl`.
    pub(super) rounds: usize,
    /// Interquartile range of the rounds' time per request, as a share of the median. `null` with fewer than four rounds.
    pub(super) spread: Option<f64>,
    /// Number of rounds that differ from the median by more than 20 %.
    pub(super) outliers: Option<usize>,
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// True if the threads compute rather than wait for a device.
    #[serde(skip)]
    is_computing: bool,
    /// Speed relative to `openssl`, if `openssl` was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) over_openssl: Option<f64>,
    /// Requests that each thread keeps in flight in its queue; absent for batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_depth: Option<usize>,
}

impl Row {
    /// Returns the CPU seconds per second of a thread. At most as many threads count as there are CPUs. The result is about 1 if the
    /// threads compute, and less if they wait for a device or a CPU.
    fn cpu_share(&self) -> f64 {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from).min(self.threads);
        self.cpu_s / (self.wall_s * cpus as f64).max(f64::MIN_POSITIVE)
    }

    /// Returns the speed relative to another row: by CPU time if both compute, so that other programs on the machine do not count.
    fn relative_speed(&self, other: &Row) -> f64 {
        let by_cpu = |row: &Row| row.requests as f64 / row.cpu_s.max(f64::MIN_POSITIVE);
        if self.is_computing && other.is_computing {
            by_cpu(self) / by_cpu(other)
        } else {
            self.requests_per_s / other.requests_per_s
        }
    }
}

/// Largest share of CPU time lost to other programs that is not reported.
const MAX_STOLEN_SHARE: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
    Csv,
}

/// Output of rows: a table and CSV immediately, JSON at the end.
pub(super) struct Report {
    format: Format,
    threads: usize,
    machine: Machine,
    rows: Vec<Row>,
    /// The columns of [`COLUMNS`] that are shown, with their widths.
    columns: Vec<(&'static Column, usize)>,
    omitted: Vec<&'static str>,
    has_queues: bool,
    has_comparison: bool,
}

struct Column {
    name: &'static str,
    width: usize,
    cell: fn(&Row) -> String,
}

const COLUMNS: [Column; 14] = [
    Column { name: "ALGORITHM", width: 9, cell: |row| row.algorithm.to_owned() },
    Column { name: "OPERATION", width: 9, cell: |row| row.operation.to_owned() },
    Column { name: "DEVICE", width: 6, cell: |row| row.device.clone() },
    Column { name: "BYTES", width: 5, cell: |row| row.bytes.to_string() },
    Column { name: "BATCH", width: 5, cell: |row| row.batch.to_string() },
    Column { name: "QUEUE", width: 5, cell: |row| row.queue_depth.map_or_else(no_value, |depth| depth.to_string()) },
    Column { name: "MB/s", width: 8, cell: |row| format!("{:.1}", row.mb_per_s) },
    Column { name: "REQUESTS/s", width: 10, cell: |row| format!("{:.0}", row.requests_per_s) },
    Column { name: "P50", width: 7, cell: |row| row.p50_ns.map_or_else(no_value, |time| duration(time as f64)) },
    Column { name: "P99", width: 7, cell: |row| row.p99_ns.map_or_else(no_value, |time| duration(time as f64)) },
    Column { name: "CPU/REQ", width: 7, cell: |row| duration(row.cpu_s / row.requests.max(1) as f64 * 1e9) },
    Column { name: "CPU", width: 5, cell: cpu_cell },
    Column { name: "SPREAD", width: 9, cell: spread_cell },
    Column { name: "/OPENSSL", width: 8, cell: ratio_cell },
];
/// The index of the first column of numbers.
const FIRST_NUMBER_COLUMN: usize = 3;
/// Columns that a narrow terminal omits, in this order. Before them, it omits REQUESTS/s if throughput in bytes is meaningful for at least
/// one group, or else MB/s.
const OPTIONAL_COLUMNS: [&str; 6] = ["P99", "P50", "CPU", "OPERATION", "SPREAD", "BATCH"];

fn no_value() -> String {
    "-".to_owned()
}

fn cpu_cell(row: &Row) -> String {
    let text = format!("{:.0} %", 100.0 * row.cpu_share());
    if row.is_computing && row.cpu_share() < 1.0 - MAX_STOLEN_SHARE { paint(&text, Colour::Yellow) } else { text }
}

fn spread_cell(row: &Row) -> String {
    let Some(spread) = row.spread else { return no_value() };
    let outliers =
        row.outliers.filter(|outliers| *outliers > 0).map_or(String::new(), |outliers| format!(" +{outliers}"));
    format!("{:.*} %{outliers}", usize::from(spread < 0.0995), 100.0 * spread)
}

fn ratio_cell(row: &Row) -> String {
    let Some(ratio) = row.over_openssl else { return String::new() };
    let text = format!("{ratio:.2}x");
    match ratio {
        ..0.95 => paint(&text, Colour::Red),
        1.05.. => paint(&text, Colour::Green),
        _ => text,
    }
}

impl Report {
    pub(super) fn new(args: &Speed, plan: &[Group], machine: Machine) -> Self {
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        let (has_queues, has_comparison) = (!args.queue_depth.is_empty(), args.compare.is_some());
        let is_shown =
            |column: &&Column| (column.name != "QUEUE" || has_queues) && (column.name != "/OPENSSL" || has_comparison);
        let all: Vec<&'static Column> = COLUMNS.iter().filter(is_shown).collect();
        let points = || plan.iter().flat_map(|group| &group.points);
        let widths: Vec<usize> = (all.iter())
            .map(|column| {
                match column.name {
                    "ALGORITHM" => plan.iter().map(|group| group.algorithm.name().len()).max(),
                    "DEVICE" => points()
                        .map(|point| point.device.len())
                        .max()
                        // `openssl` has 7 letters.
                        .map(|width| if has_comparison { width.max(7) } else { width }),
                    "BYTES" => plan.iter().map(|group| group.bytes.to_string().len()).max(),
                    _ => None,
                }
                .unwrap_or(0)
                .max(column.width)
            })
            .collect();
        let bulk = plan.iter().any(Group::is_bulk);
        let optional = [if bulk { "REQUESTS/s" } else { "MB/s" }].into_iter().chain(OPTIONAL_COLUMNS);
        let optional: Vec<usize> =
            optional.filter_map(|name| all.iter().position(|column| column.name == name)).collect();
        let max_width = terminal::width().filter(|_| format == Format::Table).unwrap_or(usize::MAX);
        let kept = fitting_columns(&widths, &optional, max_width);
        let columns = kept.iter().map(|&index| (all[index], widths[index])).collect();
        let omitted = all.iter().enumerate().filter(|(index, _)| !kept.contains(index)).map(|(_, column)| column.name);
        let threads = args.threads;
        Self {
            format,
            threads,
            machine,
            rows: Vec::new(),
            columns,
            omitted: omitted.collect(),
            has_queues,
            has_comparison,
        }
    }

    pub(super) fn row(&self, group: &Group, device: &str, mode: SubmissionMode, measurement: &Measurement) -> Row {
        let requests_per_s = measurement.requests as f64 / measurement.wall_s.max(f64::MIN_POSITIVE);
        let spread = Spread::of(&measurement.rounds);
        Row {
            algorithm: group.algorithm.name(),
            operation: group.operation.name(),
            device: device.to_owned(),
            bytes: group.bytes,
            batch: mode.batch(),
            threads: self.threads,
            requests: measurement.requests,
            wall_s: round(measurement.wall_s, 6),
            cpu_s: round(measurement.cpu_s, 6),
            mb_per_s: round(requests_per_s * group.bytes as f64 / 1e6, 3),
            requests_per_s: round(requests_per_s, 1),
            p50_ns: measurement.percentile(0.5),
            p99_ns: measurement.percentile(0.99),
            rounds: measurement.rounds.len(),
            spread: spread.map(|spread| round(spread.relative, 4)),
            outliers: spread.map(|spread| spread.outliers),
            machine: self.machine.clone(),
            // `openssl` always computes, even with a small share of the CPU.
            is_computing: device == "openssl" || Round::is_computing(&measurement.rounds),
            over_openssl: None,
            queue_depth: if let SubmissionMode::Queue(depth) = mode { Some(depth) } else { None },
        }
    }

    pub(super) fn write_header(&self, output: &mut Output) -> Result<(), Failure> {
        match self.format {
            Format::Json => Ok(()),
            Format::Csv => {
                let names = "algorithm,operation,device,bytes,batch,threads,requests,wall_s,cpu_s,mb_per_s,requests_per_s,p50_ns,\
                             p99_ns,rounds,spread,outliers,cpu_model,cpu_level,gantry_version,date";
                let ratio = if self.has_comparison { ",over_openssl" } else { "" };
                output.write(&format!("{names}{ratio}{}\n", if self.has_queues { ",queue_depth" } else { "" }))
            }
            Format::Table => output.write(&self.table_line(|column| column.name.to_owned())),
        }
    }

    fn table_line(&self, cell: impl Fn(&Column) -> String) -> String {
        let cells: Vec<String> = self.columns.iter().map(|(column, _)| cell(column)).collect();
        let widths: Vec<usize> = self.columns.iter().map(|(_, width)| *width).collect();
        let is_number = |name| {
            COLUMNS.iter().position(|column| column.name == name).is_some_and(|index| index >= FIRST_NUMBER_COLUMN)
        };
        let right_aligned: Vec<usize> =
            (0..cells.len()).filter(|index| is_number(self.columns[*index].0.name)).collect();
        format_line(&cells, &widths, &right_aligned)
    }

    /// Adds a row, and compares it with the row of `openssl`, if there is one.
    pub(super) fn add(&mut self, mut row: Row, openssl: Option<&Row>, output: &mut Output) -> Result<(), Failure> {
        row.over_openssl = openssl.map(|openssl| round(row.relative_speed(openssl), 4));
        match self.format {
            Format::Json => {}
            Format::Csv => output.write(&self.csv_line(&row))?,
            Format::Table => output.write(&self.table_line(|column| (column.cell)(&row)))?,
        }
        self.rows.push(row);
        Ok(())
    }

    /// Formats the fields that JSON has. A field is empty if JSON has `null` or no such field.
    fn csv_line(&self, row: &Row) -> String {
        let text = |number: Option<String>| number.unwrap_or_default();
        let mut fields = vec![
            row.algorithm.to_owned(),
            row.operation.to_owned(),
            row.device.clone(),
            row.bytes.to_string(),
            row.batch.to_string(),
            row.threads.to_string(),
            row.requests.to_string(),
            row.wall_s.to_string(),
            row.cpu_s.to_string(),
            row.mb_per_s.to_string(),
            row.requests_per_s.to_string(),
            text(row.p50_ns.map(|time| time.to_string())),
            text(row.p99_ns.map(|time| time.to_string())),
            row.rounds.to_string(),
            text(row.spread.map(|spread| spread.to_string())),
            text(row.outliers.map(|outliers| outliers.to_string())),
            quote_csv(&row.machine.cpu_model),
            row.machine.cpu_level.clone(),
            row.machine.gantry_version.clone(),
            row.machine.date.clone(),
        ];
        fields.extend(self.has_comparison.then(|| text(row.over_openssl.map(|ratio| ratio.to_string()))));
        fields.extend(self.has_queues.then(|| text(row.queue_depth.map(|depth| depth.to_string()))));
        fields.join(",") + "\n"
    }

    pub(super) fn finish(self, output: &mut Output) -> Result<(Vec<Row>, Machine), Failure> {
        match self.format {
            Format::Json => output.json(&self.rows)?,
            Format::Csv => {}
            Format::Table => output.write(&self.footer())?,
        }
        let computing = self.rows.iter().filter(|row| row.is_computing);
        let losses: Vec<f64> = computing.map(|row| (1.0 - row.cpu_share()).max(0.0)).collect();
        let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        if mean > MAX_STOLEN_SHARE {
            print_message(&format!(
                "other programs had {:.0} % of the CPU time meanwhile: MB/s and requests/s are too low by that share, CPU/REQ is not affected",
                100.0 * mean
            ));
        }
        Ok((self.rows, self.machine))
    }

    fn footer(&self) -> String {
        let [cpu, gantry] = self.machine.lines();
        let threads = if self.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", self.threads) };
        format!("{}{threads} on {cpu}\n{gantry}\n", omission_note(self.omitted.iter().copied()))
    }
}

/// Quotes a field of CSV (RFC 4180).
fn quote_csv(text: &str) -> String {
    let plain = !text.contains([',', '"', '\n', '\r']);
    if plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(device: &str, requests: u64, wall: f64, cpu: f64) -> Row {
        Row {
            algorithm: "sha256",
            operation: "digest",
            device: device.to_owned(),
            bytes: 64,
            batch: 1,
            threads: 1,
            requests,
            wall_s: wall,
            cpu_s: cpu,
            mb_per_s: 0.0,
            requests_per_s: requests as f64 / wall,
            p50_ns: None,
            p99_ns: None,
            rounds: 0,
            spread: None,
            outliers: None,
            machine: Machine::example(),
            is_computing: device != "card",
            over_openssl: None,
            queue_depth: None,
        }
    }

    #[test]
    fn cpu_time_of_other_programs_does_not_count() {
        // `software` had half of a CPU, and `openssl` a whole one.
        let (device, openssl) = (row("software", 1000, 1.0, 0.5), row("openssl", 1000, 1.0, 1.0));
        assert!((device.relative_speed(&openssl) - 2.0).abs() < 1e-9);
        assert_eq!((cpu_cell(&device), cpu_cell(&openssl)), ("50 %".to_owned(), "100 %".to_owned()));
        // The thread of a device outside the CPU waits.
        let device = row("card", 3000, 1.0, 0.01);
        assert!((device.relative_speed(&openssl) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn fields_of_csv_may_hold_commas() {
        assert_eq!(quote_csv("AMD EPYC"), "AMD EPYC");
        assert_eq!(quote_csv("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}

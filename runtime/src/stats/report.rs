//! Counters as plain data: reports, their sums, and their JSON.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io;

use gantry_core::route::Reason;
use gantry_core::stats::{Event, Histogram, Snapshot, SnapshotRow, Stage};
use serde::{Deserialize, Serialize};

/// Maximum rows and guests of a report. Real programs have far fewer, but a page may claim any number.
pub(super) const MAX_ROWS: usize = 4096;
/// Maximum reasons, events and stages of a row, and numbers of a guest.
pub(super) const MAX_NAMES: usize = 128;

/// The counters of one or several processes. Names are text as in tables and JSON, so that reports of other versions can be read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The processes.
    pub processes: Vec<Process>,
    /// A row for each device, algorithm and operation.
    pub rows: Vec<Row>,
    /// The guests that the processes serve, as `gantry serve` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
}

/// Device, algorithm and operation.
pub type Site<'r> = (Option<&'r str>, &'r str, &'r str);

/// The counters of a server's guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// The name of its socket.
    pub name: String,
    /// The guest's numbers, by the names that the server gave them.
    pub numbers: BTreeMap<String, u64>,
}

/// A process that has published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// The PID.
    pub pid: u32,
    /// The name of the program.
    pub program: String,
    /// The time at which the process began to publish, in seconds since 1970.
    pub started: u64,
    /// The time at which the process last published, in seconds since 1970.
    pub written: u64,
}

/// The counters of one device, algorithm and operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The device; `null` for requests that reached no device.
    pub device: Option<String>,
    /// The class of the device.
    pub class: Option<String>,
    /// The algorithm.
    pub algorithm: String,
    /// The operation.
    pub operation: String,
    /// Requests handed to the device.
    pub requests: u64,
    /// Total length of the requests' data in bytes.
    pub bytes: u64,
    /// Batches of two or more requests.
    pub batches: u64,
    /// Requests in these batches.
    pub batched: u64,
    /// Requests by the reason of their route.
    pub reasons: BTreeMap<String, u64>,
    /// Counts of other events.
    pub events: BTreeMap<String, u64>,
    /// Times by the stage of a request.
    pub stages: BTreeMap<String, Times>,
}

/// A [`Histogram`]. Not every request is timed: a timed request stands for several, and `requests` counts all of these.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Times {
    pub requests: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub total_ns: u64,
    /// The shortest time of each bucket in nanoseconds, and the number of requests in the bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl Report {
    /// Makes a report from a snapshot of a process.
    pub fn from_snapshot(snapshot: &Snapshot, process: Process) -> Self {
        let rows = snapshot.rows.iter().map(Row::from_snapshot_row).collect();
        Self { processes: vec![process], rows, guests: Vec::new() }
    }

    /// Adds another report. Leaves out sites and guests for which there is no room.
    pub fn merge(&mut self, other: Report) {
        self.merge_within(other, MAX_ROWS.saturating_sub(self.rows.len() + self.guests.len()));
    }

    /// Adds another report, with room for `room` more rows and guests together.
    pub(super) fn merge_within(&mut self, other: Report, mut room: usize) {
        self.processes.extend(other.processes);
        merge(&mut self.rows, other.rows, &mut room);
        merge(&mut self.guests, other.guests, &mut room);
    }

    /// Returns the rows by site.
    pub fn by_site(&self) -> HashMap<Site<'_>, &Row> {
        self.rows.iter().map(|row| (row.site(), row)).collect()
    }

    /// Formats the report as JSON, in one line.
    pub fn to_json(&self) -> String {
        // Cannot fail: there are only strings, numbers and maps with string keys.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a report from JSON.
    ///
    /// # Errors
    /// The text is not a report.
    pub fn from_json(text: &str) -> io::Result<Self> {
        serde_json::from_str(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl Row {
    fn from_snapshot_row(row: &SnapshotRow) -> Self {
        let (device, class) = row.device.clone().map(|(name, class)| (name, class.name().to_owned())).unzip();
        let counted = |(code, count): (&str, u64)| (count > 0).then(|| (code.to_owned(), count));
        let reasons = Reason::ALL.iter().map(|reason| (reason.code(), row.requests_with_reason(*reason)));
        let events = Event::ALL.iter().map(|event| (event.code(), row.events(*event)));
        let stages = Stage::ALL.iter().map(|stage| (stage.code().to_owned(), Times::from(row.stage(*stage))));
        Self {
            device,
            class,
            algorithm: row.algorithm.name().to_owned(),
            operation: row.operation.name().to_owned(),
            requests: row.requests(),
            bytes: row.bytes,
            batches: row.batches,
            batched: row.batched,
            reasons: reasons.filter_map(counted).collect(),
            events: events.filter_map(counted).collect(),
            stages: stages.filter(|(_, times)| times.requests > 0).collect(),
        }
    }

    /// Creates a row with all numbers 0.
    pub(super) fn new(device: Option<String>, class: Option<String>, algorithm: String, operation: String) -> Self {
        let (reasons, events, stages) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            device,
            class,
            algorithm,
            operation,
            requests: 0,
            bytes: 0,
            batches: 0,
            batched: 0,
            reasons,
            events,
            stages,
        }
    }

    /// Adds `number` to the column of this name, in the format of [`Column`](gantry_core::stats::Column). Ignores other names.
    pub(super) fn add_count(&mut self, column: &str, number: u64) {
        let sum = match column.split_once(':') {
            None if column == "bytes" => &mut self.bytes,
            None if column == "batches" => &mut self.batches,
            None if column == "batched" => &mut self.batched,
            Some(("requests", reason)) => {
                add_number(&mut self.reasons, reason, number);
                &mut self.requests
            }
            Some(("event", event)) => return add_number(&mut self.events, event, number),
            _ => return,
        };
        *sum = sum.saturating_add(number);
    }

    /// Adds the times of a stage.
    pub(super) fn add_times(&mut self, stage: &str, times: &Histogram) {
        if times.requests() > 0
            && let Some(sum) = entry_within_limit(&mut self.stages, stage)
        {
            sum.add(times);
        }
    }

    /// Returns the device, algorithm and operation, which identify the row in a report.
    pub fn site(&self) -> Site<'_> {
        (self.device.as_deref(), &self.algorithm, &self.operation)
    }
}

/// Numbers with a name.
trait Named {
    type Name<'n>: Hash + Eq
    where
        Self: 'n;

    fn name(&self) -> Self::Name<'_>;

    fn add(&mut self, other: &Self);
}

impl Named for Row {
    type Name<'n> = Site<'n>;

    fn name(&self) -> Site<'_> {
        self.site()
    }

    fn add(&mut self, other: &Self) {
        let numbers = [
            (&mut self.requests, other.requests),
            (&mut self.bytes, other.bytes),
            (&mut self.batches, other.batches),
            (&mut self.batched, other.batched),
        ];
        for (sum, number) in numbers {
            *sum = sum.saturating_add(number);
        }
        add_numbers(&mut self.reasons, &other.reasons);
        add_numbers(&mut self.events, &other.events);
        for (stage, times) in &other.stages {
            self.add_times(stage, &times.histogram());
        }
    }
}

impl Named for Guest {
    type Name<'n> = &'n str;

    fn name(&self) -> &str {
        &self.name
    }

    fn add(&mut self, other: &Self) {
        add_numbers(&mut self.numbers, &other.numbers);
    }
}

/// Adds the numbers of each of `others` to the entry with the same name, or appends it if there is none and `room` is not used up.
fn merge<T: Named>(all: &mut Vec<T>, others: Vec<T>, room: &mut usize) {
    let indexes: Vec<Option<usize>> = {
        let by_name: HashMap<_, _> = all.iter().enumerate().map(|(index, entry)| (entry.name(), index)).collect();
        others.iter().map(|other| by_name.get(&other.name()).copied()).collect()
    };
    for (other, index) in others.into_iter().zip(indexes) {
        match index {
            Some(index) => all[index].add(&other),
            None if *room > 0 => {
                *room -= 1;
                all.push(other);
            }
            None => {}
        }
    }
}

/// Adds numbers by name.
fn add_numbers(sums: &mut BTreeMap<String, u64>, numbers: &BTreeMap<String, u64>) {
    for (name, number) in numbers {
        add_number(sums, name, *number);
    }
}

fn add_number(sums: &mut BTreeMap<String, u64>, name: &str, number: u64) {
    if let Some(sum) = entry_within_limit(sums, name) {
        *sum = sum.saturating_add(number);
    }
}

/// Returns the entry with this name, created if needed; `None` if there is no room.
fn entry_within_limit<'e, T: Default>(all: &'e mut BTreeMap<String, T>, name: &str) -> Option<&'e mut T> {
    if all.len() < MAX_NAMES && !all.contains_key(name) {
        all.insert(name.to_owned(), T::default());
    }
    all.get_mut(name)
}

impl Times {
    /// Adds a histogram.
    pub fn add(&mut self, times: &Histogram) {
        let mut sum = self.histogram();
        sum.merge(times);
        *self = Times::from(&sum);
    }

    /// Returns the histogram.
    pub fn histogram(&self) -> Histogram {
        Histogram::from_parts(self.buckets.iter().copied(), self.total_ns, self.max_ns)
    }
}

impl From<&Histogram> for Times {
    fn from(histogram: &Histogram) -> Self {
        Self {
            requests: histogram.requests(),
            mean_ns: histogram.mean_ns(),
            p50_ns: histogram.quantile(500),
            p90_ns: histogram.quantile(900),
            p99_ns: histogram.quantile(990),
            p999_ns: histogram.quantile(999),
            max_ns: histogram.max_ns(),
            total_ns: histogram.total_ns(),
            buckets: histogram.buckets().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{concat_parts, measure};

    use super::*;

    fn row(site: &str, more: &str) -> String {
        format!(
            r#"{{"device":null,"class":null,"algorithm":"{site}","operation":"","requests":1,"bytes":0,"batches":0,"batched":0,{more}}},"#
        )
    }

    fn report(rows: &str, guests: &str) -> String {
        format!(r#"{{"processes":[],"rows":[{}],"guests":[{guests}]}}"#, rows.trim_end_matches(','))
    }

    #[test]
    fn reading_a_file_takes_bounded_memory() {
        let numbers = concat_parts(5000, |number| format!(r#""{number}":0,"#));
        let numbers = numbers.trim_end_matches(',');
        let buckets = vec!["[0,0]"; 50_000].join(",");
        let times = format!(
            r#"{{"requests":0,"mean_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0,"max_ns":0,"total_ns":0,"buckets":[{buckets}]}}"#
        );
        let none = r#""reasons":{},"events":{},"stages":{}"#;
        for (bomb, text) in [
            ("rows", report(&concat_parts(5000, |site| row(&site.to_string(), none)), "")),
            ("reasons", report(&row("", &format!(r#""reasons":{{{numbers}}},"events":{{}},"stages":{{}}"#)), "")),
            ("buckets", report(&row("", &format!(r#""reasons":{{}},"events":{{}},"stages":{{"a":{times}}}"#)), "")),
            ("guests", report("", &format!(r#"{{"name":"","numbers":{{{numbers}}}}}"#))),
        ] {
            let (read, taken) = measure(|| Report::from_json(&text).map(|_| ()));
            assert!(read.is_ok(), "{bomb}");
            assert!(taken.peak_bytes <= 16 * text.len(), "{bomb}: {} bytes for {}", taken.peak_bytes, text.len());
        }
    }

    #[test]
    fn sums_are_bounded() {
        let of = |first: usize| {
            let rows =
                concat_parts(3000, |site| row(&(first + site).to_string(), r#""reasons":{},"events":{},"stages":{}"#));
            Report::from_json(&report(&rows, "")).unwrap()
        };
        let mut sum = of(0);
        sum.merge(of(0));
        assert_eq!((sum.rows.len(), sum.rows[2999].requests), (3000, 2));
        sum.merge(of(2000));
        sum.merge(of(2000));
        assert_eq!((sum.rows.len(), sum.rows[2999].requests), (MAX_ROWS, 4));
        let mut names = BTreeMap::new();
        (0..1000).for_each(|name| add_number(&mut names, &name.to_string(), 1));
        assert_eq!(names.len(), MAX_NAMES);
    }
}

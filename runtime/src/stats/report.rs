use std::collections::BTreeMap;
use std::io;

use gantry::route::Reason;
use gantry::stats::{Event, Histogram, Numbers, Snapshot, Stage};
use serde::{Deserialize, Serialize};

/// What one process has counted, or several together. Names are those of tables and JSON, so that a report of another version can be
/// read too.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Whose numbers these are.
    pub processes: Vec<Process>,
    /// One for each device, algorithm and operation.
    pub rows: Vec<Row>,
    /// The guests that they serve, as `gantry serve` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
}

/// What a guest has had of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Guest {
    /// The name of its socket.
    pub name: String,
    /// By what the server calls them.
    pub numbers: BTreeMap<String, u64>,
}

/// A process that has published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// When it began to publish, in seconds since 1970.
    pub started: u64,
    /// When it last did.
    pub written: u64,
}

/// What was counted of one device, one algorithm, one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The device; `null` for requests that reached none.
    pub device: Option<String>,
    /// Its class.
    pub class: Option<String>,
    /// The algorithm.
    pub algorithm: String,
    /// One of its operations.
    pub operation: String,
    /// Requests that were handed to the device.
    pub requests: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Batches of two or more.
    pub batches: u64,
    /// Requests in these.
    pub batched: u64,
    /// The requests by the reason of their route.
    pub reasons: BTreeMap<String, u64>,
    /// What else happened, and how often.
    pub events: BTreeMap<String, u64>,
    /// The times of the stages of a request.
    pub stages: BTreeMap<String, Times>,
}

/// A [`Histogram`]. Of a request that was timed, `requests` counts all for which it stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Times {
    pub requests: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub total_ns: u64,
    /// The shortest time of each bucket, and the requests in it.
    pub buckets: Vec<(u64, u64)>,
}

impl Report {
    /// What a process says.
    pub fn of(snapshot: &Snapshot, process: Process) -> Self {
        let rows = snapshot.rows.iter().map(Row::of).collect();
        Self { processes: vec![process], rows, guests: Vec::new() }
    }

    /// Adds what other processes say.
    pub fn merge(&mut self, other: Report) {
        self.processes.extend(other.processes);
        for row in other.rows {
            match self.rows.iter_mut().find(|mine| mine.site() == row.site()) {
                Some(mine) => mine.merge(&row),
                None => self.rows.push(row),
            }
        }
        for guest in other.guests {
            match self.guests.iter_mut().find(|mine| mine.name == guest.name) {
                Some(mine) => add(&mut mine.numbers, &guest.numbers),
                None => self.guests.push(guest),
            }
        }
    }

    /// As JSON, in one line.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with strings for keys: nothing that JSON could not say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From JSON.
    ///
    /// # Errors
    /// The text is no report.
    pub fn from_json(text: &str) -> io::Result<Self> {
        serde_json::from_str(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl Row {
    fn of(numbers: &Numbers) -> Self {
        let (device, class) = numbers.device.clone().map(|(name, class)| (name, class.name().to_owned())).unzip();
        let counted = |(code, count): (&str, u64)| (count > 0).then(|| (code.to_owned(), count));
        let reasons = Reason::ALL.iter().map(|reason| (reason.code(), numbers.reason(*reason)));
        let events = Event::ALL.iter().map(|event| (event.code(), numbers.events(*event)));
        let stages = Stage::ALL.iter().map(|stage| (stage.code().to_owned(), Times::from(numbers.stage(*stage))));
        Self {
            device,
            class,
            algorithm: numbers.algorithm.name().to_owned(),
            operation: numbers.operation.name().to_owned(),
            requests: numbers.requests(),
            bytes: numbers.bytes,
            batches: numbers.batches,
            batched: numbers.batched,
            reasons: reasons.filter_map(counted).collect(),
            events: events.filter_map(counted).collect(),
            stages: stages.filter(|(_, times)| times.requests > 0).collect(),
        }
    }

    /// Without any numbers yet.
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

    /// Adds to the column of this name, as [`Column`](gantry::stats::Column) writes it; other names mean nothing here.
    pub(super) fn count(&mut self, column: &str, number: u64) {
        let sum = match column.split_once(':') {
            None if column == "bytes" => &mut self.bytes,
            None if column == "batches" => &mut self.batches,
            None if column == "batched" => &mut self.batched,
            Some(("requests", reason)) => {
                self.requests = self.requests.saturating_add(number);
                self.reasons.entry(reason.to_owned()).or_default()
            }
            Some(("event", event)) => self.events.entry(event.to_owned()).or_default(),
            _ => return,
        };
        *sum = sum.saturating_add(number);
    }

    /// Adds the times of a stage.
    pub(super) fn time(&mut self, stage: String, times: &Histogram) {
        if times.requests() > 0 {
            self.stages.entry(stage).or_default().add(times);
        }
    }

    fn site(&self) -> (&Option<String>, &str, &str) {
        (&self.device, &self.algorithm, &self.operation)
    }

    fn merge(&mut self, other: &Row) {
        let numbers = [
            (&mut self.requests, other.requests),
            (&mut self.bytes, other.bytes),
            (&mut self.batches, other.batches),
            (&mut self.batched, other.batched),
        ];
        for (sum, number) in numbers {
            *sum = sum.saturating_add(number);
        }
        add(&mut self.reasons, &other.reasons);
        add(&mut self.events, &other.events);
        for (stage, times) in &other.stages {
            self.time(stage.clone(), &times.histogram());
        }
    }
}

/// Adds numbers by their names.
fn add(sums: &mut BTreeMap<String, u64>, numbers: &BTreeMap<String, u64>) {
    for (name, number) in numbers {
        let sum = sums.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*number);
    }
}

impl Times {
    /// Adds other times.
    pub fn add(&mut self, times: &Histogram) {
        let mut sum = self.histogram();
        sum.merge(times);
        *self = Times::from(&sum);
    }

    /// The histogram that it was made from.
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

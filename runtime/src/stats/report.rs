use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io;

use gantry_core::route::Reason;
use gantry_core::stats::{Event, Histogram, Numbers, Snapshot, Stage};
use serde::{Deserialize, Serialize};

/// Most rows and guests of a report. No program has nearly as many, and anybody may write a page that says so.
pub(super) const MOST_ROWS: usize = 4096;
/// Most reasons, events and stages of a row, and most numbers of a guest.
pub(super) const MOST_NAMES: usize = 128;

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

/// Device, algorithm and operation.
pub type Site<'r> = (Option<&'r str>, &'r str, &'r str);

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

    /// Adds what other processes say. Sites and guests that there is no room for are left out.
    pub fn merge(&mut self, other: Report) {
        self.merge_within(other, MOST_ROWS.saturating_sub(self.rows.len() + self.guests.len()));
    }

    /// The same, with room for so many more of these together.
    pub(super) fn merge_within(&mut self, other: Report, mut room: usize) {
        self.processes.extend(other.processes);
        merge(&mut self.rows, other.rows, &mut room);
        merge(&mut self.guests, other.guests, &mut room);
    }

    /// The rows by their sites: device, algorithm, operation.
    pub fn by_site(&self) -> HashMap<Site<'_>, &Row> {
        self.rows.iter().map(|row| (row.site(), row)).collect()
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

    /// Adds to the column of this name, as [`Column`](gantry_core::stats::Column) writes it; other names mean nothing here.
    pub(super) fn count(&mut self, column: &str, number: u64) {
        let sum = match column.split_once(':') {
            None if column == "bytes" => &mut self.bytes,
            None if column == "batches" => &mut self.batches,
            None if column == "batched" => &mut self.batched,
            Some(("requests", reason)) => {
                add_one(&mut self.reasons, reason, number);
                &mut self.requests
            }
            Some(("event", event)) => return add_one(&mut self.events, event, number),
            _ => return,
        };
        *sum = sum.saturating_add(number);
    }

    /// Adds the times of a stage.
    pub(super) fn time(&mut self, stage: &str, times: &Histogram) {
        if times.requests() > 0
            && let Some(sum) = entry(&mut self.stages, stage)
        {
            sum.add(times);
        }
    }

    /// What no other row of a report is about.
    pub fn site(&self) -> Site<'_> {
        (self.device.as_deref(), &self.algorithm, &self.operation)
    }
}

/// Numbers that have a name.
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
        add(&mut self.reasons, &other.reasons);
        add(&mut self.events, &other.events);
        for (stage, times) in &other.stages {
            self.time(stage, &times.histogram());
        }
    }
}

impl Named for Guest {
    type Name<'n> = &'n str;

    fn name(&self) -> &str {
        &self.name
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.numbers, &other.numbers);
    }
}

/// Adds each of `others` to the one of its name, or behind all while there is room.
fn merge<T: Named>(all: &mut Vec<T>, others: Vec<T>, room: &mut usize) {
    let places: Vec<Option<usize>> = {
        let known: HashMap<_, _> = all.iter().enumerate().map(|(place, one)| (one.name(), place)).collect();
        others.iter().map(|other| known.get(&other.name()).copied()).collect()
    };
    for (other, place) in others.into_iter().zip(places) {
        match place {
            Some(place) => all[place].add(&other),
            None if *room > 0 => {
                *room -= 1;
                all.push(other);
            }
            None => {}
        }
    }
}

/// Adds numbers by their names.
fn add(sums: &mut BTreeMap<String, u64>, numbers: &BTreeMap<String, u64>) {
    for (name, number) in numbers {
        add_one(sums, name, *number);
    }
}

fn add_one(sums: &mut BTreeMap<String, u64>, name: &str, number: u64) {
    if let Some(sum) = entry(sums, name) {
        *sum = sum.saturating_add(number);
    }
}

/// What has a name; `None` where there is no room for one more.
fn entry<'e, T: Default>(all: &'e mut BTreeMap<String, T>, name: &str) -> Option<&'e mut T> {
    if all.len() < MOST_NAMES && !all.contains_key(name) {
        all.insert(name.to_owned(), T::default());
    }
    all.get_mut(name)
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

#[cfg(test)]
mod tests {
    use gantry_lab::memory::{many, taken};

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
    fn a_file_takes_no_more_memory_than_some_times_its_bytes() {
        let numbers = many(5000, |number| format!(r#""{number}":0,"#));
        let numbers = numbers.trim_end_matches(',');
        let buckets = vec!["[0,0]"; 50_000].join(",");
        let times = format!(
            r#"{{"requests":0,"mean_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0,"max_ns":0,"total_ns":0,"buckets":[{buckets}]}}"#
        );
        let none = r#""reasons":{},"events":{},"stages":{}"#;
        for (bomb, text) in [
            ("rows", report(&many(5000, |site| row(&site.to_string(), none)), "")),
            ("reasons", report(&row("", &format!(r#""reasons":{{{numbers}}},"events":{{}},"stages":{{}}"#)), "")),
            ("buckets", report(&row("", &format!(r#""reasons":{{}},"events":{{}},"stages":{{"a":{times}}}"#)), "")),
            ("guests", report("", &format!(r#"{{"name":"","numbers":{{{numbers}}}}}"#))),
        ] {
            let (read, taken) = taken(|| Report::from_json(&text).map(|_| ()));
            assert!(read.is_ok(), "{bomb}");
            assert!(taken.bytes <= 16 * text.len(), "{bomb}: {} bytes for {}", taken.bytes, text.len());
        }
    }

    #[test]
    fn a_sum_has_an_end() {
        let of = |first: usize| {
            let rows = many(3000, |site| row(&(first + site).to_string(), r#""reasons":{},"events":{},"stages":{}"#));
            Report::from_json(&report(&rows, "")).unwrap()
        };
        let mut sum = of(0);
        sum.merge(of(0));
        assert_eq!((sum.rows.len(), sum.rows[2999].requests), (3000, 2));
        sum.merge(of(2000));
        sum.merge(of(2000));
        assert_eq!((sum.rows.len(), sum.rows[2999].requests), (MOST_ROWS, 4));
        let mut names = BTreeMap::new();
        (0..1000).for_each(|name| add_one(&mut names, &name.to_string(), 1));
        assert_eq!(names.len(), MOST_NAMES);
    }
}

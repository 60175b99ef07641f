//! Activity of processes between two samples: rates, shares, times and events.

#![allow(clippy::cast_precision_loss, reason = "rates for people")]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gantry_core::stats::{Event, Histogram, Stage};
use gantry_runtime::stats::{Report, Row, Site, Times, Watcher};
use serde::Serialize;

use super::guests::{self, Guest};
use crate::units::{self, round};

/// The device name for requests that the OpenSSL provider left to the program's own libcrypto.
const HOST: &str = "host";

/// Events that need attention, the most severe first.
pub(super) const NOTABLE_EVENTS: [Event; 4] = [Event::Mismatched, Event::Quarantined, Event::Fault, Event::Full];

/// Activity of all processes in an interval.
#[derive(Default, Serialize)]
pub(super) struct Sample {
    /// End of the interval, in seconds since 1970.
    pub(super) time: f64,
    pub(super) processes: Vec<Process>,
    /// All processes in total.
    #[serde(flatten)]
    pub(super) totals: Summary,
}

/// A process and its children by `fork`.
#[derive(Serialize)]
pub(super) struct Process {
    /// Identity of its statistics page.
    #[serde(skip)]
    pub(super) page_id: (u64, u64),
    /// PID of the oldest process.
    pub(super) pid: u32,
    #[serde(rename = "processes")]
    pub(super) process_count: usize,
    pub(super) user: String,
    pub(super) program: String,
    #[serde(flatten)]
    pub(super) summary: Summary,
}

/// Activity of one process, or of several in total.
#[derive(Default, Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    pub(super) activity: Activity,
    /// The share of requests served by the program's own libcrypto; `None` without requests.
    pub(super) host: Option<f64>,
    /// The share of requests served by devices.
    pub(super) devices: Option<f64>,
    /// Devices that are still in quarantine.
    pub(super) quarantined: Vec<String>,
    /// Work by device, algorithm and operation, the most requests first.
    pub(super) work: Vec<Work>,
    /// Guests of the processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) guests: Vec<Guest>,
}

/// Work of one device on one algorithm and operation.
#[derive(Clone, Serialize)]
pub(super) struct Work {
    /// `None` for events of requests that reached no device.
    pub(super) device: Option<String>,
    pub(super) algorithm: String,
    pub(super) operation: String,
    /// Its share of the requests; `None` without requests.
    pub(super) share: Option<f64>,
    #[serde(flatten)]
    pub(super) activity: Activity,
}

/// Rates of an interval, and counters at its end.
#[derive(Clone, Default, Serialize)]
#[serde(into = "ActivityJson")]
pub(super) struct Activity {
    /// Requests since the start of the process.
    pub(super) requests: u64,
    /// Bytes since the start of the process.
    pub(super) bytes: u64,
    pub(super) requests_per_s: f64,
    pub(super) bytes_per_s: f64,
    /// Mean number of requests on their way to the device.
    pub(super) queued: f64,
    /// Mean number of requests in the device.
    pub(super) busy: f64,
    /// Times in the device.
    pub(super) times: Histogram,
    pub(super) events: BTreeMap<String, u64>,
}

/// An [`Activity`] in the JSON.
#[derive(Serialize)]
struct ActivityJson {
    requests: u64,
    bytes: u64,
    requests_per_s: f64,
    mb_per_s: f64,
    queued: f64,
    busy: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    events: BTreeMap<String, u64>,
}

#[derive(Default)]
pub(super) struct Sampler {
    watch: Watcher,
    last_sample: Option<Instant>,
    /// Cached names of users, which may come from a network service.
    users: BTreeMap<u32, String>,
}

impl Sampler {
    /// Returns the activity of all processes since the last call. The first call returns no rates.
    ///
    /// # Errors
    /// Fails if `/proc` cannot be read.
    pub(super) fn take_sample(&mut self) -> std::io::Result<Sample> {
        self.watch.observe()?;
        let last_sample = self.last_sample.replace(Instant::now());
        let mut processes = Vec::new();
        for watched in self.watch.running() {
            // A process that is new did all its work since the last sample.
            let nothing = Report::default();
            let (before, start) = match (&watched.before, last_sample) {
                (Some((before, time)), _) => (before, *time),
                (None, Some(last_sample)) => (&nothing, last_sample),
                (None, None) => (&watched.now, watched.read_at),
            };
            let seconds = watched.read_at.saturating_duration_since(start).as_secs_f64();
            let uid = watched.page.uid;
            processes.push(Process {
                page_id: watched.page.identity,
                pid: watched.page.pids.first().copied().unwrap_or(0),
                process_count: watched.page.pids.len(),
                user: self.users.entry(uid).or_insert_with(|| units::user(uid)).clone(),
                program: watched.page.program.clone(),
                summary: Summary::between(before, &watched.now, seconds),
            });
        }
        Ok(Sample::new(processes))
    }
}

impl Sample {
    pub(super) fn new(processes: Vec<Process>) -> Self {
        let mut by_site: BTreeMap<Site<'_>, Work> = BTreeMap::new();
        for work in processes.iter().flat_map(|process| &process.summary.work) {
            match by_site.entry(work.site()) {
                Entry::Occupied(mut sum) => sum.get_mut().activity.add(&work.activity),
                Entry::Vacant(place) => {
                    place.insert(work.clone());
                }
            }
        }
        let mut totals = Summary::new(by_site.into_values().collect());
        let quarantined = processes.iter().flat_map(|process| &process.summary.quarantined);
        totals.quarantined = quarantined.collect::<BTreeSet<_>>().into_iter().cloned().collect();
        totals.guests = processes.iter().flat_map(|process| process.summary.guests.clone()).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        Self { time: round(now, 3), processes, totals }
    }
}

impl Summary {
    /// Returns the activity of one process between two reports, `seconds` apart.
    pub(super) fn between(before: &Report, now: &Report, seconds: f64) -> Self {
        let before_by_site = before.by_site();
        let work = now.rows.iter().map(|row| Work {
            device: row.device.clone(),
            algorithm: row.algorithm.clone(),
            operation: row.operation.clone(),
            share: None,
            activity: Activity::between(before_by_site.get(&row.site()).copied(), row, seconds),
        });
        let is_active = |work: &Work| work.activity.requests > 0 || !work.activity.events.is_empty();
        let guests = guests::between(before, now, seconds);
        Self { quarantined: quarantined(now), guests, ..Self::new(work.filter(is_active).collect()) }
    }

    fn new(mut work: Vec<Work>) -> Self {
        let mut activity = Activity::default();
        let mut host = 0.0;
        for work in &work {
            activity.add(&work.activity);
        }
        for work in &mut work {
            work.share = share_of(work.activity.requests_per_s, activity.requests_per_s);
            if work.device.as_deref() == Some(HOST) {
                host += work.activity.requests_per_s;
            }
        }
        work.sort_by(|a, b| {
            let (more, less) = (&b.activity, &a.activity);
            let by_rate = more.requests_per_s.total_cmp(&less.requests_per_s);
            // Idle rows keep their order.
            by_rate.then(more.requests.cmp(&less.requests)).then_with(|| a.site().cmp(&b.site()))
        });
        let host = share_of(host, activity.requests_per_s);
        Self { activity, host, devices: host.map(|host| 1.0 - host), quarantined: Vec::new(), work, guests: Vec::new() }
    }

    /// Returns the most severe event that needs attention, as an index into [`NOTABLE_EVENTS`].
    pub(super) fn worst_event(&self) -> Option<usize> {
        // A device in quarantine is as severe as the most severe event.
        if self.quarantined.is_empty() { self.activity.worst_event() } else { Some(0) }
    }
}

impl Work {
    fn site(&self) -> Site<'_> {
        (self.device.as_deref(), &self.algorithm, &self.operation)
    }
}

/// Returns a share, if the whole is not 0.
fn share_of(ratio: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| ratio / whole)
}

/// Returns the devices that entered quarantine more often than they left it, by name.
fn quarantined(report: &Report) -> Vec<String> {
    let mut devices: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for row in &report.rows {
        let Some(device) = &row.device else { continue };
        for (sum, event) in devices.entry(device).or_default().iter_mut().zip([Event::Quarantined, Event::Returned]) {
            *sum = sum.saturating_add(row.events.get(event.code()).copied().unwrap_or(0));
        }
    }
    let away = devices.into_iter().filter(|(_, [quarantined, returned])| quarantined > returned);
    away.map(|(device, _)| device.to_owned()).collect()
}

impl Activity {
    fn between(before: Option<&Row>, now: &Row, seconds: f64) -> Self {
        let rate = |number: f64| if seconds > 0.0 { number / seconds } else { 0.0 };
        let since = |of: fn(&Row) -> u64| of(now).saturating_sub(before.map_or(0, of));
        let stage = |stage: Stage| {
            let times = |row: &Row| row.stages.get(stage.code()).map(Times::histogram).unwrap_or_default();
            times(now).since(&before.map(times).unwrap_or_default())
        };
        let times = stage(Stage::Invoke);
        // Little's law: arrivals per second times seconds in the stage.
        let present = |times: &Histogram| rate(times.total_ns() as f64 / 1e9);
        let happened = |(event, times): (&String, &u64)| {
            let times = times.saturating_sub(before.and_then(|row| row.events.get(event)).copied().unwrap_or(0));
            (times > 0).then(|| (event.clone(), times))
        };
        Self {
            requests: now.requests,
            bytes: now.bytes,
            requests_per_s: rate(since(|row| row.requests) as f64),
            bytes_per_s: rate(since(|row| row.bytes) as f64),
            queued: present(&stage(Stage::Dispatch)),
            busy: present(&times),
            times,
            events: now.events.iter().filter_map(happened).collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requests_per_s += other.requests_per_s;
        self.bytes_per_s += other.bytes_per_s;
        self.queued += other.queued;
        self.busy += other.busy;
        self.times.merge(&other.times);
        for (event, times) in &other.events {
            let sum = self.events.entry(event.clone()).or_default();
            *sum = sum.saturating_add(*times);
        }
    }

    /// Returns the nanoseconds in the device that `per_mille` of 1000 requests did not exceed; `None` if no request was timed.
    pub(super) fn quantile(&self, per_mille: u64) -> Option<u64> {
        (self.times.requests() > 0).then(|| self.times.quantile(per_mille))
    }

    /// Returns the count of an event.
    pub(super) fn event_count(&self, event: Event) -> u64 {
        self.events.get(event.code()).copied().unwrap_or(0)
    }

    /// Returns the most severe event, as an index into [`NOTABLE_EVENTS`].
    pub(super) fn worst_event(&self) -> Option<usize> {
        NOTABLE_EVENTS.iter().position(|event| self.event_count(*event) > 0)
    }
}

impl From<Activity> for ActivityJson {
    fn from(activity: Activity) -> Self {
        Self {
            requests: activity.requests,
            bytes: activity.bytes,
            requests_per_s: round(activity.requests_per_s, 1),
            mb_per_s: round(activity.bytes_per_s / 1e6, 3),
            queued: round(activity.queued, 3),
            busy: round(activity.busy, 3),
            p50_ns: activity.quantile(500),
            p99_ns: activity.quantile(990),
            events: activity.events,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a row of a report: `requests` requests of 1000 bytes that took 2 us each, and events.
    pub(in crate::top) fn row(device: &str, algorithm: &str, requests: u64, events: &[(&str, u64)]) -> Row {
        let mut times = Histogram::default();
        times.add(2000, requests);
        Row {
            device: Some(device.to_owned()),
            class: None,
            algorithm: algorithm.to_owned(),
            operation: "digest".to_owned(),
            requests,
            bytes: requests * 1000,
            batches: 0,
            batched: 0,
            reasons: BTreeMap::new(),
            events: events.iter().map(|(event, times)| ((*event).to_owned(), *times)).collect(),
            stages: [("invoke".to_owned(), Times::from(&times))].into(),
        }
    }

    pub(in crate::top) fn report(rows: impl IntoIterator<Item = Row>) -> Report {
        Report { rows: rows.into_iter().collect(), ..Report::default() }
    }

    /// Makes a process that did the work in `rows` within one second.
    pub(in crate::top) fn process(pid: u32, program: &str, rows: impl IntoIterator<Item = Row>) -> Process {
        Process {
            page_id: (0, u64::from(pid)),
            pid,
            process_count: 1,
            user: "alice".to_owned(),
            program: program.to_owned(),
            summary: Summary::between(&Report::default(), &report(rows), 1.0),
        }
    }

    #[test]
    fn rates_and_times_are_those_of_the_interval() {
        let mut before = row("lanes", "sha256", 1000, &[("full", 5)]);
        before.stages.get_mut("invoke").unwrap().p99_ns = 9; // ignored: only the buckets count
        let mut now = row("lanes", "sha256", 3000, &[("full", 7), ("fault", 0)]);
        now.stages.insert("dispatch".to_owned(), Times { total_ns: 500_000_000, ..now.stages["invoke"].clone() });
        let summary = Summary::between(&report([before]), &report([now]), 2.0);
        let activity = &summary.activity;
        assert_eq!((activity.requests, activity.bytes), (3000, 3_000_000));
        assert_eq!((activity.requests_per_s, activity.bytes_per_s), (1000.0, 1_000_000.0));
        assert_eq!(activity.events, [("full".to_owned(), 2)].into());
        assert_eq!(activity.times.requests(), 2000);
        assert!(activity.quantile(990).unwrap().abs_diff(2000) < 64);
        // 2000 requests of 2 us, and half a second of waiting, within two seconds.
        assert_eq!((activity.busy, activity.queued), (0.002, 0.25));
    }

    #[test]
    fn zero_intervals_and_decreasing_counters_give_zero_rates() {
        let many = report([row("lanes", "sha256", 9, &[])]);
        let few = report([row("lanes", "sha256", 4, &[])]);
        for (before, now, seconds) in [(&many, &many, 0.0), (&many, &few, 1.0), (&many, &many, 1.0)] {
            let summary = Summary::between(before, now, seconds);
            let activity = &summary.activity;
            assert_eq!((activity.requests_per_s, activity.bytes_per_s, activity.busy), (0.0, 0.0, 0.0));
            assert_eq!((summary.host, summary.devices, activity.quantile(990)), (None, None, None));
        }
    }

    #[test]
    fn shares_are_those_of_the_interval() {
        let rows = |host, lanes| [row("host", "sha256", host, &[]), row("lanes", "sha256", lanes, &[])];
        let summary = Summary::between(&report(rows(9000, 0)), &report(rows(9100, 300)), 1.0);
        assert_eq!((summary.host, summary.devices), (Some(0.25), Some(0.75)));
        let shares: Vec<_> = summary.work.iter().map(|work| (work.device.as_deref(), work.share)).collect();
        assert_eq!(shares, [(Some("lanes"), Some(0.75)), (Some("host"), Some(0.25))]);
    }

    #[test]
    fn processes_are_summed_by_device_algorithm_and_operation() {
        let many = (0..500).map(|pid| {
            let device = if pid % 2 == 0 { "lanes" } else { "software" };
            process(pid, "server", [row(device, "sha256", 10, &[("fault", 1)]), row("host", "md5", 5, &[])])
        });
        let sample = Sample::new(many.collect());
        let work: Vec<_> = (sample.totals.work.iter())
            .map(|work| (work.device.as_deref().unwrap(), work.activity.requests_per_s, work.activity.times.requests()))
            .collect();
        assert_eq!(work, [("host", 2500.0, 2500), ("lanes", 2500.0, 2500), ("software", 2500.0, 2500)]);
        assert_eq!(
            (sample.totals.activity.requests_per_s, sample.totals.activity.event_count(Event::Fault)),
            (7500.0, 500)
        );
    }

    #[test]
    fn a_device_is_in_quarantine_until_it_returns() {
        let state = |events: &[(&str, u64)]| {
            let seen = report([row("lanes", "sha256", 1, events), row("software", "sha256", 1, &[("returned", 1)])]);
            // The events happened before the interval.
            let summary = Summary::between(&seen, &seen, 1.0);
            (summary.quarantined.clone(), summary.worst_event())
        };
        assert_eq!(state(&[("quarantined", 2), ("returned", 1)]), (vec!["lanes".to_owned()], Some(0)));
        assert_eq!(state(&[("quarantined", 2), ("returned", 2)]), (Vec::new(), None));
    }
}

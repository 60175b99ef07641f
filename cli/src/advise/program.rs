#![allow(clippy::cast_precision_loss, reason = "shares and times for people")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;

use gantry_runtime::sandbox::is_filtered;
use gantry_runtime::stats::{Report, Row as Counted};
use serde::Serialize;

use super::machine::Machine;
use super::reasons;
use super::uses::Standing;
use crate::openssl::measured::{Cell, HOST, Row};
use crate::units::{bytes, duration, share};

/// What was looked at.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    /// A command, and how it ended.
    Command { name: String, status: String },
    /// A process, for so long.
    Process { pid: u32, seconds: f64 },
}

/// What a program and its children asked of OpenSSL.
pub(super) struct Program {
    pub(super) subject: Subject,
    /// The programs that loaded gantry.
    pub(super) loaded: Vec<String>,
    pub(super) asked: Vec<Asked>,
    /// What keeps it from gantry, or its requests from devices.
    pub(super) reasons: Vec<String>,
    /// Directions of TLS connections that programs of this machine gave the kernel meanwhile.
    pub(super) kernel_tls: u64,
}

/// One algorithm and operation.
#[derive(Serialize)]
pub(super) struct Asked {
    pub(super) algorithm: String,
    pub(super) operation: String,
    pub(super) host: Sum,
    pub(super) devices: Sum,
    /// Which of them had how many.
    pub(super) by_device: BTreeMap<String, Sum>,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Sum {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl Sum {
    fn add(&mut self, row: &Counted) {
        self.requests = self.requests.saturating_add(row.requests);
        self.bytes = self.bytes.saturating_add(row.bytes);
    }
}

/// What the requests take, in seconds of a CPU, by what was measured.
#[derive(Default, Serialize)]
pub(super) struct Cost {
    pub(super) openssl_s: f64,
    pub(super) as_configured_s: f64,
    pub(super) with_lines_s: f64,
    /// Algorithms that are not in it, because nothing was measured.
    pub(super) without: Vec<String>,
}

impl Program {
    pub(super) fn of(subject: Subject, loaded: Vec<String>, reports: &mut [Report]) -> Self {
        let mut asked: BTreeMap<(String, String), Asked> = BTreeMap::new();
        for row in reports.iter().flat_map(|report| &report.rows).filter(|row| row.requests > 0) {
            let (algorithm, operation) = (row.algorithm.clone(), row.operation.clone());
            let one = asked.entry((algorithm.clone(), operation.clone())).or_insert_with(|| {
                let (host, devices) = Default::default();
                Asked { algorithm, operation, host, devices, by_device: BTreeMap::new() }
            });
            match row.device.as_deref() {
                Some(HOST) => one.host.add(row),
                device => {
                    one.devices.add(row);
                    one.by_device.entry(device.unwrap_or("none").to_owned()).or_default().add(row);
                }
            }
        }
        let mut asked: Vec<Asked> = asked.into_values().collect();
        asked.sort_by_key(|asked| std::cmp::Reverse((asked.bytes(), asked.requests())));
        Self { subject, loaded, asked, reasons: Vec::new(), kernel_tls: 0 }
    }

    /// Says why a command did not load gantry, and what is wrong with the configuration.
    pub(super) fn explain(&mut self, program: &OsStr) {
        let (loaded, refused) = (!self.loaded.is_empty(), !self.reasons.is_empty());
        if !loaded && is_filtered() {
            self.reasons.push(
                "System calls are filtered here (seccomp): gantry leaves everything to OpenSSL there.".to_owned(),
            );
            return;
        }
        self.reasons.extend(reasons::of_the_configuration(loaded));
        if !loaded && !refused {
            self.reasons.extend(reasons::of_the_program(&program.to_string_lossy()));
        }
    }

    /// Measures what it asked for; nothing, if it asked for nothing. Where it cannot be measured, the counts are worth telling all the same.
    pub(super) fn measure(&mut self) -> Option<Machine> {
        let names: Vec<&str> = self.asked.iter().map(|asked| &*asked.algorithm).collect();
        if names.is_empty() {
            return None;
        }
        Machine::measure(Some(&names.join(","))).map_err(|failure| self.reasons.push(failure.to_string())).ok()
    }

    pub(super) fn name(&self) -> String {
        match &self.subject {
            Subject::Command { name, .. } => name.clone(),
            Subject::Process { pid, .. } => match self.loaded.first() {
                Some(program) => format!("{program} ({pid})"),
                None => format!("process {pid}"),
            },
        }
    }

    fn all(&self) -> (u64, u64) {
        let add = |(requests, bytes), asked: &Asked| (requests + asked.requests(), bytes + asked.bytes());
        self.asked.iter().fold((0, 0), add)
    }

    /// What its requests take by what was measured.
    pub(super) fn cost(&self, machine: &Machine) -> Cost {
        let mut cost = Cost::default();
        for asked in &self.asked {
            let rows = rows_of(machine, &asked.algorithm);
            let known: Vec<Known> = rows.iter().filter_map(|row| Known::of(row, asked)).collect();
            // Of several, nobody knows which it was.
            let [known] = known[..] else {
                cost.without.push(label(&asked.algorithm, Some(machine)));
                continue;
            };
            let would = |row: &&Row| Standing::of(row) == Standing::Gains;
            let gains = !rows.is_empty() && rows.iter().all(would) && known.led;
            cost.openssl_s += asked.requests() as f64 * known.host_s;
            let on_devices = asked.devices.requests as f64 * known.device_s;
            let on_host = asked.host.requests as f64 * known.host_s;
            cost.as_configured_s += on_devices + on_host;
            cost.with_lines_s += on_devices + if gains { asked.host.requests as f64 * known.device_s } else { on_host };
        }
        cost.without.sort_unstable();
        cost.without.dedup();
        cost
    }

    /// The verdict about it, in sentences.
    pub(super) fn verdict(&self, machine: &Machine) -> Vec<String> {
        let (requests, all) = self.all();
        let mut algorithms: BTreeMap<&str, u64> = BTreeMap::new();
        for asked in &self.asked {
            *algorithms.entry(&asked.algorithm).or_default() += asked.bytes();
        }
        let mut algorithms: Vec<(&str, u64)> = algorithms.into_iter().collect();
        algorithms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let mut said = Vec::new();
        if let Some((first, most)) = algorithms.first() {
            let share = share(*most, all);
            let name = label(first, Some(machine));
            let requests = if requests == 1 { "1 request".to_owned() } else { format!("{requests} requests") };
            said.push(format!("{}: {requests} with {}; {share} of them are {name}.", self.name(), bytes(all)));
        }
        said.extend(algorithms.iter().map(|(name, _)| self.about(name, machine)));
        let cost = self.cost(machine);
        if cost.openssl_s > 0.0 {
            let mut sentence = format!(
                "By these measurements the requests take OpenSSL {} of a CPU, and {:.2} of that as configured",
                duration(cost.openssl_s * 1e9),
                cost.as_configured_s / cost.openssl_s
            );
            if cost.with_lines_s < cost.as_configured_s {
                let _ = write!(sentence, ", {:.2} with the lines below", cost.with_lines_s / cost.openssl_s);
            }
            if !cost.without.is_empty() {
                let _ = write!(sentence, "; not in it: {}", cost.without.join(", "));
            }
            said.push(sentence + ".");
        }
        said
    }

    /// One algorithm.
    fn about(&self, algorithm: &str, machine: &Machine) -> String {
        let rows = rows_of(machine, algorithm);
        let these = || self.asked.iter().filter(|asked| asked.algorithm == algorithm);
        let (host, devices) =
            these().fold((0, 0), |sums, asked| (sums.0 + asked.host.requests, sums.1 + asked.devices.requests));
        let name = label(algorithm, Some(machine));
        let gains: Vec<String> = these()
            .filter_map(|asked| gain_of(&rows, asked).map(|gain| format!("{} {gain}", asked.operation)))
            .collect();
        let gains = gains.join(", ");
        let mut where_to: Vec<String> = these().flat_map(|asked| asked.by_device.keys().cloned()).collect();
        where_to.sort_unstable();
        where_to.dedup();
        let standing = rows.iter().map(|row| Standing::of(row)).min();
        match (devices, standing) {
            (1.., _) => {
                let left = if host > 0 { format!(", and {host} stayed with OpenSSL") } else { String::new() };
                let measured = if gains.is_empty() { String::new() } else { format!("; measured: {gains}") };
                let requests = if devices == 1 { "1 request" } else { &format!("{devices} requests") };
                format!("{name}: {requests} went to {}{left}{measured}.", where_to.join(" and "))
            }
            (_, Some(Standing::Gains)) => {
                format!(
                    "{name}: all of it stayed with OpenSSL, because the configuration does not name it; a device is faster: {gains}."
                )
            }
            (_, Some(Standing::Perhaps)) => format!(
                "{name}: all of it stayed with OpenSSL. A device has the request alone faster ({gains}), but not the keys and contexts that a program makes for it."
            ),
            (_, None | Some(Standing::Untried)) => {
                let why = "one request at a time has no faster device";
                format!("{name}: all of it stayed with OpenSSL: {why}.")
            }
            (_, Some(Standing::InDoubt)) => format!(
                "{name}: all of it stayed with OpenSSL. A device was faster here ({gains}), but the policy names another one, or what programs learned of this machine earlier says otherwise."
            ),
            _ => format!("{name}: all of it stayed with OpenSSL; the best of the devices here: {gains}."),
        }
    }
}

impl Asked {
    pub(super) fn requests(&self) -> u64 {
        self.host.requests.saturating_add(self.devices.requests)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.host.bytes.saturating_add(self.devices.bytes)
    }
}

/// OpenSSL's name of an algorithm.
pub(super) fn label(algorithm: &str, machine: Option<&Machine>) -> String {
    let row = machine.and_then(|machine| machine.measured.rows.iter().find(|row| row.ours == algorithm));
    row.map_or_else(|| algorithm.to_owned(), |row| row.name.clone())
}

/// The measurements of an algorithm. The host's PBKDF2 is counted together, whatever the digests.
fn rows_of<'m>(machine: &'m Machine, algorithm: &str) -> Vec<&'m Row> {
    let of = |is: &dyn Fn(&Row) -> bool| machine.measured.rows.iter().filter(|row| is(row)).collect::<Vec<_>>();
    let exact = of(&|row| row.ours == algorithm);
    if exact.is_empty() { of(&|row| row.named == algorithm && !row.cells.is_empty()) } else { exact }
}

/// What requests of the size that a program has take, in seconds.
#[derive(Clone, Copy)]
struct Known {
    host_s: f64,
    device_s: f64,
    /// Whether they are a device's, if it is served.
    led: bool,
}

impl Known {
    fn of(row: &Row, asked: &Asked) -> Option<Self> {
        let (cell, scale) = nearest(row, asked)?;
        let best = cell.best.as_ref()?;
        let seconds = |ns: f64| ns * 1e-9 * scale;
        Some(Self { host_s: seconds(best.host_ns), device_s: seconds(best.device_ns), led: cell.is_led() })
    }
}

/// The cell whose size is nearest to that of the requests, and by how much longer these take.
fn nearest<'r>(row: &'r Row, asked: &Asked) -> Option<(&'r Cell, f64)> {
    let mean = (asked.bytes() as f64 / asked.requests().max(1) as f64).max(1.0);
    let distance = |cell: &&Cell| ((cell.bytes.max(1) as f64).ln() - mean.ln()).abs();
    let cell = row.of(&asked.operation).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let sizes = row.of(&asked.operation).count();
    // Those of signatures and key exchange are all as long, and longer ones of others take as much longer.
    let scale = if sizes > 1 && mean > cell.bytes as f64 { mean / cell.bytes as f64 } else { 1.0 };
    Some((cell, scale))
}

/// By what the devices are faster with requests of that size.
fn gain_of(rows: &[&Row], asked: &Asked) -> Option<String> {
    let gains: Vec<f64> = rows.iter().filter_map(|row| nearest(row, asked)?.0.gain()).collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(0.0, f64::max);
    match gains.len() {
        0 => None,
        _ if most - least < 0.005 => Some(format!("{most:.2}x")),
        _ => Some(format!("{least:.2}x to {most:.2}x")),
    }
}

/// What was counted after `before`.
pub(super) fn since(mut after: Report, before: &Report) -> Report {
    let before = before.by_site();
    for row in &mut after.rows {
        if let Some(then) = before.get(&row.site()) {
            let (requests, bytes) = (then.requests, then.bytes);
            row.requests = row.requests.saturating_sub(requests);
            row.bytes = row.bytes.saturating_sub(bytes);
        }
    }
    after
}

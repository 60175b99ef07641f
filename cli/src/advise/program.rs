//! Counts the OpenSSL requests of a program, and estimates their CPU time.

#![allow(clippy::cast_precision_loss, reason = "shares and times for people")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;

use gantry_runtime::sandbox::is_filtered;
use gantry_runtime::stats::{Report, Row as Counted};
use serde::Serialize;

use super::machine::MachineReport;
use super::reasons;
use super::summary::{Assessment, join_names};
use crate::openssl::measured::{Cell, HOST, Row};
use crate::units::{bytes, duration, share};

/// The command or process under observation.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    /// A command and its exit status.
    Command { name: String, status: String },
    /// A running process and the seconds of observation.
    Process { pid: u32, seconds: f64 },
}

/// OpenSSL requests of a program and its children.
pub(super) struct ProgramReport {
    pub(super) subject: Subject,
    /// The programs that loaded gantry.
    pub(super) loaded: Vec<String>,
    pub(super) operations: Vec<OperationCounts>,
    /// Reasons why the program did not load gantry, or why devices did not get its requests.
    pub(super) reasons: Vec<String>,
    /// Number of directions (sending or receiving) of TLS connections that programs of this machine handed to the kernel (kTLS) during
    /// the observation.
    pub(super) kernel_tls: u64,
}

/// Requests of one algorithm and operation.
#[derive(Serialize)]
pub(super) struct OperationCounts {
    pub(super) algorithm: String,
    pub(super) operation: String,
    pub(super) host: RequestTotals,
    pub(super) devices: RequestTotals,
    pub(super) by_device: BTreeMap<String, RequestTotals>,
}

#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct RequestTotals {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl RequestTotals {
    fn add(&mut self, row: &Counted) {
        self.requests = self.requests.saturating_add(row.requests);
        self.bytes = self.bytes.saturating_add(row.bytes);
    }
}

/// CPU time of the requests in seconds, estimated from the measurements.
#[derive(Default, Serialize)]
pub(super) struct Cost {
    pub(super) openssl_s: f64,
    pub(super) as_configured_s: f64,
    pub(super) with_lines_s: f64,
    /// Algorithms that are not included, because they were not measured.
    pub(super) without: Vec<String>,
}

impl ProgramReport {
    pub(super) fn of(subject: Subject, loaded: Vec<String>, reports: &mut [Report]) -> Self {
        let mut by_operation: BTreeMap<(String, String), OperationCounts> = BTreeMap::new();
        for row in reports.iter().flat_map(|report| &report.rows).filter(|row| row.requests > 0) {
            let (algorithm, operation) = (row.algorithm.clone(), row.operation.clone());
            let counts = by_operation.entry((algorithm.clone(), operation.clone())).or_insert_with(|| {
                let (host, devices) = Default::default();
                OperationCounts { algorithm, operation, host, devices, by_device: BTreeMap::new() }
            });
            match row.device.as_deref() {
                Some(HOST) => counts.host.add(row),
                device => {
                    counts.devices.add(row);
                    counts.by_device.entry(device.unwrap_or("none").to_owned()).or_default().add(row);
                }
            }
        }
        let mut operations: Vec<OperationCounts> = by_operation.into_values().collect();
        operations.sort_by_key(|counts| std::cmp::Reverse((counts.bytes(), counts.requests())));
        Self { subject, loaded, operations, reasons: Vec::new(), kernel_tls: 0 }
    }

    /// Adds the reasons why a command did not load gantry, and mistakes in the configuration.
    pub(super) fn add_reasons(&mut self, program: &OsStr) {
        let (loaded, refused) = (!self.loaded.is_empty(), !self.reasons.is_empty());
        if !loaded && is_filtered() {
            self.reasons
                .push("System calls are filtered here (seccomp), so gantry leaves everything to OpenSSL.".to_owned());
            return;
        }
        self.reasons.extend(reasons::configuration_reasons(loaded));
        if !loaded && !refused {
            self.reasons.extend(reasons::program_reasons(&program.to_string_lossy()));
        }
    }

    /// Measures the algorithms that the program used, if any. If measuring fails, keeps the reason, so that the counts are still reported.
    pub(super) fn measure(&mut self) -> Option<MachineReport> {
        let names: Vec<&str> = self.operations.iter().map(|counts| &*counts.algorithm).collect();
        if names.is_empty() {
            return None;
        }
        MachineReport::measure(Some(&names.join(","))).map_err(|failure| self.reasons.push(failure.to_string())).ok()
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

    fn totals(&self) -> (u64, u64) {
        let add = |(requests, bytes), counts: &OperationCounts| (requests + counts.requests(), bytes + counts.bytes());
        self.operations.iter().fold((0, 0), add)
    }

    /// Estimates the CPU time of the requests from the measurements.
    pub(super) fn cost(&self, machine: &MachineReport) -> Cost {
        let mut cost = Cost::default();
        for counts in &self.operations {
            let rows = rows_of(machine, &counts.algorithm);
            let estimates: Vec<Estimate> = rows.iter().filter_map(|row| Estimate::of(row, counts)).collect();
            // With several rows, the right one is unknown. With none, the algorithm was not measured.
            let [estimate] = estimates[..] else {
                cost.without.push(openssl_name(&counts.algorithm, Some(machine)));
                continue;
            };
            let would = |row: &&Row| Assessment::of(row) == Assessment::WouldGain;
            let gains = !rows.is_empty() && rows.iter().all(would) && estimate.on_device;
            cost.openssl_s += counts.requests() as f64 * estimate.host_s;
            let on_devices = counts.devices.requests as f64 * estimate.device_s;
            let on_host = counts.host.requests as f64 * estimate.host_s;
            cost.as_configured_s += on_devices + on_host;
            cost.with_lines_s +=
                on_devices + if gains { counts.host.requests as f64 * estimate.device_s } else { on_host };
        }
        cost.without.sort_unstable();
        cost.without.dedup();
        cost
    }

    /// Summarizes the requests in sentences.
    pub(super) fn sentences(&self, machine: &MachineReport) -> Vec<String> {
        let (requests, all) = self.totals();
        let mut algorithms: BTreeMap<&str, u64> = BTreeMap::new();
        for counts in &self.operations {
            *algorithms.entry(&counts.algorithm).or_default() += counts.bytes();
        }
        let mut sentences = Vec::new();
        if let Some((first, max)) = algorithms.into_iter().max_by_key(|(_, bytes)| *bytes) {
            let share = share(max, all);
            let name = openssl_name(first, Some(machine));
            let requests = if requests == 1 { "1 request".to_owned() } else { format!("{requests} requests") };
            sentences.push(format!("{}: {requests} with {}; {share} of them are {name}.", self.name(), bytes(all)));
        }
        let tls_groups = self.tls_groups();
        if !tls_groups.is_empty() {
            sentences.push(format!("TLS agreed on keys with {}.", join_names(&tls_groups)));
        }
        let cost = self.cost(machine);
        if cost.openssl_s > 0.0 {
            let mut sentence = format!(
                "As measured, these requests take {} of CPU time with OpenSSL, and {:.2} of that as configured",
                duration(cost.openssl_s * 1e9),
                cost.as_configured_s / cost.openssl_s
            );
            if cost.with_lines_s < cost.as_configured_s {
                let _ = write!(sentence, ", {:.2} with the lines below", cost.with_lines_s / cost.openssl_s);
            }
            if !cost.without.is_empty() {
                let _ = write!(sentence, "; not included: {}", cost.without.join(", "));
            }
            sentences.push(sentence + ".");
        }
        sentences
    }

    /// Returns the TLS groups that gantry serves, with the number of handshakes.
    fn tls_groups(&self) -> Vec<String> {
        let side = |operation: &str| match operation {
            "encapsulate" => Some("server"),
            "decapsulate" => Some("client"),
            _ => None,
        };
        let each = self.operations.iter().filter_map(|counts| {
            Some(format!("{} ({} as {})", counts.algorithm, counts.requests(), side(&counts.operation)?))
        });
        each.collect()
    }
}

/// Returns the gain with requests of the program's mean size, and a remark.
pub(super) fn comparison(machine: &MachineReport, counts: &OperationCounts) -> (String, String) {
    let rows = rows_of(machine, &counts.algorithm);
    let gain = format_gain(&rows, counts).unwrap_or_else(|| "-".to_owned());
    let remark = if counts.devices.requests > 0 {
        let devices: Vec<String> = counts.by_device.keys().cloned().collect();
        join_names(&devices)
    } else {
        rows.iter().map(|row| Assessment::of(row)).min().map_or(String::new(), |standing| standing.remark().to_owned())
    };
    (gain, remark)
}

impl OperationCounts {
    pub(super) fn requests(&self) -> u64 {
        self.host.requests.saturating_add(self.devices.requests)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.host.bytes.saturating_add(self.devices.bytes)
    }
}

/// Returns OpenSSL's name of an algorithm.
pub(super) fn openssl_name(algorithm: &str, machine: Option<&MachineReport>) -> String {
    let row = machine.and_then(|machine| machine.measurements.rows.iter().find(|row| row.gantry_name == algorithm));
    row.map_or_else(|| algorithm.to_owned(), |row| row.name.clone())
}

/// Returns the measurements of an algorithm. The host counts PBKDF2 as one algorithm for all digests.
fn rows_of<'m>(machine: &'m MachineReport, algorithm: &str) -> Vec<&'m Row> {
    let rows_where = |matches: &dyn Fn(&Row) -> bool| {
        machine.measurements.rows.iter().filter(|row| matches(row)).collect::<Vec<_>>()
    };
    let exact = rows_where(&|row| row.gantry_name == algorithm);
    if exact.is_empty() { rows_where(&|row| row.config_name == algorithm && !row.cells.is_empty()) } else { exact }
}

/// CPU time per request of the program's mean size, in seconds.
#[derive(Clone, Copy)]
struct Estimate {
    host_s: f64,
    device_s: f64,
    /// True if a device would serve these requests once the algorithm is configured.
    on_device: bool,
}

impl Estimate {
    fn of(row: &Row, counts: &OperationCounts) -> Option<Self> {
        let (cell, scale) = nearest_cell(row, counts)?;
        let best = cell.best.as_ref()?;
        let seconds = |ns: f64| ns * 1e-9 * scale;
        Some(Self { host_s: seconds(best.host_ns), device_s: seconds(best.device_ns), on_device: cell.is_on_device() })
    }
}

/// Returns the cell of the size nearest to the mean request, and the factor by which the mean request takes longer.
fn nearest_cell<'r>(row: &'r Row, counts: &OperationCounts) -> Option<(&'r Cell, f64)> {
    let mean = (counts.bytes() as f64 / counts.requests().max(1) as f64).max(1.0);
    let distance = |cell: &&Cell| ((cell.bytes.max(1) as f64).ln() - mean.ln()).abs();
    let cell = row.cells_of(&counts.operation).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let sizes = row.cells_of(&counts.operation).count();
    // Signatures and key exchanges take the same time at any size. Other algorithms scale with the size.
    let scale = if sizes > 1 && mean > cell.bytes as f64 { mean / cell.bytes as f64 } else { 1.0 };
    Some((cell, scale))
}

/// Formats the gain of the devices with requests of the program's mean size.
fn format_gain(rows: &[&Row], counts: &OperationCounts) -> Option<String> {
    let gains: Vec<f64> = rows.iter().filter_map(|row| nearest_cell(row, counts)?.0.gain()).collect();
    let min = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let max = gains.iter().copied().fold(0.0, f64::max);
    match gains.len() {
        0 => None,
        _ if max - min < 0.005 => Some(format!("{max:.2}x")),
        _ => Some(format!("{min:.2}x to {max:.2}x")),
    }
}

/// Returns the counts of `after`, less the counts of `before`.
pub(super) fn difference(mut after: Report, before: &Report) -> Report {
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

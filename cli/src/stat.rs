//! `gantry stat`: statistics of a command, of a running process, or of all running processes.

#![allow(clippy::cast_precision_loss, reason = "times for people")]

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gantry_core::stats::{Histogram, Stage};
use gantry_runtime::StatsChoice;
use gantry_runtime::stats::{LivePage, Process, PublishedFile, Report, Row, Times, live_pages, published_files};

use crate::args::{Settings, Stat};
use crate::output::{Failure, Output, print_message};
use crate::program::program;
use crate::table::Table;
use crate::temporary::{exit_like, run_with_statistics};
use crate::units::{bytes, duration, share, tenths, user};

pub(crate) fn run(args: &Stat, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    match (&args.command[..], args.pid) {
        ([program, arguments @ ..], _) => run_command(args, settings, program, arguments),
        _ if has_other_settings(settings) => {
            Err(Failure::Usage("without a COMMAND, no option but --set stats=FOLDER has an effect".to_owned()))
        }
        ([], Some(pid)) => show_process(args, settings, pid, output),
        ([], None) => list(args, settings, output),
    }
}

/// True if any setting other than the place of statistics is given.
fn has_other_settings(settings: &Settings) -> bool {
    let other = |set: &String| set.split('=').next().map(str::trim) != Some("stats");
    settings.devices.is_some() || settings.policy.is_some() || settings.set.iter().any(other)
}

/// Runs a command, prints its statistics, and ends with its status.
fn run_command(args: &Stat, settings: &Settings, name: &OsString, arguments: &[OsString]) -> Result<(), Failure> {
    let variables = variables(settings)?;
    let mut command = program(name)?;
    command.args(arguments).envs(variables);
    let (status, received) = run_with_statistics(&mut command)?;
    let mut reports: Vec<Report> = received.pages.iter().filter_map(|page| page.read().ok()).collect();
    reports.retain(|report| !report.rows.is_empty());
    let report = merge(&reports);
    if report.processes.is_empty() {
        print_message(&format!("{}: no statistics: it made no request through Gantry", name.display()));
    } else {
        // stdout belongs to the command.
        let to_stderr = |text: &str| io::stderr().write_all(text.as_bytes());
        write(args, &report, |text| to_stderr(text).map_err(|error| Failure::at("standard error", &error)))?;
    }
    exit_like(status)
}

/// Returns the environment variables that pass these settings to a command.
fn variables(settings: &Settings) -> Result<Vec<(String, String)>, Failure> {
    settings.config()?; // reports mistakes
    let pairs = settings.set.iter().filter_map(|set| set.split_once('='));
    let mut variables = Vec::new();
    for (key, value) in pairs.map(|(key, value)| (key.trim(), value.trim())) {
        let (name, value) = match key.split_once('.') {
            None => (key, value.to_owned()),
            Some(("devices", device)) => ("devices", format!("{device}={value}")),
            Some(_) => {
                return Err(Failure::Usage(format!(
                    "--set {key}: cannot be passed to the command, because there is no variable for it"
                )));
            }
        };
        variables.push((name, value));
    }
    let short = [("devices", &settings.devices), ("policy", &settings.policy)];
    variables.extend(short.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))));
    Ok(variables.into_iter().map(|(key, value)| (format!("GANTRY_{}", key.to_uppercase()), value)).collect())
}

fn show_process(args: &Stat, settings: &Settings, pid: u32, output: &mut Output) -> Result<(), Failure> {
    let report = match settings.config()?.stats() {
        StatsChoice::Folder(folder) => read_folder(folder, pid)?,
        _ => read_page(pid)?,
    };
    write(args, &report, |text| output.write(text))
}

/// Reads the statistics of a running process.
pub(crate) fn read_page(pid: u32) -> Result<Report, Failure> {
    let pages = pages()?.into_iter().filter(|page| page.pids.contains(&pid));
    let report = merge(&pages.filter_map(|page| page.read().ok()).collect::<Vec<_>>());
    let proc = format!("/proc/{pid}");
    let failed = |reason: &str| Err(Failure::Failed(format!("process {pid}: {reason}")));
    if !report.processes.is_empty() {
        Ok(report)
    } else if !Path::new(&proc).exists() {
        failed("there is no such process")
    } else if fs::File::open(proc + "/maps").is_err() {
        failed("only root and its user may read its statistics")
    } else {
        failed("it does not use Gantry, or its statistics are private (GANTRY_STATS=on under a filter of system calls)")
    }
}

/// Reads the statistics that a process left in a folder.
fn read_folder(folder: &Path, pid: u32) -> Result<Report, Failure> {
    let mut files = list_published(folder)?;
    files.retain(|file| file.pid == pid);
    // The kernel reuses PIDs, so an ended process may have had the PID of the running one.
    if files.iter().any(|file| file.is_alive) {
        files.retain(|file| file.is_alive);
    }
    let report = merge(&reports(&files));
    if report.processes.is_empty() {
        return Err(Failure::Failed(format!("process {pid} has written no statistics to {}", folder.display())));
    }
    if files.iter().all(|file| !file.is_alive) {
        print_message(&format!("process {pid} has ended; these are the last numbers that it wrote"));
    }
    Ok(report)
}

/// Returns the pages of all processes that the caller may read.
fn pages() -> Result<Vec<LivePage>, Failure> {
    live_pages().map_err(|error| Failure::at("/proc", &error))
}

fn list(args: &Stat, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let mut table =
        Table::new(&["PID", "PROCESSES", "USER", "PROGRAM", "SINCE", "REQUESTS", "BYTES"], &[0, 1, 4, 5, 6]);
    let mut all = Vec::new();
    if let StatsChoice::Folder(folder) = settings.config()?.stats() {
        let mut files = list_published(folder)?;
        files.retain(|file| file.is_alive);
        for report in reports(&files) {
            report.processes.iter().for_each(|process| table.add_row(line(process, 1, "-".to_owned(), &report)));
            all.push(report);
        }
    } else {
        for page in pages()? {
            // Skip a family whose processes have just ended.
            let Ok(report) = page.read() else { continue };
            let line = |process| line(process, page.pids.len(), user(page.uid), &report);
            report.processes.iter().for_each(|process| table.add_row(line(process)));
            all.push(report);
        }
    }
    let text = if args.json { json(&all)? + "\n" } else { table.render() };
    write_text(args, &text, |text| output.write(text))
}

/// Returns the cells of a family: `processes` processes that share one page of statistics.
fn line(process: &Process, processes: usize, user: String, report: &Report) -> [String; 7] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let sum = |of: fn(&Row) -> u64| report.rows.iter().map(of).fold(0, u64::saturating_add);
    [
        process.pid.to_string(),
        processes.to_string(),
        user,
        process.program.clone(),
        format!("{} s", now.saturating_sub(process.started)),
        sum(|row| row.requests).to_string(),
        bytes(sum(|row| row.bytes)),
    ]
}

fn list_published(folder: &Path) -> Result<Vec<PublishedFile>, Failure> {
    published_files(folder).map_err(|error| Failure::at(folder.display(), &error))
}

/// Reads the files. Reports unreadable ones, and continues with the others.
fn reports(files: &[PublishedFile]) -> Vec<Report> {
    let report = |file: &PublishedFile| match file.read() {
        Ok(report) => Some(report),
        // The process has just ended.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            print_message(&Failure::at(file.path.display(), &error).to_string());
            None
        }
    };
    files.iter().filter_map(report).collect()
}

fn merge(reports: &[Report]) -> Report {
    let mut sum = Report::default();
    reports.iter().cloned().for_each(|report| sum.merge(report));
    sum
}

fn write(args: &Stat, report: &Report, to: impl FnOnce(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let text = if args.json { json(report)? + "\n" } else { render(report) };
    write_text(args, &text, to)
}

/// Writes to the file of `--output`, or else passes the text to `to`.
fn write_text(args: &Stat, text: &str, to: impl FnOnce(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|error| Failure::at(path.display(), &error)),
        None => to(text),
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Failed(error.to_string()))
}

fn render(report: &Report) -> String {
    let all = report.rows.iter().map(|row| row.requests).fold(0, u64::saturating_add);
    let mut work = Table::new(
        &["DEVICE", "ALGORITHM", "OPERATION", "REQUESTS", "SHARE", "BYTES", "BATCH", "P50", "P99", "REASONS"],
        &[3, 4, 5, 6, 7, 8],
    );
    let mut events = Table::new(&["DEVICE", "ALGORITHM", "OPERATION", "EVENT", "TIMES"], &[4]);
    let mut has_events = false;
    for row in &report.rows {
        let device = row.device.clone().unwrap_or_else(|| "-".to_owned());
        let site = [device, row.algorithm.clone(), row.operation.clone()];
        for (event, times) in &row.events {
            events.add_row(site.clone().into_iter().chain([event.clone(), times.to_string()]));
            has_events = true;
        }
        if row.requests == 0 {
            continue;
        }
        let batch = if row.batches == 0 { "-".to_owned() } else { tenths(row.batched, row.batches) };
        let invoke = row.stages.get("invoke");
        let time = |of: fn(&Times) -> u64| invoke.map_or_else(|| "-".to_owned(), |times| duration(of(times) as f64));
        let reasons: Vec<String> =
            row.reasons.iter().map(|(reason, requests)| format!("{reason} {requests}")).collect();
        work.add_row(site.into_iter().chain([
            row.requests.to_string(),
            share(row.requests, all),
            bytes(row.bytes),
            batch,
            time(|times| times.p50_ns),
            time(|times| times.p99_ns),
            reasons.join(", "),
        ]));
    }
    let mut text = work.render() + "\n" + &stages(report).render();
    if has_events {
        text += "\n";
        text += &events.render();
    }
    if !report.guests.is_empty() {
        text += "\n";
        text += &guests(report).render();
    }
    text
}

/// Returns the table of a server's guests. BATCH is the mean number of requests that the server took together, of all guests.
fn guests(report: &Report) -> Table {
    let titles = ["GUEST", "CONNECTIONS", "SESSIONS", "REQUESTS", "BYTES", "BATCH", "REFUSED", "BROKEN"];
    let mut table = Table::new(&titles, &[1, 2, 3, 4, 5, 6, 7]);
    for guest in &report.guests {
        let number = |name: &str| guest.numbers.get(name).copied().unwrap_or(0);
        let plain = |name: &str| number(name).to_string();
        let (requests, burst_sum) = (number("requests"), number("burst_sum"));
        let batch = if requests == 0 { "-".to_owned() } else { tenths(burst_sum, requests) };
        table.add_row([
            guest.name.clone(),
            plain("connections"),
            plain("sessions"),
            requests.to_string(),
            bytes(number("bytes")),
            batch,
            plain("refused"),
            plain("broken"),
        ]);
    }
    table
}

/// Returns the table of the stages of each device, over all algorithms.
fn stages(report: &Report) -> Table {
    let mut table = Table::new(&["DEVICE", "STAGE", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"], &[2, 3, 4, 5, 6, 7]);
    let mut sums: HashMap<(&str, &str), Histogram> = HashMap::new();
    for row in &report.rows {
        for (stage, times) in &row.stages {
            sums.entry((row.device.as_deref().unwrap_or_default(), stage)).or_default().merge(&times.histogram());
        }
    }
    // List the devices in the order of their first rows.
    let mut seen = HashSet::new();
    let devices = report.rows.iter().filter_map(|row| row.device.as_deref()).filter(|device| seen.insert(*device));
    for device in devices {
        for stage in Stage::ALL.iter().map(|stage| stage.code()) {
            if let Some(sum) = sums.get(&(device, stage)).filter(|sum| sum.requests() > 0) {
                let Times { mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, .. } = Times::from(sum);
                let times = [mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(|time| duration(time as f64));
                table.add_row([device.to_owned(), stage.to_owned()].into_iter().chain(times));
            }
        }
    }
    table
}

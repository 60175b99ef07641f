//! `gantry exporter`: metrics of all processes for Prometheus.

mod esp;
mod http;
mod metrics;

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gantry_runtime::stats::{Watcher, can_see_all_pages};

use crate::args::Exporter;
use crate::io::replace;
use crate::output::{Failure, print_message};
use esp::DataPath;
use metrics::{ExtraLabels, Format};

/// A scrape reuses counters that are younger than this.
const MAX_AGE: Duration = Duration::from_millis(100);

/// The file for the textfile collector of node_exporter.
const FILE_NAME: &str = "gantry.prom";

/// The counters, and the time when they were read.
struct Readings {
    watch: Watcher,
    data_path: DataPath,
    read_at: Option<Instant>,
}

pub(crate) fn run(args: &Exporter) -> Result<(), Failure> {
    let readings =
        Mutex::new(Readings { watch: Watcher::default(), data_path: DataPath::new(&args.esp), read_at: None });
    let labels = if args.by_program { ExtraLabels::Program } else { ExtraLabels::None };
    let listener = args
        .listen
        .map(|address| TcpListener::bind(address).map_err(|error| Failure::at(format!("--listen {address}"), &error)));
    let listener = listener.transpose()?;
    if !can_see_all_pages() {
        print_message(
            "processes of other users are not visible without root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        );
    }
    refresh(&readings, Duration::ZERO)?;
    if let Some(listener) = &listener {
        print_message(&format!(
            "http://{}/metrics",
            listener.local_addr().map_err(|error| Failure::at("--listen", &error))?
        ));
    }
    thread::scope(|scope| {
        if let Some(listener) = &listener {
            scope.spawn(|| http::serve(listener, |format| format_metrics(&readings, format, labels)));
        }
        let mut written = None;
        loop {
            if let Some(folder) = &args.textfile
                && written.is_none_or(|at: Instant| at.elapsed() >= Duration::from_secs(args.every))
            {
                written = Some(Instant::now());
                let file = folder.join(FILE_NAME);
                let done = format_metrics(&readings, Format::Text, labels).and_then(|text| {
                    // The collector runs as another user.
                    replace(&file, 0o644, text.as_bytes()).map_err(|error| Failure::at(file.display(), &error))
                });
                if args.once {
                    return done;
                }
                // The disk may be full only for a while, so the exporter goes on.
                done.unwrap_or_else(|failure| print_message(&failure.to_string()));
            }
            // Programs that live for less than a second may be missed.
            thread::sleep(Duration::from_secs(1));
            refresh(&readings, Duration::ZERO).unwrap_or_else(|failure| print_message(&failure.to_string()));
        }
    })
}

/// Reads the counters, unless they are younger than `max_age`.
fn refresh(readings: &Mutex<Readings>, max_age: Duration) -> Result<(), Failure> {
    let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    if readings.read_at.is_none_or(|at| at.elapsed() >= max_age) {
        readings.watch.observe().map_err(|error| Failure::at("/proc", &error))?;
        readings.data_path.refresh();
        readings.read_at = Some(Instant::now());
    }
    Ok(())
}

/// Formats the current metrics.
fn format_metrics(readings: &Mutex<Readings>, format: Format, labels: ExtraLabels) -> Result<String, Failure> {
    refresh(readings, MAX_AGE)?;
    let readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    let processes = readings.watch.running().map(|watched| watched.page.pids.len()).sum();
    let mut data_path = String::new();
    readings.data_path.render(&mut data_path, format);
    Ok(metrics::render(&readings.watch.totals(), processes, &data_path, format, labels))
}

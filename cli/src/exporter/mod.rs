//! `gantry exporter`: metrics of all processes for Prometheus.

mod esp;
mod http;
mod metrics;

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gantry_runtime::stats::{Watch, sees_all};

use crate::args::Exporter;
use crate::io::replace;
use crate::output::{Failure, print_message};
use esp::DataPath;
use metrics::{Format, Labels};

/// A scrape reuses counters that are younger than this.
const FRESH: Duration = Duration::from_millis(100);

/// The file for the textfile collector of node_exporter.
const FILE: &str = "gantry.prom";

/// The counters, and the time when they were read.
struct Readings {
    watch: Watch,
    path: DataPath,
    at: Option<Instant>,
}

pub(crate) fn run(args: &Exporter) -> Result<(), Failure> {
    let readings = Mutex::new(Readings { watch: Watch::default(), path: DataPath::new(&args.esp), at: None });
    let labels = if args.by_program { Labels::Program } else { Labels::None };
    let listener = args
        .listen
        .map(|address| TcpListener::bind(address).map_err(|error| Failure::at(format!("--listen {address}"), &error)));
    let listener = listener.transpose()?;
    if !sees_all() {
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
            scope.spawn(|| http::serve(listener, |format| text(&readings, format, labels)));
        }
        let mut written = None;
        loop {
            if let Some(folder) = &args.textfile
                && written.is_none_or(|at: Instant| at.elapsed() >= Duration::from_secs(args.every))
            {
                written = Some(Instant::now());
                let file = folder.join(FILE);
                let done = text(&readings, Format::Text, labels).and_then(|text| {
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

/// Reads the counters, unless they are younger than `fresh`.
fn refresh(readings: &Mutex<Readings>, fresh: Duration) -> Result<(), Failure> {
    let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    if readings.at.is_none_or(|at| at.elapsed() >= fresh) {
        readings.watch.look().map_err(|error| Failure::at("/proc", &error))?;
        readings.path.refresh();
        readings.at = Some(Instant::now());
    }
    Ok(())
}

/// Formats the current metrics.
fn text(readings: &Mutex<Readings>, format: Format, labels: Labels) -> Result<String, Failure> {
    refresh(readings, FRESH)?;
    let readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    let processes = readings.watch.running().map(|watched| watched.live.pids.len()).sum();
    let mut path = String::new();
    readings.path.render(&mut path, format);
    Ok(metrics::render(&readings.watch.totals(), processes, &path, format, labels))
}

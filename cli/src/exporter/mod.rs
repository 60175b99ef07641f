//! `gantry exporter`: what all processes do, for Prometheus.

mod esp;
mod http;
mod metrics;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gantry_runtime::stats::{Watch, sees_all};

use crate::args::Exporter;
use crate::output::{Failure, say};
use esp::DataPath;
use metrics::{Format, Labels};

/// A scrape looks for itself unless somebody has just looked.
const FRESH: Duration = Duration::from_millis(100);

/// The file for the textfile collector of node_exporter.
const FILE: &str = "gantry.prom";

/// What was seen, and when.
struct Seen {
    watch: Watch,
    path: DataPath,
    at: Option<Instant>,
}

pub(crate) fn run(args: &Exporter) -> Result<(), Failure> {
    let seen = Mutex::new(Seen { watch: Watch::default(), path: DataPath::new(&args.esp), at: None });
    let labels = if args.by_program { Labels::Program } else { Labels::None };
    let listener = args
        .listen
        .map(|address| TcpListener::bind(address).map_err(|error| Failure::at(format!("--listen {address}"), &error)));
    let listener = listener.transpose()?;
    if !sees_all() {
        say("processes of other users are not seen: that takes root, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH");
    }
    look(&seen, Duration::ZERO)?;
    if let Some(listener) = &listener {
        say(&format!("http://{}/metrics", listener.local_addr().map_err(|error| Failure::at("--listen", &error))?));
    }
    thread::scope(|scope| {
        if let Some(listener) = &listener {
            scope.spawn(|| http::serve(listener, |format| text(&seen, format, labels)));
        }
        let mut written = None;
        loop {
            if let Some(folder) = &args.textfile
                && written.is_none_or(|at: Instant| at.elapsed() >= Duration::from_secs(args.every))
            {
                written = Some(Instant::now());
                let text = text(&seen, Format::Text, labels);
                let put =
                    |text: String| put(folder, &text).map_err(|error| Failure::at(folder.join(FILE).display(), &error));
                let done = text.and_then(put);
                if args.once {
                    return done;
                }
                // A disk that is full now may have room later.
                done.unwrap_or_else(|failure| say(&failure.to_string()));
            }
            // Programs that live for less than this are not seen.
            thread::sleep(Duration::from_secs(1));
            look(&seen, Duration::ZERO).unwrap_or_else(|failure| say(&failure.to_string()));
        }
    })
}

/// Looks, unless that was done so recently.
fn look(seen: &Mutex<Seen>, fresh: Duration) -> Result<(), Failure> {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.at.is_none_or(|at| at.elapsed() >= fresh) {
        seen.watch.look().map_err(|error| Failure::at("/proc", &error))?;
        seen.path.look();
        seen.at = Some(Instant::now());
    }
    Ok(())
}

/// The metrics as they are now.
fn text(seen: &Mutex<Seen>, format: Format, labels: Labels) -> Result<String, Failure> {
    look(seen, FRESH)?;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let processes = seen.watch.running().map(|watched| watched.live.pids.len()).sum();
    Ok(metrics::render(&seen.watch.totals(), processes, &seen.path, format, labels))
}

/// Puts the file in its place when all of it has been written: the collector must not read half of it.
fn put(folder: &Path, text: &str) -> io::Result<()> {
    let beside = folder.join(format!(".{FILE}.{}", std::process::id()));
    // What a process of this number left. Somebody who may write to the folder could put a link there, which is not followed.
    let _ = fs::remove_file(&beside);
    let write = || {
        // The collector is another user.
        OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?.write_all(text.as_bytes())?;
        fs::rename(&beside, folder.join(FILE))
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
}

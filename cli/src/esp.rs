//! `gantry esp`: serves the data path, runs IKE daemons with it, and shows its state.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use gantry_esp::{Options, Server};
use gantry_runtime::rights::variable;
use serde_json::Value;

use crate::args::{Esp, EspCommand, EspServe, Settings};
use crate::output::{Failure, Output, print_message};
use crate::program::program;
use crate::serve::ready;
use crate::status;
use crate::table::Table;
use crate::units::bytes;

pub(crate) fn run(args: &Esp, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    match &args.command {
        EspCommand::Serve(args) => serve(args, settings),
        EspCommand::Status { json, folder } => show_status(&folder.folder, *json, output),
        EspCommand::Exec { folder, command } => exec(&folder.folder, command),
        EspCommand::Clear => {
            let count =
                gantry_esp::clear_leftovers().map_err(|error| Failure::at("routes, rules and tables", &error))?;
            let summary = match count {
                0 => "no data path left routes, rules or tables behind".to_owned(),
                count => {
                    format!("{count} routes, rules and tables removed: packets pass as they would without a data path")
                }
            };
            output.write(&format!("{summary}\n"))
        }
    }
}

fn serve(args: &EspServe, settings: &Settings) -> Result<(), Failure> {
    let options = Options {
        device: args.tun.clone(),
        mtu: args.mtu,
        port: args.port,
        queues: args.queues.into(),
        protected: args.protect.clone(),
        folder: args.folder.folder.clone(),
    };
    let server = Server::new(settings.open()?, options).map_err(|error| Failure::Failed(describe_failure(&error)))?;
    print_message(&format!("serving ESP by {}; daemons find it at {}", server.device(), server.path().display()));
    for sentence in server.missing_guards() {
        print_message(&sentence);
    }
    // Ignore a failure: the service manager that started this process may no longer listen.
    let _ = ready();
    let Err(error) = server.run();
    Err(Failure::Failed(error.to_string()))
}

/// Describes a failure, with advice if the cause is known.
fn describe_failure(failure: &gantry_esp::ServerError) -> String {
    let advice = match failure.error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => ": this needs CAP_NET_ADMIN, and write access to the folder",
        Some(libc::ENOENT | libc::ENODEV) if failure.what.contains("tun") => ": modprobe tun",
        Some(libc::EBUSY) => ": another program has a device of this name",
        Some(libc::EADDRINUSE) if failure.what.contains("port") => {
            ": it is in use by a daemon that was not started by `gantry esp exec` or that runs as another user"
        }
        _ => "",
    };
    format!("{failure}{advice}")
}

/// Replaces this process by a program that uses the data path in place of the kernel's ESP.
fn exec(folder: &Path, command: &[OsString]) -> Result<(), Failure> {
    let library = find_library().ok_or_else(|| {
        Failure::Failed(format!(
            "there is no {LIBRARY_NAME} beside gantry or in lib/gantry of its prefix; `make install` installs it"
        ))
    })?;
    let mut preload = variable("LD_PRELOAD").filter(|others| !others.is_empty()).map_or_else(OsString::new, |others| {
        let mut others = others;
        others.push(":");
        others
    });
    preload.push(library);
    let [name, arguments @ ..] = command else { return Ok(()) };
    let mut command = program(name)?;
    let error = command.args(arguments).env("LD_PRELOAD", preload).env("GANTRY_XFRM", folder.join("xfrm")).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    print_message(&format!("{}: {error}", name.display()));
    Err(Failure::Status(code))
}

const LIBRARY_NAME: &str = "libgantry_xfrm.so";

/// Finds the preload library: beside the program, where cargo puts it, or where `make install` and packages put it.
fn find_library() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent()?;
    let candidates = [
        folder.join(LIBRARY_NAME),
        folder.join("../lib/gantry").join(LIBRARY_NAME),
        folder.join("deps").join(LIBRARY_NAME),
    ];
    candidates.into_iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok())
}

fn show_status(folder: &Path, json: bool, output: &mut Output) -> Result<(), Failure> {
    let path = folder.join("status");
    let (_, bytes) = status::ask(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Failure::Failed(format!("{}: no data path is running; `gantry esp serve` starts one", path.display()))
        }
        _ => Failure::at(path.display(), &error),
    })?;
    let report: Value =
        serde_json::from_slice(&bytes).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    if json { output.json(&report) } else { output.write(&format_report(&report)) }
}

/// Formats a report as text.
fn format_report(report: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let counters = &report["counters"];
    let mut out = format!(
        "{} on UDP port {}: {} associations in, {} out, {} policies\n",
        text(&report["device"]),
        report["port"],
        report["associations"]["in"],
        report["associations"]["out"],
        report["policies"]
    );
    for (what, side) in [("sent", "sent"), ("received", "received")] {
        let count = |name: &str| number(&counters[format!("{side}_{name}")]);
        let batches = count("batches").max(1);
        #[allow(clippy::cast_precision_loss, reason = "a mean for people")]
        let mean = count("packets") as f64 / batches as f64;
        let _ = writeln!(
            out,
            "{what}: {} packets, {}, {:.1} packets in a batch",
            count("packets"),
            bytes(count("bytes")),
            mean
        );
    }
    // First words of the counters of packets that passed. All other counters count losses.
    let passed = ["sent", "received", "fragmented"];
    let others: Vec<String> = counters
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let is_total = passed.iter().any(|side| name.starts_with(side));
            (!is_total && number(value) > 0).then(|| format!("{} {}", number(value), name.replace('_', " ")))
        })
        .collect();
    if !others.is_empty() {
        let _ = writeln!(out, "not passed: {}", others.join(", "));
    }
    let mut devices = Table::new(&["DEVICE", "ALGORITHM", "OPERATION", "REQUESTS", "BYTES"], &[3, 4]);
    for row in report["devices"].as_array().into_iter().flatten().filter(|row| number(&row["requests"]) > 0) {
        let cells = ["device", "algorithm", "operation"].map(|name| text(&row[name]));
        devices.add_row(cells.into_iter().chain([number(&row["requests"]).to_string(), bytes(number(&row["bytes"]))]));
    }
    let _ = write!(out, "\n{}", devices.render());
    if let Some(all) = report["sas"].as_array() {
        let mut sas = Table::new(&["SA", "SPI", "PEER", "ALGORITHM", "PACKETS", "BYTES", "REFUSED"], &[4, 5, 6]);
        for sa in all {
            let cells = ["direction", "spi", "peer", "algorithm"].map(|name| text(&sa[name]));
            let refused = number(&sa["replayed"]) + number(&sa["forged"]);
            let numbers = [number(&sa["packets"]).to_string(), bytes(number(&sa["bytes"])), refused.to_string()];
            sas.add_row(cells.into_iter().chain(numbers));
        }
        let _ = write!(out, "\n{}", sas.render());
    }
    out
}

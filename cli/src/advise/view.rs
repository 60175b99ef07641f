//! Formats the report as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::machine::MachineReport;
use super::program::{self, ProgramReport, Subject, openssl_name};
use super::summary::{self, Assessment, format_size, join_names};
use crate::args::Advise;
use crate::openssl::measured::Cell;
use crate::output::{self, Failure};
use crate::table::Table;
use crate::terminal::{reading_width, wrap};
use crate::units::round;

pub(super) fn text(args: &Advise, machine: Option<&MachineReport>, program: Option<&ProgramReport>) -> String {
    let mut text = String::new();
    if let Some(program) = program {
        text += &program_text(program, machine);
    }
    if let Some(machine) = machine {
        text += &machine_text(machine, program);
        if args.verbose {
            text += "\n";
            text += &table(machine);
        }
    }
    let notes = program.map(|program| &program.reasons[..]).or(machine.map(|machine| &machine.notes[..]));
    let notes = notes.unwrap_or_default();
    if !notes.is_empty() && machine.is_some() {
        text += "\n";
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn program_text(program: &ProgramReport, machine: Option<&MachineReport>) -> String {
    let mut text = match &program.subject {
        Subject::Command { name, status } => format!("\n{name} ended with {status}.\n"),
        Subject::Process { seconds, .. } => format!("{}, in {seconds} s:\n", program.name()),
    };
    if program.loaded.is_empty() {
        text += "It did not load gantry.\n";
    } else if program.operations.is_empty() {
        let _ = writeln!(text, "{} loaded gantry, but made no OpenSSL requests.", program_names(&program.loaded));
    } else {
        let columns = ["ALGORITHM", "OPERATION", "HOST", "BYTES", "DEVICES", "BYTES", "GAIN", "REMARK"];
        let mut table = Table::new(&columns, &[2, 3, 4, 5, 6]);
        for counts in &program.operations {
            let numbers = [counts.host.requests, counts.host.bytes, counts.devices.requests, counts.devices.bytes];
            let (gain, remark) = machine.map(|machine| program::comparison(machine, counts)).unwrap_or_default();
            let names = [openssl_name(&counts.algorithm, machine), counts.operation.clone()];
            table.add_row(names.into_iter().chain(numbers.map(|number| number.to_string())).chain([gain, remark]));
        }
        let _ = writeln!(text, "OpenSSL requests of {}:\n{}", program_names(&program.loaded), table.render());
        let sentences = machine.map(|machine| program.sentences(machine)).unwrap_or_default();
        text.extend(sentences.iter().map(|sentence| wrapped(sentence)));
    }
    if let Subject::Process { .. } = program.subject {
        text += "In a running process, gantry sees only requests that the configuration serves; gantry advise -- PROGRAM sees all.\n";
    }
    if program.kernel_tls > 0 {
        let _ = writeln!(
            text,
            "Meanwhile programs of this machine gave the kernel {} directions of TLS connections (kTLS), which encrypts their records.",
            program.kernel_tls
        );
    }
    text
}

/// Wraps a sentence to the terminal's width; lines after the first are indented.
fn wrapped(sentence: &str) -> String {
    wrap(sentence, reading_width(), "  ").join("\n") + "\n"
}

/// Lists programs, each once.
fn program_names(programs: &[String]) -> String {
    let mut names = programs.to_vec();
    names.sort_unstable();
    names.dedup();
    join_names(&names)
}

fn machine_text(machine: &MachineReport, program: Option<&ProgramReport>) -> String {
    let mut text = String::new();
    if program.is_none() {
        let _ = writeln!(text, "{} on {}", machine.measurements.release, machine.cpu());
        match &machine.configuration {
            Some(path) => {
                let _ = writeln!(text, "Configuration: {}", path.display());
            }
            None => {
                text += "No configuration activates gantry: this is the result after gantry openssl config --system.\n";
            }
        }
        text += "A gain is the CPU time of OpenSSL divided by that of the device: 2x is twice as fast.\n\n";
        let mut table =
            Table::new(&["USE", "ALGORITHM", "SERVED BY", "GAIN", "REMARK"], &[]).with_optional_columns(&[0]);
        for line in summary::summarize(&machine.measurements.rows) {
            let summary::SummaryLine { purpose, algorithm, served_by, gain, remark } = line;
            table.add_row([purpose.to_owned(), algorithm, served_by, gain, remark.to_owned()]);
        }
        text += &table.render();
    }
    let lines = machine.lines();
    if !lines.is_empty() {
        let gantrys = "[gantry_provider] of openssl.cnf";
        let _ = write!(text, "\nTo gain more, in the section {gantrys}:\n");
        for line in &lines {
            let _ = writeln!(text, "  {line}");
        }
        if machine.configuration.is_none() {
            text += "gantry openssl config --system writes them there.\n";
        }
    } else if program.is_none() {
        text += "\nNo line of openssl.cnf would gain more.\n";
    }
    let noise = machine.noise();
    if noise.is_too_much() {
        let _ = writeln!(
            text,
            "\nThis machine was too noisy: half of the rounds differ by more than {:.0} % from each other. Repeat when it is idle.",
            noise.spread * 100.0
        );
    } else if noise.stolen > 0.2 {
        let _ = writeln!(
            text,
            "\nOther programs had {:.0} % of the CPU meanwhile; gains count the CPU time of this one.",
            noise.stolen * 100.0
        );
    }
    text
}

/// Returns the table of all measurements.
fn table(machine: &MachineReport) -> String {
    const SIZES: [u64; 3] = [64, 1 << 10, 16 << 10];
    let columns = ["ALGORITHM", "NID", "SERVED", "OPERATION", "64 B", "1 KiB", "16 KiB", "DEVICE", "WHY"];
    let mut table = Table::new(&columns, &[1, 4, 5, 6]);
    for row in &machine.measurements.rows {
        let served = if row.served { "yes" } else { "no" };
        for operation in row.operations() {
            let cells: Vec<&Cell> = row.cells_of(operation).collect();
            let gain = |place: usize| {
                let cell = cells.get(place);
                // Derived keys have other sizes than the column's.
                let bytes = cell.map(|cell| cell.bytes).filter(|bytes| *bytes != SIZES[place]);
                let at = bytes.map_or(String::new(), |bytes| format!(" at {}", format_size(bytes)));
                cell.and_then(|cell| cell.gain()).map_or_else(|| "-".to_owned(), |gain| format!("{gain:.2}x{at}"))
            };
            let mut devices: Vec<String> = Vec::new();
            for cell in &cells {
                let from = if devices.is_empty() {
                    cell.device.clone()
                } else {
                    format!("{} from {}", cell.device, format_size(cell.bytes))
                };
                if devices.last().is_none_or(|last| last.split(' ').next() != Some(&cell.device)) {
                    devices.push(from);
                }
            }
            table.add_row([
                row.name.clone(),
                row.nid.to_string(),
                served.to_owned(),
                operation.to_owned(),
                gain(0),
                gain(1),
                gain(2),
                devices.join(", "),
                cells.last().map_or(String::new(), |cell| cell.why.clone()),
            ]);
        }
    }
    table.render()
}

pub(super) fn json(machine: Option<&MachineReport>, program: Option<&ProgramReport>) -> Result<String, Failure> {
    output::json(&value(machine, program)?)
}

fn value(machine: Option<&MachineReport>, program: Option<&ProgramReport>) -> Result<Value, Failure> {
    let mut all = json!({ "gantry": env!("CARGO_PKG_VERSION") });
    if let Some(machine) = machine {
        let noise = machine.noise();
        all["openssl"] = machine.measurements.release.trim_start_matches("openssl ").into();
        all["cpu"] = machine.cpu().into();
        all["configuration"] = plain(&machine.configuration)?;
        all["noise"] = json!({
            "spread": round(noise.spread, 4),
            "stolen": round(noise.stolen, 4),
            "too_noisy": noise.is_too_much(),
        });
        all["lines"] = plain(&machine.lines())?;
        all["notes"] = plain(&machine.notes)?;
        let mut rows = Vec::new();
        // With a program, only rows of its algorithms have cells.
        for row in machine.measurements.rows.iter().filter(|row| program.is_none() || !row.cells.is_empty()) {
            let mut value = plain(row)?;
            value["use"] = summary::purpose_of(row).into();
            value["standing"] = Assessment::of(row).code().into();
            rows.push(value);
        }
        all["algorithms"] = rows.into();
    }
    if let Some(program) = program {
        all["program"] = json!({
            "subject": plain(&program.subject)?,
            "loaded": program.loaded,
            "asked": plain(&program.operations)?,
            "cost": plain(&machine.map(|machine| program.cost(machine)))?,
            "reasons": program.reasons,
            "kernel_tls": program.kernel_tls,
        });
    }
    Ok(all)
}

fn plain(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openssl::measured::tests::row;
    use crate::openssl::measured::{Measurements, Row};

    /// Makes rows of the provider's algorithms: ciphers of each key size, signatures, and PBKDF2 with each hash function.
    fn every_row() -> Vec<Row> {
        let sizes = |mode: &str, gains: [f64; 3]| {
            [128, 192, 256].map(|bits| {
                let cells = [("encrypt", 64, gains[0]), ("encrypt", 1024, gains[1]), ("decrypt", 64, gains[2])];
                let cells = cells.map(|(operation, bytes, gain)| {
                    (operation, bytes, if gain > 1.0 { "lanes" } else { "host" }, gain)
                });
                row("CIPHERS", &format!("AES-{bits}-{mode}"), mode != "CBC", &cells)
            })
        };
        let mut rows: Vec<Row> = [
            sizes("GCM", [1.2, 1.9, 1.5]),
            sizes("XTS", [0.9, 1.3, 1.4]),
            sizes("ECB", [0.9, 0.9, 0.9]),
            sizes("CBC", [1.3, 1.4, 0.9]),
            sizes("CTR", [1.3, 1.4, 1.5]),
        ]
        .into_iter()
        .flatten()
        .collect();
        for (key, name) in [
            ("CIPHERS", "DES-EDE3-CBC"),
            ("CIPHERS", "ChaCha20"),
            ("CIPHERS", "ChaCha20-Poly1305"),
            ("SIGNATURES", "ED25519"),
            ("KEY_EXCHANGE", "X25519"),
            ("KDFS", "PBKDF2-SHA1"),
            ("KDFS", "PBKDF2-SHA256"),
            ("KDFS", "PBKDF2-SHA512"),
        ] {
            rows.push(row(key, name, true, &[("derive", 64, "software", 1.6)]));
        }
        for name in ["SHA2-128s", "SHA2-128f", "SHAKE-256s", "SHAKE-256f"] {
            let served = row("SIGNATURES", &format!("SLH-DSA-{name}"), false, &[("sign", 64, "software", 0.0)]);
            rows.push(Row { served: true, ..served });
        }
        rows
    }

    #[test]
    fn the_report_about_a_machine_is_short() {
        let measurements = Measurements { release: "openssl 3.5".to_owned(), devices: Vec::new(), rows: every_row() };
        let machine = MachineReport { measurements, configuration: None, notes: Vec::new() };
        let text = machine_text(&machine, None);
        assert!(text.lines().count() <= 30, "{text}");
        for line in [
            "AES-GCM            OpenSSL",
            "SLH-DSA            software   not measured",
            "  SIGNATURES = ED25519,SLH-DSA-SHA2-128s,",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn sentences_fit_a_terminal() {
        assert_eq!(wrapped("one two"), "one two\n");
        let long = wrapped(&"word ".repeat(40));
        assert!(long.lines().all(|line| line.len() <= 80) && long.lines().skip(1).all(|line| line.starts_with("  w")));
        assert_eq!(long.split_whitespace().count(), 40);
    }
}

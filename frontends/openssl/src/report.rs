//! Reports of measurements, which other processes read.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr;

use gantry_core::{Algorithm, RegisteredDevice};
use gantry_digest::Algorithm as Hash;

use crate::measure::{self, MeasurementCell};
use crate::provider::Provider;
use crate::table::{KEY_PAIR_ALGORITHMS, Mode, Row};
use crate::{abi, config};

/// The report that `gantry advise` and `gantry openssl config` read. It begins with a line for OpenSSL's release, and one for each device.
/// A line for each algorithm follows, each with further lines for its operations and sizes. Fields are separated by tabs.
struct Report {
    text: String,
}

impl Report {
    fn push_device(&mut self, device: &RegisteredDevice) {
        let about = device.details().map_or("", |details| &details.description);
        let validated = if device.is_validated() { ", a FIPS 140 validated module" } else { "" };
        let _ = writeln!(self.text, "device\t{}\t{about}{validated}", device.name());
    }

    /// `key` is the configuration key whose list may name the algorithm.
    fn push_row(&mut self, key: &str, name: &str, row: &Row, algorithm: Option<Algorithm>, served: bool) {
        let yes = |is: bool| if is { "yes" } else { "" };
        let gantry_name = algorithm.map_or("", Algorithm::name);
        let (served, measured) = (yes(served), yes(row.is_measured()));
        let _ =
            writeln!(self.text, "row\t{key}\t{name}\t{}\t{}\t{gantry_name}\t{served}\t{measured}", row.name, row.nid);
    }

    fn push_cell(&mut self, cell: &MeasurementCell) {
        let MeasurementCell { operation, bytes, device, reason, best } = cell;
        let _ = write!(self.text, "cell\t{}\t{bytes}\t{device}\t{reason}", operation.name());
        if let Some((name, best)) = best {
            let numbers = [best.default_ns, best.device_ns, best.gain, best.spread, best.stolen];
            let _ = write!(self.text, "\t{name}");
            for number in numbers {
                let _ = write!(self.text, "\t{number:.4}");
            }
        }
        self.text.push('\n');
    }
}

/// Returns the report of served algorithms, with measurements. `only` names the algorithms to measure, separated by commas; `None` measures
/// all.
pub(crate) fn measurement_report(provider: &Provider, only: Option<&str>) -> String {
    const SIZES: [usize; 3] = [64, 1024, 16384];
    // The hashes of PBKDF2, and the lengths of its keys in bytes. Keys of 32 bytes are usual; keys of 128 bytes have two blocks or more.
    const HASHES: [Hash; 3] = [Hash::Sha1, Hash::Sha256, Hash::Sha512];
    const LENGTHS: [usize; 2] = [32, 128];
    let (major, minor) = provider.version;
    let mut report = Report { text: format!("openssl {major}.{minor}\n") };
    provider.framework().iter().for_each(|framework| {
        framework.caller_device.gantry().devices().iter().for_each(|device| report.push_device(device));
    });
    // In the order of `CONFIG_KEYS`.
    let shown = [abi::OSSL_OP_CIPHER, abi::OSSL_OP_SIGNATURE, abi::OSSL_OP_KEYEXCH, abi::OSSL_OP_KDF];
    let served =
        shown.iter().enumerate().filter_map(|(key, operation)| Some((key, provider.served_algorithms(*operation)?)));
    for (key, wrapped) in served.flat_map(|(key, served)| served.wrapped.iter().flatten().map(move |row| (key, row))) {
        let row = wrapped.row;
        let served = provider.settings.configuration_serves(row, provider.version);
        // The cost of these operations does not depend on the size.
        let sizes = if KEY_PAIR_ALGORITHMS.iter().any(|pair| ptr::eq(pair, row)) { &SIZES[..1] } else { &SIZES };
        let is_requested = |name: &str, gantry_name: &str| {
            only.is_none_or(|only| only.split(',').any(|one| [name, row.name, gantry_name].contains(&one)))
        };
        let mut add = |name: &str, algorithm: Option<Algorithm>| {
            report.push_row(config::CONFIG_KEYS[key].0, name, row, algorithm, served);
            let requested = algorithm.filter(|requested| is_requested(name, requested.name()));
            let Some((framework, algorithm)) = provider.framework().zip(requested) else { return };
            for cell in &measure::measure_cells(framework, algorithm, sizes) {
                report.push_cell(cell);
            }
        };
        match row.mode {
            // HKDF is not measured: its keys are a few blocks.
            Mode::Kdf(_) => {
                let Some(default_kdf) = wrapped.default_pbkdf2() else { continue };
                for hash in HASHES {
                    let name = format!("{}-{}", row.name, hash.to_string().to_uppercase());
                    report.push_row(config::CONFIG_KEYS[key].0, &name, row, None, served);
                    if let Some(framework) = provider.framework().filter(|_| is_requested(&name, "")) {
                        let cell = |bytes| measure::measure_derivation_cell(framework, &default_kdf, hash, bytes);
                        LENGTHS.into_iter().filter_map(cell).for_each(|cell| report.push_cell(&cell));
                    }
                }
            }
            _ => add(row.name, row.algorithm),
        }
    }
    report.text
}

/// Writes a new file, and follows no link that another user of the folder may have put there. If that fails, the reader of the report finds
/// no file.
pub(crate) fn write_new_file(path: &Path, text: &str) {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

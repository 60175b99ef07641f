//! Queries the module for its algorithms and their gains on this machine: `openssl` loads the module, which measures and writes a file.

use std::path::Path;
use std::process::Stdio;

use gantry_openssl::{MEASURED_ALGORITHMS_VARIABLE, REPORT_FILE_VARIABLE};
use gantry_runtime::bounded;
use serde::Serialize;

use crate::output::Failure;
use crate::program::program;
use crate::temporary::{Folder, run_with_statistics};

/// The least gain at which an algorithm is proposed.
pub(crate) const MIN_GAIN: f64 = 1.15;

/// The name that stands for OpenSSL itself, the host, among the devices.
pub(crate) const HOST: &str = "host";

/// The answer of the module.
#[derive(Default)]
pub(crate) struct Measurements {
    pub(crate) release: String,
    /// Descriptions of the devices, by name.
    pub(crate) devices: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(crate) struct Row {
    /// The key of the configuration for the algorithm.
    pub(crate) key: String,
    pub(crate) name: String,
    /// The algorithm's name in the value of `key`.
    #[serde(skip)]
    pub(crate) config_name: String,
    /// OpenSSL's number of the algorithm.
    pub(crate) nid: u32,
    /// Gantry's name, by which requests are counted.
    #[serde(rename = "algorithm")]
    pub(crate) gantry_name: String,
    /// True if gantry serves the algorithm under the queried configuration.
    pub(crate) served: bool,
    /// True if the measured requests represent the whole cost: no keys or contexts are left out.
    #[serde(skip)]
    pub(crate) covers_whole_cost: bool,
    pub(crate) cells: Vec<Cell>,
}

/// One operation with requests of one size.
#[derive(Serialize)]
pub(crate) struct Cell {
    pub(crate) operation: String,
    pub(crate) bytes: u64,
    /// The device that serves the requests once the algorithm is configured; `why` is the reason.
    pub(crate) device: String,
    pub(crate) why: String,
    /// The fastest device other than the host; `None` if there is none, or if it cannot be measured alone.
    pub(crate) best: Option<Comparison>,
}

/// A device compared with the host.
#[derive(Serialize)]
pub(crate) struct Comparison {
    pub(crate) device: String,
    pub(crate) host_ns: f64,
    pub(crate) device_ns: f64,
    /// The median gain of the rounds.
    pub(crate) gain: f64,
    /// The interquartile range of the gain as a share of the median.
    pub(crate) spread: f64,
    /// The share of the time in which other programs had this CPU.
    pub(crate) stolen: f64,
}

impl Row {
    pub(crate) fn cells_of(&self, operation: &str) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.operation == operation)
    }

    /// Returns the operations in their order.
    pub(crate) fn operations(&self) -> Vec<&str> {
        let mut operations: Vec<&str> = self.cells.iter().map(|cell| &*cell.operation).collect();
        operations.dedup();
        operations
    }

    /// True if serving the algorithm pays.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.cells.iter().any(Cell::is_worth_it)
    }
}

impl Cell {
    pub(crate) fn is_on_device(&self) -> bool {
        self.device != HOST
    }

    pub(crate) fn gain(&self) -> Option<f64> {
        self.best.as_ref().map(|best| best.gain)
    }

    /// True if the device is faster by enough, even after half of the spread is subtracted.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.is_on_device() && self.best.as_ref().is_some_and(|best| best.gain * (1.0 - best.spread / 2.0) >= MIN_GAIN)
    }
}

/// Queries the module under this configuration about the algorithms in `only`, a list of any of their names, or about all algorithms. The
/// inner error has the messages of the module, if `openssl` did not load it.
pub(crate) fn query_module(
    configuration: &Path,
    folder: &Folder,
    only: Option<&str>,
) -> Result<Result<Measurements, Vec<String>>, Failure> {
    let mut command = program("openssl")?;
    let file = folder.path().join("measured");
    command.args(["list", "-providers"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("OPENSSL_CONF", configuration).env(REPORT_FILE_VARIABLE, &file);
    command
        .env_remove("GANTRY_DISABLE")
        .env_remove(MEASURED_ALGORITHMS_VARIABLE)
        .envs(only.map(|only| (MEASURED_ALGORITHMS_VARIABLE, only)));
    let (_, received) = run_with_statistics(&mut command).map_err(|failure| match failure {
        // The reason why `openssl` cannot be run has been printed.
        Failure::Status(_) => Failure::Reported,
        other => other,
    })?;
    Ok(bounded::read_to_string(&file).map(|text| parse(&text)).map_err(|_| received.problem_lines().collect()))
}

fn parse(text: &str) -> Measurements {
    let mut measurements = Measurements::default();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["device", name, about] => measurements.devices.push((name.to_owned(), about.to_owned())),
            ["row", key, name, config_name, nid, gantry_name, served, gains] => measurements.rows.push(Row {
                key: key.to_owned(),
                name: name.to_owned(),
                config_name: config_name.to_owned(),
                nid: nid.parse().unwrap_or(0),
                gantry_name: gantry_name.to_owned(),
                served: served == "yes",
                covers_whole_cost: gains == "yes",
                cells: Vec::new(),
            }),
            ["cell", operation, bytes, device, why, ref best @ ..] => {
                let cell = Cell {
                    operation: operation.to_owned(),
                    bytes: bytes.parse().unwrap_or(0),
                    device: device.to_owned(),
                    why: why.to_owned(),
                    best: parse_comparison(best),
                };
                if let Some(row) = measurements.rows.last_mut() {
                    row.cells.push(cell);
                }
            }
            [release] => release.clone_into(&mut measurements.release),
            _ => {}
        }
    }
    measurements
}

fn parse_comparison(fields: &[&str]) -> Option<Comparison> {
    let [device, numbers @ ..] = fields else { return None };
    let numbers: Vec<f64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [host_ns, device_ns, gain, spread, stolen] = numbers[..] else { return None };
    Some(Comparison { device: (*device).to_owned(), host_ns, device_ns, gain, spread, stolen })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes a row whose cells are `(operation, bytes, device, gain)`; a gain of 0 is none.
    pub(crate) fn row(key: &str, name: &str, covers_whole_cost: bool, cells: &[(&str, u64, &str, f64)]) -> Row {
        let best = |gain: f64| {
            let (device, host_ns) = ("x".to_owned(), 1000.0);
            (gain > 0.0).then(|| Comparison {
                device,
                host_ns,
                device_ns: host_ns / gain,
                gain,
                spread: 0.0,
                stolen: 0.0,
            })
        };
        let cell = |&(operation, bytes, device, gain): &(&str, u64, &str, f64)| {
            let [operation, device, why] = [operation, device, "measured"].map(str::to_owned);
            Cell { operation, bytes, device, why, best: best(gain) }
        };
        let (key, gantry_name, name, config_name) =
            (key.to_owned(), name.to_lowercase(), name.to_owned(), name.to_owned());
        let cells = cells.iter().map(cell).collect();
        Row { key, name, config_name, nid: 1, gantry_name, served: false, covers_whole_cost, cells }
    }

    #[test]
    fn lines_of_the_module_are_read() {
        let parsed = parse(
            "openssl 3.0\ndevice\tlanes\teight lanes\nrow\tCIPHERS\tAES-128-GCM\tAES-128-GCM\t895\taes-128-gcm\tyes\tyes\n\
             cell\tseal\t64\tlanes\tmeasured\tlanes\t300.0\t240.0\t1.25\t0.01\t0.5\ncell\topen\t64\thost\tonly-choice\n\
             nonsense\tof\ta later\nrow\tCIPHERS\tAES-128-ECB\tAES-128-ECB\t418\taes-128-ecb\t\t\n",
        );
        assert_eq!((&*parsed.release, parsed.devices.len(), parsed.rows.len()), ("openssl 3.0", 1, 2));
        let row = &parsed.rows[0];
        assert_eq!((&*row.key, &*row.name, row.nid, &*row.gantry_name), ("CIPHERS", "AES-128-GCM", 895, "aes-128-gcm"));
        assert!(row.served && row.covers_whole_cost && !parsed.rows[1].served);
        assert_eq!(row.operations(), ["seal", "open"]);
        assert_eq!(row.cells.iter().map(Cell::gain).collect::<Vec<_>>(), [Some(1.25), None]);
        assert!(row.cells[0].is_worth_it() && row.cells[0].is_on_device() && !row.cells[1].is_on_device());
    }
}

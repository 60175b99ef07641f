//! `gantry tune`: measures the devices, and shows the sizes at which each device is the fastest.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "52 bits are more than any size has")]

use std::fs;

use gantry_core::{Algorithm, DeviceState, Gantry, Kind, Operation, RegisteredDevice};
use serde::Serialize;

use crate::args::{self, Settings, Tune};
use crate::machine::Machine;
use crate::output::{Failure, Output, check_writable, print_message, progress_bar};
use crate::plot::lines::{self, Sample};
use crate::speed::accepts_size;
use crate::table::Table;

/// Numbers of requests in flight in the table.
const TABLE_BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 64];
/// Numbers of requests in flight in the drawing.
const PLOT_BATCHES: [usize; 3] = [1, 4, 16];
/// Largest measured size, which stands for all larger ones.
const LARGEST_SIZE: usize = 64 << 10;

/// Sizes at which a device is the fastest, in the JSON.
#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    operation: &'static str,
    device: String,
    /// Requests in flight.
    batch: usize,
    /// Ranges of sizes in bytes; the end is `null` if there is no limit.
    fastest: Vec<(usize, Option<usize>)>,
}

pub(crate) fn run(args: &Tune, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let gantry = settings.open()?;
    let has_algorithm_names = !args.algorithms.is_empty();
    let algorithms = if has_algorithm_names { args::algorithms(&args.algorithms)? } else { Algorithm::all().collect() };
    let operations =
        |&algorithm: &Algorithm| algorithm.kind().operations().iter().map(move |operation| (algorithm, *operation));
    let pairs: Vec<(Algorithm, Operation)> = algorithms
        .iter()
        .flat_map(operations)
        .filter(|pair| has_algorithm_names || devices_offering(&gantry, *pair).len() > 1)
        .collect();
    if let Some(file) = &args.plot {
        check_writable(file)?;
    }
    let bar = progress_bar(pairs.len() as u64);
    let mut rows = Vec::new();
    let mut samples = Vec::new();
    for &pair in &pairs {
        bar.set_message(format!("{} {}", pair.0, pair.1));
        gantry.calibrate(pair.0, pair.1, true);
        bar.inc(1);
        let devices = devices_with_costs(&gantry, pair);
        for device in &devices {
            rows.extend(TABLE_BATCHES.map(|batch| row(pair, device, &devices, batch)));
            samples.extend(PLOT_BATCHES.iter().flat_map(|batch| plot_samples(pair, device, *batch)));
        }
    }
    bar.finish_and_clear();
    gantry.warnings().iter().for_each(|warning| print_message(warning));
    if let Some(file) = &args.plot {
        fs::write(file, lines::draw("gantry tune", &samples, &Machine::of_this_machine(&gantry)))
            .map_err(|error| Failure::at(file.display(), &error))?;
    }
    if args.json { output.json(&rows) } else { output.write(&table(&rows)) }
}

/// Returns the devices that offer an operation.
fn devices_offering(gantry: &Gantry, (algorithm, operation): (Algorithm, Operation)) -> Vec<&RegisteredDevice> {
    let offers = |device: &&RegisteredDevice| {
        let capability = device.capability(algorithm);
        device.state() == DeviceState::Ready && capability.is_some_and(|able| able.operations.contains(&operation))
    };
    gantry.devices().iter().filter(offers).collect()
}

/// Returns the devices that offer an operation and have known costs.
fn devices_with_costs(gantry: &Gantry, pair: (Algorithm, Operation)) -> Vec<&RegisteredDevice> {
    let has_costs =
        |device: &&RegisteredDevice| device.costs(pair.0, pair.1).is_some_and(gantry_core::route::Costs::is_known);
    devices_offering(gantry, pair).into_iter().filter(has_costs).collect()
}

fn estimated_ns(
    device: &RegisteredDevice,
    (algorithm, operation): (Algorithm, Operation),
    batch: usize,
    bytes: usize,
) -> f32 {
    device.costs(algorithm, operation).map_or(f32::INFINITY, |costs| costs.estimate(batch, bytes).wall_ns)
}

/// Returns sizes that grow by about an eighth.
fn sizes(algorithm: Algorithm) -> impl Iterator<Item = usize> {
    let grown = |bytes: &usize| Some(bytes + (bytes / 8).next_multiple_of(2).max(2));
    let sizes = std::iter::successors(Some(16), grown).take_while(|bytes| *bytes < LARGEST_SIZE).chain([LARGEST_SIZE]);
    // Block ciphers need whole blocks.
    let hashed = matches!(algorithm.kind(), Kind::Digest | Kind::Mac);
    let block = if hashed { 1 } else { algorithm.info().block.max(1) };
    let mut last = 0;
    sizes.map(move |bytes| bytes.next_multiple_of(block)).filter(move |bytes| {
        let new = *bytes != last;
        last = *bytes;
        new && accepts_size(algorithm, *bytes)
    })
}

fn row(pair: (Algorithm, Operation), device: &RegisteredDevice, devices: &[&RegisteredDevice], batch: usize) -> Row {
    let mut fastest: Vec<(usize, Option<usize>)> = Vec::new();
    let mut won_before = false;
    for bytes in sizes(pair.0) {
        let mine = estimated_ns(device, pair, batch, bytes);
        let others = devices.iter().filter(|other| other.name() != device.name());
        let wins = others.map(|other| estimated_ns(other, pair, batch, bytes)).all(|other| mine < other);
        match (wins, won_before) {
            (true, false) => fastest.push((bytes, Some(bytes))),
            (true, true) => {
                if let Some(last) = fastest.last_mut() {
                    last.1 = Some(bytes);
                }
            }
            (false, _) => {}
        }
        won_before = wins;
    }
    if let Some(last) = fastest.last_mut()
        && last.1.is_some_and(|end| end >= LARGEST_SIZE)
    {
        last.1 = None;
    }
    let (algorithm, operation) = (pair.0.name(), pair.1.name());
    Row { algorithm, operation, device: device.name().to_owned(), batch, fastest }
}

fn plot_samples(pair: (Algorithm, Operation), device: &RegisteredDevice, batch: usize) -> Vec<Sample> {
    let (algorithm, operation) = (pair.0.name(), pair.1.name());
    let sample = |bytes: usize| {
        let mb_per_s = (bytes * batch) as f64 / f64::from(estimated_ns(device, pair, batch, bytes)) * 1e3;
        Sample {
            algorithm,
            operation,
            device: device.name().to_owned(),
            bytes,
            mode: format!("batch {batch}"),
            mb_per_s,
        }
    };
    (4..=16).map(|power| 1 << power).filter(|bytes| accepts_size(pair.0, *bytes)).map(sample).collect()
}

fn table(rows: &[Row]) -> String {
    let mut header = vec!["ALGORITHM".to_owned(), "OPERATION".to_owned(), "DEVICE".to_owned()];
    header.extend(TABLE_BATCHES.map(|batch| format!("{batch} IN FLIGHT")));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    // A narrow terminal omits 2, 8, 4 and 16 in flight first, then OPERATION.
    let mut table = Table::new(&header, &[]).with_optional_columns(&[4, 6, 5, 7, 1]);
    for group in rows.chunks(TABLE_BATCHES.len()) {
        let Some(Row { algorithm, operation, device, .. }) = group.first() else { continue };
        let mut cells = vec![(*algorithm).to_owned(), (*operation).to_owned(), device.clone()];
        cells.extend(group.iter().map(|row| ranges(&row.fastest)));
        table.add_row(cells);
    }
    table.render() + "\nRequest sizes in bytes at which the device is faster than all others.\n"
}

fn ranges(ranges: &[(usize, Option<usize>)]) -> String {
    let text = |range: &(usize, Option<usize>)| match *range {
        (..=16, None) => "all".to_owned(),
        (from, None) => format!("from {from}"),
        (..=16, Some(to)) => format!("to {to}"),
        (from, Some(to)) => format!("{from} to {to}"),
    };
    if ranges.is_empty() { "-".to_owned() } else { ranges.iter().map(text).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_short() {
        assert_eq!(ranges(&[]), "-");
        assert_eq!(ranges(&[(16, None)]), "all");
        assert_eq!(ranges(&[(16, Some(48)), (1024, None)]), "to 48, from 1024");
        assert_eq!(ranges(&[(64, Some(128))]), "64 to 128");
    }

    #[test]
    fn sizes_are_of_whole_blocks_and_reach_the_largest() {
        for algorithm in [Algorithm::Sha256, Algorithm::Aes128Cbc, Algorithm::Aes128Gcm] {
            let sizes: Vec<usize> = sizes(algorithm).collect();
            assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.last() == Some(&LARGEST_SIZE), "{sizes:?}");
        }
    }
}

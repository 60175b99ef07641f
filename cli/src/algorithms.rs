//! `gantry algorithms`: a table of all algorithms, their sizes and devices.

use gantry_core::{Algorithm, AlgorithmInfo, Gantry, Lengths};
use serde::Serialize;

use crate::args::{Algorithms, Settings};
use crate::output::{Failure, Output};
use crate::table::Table;

pub(crate) fn run(args: &Algorithms, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    let gantry = settings.open()?;
    let rows: Vec<Row> = Algorithm::all().map(|algorithm| Row::new(algorithm.info(), &gantry)).collect();
    if args.json { output.json(&rows) } else { output.write(&table(&rows)) }
}

/// An algorithm, as in the output of `--json`. Sizes are in bytes.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    kind: &'static str,
    key: Sizes,
    /// The public key, for signatures, key exchange, key encapsulation and encipherment.
    public_key: Sizes,
    /// The second key of encrypt-then-authenticate algorithms.
    mac_key: Sizes,
    iv: Sizes,
    block: usize,
    /// Size of the digest, MAC or tag.
    tag: Sizes,
    aliases: Vec<&'static str>,
    /// The Linux kernel's name.
    kernel: Option<&'static str>,
    source: &'static str,
    /// Devices that offer the algorithm.
    devices: Vec<String>,
}

/// Allowed sizes in bytes: `min`, `min + step` and so on, up to `max`.
#[derive(Clone, Copy, Serialize)]
struct Sizes {
    min: usize,
    /// `null` in JSON if only memory limits the size.
    max: Option<usize>,
    step: usize,
}

impl From<Lengths> for Sizes {
    fn from(lengths: Lengths) -> Self {
        let Lengths { min, max, step } = lengths;
        Self { min, max: (max != usize::MAX).then_some(max), step }
    }
}

impl Row {
    fn new(info: &AlgorithmInfo, gantry: &Gantry) -> Self {
        let serves = |device: &&gantry_core::RegisteredDevice| device.capability(info.algorithm).is_some();
        Self {
            name: info.name,
            kind: info.kind.name(),
            key: info.key.into(),
            public_key: info.public_key.into(),
            mac_key: info.mac_key.into(),
            iv: info.iv.into(),
            block: info.block,
            tag: info.tag.into(),
            aliases: info.aliases.to_vec(),
            kernel: Some(info.kernel).filter(|name| !name.is_empty()),
            source: info.source,
            devices: gantry.devices().iter().filter(serves).map(|device| device.name().to_owned()).collect(),
        }
    }
}

/// Formats a range: `16` (one size), `64|2400` (two sizes), `7-13`, `0-` (no limit); `-` if the algorithm has no such value.
fn format_sizes(sizes: Sizes) -> String {
    match sizes {
        Sizes { min: 0, max: Some(0), .. } => "-".to_owned(),
        Sizes { min, max: Some(max), .. } if min == max => min.to_string(),
        Sizes { min, max: Some(max), step } if max - min == step => format!("{min}|{max}"),
        Sizes { min, max, .. } => format!("{min}-{}", max.map_or(String::new(), |max| max.to_string())),
    }
}

fn table(rows: &[Row]) -> String {
    let header = ["NAME", "KIND", "KEY", "IV", "BLOCK", "TAG", "DEVICES", "SOURCE", "ALIASES"];
    // A narrow terminal omits ALIASES first, then SOURCE, BLOCK, TAG, KIND and IV.
    let mut table = Table::new(&header, &[2, 3, 4, 5]).with_optional_columns(&[8, 7, 4, 5, 1, 3]);
    for row in rows {
        let key = match format_sizes(row.mac_key).as_str() {
            "-" => format_sizes(row.key),
            mac_key => format!("{}+{mac_key}", format_sizes(row.key)),
        };
        let kernel = row.kernel.filter(|name| *name != row.name && !row.aliases.contains(name));
        let aliases: Vec<&str> = row.aliases.iter().copied().chain(kernel).collect();
        let devices = if row.devices.is_empty() { "none".to_owned() } else { row.devices.join(" ") };
        table.add_row([
            row.name.to_owned(),
            row.kind.to_owned(),
            key,
            format_sizes(row.iv),
            row.block.to_string(),
            format_sizes(row.tag),
            devices,
            row.source.to_owned(),
            aliases.join(" "),
        ]);
    }
    format!("{}\nSizes are in bytes; 16- means 16 and more.\n", table.render())
}

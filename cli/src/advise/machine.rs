//! Measures the algorithms of the OpenSSL provider on this machine.

use std::fs;
use std::path::PathBuf;

use super::reasons;
use crate::machine;
use crate::openssl::conf::{self, Conf};
use crate::openssl::measured::{Comparison, Measurements, Row, query_module};
use crate::openssl::{candidate_list, find_module, setup};
use crate::output::Failure;
use crate::temporary::Folder;

/// Measurements of this machine.
pub(super) struct MachineReport {
    pub(super) measurements: Measurements,
    /// The configuration in force. `None` if it does not activate gantry; the measurements then describe the configuration that `gantry
    /// openssl config` would write.
    pub(super) configuration: Option<PathBuf>,
    /// Mistakes in the configuration.
    pub(super) notes: Vec<String>,
}

/// The noise of the measurements.
pub(super) struct Noise {
    /// The median spread of all measurements. The spread of one is the interquartile range of its rounds, divided by their median.
    pub(super) spread: f64,
    /// The share of the time in which other programs had the CPU.
    pub(super) stolen: f64,
}

impl Noise {
    /// True if the gains are unreliable.
    pub(super) fn is_too_much(&self) -> bool {
        self.spread > 0.1
    }
}

impl MachineReport {
    /// Measures the algorithms in `only`, a list separated by commas; all algorithms if `only` is `None`.
    pub(super) fn measure(only: Option<&str>) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let file_in_use = conf::file_in_use().ok();
        let conf = file_in_use.as_deref().and_then(|path| Conf::read(path).ok()).unwrap_or_default();
        let mut notes = conf.problems();
        let configuration = file_in_use.filter(|_| conf.lists_gantry());
        match setup::refusal() {
            Some(refused) if configuration.is_none() => return Err(Failure::Failed(refused)),
            refused => reasons::add_unless_present(&mut notes, refused),
        }
        let queried = if let Some(path) = &configuration {
            path.clone()
        } else {
            // The configuration that `gantry openssl config` would write.
            let module = find_module()
                .ok_or_else(|| Failure::Failed(format!("there is no gantry.so in {}", candidate_list())))?;
            let path = folder.path().join("openssl.cnf");
            fs::write(&path, setup::standalone_configuration(&module, "")?)
                .map_err(|error| Failure::at(path.display(), &error))?;
            path
        };
        let mut measurements = match query_module(&queried, &folder, only)? {
            Ok(measurements) => measurements,
            Err(mut why) => {
                why.extend(reasons::configuration_reasons(false));
                return Err(Failure::Failed(format!("openssl did not load gantry\n{}", why.join("\n"))));
            }
        };
        if configuration.is_none() {
            mark_gaining_as_served(&mut measurements.rows);
        }
        Ok(Self { measurements, configuration, notes })
    }

    pub(super) fn noise(&self) -> Noise {
        let best: Vec<&Comparison> =
            self.measurements.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.best).collect();
        let mut spreads: Vec<f64> = best.iter().map(|best| best.spread).collect();
        spreads.sort_unstable_by(f64::total_cmp);
        #[allow(clippy::cast_precision_loss, reason = "some hundreds")]
        let stolen = best.iter().map(|best| best.stolen).sum::<f64>() / best.len().max(1) as f64;
        Noise { spread: spreads.get(spreads.len() / 2).copied().unwrap_or(0.0), stolen }
    }

    /// Describes the CPU and its lanes.
    pub(super) fn cpu(&self) -> String {
        let lanes = self.measurements.devices.iter().find(|(name, about)| name == "lanes" && !about.is_empty());
        [machine::cpu()].into_iter().chain(lanes.map(|(_, about)| about.clone())).collect::<Vec<_>>().join("; ")
    }

    /// Returns the lines of `openssl.cnf` that would gain more than the present lines. Each is a key with all its names.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows = &self.measurements.rows;
        let line = |key: &str| {
            let of_key = rows.iter().filter(|row| row.key == key);
            let gaining = setup::gaining_algorithms(rows, key);
            let is_in = |row: &&Row| row.served || gaining.contains(&&*row.config_name);
            let mut names: Vec<&str> = of_key.clone().filter(is_in).map(|row| &*row.config_name).collect();
            names.dedup();
            let more = self.configuration.is_none() || of_key.filter(is_in).any(|row| !row.served);
            (more && !names.is_empty()).then(|| format!("{key} = {}", names.join(",")))
        };
        setup::MEASURED_KEYS.into_iter().filter_map(line).collect()
    }
}

/// Sets `served` of each row: true if `gantry openssl config` would add its algorithm.
fn mark_gaining_as_served(rows: &mut [Row]) {
    for key in setup::MEASURED_KEYS {
        let names: Vec<String> = setup::gaining_algorithms(rows, key).into_iter().map(str::to_owned).collect();
        for row in rows.iter_mut().filter(|row| row.key == key) {
            row.served = names.contains(&row.config_name);
        }
    }
}

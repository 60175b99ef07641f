//! The module, asked what it would do on this machine: `openssl` loads it with every algorithm, and it leaves a file.

use std::path::Path;
use std::process::Command;

use gantry_runtime::bounded;

use super::sentences;
use crate::output::Failure;
use crate::temporary::Folder;

/// What it said.
pub(super) struct Answer {
    /// `openssl 3.0`.
    pub(super) release: String,
    pub(super) rows: Vec<Row>,
    /// What it had to say beside that.
    pub(super) notes: Vec<String>,
}

/// An algorithm.
pub(super) struct Row {
    /// The key of the configuration that may name it.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) number: String,
    /// Served with the configuration that was asked about.
    pub(super) served: bool,
    /// Whether it is worth serving is what the measurements say.
    pub(super) measured: bool,
    /// Of requests of 64 bytes, 1 KiB and 16 KiB.
    pub(super) routes: Vec<Route>,
}

/// Where a request goes.
pub(super) struct Route {
    pub(super) device: String,
    pub(super) class: String,
    pub(super) why: String,
    /// By what the policy's device was faster than OpenSSL in a trial.
    pub(super) gain: Option<f64>,
}

/// Asks with this configuration. The notes alone, if `openssl` does not load the module.
pub(super) fn ask(configuration: &Path, folder: &Folder) -> Result<Result<Answer, Vec<String>>, Failure> {
    let mut command = Command::new("openssl");
    let file = folder.path().join("routes");
    command.args(["list", "-providers"]).env("OPENSSL_CONF", configuration);
    command.env("GANTRY_OPENSSL_STATS", folder.path()).env("GANTRY_OPENSSL_ROUTES", &file);
    command.output().map_err(|error| Failure::at("openssl", &error))?;
    let notes = sentences(folder)?;
    let Ok(text) = bounded::read_to_string(&file) else { return Ok(Err(notes)) };
    let mut lines = text.lines();
    let release = lines.next().unwrap_or_default().to_owned();
    Ok(Ok(Answer { release, rows: lines.filter_map(row).collect(), notes }))
}

fn row(line: &str) -> Option<Row> {
    let mut cells = line.split('\t');
    let mut next = || cells.next().map(str::to_owned);
    let (key, name, number, served, measured) = (next()?, next()?, next()?, next()?, next()?);
    let routes = cells.map(route).collect();
    Some(Row { key, name, number, served: served == "yes", measured: measured == "measured", routes })
}

/// What no device has beside OpenSSL has no route.
fn route(cell: &str) -> Route {
    let mut words = cell.split(' ').filter(|word| !word.is_empty());
    let mut next = |usual: &str| words.next().unwrap_or(usual).to_owned();
    let (device, class, why) = (next("host"), next("software"), next("host-only"));
    Route { device, class, why, gain: words.next().and_then(|gain| gain.parse().ok()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_module_are_read() {
        let found =
            row("CIPHERS\tAES-128-GCM\t895\tyes\tmeasured\tlanes simd trial 1.25\thost software trial 0.97\t").unwrap();
        assert_eq!((&*found.key, &*found.name, &*found.number), ("CIPHERS", "AES-128-GCM", "895"));
        assert!(found.served && found.measured);
        let routes: Vec<_> = found.routes.iter().map(|route| (&*route.device, &*route.why, route.gain)).collect();
        assert_eq!(
            routes,
            [("lanes", "trial", Some(1.25)), ("host", "trial", Some(0.97)), ("host", "host-only", None)]
        );
        assert!(row("CIPHERS\tAES-128-GCM").is_none());
    }
}

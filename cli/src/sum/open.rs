//! Hash functions by name, opened once for a run.

use std::collections::HashMap;
use std::ffi::OsStr;

use gantry_core::{Algorithm, Gantry, Kind, SessionParams};
use gantry_runtime::Config;

use super::console::Console;
use super::function::{By, Function, Functions};
use super::names::Id;
use super::options::{Front, Options};
use crate::args::Settings;

/// Opens functions on demand: a checksum file may ask for any.
pub(super) struct Opener {
    gantry: Gantry,
    opened: HashMap<Vec<Id>, Result<Functions, String>>,
    /// How many threads may hash, if somebody said so.
    pub(super) threads: Option<usize>,
}

/// The functions that `-a` names, each once, in its order.
///
/// # Errors
/// A name that is none of a digest, in words.
pub(super) fn named(options: &Options) -> Result<Vec<Id>, String> {
    let mut ids = Vec::new();
    for name in &options.algorithms {
        let id = id(name)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn id(name: &OsStr) -> Result<Id, String> {
    let name = name.to_string_lossy();
    if let Some(id) = Id::of_name(&name) {
        return Ok(id);
    }
    let algorithm = name.parse::<Algorithm>().map_err(|error| error.to_string())?;
    if algorithm.kind() != Kind::Digest {
        return Err(format!("{algorithm} is a {}, not a digest", algorithm.kind()));
    }
    Id::of_name(algorithm.name()).ok_or_else(|| format!("{algorithm} is not for files"))
}

impl Opener {
    /// With `ids` opened.
    ///
    /// Scripts that run a tool of coreutils know nothing of Gantry: under these names a configuration that is wrong is a warning, and
    /// the defaults hold.
    pub(super) fn new(
        front: Front,
        options: &Options,
        ids: &[Id],
        settings: &Settings,
        console: &mut Console,
    ) -> Result<Self, String> {
        let configured = settings.config().map_err(|failure| failure.to_string());
        match configured.and_then(|config| Self::with(config, ids)) {
            Err(wrong) if front == Front::Coreutils => {
                if !options.status {
                    console.error(format!("warning: {wrong}; gantry uses its defaults").as_bytes());
                }
                Self::with(Config::default(), ids)
            }
            opened => opened,
        }
    }

    fn with(config: Config, ids: &[Id]) -> Result<Self, String> {
        let threads = config.threads();
        if let Ok(level) = config.cpu().parse() {
            gantry_digest::limit(level);
        }
        let gantry = gantry_runtime::open(config).map_err(|error| error.to_string())?;
        let mut opener = Self { gantry, opened: HashMap::new(), threads };
        if !ids.is_empty() {
            opener.functions(ids)?;
        }
        Ok(opener)
    }

    /// Functions for files that are hashed with all of them.
    ///
    /// # Errors
    /// Why no device of this configuration serves one of them, in words.
    pub(super) fn functions(&mut self, ids: &[Id]) -> Result<Functions, String> {
        if let Some(opened) = self.opened.get(ids) {
            return opened.clone();
        }
        let opened = ids.iter().map(|id| self.function(*id)).collect();
        self.opened.insert(ids.to_vec(), Result::clone(&opened));
        opened
    }

    fn function(&self, id: Id) -> Result<Function, String> {
        let by = match id.name() {
            "blake2b-512" => By::Blake2b512,
            "blake3" => By::Blake3,
            name => {
                let algorithm = name.parse::<Algorithm>().map_err(|error| error.to_string())?;
                let session = self.gantry.session(SessionParams::new(algorithm, &[]));
                By::Session(session.map_err(|error| error.to_string())?)
            }
        };
        Ok(Function { id, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digest_of_the_framework_is_for_files_with_the_length_of_its_names() {
        for algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.kind() == Kind::Digest) {
            let id = id(OsStr::new(algorithm.name())).unwrap();
            assert_eq!(id.name(), algorithm.name());
            let length = SessionParams::new(*algorithm, &[]).tag_length();
            assert_eq!(id.digits(), 2 * length, "{algorithm}");
        }
    }
}

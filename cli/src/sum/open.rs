//! Opens hash functions by name, once for a run.

use std::collections::HashMap;
use std::ffi::OsStr;

use gantry_core::{Algorithm, Gantry, Kind, SessionParams};
use gantry_runtime::Config;

use super::console::Console;
use super::function::{Function, Functions, Implementation, RUSTCRYPTO_FUNCTIONS};
use super::names::HashId;
use crate::args::Settings;
use crate::args::sum::{FrontEnd, Options};

/// Opens functions on demand: a checksum file may need any function.
pub(super) struct Opener {
    gantry: Gantry,
    opened: HashMap<Vec<HashId>, Result<Functions, String>>,
    /// The number of threads, if configured.
    pub(super) threads: Option<usize>,
}

/// Returns the functions of `-a`, each once, in their order.
///
/// # Errors
/// Describes a name that is not the name of a digest.
pub(super) fn named_functions(options: &Options) -> Result<Vec<HashId>, String> {
    let mut ids = Vec::new();
    for name in &options.algorithms {
        let id = parse_name(name)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn parse_name(name: &OsStr) -> Result<HashId, String> {
    let name = name.to_string_lossy();
    if let Some(id) = HashId::from_name(&name) {
        return Ok(id);
    }
    let algorithm = name.parse::<Algorithm>().map_err(|error| error.to_string())?;
    if algorithm.kind() != Kind::Digest {
        return Err(format!("{algorithm} is a {}, not a digest", algorithm.kind()));
    }
    HashId::from_name(algorithm.name()).ok_or_else(|| format!("{algorithm} cannot hash files"))
}

impl Opener {
    /// Creates an opener, with `ids` opened.
    ///
    /// Under the names of coreutils, a wrong configuration is a warning, and the defaults are used: scripts that run these tools know
    /// nothing of Gantry.
    pub(super) fn new(
        front_end: FrontEnd,
        options: &Options,
        ids: &[HashId],
        settings: &Settings,
        console: &mut Console,
    ) -> Result<Self, String> {
        let configured = settings.config().map_err(|failure| failure.to_string());
        match configured.and_then(|config| Self::with(config, ids)) {
            Err(wrong) if front_end == FrontEnd::Coreutils => {
                if !options.status {
                    console.error(format!("warning: {wrong}; gantry uses its defaults").as_bytes());
                }
                Self::with(Config::default(), ids)
            }
            opened => opened,
        }
    }

    fn with(config: Config, ids: &[HashId]) -> Result<Self, String> {
        let threads = config.threads();
        if let Ok(level) = config.cpu().parse() {
            gantry_digest::limit_level(level);
        }
        let gantry = gantry_runtime::open(config).map_err(|error| error.to_string())?;
        let mut opener = Self { gantry, opened: HashMap::new(), threads };
        if !ids.is_empty() {
            opener.functions(ids)?;
        }
        Ok(opener)
    }

    /// Returns the functions for files that are hashed with all of them.
    ///
    /// # Errors
    /// Describes why no device of this configuration serves one of the functions.
    pub(super) fn functions(&mut self, ids: &[HashId]) -> Result<Functions, String> {
        if let Some(opened) = self.opened.get(ids) {
            return opened.clone();
        }
        let opened = ids.iter().map(|id| self.function(*id)).collect();
        self.opened.insert(ids.to_vec(), Result::clone(&opened));
        opened
    }

    fn function(&self, id: HashId) -> Result<Function, String> {
        let implementation = match id.name() {
            "blake2b-512" => Implementation::Blake2b512,
            "blake3" => Implementation::Blake3,
            name if let Some((_, begin)) = RUSTCRYPTO_FUNCTIONS.iter().find(|(other, _)| *other == name) => {
                Implementation::RustCrypto(*begin)
            }
            name => {
                let algorithm = name.parse::<Algorithm>().map_err(|error| error.to_string())?;
                let session = self.gantry.session(SessionParams::new(algorithm, &[]));
                Implementation::Session(session.map_err(|error| error.to_string())?)
            }
        };
        Ok(Function { id, implementation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::sum::MORE_NAMES;

    #[test]
    fn every_function_is_that_of_the_framework_or_offered_by_name() {
        let offered = |name: &str| name.parse::<Algorithm>().is_ok() != MORE_NAMES.contains(&name);
        assert!(HashId::all().all(|id| offered(id.name())));
        assert!(MORE_NAMES.iter().all(|name| HashId::from_name(name).is_some_and(|id| id.name() == *name)));
    }

    #[test]
    fn every_digest_of_the_framework_can_hash_files() {
        for algorithm in Algorithm::ALL.iter().filter(|algorithm| algorithm.kind() == Kind::Digest) {
            let id = parse_name(OsStr::new(algorithm.name())).unwrap();
            assert_eq!(id.name(), algorithm.name());
            let length = SessionParams::new(*algorithm, &[]).tag_len();
            assert_eq!(id.digit_count(), 2 * length, "{algorithm}");
        }
    }
}

//! The configuration in layers: files, variables, arguments.

pub(crate) mod devices;
#[cfg(feature = "dpdk")]
pub(crate) mod dpdk;
pub(crate) mod keys;
#[cfg(feature = "model")]
pub(crate) mod models;
pub(crate) mod stats;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use gantry_core::driver::DeviceInfo;
use gantry_core::route::Learned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::devices::devices;
use self::keys::{KEYS, ShownSetting};
use self::stats::StatsChoice;
use crate::policy::PolicyChoice;
use crate::suggest::nearest;
use crate::{Error, bounded, rights};

/// The configuration. Later layers override earlier ones: the defaults, `/etc/gantry/gantry.toml`, the user's `gantry/gantry.toml`
/// under `$XDG_CONFIG_HOME` (`~/.config`), the file named by `GANTRY_CONFIG`, `GANTRY_*` variables, arguments. A process with
/// [elevated](crate::rights::has_elevated_rights) rights ignores variables, and so reads only the file in `/etc`.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) devices: BTreeMap<String, Setting<bool>>,
    pub(crate) policy: Setting<PolicyChoice>,
    /// True if only devices that say that they are FIPS 140 validated modules may be used.
    pub(crate) require_validated: Setting<bool>,
    pub(crate) cpu: Setting<&'static str>,
    pub(crate) threads: Setting<Option<NonZero<usize>>>,
    pub(crate) verify: Setting<Option<NonZero<u32>>>,
    pub(crate) stats: Setting<StatsChoice>,
    #[cfg(feature = "dpdk")]
    pub(crate) dpdk: dpdk::Settings,
    #[cfg(feature = "model")]
    pub(crate) models: BTreeMap<String, Setting<models::Model>>,
    #[cfg(feature = "model")]
    pub(crate) faults: Setting<models::Plan>,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The origin of the value.
    pub origin: Origin,
}

/// The origin of a configuration value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default; it was not set.
    Default,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// An argument of the command line, as it was typed.
    Argument(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(text) | Origin::Argument(text) => f.write_str(text),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let device = |(name, value): (&str, bool)| (name.to_owned(), by_default(value));
        Self {
            devices: devices().map(device).collect(),
            policy: by_default(PolicyChoice::Learned(Learned::Latency)),
            require_validated: by_default(false),
            cpu: by_default("auto"),
            threads: by_default(None),
            verify: by_default(None),
            stats: by_default(StatsChoice::Auto),
            #[cfg(feature = "dpdk")]
            dpdk: dpdk::Settings::default(),
            #[cfg(feature = "model")]
            models: BTreeMap::new(),
            #[cfg(feature = "model")]
            faults: by_default(models::Plan::default()),
        }
    }
}

fn by_default<T>(value: T) -> Setting<T> {
    Setting { value, origin: Origin::Default }
}

/// Returns the names of all modelled devices. They are discovered only if the configuration turns them on.
pub(crate) fn names_of_models(config: &Config) -> Vec<String> {
    #[cfg(feature = "model")]
    return models::names(config);
    #[cfg(not(feature = "model"))]
    {
        let _ = config;
        Vec::new()
    }
}

/// Maximum bytes of a file. The parser may need a hundred times as much memory.
const MAX_FILE_BYTES: usize = 256 << 10;

/// Errors after which an optional file counts as absent.
const ABSENT_FILE_ERRORS: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied];

impl Config {
    /// Reads the configuration files and the variables.
    ///
    /// # Errors
    /// A file cannot be read or is not TOML; a key does not exist; a variable is misspelt; a value is not valid for its key. The message
    /// has the place and suggests a correction.
    pub fn from_env() -> Result<Self, Error> {
        Self::layered(files(), rights::variables())
    }

    /// Reads the configuration from a text, on top of the defaults. Messages have `place` instead of the path of a file.
    ///
    /// # Errors
    /// The text is not TOML, a key does not exist, or a value is not valid for its key.
    pub fn from_toml(text: &str, place: &str) -> Result<Self, Error> {
        let mut config = Self::default();
        config.read_text(text, Path::new(place), None)?;
        Ok(config)
    }

    fn layered(files: Vec<File>, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Error> {
        let mut config = Self::default();
        for file in files {
            config.read_file(&file)?;
        }
        for (name, value) in variables {
            config.read_variable(&name, &value)?;
        }
        Ok(config)
    }

    /// Sets one key, as an argument of a command does. `argument` is the argument as typed, for messages.
    ///
    /// # Errors
    /// The key does not exist, or the value is not valid for it.
    pub fn set(&mut self, key: &str, value: &str, argument: impl Into<String>) -> Result<(), Error> {
        self.read(key, value, Origin::Argument(argument.into()), None)
    }

    /// Returns every key with its value, in the order of [`KEYS`].
    pub fn show(&self) -> Vec<ShownSetting> {
        keys::show(self)
    }

    /// Returns the highest CPU level that may be used: `auto`, or the name of a level.
    pub fn cpu(&self) -> &'static str {
        self.cpu.value
    }

    /// Returns the maximum number of threads for Gantry's own programs, if set.
    pub fn threads(&self) -> Option<usize> {
        self.threads.value.map(NonZero::get)
    }

    /// Returns the choice for the publication of statistics.
    pub fn stats(&self) -> &StatsChoice {
        &self.stats.value
    }

    /// Returns the reason why a device is not used; `None` if the device may be used.
    pub(crate) fn exclusion_reason(&self, device: &str) -> Option<String> {
        match self.devices.get(device) {
            Some(Setting { value: true, .. }) => None,
            Some(Setting { origin, .. }) if *origin != Origin::Default => Some(format!("turned off by {origin}")),
            None if !names_of_models(self).iter().any(|model| model == device) => None,
            #[cfg(feature = "dpdk")]
            _ if device == devices::DPDK => {
                Some("off by default; devices.dpdk = [\"crypto_openssl\"] turns such a device on".to_owned())
            }
            _ => Some(format!("off by default; devices.{device} = \"on\" turns it on")),
        }
    }

    /// Like [`exclusion_reason`](Self::exclusion_reason), for a device of the machine: also excludes it if it is not validated and must be.
    pub(crate) fn exclusion_reason_of(&self, info: &DeviceInfo) -> Option<String> {
        let refuses = self.require_validated.value && !info.validated;
        let reason = || format!("not a FIPS 140 validated module, which {} requires", self.require_validated.origin);
        self.exclusion_reason(&info.name).or_else(|| refuses.then(reason))
    }

    /// Returns true if only devices that say that they are FIPS 140 validated modules may be used.
    pub fn requires_validated(&self) -> bool {
        self.require_validated.value
    }

    /// Returns true if requests may make system calls that are not about memory, threads or clocks: for devices outside the program, or to
    /// write statistics into a folder.
    pub fn makes_system_calls(&self) -> bool {
        let is_on = |(name, setting): (&String, &Setting<bool>)| setting.value && devices::makes_system_calls(name);
        matches!(self.stats.value, StatsChoice::Folder(_)) || self.devices.iter().any(is_on)
    }

    /// Sets one key. `distrust` is the reason why another user may have written the file; `None` if no other user can have.
    fn read(&mut self, path: &str, value: &str, origin: Origin, distrust: Option<&str>) -> Result<(), Error> {
        keys::read(self, path, value, &origin, distrust).map_err(|problem| Error::Setting { origin, problem })
    }

    fn read_file(&mut self, file: &File) -> Result<(), Error> {
        let read = bounded::open(&file.path).and_then(|open| {
            let distrust = rights::check_trusted(&open.metadata()?).err();
            let text = bounded::read_text_from(open)?;
            if text.len() > MAX_FILE_BYTES {
                let error = format!("larger than {} KiB", MAX_FILE_BYTES >> 10);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
            }
            Ok((text, distrust.map(|why| why.to_string())))
        });
        let (text, distrust) = match read {
            Ok(read) => read,
            // Treat a home that is not a directory, or not accessible, as a home without the file.
            Err(error) if !file.required && ABSENT_FILE_ERRORS.contains(&error.kind()) => return Ok(()),
            Err(error) => return Err(Error::File { path: file.path.clone(), error }),
        };
        self.read_text(&text, &file.path, distrust.as_deref())
    }

    fn read_text(&mut self, text: &str, path: &Path, distrust: Option<&str>) -> Result<(), Error> {
        let origin = |at: usize| Origin::File { path: path.to_owned(), line: line_of(text, at) };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Error::Setting { origin: origin(at), problem: error.message().to_owned() }
        })?;
        for_each_value("", table.get_ref(), &mut |path, value| {
            let span = value.span();
            let origin = origin(span.start);
            match value.get_ref() {
                DeValue::String(value) => self.read(path, value, origin, distrust),
                // Pass numbers, booleans and lists as written. Keys parse the text themselves, and do not take numbers such as `0x10`.
                _ => self.read(path, text.get(span).unwrap_or_default(), origin, distrust),
            }
        })
    }

    fn read_variable(&mut self, name: &OsStr, value: &OsStr) -> Result<(), Error> {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else {
            return Ok(());
        };
        if name == FILE_VARIABLE || FRONT_END_VARIABLES.contains(&name) {
            return Ok(());
        }
        let origin = Origin::Variable(name.to_owned());
        let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
            return match suggest_variable(name) {
                Some(suggestion) => {
                    let problem = format!("no such variable; did you mean {suggestion}?");
                    Err(Error::Setting { origin, problem })
                }
                // A variable of another program: Kubernetes sets GANTRY_SERVICE_HOST and others for a service named gantry.
                None => Ok(()),
            };
        };
        match value.to_str() {
            Some(value) => self.read(key.name, value, origin, None),
            None => Err(Error::Setting { origin, problem: "the value is not UTF-8".to_owned() }),
        }
    }
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path.
    pub path: PathBuf,
    /// True if the file must exist, because it was named explicitly.
    pub required: bool,
}

/// Returns the configuration files in the order in which they are read.
pub fn files() -> Vec<File> {
    let variable = |name: &str| rights::variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Relative paths must be ignored (XDG Base Directory Specification).
    let user = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let user = user.or_else(|| variable("HOME").map(|home| home.join(".config")));
    let optional = |path: PathBuf| File { path, required: false };
    let system = Some(optional(Path::new("/etc/gantry/gantry.toml").to_owned()));
    let user = user.map(|folder| optional(folder.join("gantry/gantry.toml")));
    let explicit = variable(FILE_VARIABLE).map(|path| File { path, required: true });
    [system, user, explicit].into_iter().flatten().collect()
}

/// The prefix of all variables.
const VARIABLE_PREFIX: &str = "GANTRY_";
const FILE_VARIABLE: &str = "GANTRY_CONFIG";

/// Variables that are no keys. Front ends read the first three, and the statistics read the last.
const FRONT_END_VARIABLES: [&str; 4] =
    ["GANTRY_DISABLE", "GANTRY_OPENSSL_MEASURE", "GANTRY_OPENSSL_MEASURED", stats::VARIABLE];

/// Returns the variable that `name` probably misspells. The common prefix does not count.
fn suggest_variable(name: &str) -> Option<String> {
    let without_prefix = |name: &str| name.strip_prefix(VARIABLE_PREFIX).unwrap_or(name).to_owned();
    let variables: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
    let names: Vec<String> = variables
        .iter()
        .map(String::as_str)
        .chain([FILE_VARIABLE])
        .chain(FRONT_END_VARIABLES)
        .map(without_prefix)
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nearest(&without_prefix(name), &names).map(|near| format!("{VARIABLE_PREFIX}{near}"))
}

/// Returns the number of the line, from 1, that has the byte of `text` at the offset `at`.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Calls `read` with the path of every value of a table and its inner tables. Stops at the first error.
fn for_each_value<'i>(
    prefix: &str,
    table: &DeTable<'i>,
    read: &mut impl FnMut(&str, &Spanned<DeValue<'i>>) -> Result<(), Error>,
) -> Result<(), Error> {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => for_each_value(&format!("{path}."), inner, read)?,
            _ => read(&path, value)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

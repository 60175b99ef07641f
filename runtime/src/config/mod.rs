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
use self::keys::{KEYS, Shown};
use self::stats::StatsChoice;
use crate::policy::PolicyChoice;
use crate::suggest::nearest;
use crate::{Error, bounded, rights};

/// The configuration. Later layers override earlier ones: the defaults, `/etc/gantry/gantry.toml`, the user's `gantry/gantry.toml`
/// under `$XDG_CONFIG_HOME` (`~/.config`), the file named by `GANTRY_CONFIG`, `GANTRY_*` variables, arguments. A process with
/// [elevated](crate::rights::has_elevated_rights) rights ignores variables.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) devices: BTreeMap<String, Setting<bool>>,
    pub(crate) policy: Setting<PolicyChoice>,
    /// Only devices that say that they are FIPS 140 validated modules may be used.
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

/// Returns the names of devices that are discovered only if the configuration turns them on.
pub(crate) fn names_of_models(config: &Config) -> Vec<String> {
    #[cfg(feature = "model")]
    return models::names(config);
    #[cfg(not(feature = "model"))]
    {
        let _ = config;
        Vec::new()
    }
}

/// Maximum bytes of a file. The parser needs a hundred times as much memory.
const MAX_FILE_BYTES: usize = 256 << 10;

/// Errors that mean that an optional file is absent.
const ABSENT: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied];

impl Config {
    /// Reads the configuration files and the variables.
    ///
    /// # Errors
    /// A file cannot be read or is not TOML; a key does not exist; a variable is misspelt; a value is not valid for its key. The message has
    /// the place and suggests a correction.
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
    pub fn show(&self) -> Vec<Shown> {
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

    /// Returns the reason why a device is not used, if it is not.
    pub(crate) fn excluded(&self, device: &str) -> Option<String> {
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

    /// Returns the reason why a device of the machine is not used, if it is not.
    pub(crate) fn excluded_device(&self, info: &DeviceInfo) -> Option<String> {
        let refuses = self.require_validated.value && !info.validated;
        let reason = || format!("not a FIPS 140 validated module, which {} requires", self.require_validated.origin);
        self.excluded(&info.name).or_else(|| refuses.then(reason))
    }

    /// Returns true if only devices that say that they are FIPS 140 validated modules may be used.
    pub fn requires_validated(&self) -> bool {
        self.require_validated.value
    }

    /// Sets one key. `distrust` is the reason why another user may have written the file, if one may.
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
            // Treat a home that is not a directory, or not accessible, as one without the file.
            Err(error) if !file.required && ABSENT.contains(&error.kind()) => return Ok(()),
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
                // Pass the text as written: no key accepts another representation.
                _ => self.read(path, text.get(span).unwrap_or_default(), origin, distrust),
            }
        })
    }

    fn read_variable(&mut self, name: &OsStr, value: &OsStr) -> Result<(), Error> {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            return Ok(());
        };
        if name == FILE_VARIABLE || OTHERS.contains(&name) {
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
    /// The file must exist, because it was named explicitly.
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
    let named = variable(FILE_VARIABLE).map(|path| File { path, required: true });
    [system, user, named].into_iter().flatten().collect()
}

/// The prefix of all variables.
const PREFIX: &str = "GANTRY_";
const FILE_VARIABLE: &str = "GANTRY_CONFIG";

/// Variables that front ends read themselves.
const OTHERS: [&str; 4] = ["GANTRY_DISABLE", "GANTRY_OPENSSL_MEASURE", "GANTRY_OPENSSL_MEASURED", stats::VARIABLE];

/// Returns the variable that `name` probably misspells. The common prefix does not count.
fn suggest_variable(name: &str) -> Option<String> {
    let without_prefix = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let known: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
    let known: Vec<String> =
        known.iter().map(String::as_str).chain([FILE_VARIABLE]).chain(OTHERS).map(without_prefix).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest(&without_prefix(name), &known).map(|near| format!("{PREFIX}{near}"))
}

/// Returns the line of `text` with the byte at `at`, counted from 1.
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
mod tests {
    use std::fs;

    use gantry_core::RegisteredDevice;
    use gantry_core::driver::Class;

    use super::*;

    fn of(texts: &[&str], variables: &[(&str, &str)]) -> Result<Config, String> {
        let folder = std::env::temp_dir().join(format!("gantry-config-{:?}", std::thread::current().id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |(index, text): (usize, &&str)| {
            let path = folder.join(format!("{index}.toml"));
            fs::write(&path, text).unwrap();
            File { path, required: true }
        };
        let files: Vec<File> = texts.iter().enumerate().map(file).collect();
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let config = Config::layered(files, variables).map_err(|error| error.to_string());
        fs::remove_dir_all(&folder).unwrap();
        config.map_err(|error| error.replace(&format!("{}/", folder.display()), ""))
    }

    fn value(config: &Config, key: &str) -> (String, String) {
        let shown = config.show().into_iter().find(|shown| shown.key == key).unwrap();
        (shown.value, shown.origin.to_string())
    }

    #[test]
    fn later_layers_win_key_by_key() {
        let system = "policy = \"round-robin\"\ncpu = \"base\"\n[devices]\nnull = \"on\"\n";
        let user = "\n\npolicy = \"pin:lanes\"\n";
        let mut config = of(&[system, user], &[("GANTRY_CPU", "avx2")]).unwrap();
        assert_eq!(value(&config, "devices.null").0, "on");
        let (policy, origin) = value(&config, "policy");
        assert!(policy == "pin:lanes" && origin.ends_with("1.toml:3"), "{origin}");
        assert_eq!(value(&config, "cpu"), ("avx2".into(), "GANTRY_CPU".into()));
        config.set("cpu", "avx512", "--set cpu=avx512").unwrap();
        assert_eq!(value(&config, "cpu"), ("avx512".into(), "--set cpu=avx512".into()));
    }

    #[test]
    fn reads_a_text_and_names_its_place_in_messages() {
        let config = Config::from_toml("policy = \"pin:lanes\"\n[devices]\nnull = \"on\"", "text").unwrap();
        assert_eq!(value(&config, "policy"), ("pin:lanes".into(), "text:1".into()));
        assert_eq!(value(&config, "devices.null"), ("on".into(), "text:3".into()));
        let error = Config::from_toml("\npolcy = 1", "text").unwrap_err().to_string();
        assert_eq!(error, "text:2: unknown key 'polcy'; did you mean policy?");
    }

    #[test]
    #[cfg(all(feature = "dpdk", feature = "model"))]
    fn errors_have_the_line_and_a_correction() {
        for (text, message) in [
            ("\npolcy = \"pin:lanes\"", "0.toml:2: unknown key 'polcy'; did you mean policy?"),
            (
                "\n\n[colour]\nx = 1",
                "0.toml:4: unknown key 'colour.x'; there are devices, policy, require, cpu, threads, verify, stats, dpdk, models, faults",
            ),
            (
                "cpu = \"avx521\"",
                "0.toml:1: cpu cannot be 'avx521': it is auto, avx512, vaes, avx2 or base; did you mean avx512?",
            ),
            ("verify = 0.001", "0.toml:1: verify cannot be '0.001': it is off or 1/N"),
            ("verify = \"1/0\"", "0.toml:1: verify cannot be '1/0': it is off or 1/N"),
            ("cpu = 3", "0.toml:1: cpu cannot be '3': it is auto, avx512, vaes, avx2 or base"),
            ("[devices]\nnull = true", "0.toml:2: devices.null cannot be 'true': it is on or off"),
            ("[cpu]\nlevel = \"base\"", "0.toml:2: unknown key 'cpu.level'"),
            (
                "devices.software = \"off\"",
                "0.toml:1: software cannot be turned off: requests end up there when all other devices fail",
            ),
        ] {
            assert_eq!(of(&[text], &[]).unwrap_err(), message);
        }
        let syntax = of(&["cpu = \"base\"\npolicy = \n"], &[]).unwrap_err();
        assert!(syntax.starts_with("0.toml:2: "), "{syntax}");
        let twice = of(&["cpu = \"base\"\ncpu = \"avx2\"\n"], &[]).unwrap_err();
        assert!(twice.starts_with("0.toml:2: "), "{twice}");
    }

    #[test]
    fn variables_are_checked_like_files() {
        let wrong = |name, value| of(&[], &[(name, value)]).unwrap_err();
        for (name, suggestion) in [
            ("GANTRY_POLCY", "GANTRY_POLICY"),
            ("GANTRY_policy", "GANTRY_POLICY"),
            ("GANTRY_DEVICE", "GANTRY_DEVICES"),
            ("GANTRY_CONFG", "GANTRY_CONFIG"),
            ("GANTRY_DISABLED", "GANTRY_DISABLE"),
        ] {
            assert_eq!(wrong(name, "x"), format!("{name}: no such variable; did you mean {suggestion}?"));
        }
        assert_eq!(
            wrong("GANTRY_DEVICES", "null"),
            "GANTRY_DEVICES: devices takes NAME=on or NAME=off, with commas between"
        );
        let config = of(&[], &[("GANTRY_DEVICES", "null=on,cuda:0=off"), ("GANTRY", "x"), ("OTHER", "y")]).unwrap();
        assert_eq!(value(&config, "devices.null").0, "on");
        assert_eq!(value(&config, "devices.cuda:0").0, "off");
    }

    /// Such as those of a Kubernetes service named gantry, and of other programs.
    #[test]
    fn ignores_variables_of_other_programs() {
        for name in [
            "GANTRY_SERVICE_HOST",
            "GANTRY_SERVICE_PORT",
            "GANTRY_SERVICE_PORT_HTTP",
            "GANTRY_PORT",
            "GANTRY_PORT_80_TCP",
            "GANTRY_PORT_80_TCP_PROTO",
            "GANTRY_PORT_80_TCP_ADDR",
            "GANTRY_HOME",
            "GANTRY_SERVICE",
            "GANTRY_",
        ] {
            let config = of(&[], &[(name, "tcp://10.0.0.1:80")]).unwrap();
            assert!(config.show().iter().all(|shown| shown.origin == Origin::Default), "{name}");
        }
    }

    #[test]
    fn a_named_file_must_exist() {
        let absent = |required| Config::layered(vec![File { path: "/nowhere/at all".into(), required }], []);
        assert!(absent(false).is_ok());
        assert!(absent(true).unwrap_err().to_string().starts_with("/nowhere/at all: "));
    }

    #[test]
    fn the_sample_file_sets_every_key() {
        let sample = keys::sample();
        let examples = sample.lines().filter_map(|line| line.strip_prefix('#').filter(|line| !line.starts_with(' ')));
        let uncommented = examples.collect::<Vec<_>>().join(
            "
",
        );
        let config = of(&[&uncommented], &[]).unwrap();
        assert_eq!(config.show().iter().filter(|shown| shown.origin != Origin::Default).count(), KEYS.len());
    }

    #[test]
    fn reading_a_text_takes_bounded_memory() {
        let keys = gantry_lab::memory::many(2000, |key| format!("k{key}=1\n"));
        let shared = format!("[{}]\n{keys}", "t".repeat(100_000));
        for (bomb, text) in [
            ("a table's name that keys share", shared),
            ("an array of short values", format!("a=[{}]", "0,".repeat(50_000))),
            ("short tables", gantry_lab::memory::many(20_000, |table| format!("[{table}]\n")) + "x=1"),
            ("a deep key", format!("{}a=1", "a.".repeat(50_000))),
        ] {
            let (read, taken) = gantry_lab::memory::taken(|| Config::from_toml(&text, "x").map(|_| ()));
            assert!(read.is_err(), "{bomb}");
            assert!(taken.bytes <= 128 * text.len(), "{bomb}: {} bytes for {}", taken.bytes, text.len());
        }
    }

    #[test]
    fn refuses_a_file_that_is_too_long() {
        let long = "#".repeat(256 << 10);
        assert!(of(&[&long], &[]).is_ok());
        let message = of(&[&format!("{long}#")], &[]).unwrap_err();
        assert_eq!(message, "0.toml: larger than 256 KiB");
    }

    #[test]
    fn a_required_validation_excludes_all_other_devices() {
        let mut config = Config::default();
        config.set("require", "validated", "REQUIRE").unwrap();
        let reason =
            |validated| config.excluded_device(&DeviceInfo { validated, ..DeviceInfo::new("lanes", Class::Simd) });
        assert_eq!(reason(true), None);
        assert_eq!(reason(false).as_deref(), Some("not a FIPS 140 validated module, which REQUIRE requires"));
        match crate::open(config) {
            Err(error) => {
                let refusal = "REQUIRE: no device of this machine says that it is a FIPS 140 validated module";
                assert_eq!(error.to_string(), refusal);
            }
            // A machine of its own kind.
            Ok(gantry) => {
                let mut used = gantry.devices().iter().filter(|device| device.details().is_some());
                assert!(used.all(RegisteredDevice::is_validated));
            }
        }
        let error = Config::default().set("require", "fips", "REQUIRE").unwrap_err().to_string();
        assert_eq!(error, "REQUIRE: require cannot be 'fips': it is none or validated");
    }
}

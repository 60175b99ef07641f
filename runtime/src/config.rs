use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use gantry_core::route::Learned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::keys::{self, KEYS, Shown};
use crate::policy::PolicyChoice;
use crate::stats::StatsChoice;
use crate::suggest::nearest;
use crate::{Error, bounded, drivers, rights};

/// What the operator wants. Later layers win: the defaults, `/etc/gantry/gantry.toml`, the user's `gantry/gantry.toml`
/// under `$XDG_CONFIG_HOME` (`~/.config`), the file named by `GANTRY_CONFIG`, `GANTRY_*` variables, arguments. In a process with
/// [borrowed](crate::rights::borrowed) rights there are no variables.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) devices: BTreeMap<String, Setting<bool>>,
    pub(crate) policy: Setting<PolicyChoice>,
    pub(crate) cpu: Setting<&'static str>,
    pub(crate) threads: Setting<Option<NonZero<usize>>>,
    pub(crate) verify: Setting<Option<NonZero<u32>>>,
    pub(crate) stats: Setting<StatsChoice>,
    #[cfg(feature = "dpdk")]
    pub(crate) dpdk: crate::dpdk::Settings,
    #[cfg(feature = "model")]
    pub(crate) models: BTreeMap<String, Setting<crate::models::Model>>,
    #[cfg(feature = "model")]
    pub(crate) faults: Setting<crate::models::Plan>,
}

/// A value, and who asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Who asked for it.
    pub origin: Origin,
}

/// Where a value of the configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Counted from 1.
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
        let device = |(name, value): &(&str, bool)| ((*name).to_owned(), by_default(*value));
        Self {
            devices: drivers::DEVICES.iter().map(device).collect(),
            policy: by_default(PolicyChoice::Learned(Learned::Latency)),
            cpu: by_default("auto"),
            threads: by_default(None),
            verify: by_default(None),
            stats: by_default(StatsChoice::Auto),
            #[cfg(feature = "dpdk")]
            dpdk: crate::dpdk::Settings::default(),
            #[cfg(feature = "model")]
            models: BTreeMap::new(),
            #[cfg(feature = "model")]
            faults: by_default(crate::models::Plan::default()),
        }
    }
}

fn by_default<T>(value: T) -> Setting<T> {
    Setting { value, origin: Origin::Default }
}

/// Most bytes of a file. The parser takes a hundred times as much memory.
const LONGEST: usize = 256 << 10;

/// Errors by which a file that need not be there is not there.
const ABSENT: [io::ErrorKind; 3] =
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::PermissionDenied];

impl Config {
    /// Everything that files and variables say.
    ///
    /// # Errors
    /// A file that cannot be read or is no TOML, a key that does not exist, a variable that is a misspelt one, a value that a
    /// key does not take. The message names the place and what would be right.
    pub fn from_env() -> Result<Self, Error> {
        Self::layered(files(), rights::variables())
    }

    /// The defaults, and what a text says that is no file. Messages name `place` where they would name the file.
    ///
    /// # Errors
    /// Those of a file: the text is no TOML, has a key that does not exist, or a value that a key does not take.
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

    /// Sets one key, as an argument of a command does: `argument` is what was typed, for messages.
    ///
    /// # Errors
    /// A key that does not exist, or a value that it does not take.
    pub fn set(&mut self, key: &str, value: &str, argument: impl Into<String>) -> Result<(), Error> {
        self.read(key, value, Origin::Argument(argument.into()), None)
    }

    /// Every key with its value, in the order of [`KEYS`].
    pub fn show(&self) -> Vec<Shown> {
        keys::show(self)
    }

    /// The highest CPU level that may be used: `auto`, or the name of one.
    pub fn cpu(&self) -> &'static str {
        self.cpu.value
    }

    /// The most threads that a program of ours should work with, if somebody said so.
    pub fn threads(&self) -> Option<usize> {
        self.threads.value.map(NonZero::get)
    }

    /// Whether and where statistics are published.
    pub fn stats(&self) -> &StatsChoice {
        &self.stats.value
    }

    /// Why a device is not used, if it is not.
    pub(crate) fn excluded(&self, device: &str) -> Option<String> {
        match self.devices.get(device) {
            Some(Setting { value: true, .. }) => None,
            Some(Setting { origin, .. }) if *origin != Origin::Default => Some(format!("turned off by {origin}")),
            None if !drivers::models(self).iter().any(|model| model == device) => None,
            #[cfg(feature = "dpdk")]
            _ if device == crate::dpdk::NAME => {
                Some("off by default; devices.dpdk = [\"crypto_openssl\"] turns such a device on".to_owned())
            }
            _ => Some(format!("off by default; devices.{device} = \"on\" turns it on")),
        }
    }

    /// `distrust` is a sentence about the file where another user may have written it.
    fn read(&mut self, path: &str, value: &str, origin: Origin, distrust: Option<&str>) -> Result<(), Error> {
        keys::read(self, path, value, &origin, distrust).map_err(|problem| Error::Setting { origin, problem })
    }

    fn read_file(&mut self, file: &File) -> Result<(), Error> {
        let read = bounded::open(&file.path).and_then(|open| {
            let distrust = rights::is_ours(&open.metadata()?).err();
            let text = bounded::text_of(open)?;
            if text.len() > LONGEST {
                let error = format!("larger than {} KiB", LONGEST >> 10);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
            }
            Ok((text, distrust.map(|why| why.to_string())))
        });
        let (text, distrust) = match read {
            Ok(read) => read,
            // A home that is no directory, or not ours to look into, has no file for us either.
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
        each("", table.get_ref(), &mut |path, value| {
            let span = value.span();
            let origin = origin(span.start);
            match value.get_ref() {
                DeValue::String(value) => self.read(path, value, origin, distrust),
                // As it is written: no key takes anything that does not look right so.
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
            return match meant(name) {
                Some(meant) => {
                    let problem = format!("no such variable; did you mean {meant}?");
                    Err(Error::Setting { origin, problem })
                }
                // Somebody else's: Kubernetes makes GANTRY_SERVICE_HOST and others for a service of the name gantry.
                None => Ok(()),
            };
        };
        match value.to_str() {
            Some(value) => self.read(key.name, value, origin, None),
            None => Err(Error::Setting { origin, problem: "the value is not UTF-8".to_owned() }),
        }
    }
}

/// A configuration file that is read if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where.
    pub path: PathBuf,
    /// Its absence is an error, because somebody named it.
    pub required: bool,
}

/// The configuration files, in the order in which they are read.
pub fn files() -> Vec<File> {
    let variable = |name: &str| rights::variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative path is to be ignored (XDG Base Directory Specification).
    let user = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let user = user.or_else(|| variable("HOME").map(|home| home.join(".config")));
    let optional = |path: PathBuf| File { path, required: false };
    let system = Some(optional(Path::new("/etc/gantry/gantry.toml").to_owned()));
    let user = user.map(|folder| optional(folder.join("gantry/gantry.toml")));
    let named = variable(FILE_VARIABLE).map(|path| File { path, required: true });
    [system, user, named].into_iter().flatten().collect()
}

/// What the names of all variables begin with.
const PREFIX: &str = "GANTRY_";
const FILE_VARIABLE: &str = "GANTRY_CONFIG";

/// Variables that front ends read themselves.
const OTHERS: [&str; 4] =
    ["GANTRY_DISABLE", "GANTRY_OPENSSL_MEASURE", "GANTRY_OPENSSL_MEASURED", crate::stats::VARIABLE];

/// The variable of ours of which `name` is a misspelling. What all of them begin with says nothing about that.
fn meant(name: &str) -> Option<String> {
    let own = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let known: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
    let known: Vec<String> = known.iter().map(String::as_str).chain([FILE_VARIABLE]).chain(OTHERS).map(own).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest(&own(name), &known).map(|near| format!("{PREFIX}{near}"))
}

/// The line of `text` that holds the byte at `at`, counted from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// Calls `read` for every value of a table and of the tables inside, with its path, until there is an error: the first that is no key's.
fn each<'i>(
    above: &str,
    table: &DeTable<'i>,
    read: &mut impl FnMut(&str, &Spanned<DeValue<'i>>) -> Result<(), Error>,
) -> Result<(), Error> {
    for (key, value) in table {
        let path = format!("{above}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => each(&format!("{path}."), inner, read)?,
            _ => read(&path, value)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_text_that_is_no_file_is_all_that_counts_and_is_named_in_messages() {
        let config = Config::from_toml("policy = \"pin:lanes\"\n[devices]\nnull = \"on\"", "text").unwrap();
        assert_eq!(value(&config, "policy"), ("pin:lanes".into(), "text:1".into()));
        assert_eq!(value(&config, "devices.null"), ("on".into(), "text:3".into()));
        let error = Config::from_toml("\npolcy = 1", "text").unwrap_err().to_string();
        assert_eq!(error, "text:2: unknown key 'polcy'; did you mean policy?");
    }

    #[test]
    #[cfg(all(feature = "dpdk", feature = "model"))]
    fn mistakes_are_named_with_their_line_and_what_would_be_right() {
        for (text, message) in [
            ("\npolcy = \"pin:lanes\"", "0.toml:2: unknown key 'polcy'; did you mean policy?"),
            (
                "\n\n[colour]\nx = 1",
                "0.toml:4: unknown key 'colour.x'; there are devices, policy, cpu, threads, verify, stats, dpdk, models, faults",
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
                "0.toml:1: software cannot be turned off: it is where requests end up when all other devices fail",
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
        for (name, meant) in [
            ("GANTRY_POLCY", "GANTRY_POLICY"),
            ("GANTRY_policy", "GANTRY_POLICY"),
            ("GANTRY_DEVICE", "GANTRY_DEVICES"),
            ("GANTRY_CONFG", "GANTRY_CONFIG"),
            ("GANTRY_DISABLED", "GANTRY_DISABLE"),
        ] {
            assert_eq!(wrong(name, "x"), format!("{name}: no such variable; did you mean {meant}?"));
        }
        assert_eq!(
            wrong("GANTRY_DEVICES", "null"),
            "GANTRY_DEVICES: devices takes NAME=on or NAME=off, with commas between"
        );
        let config = of(&[], &[("GANTRY_DEVICES", "null=on,cuda:0=off"), ("GANTRY", "x"), ("OTHER", "y")]).unwrap();
        assert_eq!(value(&config, "devices.null").0, "on");
        assert_eq!(value(&config, "devices.cuda:0").0, "off");
    }

    /// Those of a Kubernetes service of the name gantry, and of other programs.
    #[test]
    fn variables_that_are_none_of_ours_are_left_alone() {
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
    fn a_file_that_somebody_named_must_be_there() {
        let absent = |required| Config::layered(vec![File { path: "/nowhere/at all".into(), required }], []);
        assert!(absent(false).is_ok());
        assert!(absent(true).unwrap_err().to_string().starts_with("/nowhere/at all: "));
    }

    #[test]
    fn the_sample_file_is_what_it_describes() {
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
    fn a_text_takes_no_more_memory_than_some_times_its_bytes() {
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
    fn a_file_that_is_longer_than_a_configuration_is_an_error() {
        let long = "#".repeat(256 << 10);
        assert!(of(&[&long], &[]).is_ok());
        let said = of(&[&format!("{long}#")], &[]).unwrap_err();
        assert_eq!(said, "0.toml: larger than 256 KiB");
    }
}

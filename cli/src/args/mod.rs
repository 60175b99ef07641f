//! The command line as data: help, manual pages and completions are made from it.

mod guests;
mod measure;
mod names;
mod programs;
mod shape;
mod verity;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use gantry_core::Gantry;
use gantry_runtime::Config;

use crate::output::Failure;
pub(crate) use guests::{Guest, ServeAll};
pub(crate) use measure::*;
pub(crate) use names::algorithms;
pub(crate) use programs::*;
pub(crate) use shape::{completed, documented};
pub(crate) use verity::*;

/// Sends cryptographic work to the engine of this machine that serves it best.
///
/// A device is such an engine: a cryptographic library, the SIMD lanes of the CPU, an accelerator. gantry says which
/// there are, shows that they compute what they should, measures them, and uses them to hash files.
#[derive(Parser)]
#[command(name = "gantry", version, max_term_width = 100, after_help = EXAMPLES, infer_long_args = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The names of the command, as `config keys`.
    #[arg(skip)]
    pub(crate) path: String,
}

const EXAMPLES: &str = "\
Examples:
  gantry devices                          which engines this machine has
  gantry check                            whether they compute what they should
  gantry speed sha256 --compare openssl   how fast they are, next to OpenSSL
  gantry advise -- curl https://...       what a program gains by them
  gantry sum *.iso > SHA256SUMS           digests of files, many at once
  gantry sum -c SHA256SUMS                verify them

Exit status: 0 when all is well, 1 when something failed, 2 for a mistake on the command line or in
the configuration.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the devices of this machine, or show one in detail
    Devices(Devices),
    /// List the algorithms, and which devices serve them
    Algorithms(Algorithms),
    Kernel(Kernel),
    Check(Check),
    Speed(Speed),
    Tune(Tune),
    Route(Route),
    /// Print or verify digests of files
    Sum(Sum),
    Crypt(Crypt),
    Compress(Compress),
    Verity(Verity),
    Torrent(Torrent),
    Esp(Esp),
    /// Be the /dev/crypto of this machine
    Devcrypto(Devcrypto),
    Serve(ServeAll),
    Advise(Advise),
    Openssl(Openssl),
    Stat(Stat),
    Exporter(Exporter),
    Top(Top),
    Config(ConfigArgs),
    /// Print the completions for a shell
    Completions(Completions),
    /// Write manual pages and completions, for installers
    #[command(hide = true)]
    Manual(Manual),
}

/// What overrides the configuration.
#[derive(Args, Default)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct Settings {
    /// Set a key of the configuration; `gantry config keys` lists them
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub(crate) set: Vec<String>,
    /// Turn devices on or off
    #[arg(long, value_name = "NAME=on|off,...", global = true)]
    pub(crate) devices: Option<String>,
    /// Choose between the devices by this policy, such as pin:software
    #[arg(long, global = true)]
    pub(crate) policy: Option<String>,
}

impl Settings {
    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--set", !self.set.is_empty()),
            ("--devices", self.devices.is_some()),
            ("--policy", self.policy.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// Refuses options that a command would pass over in silence.
    pub(crate) fn must_count_for(&self, path: &str) -> Result<(), Failure> {
        match (shape::unconfigured(path), self.given()) {
            (Some(command), Some(option)) => {
                Err(Failure::Usage(format!("{option} changes nothing about gantry {command}")))
            }
            _ => Ok(()),
        }
    }

    /// The configuration with these on top.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = Config::from_env()?;
        for set in &self.set {
            let (key, value) = set
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("--set {set}: what is set is KEY=VALUE, as --set cpu=avx2")))?;
            config.set(key.trim(), value.trim(), format!("--set {set}"))?;
        }
        for (key, value) in [("devices", &self.devices), ("policy", &self.policy)] {
            if let Some(value) = value {
                config.set(key, value, format!("--{key} {value}"))?;
            }
        }
        Ok(config)
    }

    /// The devices of this machine, under this configuration.
    pub(crate) fn open(&self) -> Result<Gantry, Failure> {
        Ok(gantry_runtime::open(self.config()?)?)
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry devices                      a line for each device
  gantry devices lanes                what one can, algorithm by algorithm; runs its known-answer tests
  gantry devices --devices null=on    with the null device, which is off unless asked for")]
pub(crate) struct Devices {
    /// Show this device in detail
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Algorithms {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain the crypto drivers of the Linux kernel
///
/// Reads /proc/crypto: for each algorithm the drivers that the kernel has, the one that it takes first, where each of them
/// computes, and how programs reach them. For engines off the CPU it says whether this CPU has instructions that do the
/// same, and how to measure which is better. AF_ALG is tried, so the kernel may load its modules.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry kernel               everything that the kernel has loaded
  gantry kernel 'cbc(aes)'    one algorithm, by the kernel's name or ours")]
pub(crate) struct Kernel {
    /// Show only this algorithm
    pub(crate) algorithm: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Sum {
    /// As of the *sum tools
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Show the configuration
///
/// Read are /etc/gantry/gantry.toml, gantry/gantry.toml under $XDG_CONFIG_HOME (~/.config), the file that GANTRY_CONFIG
/// names, variables (GANTRY_POLICY=pin:software), and arguments (--set policy=pin:software). What comes later wins.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every value, and where it came from
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print every key with its meaning, as a file to begin with
    Keys,
    /// Print the files that are read, and whether they are there
    Path,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry completions bash > ~/.local/share/bash-completion/completions/gantry
  gantry completions zsh > ~/.zfunc/_gantry
  gantry completions fish > ~/.config/fish/completions/gantry.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct Manual {
    /// Write them below this folder, at their places below PREFIX
    pub(crate) folder: PathBuf,
}

/// Reads a command line.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    // What comes after `sum` is read as getopt would, by `sum` itself. Clap knows these options only to speak of them.
    let about_sum = arguments.get(1).is_some_and(|command| command == "help");
    let command = if about_sum { documented() } else { shape::accepted() };
    let matches = command.try_get_matches_from(arguments)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let names = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand()).map(|(name, _)| name);
    cli.path = names.collect::<Vec<_>>().join(" ");
    if let (Command::Speed(speed), Some(matches)) = (&mut cli.command, matches.subcommand_matches("speed")) {
        speed.bytes_given = matches.value_source("bytes") == Some(ValueSource::CommandLine);
    }
    Ok(cli)
}

/// The place of the device of this name.
pub(crate) fn device(gantry: &Gantry, name: &str) -> Result<usize, Failure> {
    let names: Vec<&str> = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).collect();
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| Failure::Usage(format!("there is no device '{name}'{}", gantry_runtime::suggest(name, &names))))
}

/// Drawings are SVG, whatever a file is called.
fn drawing(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_svg = path.extension().is_some_and(|tail| tail.eq_ignore_ascii_case("svg"));
    if is_svg { Ok(path) } else { Err("drawings are SVG: FILE.svg".to_owned()) }
}

/// A number of bytes, perhaps in K (1024), M or G of them.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("not a number of bytes, as 1500, 16K or 1M".to_owned()),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a number of bytes, as 1500, 16K or 1M".to_owned())
}

fn positive_size(text: &str) -> Result<usize, String> {
    size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("not a number from 1 on".to_owned()) })
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a number from 1 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_may_be_short() {
        for (text, bytes) in
            [("0", 0), ("1500", 1500), ("16K", 16384), ("1M", 1 << 20), ("2g", 2 << 30), ("64KiB", 65536)]
        {
            assert_eq!(size(text), Ok(bytes));
        }
        for wrong in ["", "K", "-5", "1.5K", "16KB", "1e6", "99999999999999999999", "99999999999999999G", "IB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}

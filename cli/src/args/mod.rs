//! The command line as data, from which help, manual pages and completions are generated.

mod crypt;
#[cfg(feature = "programs")]
mod guests;
mod measure;
mod names;
#[cfg(feature = "programs")]
mod programs;
mod shape;
pub(crate) mod sum;
mod verity;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use gantry_core::Gantry;
use gantry_runtime::Config;

use crate::output::Failure;
pub(crate) use crypt::Crypt;
#[cfg(feature = "programs")]
pub(crate) use guests::{Guest, ServeAll};
pub(crate) use measure::*;
pub(crate) use names::algorithms;
#[cfg(feature = "programs")]
pub(crate) use programs::*;
pub(crate) use shape::{completion_command, documented_command};
pub(crate) use verity::*;

/// Measure, check and use the cryptographic engines of this machine.
///
/// A device is an engine: a cryptographic library (`software`), the SIMD lanes of the CPU (`lanes`), or an accelerator. Gantry sends
/// each request to the device that the routing policy chooses.
#[derive(Parser)]
#[command(name = "gantry", version, max_term_width = 100, after_help = EXAMPLES, infer_long_args = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Names of the command and its subcommands, such as `config keys`.
    #[arg(skip)]
    pub(crate) path: String,
}

const EXAMPLES: &str = "\
Examples:
  gantry devices                          list the engines of this machine
  gantry check                            check the results of every engine
  gantry speed sha256 --compare openssl   compare every engine with OpenSSL
  gantry advise -- curl https://...       run a program, and show how much Gantry speeds it up
  gantry sum *.iso > SHA256SUMS           hash many files at once
  gantry sum -c SHA256SUMS                verify the files

Exit status: 0 on success, 1 for a failure, 2 for a mistake on the command line or in the
configuration. The help of a command states exceptions.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the devices of this machine, or show one in detail
    Devices(Devices),
    /// List the algorithms and the devices that serve them
    Algorithms(Algorithms),
    Kernel(Kernel),
    Check(Check),
    Speed(Speed),
    Tune(Tune),
    Route(Route),
    /// Print or verify digests of files
    Sum(Sum),
    Crypt(Crypt),
    Verity(Verity),
    Torrent(Torrent),
    #[cfg(feature = "programs")]
    #[command(flatten)]
    Programs(Programs),
    Config(ConfigArgs),
    /// Print completions for a shell
    Completions(Completions),
    /// Write manual pages and completions, for installers
    #[command(hide = true)]
    Manual(Manual),
}

/// The commands that serve, set up and observe other programs.
#[cfg(feature = "programs")]
#[derive(Subcommand)]
pub(crate) enum Programs {
    Esp(Esp),
    /// Serve /dev/crypto from user space
    Devcrypto(Devcrypto),
    Serve(ServeAll),
    Advise(Advise),
    Openssl(Openssl),
    Stat(Stat),
    Exporter(Exporter),
    Top(Top),
}

/// Options that override the configuration.
#[derive(Args, Default)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct Settings {
    /// Set a configuration key; may be repeated; `gantry config keys` lists the keys
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub(crate) set: Vec<String>,
    /// Turn devices on or off, such as lanes=off,afalg=on
    #[arg(long, value_name = "NAME=on|off,...", global = true)]
    pub(crate) devices: Option<String>,
    /// Set the routing policy, which `gantry config keys` explains: latency, throughput, offload, break-even, round-robin, pin:DEVICE,
    /// failover:DEVICE,DEVICE,... or size-threshold:BYTES,DEVICE,DEVICE [default: the configured policy, or latency]
    #[arg(long, global = true)]
    pub(crate) policy: Option<String>,
}

impl Settings {
    /// Refuses options that have no effect on the command.
    pub(crate) fn refuse_without_effect(&self, path: &str) -> Result<(), Failure> {
        let options =
            [("set", !self.set.is_empty()), ("devices", self.devices.is_some()), ("policy", self.policy.is_some())];
        for (option, _) in options.into_iter().filter(|(_, is_given)| *is_given) {
            if let Some(command) = shape::command_without(option, path) {
                return Err(Failure::Usage(format!("--{option} has no effect on gantry {command}")));
            }
        }
        Ok(())
    }

    /// Returns the configuration with these options applied.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let mut config = Config::from_env()?;
        for set in &self.set {
            let (key, value) = set
                .split_once('=')
                .ok_or_else(|| Failure::Usage(format!("--set {set}: not KEY=VALUE, such as --set cpu=avx2")))?;
            config.set(key.trim(), value.trim(), format!("--set {set}"))?;
        }
        for (key, value) in [("devices", &self.devices), ("policy", &self.policy)] {
            if let Some(value) = value {
                config.set(key, value, format!("--{key} {value}"))?;
            }
        }
        Ok(config)
    }

    /// Opens the devices of this machine under this configuration.
    pub(crate) fn open(&self) -> Result<Gantry, Failure> {
        Ok(gantry_runtime::open(self.config()?)?)
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry devices                      a line for each device
  gantry devices lanes                one device and its algorithms; runs its known-answer tests
  gantry devices --devices null=on    include the null device, which computes nothing")]
pub(crate) struct Devices {
    /// Show only this device, with all its algorithms
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry algorithms
  gantry algorithms --json | jq -r '.[].name'    only the names")]
pub(crate) struct Algorithms {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain the crypto drivers of the Linux kernel
///
/// Reads /proc/crypto and shows, for each algorithm, the kernel's drivers, the preferred one, where each of them computes, and how
/// programs reach them. For an engine outside the CPU, also shows whether the CPU has instructions for the same work, and how to
/// compare the two. Opens sockets of AF_ALG, as programs do to use these algorithms, so the kernel may load modules.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry kernel               every algorithm that the kernel has loaded
  gantry kernel 'cbc(aes)'    one algorithm, by the kernel's name or Gantry's")]
pub(crate) struct Kernel {
    /// Show only this algorithm, named as in /proc/crypto or by Gantry
    pub(crate) algorithm: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Sum {
    /// Options and files, as for sha256sum
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// Show the configuration
///
/// The sources are, in this order: /etc/gantry/gantry.toml, gantry/gantry.toml under $XDG_CONFIG_HOME (~/.config), the file named
/// by GANTRY_CONFIG, environment variables (GANTRY_POLICY=pin:software), and arguments (--set policy=pin:software). All of them are
/// optional. If several sources set a key, the last one wins.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry config show                                 every value, and its source
  gantry config keys > gantry.toml                   a template of a configuration file
  gantry config show --policy pin:lanes              the configuration with an option applied")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every value and its source
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print every key with its meaning and default, as a template for gantry.toml
    Keys,
    /// Print the paths of the configuration files, and which of them exist
    Path,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry completions bash > ~/.local/share/bash-completion/completions/gantry
  gantry completions zsh > ~/.zfunc/_gantry
  gantry completions fish > ~/.config/fish/completions/gantry.fish")]
pub(crate) struct Completions {
    /// Shell to print completions for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct Manual {
    /// Folder to write to, which stands for the installation's PREFIX
    pub(crate) folder: PathBuf,
}

/// Parses a command line.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    // `sum` parses its own arguments as getopt would. Clap knows its options for help and completions only.
    let about_sum = arguments.get(1).is_some_and(|command| command == "help");
    let command = if about_sum { documented_command() } else { shape::command_to_parse() };
    let matches = command.try_get_matches_from(arguments)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let names = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand()).map(|(name, _)| name);
    cli.path = names.collect::<Vec<_>>().join(" ");
    if let (Command::Speed(speed), Some(matches)) = (&mut cli.command, matches.subcommand_matches("speed")) {
        speed.bytes_given = matches.value_source("bytes") == Some(ValueSource::CommandLine);
    }
    Ok(cli)
}

/// Returns the index of the device `name`.
pub(crate) fn device(gantry: &Gantry, name: &str) -> Result<usize, Failure> {
    let names: Vec<&str> = gantry.devices().iter().map(gantry_core::RegisteredDevice::name).collect();
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| Failure::Usage(format!("there is no device '{name}'{}", gantry_runtime::suggest(name, &names))))
}

/// Parses the path of a drawing, whose suffix has to be .svg.
fn drawing(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_svg = path.extension().is_some_and(|tail| tail.eq_ignore_ascii_case("svg"));
    if is_svg { Ok(path) } else { Err("drawings are SVG: FILE.svg".to_owned()) }
}

/// Parses a number of bytes, with an optional unit: K (1024), M or G.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("not a number of bytes, such as 1500, 16K or 1M".to_owned()),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a number of bytes, such as 1500, 16K or 1M".to_owned())
}

fn positive_size(text: &str) -> Result<usize, String> {
    size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("not a positive integer".to_owned()) })
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a positive integer".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_sizes_with_units() {
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

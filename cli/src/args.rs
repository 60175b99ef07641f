//! The command line as data: help, manual pages and completions are made from it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use gantry::{Algorithm, Gantry, Operation};
use gantry_runtime::Config;

use crate::output::Failure;
use crate::sum::options::{Front, rows};

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
}

const EXAMPLES: &str = "\
Examples:
  gantry devices                          which engines this machine has
  gantry check                            whether they compute what they should
  gantry speed sha256 --compare openssl   how fast they are, next to OpenSSL
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
    Check(Check),
    Speed(Speed),
    /// Print or verify digests of files
    Sum(Sum),
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

/// Check that the devices compute what they should
///
/// Runs the conformance suite on this very machine: vectors of NIST, the RFCs and Wycheproof, messages in pieces, batches,
/// forgeries, and random requests that are compared with the software device. The exit status is 1 when a device did
/// anything else than it must; the report then holds a command that repeats it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry check                                      every device, every algorithm
  gantry check --seconds 60 --seed 7                a minute of random requests, other ones than usual
  gantry check --device lanes --algorithm sha256    one algorithm of one device
  GANTRY_CPU=avx2 gantry check --device lanes       at another CPU level")]
pub(crate) struct Check {
    /// Check only this device; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Check only this algorithm; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Spend about this long on random requests in all, beside the fixed part of the suite
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = some_seconds)]
    pub(crate) seconds: f64,
    /// Make the random requests from this number: the same number repeats them
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure the devices
///
/// Each row is one way to work: an algorithm, an operation, a device, a number of bytes in each request, and a number of
/// requests handed over together. A batch of 1 is a direct call; the requests of a larger batch run side by side where
/// the device has lanes.
///
/// MB/s and requests/s count the requests of all threads over the wall time from the first start to the last end. The CPU
/// time is that of the whole process. P50 and P99 are latencies of a request, from the call to its return: for a batch
/// those of the batch, because each of its requests is done when all are. They are sampled, so that the clock is read
/// during less than 1 % of the time, and reading it is subtracted.
///
/// Every thread has IVs and buffers of its own: 256 KiB of them in turn, or one batch where that is more. Data is
/// encrypted and decrypted in place, but `open` works from one buffer into another, so that it opens what was really
/// sealed, each time. AEADs have 13 bytes of associated data, as in TLS.
///
/// `openssl speed` measures whole seconds and one request at a time, between two halves of ours. Its ciphers keep key and
/// IV for all requests. Its CPU time holds its start.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry speed                                      some algorithms on every device, half a minute
  gantry speed sha256 --bytes 64,1024,16384 --batch 1,16
  gantry speed aes-128-cbc --device lanes --operation encrypt --threads 2
  gantry speed sha256 aes-256-gcm --compare openssl
  gantry speed sha256 --bytes 16,64,256,1024,4096,16384 --batch 1,16 --plot sha256.svg")]
pub(crate) struct Speed {
    /// The algorithms; names of the Linux kernel and of IANA will do
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Measure these devices, or what the policy chooses (auto); otherwise every device
    #[arg(long, value_name = "NAME|auto", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Measure only these operations
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(crate) operation: Vec<OperationArg>,
    /// Bytes of data in a request
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "64,1024,16384", value_parser = positive)]
    pub(crate) bytes: Vec<usize>,
    /// Requests handed over together
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = positive)]
    pub(crate) batch: Vec<usize>,
    /// Threads that work at once, all on the same session
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: usize,
    /// Measure each row this long
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Measure this program too, in turn with the devices
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub(crate) compare: Option<Peer>,
    /// Print an array of JSON objects
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw throughput against bytes, a line for each device and batch
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// The installed `openssl speed`.
    Openssl,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationArg(pub(crate) Operation);

impl ValueEnum for OperationArg {
    fn value_variants<'a>() -> &'a [Self] {
        use Operation::{Decrypt, Digest, Encrypt, Mac, Open, Seal};
        const ALL: &[OperationArg] = &[
            OperationArg(Encrypt),
            OperationArg(Decrypt),
            OperationArg(Seal),
            OperationArg(Open),
            OperationArg(Digest),
            OperationArg(Mac),
        ];
        ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.0.name().into())
    }
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
    /// Write manual pages into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) man: Option<PathBuf>,
    /// Write completions into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) completions: Option<PathBuf>,
}

/// Reads a command line.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    // What comes after `sum` is read as getopt would, by `sum` itself. Clap knows these options only to speak of them.
    let about_sum = arguments.get(1).is_some_and(|command| command == "help");
    let command = if about_sum { documented() } else { Cli::command() };
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// The command line with everything that there is to say about it.
pub(crate) fn documented() -> clap::Command {
    Cli::command().mut_subcommand("sum", |_| {
        let options = rows(Front::Gantry).filter(|row| !matches!(row.long, "help" | "version")).map(|row| {
            let help = if row.checking { format!("{} (with --check)", row.help) } else { row.help.to_owned() };
            let mut option = clap::Arg::new(row.long).long(row.long).help(help);
            if let Some(letter) = row.short {
                option = option.short(letter);
            }
            match row.argument {
                Some(argument) => option.value_name(argument),
                None => option.action(clap::ArgAction::SetTrue),
            }
        });
        clap::Command::new("sum")
            .about("Print or verify digests of files")
            .long_about(
                "Print or verify digests of files, as sha256sum and its kin do: the same options, output, messages and \
                 exit status, many files at once. Under the names md5sum, sha1sum, sha224sum, sha256sum, sha384sum and \
                 sha512sum (links to this program) it is one of them. Options of the configuration stand before the \
                 command: gantry --policy pin:software sum FILE.",
            )
            .args(options)
            .arg(
                clap::Arg::new("file")
                    .value_name("FILE")
                    .num_args(0..)
                    .value_hint(clap::ValueHint::FilePath)
                    .help("Files to read; standard input where there is none, and for -"),
            )
    })
}

/// Algorithms by any of their names; all key sizes for a name that the Linux kernel gives to all.
pub(crate) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, Failure> {
    let mut found = Vec::new();
    for name in names {
        for algorithm in Algorithm::matching(name)? {
            if !found.contains(&algorithm) {
                found.push(algorithm);
            }
        }
    }
    Ok(found)
}

/// The place of the device of this name.
pub(crate) fn device(gantry: &Gantry, name: &str) -> Result<usize, Failure> {
    let names: Vec<&str> = gantry.devices().iter().map(gantry::RegisteredDevice::name).collect();
    names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| Failure::Usage(format!("there is no device '{name}'{}", gantry_runtime::suggest(name, &names))))
}

/// Seconds, or none.
fn some_seconds(text: &str) -> Result<f64, String> {
    let day = 86400.0;
    text.parse().ok().filter(|seconds| (0.0..=day).contains(seconds)).ok_or_else(|| format!("not a number up to {day}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = some_seconds(text)?;
    if seconds > 0.0 { Ok(seconds) } else { Err("must be more than 0".to_owned()) }
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a number from 1 on".to_owned())
}

fn threads(text: &str) -> Result<usize, String> {
    Some(positive(text)?).filter(|number| *number <= 1024).ok_or_else(|| "at most 1024".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        documented().debug_assert();
    }
}

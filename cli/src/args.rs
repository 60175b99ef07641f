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
    Kernel(Kernel),
    Check(Check),
    Speed(Speed),
    #[cfg(feature = "model")]
    Reproduce(Reproduce),
    Tune(Tune),
    Route(Route),
    /// Print or verify digests of files
    Sum(Sum),
    Crypt(Crypt),
    /// Be the /dev/crypto of this machine
    Devcrypto(Devcrypto),
    Openssl(Openssl),
    Stat(Stat),
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

/// Set up the OpenSSL provider, explain it, and watch it at work
///
/// gantry.so is a provider for OpenSSL 3.x and 4.x: programs that use OpenSSL use the devices of this machine through it,
/// without a change.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry openssl config                      the lines that activate it, for people who edit files themselves
  sudo gantry openssl config --system        put them into the system's openssl.cnf, beside a copy of the old one
  gantry openssl info                        who would serve which algorithm
  gantry openssl doctor -- curl https://...  what of a program's cryptography goes through it")]
pub(crate) struct Openssl {
    #[command(subcommand)]
    pub(crate) command: OpensslCommand,
}

#[derive(Subcommand)]
pub(crate) enum OpensslCommand {
    /// Print the configuration that activates the provider, or put it into a file
    Config {
        /// Change the file that OpenSSL reads, and keep a copy of it
        #[arg(long)]
        system: bool,
        /// Change this file, and keep a copy of it
        #[arg(long, value_name = "FILE", conflicts_with = "system")]
        file: Option<PathBuf>,
        /// Take out what was put in
        #[arg(long)]
        undo: bool,
    },
    /// Show for each algorithm which device would serve it, and why
    Info {
        /// Ask with this configuration of OpenSSL
        #[arg(long, value_name = "FILE")]
        conf: Option<PathBuf>,
    },
    /// Run a program, and say what of its cryptography went through the provider
    Doctor {
        /// The program and its arguments
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
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
/// the device has lanes. With --queue-depth there are rows of queues as well: each thread has a queue of its own, submits
/// one request after the other, and keeps so many in flight; what is done is submitted again. In JSON these rows have a
/// field more, `queue_depth`.
///
/// MB/s and requests/s count the requests of all threads over the wall time from the first start to the last end. The CPU
/// time is that of the whole process. P50 and P99 are latencies of a request, from the call to its return: for a batch
/// those of the batch, because each of its requests is done when all are; for a queue from `submit` to the completion. They are sampled, so that the clock is read
/// during less than 1 % of the time, and reading it is subtracted.
///
/// Every thread has IVs and buffers of its own: 256 KiB of them in turn, or one batch where that is more. Data is
/// encrypted and decrypted in place, but `open` works from one buffer into another, so that it opens what was really
/// sealed, each time. AEADs have 13 bytes of associated data, as in TLS.
///
/// With --regret, each point is measured on every device alone and under the policy, in turns of a fraction of a
/// millisecond; a turn in which the kernel took the CPU away is taken again. The ratio is the median of all turns: throughput of the policy, divided by
/// that of the device which is best at the point. --seconds is then the time for each way to work at a point; a point that seems
/// to lose is measured three times as long. The devices are calibrated before, unless they are known already. What a run found may be chance: --runs 5 measures everything five times
/// and takes the median of each point's ratios, with the best device of the run in the middle.
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
  gantry speed sha256 --device auto --batch 1,32 --queue-depth 32
  gantry speed --regret                             what the policy loses against the best device, a few minutes
  gantry speed sha256 --policy throughput --regret --threads 1 --json
  gantry speed --regret --runs 5 --plot regret.svg
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
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "64,1024,16384", value_parser = positive,
        default_value_if("regret", "true", "16,64,256,1024,4096,16384,65536"))]
    pub(crate) bytes: Vec<usize>,
    /// Requests handed over together
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = positive,
        default_value_if("regret", "true", "1,2,4,8,16,32,64"))]
    pub(crate) batch: Vec<usize>,
    /// Measure a queue of each thread too, with so many requests in flight
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = depth)]
    pub(crate) queue_depth: Vec<usize>,
    /// Threads that work at once, all on the same session; several numbers with --regret
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = threads,
        default_value_if("regret", "true", "1,2"))]
    pub(crate) threads: Vec<usize>,
    /// Begin data at multiples of N bytes, a power of two. Those on pages (4096) share few sets of the CPU's first cache
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = alignment, conflicts_with_all = ["queue_depth", "regret"])]
    pub(crate) alignment: usize,
    /// Measure each row this long
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Measure this program too, in turn with the devices
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub(crate) compare: Option<Peer>,
    /// Compare what the policy chooses with the best single device, point by point
    #[arg(long, conflicts_with_all = ["device", "compare", "csv", "queue_depth"])]
    pub(crate) regret: bool,
    /// Repeat all of --regret so often, and judge each point by the median; best an odd number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = runs, requires = "regret")]
    pub(crate) runs: usize,
    /// Print an array of JSON objects; of --regret, one object
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw throughput against bytes, a line for each device and batch; of --regret, the ratios as a map
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[cfg(feature = "model")]
/// Print published figures next to what Gantry does
///
/// The machines of the publications are modelled, and run in simulated time: one gets the same result everywhere, at
/// once. What concerns Gantry itself is measured on this machine. The exit status is 1 when something is not what was promised.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry reproduce ocf2003                three crypto cards of 2003, and what dispatch costs
  gantry reproduce ocf2003 --simulated    without measuring this machine
  gantry reproduce boards                 engine and CPU alone, and under Gantry's policies
  gantry reproduce flow-control           what happens when a ring is full")]
pub(crate) struct Reproduce {
    /// What to reproduce
    #[arg(value_enum)]
    pub(crate) work: Work,
    /// Leave out what is measured in real time
    #[arg(long)]
    pub(crate) simulated: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure what the policies go by, and keep it
///
/// Measures each device that shares an algorithm with another one, and shows from how many requests in hand and at which
/// sizes it is the fastest. What is found is kept under $XDG_CACHE_HOME (~/.cache) for all programs that use Gantry; they measure
/// it themselves when it is not there, after ten milliseconds of work for an algorithm.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry tune                            all algorithms that two devices serve, a few seconds
  gantry tune sha256 --plot sha256.svg   what is known then, as a drawing")]
pub(crate) struct Tune {
    /// The algorithms; names of the Linux kernel and of IANA will do
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw throughput against bytes, a line for each device and number in hand
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Explain where requests would run
///
/// Shows what the policy would choose now, why, and what it thinks of each device. Nothing is run, except that devices are
/// measured that are not known yet.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry route sha256 --bytes 1024 --batch 17
  gantry route aes-128-cbc --operation decrypt --bytes 65536
  gantry route sha256 --bytes 64 --batch 4 --policy break-even

Reasons: fastest, split (parts of the requests, so that all are done first), busy (the fastest one has
others before these), least-cpu, trial (to measure a device that is thought to be slower), only-choice;
of policies that do not measure enough-requests, too-few, pinned, first-in-order, turn, below-threshold
and above-threshold.")]
pub(crate) struct Route {
    /// The algorithm; a name of the Linux kernel or of IANA will do
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithm: String,
    /// The operation; the first one that the algorithm has, unless given
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) operation: Option<OperationArg>,
    /// Bytes of data in a request
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) bytes: usize,
    /// Requests in hand
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub(crate) batch: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "model")]
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Three cards and two ways of dispatch: "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003)
    Ocf2003,
    /// Two boards with a crypto engine beside a CPU that is as fast: Marvell Kirkwood and Cortex-A9
    Boards,
    /// 28 threads on one of the cards of 2003
    FlowControl,
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
        use Operation::{Decrypt, Derive, Digest, Encrypt, Mac, Open, Seal, Sign, Verify};
        const ALL: &[OperationArg] = &[
            OperationArg(Encrypt),
            OperationArg(Decrypt),
            OperationArg(Seal),
            OperationArg(Open),
            OperationArg(Digest),
            OperationArg(Mac),
            OperationArg(Sign),
            OperationArg(Verify),
            OperationArg(Derive),
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

/// Encrypt and decrypt files and pipes with raw keys
///
/// Data goes from standard input to standard output unless --in and --out name files. A file named by --out appears when it
/// is complete, readable by its owner alone; what had its name before is replaced.
///
/// Ciphers stream. CBC and ECB pad as `openssl enc` does (PKCS #7). An AEAD's tag follows its ciphertext. An AEAD is one
/// message, which lies in a temporary file without a name (beside --out, else in $TMPDIR or /var/tmp) until it is done:
/// nothing of a message whose tag is wrong is ever written elsewhere.
///
/// Keys are raw bytes, read from a descriptor to its end, so that they are in no list of processes. gantry makes no keys and
/// no IVs: the kernel does, in /dev/urandom. No IV may be used twice with the same key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  head -c 32 /dev/urandom > key; iv=$(od -An -tx1 -N12 /dev/urandom | tr -d ' \\n')
  gantry crypt -e aes-256-gcm --key-fd 3 --iv $iv -i mail -o mail.sealed 3<key
  gantry crypt -d aes-256-gcm --key-fd 3 --iv $iv -i mail.sealed 3<key
  tar c /etc | gantry crypt -e 'cbc(aes)' --key-fd 3 --iv 000102030405060708090a0b0c0d0e0f 3<key > etc.tar.cbc")]
pub(crate) struct Crypt {
    /// Encrypt; with an AEAD, seal
    #[arg(short, long, required_unless_present = "decrypt", conflicts_with = "decrypt")]
    pub(crate) encrypt: bool,
    /// Decrypt; with an AEAD, open
    #[arg(short, long)]
    pub(crate) decrypt: bool,
    /// The cipher or AEAD; where a name stands for all key sizes, the key chooses
    pub(crate) algorithm: String,
    /// Read the key from this descriptor
    #[arg(long, value_name = "N")]
    pub(crate) key_fd: i32,
    /// Read the second key of encrypt-then-authenticate algorithms from this descriptor
    #[arg(long, value_name = "N")]
    pub(crate) mac_key_fd: Option<i32>,
    /// The IV or nonce
    #[arg(long, value_name = "HEX")]
    pub(crate) iv: Option<String>,
    /// Data that is authenticated beside the message
    #[arg(long, value_name = "HEX")]
    pub(crate) aad: Option<String>,
    /// Bytes of the tag; the longest that the algorithm has, unless said otherwise
    #[arg(long, value_name = "N")]
    pub(crate) tag_bytes: Option<usize>,
    /// Neither add nor remove padding; the data is whole blocks
    #[arg(long)]
    pub(crate) no_padding: bool,
    /// Read this file
    #[arg(short, long = "in", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Write this file
    #[arg(short, long = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Devcrypto {
    #[command(subcommand)]
    pub(crate) command: DevcryptoCommand,
}

#[derive(Subcommand)]
pub(crate) enum DevcryptoCommand {
    Serve(Serve),
}

/// Serve /dev/crypto from user space
///
/// Makes the device through /dev/cuse (kernel module cuse) and serves it until it is ended: programs written for
/// cryptodev-linux use every device of Gantry, and need no kernel module of their own. With CAP_SYS_PTRACE it reads and writes
/// the memory of its callers directly; without, every request takes three trips through the kernel and has at most 128 KiB.
///
/// A server without a terminal looks again for devices at SIGHUP, such as engines of the kernel whose module has been loaded
/// since: what has come serves sessions made from then on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  modprobe cuse; gantry devcrypto serve                    /dev/crypto
  gantry --policy pin:lanes devcrypto serve --name lanes   /dev/lanes, served by one device")]
pub(crate) struct Serve {
    /// Make /dev/NAME
    #[arg(long, default_value = "crypto", value_parser = device_name)]
    pub(crate) name: String,
    /// Sessions that one user may have at a time
    #[arg(long, value_name = "N", default_value_t = gantry_cuse::Limits::default().sessions, value_parser = positive)]
    pub(crate) sessions: usize,
    /// Bytes of long requests that one user may have in work at a time, and most bytes of a request
    #[arg(long, value_name = "N", default_value_t = gantry_cuse::Limits::default().bytes, value_parser = positive)]
    pub(crate) bytes: usize,
}

/// Show what programs did with Gantry
///
/// Runs a command and then prints, on stderr, what it and its children did: how many requests went to which device, why, and how
/// long they took. Or prints what a running process did so far, which publishes its statistics because its configuration says
/// stats = "on".
///
/// A request may be a piece of a message. BATCH is the mean size of the batches that had more than one request. P50 and P99 are
/// times in the device; of a batch, each of its requests has the time of the batch. Few requests are timed, and stand for
/// those that are not.
///
/// The exit status is that of the command: 128 and the signal when one ended it, 127 when it is not there, 126 when it cannot
/// be run.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("whose").args(["pid", "command", "list"]).required(true), after_help = "\
Examples:
  gantry stat -- gantry sum *.iso             what hashing these files meant for the devices
  gantry stat --json --output run.json -- make test
  GANTRY_STATS=on my-server & gantry stat --list; gantry stat $!")]
pub(crate) struct Stat {
    /// Show what this running process did so far
    pub(crate) pid: Option<u32>,
    /// Run this command, and show what it did
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// List the running processes that publish statistics
    #[arg(long)]
    pub(crate) list: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write into this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
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

/// A name that fits behind /dev/ and into the answer to the kernel.
fn device_name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && !text.starts_with('.');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!".contains(&byte));
    if fits && plain { Ok(text.to_owned()) } else { Err("letters, digits, - and _, 64 at most".to_owned()) }
}

/// Data of requests lie at the beginning of a huge page at most.
fn alignment(text: &str) -> Result<usize, String> {
    let number = positive(text)?;
    let fits = number.is_power_of_two() && number <= 2 << 20;
    if fits { Ok(number) } else { Err("not a power of two up to 2097152".to_owned()) }
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "not a number from 1 on".to_owned())
}

/// What a queue may be told.
fn depth(text: &str) -> Result<usize, String> {
    let wrong = || "a queue has 1 to 65536 requests in flight".to_owned();
    positive(text).ok().filter(|number| *number <= 1 << 16).ok_or_else(wrong)
}

fn runs(text: &str) -> Result<usize, String> {
    Some(positive(text)?).filter(|number| *number <= 1000).ok_or_else(|| "at most 1000".to_owned())
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

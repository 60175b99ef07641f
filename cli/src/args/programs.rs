//! Commands that serve, set up and observe other programs: `esp`, `devcrypto`, `serve`, `advise`, `openssl`, `stat`, `exporter` and
//! `top`. The feature `programs` adds them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{positive, positive_size};

/// Show how much faster OpenSSL programs run with Gantry on this machine
///
/// Measures this machine for about ten seconds. Shows for each algorithm of OpenSSL the device that serves it with the installed
/// openssl.cnf, or OpenSSL if none does, and the device's speedup over OpenSSL's own code. The report ends with lines for openssl.cnf
/// that would increase the gain. Devices in the CPU are compared by CPU time, which other programs change little. Accelerators are
/// compared by wall time. The report marks the times that other programs changed noticeably.
///
/// With PROGRAM, runs it unchanged with the installed openssl.cnf, and then reports on standard error. The report lists the
/// OpenSSL calls of the program and its children, the devices that served them, and the gain. It also counts the calls that the
/// configuration leaves to OpenSSL, and names the TLS groups of Gantry that the program negotiated. If the program did not load
/// the provider gantry.so, the report says why.
///
/// With --pid, observes a running process and its forked children for --seconds. It sees only calls that the
/// process's openssl.cnf gives to Gantry. Root may observe processes of all users. Other users may observe only their own.
///
/// With PROGRAM, the exit status is that of the program. If a signal ended it, it is 128 plus the signal's number; if the program was
/// not found, 127; if it could not be run, 126. Without PROGRAM, it is 0 on success, 1 for a failure, and 2 for a mistake on the
/// command line.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry advise                               measure this machine
  gantry advise -- curl -o /dev/null https://localhost/
                                              one program
  sudo gantry advise --pid $(pgrep -o nginx)  nginx and its workers
  gantry advise --verbose                     every algorithm, operation and size
  gantry advise --json | jq .lines            the lines for openssl.cnf")]
pub(crate) struct Advise {
    /// Observe this running process
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pub(crate) pid: Option<u32>,
    /// Seconds to observe the process, from 0.1 to 86400; only with --pid
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, requires = "pid", value_parser = interval)]
    pub(crate) seconds: f64,
    /// Program to run, with its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
    /// Show every algorithm, operation and size that was measured
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report to this file [default: standard output; standard error with PROGRAM]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Set up the OpenSSL provider
///
/// gantry.so is a provider for OpenSSL 3.x and 4.x. With it, unmodified OpenSSL programs use the devices of this
/// machine. `gantry advise` shows how much faster they run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry openssl config                       print the lines, to edit openssl.cnf by hand
  sudo gantry openssl config --system         add them to the system's openssl.cnf, and keep a copy
  sudo gantry openssl config --system --undo  remove them")]
pub(crate) struct Openssl {
    #[command(subcommand)]
    pub(crate) command: OpensslCommand,
}

#[derive(Subcommand)]
pub(crate) enum OpensslCommand {
    /// Print the configuration that activates the provider, or add it to a file
    ///
    /// Measures this machine with the installed OpenSSL. The configuration names the algorithms that a device runs at least 1.15 times
    /// as fast as OpenSSL. If FILE already names algorithms for Gantry, keeps them, and measures nothing; to
    /// measure again, remove them with --undo first.
    ///
    /// With --system or --file, adds the lines to the file. The first run keeps a copy of the file as FILE.before-gantry.
    #[command(group = clap::ArgGroup::new("target").args(["system", "file"]))]
    Config {
        /// Change the system's openssl.cnf, and keep a copy
        #[arg(long)]
        system: bool,
        /// Change this file, and keep a copy
        #[arg(long, value_name = "FILE", conflicts_with = "system")]
        file: Option<PathBuf>,
        /// Remove the lines that this command added; requires --system or --file
        #[arg(long, requires = "target")]
        undo: bool,
        /// Prefer the TLS group X25519MLKEM768, which OpenSSL 3.0 to 3.4 do not have
        #[arg(long, conflicts_with = "undo")]
        post_quantum: bool,
    },
}

/// Show how programs used Gantry
///
/// Runs a command, and then reports on standard error the requests of the command and its children: how many went to each device, why,
/// and how long they took. With PID, prints the same for a running process and its children so far. Root sees the processes of all
/// users. Other users see only their own. Programs run with GANTRY_STATS=FOLDER leave their statistics
/// in FOLDER at the end; `gantry stat --set stats=FOLDER` prints them.
///
/// A request may be one piece of a message. BATCH is the mean size of batches with more than one request. P50 and P99 are
/// percentiles of the time in the device, estimated from a sample of the requests. Each request of a batch counts with the time of
/// the batch.
///
/// --devices, --policy and --set apply to the command.
///
/// The exit status is that of the command, or 128 plus the signal's number if a signal ended it, 127 if it was not found, 126 if it
/// could not be run.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("whose").args(["pid", "command", "list"]).required(true), override_usage = "\
gantry stat [OPTIONS] -- COMMAND...
       gantry stat [OPTIONS] <PID|--list|--set stats=FOLDER>", after_help = "\
Examples:
  gantry stat -- gantry sum *.iso             how the devices hashed these files
  gantry stat --json --output run.json -- make test
  gantry stat --list                          programs that use Gantry now
  gantry stat $(pgrep -o nginx)               nginx and its workers so far")]
pub(crate) struct Stat {
    /// Show the statistics of this running process
    pub(crate) pid: Option<u32>,
    /// Command to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// List the running processes that use Gantry; root sees those of all users
    #[arg(long)]
    pub(crate) list: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report to this file [default: standard output; standard error with COMMAND]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Export metrics for Prometheus
///
/// Exports the requests of all processes that use Gantry, by device, algorithm and operation. Processes that have ended since the
/// exporter started are included. Requests that an OpenSSL program left to its own libcrypto count as the device "host". If `gantry
/// esp` is running, its counters are exported, too. No counter decreases while the exporter runs.
///
/// Sees processes of other users if it runs as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH. Programs that live for less
/// than a second may be missed.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("where").args(["listen", "textfile"]).required(true).multiple(true), after_help = "\
Examples:
  gantry exporter --listen 127.0.0.1:9746      serve http://127.0.0.1:9746/metrics
  gantry exporter --textfile /var/lib/prometheus/node-exporter
                                               for node_exporter's textfile collector")]
pub(crate) struct Exporter {
    /// Serve scrapes at this address, under the path /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Write gantry.prom to this folder periodically
    #[arg(long, value_name = "DIR")]
    pub(crate) textfile: Option<PathBuf>,
    /// Seconds between two writes of gantry.prom; only with --textfile
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "textfile")]
    pub(crate) every: u64,
    /// Write gantry.prom once, and exit; only with --textfile, not with --listen
    #[arg(long, requires = "textfile", conflicts_with = "listen")]
    pub(crate) once: bool,
    /// Add a label with the name of the program to each metric
    #[arg(long)]
    pub(crate) by_program: bool,
    /// Folder of the sockets of `gantry esp`
    #[arg(long, value_name = "DIR", default_value = "/run/gantry-esp")]
    pub(crate) esp: PathBuf,
}

/// Watch how programs use Gantry, live
///
/// Shows the processes that use Gantry, and below them their work by device, algorithm and operation. The columns are requests and
/// megabytes per second, times in the device, and events such as faults, devices taken out of use, and full queues. A process and its
/// forked children are one line, under the PID of the oldest. HOST is the share of requests that an OpenSSL program left to its own
/// libcrypto. DEVICES is the remaining share. QUEUED is the average number of requests that wait for the device. BUSY is the average
/// number of requests in the device. All numbers are those of the last interval.
///
/// Needs no privileges. Root sees the processes of all users. Other users see only their own. In a terminal, ? shows the keys. If
/// standard output is not a terminal, prints one table and exits, as with --once. A narrow terminal shows fewer columns; for a pipe,
/// COLUMNS sets the width. Respects NO_COLOR.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry top                              live; q quits, ? shows the keys
  gantry top --interval 0.2               five updates per second
  gantry top --once                       one table, after one second
  gantry top --once --json | jq '.processes[] | {program, requests_per_s}'
  gantry top --json --interval 10 >> log  one line of JSON every ten seconds, until interrupted")]
pub(crate) struct Top {
    /// Seconds between two updates, from 0.1 to 86400
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one table after one interval, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON: one object with --once, otherwise one line per interval
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run IPsec's ESP in user space, under an unmodified IKE daemon
///
/// `gantry esp serve` runs the data path: a process that takes the place of the kernel's ESP. From a TUN device it reads packets that
/// match an IPsec policy, encrypts them in one batch across all associations, and sends them, in UDP or directly in IP. An IKE daemon
/// or `ip xfrm` started by `gantry esp exec` installs keys in the data path instead of in the kernel.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo gantry esp serve --protect 10.2.0.0/16    run it; never send to 10.2.0.0/16 in clear
  sudo gantry esp exec -- /usr/lib/ipsec/charon  run an IKE daemon on the data path
  sudo gantry esp exec -- ip xfrm state          list the associations
  gantry esp status                              show counters and devices
  sudo gantry esp clear                          after the data path has ended, let packets pass
                                                 in clear again")]
pub(crate) struct Esp {
    #[command(subcommand)]
    pub(crate) command: EspCommand,
}

#[derive(Subcommand)]
pub(crate) enum EspCommand {
    /// Run the data path in the foreground
    ///
    /// Needs /dev/net/tun and the capability CAP_NET_ADMIN. ESP without UDP also needs CAP_NET_RAW. The data path needs no
    /// other privilege of root. Run it as the user of the IKE daemon, because both share a UDP port.
    ///
    /// Packets that match an IPsec policy leave through the tunnel or not at all. When the data path ends, routes that block these
    /// packets stay until it is started again or `gantry esp clear` removes them.
    Serve(EspServe),
    /// Show associations, packets, and the devices that did the work
    ///
    /// Every user may see the counters. Only root and the user of the data path see the associations.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        folder: EspFolder,
    },
    /// Run an IKE daemon, or `ip xfrm`, on the data path in place of the kernel's ESP
    ///
    /// Loads libgantry_xfrm.so into the program and its children. If no data path is running, they find no IPsec at all, not even the
    /// kernel's. The exit status is that of the program, or 127 if it was not found, 126 if it could not be run.
    Exec {
        #[command(flatten)]
        folder: EspFolder,
        /// Program to run, with its arguments
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<OsString>,
    },
    /// Remove the routes and rules that a data path left behind
    ///
    /// Packets to protected networks may then leave in clear.
    Clear,
}

/// Location of the data path's sockets.
#[derive(Args)]
pub(crate) struct EspFolder {
    /// Folder of the data path's sockets
    #[arg(long, value_name = "DIR", default_value = "/run/gantry-esp")]
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct EspServe {
    /// Name of the TUN interface to create
    #[arg(long, value_name = "NAME", default_value = "gantry0")]
    pub(crate) tun: String,
    /// MTU of the TUN interface, in bytes, from 576 to 9000
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = clap::value_parser!(u32).range(576..=9000))]
    pub(crate) mtu: u32,
    /// UDP port of ESP, which is also the IKE daemon's
    #[arg(long, value_name = "PORT", default_value_t = 4500, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Pairs of threads, from 1 to 64: one to send and one to receive; flows and associations are spread over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) queues: u8,
    /// Never let packets to these networks leave in clear, even without an IPsec policy; separated by commas; may be repeated
    #[arg(long, value_name = "NETWORK/LENGTH", value_delimiter = ',', value_parser = gantry_esp::parse_network)]
    pub(crate) protect: Vec<gantry_esp::Prefix>,
    #[command(flatten)]
    pub(crate) folder: EspFolder,
}

#[derive(Args)]
pub(crate) struct Devcrypto {
    #[command(subcommand)]
    pub(crate) command: DevcryptoCommand,
}

#[derive(Subcommand)]
pub(crate) enum DevcryptoCommand {
    Serve(DevcryptoServe),
}

/// Serve /dev/crypto from user space
///
/// Creates the device through /dev/cuse (kernel module cuse) and serves it until interrupted. Programs written for cryptodev-linux can
/// then use all engines of Gantry, without the cryptodev kernel module. With CAP_SYS_PTRACE, the server accesses the memory of
/// its callers directly. Without it, every request takes three round trips through the kernel and is limited to 128 KiB.
///
/// On SIGHUP, a server without a terminal looks for new engines, such as those of a kernel module loaded since. They serve sessions
/// created from then on.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo modprobe cuse; sudo gantry devcrypto serve          serve /dev/crypto
  gantry --policy pin:lanes devcrypto serve --name lanes   serve /dev/lanes, by lanes where they can")]
pub(crate) struct DevcryptoServe {
    /// Serve /dev/NAME
    #[arg(long, default_value = "crypto", value_parser = device_name)]
    pub(crate) name: String,
    /// Maximum number of sessions per user
    #[arg(long, value_name = "N", default_value_t = gantry_cuse::Limits::default().sessions, value_parser = positive)]
    pub(crate) sessions: usize,
    /// Maximum bytes in flight per user, such as 64M; only requests of 128 KiB or more count. Further requests wait; one of more than
    /// N bytes fails
    #[arg(long, value_name = "N", default_value_t = gantry_cuse::Limits::default().bytes, value_parser = positive_size)]
    pub(crate) bytes: usize,
}

/// Parses the seconds between two updates.
fn interval(text: &str) -> Result<f64, String> {
    let fits = |seconds: &f64| (0.1..=86400.0).contains(seconds);
    text.parse().ok().filter(fits).ok_or_else(|| "not a number from 0.1 to 86400".to_owned())
}

/// Parses a device name that is valid after /dev/ and short enough for the answer to the kernel.
pub(super) fn device_name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && !text.starts_with('.');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!".contains(&byte));
    if fits && plain { Ok(text.to_owned()) } else { Err("letters, digits, - and _, 64 at most".to_owned()) }
}

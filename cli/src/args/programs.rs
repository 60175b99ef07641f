//! Commands that are about other programs, or do the work of one: `advise`, `openssl`, `stat`, `top`, `esp`, `devcrypto`, `crypt` and `compress`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, Error, Subcommand, ValueEnum};

use super::{positive, size};

/// Say what gantry gains on this machine, or for a program, and what would gain more
///
/// Measures this machine for some seconds: which algorithms of OpenSSL the installed configuration serves, who has their requests, and by
/// what a device is faster than the program's own libcrypto. Ends with a verdict, and with the lines of openssl.cnf that would gain more. All
/// times are those of the CPU, so that other programs change little; where they do, that is said.
///
/// With a program, runs it as it is, under the installed configuration, and then says, on stderr, what it and its children asked of
/// OpenSSL, where that went, and what it gained. What the configuration does not serve is counted, too, and stays where it was. A
/// program that did not load gantry gets the reason. With --pid, it looks at a process that runs, for --seconds; there only what the
/// configuration serves can be seen. Root may look at the processes of all users, others at their own.
///
/// The exit status is that of the program: 128 and the signal when one ended it, 127 when it is not there, 126 when it cannot
/// be run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry advise                              what this machine gains
  gantry advise -- curl -o /dev/null https://localhost/
                                             what a program gains
  sudo gantry advise --pid $(pgrep -o nginx) nginx and its workers
  gantry advise --table                      every algorithm, operation and size
  gantry advise --json | jq .lines           for scripts")]
pub(crate) struct Advise {
    /// Look at this process while it runs
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pub(crate) pid: Option<u32>,
    /// Look for so many seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, requires = "pid", value_parser = interval)]
    pub(crate) seconds: f64,
    /// Run this program, and say what it gains
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
    /// Show every algorithm, operation and size that was measured
    #[arg(long, conflicts_with = "json")]
    pub(crate) table: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write into this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Set up the OpenSSL provider
///
/// gantry.so is a provider for OpenSSL 3.x and 4.x: programs that use OpenSSL use the devices of this machine through it,
/// without a change. `gantry advise` says what they gain.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry openssl config                      the lines that activate it, for people who edit files themselves
  sudo gantry openssl config --system        put them into the system's openssl.cnf, beside a copy of the old one
  sudo gantry openssl config --system --undo take them out again")]
pub(crate) struct Openssl {
    #[command(subcommand)]
    pub(crate) command: OpensslCommand,
}

#[derive(Subcommand)]
pub(crate) enum OpensslCommand {
    /// Print the configuration that activates the provider, or put it into a file
    #[command(group = clap::ArgGroup::new("target").args(["system", "file"]))]
    Config {
        /// Change the file that OpenSSL reads, and keep a copy of it
        #[arg(long)]
        system: bool,
        /// Change this file, and keep a copy of it
        #[arg(long, value_name = "FILE", conflicts_with = "system")]
        file: Option<PathBuf>,
        /// Take out what was put in
        #[arg(long, requires = "target")]
        undo: bool,
    },
}

/// Show what programs did with Gantry
///
/// Runs a command and then prints, on stderr, what it and its children did: how many requests went to which device, why, and how
/// long they took. Or prints what a running process and its children did so far; root may ask for those of all users, others for their
/// own. With --set stats=FOLDER it reads what processes left there.
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
  gantry stat --list                          what uses Gantry at the moment
  gantry stat $(pgrep -o nginx)               nginx and its workers so far")]
pub(crate) struct Stat {
    /// Show what this running process did so far
    pub(crate) pid: Option<u32>,
    /// Run this command, and show what it did
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// List the running processes that use Gantry: root's view is of all users
    #[arg(long)]
    pub(crate) list: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write into this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Tell Prometheus what programs do with Gantry
///
/// Adds up the requests of all processes that use Gantry, of those that have ended since it was started too, by device,
/// algorithm and operation. What an OpenSSL program left to its own libcrypto is the device "host". Adds what the data path of
/// `gantry esp` counts, where there is one. No number ever goes back while the exporter runs.
///
/// It sees processes of other users as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, and programs that live for a second
/// or longer.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("where").args(["listen", "textfile"]).required(true).multiple(true), after_help = "\
Examples:
  gantry exporter --listen 127.0.0.1:9746      for a scrape of http://127.0.0.1:9746/metrics
  gantry exporter --textfile /var/lib/prometheus/node-exporter
                                               for node_exporter's textfile collector")]
pub(crate) struct Exporter {
    /// Answer scrapes at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Write gantry.prom into this folder again and again
    #[arg(long, value_name = "DIR")]
    pub(crate) textfile: Option<PathBuf>,
    /// Seconds from one gantry.prom to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "textfile")]
    pub(crate) every: u64,
    /// Write gantry.prom once, and end
    #[arg(long, requires = "textfile", conflicts_with = "listen")]
    pub(crate) once: bool,
    /// Tell programs apart by their names, in a label
    #[arg(long)]
    pub(crate) by_program: bool,
    /// The folder of the sockets of `gantry esp`
    #[arg(long, value_name = "DIR", default_value = "/run/gantry-esp")]
    pub(crate) esp: PathBuf,
}

/// Watch what programs do with Gantry, live
///
/// Shows the processes that use Gantry, and below them what they do, by device, algorithm and operation: requests and megabytes in a
/// second, times in the device, and events such as faults, quarantines and rings that were full. A process and its children by fork
/// are one line, with the number of the oldest. HOST is the share of the requests that an OpenSSL program left to its own libcrypto,
/// DEVICES the share of all others. QUEUED and BUSY say how many requests were on their way to the device and in it, on average. All
/// numbers are those of the last interval.
///
/// It needs no rights: root sees the processes of all users, other users their own. In a terminal, ? shows the keys. Where standard
/// output is no terminal, it prints one table and ends, as with --once. Narrow terminals show fewer
/// columns, and so does a pipe where COLUMNS says how many; NO_COLOR is respected.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry top                              live; q ends it, ? shows the keys
  gantry top --interval 0.2               five times a second
  gantry top --once                       one table, after one second
  gantry top --once --json | jq '.processes[] | {program, requests_per_s}'
  gantry top --json --interval 10 >> log  one line of JSON every ten seconds, until it is ended")]
pub(crate) struct Top {
    /// Look again after so many seconds, at least 0.1
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one table after one interval, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON: one object with --once, otherwise a line for each interval
    #[arg(long)]
    pub(crate) json: bool,
}

/// The number of a descriptor. What stands in its place may be a key (`--key 0011...` is short for `--key-fd`), so that no message
/// repeats it.
#[derive(Clone)]
struct Descriptor;

impl TypedValueParser for Descriptor {
    type Value = i32;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, value: &OsStr) -> Result<i32, Error> {
        let number = value.to_str().and_then(|value| value.parse().ok()).filter(|number| *number >= 0);
        number.ok_or_else(|| {
            let option = option.and_then(Arg::get_long).unwrap_or_default();
            let message = format!(
                "--{option} takes the number of a descriptor, not a key: arguments are in the list of processes, for all to read\n"
            );
            Error::raw(ErrorKind::InvalidValue, message).with_cmd(command)
        })
    }
}

/// Serve the ESP of IPsec in user space, under an unmodified IKE daemon
///
/// Packets that match a policy leave a TUN device, are encrypted in one batch over all associations, and travel in UDP. An IKE daemon
/// that `gantry esp exec` starts installs its keys here in place of the kernel; `ip xfrm` installs keys by hand.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo gantry esp serve --protect 10.2.0.0/16    the data path; 10.2.0.0/16 gets nothing in clear
  sudo gantry esp exec -- /usr/lib/ipsec/charon  an IKE daemon that uses it
  sudo gantry esp exec -- ip xfrm state          the associations
  gantry esp status                              what it does, and which devices do it
  sudo gantry esp clear                          when it has ended: let packets pass in clear again")]
pub(crate) struct Esp {
    #[command(subcommand)]
    pub(crate) command: EspCommand,
}

#[derive(Subcommand)]
pub(crate) enum EspCommand {
    /// Run the data path, until it is ended
    ///
    /// Needs CAP_NET_ADMIN and /dev/net/tun, and nothing else of root. The user has to be that of the IKE daemon, because both share a UDP port.
    ///
    /// Packets that match a policy leave through the tunnel or not at all. Routes to nowhere stay behind when the data path ends, until
    /// it is started again or `gantry esp clear` takes them away.
    Serve(EspServe),
    /// Show associations, packets, and the devices that did the work
    ///
    /// Everybody may see the counters, root and the user of the data path also the associations.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        folder: EspFolder,
    },
    /// Run an IKE daemon, or `ip xfrm`, on the data path in place of the kernel's ESP
    ///
    /// Loads libgantry_xfrm.so into the program and those that it starts. Where no data path is at work, they find no IPsec at all, rather
    /// than the kernel's.
    Exec {
        #[command(flatten)]
        folder: EspFolder,
        /// The program
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        command: Vec<OsString>,
    },
    /// Take away the routes and rules that a data path left behind
    ///
    /// What was protected by them may leave in clear then.
    Clear,
}

/// Where the data path is found.
#[derive(Args)]
pub(crate) struct EspFolder {
    /// The folder of its sockets
    #[arg(long, value_name = "DIR", default_value = "/run/gantry-esp")]
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
pub(crate) struct EspServe {
    /// The name of the TUN device
    #[arg(long, value_name = "NAME", default_value = "gantry0")]
    pub(crate) device: String,
    /// The MTU of the TUN device, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = clap::value_parser!(u32).range(576..=9000))]
    pub(crate) mtu: u32,
    /// The UDP port of ESP
    #[arg(long, value_name = "PORT", default_value_t = 4500, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Pairs of threads, one to send and one to receive; they share the work by flows and associations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) queues: u8,
    /// Never let packets to this network leave in clear, even without a policy; may be repeated
    #[arg(long, value_name = "NETWORK/LENGTH", value_delimiter = ',', value_parser = gantry_esp::network)]
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

/// Encrypt and decrypt files and pipes with raw keys
///
/// Data goes from standard input to standard output unless --in and --out name files. A file named by --out appears when it
/// is complete, readable by its owner alone; what had its name before is replaced.
///
/// Ciphers stream. CBC and ECB pad as `openssl enc` does (PKCS #7). An AEAD's tag follows its ciphertext. An AEAD is one
/// message, which stays in memory until it is done: nothing of a message whose tag is wrong is ever written.
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
    #[arg(long, value_name = "N", value_parser = Descriptor)]
    pub(crate) key_fd: i32,
    /// Read the second key of encrypt-then-authenticate algorithms from this descriptor
    #[arg(long, value_name = "N", value_parser = Descriptor)]
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

/// Compress files and pipes, as gzip and zstd do, on all processors
///
/// Data goes from standard input to standard output unless --in and --out name files. A file named by --out appears when it
/// is complete, readable by its owner alone; what had its name before is replaced.
///
/// The data is cut into blocks, which are compressed side by side and written one after another: members of gzip (RFC 1952)
/// or frames of zstd (RFC 8878), which gzip -d and zstd -d read as one file.
///
/// To decompress takes memory for the whole input and for the whole result, of which --most is the limit.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tar c /etc | gantry compress > etc.tar.gz
  gantry compress zstd --level 19 -i backup.tar -o backup.tar.zst
  gantry compress -d zstd -i backup.tar.zst | tar t")]
pub(crate) struct Compress {
    /// Decompress
    #[arg(short, long, conflicts_with_all = ["level", "block", "threads"])]
    pub(crate) decompress: bool,
    /// gzip or zstd
    #[arg(default_value = "gzip")]
    pub(crate) format: Format,
    /// How hard to try: 1 to 9 with gzip, 1 to 19 with zstd
    #[arg(short, long, value_name = "N")]
    pub(crate) level: Option<usize>,
    /// Bytes of a block, which is compressed by itself; larger blocks leave fewer bytes, and keep fewer processors at work
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = block)]
    pub(crate) block: usize,
    /// Threads; as many as there are processors, unless said otherwise
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) threads: Option<usize>,
    /// Decompress to so many bytes at most
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size, requires = "decompress")]
    pub(crate) most: usize,
    /// Read this file
    #[arg(short, long = "in", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Write this file
    #[arg(short, long = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// RFC 1952, as gzip has it
    Gzip,
    /// RFC 8878, as zstd has it
    Zstd,
}

/// A block of data that is worth a header of its own, and fits into memory many times.
fn block(text: &str) -> Result<usize, String> {
    let fits = |bytes: &usize| (4 << 10..=256 << 20).contains(bytes);
    let bytes = size(text)?;
    if fits(&bytes) { Ok(bytes) } else { Err("a block has 4K to 256M bytes".to_owned()) }
}

/// Seconds between two looks.
fn interval(text: &str) -> Result<f64, String> {
    let fits = |seconds: &f64| (0.1..=86400.0).contains(seconds);
    text.parse().ok().filter(fits).ok_or_else(|| "not a number from 0.1 to 86400".to_owned())
}

/// A name that fits behind /dev/ and into the answer to the kernel.
pub(super) fn device_name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len()) && !text.starts_with('.');
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!".contains(&byte));
    if fits && plain { Ok(text.to_owned()) } else { Err("letters, digits, - and _, 64 at most".to_owned()) }
}

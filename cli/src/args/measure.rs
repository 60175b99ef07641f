//! Commands that run requests to learn something: `check`, `speed`, `tune` and `route`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gantry_core::Operation;

use super::{drawing, positive, positive_size, size};

/// Check that the devices compute what they should
///
/// Runs the conformance suite on this very machine: vectors of NIST, the RFCs and Wycheproof, messages in pieces, batches,
/// forgeries, and random requests that are compared with the software device. First each algorithm of each device passes the device's own known
/// answers. Then of each part of the suite runs as much as there is time for; SUITE says which share that was. With --all everything
/// runs, half a minute. The exit status is 1 when a device did anything else than it must; the
/// report then holds a command that repeats it. 0 means that nothing that ran was wrong: that is the whole suite only with --all.
///
/// Wycheproof's vectors, and most of those of ML-KEM and ML-DSA, are in a file, gantry-vectors.zlib, which lies beside the program or in
/// ../share/gantry as seen from there. The report says which file was used. Without the file the rest of the suite runs. A file that cannot be read
/// is a failure: the rest runs, and the exit status is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry check                                      every device, every algorithm, ten seconds
  gantry check --all --seconds 60 --seed 7          the whole suite, and a minute of random requests, other ones than usual
  gantry check --device lanes --algorithm sha256    one algorithm of one device
  GANTRY_CPU=avx2 gantry check --device lanes       at another CPU level")]
pub(crate) struct Check {
    /// Check only this device; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Check only this algorithm; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Take about this long; with --all, this long for random requests, beside everything else
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = some_seconds)]
    pub(crate) seconds: f64,
    /// Run the whole suite
    #[arg(long)]
    pub(crate) all: bool,
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
/// time is that of the whole process; CPU is its share of the wall time. SPREAD is how far the rounds of a row differ, eight for each thread: the
/// middle half, as a share of the median, by CPU time where the threads compute; +2 are two rounds farther than a fifth from it. P50 and P99 are latencies of a request, from the call to its return: for a batch
/// those of the batch, because each of its requests is done when all are; for a queue from `submit` to the completion. They are sampled, so that the clock is read
/// during less than 1 % of the time, and reading it is subtracted.
///
/// Every thread has IVs and buffers of its own: 256 KiB of them in turn, or one batch where that is more. Data is
/// encrypted and decrypted in place, but `open` works from one buffer into another, so that it opens what was really
/// sealed, each time. AEADs have 13 bytes of associated data, as in TLS.
///
/// `openssl speed` measures whole seconds and one request at a time, between two halves of ours. Its ciphers keep key and
/// IV for all requests. Its CPU time holds its start. /OPENSSL compares by CPU time where both keep their CPUs busy, so that what
/// other programs take from the machine does not count, and by wall time where a device works beside the CPU.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry speed                                      some algorithms on every device, half a minute
  gantry speed sha256 --bytes 64,1K,16K --batch 1,16
  gantry speed aes-128-cbc --device lanes --operation encrypt --threads 2
  gantry speed sha256 aes-256-gcm --compare openssl
  gantry speed sha256 --device auto --batch 1,32 --queue-depth 32
  gantry speed sha256 --bytes 16,64,256,1024,4096,16384 --batch 1,16 --plot sha256.svg")]
#[allow(clippy::struct_excessive_bools, reason = "one switch of the command line each")]
pub(crate) struct Speed {
    /// The algorithms, or families of them (aes, p256, sha3-*); names of the Linux kernel and of IANA will do
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Measure these devices, or what the policy chooses (auto); otherwise every device
    #[arg(long, value_name = "NAME|auto", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Measure only these operations
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(crate) operation: Vec<OperationArg>,
    /// Bytes of data in a request; 16K and 1M will do
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "64,1024,16384", value_parser = positive_size)]
    pub(crate) bytes: Vec<usize>,
    /// Somebody asked for these sizes.
    #[arg(skip)]
    pub(crate) bytes_given: bool,
    /// Requests handed over together
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = positive)]
    pub(crate) batch: Vec<usize>,
    /// Measure a queue of each thread too, with so many requests in flight
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = depth)]
    pub(crate) queue_depth: Vec<usize>,
    /// Threads that work at once, all on the same session
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: usize,
    /// Begin data at multiples of N bytes, a power of two. Those on pages (4096) share few sets of the CPU's first cache
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = alignment, conflicts_with = "queue_depth")]
    pub(crate) alignment: usize,
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
    #[arg(long, value_name = "FILE.svg", value_parser = drawing)]
    pub(crate) plot: Option<PathBuf>,
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
    #[arg(long, value_name = "FILE.svg", value_parser = drawing)]
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
    /// Bytes of data in a request; 16K and 1M will do
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = size)]
    pub(crate) bytes: usize,
    /// Requests in hand
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub(crate) batch: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
        const ALL: [OperationArg; Operation::ALL.len()] = {
            let mut all = [OperationArg(Operation::ALL[0]); _];
            let mut at = 0;
            while at < all.len() {
                all[at] = OperationArg(Operation::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(self.0.name().into())
    }
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

/// Data of requests lie at the beginning of a huge page at most.
fn alignment(text: &str) -> Result<usize, String> {
    let number = positive(text)?;
    let fits = number.is_power_of_two() && number <= 2 << 20;
    if fits { Ok(number) } else { Err("not a power of two up to 2097152".to_owned()) }
}

/// What a queue may be told.
fn depth(text: &str) -> Result<usize, String> {
    let wrong = || "a queue has 1 to 65536 requests in flight".to_owned();
    positive(text).ok().filter(|number| *number <= 1 << 16).ok_or_else(wrong)
}

fn threads(text: &str) -> Result<usize, String> {
    Some(positive(text)?).filter(|number| *number <= 1024).ok_or_else(|| "at most 1024".to_owned())
}

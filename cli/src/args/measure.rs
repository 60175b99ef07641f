//! Commands that run requests to learn something: `check`, `speed`, `tune` and `route`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gantry_core::Operation;

use super::{drawing, positive, positive_size, size};

/// Check that the devices compute correct results
///
/// Runs the conformance suite on this machine: vectors of NIST, the RFCs and Wycheproof, messages in pieces, batches, forgeries,
/// and random requests compared with the device `software`. Every algorithm of every device first runs its known-answer tests. Then
/// the parts of the suite share the rest of --seconds. The column SUITE is the share of the suite that ran. With --all, the
/// whole suite runs, which takes half a minute, and random requests run for --seconds.
///
/// The exit status is 1 if a device gave a wrong result. The report then has a command that repeats the failure. Exit status 0 covers
/// only the cases that ran; SUITE shows their share.
///
/// Wycheproof's vectors, and most of those of ML-KEM, ML-DSA and SLH-DSA, are in the file gantry-vectors.zlib, beside the program or
/// in ../share/gantry relative to it. The report names the file. If it is missing or unreadable, the rest of the suite
/// runs. If it is unreadable, the exit status is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry check                                      every device, every algorithm, ten seconds
  gantry check --all --seconds 60 --seed 7          the whole suite, and 60 s of random requests
  gantry check --device lanes --algorithm sha256    one algorithm of one device
  GANTRY_CPU=avx2 gantry check --device lanes       as on a CPU without AVX-512")]
pub(crate) struct Check {
    /// Check only these devices, separated by commas; may be repeated [default: every device]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Check only these algorithms or families (aes, p256, sha3-*), separated by commas; may be repeated [default: every algorithm]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Seconds to run, up to 86400; with --all, seconds of random requests besides the suite
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = non_negative_seconds)]
    pub(crate) seconds: f64,
    /// Run the whole suite, for about half a minute, and random requests for --seconds
    #[arg(long)]
    pub(crate) all: bool,
    /// Seed of the random requests; the same seed gives the same requests
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure the throughput and latency of devices
///
/// Each row is one combination of algorithm, operation, device, request size and batch size. A batch of 1 is a direct call. Requests
/// of a larger batch run in parallel if the device has lanes. With --queue-depth, there are also rows for queues. Each thread
/// has its own queue, submits requests one by one, and keeps N in flight. In JSON, these rows have the additional field `queue_depth`.
///
/// MB/s (10^6 bytes) and requests/s count the requests of all threads over wall time, from the first start to the last end. CPU/REQ
/// is the CPU time of the whole process per request. CPU is the CPU time of the process divided by wall time and by the number of
/// threads, or of CPUs if there are fewer. It is about 100 % if the threads compute, and less if they wait for a device or a CPU.
///
/// Each thread divides the time of a row into eight rounds (16 with --compare). SPREAD is the interquartile range of the rounds' time
/// per request, as a share of the median. It uses CPU time if the threads compute, otherwise wall time. A suffix of +2 means that two
/// rounds differ from the median by more than 20 %.
///
/// P50 and P99 are latencies of a request, from the call to its return. In a batch, each request has the latency of the batch. In a
/// queue, latency is from `submit` to completion. Latencies are sampled, so that reading the clock takes less than 1 % of the time;
/// this time is subtracted.
///
/// Each thread has its own IVs and buffers: it cycles through 256 KiB, or through one batch if that is larger. Data is encrypted and
/// decrypted in place, except that `open` works from one buffer into another, so that every request opens correctly sealed data.
/// AEADs have 13 bytes of associated data, as in TLS.
///
/// --compare runs `openssl speed` between the two halves of each measurement. `openssl speed` measures whole seconds and one request
/// at a time. Its ciphers keep one key and IV for all requests. Its CPU time includes its startup. The column /OPENSSL is the speed
/// of the device divided by that of `openssl speed`: 2x is twice as fast. The speeds are by wall time if the device works outside the
/// CPU, and otherwise by CPU time, which other programs change little.
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
    /// Algorithms, or families of them (aes, p256, sha3-*); kernel and IANA names are accepted [default: sha1, sha256, hmac-sha256,
    /// aes-128-cbc, aes-256-gcm and chacha20-poly1305]
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Measure these devices, separated by commas, or the policy's choice (auto); may be repeated [default: every device]
    #[arg(long, value_name = "NAME|auto", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Measure only these operations, separated by commas; may be repeated [default: all but unprotect]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub(crate) operation: Vec<OperationArg>,
    /// Bytes of data in a request, such as 64, 16K or 1M; K is 1024
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "64,1024,16384", value_parser = positive_size)]
    pub(crate) bytes: Vec<usize>,
    /// True if --bytes was on the command line.
    #[arg(skip)]
    pub(crate) bytes_given: bool,
    /// Requests per batch; 1 is a direct call
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16", value_parser = positive)]
    pub(crate) batch: Vec<usize>,
    /// Also measure one queue per thread, with N requests in flight, from 1 to 65536
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = depth)]
    pub(crate) queue_depth: Vec<usize>,
    /// Number of threads, up to 1024, all with the same key
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: usize,
    /// Align data to N bytes, a power of two up to 2097152; not with --queue-depth. Buffers aligned to pages (4096) share few sets of
    /// the L1 cache, so they may be slower
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = alignment, conflicts_with = "queue_depth")]
    pub(crate) alignment: usize,
    /// Seconds to measure each row
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Also measure this program, alternating with the devices
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub(crate) compare: Option<ComparedProgram>,
    /// Print an array of JSON objects
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw throughput against request size, one line per device and batch size
    #[arg(long, value_name = "FILE.svg", value_parser = drawing)]
    pub(crate) plot: Option<PathBuf>,
}

/// Measure devices, and keep the times for the routing policies
///
/// Measures the time that each device takes, for several request sizes and numbers of requests in flight. Shows the sizes at which
/// each device is the fastest. The policies latency, throughput and offload route by these times.
///
/// The times are stored under $XDG_CACHE_HOME/gantry (~/.cache/gantry). All later programs of this user that use Gantry read them.
/// Without them, a program measures the devices itself after 10 ms of work for an algorithm.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry tune                            all algorithms that two devices serve, a few seconds
  gantry tune sha256 --plot sha256.svg   measure one algorithm, and draw the result")]
pub(crate) struct Tune {
    /// Algorithms to measure, or families of them (aes, p256, sha3-*); kernel and IANA names are accepted [default: all that at least
    /// two devices serve]
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithms: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw throughput against request size, one line per device and number of requests in flight
    #[arg(long, value_name = "FILE.svg", value_parser = drawing)]
    pub(crate) plot: Option<PathBuf>,
}

/// Explain where requests would run
///
/// Shows the device that the policy would choose now, the reason, and the estimated cost on each device. Runs no requests, except to
/// measure devices of unknown cost.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gantry route sha256 --bytes 1024 --batch 17
  gantry route aes-128-cbc --operation decrypt --bytes 65536
  gantry route sha256 --bytes 64 --batch 4 --policy break-even

Reasons:
  fastest          the device finishes first, by its measured times
  split            the device gets a part of the batch, so that the batch finishes earlier
  busy             the fastest device has to finish other requests first
  least-cpu        the device needs the least time of the calling thread (policy offload)
  trial            the request measures a device that is believed to be slower
  only-choice      no other device serves the request
  enough-requests  the batch reaches the device's break-even (policy break-even)
  too-few          the batch is too small for devices that need several requests (break-even)
  pinned           the policy pin names the device
  first-in-order   the device is the first in order that works (failover), or replaces the policy's
                   device, which cannot serve the request (pin, size-threshold)
  turn             the device is next in turn (policy round-robin)
  below-threshold  the policy size-threshold names the device for requests below its BYTES
  above-threshold  the policy size-threshold names the device for other requests")]
pub(crate) struct Route {
    /// Algorithms, or families of them (aes, p256, sha3-*), separated by commas; kernel and IANA names are accepted
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithm: String,
    /// Operation [default: encrypt, seal, digest, sign or another, by the kind of the algorithm]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) operation: Option<OperationArg>,
    /// Bytes of data in a request, such as 64, 16K or 1M; K is 1024
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = size)]
    pub(crate) bytes: usize,
    /// Requests in the batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub(crate) batch: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparedProgram {
    /// The installed `openssl speed`
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

/// Parses a number of seconds, zero included.
fn non_negative_seconds(text: &str) -> Result<f64, String> {
    let day = 86400.0;
    text.parse().ok().filter(|seconds| (0.0..=day).contains(seconds)).ok_or_else(|| format!("not a number up to {day}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = non_negative_seconds(text)?;
    if seconds > 0.0 { Ok(seconds) } else { Err("must be more than 0".to_owned()) }
}

/// Parses an alignment: at most a huge page.
fn alignment(text: &str) -> Result<usize, String> {
    let number = positive(text)?;
    let fits = number.is_power_of_two() && number <= 2 << 20;
    if fits { Ok(number) } else { Err("not a power of two up to 2097152".to_owned()) }
}

/// Parses the depth of a queue.
fn depth(text: &str) -> Result<usize, String> {
    let wrong = || "not a number from 1 to 65536".to_owned();
    positive(text).ok().filter(|number| *number <= 1 << 16).ok_or_else(wrong)
}

fn threads(text: &str) -> Result<usize, String> {
    Some(positive(text)?).filter(|number| *number <= 1024).ok_or_else(|| "at most 1024".to_owned())
}

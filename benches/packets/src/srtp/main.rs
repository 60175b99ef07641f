//! CPU time per SRTP packet, compared with libsrtp2.
//!
//! ```text
//! gantry-bench-srtp --peer PROGRAM [--bytes 172] [--streams 1000] [--burst 32] [--seconds 0.2] [--rounds 9] [SUITE...]
//! ```
//!
//! `PROGRAM` is `benches/packets/libsrtp.c`, built by `benches/packets/srtp`. Gantry and the peer take turns. A row has the
//! median times of the rounds, and the medians of their ratios peer / Gantry. The output on stdout is JSON.

#![forbid(unsafe_code)]

mod ours;

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use gantry_protocols::srtp::Suite;
use gantry_runtime::Config;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Suites by their IANA names.
const SUITES: [(&str, Suite); 4] = [
    ("AES_CM_128_HMAC_SHA1_80", Suite::AesCm128HmacSha1_80),
    ("AES_256_CM_HMAC_SHA1_80", Suite::AesCm256HmacSha1_80),
    ("AEAD_AES_128_GCM", Suite::AeadAes128Gcm),
    ("AEAD_AES_256_GCM", Suite::AeadAes256Gcm),
];

struct Options {
    peer: String,
    /// Bytes of an RTP packet.
    bytes: usize,
    streams: usize,
    burst: usize,
    min_time: Duration,
    rounds: usize,
    suites: Vec<(&'static str, Suite)>,
}

/// Nanoseconds of CPU time per packet.
#[derive(Clone, Copy)]
struct NsPerPacket {
    seal: f64,
    open: f64,
}

fn main() -> Result<()> {
    let options = options()?;
    let gantry = gantry_runtime::open(Config::from_env()?)?;
    let mut rows = Vec::new();
    for (name, suite) in &options.suites {
        let mut streams = ours::Streams::new(&gantry, *suite, &options)?;
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            rounds.push((streams.measure(options.min_time)?, measure_peer(name, &options)?));
        }
        let median = |of: fn(&(NsPerPacket, NsPerPacket)) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            (values[values.len() / 2] * 1000.0).round() / 1000.0
        };
        rows.push(serde_json::json!({
            "suite": name,
            "bytes": options.bytes,
            "streams": options.streams,
            "burst": options.burst,
            "seal_ns": median(|(ours, _)| ours.seal),
            "open_ns": median(|(ours, _)| ours.open),
            "peer_seal_ns": median(|(_, peer)| peer.seal),
            "peer_open_ns": median(|(_, peer)| peer.open),
            "seal_ratio": median(|(ours, peer)| peer.seal / ours.seal),
            "open_ratio": median(|(ours, peer)| peer.open / ours.open),
        }));
    }
    println!("{}", serde_json::to_string_pretty(&rows)?);
    Ok(())
}

fn options() -> Result<Options> {
    let min_time = Duration::from_millis(200);
    let (bytes, streams, burst, rounds) = (172, 1000, 32, 9);
    let mut options = Options { peer: String::new(), bytes, streams, burst, min_time, rounds, suites: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match &*argument {
            "--peer" => options.peer = value()?,
            "--bytes" => options.bytes = value()?.parse()?,
            "--streams" => options.streams = value()?.parse()?,
            "--burst" => options.burst = value()?.parse()?,
            "--seconds" => options.min_time = Duration::from_secs_f64(value()?.parse()?),
            "--rounds" => options.rounds = value()?.parse()?,
            name => {
                let suite = SUITES.into_iter().find(|(other, _)| *other == name);
                options.suites.push(
                    suite.ok_or(format!("unknown suite {name}, expected one of {:?}", SUITES.map(|(name, _)| name)))?,
                );
            }
        }
    }
    if options.peer.is_empty() {
        return Err("--peer is missing: benches/packets/srtp builds it".into());
    }
    let numbers = [options.streams, options.burst, options.rounds];
    if options.bytes < ours::HEADER_LEN || numbers.contains(&0) {
        return Err("--bytes must be at least 12; --streams, --burst and --rounds at least 1".into());
    }
    if options.suites.is_empty() {
        options.suites = SUITES.to_vec();
    }
    Ok(options)
}

fn measure_peer(suite: &str, options: &Options) -> Result<NsPerPacket> {
    let Options { peer, bytes, streams, min_time, .. } = options;
    let words = [suite, &bytes.to_string(), &streams.to_string(), &min_time.as_secs_f64().to_string()];
    let output = Command::new(peer).args(words).output()?;
    if !output.status.success() {
        return Err(format!("{peer}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let (seal, open) = text.trim().split_once(' ').ok_or(format!("{peer} said {text:?}"))?;
    Ok(NsPerPacket { seal: seal.parse()?, open: open.parse()? })
}

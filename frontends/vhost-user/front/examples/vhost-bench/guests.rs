//! Measures two guests: the size of the batches that they share, and the effect of one on the other.

use std::error::Error;
use std::time::Duration;

use gantry_vhost_user_front::load::{self, LoadGenerator, RunResult};
use gantry_vhost_user_front::parameters::Layout;
use serde::Serialize;

use crate::cpu;
use crate::server::ServerProcess;

const ROUNDS: usize = 5;
const ROUND_TIME: Duration = Duration::from_secs(1);
const WARM_UP_TIME: Duration = Duration::from_millis(500);
/// The bytes per request of the measured guest, and its number of requests in flight.
const MEASURED: (usize, usize) = (1024, 8);
/// The rate of the limited guest, in bytes per second.
const CAP_BYTES_PER_SECOND: u64 = 10_000_000;

/// Two guests with 8 requests in flight each.
#[derive(Serialize)]
pub(crate) struct PairRow {
    bytes: usize,
    /// Mean batch size over requests: the median of all rounds.
    mean_batch: f64,
    /// CPU time of the back end per request, in microseconds: the median of all rounds with two guests, and with one guest.
    cpu_us: f64,
    alone_cpu_us: f64,
}

/// A measured guest, while another guest is active.
#[derive(Serialize)]
pub(crate) struct InterferenceRow {
    other: &'static str,
    /// Cost of the measured guest's requests while the other guest is active, divided by their cost without it.
    ratio: f64,
    /// Requests per second of the measured guest, alone and while the other guest is active.
    alone_requests_per_second: f64,
    requests_per_second: f64,
}

/// Behaviour of the other guest, the number of its socket, its bytes per request and requests in flight, and whether its requests name
/// wrong sessions.
const OTHERS: [(&str, usize, (usize, usize), bool); 3] = [
    ("floods: 256 requests of 4 KiB in flight", 1, (4096, 256), false),
    ("lies: 256 requests in flight without a session", 1, (4096, 256), true),
    ("is at its cap: 10 MB/s of 64 requests of 4 KiB in flight", 2, (4096, 64), false),
];

/// Measures and prints how much two equal guests share bursts.
pub(crate) fn measure_pairs() -> Result<Vec<PairRow>, Box<dyn Error>> {
    println!("\n{:>8} {:>12} {:>12} {:>12}   two guests, 8 in flight each", "bytes", "mean batch", "us CPU", "alone");
    let mut rows = Vec::new();
    for bytes in [64, 1024, 4096] {
        let mut server = ServerProcess::new(&[0, 0])?;
        let mut alone = LoadGenerator::new(&server.socket(0), Layout::Qemu10, bytes, 8)?;
        let alone_cpu_us = median(rounds(|| {
            let (cpu_time, done) = measure(&server, &mut [&mut alone])?;
            Ok(microseconds(cpu_time, done[0].requests))
        })?);
        let mut other = LoadGenerator::new(&server.socket(1), Layout::Qemu10, bytes, 8)?;
        let mut batches = Vec::new();
        let cpu_us = median(rounds(|| {
            let before = server.sums()?;
            let (cpu_time, done) = measure(&server, &mut [&mut alone, &mut other])?;
            let after = server.sums()?;
            batches.push((after.burst_sum - before.burst_sum) as f64 / (after.requests - before.requests) as f64);
            Ok(microseconds(cpu_time, done.iter().map(|done| done.requests).sum()))
        })?);
        let mean_batch = median(batches);
        println!("{bytes:>8} {mean_batch:>12.1} {cpu_us:>12.2} {alone_cpu_us:>12.2}");
        rows.push(PairRow { bytes, mean_batch, cpu_us, alone_cpu_us });
    }
    Ok(rows)
}

/// Measures and prints how a second guest affects the first. One process serves both. The CPU time of the second guest's requests is
/// subtracted, at the cost that they have when the second guest is alone.
pub(crate) fn measure_interference() -> Result<Vec<InterferenceRow>, Box<dyn Error>> {
    println!(
        "\n{:>8} {:>14} {:>14}   a guest with {} in flight of {} bytes beside one that ...",
        "ratio", "alone, 1/s", "beside, 1/s", MEASURED.1, MEASURED.0
    );
    let mut rows = Vec::new();
    for (name, socket, (bytes, depth), is_hostile) in OTHERS {
        let server = ServerProcess::new(&[0, 0, CAP_BYTES_PER_SECOND])?;
        let mut measured = LoadGenerator::new(&server.socket(0), Layout::Qemu10, MEASURED.0, MEASURED.1)?;
        let mut other = LoadGenerator::new(&server.socket(socket), Layout::Qemu10, bytes, depth)?;
        if is_hostile {
            other = other.with_unknown_sessions()?;
        }
        let (mut ratios, mut alone_rates, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        rounds(|| {
            // Compared values are measured in turns, so that load on the machine affects all of them.
            let (cpu_time, alone) = measure(&server, &mut [&mut measured])?;
            let alone_seconds = cpu_time.as_secs_f64() / alone[0].requests as f64;
            let (cpu_time, others) = measure(&server, &mut [&mut other])?;
            let other_seconds = cpu_time.as_secs_f64() / others[0].requests as f64;
            let (cpu_time, both) = measure(&server, &mut [&mut measured, &mut other])?;
            let measured_seconds = cpu_time.as_secs_f64() - other_seconds * both[1].requests as f64;
            ratios.push(measured_seconds / both[0].requests as f64 / alone_seconds);
            alone_rates.push(alone[0].requests as f64 / alone[0].time.as_secs_f64());
            rates.push(both[0].requests as f64 / both[0].time.as_secs_f64());
            Ok(())
        })?;
        let row = InterferenceRow {
            other: name,
            ratio: median(ratios),
            alone_requests_per_second: median(alone_rates),
            requests_per_second: median(rates),
        };
        let (alone, together) = (row.alone_requests_per_second, row.requests_per_second);
        println!("{:>8.2} {alone:>14.0} {together:>14.0}   {name}", row.ratio);
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the results of all rounds.
fn rounds<T>(mut round: impl FnMut() -> Result<T, Box<dyn Error>>) -> Result<Vec<T>, Box<dyn Error>> {
    (0..ROUNDS).map(|_| round()).collect()
}

/// Runs these guests at the same time. Returns the CPU time of the server, and the results of each guest.
fn measure(
    server: &ServerProcess,
    loads: &mut [&mut LoadGenerator],
) -> Result<(Duration, Vec<RunResult>), Box<dyn Error>> {
    load::run_all(loads, WARM_UP_TIME)?;
    let before = cpu::process_time(server.pid())?;
    let done = load::run_all(loads, ROUND_TIME)?;
    Ok((cpu::process_time(server.pid())?.saturating_sub(before), done))
}

fn microseconds(time: Duration, requests: u64) -> f64 {
    time.as_secs_f64() * 1e6 / requests as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

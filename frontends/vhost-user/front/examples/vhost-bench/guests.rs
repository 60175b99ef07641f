//! Two guests: how much they share their bursts, and what one does to the other.

use std::error::Error;
use std::time::Duration;

use gantry_vhost_user_front::load::{self, Done, Load};
use gantry_vhost_user_front::parameters::Layout;
use serde::Serialize;

use crate::cpu;
use crate::server::Served;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
const WARM: Duration = Duration::from_millis(500);
/// The guest that is watched: bytes and requests in flight.
const WATCHED: (usize, usize) = (1024, 8);
/// Bytes a second of the guest at its cap.
const CAP: u64 = 10_000_000;

/// Two guests with 8 requests in flight each.
#[derive(Serialize)]
pub(crate) struct Together {
    bytes: usize,
    /// Requests of a burst, on average over requests: the median of all rounds.
    mean_batch: f64,
    /// CPU time of the back end for a request, in microseconds: the median of all rounds, beside another guest and alone.
    cpu_us: f64,
    alone_cpu_us: f64,
}

/// A guest beside another.
#[derive(Serialize)]
pub(crate) struct Beside {
    other: &'static str,
    /// What the watched guest's requests cost beside the other guest, by what they cost alone.
    ratio: f64,
    /// Requests a second of the watched guest, alone and beside the other.
    alone_requests_per_second: f64,
    requests_per_second: f64,
}

/// What the other guest does, how many bytes and requests it has in flight, and whether its requests lie.
const OTHERS: [(&str, usize, (usize, usize), bool); 3] = [
    ("floods: 256 requests of 4 KiB in flight", 1, (4096, 256), false),
    ("lies: 256 requests in flight without a session", 1, (4096, 256), true),
    ("is at its cap: 10 MB/s of 64 requests of 4 KiB in flight", 2, (4096, 64), false),
];

/// Measures and prints what two equal guests share.
pub(crate) fn together() -> Result<Vec<Together>, Box<dyn Error>> {
    println!("\n{:>8} {:>12} {:>12} {:>12}   two guests, 8 in flight each", "bytes", "mean batch", "us CPU", "alone");
    let mut rows = Vec::new();
    for bytes in [64, 1024, 4096] {
        let mut served = Served::new(&[0, 0])?;
        let mut alone = Load::new(&served.socket(0), Layout::Qemu10, bytes, 8)?;
        let alone_cpu_us = median(rounds(|| {
            let (spent, done) = spend(&served, &mut [&mut alone])?;
            Ok(microseconds(spent, done[0].requests))
        })?);
        let mut other = Load::new(&served.socket(1), Layout::Qemu10, bytes, 8)?;
        let mut batches = Vec::new();
        let cpu_us = median(rounds(|| {
            let before = served.sums()?;
            let (spent, done) = spend(&served, &mut [&mut alone, &mut other])?;
            let after = served.sums()?;
            batches.push((after.company - before.company) as f64 / (after.requests - before.requests) as f64);
            Ok(microseconds(spent, done.iter().map(|done| done.requests).sum()))
        })?);
        let mean_batch = median(batches);
        println!("{bytes:>8} {mean_batch:>12.1} {cpu_us:>12.2} {alone_cpu_us:>12.2}");
        rows.push(Together { bytes, mean_batch, cpu_us, alone_cpu_us });
    }
    Ok(rows)
}

/// Measures and prints what another guest does to one. CPU time is that of a process which serves both: of what both took together, the
/// other guest's requests are counted with what they cost when that guest is alone.
pub(crate) fn beside() -> Result<Vec<Beside>, Box<dyn Error>> {
    println!(
        "\n{:>8} {:>14} {:>14}   a guest with {} in flight of {} bytes beside one that ...",
        "ratio", "alone, 1/s", "beside, 1/s", WATCHED.1, WATCHED.0
    );
    let mut rows = Vec::new();
    for (name, socket, (bytes, depth), lies) in OTHERS {
        let served = Served::new(&[0, 0, CAP])?;
        let mut watched = Load::new(&served.socket(0), Layout::Qemu10, WATCHED.0, WATCHED.1)?;
        let mut other = Load::new(&served.socket(socket), Layout::Qemu10, bytes, depth)?;
        if lies {
            other = other.lying()?;
        }
        let (mut ratios, mut alone_rates, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        rounds(|| {
            // What is compared is measured in turns, so that a busy machine is busy for all of it.
            let (spent, alone) = spend(&served, &mut [&mut watched])?;
            let one = spent.as_secs_f64() / alone[0].requests as f64;
            let (spent, others) = spend(&served, &mut [&mut other])?;
            let of_other = spent.as_secs_f64() / others[0].requests as f64;
            let (spent, both) = spend(&served, &mut [&mut watched, &mut other])?;
            let left = spent.as_secs_f64() - of_other * both[1].requests as f64;
            ratios.push(left / both[0].requests as f64 / one);
            alone_rates.push(alone[0].requests as f64 / alone[0].time.as_secs_f64());
            rates.push(both[0].requests as f64 / both[0].time.as_secs_f64());
            Ok(())
        })?;
        let row = Beside {
            other: name,
            ratio: median(ratios),
            alone_requests_per_second: median(alone_rates),
            requests_per_second: median(rates),
        };
        let (alone, beside) = (row.alone_requests_per_second, row.requests_per_second);
        println!("{:>8.2} {alone:>14.0} {beside:>14.0}   {name}", row.ratio);
        rows.push(row);
    }
    Ok(rows)
}

/// Results of all rounds.
fn rounds<T>(mut round: impl FnMut() -> Result<T, Box<dyn Error>>) -> Result<Vec<T>, Box<dyn Error>> {
    (0..ROUNDS).map(|_| round()).collect()
}

/// CPU time of the server while these guests run at the same time, and what each has had.
fn spend(served: &Served, loads: &mut [&mut Load]) -> Result<(Duration, Vec<Done>), Box<dyn Error>> {
    load::together(loads, WARM)?;
    let before = cpu::of(served.pid())?;
    let done = load::together(loads, ROUND)?;
    Ok((cpu::of(served.pid())?.saturating_sub(before), done))
}

fn microseconds(time: Duration, requests: u64) -> f64 {
    time.as_secs_f64() * 1e6 / requests as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

//! Measures one guest: bytes x requests in flight.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use gantry_vhost_user_front::load::LoadGenerator;
use gantry_vhost_user_front::parameters::Layout;
use serde::Serialize;

use crate::cpu;

const ROUNDS: usize = 5;
const ROUND_TIME: Duration = Duration::from_secs(1);
const WARM_UP_TIME: Duration = Duration::from_millis(500);

/// The result for one size and one number of requests in flight.
#[derive(Serialize)]
pub(crate) struct Row {
    bytes: usize,
    in_flight: usize,
    /// CPU time of the back end per request, in microseconds: the median, minimum and maximum of all rounds.
    cpu_us: [f64; 3],
    requests_per_second: f64,
    refused: u64,
    /// The reason why there are no numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// Parses pairs: `64x32` is 64 bytes, 32 in flight.
pub(crate) fn parse_pairs(words: &[&str]) -> Result<Vec<(usize, usize)>, Box<dyn Error>> {
    let pair = |word: &&str| {
        let (bytes, depth) = word.split_once('x').ok_or_else(|| format!("{word} is not BYTESxDEPTH"))?;
        Ok((bytes.parse()?, depth.parse()?))
    };
    words.iter().map(pair).collect()
}

/// Measures each pair, and prints its row at once. The row of a pair that fails contains the error.
pub(crate) fn measure(socket: &Path, pid: u32, layout: Layout, pairs: &[(usize, usize)]) -> Vec<Row> {
    println!(
        "{:>8} {:>9} {:>12} {:>15} {:>13} {:>9}",
        "bytes", "in flight", "us CPU", "least, most", "requests/s", "refused"
    );
    let mut rows = Vec::new();
    for (bytes, in_flight) in pairs {
        let row = measure_pair(socket, pid, layout, *bytes, *in_flight).unwrap_or_else(|error| Row {
            bytes: *bytes,
            in_flight: *in_flight,
            cpu_us: [0.0; 3],
            requests_per_second: 0.0,
            refused: 0,
            failed: Some(error.to_string()),
        });
        if let Some(reason) = &row.failed {
            println!("{bytes:>8} {in_flight:>9} {reason}");
        } else {
            let [median, least, most] = row.cpu_us;
            let range = format!("{least:.2}, {most:.2}");
            let (rate, refused) = (row.requests_per_second, row.refused);
            println!("{bytes:>8} {in_flight:>9} {median:>12.2} {range:>15} {rate:>13.0} {refused:>9}");
        }
        rows.push(row);
    }
    rows
}

fn measure_pair(
    socket: &Path,
    pid: u32,
    layout: Layout,
    bytes: usize,
    in_flight: usize,
) -> Result<Row, Box<dyn Error>> {
    let mut load = LoadGenerator::new(socket, layout, bytes, in_flight)?;
    // Before measuring, routes are learned and memory is touched.
    load.run(WARM_UP_TIME)?;
    let (mut costs, mut rates, mut refused) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let before = cpu::process_time(pid)?;
        let done = load.run(ROUND_TIME)?;
        let cpu_time = cpu::process_time(pid)?.saturating_sub(before);
        let requests = done.requests as f64;
        costs.push(cpu_time.as_secs_f64() * 1e6 / requests);
        rates.push(requests / done.time.as_secs_f64());
        refused += done.refused;
    }
    costs.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    Ok(Row {
        bytes,
        in_flight,
        cpu_us: [costs[ROUNDS / 2], costs[0], costs[ROUNDS - 1]],
        requests_per_second: rates[ROUNDS / 2],
        refused,
        failed: None,
    })
}

use gantry::{Algorithm, Operation};
use serde::Serialize;

use super::Group;
use super::load::How;
use super::measure::Tally;
use crate::args::Speed;
use crate::output::{Failure, Output, say};
use crate::table::line;
use crate::units::{duration, round};

/// One row, as JSON.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) algorithm: &'static str,
    pub(super) operation: &'static str,
    /// A device, `auto`, or `openssl`.
    pub(super) device: String,
    /// Of data in each request.
    pub(super) bytes: usize,
    /// Requests handed over together.
    pub(super) batch: usize,
    pub(super) threads: usize,
    /// Of all threads.
    pub(super) requests: u64,
    /// From the first start to the last end.
    pub(super) wall_s: f64,
    /// Of all threads.
    pub(super) cpu_s: f64,
    /// Millions of bytes of all threads in a second of wall time.
    pub(super) mb_per_s: f64,
    pub(super) requests_per_s: f64,
    /// `null` where nothing was sampled (`openssl`).
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    /// Requests that each thread keeps in flight, where they go through a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_depth: Option<usize>,
}

impl Row {
    pub(super) fn new(
        algorithm: Algorithm,
        operation: Operation,
        device: &str,
        bytes: usize,
        how: How,
        threads: usize,
        tally: &Tally,
    ) -> Self {
        let requests_per_s = tally.requests as f64 / tally.wall.max(f64::MIN_POSITIVE);
        Self {
            algorithm: algorithm.name(),
            operation: operation.name(),
            device: device.to_owned(),
            bytes,
            batch: how.batch(),
            threads,
            requests: tally.requests,
            wall_s: round(tally.wall, 6),
            cpu_s: round(tally.cpu, 6),
            mb_per_s: round(requests_per_s * bytes as f64 / 1e6, 3),
            requests_per_s: round(requests_per_s, 1),
            p50_ns: tally.percentile(0.5),
            p99_ns: tally.percentile(0.99),
            queue_depth: if let How::Queue(depth) = how { Some(depth) } else { None },
        }
    }
}

impl Row {
    /// CPU seconds for each second of each thread that can have a CPU: about 1 where a thread computes, less where it waits for a device, or for
    /// a CPU that others have.
    fn busy(&self) -> f64 {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from).min(self.threads);
        self.cpu_s / (self.wall_s * cpus as f64).max(f64::MIN_POSITIVE)
    }

    /// How much faster than another row. By CPU time, if both have threads that compute: what others take from the machine does not count then.
    fn over(&self, other: &Row) -> f64 {
        let by_cpu = |row: &Row| row.requests as f64 / row.cpu_s.max(f64::MIN_POSITIVE);
        let compute = |row: &Row| row.busy() > COMPUTES;
        if compute(self) && compute(other) {
            by_cpu(self) / by_cpu(other)
        } else {
            self.requests_per_s / other.requests_per_s
        }
    }
}

/// A thread that is as busy as this computes, and lost the rest to others.
const COMPUTES: f64 = 0.3;
/// More than this has to be said.
const STOLEN: f64 = 0.1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
    Csv,
}

/// Rows on their way out: a table and CSV as they come, JSON when all are there.
pub(super) struct Report {
    format: Format,
    rows: Vec<Row>,
    widths: Vec<usize>,
    queues: bool,
    compared: bool,
}

const HEADER: [&str; 11] = [
    "ALGORITHM",
    "OPERATION",
    "DEVICE",
    "BYTES",
    "BATCH",
    "THREADS",
    "MB/s",
    "REQUESTS/s",
    "P50",
    "P99",
    "CPU/REQUEST",
];
/// A column, and where it is, if there are queues.
const QUEUE: (usize, &str) = (5, "QUEUE");
const COMPARED: &str = "/OPENSSL";
const RIGHT: &[usize] = &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

impl Report {
    pub(super) fn new(args: &Speed, plan: &[Group]) -> Self {
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        let algorithms = plan.iter().map(|group| group.algorithm.name().len()).max().unwrap_or(0);
        let devices = plan.iter().flat_map(|group| &group.points).map(|point| point.device.len()).max().unwrap_or(0);
        let mut widths = [algorithms.max(9), 9, devices.max(8), 8, 5, 7, 9, 11, 8, 8, 11, 8].to_vec();
        let queues = !args.queue_depth.is_empty();
        if queues {
            widths.insert(QUEUE.0, 6);
        }
        Self { format, rows: Vec::new(), widths, queues, compared: args.compare.is_some() }
    }

    pub(super) fn begin(&self, output: &mut Output) -> Result<(), Failure> {
        match self.format {
            Format::Json => Ok(()),
            Format::Csv => {
                let names = "algorithm,operation,device,bytes,batch,threads,requests,wall_s,cpu_s,mb_per_s,\
                             requests_per_s,p50_ns,p99_ns";
                output.write(&format!("{names}{}\n", if self.queues { ",queue_depth" } else { "" }))
            }
            Format::Table => {
                let mut header = HEADER.map(str::to_owned).to_vec();
                if self.queues {
                    header.insert(QUEUE.0, QUEUE.1.to_owned());
                }
                header.extend(self.compared.then(|| COMPARED.to_owned()));
                output.write(&line(&header, &self.widths, RIGHT))
            }
        }
    }

    /// Rows that are compared with `theirs`.
    pub(super) fn group(&mut self, ours: Vec<Row>, theirs: Option<Row>, output: &mut Output) -> Result<(), Failure> {
        let ratio = |row: &Row| theirs.as_ref().map(|theirs| row.over(theirs));
        let rows: Vec<(Option<f64>, Row)> = ours.into_iter().map(|row| (ratio(&row), row)).collect();
        for (ratio, row) in rows.into_iter().chain(theirs.map(|row| (None, row))) {
            match self.format {
                Format::Json => {}
                Format::Csv => output.write(&csv(&row, self.queues))?,
                Format::Table => output.write(&line(&cells(&row, ratio, self.queues), &self.widths, RIGHT))?,
            }
            self.rows.push(row);
        }
        Ok(())
    }

    pub(super) fn end(self, output: &mut Output) -> Result<Vec<Row>, Failure> {
        if self.format == Format::Json {
            output.json(&self.rows)?;
        }
        let computing = self.rows.iter().map(Row::busy).filter(|busy| *busy > COMPUTES);
        let lost: Vec<f64> = computing.map(|busy| (1.0 - busy).max(0.0)).collect();
        let mean = lost.iter().sum::<f64>() / lost.len().max(1) as f64;
        if mean > STOLEN {
            say(&format!(
                "other programs had {:.0} % of the CPU time meanwhile: MB/s and requests/s are too low by that, CPU/REQUEST is not",
                100.0 * mean
            ));
        }
        Ok(self.rows)
    }
}

fn cells(row: &Row, ratio: Option<f64>, queues: bool) -> Vec<String> {
    let time = |nanoseconds: Option<u64>| nanoseconds.map_or_else(|| "-".to_owned(), |time| duration(time as f64));
    let cpu = row.cpu_s / row.requests.max(1) as f64 * 1e9;
    let mut cells = vec![
        row.algorithm.to_owned(),
        row.operation.to_owned(),
        row.device.clone(),
        row.bytes.to_string(),
        row.batch.to_string(),
        row.threads.to_string(),
        format!("{:.1}", row.mb_per_s),
        format!("{:.0}", row.requests_per_s),
        time(row.p50_ns),
        time(row.p99_ns),
        duration(cpu),
    ];
    if queues {
        cells.insert(QUEUE.0, row.queue_depth.map_or_else(|| "-".to_owned(), |depth| depth.to_string()));
    }
    cells.extend(ratio.map(|ratio| format!("{ratio:.2}x")));
    cells
}

/// No field holds a comma or a quotation mark.
fn csv(row: &Row, queues: bool) -> String {
    let Row { algorithm, operation, device, bytes, batch, threads, requests, wall_s, cpu_s, mb_per_s, .. } = row;
    let [p50, p99] = [row.p50_ns, row.p99_ns].map(|time| time.map_or(String::new(), |time| time.to_string()));
    let depth = row.queue_depth.map_or(String::new(), |depth| depth.to_string());
    let depth = if queues { format!(",{depth}") } else { String::new() };
    format!(
        "{algorithm},{operation},{device},{bytes},{batch},{threads},{requests},{wall_s},{cpu_s},{mb_per_s},{},{p50},{p99}{depth}\n",
        row.requests_per_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(device: &str, requests: u64, wall: f64, cpu: f64) -> Row {
        let tally = Tally { requests, wall, cpu, latencies: Vec::new() };
        Row::new(Algorithm::Sha256, Operation::Digest, device, 64, How::Batch(1), 1, &tally)
    }

    #[test]
    fn what_others_take_from_the_machine_does_not_count() {
        // It had a half of its CPU, and the peer all of it.
        let (ours, theirs) = (row("software", 1000, 1.0, 0.5), row("openssl", 1000, 1.0, 1.0));
        assert!((ours.over(&theirs) - 2.0).abs() < 1e-9);
        // A device beside the CPU, whose thread waits.
        let ours = row("card", 3000, 1.0, 0.01);
        assert!((ours.over(&theirs) - 3.0).abs() < 1e-9);
    }
}

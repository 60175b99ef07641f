//! Two boards whose crypto engine and CPU are both useful. Simulates each of the two alone, both with a fixed threshold, and both under the
//! learned policies.

use std::sync::Arc;
use std::time::Duration;

use gantry_core::route::{Learned, Pin, SizeThreshold};
use gantry_core::{
    Algorithm, Clock, Gantry, Operation, Outcome, Policy, QueueOptions, SessionParams, Submission, VirtualClock,
};
use gantry_runtime::model::Profile;

use crate::report::{Result, Row, format_deviation, make_model};

use crate::table::Table;

struct Board {
    name: &'static str,
    algorithm: Algorithm,
    engine: &'static str,
    cpu: &'static str,
    /// Bytes from which the fixed threshold uses the engine. The report about the Cortex-A9 has this number; the one about the Kirkwood has
    /// none.
    threshold: usize,
    points: &'static [Point],
}

/// Published throughput for one size, in operations per second.
struct Point {
    bytes: usize,
    software: f64,
    engine: f64,
}

const fn point(bytes: usize, software: f64, engine: f64) -> Point {
    Point { bytes, software, engine }
}

/// Converts a row of a table in kilobytes per second.
const fn kilobytes(bytes: usize, software: f64, engine: f64) -> Point {
    let per_kilobyte = 1000.0 / bytes as f64;
    point(bytes, software * per_kilobyte, engine * per_kilobyte)
}

const BOARDS: [Board; 2] = [
    Board {
        name: "Marvell Kirkwood 1.2 GHz",
        algorithm: Algorithm::Aes128Cbc,
        engine: "kirkwood",
        cpu: "kirkwood-cpu",
        threshold: 1024,
        points: &[
            point(16, 623_355.0, 28_426.0),
            point(64, 172_025.0, 27_653.0),
            point(256, 44_158.0, 19_935.0),
            point(1024, 11_114.0, 13_646.0),
            point(8192, 1_390.0, 2_742.0),
        ],
    },
    Board {
        name: "Cortex-A9 with Marvell CESA",
        algorithm: Algorithm::Aes256Cbc,
        engine: "cortex-a9",
        cpu: "cortex-a9-cpu",
        threshold: 1024,
        points: &[
            kilobytes(16, 39_603.0, 1_551.0),
            kilobytes(64, 47_420.0, 6_126.0),
            kilobytes(256, 50_270.0, 21_528.0),
            kilobytes(1024, 51_003.0, 55_995.0),
            kilobytes(8192, 51_249.0, 95_027.0),
            kilobytes(16384, 51_233.0, 99_937.0),
        ],
    },
];

/// Least share of the better device's rate, with one request at a time.
const MIN_SHARE_ALONE: f64 = 0.97;
/// Least share of the sum of both rates, with [`CONCURRENT_REQUESTS`] requests in flight.
const MIN_SHARE_TOGETHER: f64 = 0.95;
const CONCURRENT_REQUESTS: usize = 8;
/// Smallest size for which [`MIN_SHARE_TOGETHER`] is promised.
const TOGETHER_MIN_BYTES: usize = 1024;
/// Least share of the CPU time that the engine can save.
const MIN_SHARE_SAVED: f64 = 0.90;
/// Largest deviation of the models from published rates: published points are not exactly on a line, but the points of the models are.
const MAX_MODEL_DEVIATION: f64 = 0.15;

pub(crate) fn run(rows: &mut Vec<Row>) -> Result<String> {
    let mut text = String::new();
    for board in &BOARDS {
        let header = [
            "BYTES",
            "SOFTWARE PUBLISHED",
            "OURS",
            "DEVIATION",
            "ENGINE PUBLISHED",
            "OURS",
            "DEVIATION",
            "THRESHOLD",
            "LATENCY, 1",
            "OF BETTER",
            "LATENCY, 8",
            "OF SUM",
            "OFFLOAD SAVES",
        ];
        let mut table = Table::new(&header, 0);
        for point in board.points {
            table.push_row(board.measure_point(point, rows)?);
        }
        text += board.name;
        text += ", ";
        text += board.algorithm.name();
        text += ": requests per second, simulated.\n\n";
        text += &table.render();
        text += "\n";
        text += &board.measure_power(rows)?;
    }
    text += "OF BETTER: of the better of software and engine alone, one request at a time. OF SUM: of software alone\n\
             and engine alone together. OFFLOAD SAVES: share of the CPU time that the engine can save, under the policy offload.\n";
    Ok(text)
}

impl Board {
    fn measure_point(&self, point: &Point, rows: &mut Vec<Row>) -> Result<[String; 13]> {
        let bytes = point.bytes;
        let [engine, cpu] = [self.engine, self.cpu].map(|name| format!("model:{name}"));
        let software = self.run(Pin { device: cpu.clone() }, bytes, 1)?;
        let engine_alone = self.run(Pin { device: engine.clone() }, bytes, 1)?;
        let threshold = SizeThreshold { bytes: self.threshold, small: cpu, large: engine };
        let threshold = self.run(threshold, bytes, 1)?;
        let latency = self.run(Learned::Latency, bytes, 1)?;
        let concurrent = self.run(Learned::Latency, bytes, CONCURRENT_REQUESTS)?;
        let offload = self.run(Learned::Offload, bytes, 1)?;

        let case = |what: &str| format!("{bytes} bytes, {what}");
        let mut push = |what: &str, unit, published: Option<f64>, found, min: Option<f64>, max: Option<f64>| {
            rows.push(Row::new(self.name, case(what), unit, published, found).with_bounds(min, max));
        };
        for (what, published, found) in
            [("software", point.software, &software), ("engine", point.engine, &engine_alone)]
        {
            let (min, max) = (published * (1.0 - MAX_MODEL_DEVIATION), published * (1.0 + MAX_MODEL_DEVIATION));
            push(what, "1/s", Some(published), found.rate, Some(min), Some(max));
        }
        push("size threshold", "1/s", None, threshold.rate, None, None);
        let better = software.rate.max(engine_alone.rate);
        push("latency, 1 in flight", "1/s", None, latency.rate, Some(MIN_SHARE_ALONE * better), None);
        let sum = software.rate + engine_alone.rate;
        let promised = (bytes >= TOGETHER_MIN_BYTES).then_some(MIN_SHARE_TOGETHER * sum);
        push("latency, 8 in flight", "1/s", None, concurrent.rate, promised, None);
        let max_saving = software.cpu_ns - engine_alone.cpu_ns;
        let saves = (max_saving > 0.0).then(|| (software.cpu_ns - offload.cpu_ns) / max_saving);
        if let Some(saves) = saves {
            push("CPU time that offload saves", "%", None, 100.0 * saves, Some(100.0 * MIN_SHARE_SAVED), None);
        }
        let whole = |number: f64| format!("{number:.0}");
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        Ok([
            bytes.to_string(),
            whole(point.software),
            whole(software.rate),
            format_deviation(point.software, software.rate),
            whole(point.engine),
            whole(engine_alone.rate),
            format_deviation(point.engine, engine_alone.rate),
            whole(threshold.rate),
            whole(latency.rate),
            percent(latency.rate / better),
            whole(concurrent.rate),
            percent(concurrent.rate / sum),
            saves.map_or_else(|| "-".to_owned(), percent),
        ])
    }

    /// Returns the board's power, if known, with the CPU and with the engine at work.
    fn measure_power(&self, rows: &mut Vec<Row>) -> Result<String> {
        let Some(power) = Profile::named(self.cpu).and_then(|profile| profile.power) else { return Ok(String::new()) };
        let bytes = self.points[self.points.len() - 1].bytes;
        let mut parts = Vec::new();
        for (name, found) in [
            ("software", self.run(Pin { device: format!("model:{}", self.cpu) }, bytes, 1)?),
            ("offload", self.run(Learned::Offload, bytes, 1)?),
        ] {
            let watts = power.watts(found.rate * found.cpu_ns / 1e9);
            let millijoules = 1e3 * watts / found.rate;
            rows.push(Row::new(self.name, format!("{bytes} bytes, power, {name}"), "W", None, watts));
            rows.push(Row::new(
                self.name,
                format!("{bytes} bytes, energy of a request, {name}"),
                "mJ",
                None,
                millijoules,
            ));
            parts.push(format!("{name} {watts:.1} W, {millijoules:.2} mJ a request"));
        }
        Ok(format!("Power of the board with {bytes} bytes: {}.\n\n", parts.join("; ")))
    }

    /// Simulates one thread that always has `in_flight` requests of `bytes` bytes in flight.
    fn run(&self, policy: impl Policy + 'static, bytes: usize, in_flight: usize) -> Result<Measurement> {
        /// Virtual nanoseconds for learning, and for measuring.
        const LEARN_NS: u64 = 100_000_000;
        const MEASURE_NS: u64 = 100_000_000;
        let clock = Arc::new(VirtualClock::default());
        let named = |name| Profile::named(name).expect("the boards are built in");
        let builder = Gantry::builder().driver(&make_model(named(self.cpu), &clock)?);
        let gantry =
            builder.driver(&make_model(named(self.engine), &clock)?).policy(policy).clock(clock.clone()).build();
        let key = vec![3; self.algorithm.info().key.max];
        let session = gantry.session(SessionParams::new(self.algorithm, &key))?;
        let iv = vec![7; self.algorithm.info().iv.max];
        gantry.calibrate(self.algorithm, Operation::Encrypt, false); // like gantry tune
        let options = QueueOptions { depth: in_flight, coalesce: Duration::ZERO, ..QueueOptions::default() };
        let mut queue = gantry.queue(options)?;
        let mut buffers = vec![vec![0x5a; bytes]; in_flight];
        let (mut done, mut failed) = (0_u64, 0_u64);
        let mut run_until = |end: u64| -> Result<(u64, u64, u64)> {
            while clock.now() < end {
                while let Some(buffer) = buffers.pop() {
                    let submitted = queue.submit(&session, Submission::encrypt(&iv, buffer));
                    submitted.map_err(|rejected| rejected.why.to_string())?;
                }
                queue.wait(|completion| {
                    done += 1;
                    failed += u64::from(completion.result != Ok(Outcome::Done));
                    buffers.push(completion.submission.into_buffers().0);
                });
            }
            Ok((clock.now(), clock.spent(), done))
        };
        let start = run_until(LEARN_NS)?;
        let end = run_until(start.0 + MEASURE_NS)?;
        if failed > 0 {
            return Err(format!("{}: {failed} requests failed", self.name).into());
        }
        let requests = (end.2 - start.2) as f64;
        Ok(Measurement { rate: requests * 1e9 / (end.0 - start.0) as f64, cpu_ns: (end.1 - start.1) as f64 / requests })
    }
}

struct Measurement {
    /// Requests per second.
    rate: f64,
    /// CPU time of a request.
    cpu_ns: f64,
}

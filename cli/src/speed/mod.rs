//! `gantry speed`: measures a plan of points and prints a row for each.

#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "52 bits are more than any clock has")]

pub(crate) mod load;
pub(crate) mod measure;
mod openssl;
mod queue_load;
mod report;
pub(crate) mod rounds;

use std::fs;

use gantry_core::route::Pin;
use gantry_core::{Algorithm, DeviceState, Gantry, Kind, Operation, Session};

use crate::args::{self, ComparedProgram, Settings, Speed};
use crate::interrupt;
use crate::machine::Machine;
use crate::output::{Failure, Output, check_writable, print_message, progress_bar};
use crate::plot::lines::{self, Sample};
use load::{Load, SubmissionMode};
use measure::Measurement;
use openssl::Openssl;
use report::{Report, Row};

/// Algorithms that are measured by default: one of each kind that programs use most.
const DEFAULT_ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Sha1,
    Algorithm::Sha256,
    Algorithm::HmacSha256,
    Algorithm::Aes128Cbc,
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
];

/// Most bytes of the buffers of all threads.
const MAX_BUFFER_BYTES: usize = 4 << 30;
/// An algorithm that takes at most this number of bytes takes one size only: a digest, or a public key.
const MAX_FIXED_SIZE: u64 = 65;
/// Approximate bytes of a request without its data.
const REQUEST_OVERHEAD: usize = 512;

pub(crate) fn run(args: &Speed, settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    interrupt::watch_signals()?;
    let gantry = settings.open()?;
    let threads = args.threads;
    let plan = plan(args, &gantry)?;
    let mut openssl = match args.compare {
        Some(ComparedProgram::Openssl) => Some(Openssl::find()?),
        None => None,
    };
    if let Some(file) = &args.plot {
        check_writable(file)?;
    }
    let steps = plan.iter().map(|group| group.points.len() + usize::from(openssl.is_some())).sum::<usize>();
    let bar = progress_bar(steps as u64);
    let mut report = Report::new(args, &plan, Machine::of_this_machine(&gantry));
    report.write_header(output)?;
    'all: for group in &plan {
        let Group { algorithm, operation, bytes, .. } = group;
        let show = |device: &str| bar.set_message(format!("{algorithm} {operation} {device}, {bytes} bytes"));
        let measure = |point: &Point, seconds| {
            show(&point.device);
            point.measure(group, threads, seconds)
        };
        // Measure gantry, OpenSSL, then gantry again: a slow phase of the machine affects both.
        let (mut halves, mut openssl_row) = (Vec::new(), None);
        if let Some(openssl) = &mut openssl {
            for point in &group.points {
                if interrupt::is_interrupted() {
                    break;
                }
                halves.push(measure(point, args.seconds / 2.0)?);
            }
            if !interrupt::is_interrupted() {
                show("openssl");
                let measurement =
                    openssl.measure(group, threads, args.seconds, &|note| bar.suspend(|| print_message(note)))?;
                openssl_row =
                    measurement.map(|measurement| report.row(group, "openssl", SubmissionMode::Batch(1), &measurement));
            }
            bar.inc(1);
        }
        let mut halves = halves.into_iter();
        for point in &group.points {
            // An interrupted measurement keeps its first half.
            let measurement = match halves.next() {
                None if interrupt::is_interrupted() => break 'all,
                None => measure(point, args.seconds)?,
                Some(half) if interrupt::is_interrupted() => half,
                Some(mut half) => {
                    half.add(measure(point, args.seconds / 2.0)?);
                    half
                }
            };
            let row = report.row(group, &point.device, point.mode, &measurement);
            bar.suspend(|| report.add(row, openssl_row.as_ref(), output))?;
            bar.inc(1);
        }
        if let Some(openssl_row) = openssl_row {
            bar.suspend(|| report.add(openssl_row, None, output))?;
        }
    }
    bar.finish_and_clear();
    let (rows, machine) = report.finish(output)?;
    if let Some(file) = &args.plot {
        fs::write(file, draw(&rows, &machine)).map_err(|error| Failure::at(file.display(), &error))?;
    }
    interrupt::end_command()
}

fn draw(rows: &[Row], machine: &Machine) -> String {
    let sample = |row: &Row| {
        let &Row { algorithm, operation, bytes, mb_per_s, .. } = row;
        let mode = match row.queue_depth {
            _ if row.device == "openssl" => String::new(),
            Some(depth) => format!("queue {depth}"),
            None => format!("batch {}", row.batch),
        };
        Sample { algorithm, operation, device: row.device.clone(), bytes, mode, mb_per_s }
    };
    lines::draw("gantry speed", &rows.iter().map(sample).collect::<Vec<_>>(), machine)
}

/// Points that are compared with each other.
struct Group {
    algorithm: Algorithm,
    operation: Operation,
    bytes: usize,
    alignment: usize,
    points: Vec<Point>,
}

/// A device and a way to submit requests.
struct Point {
    /// The device's name, or `auto`.
    device: String,
    /// The device's index in the framework; `None` if the policy chooses.
    device_index: Option<usize>,
    mode: SubmissionMode,
    session: Session,
}

impl Group {
    /// True if throughput in bytes is meaningful.
    fn is_bulk(&self) -> bool {
        !matches!(self.algorithm.kind(), Kind::Signature | Kind::Exchange | Kind::Encipherment)
    }
}

impl Point {
    fn measure(&self, group: &Group, threads: usize, seconds: f64) -> Result<Measurement, Failure> {
        let &Group { operation, bytes, alignment, .. } = group;
        let load = Load { session: &self.session, operation, bytes, mode: self.mode, alignment };
        let failure = |what: String| {
            let Group { algorithm, operation, bytes, .. } = group;
            Failure::Failed(format!("{algorithm} {operation} of {bytes} bytes on {}: {what}", self.device))
        };
        let leads_to_the_device = || {
            let route = self.session.route(group.operation, group.bytes, self.mode.in_flight());
            self.device_index.is_none() || route.map(|route| route.device) == self.device_index
        };
        if !leads_to_the_device() {
            return Err(failure("the device cannot run this request".to_owned()));
        }
        let measurement = measure::run(&load, self.device_index, threads, seconds).map_err(failure)?;
        // If the device failed, another device gave the result.
        if leads_to_the_device() { Ok(measurement) } else { Err(failure("the device failed".to_owned())) }
    }
}

fn plan(args: &Speed, gantry: &Gantry) -> Result<Vec<Group>, Failure> {
    let has_algorithm_names = !args.algorithms.is_empty();
    let algorithms =
        if has_algorithm_names { args::algorithms(&args.algorithms)? } else { DEFAULT_ALGORITHMS.to_vec() };
    let devices = devices(args, gantry)?;
    check_memory(args)?;
    let mut plan = Vec::new();
    for algorithm in algorithms {
        let sessions = sessions(args, gantry, algorithm, &devices, has_algorithm_names)?;
        // Public keys and digests have a fixed size.
        let info = algorithm.info();
        let only_size = match info.kind {
            // Encipherment takes the same time at any length.
            Kind::Encipherment => Some(info.max_data as usize),
            _ => (info.max_data <= MAX_FIXED_SIZE).then_some(info.min_data),
        };
        let sizes = only_size.as_ref().map_or(&*args.bytes, std::slice::from_ref);
        if let Some(size) =
            only_size.filter(|size| info.kind != Kind::Kem && args.bytes_given && !args.bytes.contains(size))
        {
            print_message(&format!("{algorithm} takes {size} bytes; --bytes is ignored"));
        }
        report_left_out_sizes(algorithm, sizes);
        for &operation in algorithm.kind().operations() {
            if operation == Operation::Unprotect {
                // An opened packet is plaintext in place, so the operation cannot be repeated.
                continue;
            }
            if !args.operation.is_empty() && !args.operation.iter().any(|wanted| wanted.0 == operation) {
                continue;
            }
            let fixed = info.fixed_data_length(operation);
            let sizes = fixed.as_ref().map_or(sizes, std::slice::from_ref);
            for &bytes in sizes.iter().filter(|bytes| fixed.is_some() || accepts_size(algorithm, **bytes)) {
                let mut points = Vec::new();
                for (name, device_index, session) in &sessions {
                    let capability =
                        device_index.and_then(|device_index| gantry.devices()[device_index].capability(algorithm));
                    let can_run =
                        |c: &gantry_core::driver::Capability| c.operations.contains(&operation) && c.max_bytes >= bytes;
                    if capability.is_none_or(can_run) {
                        let point = |mode| Point {
                            device: name.clone(),
                            device_index: *device_index,
                            mode,
                            session: session.clone(),
                        };
                        points.extend(modes(args).map(point));
                    } else if !args.device.is_empty() && !args.operation.is_empty() {
                        return Err(Failure::Failed(format!(
                            "{name} does not {operation} {bytes} bytes with {algorithm}"
                        )));
                    }
                }
                if !points.is_empty() {
                    plan.push(Group { algorithm, operation, bytes, alignment: args.alignment, points });
                }
            }
        }
    }
    if plan.is_empty() { Err(Failure::Failed("no device can run any of these requests".to_owned())) } else { Ok(plan) }
}

/// Returns the ways to submit requests.
fn modes(args: &Speed) -> impl Iterator<Item = SubmissionMode> {
    let batches = args.batch.iter().copied().map(SubmissionMode::Batch);
    batches.chain(args.queue_depth.iter().copied().map(SubmissionMode::Queue))
}

/// Checks that the buffers of every point fit into memory.
fn check_memory(args: &Speed) -> Result<(), Failure> {
    let threads = args.threads;
    let points = args.bytes.iter().flat_map(|bytes| modes(args).map(move |mode| (bytes, mode.in_flight())));
    for (bytes, in_flight) in points {
        let each = bytes.checked_mul(2).and_then(|memory| memory.checked_add(REQUEST_OVERHEAD + 2 * args.alignment));
        let memory = each.and_then(|each| each.checked_mul(in_flight)).and_then(|all| all.checked_mul(threads));
        if memory.is_none_or(|memory| memory > MAX_BUFFER_BYTES) {
            let limit = MAX_BUFFER_BYTES >> 30;
            return Err(Failure::Usage(format!(
                "{in_flight} requests of {bytes} bytes need more than {limit} GiB of buffers"
            )));
        }
    }
    Ok(())
}

/// Returns the devices to measure, by name and index; `auto` has no index.
fn devices(args: &Speed, gantry: &Gantry) -> Result<Vec<(String, Option<usize>)>, Failure> {
    if args.device.is_empty() {
        let ready = gantry.devices().iter().enumerate().filter(|(_, device)| device.state() == DeviceState::Ready);
        return Ok(ready.map(|(device_index, device)| (device.name().to_owned(), Some(device_index))).collect());
    }
    let mut devices = Vec::new();
    for name in &args.device {
        if name == "auto" {
            devices.push((name.clone(), None));
            continue;
        }
        let device_index = args::device(gantry, name)?;
        if let DeviceState::Excluded(reason) = gantry.devices()[device_index].state() {
            return Err(Failure::Failed(format!("{name} is excluded: {reason}")));
        }
        devices.push((name.clone(), Some(device_index)));
    }
    Ok(devices)
}

/// Opens a session on each device. If both device and algorithm were named, the device must serve the algorithm.
fn sessions(
    args: &Speed,
    gantry: &Gantry,
    algorithm: Algorithm,
    devices: &[(String, Option<usize>)],
    has_algorithm_names: bool,
) -> Result<Vec<(String, Option<usize>, Session)>, Failure> {
    let mut sessions = Vec::new();
    for (name, device_index) in devices {
        let session = match device_index {
            None => gantry.session(gantry_core::sample_params(algorithm)),
            Some(device_index) => {
                if let Err(why) = gantry.devices()[*device_index].admit(algorithm) {
                    if has_algorithm_names && !args.device.is_empty() {
                        return Err(Failure::Failed(format!("{name} does not serve {algorithm}: {why}")));
                    }
                    continue;
                }
                gantry.with_policy(Pin { device: name.clone() }).session(gantry_core::sample_params(algorithm))
            }
        };
        sessions.push((name.clone(), *device_index, session?));
    }
    if sessions.is_empty() && has_algorithm_names {
        return Err(Failure::Failed(format!("no device serves {algorithm}")));
    }
    Ok(sessions)
}

/// Reports the sizes that the algorithm does not take.
fn report_left_out_sizes(algorithm: Algorithm, sizes: &[usize]) {
    for bytes in sizes.iter().filter(|bytes| !accepts_size(algorithm, **bytes)) {
        print_message(&format!("{algorithm} takes no data of {bytes} bytes; this size is left out"));
    }
}

/// True if the algorithm takes data of `bytes` bytes.
pub(crate) fn accepts_size(algorithm: Algorithm, bytes: usize) -> bool {
    let info = algorithm.info();
    if algorithm.kind() == Kind::Packet {
        // `bytes` is the size of a packet's payload.
        return info.packet_length(bytes, info.default_tag_length()) as u64 <= info.max_data;
    }
    let hashed = matches!(algorithm.kind(), Kind::Digest | Kind::Mac);
    hashed || (bytes.is_multiple_of(info.block) && bytes >= info.min_data && bytes as u64 <= info.max_data)
}

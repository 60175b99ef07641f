//! Measures one device, cell by cell. A cell is a number of requests (its row) and their size (its column).

#![allow(clippy::cast_precision_loss, reason = "times fit into 24 bits, or need no more precision")]

use std::convert::Infallible;
use std::sync::Arc;

use super::admission::{TEST_RUNNING, TestWait};
use super::device::RegisteredDevice;
use crate::algorithm::{
    Algorithm, AlgorithmInfo, Fault, FieldLength, Kind, Operation, Outcome, Refusal, SessionParams,
};
use crate::clock::Clock;
use crate::driver::{DeviceSession, Fields, Operands, call_guarded};
use crate::request::{BorrowedBatch, Inbox, List, Request};
use crate::route::{CostCell, Ledgers, Meter, REQUESTS};
use crate::trust::{sample_params, sample_text};

/// Maximum nanoseconds that a device is measured in a round.
const MAX_ROUND_NS: u64 = 5_000_000;
/// If a group of requests takes longer than this, in nanoseconds, the device is not measurable.
const GROUP_TIMEOUT_NS: u64 = 100_000_000;
/// Maximum nanoseconds that the requests of a group may take one by one. Longer groups are not measured, because a caller waits.
const MAX_GROUP_NS: f32 = 20e6;
/// Minimum duration of a measurement in nanoseconds, so that reading the clock does not matter.
const MIN_MEASUREMENT_NS: u64 = 10_000;
/// If the first measurement takes less than this, in nanoseconds, it is discarded, because the caches are cold.
const MAX_COLD_NS: u64 = 1_000_000;
/// Columns: bytes of a request.
const COLUMN_BYTES: [usize; 8] = [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Maximum bytes in all requests of a group. Larger groups take long and show nothing new.
const MAX_GROUP_BYTES: usize = 256 << 10;
/// Rows up to this number of requests are measured for every device that takes several requests at a time, unless it takes fewer.
const MIN_LAST_ROW: usize = 64;
/// Rows for a device that takes requests one by one.
const ONE_BY_ONE: [usize; 4] = [1, 2, 8, 32];

/// The environment of a calibration.
#[derive(Clone, Copy)]
pub(crate) struct CalibrationContext<'a> {
    pub(crate) devices: &'a [RegisteredDevice],
    pub(crate) ledgers: &'a Ledgers,
    pub(crate) clock: &'a dyn Clock,
}

/// The measurement of a device.
pub(crate) struct Probe {
    /// Index in the framework.
    pub(crate) device: usize,
    /// The device works in the calling thread.
    pub(crate) synchronous: bool,
    algorithm: Algorithm,
    operation: Operation,
    session: Arc<dyn DeviceSession>,
    meter: Meter,
    buffers: Vec<Buffer>,
    rows: Vec<usize>,
    /// Rows and columns of the cells, in the order of measurement.
    cells: Vec<(usize, usize)>,
    /// The index in `cells` of the next cell.
    next_cell: usize,
    /// The number of cells measured in this round, and the nanoseconds that they took.
    round: (usize, u64),
    /// The round is over: all cells were measured, or the time is used up. The next round continues where this one ends.
    pub(crate) is_over: bool,
    /// Measurements of all rounds by row and column: wall and CPU nanoseconds for one group of requests.
    samples: Vec<Vec<Vec<(f32, f32)>>>,
}

/// Returns the maximum bytes of each request in a group.
fn max_request_bytes(requests: usize) -> usize {
    if requests == 1 {
        COLUMN_BYTES[COLUMN_BYTES.len() - 1]
    } else {
        COLUMN_BYTES[COLUMN_BYTES.len() - 1].min(MAX_GROUP_BYTES / requests)
    }
}

/// The operands of a request.
#[derive(Clone)]
struct Buffer {
    iv: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    tag: Vec<u8>,
    written: usize,
}

/// The device cannot be measured.
pub(crate) struct NotMeasurable;

/// Returns the parameters of the measured session. For ECDSA, the session has one half of the key pair, because some devices do not take
/// both halves; the generator is the public key that belongs to private key 1.
fn params(algorithm: Algorithm, operation: Operation) -> SessionParams {
    match (algorithm, operation) {
        (Algorithm::EcdsaP256, Operation::Verify) => {
            SessionParams::new(algorithm, Algorithm::EcdhP256.info().generator).with_direction(operation)
        }
        (Algorithm::EcdsaP256, _) => sample_params(algorithm).with_direction(operation),
        _ => sample_params(algorithm),
    }
}

/// The number of every packet: numbers start at 1 (RFC 4303, 3.3.3).
const PACKET_NUMBER: [u8; 8] = 1u64.to_be_bytes();

impl Probe {
    /// Prepares the measurement of a device. Returns `None` until the device's known-answer test is over.
    pub(crate) fn new(
        context: CalibrationContext<'_>,
        index: usize,
        algorithm: Algorithm,
        operation: Operation,
        test_wait: TestWait,
    ) -> Result<Option<Self>, NotMeasurable> {
        let device = &context.devices[index];
        let capability = device.capability(algorithm).filter(|capability| capability.operations.contains(&operation));
        let Some(capability) = capability.filter(|_| device.is_ready()) else { return Err(NotMeasurable) };
        let params = params(algorithm, operation);
        let session = match device.open(&params, test_wait) {
            Ok(session) => session,
            Err(Refusal::Fault(Fault::Declined(TEST_RUNNING))) => return Ok(None),
            Err(_) => return Err(NotMeasurable),
        };
        let mut rows: Vec<usize> =
            if capability.lanes == 1 && capability.synchronous { ONE_BY_ONE.to_vec() } else { REQUESTS.to_vec() };
        // Beyond twice the lanes, and beyond the load that fills any device, times grow in proportion to the requests.
        let max_requests = capability.lanes.saturating_mul(2).max(MIN_LAST_ROW).min(capability.max_in_flight.max(1));
        rows.retain(|requests| *requests <= max_requests);
        let sizes = |requests: usize| {
            COLUMN_BYTES
                .iter()
                .filter(|bytes| **bytes <= capability.max_bytes && **bytes <= max_request_bytes(requests))
                .count()
        };
        let info = algorithm.info();
        let (iv, tag) = (info.iv, params.tag_len());
        let iv_length = if iv.allows(12) { 12 } else { iv.max };
        let buffer = |position: usize| {
            // Groups that use this buffer have at least `position + 1` requests.
            let max_bytes = max_request_bytes(position + 1);
            let row = operation.info();
            let output = match row.kind {
                Kind::Packet => info.nearest_data_length(max_bytes),
                _ => info.length(row.output, max_bytes, tag),
            };
            // Some operations take one length only. All zeros are a valid public key of ML-KEM.
            let mut input = match info.fixed_data_length(operation) {
                Some(bytes) => vec![0; bytes],
                None => vec![position as u8; info.nearest_data_length(max_bytes)],
            };
            match operation {
                // Not every number is a valid public key; the generator is one.
                Operation::Derive => input = info.generator.to_vec(),
                Operation::Compress => input = sample_text(max_bytes),
                // A number below any modulus. Invalid padding takes as long as valid padding.
                Operation::Encipher | Operation::Decipher => input.fill(2),
                _ => {}
            }
            let iv = (0..iv_length).map(|at| (at + position) as u8).collect();
            let tag = info.length(row.tag, max_bytes, tag);
            // ECDSA refuses a signature of zeros before computing anything (FIPS 186-5, 6.4.2).
            let byte = u8::from(algorithm == Algorithm::EcdsaP256);
            Buffer { iv, input, output: vec![0; output], tag: vec![byte; tag], written: 0 }
        };
        let samples: Vec<Vec<Vec<(f32, f32)>>> =
            rows.iter().map(|requests| vec![Vec::new(); sizes(*requests)]).collect();
        let mut cells: Vec<(usize, usize)> =
            (0..rows.len()).flat_map(|row| (0..samples[row].len()).map(move |column| (row, column))).collect();
        // Single requests of all sizes come first, because large ones reveal an engine with a high start-up time. Groups follow, the
        // smallest first: the times of larger groups can be extrapolated.
        cells.sort_by_key(|(row, column)| (*row > 0, rows[*row] * (256 + COLUMN_BYTES[*column])));
        let buffers = (0..*rows.last().ok_or(NotMeasurable)?).map(buffer).collect();
        let meter = context.ledgers.meter(context.clock, device.class(), capability.synchronous);
        let (device, synchronous) = (index, capability.synchronous);
        Ok(Some(Self {
            device,
            synchronous,
            algorithm,
            operation,
            session,
            meter,
            buffers,
            rows,
            cells,
            next_cell: 0,
            round: (0, 0),
            is_over: false,
            samples,
        }))
    }

    /// Measures the next cell.
    pub(crate) fn step(&mut self, device: &RegisteredDevice, clock: &dyn Clock) -> Result<(), NotMeasurable> {
        let start = self.meter.now(clock);
        let (row, column) = self.cells[self.next_cell];
        self.next_cell = (self.next_cell + 1) % self.cells.len();
        // Predict a group from the time of a single request. An unknown time counts as infinite, so the group is not measured.
        let single = self.samples[0][column].iter().map(|(wall, _)| *wall).fold(f32::INFINITY, f32::min);
        // Predict a single request from the next smaller size. Its limit is a quarter of a group's: 5 ms.
        let smaller = column.checked_sub(1).and_then(|column| self.samples[0][column].last().copied());
        let scaled = |(wall, _): (f32, f32)| wall * COLUMN_BYTES[column] as f32 / COLUMN_BYTES[column - 1] as f32;
        let is_long = if row == 0 {
            smaller.is_some_and(|s| scaled(s) > MAX_GROUP_NS / 4.0)
        } else {
            single * self.rows[row] as f32 > MAX_GROUP_NS
        };
        if !is_long {
            let measured = self.measure(device, clock, self.rows[row], COLUMN_BYTES[column])?;
            self.samples[row][column].push(measured);
        }
        let (cells, spent) = (self.round.0 + 1, self.round.1 + self.meter.since(start, clock));
        self.is_over = cells == self.cells.len() || spent >= MAX_ROUND_NS;
        self.round = if self.is_over { (0, 0) } else { (cells, spent) };
        Ok(())
    }

    /// Returns the wall and CPU nanoseconds of a group of requests.
    fn measure(
        &mut self,
        device: &RegisteredDevice,
        clock: &dyn Clock,
        requests: usize,
        bytes: usize,
    ) -> Result<(f32, f32), NotMeasurable> {
        let Self { synchronous, algorithm, operation, session, meter, buffers, .. } = self;
        // Some operations take one length only.
        let bytes =
            algorithm.info().fixed_data_length(*operation).unwrap_or(algorithm.info().nearest_data_length(bytes));
        let buffers = &mut buffers[..requests];
        let (bytes, scale) = if *operation == Operation::Decompress {
            // Compressed data has another length than the text: scale the time.
            let input = compressed(device, clock, *meter, session, bytes)?;
            for buffer in &mut *buffers {
                buffer.input.clone_from(&input);
            }
            (input.len(), bytes as f32 / input.len() as f32)
        } else {
            (bytes, 1.0)
        };
        if operation.info().kind == Kind::Packet {
            let payload_len =
                algorithm.info().payload_length(bytes, algorithm.info().default_tag_length()).unwrap_or(0);
            for buffer in &mut *buffers {
                buffer.written = payload_len;
            }
        }
        let mut group: Vec<Request<'_>> = buffers.iter_mut().map(|buffer| buffer.request(*operation, bytes)).collect();
        if requests == 1 && *synchronous {
            let (mut runs, mut is_warm) = (1, false);
            loop {
                let start = meter.now(clock);
                for _ in 0..runs {
                    // A wrong tag takes as long as a correct one.
                    let operands = group[0].entry.operands.reborrow();
                    let _ = call_guarded(|| session.run(operands)).map_err(|_| NotMeasurable)?;
                }
                let took = meter.since(start, clock);
                // A clock that stands still or goes back must not make this loop endless.
                if took >= MAX_COLD_NS || is_warm && (took >= MIN_MEASUREMENT_NS || runs >= 1000) {
                    let each = (took as f32 / runs as f32 * scale).max(1.0);
                    return Ok((each, each));
                }
                runs *= if is_warm { 2 } else { 1 };
                is_warm = true;
            }
        }
        let (mut wall, mut busy, mut groups) = (0, 0, 0);
        let mut is_warm = false;
        loop {
            let took = run_group(device, clock, *meter, session, &mut group)?;
            if is_warm || took.0 >= MAX_COLD_NS {
                wall += took.0;
                busy += took.1;
                groups += 1;
            }
            is_warm = true;
            if groups > 0 && (wall >= MIN_MEASUREMENT_NS || groups >= 1000) {
                let each = |ns: u64| (ns as f32 / groups as f32 * scale).max(1.0);
                return Ok((each(wall), each(busy)));
            }
        }
    }

    /// Returns the measurements so far: the best of all rounds.
    pub(crate) fn cells(&self) -> Vec<CostCell> {
        let minimum = |times: &mut dyn Iterator<Item = f32>| times.fold(f32::INFINITY, f32::min);
        let mut cells = Vec::new();
        for (requests, row) in self.rows.iter().zip(&self.samples) {
            for (bytes, times) in COLUMN_BYTES.iter().zip(row).filter(|(_, times)| !times.is_empty()) {
                cells.push(CostCell {
                    requests: *requests,
                    bytes: *bytes,
                    measurements: times.len() as u32,
                    wall_ns: minimum(&mut times.iter().map(|(wall, _)| *wall)),
                    cpu_ns: minimum(&mut times.iter().map(|(_, cpu)| *cpu)),
                });
            }
        }
        cells
    }
}

/// Runs requests on a device as a session would. Returns the time, and the part of it during which the thread was busy submitting and
/// collecting. Polling in vain counts as waiting, because a thread with other work would not poll.
fn run_group(
    device: &RegisteredDevice,
    clock: &dyn Clock,
    meter: Meter,
    session: &Arc<dyn DeviceSession>,
    group: &mut [Request<'_>],
) -> Result<(u64, u64), NotMeasurable> {
    let (mut wall, mut busy, mut fault) = (0, 0, false);
    for request in group.iter_mut() {
        request.clear_result();
        request.meta.shape = request.entry.operands.shape();
    }
    let inbox = Inbox::new();
    // SAFETY: the requests have no session of core that must outlive them.
    #[allow(unsafe_code)]
    let Ok(batch) = unsafe { BorrowedBatch::new(group, &inbox, |_, _| Ok::<_, Infallible>(None)) };
    batch.run(|mut list| {
        // SAFETY: the caller holds the session, and every request is back before this function returns.
        #[allow(unsafe_code)]
        list.each(|handle| unsafe { handle.set_route(&**session, None) });
        let mut done = List::new();
        let (begun, start) = (clock.now(), meter.now(clock));
        let mut before = start;
        let Ok(Some(pair)) = device.take_pair() else { return list };
        let mut pair = Some(pair);
        loop {
            let (offered, returned) = (list.len(), done.len());
            let Some(open_pair) = &mut pair else { break };
            let mut end = open_pair.submit(&mut list, &mut done);
            if open_pair.in_flight() > 0 {
                end = end.and_then(|_| open_pair.poll(&mut done).map(|_| true));
            }
            let is_over = list.is_empty() && open_pair.in_flight() == 0;
            let has_moved = list.len() < offered || done.len() > returned;
            let is_late = end.is_err() || clock.now().saturating_sub(begun) > GROUP_TIMEOUT_NS;
            if is_late && !is_over {
                // Wait for a job that the driver keeps even now: the buffers belong to this function's caller.
                open_pair.take_back(&mut done);
                while open_pair.in_flight() > 0 {
                    let _ = open_pair.poll(&mut done);
                    clock.wait(None);
                }
            } else if is_over && let Some(pair) = pair.take() {
                device.put_pair(pair);
            }
            if has_moved {
                busy += meter.since(before, clock);
            }
            if is_over {
                wall = meter.since(start, clock);
                break;
            }
            if is_late {
                fault = true;
                done.append(&mut list);
                break;
            }
            if !has_moved {
                clock.wait(Some(begun.saturating_add(GROUP_TIMEOUT_NS + 1)));
            }
            before = meter.now(clock);
        }
        done
    });
    fault |= group.iter().any(|request| request.entry.outcome.is_none());
    if fault { Err(NotMeasurable) } else { Ok((wall, busy)) }
}

impl Buffer {
    fn request(&mut self, operation: Operation, bytes: usize) -> Request<'_> {
        let Self { iv, input, output, tag, written } = self;
        let row = operation.info();
        let iv = match row.iv {
            FieldLength::Number => &PACKET_NUMBER[..],
            // The device draws random bytes itself.
            _ if row.takes_seed() => &[],
            _ => iv,
        };
        let output = if row.in_place { &mut output[..bytes] } else { &mut output[..] };
        let fields = Fields { iv, aad: &[], input: Some(&input[..bytes]), output, tag, written };
        Operands::from_fields(operation, fields).into()
    }
}

/// Returns a text of `bytes` bytes, compressed by the device.
fn compressed(
    device: &RegisteredDevice,
    clock: &dyn Clock,
    meter: Meter,
    session: &Arc<dyn DeviceSession>,
    bytes: usize,
) -> Result<Vec<u8>, NotMeasurable> {
    let (mut output, mut written) = (vec![0; AlgorithmInfo::compressed_max(bytes)], 0);
    let text = sample_text(bytes);
    let mut request = [Request::compress(&text, &mut output, &mut written)];
    run_group(device, clock, meter, session, &mut request)?;
    if request[0].outcome() != Some(Outcome::Done) {
        return Err(NotMeasurable);
    }
    output.truncate(written);
    if output.is_empty() { Err(NotMeasurable) } else { Ok(output) }
}

//! Tables 2, 3 and 4 on this machine: the time from the caller to the device and back, by a call and through a thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal};
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Session, SessionParams};

use crate::paper::{DISPATCH_DIRECT_NS, DISPATCH_THREAD_NS, RETURN_IMMEDIATE_NS, RETURN_THREAD_NS};
use crate::report::{Result, Row, format_deviation};
use crate::table::Table;

/// Most nanoseconds of a direct dispatch and an immediate return together.
const MAX_CALL_NS: f64 = 60.0;
/// Least ratio of the cost of a thread to the cost of a call.
const MIN_THREAD_RATIO: f64 = 10.0;

const ROUNDS: usize = 15;
/// Requests per round, so that a disturbance of the machine affects one round only.
const REQUESTS: usize = 400;

/// Measures the dispatch on this machine, and compares it with the paper's.
pub(crate) fn measure(rows: &mut Vec<Row>) -> Result<String> {
    let times =
        Arc::new(DeviceTimes { epoch: Instant::now(), entered_ns: AtomicU64::new(0), left_ns: AtomicU64::new(0) });
    let gantry = Gantry::builder().driver(&StopwatchDriver(times.clone())).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]))?;
    let null = open_null_session()?;
    session.encrypt(&[], &mut [])?;

    let mut samples = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        // In turn, so that all measurements see the same state of the machine.
        let [dispatch_ns, return_ns] = measure_direct(&session, &times)?;
        let [dispatch_thread_ns, return_thread_ns] = measure_through_thread(&session, &times)?;
        let whole_call_ns = measure_whole_calls(&null)?;
        for (column, ns) in
            samples.iter_mut().zip([dispatch_ns, return_ns, dispatch_thread_ns, return_thread_ns, whole_call_ns])
        {
            column.push(ns);
        }
    }
    let [dispatch_ns, return_ns, dispatch_thread_ns, return_thread_ns, whole_call_ns] = samples.map(median);

    let mut table = Table::new(&["WAY", "NS 2003", "NS HERE", "DEVIATION"], 1);
    for (number, case, published, found, at_most) in [
        ("Tables 2 and 3", "dispatch through a thread", DISPATCH_THREAD_NS, dispatch_thread_ns, None),
        (
            "Tables 2 and 3",
            "direct dispatch",
            DISPATCH_DIRECT_NS,
            dispatch_ns,
            Some(dispatch_thread_ns / MIN_THREAD_RATIO),
        ),
        ("Table 4", "return through a thread", RETURN_THREAD_NS, return_thread_ns, None),
        ("Table 4", "immediate return", RETURN_IMMEDIATE_NS, return_ns, Some(return_thread_ns / MIN_THREAD_RATIO)),
        (
            "Tables 3 and 4",
            "both by a call",
            DISPATCH_DIRECT_NS + RETURN_IMMEDIATE_NS,
            whole_call_ns,
            Some(MAX_CALL_NS),
        ),
    ] {
        rows.push(Row::new(number, case.to_owned(), "ns", Some(published), found).with_bounds(None, at_most));
        table.push_row([
            case.to_owned(),
            format!("{published:.0}"),
            format!("{found:.0}"),
            format_deviation(published, found),
        ]);
    }
    Ok(format!(
        "Tables 2, 3 and 4: from the caller to the device and back, on this machine. Medians of {ROUNDS} rounds.\n\
         Limits: at most {MAX_CALL_NS:.0} ns by a call, and at least {MIN_THREAD_RATIO:.0} times as much through a thread.\n\n{}",
        table.render(),
    ))
}

/// Returns the nanoseconds of a whole call to the null device, without reading the clock inside.
fn measure_whole_calls(session: &Session) -> Result<f64> {
    let mut data = [0; 16];
    let start = Instant::now();
    for _ in 0..REQUESTS {
        session.encrypt(&[], black_box(&mut data))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / REQUESTS as f64)
}

/// Returns the nanoseconds from the caller to the device and back by a call, less the cost of reading the clock.
fn measure_direct(session: &Session, times: &DeviceTimes) -> Result<[f64; 2]> {
    let mut clock_read_ns = Vec::with_capacity(REQUESTS);
    let mut dispatch_ns = Vec::with_capacity(REQUESTS);
    let mut return_ns = Vec::with_capacity(REQUESTS);
    let mut data = [0; 16];
    for _ in 0..REQUESTS {
        let earlier = times.now();
        let before = times.now();
        session.encrypt(&[], black_box(&mut data))?;
        let after = times.now();
        clock_read_ns.push((before - earlier) as f64);
        dispatch_ns.push((times.entered_ns.load(Ordering::Relaxed) - before) as f64);
        return_ns.push((after - times.left_ns.load(Ordering::Relaxed)) as f64);
    }
    let clock_read_ns = median(clock_read_ns);
    Ok([dispatch_ns, return_ns].map(|ns| (median(ns) - clock_read_ns).max(0.0)))
}

/// Measures like [`measure_direct`], but a thread passes the request to the device and the result back.
fn measure_through_thread(session: &Session, times: &DeviceTimes) -> Result<[f64; 2]> {
    const IDLE: u64 = 0;
    const SUBMITTED: u64 = 1;
    const DONE: u64 = 2;
    const OVER: u64 = 3;
    let (state, failed) = (AtomicU64::new(IDLE), Mutex::new(None));
    let caller = thread::current();
    let (mut dispatch_ns, mut return_ns) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            loop {
                match state.load(Ordering::Acquire) {
                    SUBMITTED => {
                        if let Err(error) = session.encrypt(&[], black_box(&mut [0; 16])) {
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                        state.store(DONE, Ordering::Release);
                        caller.unpark();
                    }
                    OVER => break,
                    _ => thread::park(),
                }
            }
        });
        for _ in 0..REQUESTS / 4 {
            // Lets the worker fall asleep, as threads that wait for work do.
            thread::sleep(std::time::Duration::from_micros(20));
            let before = times.now();
            state.store(SUBMITTED, Ordering::Release);
            worker.thread().unpark();
            while state.load(Ordering::Acquire) != DONE {
                thread::park();
            }
            let after = times.now();
            dispatch_ns.push(times.entered_ns.load(Ordering::Relaxed).saturating_sub(before) as f64);
            return_ns.push(after.saturating_sub(times.left_ns.load(Ordering::Relaxed)) as f64);
        }
        state.store(OVER, Ordering::Release);
        worker.thread().unpark();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok([dispatch_ns, return_ns].map(median)),
    }
}

/// Opens a session on the null device.
fn open_null_session() -> Result<Session> {
    let mut config = gantry_runtime::Config::default();
    config.set("devices", "null=on", "gantry-reproduce")?;
    let gantry = gantry_runtime::open(config)?;
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]))?;
    session.encrypt(&[], &mut [])?;
    Ok(session)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Records when a request enters and leaves the device.
struct DeviceTimes {
    epoch: Instant,
    entered_ns: AtomicU64,
    left_ns: AtomicU64,
}

impl DeviceTimes {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// A driver of the NULL cipher that records times.
struct StopwatchDriver(Arc<DeviceTimes>);

impl Driver for StopwatchDriver {
    fn name(&self) -> &'static str {
        "stopwatch"
    }

    fn discover(&self) -> Vec<Found> {
        let info = DeviceInfo {
            description: "the NULL cipher with a watch".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            capabilities: vec![Capability::new(Algorithm::Null)],
            ..DeviceInfo::new("stopwatch", Class::Model)
        };
        vec![Found::Device(Arc::new(StopwatchDevice { info, times: self.0.clone() }))]
    }
}

struct StopwatchDevice {
    info: DeviceInfo,
    times: Arc<DeviceTimes>,
}

impl Device for StopwatchDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(StopwatchSession(self.times.clone())))
    }
}

struct StopwatchSession(Arc<DeviceTimes>);

impl DeviceSession for StopwatchSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { data, .. } = operands else { return Err(Fault::failed("ciphers only")) };
        self.0.entered_ns.store(self.0.now(), Ordering::Relaxed);
        if let gantry_core::Buffers::Separate { input, output } = data {
            output.copy_from_slice(input);
        }
        self.0.left_ns.store(self.0.now(), Ordering::Relaxed);
        Ok(Outcome::Done)
    }
}

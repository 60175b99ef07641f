//! Tables 2, 3 and 4 on this machine: the time from the caller to the device and back, by a call and through a thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use gantry_core::driver::{Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal};
use gantry_core::{Algorithm, Fault, Gantry, Outcome, Session, SessionParams};

use crate::paper::{DISPATCH_DIRECT, DISPATCH_THREAD, RETURN_IMMEDIATE, RETURN_THREAD};
use crate::report::{Result, Row, deviates};
use crate::table::Table;

/// Most nanoseconds of a direct dispatch and an immediate return together.
const TOGETHER_NS: f64 = 60.0;
/// Least ratio of the cost of a thread to the cost of a call.
const TIMES: f64 = 10.0;

const ROUNDS: usize = 15;
/// Requests per round, so that a disturbance of the machine affects one round only.
const REQUESTS: usize = 400;

/// Measures the dispatch on this machine, and compares it with the paper's.
pub(crate) fn measure(rows: &mut Vec<Row>) -> Result<String> {
    let watch = Arc::new(Watch { epoch: Instant::now(), entered: AtomicU64::new(0), left: AtomicU64::new(0) });
    let gantry = Gantry::builder().driver(&Stopwatch(watch.clone())).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[]))?;
    let null = null()?;
    session.encrypt(&[], &mut [])?;

    let mut samples = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        // In turn, so that all measurements see the same state of the machine.
        let [dispatch, returning] = direct(&session, &watch)?;
        let [dispatch_thread, returning_thread] = through_threads(&session, &watch)?;
        let whole_call = calls(&null)?;
        for (column, ns) in samples.iter_mut().zip([dispatch, returning, dispatch_thread, returning_thread, whole_call])
        {
            column.push(ns);
        }
    }
    let [dispatch, returning, dispatch_thread, returning_thread, whole_call] = samples.map(median);

    let mut table = Table::new(&["WAY", "NS 2003", "NS HERE", "DEVIATION"], 1);
    for (number, case, published, found, at_most) in [
        ("Tables 2 and 3", "dispatch through a thread", DISPATCH_THREAD, dispatch_thread, None),
        ("Tables 2 and 3", "direct dispatch", DISPATCH_DIRECT, dispatch, Some(dispatch_thread / TIMES)),
        ("Table 4", "return through a thread", RETURN_THREAD, returning_thread, None),
        ("Table 4", "immediate return", RETURN_IMMEDIATE, returning, Some(returning_thread / TIMES)),
        ("Tables 3 and 4", "both by a call", DISPATCH_DIRECT + RETURN_IMMEDIATE, whole_call, Some(TOGETHER_NS)),
    ] {
        rows.push(Row::new(number, case.to_owned(), "ns", Some(published), found).within(None, at_most));
        table.row([case.to_owned(), format!("{published:.0}"), format!("{found:.0}"), deviates(published, found)]);
    }
    Ok(format!(
        "Tables 2, 3 and 4: from the caller to the device and back, on this machine. Medians of {ROUNDS} rounds.\n\
         Limits: at most {TOGETHER_NS:.0} ns by a call, and at least {TIMES:.0} times as much through a thread.\n\n{}",
        table.render(),
    ))
}

/// Returns the nanoseconds of a whole call to the null device, without reading the clock inside.
fn calls(session: &Session) -> Result<f64> {
    let mut data = [0; 16];
    let start = Instant::now();
    for _ in 0..REQUESTS {
        session.encrypt(&[], black_box(&mut data))?;
    }
    Ok(start.elapsed().as_nanos() as f64 / REQUESTS as f64)
}

/// Returns the nanoseconds from the caller to the device and back by a call, less the cost of reading the clock.
fn direct(session: &Session, watch: &Watch) -> Result<[f64; 2]> {
    let mut look = Vec::with_capacity(REQUESTS);
    let mut dispatch_ns = Vec::with_capacity(REQUESTS);
    let mut returning = Vec::with_capacity(REQUESTS);
    let mut data = [0; 16];
    for _ in 0..REQUESTS {
        let looked = watch.now();
        let before = watch.now();
        session.encrypt(&[], black_box(&mut data))?;
        let after = watch.now();
        look.push((before - looked) as f64);
        dispatch_ns.push((watch.entered.load(Ordering::Relaxed) - before) as f64);
        returning.push((after - watch.left.load(Ordering::Relaxed)) as f64);
    }
    let look = median(look);
    Ok([dispatch_ns, returning].map(|ns| (median(ns) - look).max(0.0)))
}

/// Measures like [`direct`], but a thread passes the request to the device and the result back.
fn through_threads(session: &Session, watch: &Watch) -> Result<[f64; 2]> {
    const IDLE: u64 = 0;
    const SUBMITTED: u64 = 1;
    const DONE: u64 = 2;
    const OVER: u64 = 3;
    let (state, failed) = (AtomicU64::new(IDLE), Mutex::new(None));
    let caller = thread::current();
    let (mut dispatch_ns, mut returning) = (Vec::new(), Vec::new());
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
            let before = watch.now();
            state.store(SUBMITTED, Ordering::Release);
            worker.thread().unpark();
            while state.load(Ordering::Acquire) != DONE {
                thread::park();
            }
            let after = watch.now();
            dispatch_ns.push(watch.entered.load(Ordering::Relaxed).saturating_sub(before) as f64);
            returning.push(after.saturating_sub(watch.left.load(Ordering::Relaxed)) as f64);
        }
        state.store(OVER, Ordering::Release);
        worker.thread().unpark();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok([dispatch_ns, returning].map(median)),
    }
}

/// Opens a session on the null device.
fn null() -> Result<Session> {
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
struct Watch {
    epoch: Instant,
    entered: AtomicU64,
    left: AtomicU64,
}

impl Watch {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }
}

/// A driver of the NULL cipher that records times.
struct Stopwatch(Arc<Watch>);

impl Driver for Stopwatch {
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
        vec![Found::Device(Arc::new(StopwatchDevice { info, watch: self.0.clone() }))]
    }
}

struct StopwatchDevice {
    info: DeviceInfo,
    watch: Arc<Watch>,
}

impl Device for StopwatchDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(StopwatchSession(self.watch.clone())))
    }
}

struct StopwatchSession(Arc<Watch>);

impl DeviceSession for StopwatchSession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        let Operands::Cipher { data, .. } = operands else { return Err(Fault::failed("ciphers only")) };
        self.0.entered.store(self.0.now(), Ordering::Relaxed);
        if let gantry_core::Buffers::Separate { input, output } = data {
            output.copy_from_slice(input);
        }
        self.0.left.store(self.0.now(), Ordering::Relaxed);
        Ok(Outcome::Done)
    }
}

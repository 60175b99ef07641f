//! Measuring the devices for one algorithm and operation, and keeping the costs that were found.
//!
//! The devices take turns, five times, and of five measurements the best counts: a disturbance of the machine then neither counts
//! nor hits one device only. A caller that asks for a calibration waits for it, and gets one of twenty turns, which also gets over
//! longer disturbances.
//!
//! No other caller waits for one: it takes some ten milliseconds a device, and threads that have requests go on with it for a
//! [`SLICE`] now and then. All calibrations of a process take a second of their time together at most.
//!
//! The costs go to a [`CostStore`], if there is one. A calibration that is interrupted leaves nothing behind; one that ran out of
//! time is as good as what it measured.

#![allow(clippy::cast_precision_loss, reason = "times that fit into 24 bits or need no more")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::admission::Urgency;
use super::device::RegisteredDevice;
use super::probe::{Machine, Probe, Unfit};
use crate::algorithm::{Algorithm, Operation};
use crate::route::{BYTES, CostRecord, CostStore, Costs, Grid};

/// All calibrations of a process take no longer, in nanoseconds.
const ALL: u64 = 1_000_000_000;
/// Times that every cell is measured: in slices, and when somebody asked for it.
const TURNS: (usize, usize) = (5, 20);
/// For so many nanoseconds, and one measurement more, a request waits.
const SLICE: u64 = 200_000;
/// Slices are at least so many times their own time apart.
const APART: u64 = 4;

/// Calibrations of the frameworks over the same devices.
pub(crate) struct Calibrations {
    store: Option<Arc<dyn CostStore>>,
    /// For so many devices, what the store kept is taken in.
    loaded: Mutex<usize>,
    warnings: Mutex<Vec<String>>,
    /// Nanoseconds that calibrations took.
    spent: AtomicU64,
    /// The one that threads with requests are at. Held while somebody calibrates.
    current: Mutex<Option<Calibration>>,
}

/// A calibration on its way.
pub(crate) struct Calibration {
    algorithm: Algorithm,
    operation: Operation,
    /// How long a thread may wait here for a device's known-answer test.
    urgency: Urgency,
    /// Devices whose known-answer test comes first.
    untested: Vec<usize>,
    probes: Vec<Probe>,
    /// Those that were there when it began.
    devices: usize,
    /// The probe whose turn it is, and turns that are left.
    at: usize,
    turns: usize,
    /// When it may go on.
    next: u64,
}

impl Calibrations {
    pub(crate) fn new(store: Option<Arc<dyn CostStore>>) -> Self {
        Self {
            store,
            loaded: Mutex::new(0),
            warnings: Mutex::default(),
            spent: AtomicU64::new(0),
            current: Mutex::default(),
        }
    }

    /// What went wrong with the store.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Takes in what the store kept, for each device once. Whether that was now.
    pub(crate) fn recall(&self, devices: &[RegisteredDevice]) -> bool {
        let Some(store) = &self.store else { return false };
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let new = devices.get(*loaded..).unwrap_or_default();
        if new.is_empty() {
            return false;
        }
        *loaded = devices.len();
        match store.load() {
            Ok(records) => records.iter().for_each(|record| take_in(new, record)),
            Err(warning) => self.warn(warning),
        }
        true
    }

    /// Goes on with the calibration that is on its way, or begins this one; unless another thread does so, it is too early, or
    /// no time is left. Whether more is known now.
    pub(crate) fn go_on(&self, machine: Machine<'_>, algorithm: Algorithm, operation: Operation) -> bool {
        let mut current = match self.current.try_lock() {
            Ok(current) => current,
            Err(TryLockError::Poisoned(current)) => current.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Machine { ledgers, clock, .. } = machine;
        let start = clock.now();
        let left = ALL.saturating_sub(self.spent.load(Relaxed));
        if left == 0 {
            // What capabilities declare has to do.
            ledgers.of(algorithm, operation).settle(machine.devices.len());
            return false;
        }
        let calibration = match &mut *current {
            Some(calibration) if start < calibration.next => return false,
            Some(calibration) => calibration,
            None => current.insert(Calibration::new(machine, algorithm, operation, false, Urgency::Brief)),
        };
        let turns = calibration.turns;
        let mut complete = calibration.run(machine, start.saturating_add(SLICE.min(left)));
        let took = clock.now().saturating_sub(start);
        calibration.next = start.saturating_add(took.saturating_mul(APART));
        complete |= self.spent.fetch_add(took, Relaxed) + took >= ALL;
        // What one turn found is kept, too: for programs that do not live to see the end of it.
        let news = turns == TURNS.0 && calibration.turns < turns || complete;
        if news {
            self.believe(calibration, machine);
        }
        if complete {
            ledgers.of(calibration.algorithm, calibration.operation).settle(calibration.devices);
            *current = None;
        }
        news
    }

    /// Measures every device for an operation. With `anew` also those that are known already.
    pub(crate) fn calibrate(&self, machine: Machine<'_>, algorithm: Algorithm, operation: Operation, anew: bool) {
        self.recall(machine.devices);
        let _held = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calibration = Calibration::new(machine, algorithm, operation, anew, Urgency::Patient);
        calibration.run(machine, u64::MAX);
        self.believe(&calibration, machine);
        machine.ledgers.of(algorithm, operation).settle(calibration.devices);
    }

    /// Believes and keeps what was measured.
    fn believe(&self, calibration: &Calibration, machine: Machine<'_>) {
        let Calibration { algorithm, operation, .. } = *calibration;
        let mut records = Vec::new();
        for probe in &calibration.probes {
            let device = &machine.devices[probe.device];
            let Some((wall, cpu)) = probe.grids() else { continue };
            let Some(costs) = device.costs(algorithm, operation) else { continue };
            costs.set(&wall, cpu.as_ref());
            records.push(record(device, algorithm, operation, &wall, cpu.as_ref()));
        }
        machine.ledgers.of(algorithm, operation).forget();
        if let (Some(store), false) = (&self.store, records.is_empty())
            && let Err(warning) = store.save(&records)
        {
            self.warn(warning);
        }
    }
}

impl Calibration {
    fn new(machine: Machine<'_>, algorithm: Algorithm, operation: Operation, anew: bool, urgency: Urgency) -> Self {
        let unknown =
            |device: &RegisteredDevice| device.costs(algorithm, operation).is_some_and(|costs| !costs.is_known());
        let (devices, all) = (machine.devices.len(), machine.devices.iter().enumerate().rev());
        let untested = all.filter(|(_, device)| anew || unknown(device)).map(|(place, _)| place).collect();
        let turns = if urgency == Urgency::Patient { TURNS.1 } else { TURNS.0 };
        Self { algorithm, operation, urgency, untested, probes: Vec::new(), devices, at: 0, turns, next: 0 }
    }

    /// Goes on until then, for one measurement at least. Whether all are made.
    fn run(&mut self, machine: Machine<'_>, until: u64) -> bool {
        while let Some(place) = self.untested.last() {
            match Probe::new(machine, *place, self.algorithm, self.operation, self.urgency) {
                Ok(None) => return false,
                Ok(Some(probe)) => self.probes.push(probe),
                Err(Unfit) => {}
            }
            self.untested.pop();
        }
        while self.turns > 0 && !self.probes.is_empty() {
            match self.probes.get_mut(self.at) {
                None => (self.at, self.turns) = (0, self.turns - 1),
                Some(probe) => match probe.step(&machine.devices[probe.device], machine.clock) {
                    Ok(over) => self.at += usize::from(over),
                    Err(Unfit) => drop(self.probes.remove(self.at)),
                },
            }
            if machine.clock.now() >= until {
                return false;
            }
        }
        true
    }
}

/// All that is known about the devices of a framework.
pub(crate) fn records(devices: &[RegisteredDevice]) -> Vec<CostRecord> {
    let mut records = Vec::new();
    for device in devices {
        for capability in device.capabilities() {
            for &operation in capability.operations {
                let grids = device.costs(capability.algorithm, operation).and_then(Costs::grids);
                if let Some((wall, cpu)) = grids {
                    records.push(record(device, capability.algorithm, operation, &wall, cpu.as_ref()));
                }
            }
        }
    }
    records
}

fn record(
    device: &RegisteredDevice,
    algorithm: Algorithm,
    operation: Operation,
    wall: &Grid,
    cpu: Option<&Grid>,
) -> CostRecord {
    CostRecord {
        device: device.name().to_owned(),
        version: version(device),
        algorithm: algorithm.name().to_owned(),
        operation: operation.name().to_owned(),
        wall_ns: wall.as_flattened().to_vec(),
        cpu_ns: cpu.map_or(Vec::new(), |cpu| cpu.as_flattened().to_vec()),
    }
}

fn version(device: &RegisteredDevice) -> String {
    device.details().map_or(String::new(), |info| format!("{}, {}", info.version, info.description))
}

/// Takes in one record, if it is about a device of this framework and makes sense.
pub(crate) fn take_in(devices: &[RegisteredDevice], record: &CostRecord) {
    let Ok(algorithm) = record.algorithm.parse::<Algorithm>() else { return };
    let operations = algorithm.kind().operations();
    let Some(operation) = operations.iter().find(|operation| operation.name() == record.operation) else { return };
    let is_it = |device: &&RegisteredDevice| device.name() == record.device && version(device) == record.version;
    let Some(device) = devices.iter().find(is_it) else { return };
    let (Some(costs), Some(wall)) = (device.costs(algorithm, *operation), grid(&record.wall_ns)) else { return };
    let direct = device.capability(algorithm).is_some_and(|capability| capability.direct);
    let cpu = grid(&record.cpu_ns);
    if direct == record.cpu_ns.is_empty() && (direct || cpu.is_some()) {
        costs.set(&wall, cpu.as_ref());
    }
}

fn grid(numbers: &[f32]) -> Option<Grid> {
    let sensible = numbers.iter().all(|number| (0.1..1e12).contains(number));
    let (rows, rest) = numbers.as_chunks::<{ BYTES.len() }>();
    rows.try_into().ok().filter(|_| sensible && rest.is_empty())
}

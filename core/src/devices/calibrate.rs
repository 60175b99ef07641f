//! Measuring the devices for one algorithm and operation, and keeping the costs that were found.
//!
//! The devices take turns, cell by cell, and the whole is done five times, and of five measurements the best counts: a disturbance of
//! the machine then neither counts nor hits one device only. A caller that asks for a calibration waits for it, and gets one of twenty turns, which also gets over
//! longer disturbances.
//!
//! No other caller waits for one: it takes some ten milliseconds a device, and threads that have requests go on with it for a
//! [`SLICE`] now and then. All calibrations of a process take a second of their time together at most.
//!
//! The costs go to a [`CostStore`], if there is one: after the first turn, for programs that do not live to see the last one, and at the
//! end. A later process believes what is plausible, measures again what had fewer turns, and compares the rest with its own requests.

#![allow(clippy::cast_precision_loss, reason = "times that fit into 24 bits or need no more")]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::admission::Urgency;
use super::device::RegisteredDevice;
use super::probe::{Machine, Probe, Unfit};
use crate::algorithm::{Algorithm, Operation};
use crate::route::{CostRecord, CostStore, Costs, Measured};

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
    /// Those that it is to measure.
    devices: Vec<usize>,
    /// The probe that comes next, and turns that are left.
    at: usize,
    turns: usize,
    /// Turns that are over.
    made: u32,
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
            Ok(records) => records.iter().for_each(|record| take_in_costs(new, record)),
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
        let turns = calibration.made;
        let mut complete = calibration.run(machine, start.saturating_add(SLICE.min(left)));
        let took = clock.now().saturating_sub(start);
        calibration.next = start.saturating_add(took.saturating_mul(APART));
        complete |= self.spent.fetch_add(took, Relaxed) + took >= ALL;
        // What one turn found is kept, too: for programs that do not live to see the end of it.
        let news = turns == 0 && calibration.made > 0 || complete;
        if news {
            self.believe(calibration, machine);
        }
        if complete {
            calibration.settle(machine);
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
        calibration.settle(machine);
    }

    /// Believes and keeps what was measured.
    fn believe(&self, calibration: &Calibration, machine: Machine<'_>) {
        let Calibration { algorithm, operation, .. } = *calibration;
        let mut records = Vec::new();
        for probe in &calibration.probes {
            let device = &machine.devices[probe.device];
            let Some(costs) = device.costs(algorithm, operation) else { continue };
            let Some(measured) = Measured::now(probe.cells(), calibration.made) else { continue };
            records.push(record(device, algorithm, operation, &measured));
            costs.set(measured, probe.direct, false);
        }
        // These times are of the CPU at its best, as those of the devices that were known before.
        let direct = |device: &&RegisteredDevice| device.capability(algorithm).is_some_and(|able| able.direct);
        let costs = machine.devices.iter().filter(direct).filter_map(|device| device.costs(algorithm, operation));
        costs.for_each(Costs::reset_drift);
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
        let wanted = |(_, device): &(usize, &RegisteredDevice)| anew || is_wanted(device, algorithm, operation);
        let devices: Vec<usize> =
            machine.devices.iter().enumerate().rev().filter(wanted).map(|(place, _)| place).collect();
        let untested = devices.clone();
        let turns = if urgency == Urgency::Patient { TURNS.1 } else { TURNS.0 };
        Self { algorithm, operation, urgency, untested, probes: Vec::new(), devices, at: 0, turns, made: 0, next: 0 }
    }

    /// Notes that no more will be known; unless what was known of a device was found to be wrong meanwhile.
    fn settle(&self, machine: Machine<'_>) {
        let Self { algorithm, operation, .. } = *self;
        let missed = |(place, device): (usize, &RegisteredDevice)| {
            !self.devices.contains(&place) && is_wanted(device, algorithm, operation)
        };
        if !machine.devices.iter().enumerate().any(missed) {
            machine.ledgers.of(algorithm, operation).settle(machine.devices.len());
        }
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
            let next = (self.at..self.probes.len()).chain(0..self.at).find(|place| !self.probes[*place].is_over);
            let Some(place) = next else {
                self.probes.iter_mut().for_each(|probe| probe.is_over = false);
                (self.turns, self.made) = (self.turns - 1, self.made + 1);
                continue;
            };
            let probe = &mut self.probes[place];
            self.at = place + 1;
            if let Err(Unfit) = probe.step(&machine.devices[probe.device], machine.clock) {
                drop(self.probes.remove(place));
                self.at = place;
            }
            if machine.clock.now() >= until {
                return false;
            }
        }
        true
    }
}

/// Whether a device is to be measured: nothing is known of it, or what was kept had few turns.
fn is_wanted(device: &RegisteredDevice, algorithm: Algorithm, operation: Operation) -> bool {
    let wanted = |costs: &Costs| costs.measured().is_none_or(|measured| (measured.turns as usize) < TURNS.0);
    device.costs(algorithm, operation).is_some_and(wanted)
}

/// All that was measured of the devices of a framework.
pub(crate) fn cost_records(devices: &[RegisteredDevice]) -> Vec<CostRecord> {
    let mut records = Vec::new();
    for device in devices {
        for capability in device.capabilities() {
            for &operation in capability.operations {
                let costs = device.costs(capability.algorithm, operation);
                if let Some(measured) = costs.and_then(Costs::measured) {
                    records.push(record(device, capability.algorithm, operation, &measured));
                }
            }
        }
    }
    records
}

fn record(device: &RegisteredDevice, algorithm: Algorithm, operation: Operation, measured: &Measured) -> CostRecord {
    CostRecord {
        device: device.name().to_owned(),
        version: version(device),
        algorithm: algorithm.name().to_owned(),
        operation: operation.name().to_owned(),
        measured_at: measured.at,
        turns: measured.turns,
        cells: measured.cells().to_vec(),
    }
}

fn version(device: &RegisteredDevice) -> String {
    device.details().map_or(String::new(), |info| format!("{}, {}", info.version, info.description))
}

/// Takes in one record, if it is about a device of this framework and plausible.
pub(crate) fn take_in_costs(devices: &[RegisteredDevice], record: &CostRecord) {
    let Ok(algorithm) = record.algorithm.parse::<Algorithm>() else { return };
    let operations = algorithm.kind().operations();
    let Some(operation) = operations.iter().find(|operation| operation.name() == record.operation) else { return };
    let is_it = |device: &&RegisteredDevice| device.name() == record.device && version(device) == record.version;
    let Some(device) = devices.iter().find(is_it) else { return };
    let Some((costs, capability)) = device.costs(algorithm, *operation).zip(device.capability(algorithm)) else {
        return;
    };
    if let Some(measured) = Measured::kept(&record.cells, record.turns, record.measured_at) {
        costs.set(measured, capability.direct, true);
    }
}

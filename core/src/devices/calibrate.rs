//! Measures the devices for one algorithm and operation, and keeps the costs.
//!
//! A cell is a number of requests and their size. The devices take turns, cell by cell. There are five rounds, and the best measurement of
//! a cell counts: this removes disturbances of the machine, and spreads the remaining disturbances over all devices. A caller that asks for
//! a calibration waits for it and gets twenty rounds, which also outlast longer disturbances.
//!
//! No other caller waits. A calibration takes up to 25 ms per device, and threads with requests continue it for a [`SLICE_NS`] at a
//! time. All such calibrations of a process together take at most a second of these threads' time.
//!
//! The costs go to a [`CostStore`], if there is one: after the first round, for short-lived programs, and at the end. A later process
//! accepts plausible costs, measures costs from fewer rounds again, and compares the others with the times of its own requests.

#![allow(clippy::cast_precision_loss, reason = "times fit into 24 bits, or need no more precision")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::admission::Urgency;
use super::device::RegisteredDevice;
use super::probe::{CalibrationContext, NotMeasurable, Probe};
use crate::algorithm::{Algorithm, Operation};
use crate::route::{CostRecord, CostStore, Costs, Measured};

/// Maximum time of all calibrations of a process, in nanoseconds.
const TOTAL_NS: u64 = 1_000_000_000;
/// Rounds of a calibration: in slices, and on request.
const ROUNDS: (usize, usize) = (5, 20);
/// Nanoseconds that a request may wait for a calibration. A measurement that is running when this time is over is completed.
const SLICE_NS: u64 = 200_000;
/// Minimum time from the start of a slice to the start of the next, as a multiple of the slice's duration.
const SLICE_SPACING: u64 = 4;

/// Calibrations of all frameworks over the same devices.
pub(crate) struct Calibrations {
    store: Option<Arc<dyn CostStore>>,
    is_closed: AtomicBool,
    /// Number of devices, from the first on, whose costs have been loaded from the store.
    loaded: Mutex<usize>,
    warnings: Mutex<Vec<String>>,
    /// Nanoseconds that calibrations have taken.
    spent: AtomicU64,
    /// The calibration that threads with requests continue. Locked during a calibration on request.
    current: Mutex<Option<Calibration>>,
}

/// A calibration in progress.
pub(crate) struct Calibration {
    algorithm: Algorithm,
    operation: Operation,
    /// The time that a thread may spend on a device's known-answer test.
    urgency: Urgency,
    /// Devices whose known-answer test comes first.
    untested: Vec<usize>,
    probes: Vec<Probe>,
    /// All devices to be measured.
    devices: Vec<usize>,
    /// The index of the next probe; then the number of remaining rounds.
    next_probe: usize,
    rounds_left: usize,
    /// Rounds that are complete.
    rounds_made: u32,
    /// Earliest time of the next slice.
    next_slice: u64,
}

impl Calibrations {
    pub(crate) fn new(store: Option<Arc<dyn CostStore>>) -> Self {
        Self {
            store,
            is_closed: AtomicBool::new(false),
            loaded: Mutex::new(0),
            warnings: Mutex::default(),
            spent: AtomicU64::new(0),
            current: Mutex::default(),
        }
    }

    /// Stops loading and storing costs.
    pub(crate) fn close_store(&self) {
        self.is_closed.store(true, Relaxed);
    }

    fn store(&self) -> Option<&dyn CostStore> {
        self.store.as_deref().filter(|_| !self.is_closed.load(Relaxed))
    }

    /// Returns the problems with the store.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Loads costs from the store, once for each device. Returns `true` if this call loaded costs.
    pub(crate) fn load(&self, devices: &[RegisteredDevice]) -> bool {
        let Some(store) = self.store() else { return false };
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let new = devices.get(*loaded..).unwrap_or_default();
        if new.is_empty() {
            return false;
        }
        *loaded = devices.len();
        match store.load() {
            Ok(records) => records.iter().for_each(|record| import_record(new, record)),
            Err(warning) => self.warn(warning),
        }
        true
    }

    /// Continues the calibration in progress, or begins this one. Does nothing if another thread is calibrating, if the next slice is not
    /// due, or if the time is used up. Returns `true` if more costs are known now.
    pub(crate) fn advance(&self, context: CalibrationContext<'_>, algorithm: Algorithm, operation: Operation) -> bool {
        let mut current = match self.current.try_lock() {
            Ok(current) => current,
            Err(TryLockError::Poisoned(current)) => current.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let CalibrationContext { ledgers, clock, .. } = context;
        let start = clock.now();
        let remaining_ns = TOTAL_NS.saturating_sub(self.spent.load(Relaxed));
        if remaining_ns == 0 {
            // Make do with the declared capabilities.
            ledgers.ledger(algorithm, operation).settle(context.devices.len());
            return false;
        }
        let calibration = match &mut *current {
            Some(calibration) if start < calibration.next_slice => return false,
            Some(calibration) => calibration,
            None => current.insert(Calibration::new(context, algorithm, operation, false, Urgency::Brief)),
        };
        let rounds = calibration.rounds_made;
        let mut complete = calibration.run(context, start.saturating_add(SLICE_NS.min(remaining_ns)));
        let took = clock.now().saturating_sub(start);
        calibration.next_slice = start.saturating_add(took.saturating_mul(SLICE_SPACING));
        complete |= self.spent.fetch_add(took, Relaxed) + took >= TOTAL_NS;
        // Keep the costs of the first round, too, for short-lived programs.
        let has_new_costs = rounds == 0 && calibration.rounds_made > 0 || complete;
        if has_new_costs {
            self.apply(calibration, context);
        }
        if complete {
            calibration.settle(context);
            *current = None;
        }
        has_new_costs
    }

    /// Measures all devices for an operation; without `anew`, only the devices whose costs are unknown or from few rounds.
    pub(crate) fn calibrate(
        &self,
        context: CalibrationContext<'_>,
        algorithm: Algorithm,
        operation: Operation,
        anew: bool,
    ) {
        self.load(context.devices);
        let _guard = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calibration = Calibration::new(context, algorithm, operation, anew, Urgency::Patient);
        calibration.run(context, u64::MAX);
        self.apply(&calibration, context);
        calibration.settle(context);
    }

    /// Takes over and stores the measured costs.
    fn apply(&self, calibration: &Calibration, context: CalibrationContext<'_>) {
        let Calibration { algorithm, operation, .. } = *calibration;
        let mut records = Vec::new();
        for probe in &calibration.probes {
            let device = &context.devices[probe.device];
            let Some(costs) = device.costs(algorithm, operation) else { continue };
            let Some(measured) = Measured::new(probe.cells(), calibration.rounds_made) else { continue };
            records.push(record(device, algorithm, operation, &measured));
            costs.set(measured, probe.direct, false);
        }
        // These times show the CPU at its best, like the earlier times of other devices that use the CPU.
        let direct =
            |device: &&RegisteredDevice| device.capability(algorithm).is_some_and(|capability| capability.direct);
        let costs = context.devices.iter().filter(direct).filter_map(|device| device.costs(algorithm, operation));
        costs.for_each(Costs::reset_drift);
        context.ledgers.ledger(algorithm, operation).forget();
        if let (Some(store), false) = (self.store(), records.is_empty())
            && let Err(warning) = store.save(&records)
        {
            self.warn(warning);
        }
    }
}

impl Calibration {
    fn new(
        context: CalibrationContext<'_>,
        algorithm: Algorithm,
        operation: Operation,
        anew: bool,
        urgency: Urgency,
    ) -> Self {
        let wanted = |(_, device): &(usize, &RegisteredDevice)| anew || is_wanted(device, algorithm, operation);
        let devices: Vec<usize> =
            context.devices.iter().enumerate().rev().filter(wanted).map(|(place, _)| place).collect();
        let untested = devices.clone();
        let rounds_left = if urgency == Urgency::Patient { ROUNDS.1 } else { ROUNDS.0 };
        Self {
            algorithm,
            operation,
            urgency,
            untested,
            probes: Vec::new(),
            devices,
            next_probe: 0,
            rounds_left,
            rounds_made: 0,
            next_slice: 0,
        }
    }

    /// Marks the operation as settled: unknown costs stay unknown. Does nothing if the costs of another device were found to be wrong
    /// during the calibration.
    fn settle(&self, context: CalibrationContext<'_>) {
        let Self { algorithm, operation, .. } = *self;
        let missed = |(place, device): (usize, &RegisteredDevice)| {
            !self.devices.contains(&place) && is_wanted(device, algorithm, operation)
        };
        if !context.devices.iter().enumerate().any(missed) {
            context.ledgers.ledger(algorithm, operation).settle(context.devices.len());
        }
    }

    /// Continues until `until`, for at least one measurement. Returns `true` at the end of the last round.
    fn run(&mut self, context: CalibrationContext<'_>, until: u64) -> bool {
        while let Some(place) = self.untested.last() {
            match Probe::new(context, *place, self.algorithm, self.operation, self.urgency) {
                Ok(None) => return false,
                Ok(Some(probe)) => self.probes.push(probe),
                Err(NotMeasurable) => {}
            }
            self.untested.pop();
        }
        while self.rounds_left > 0 && !self.probes.is_empty() {
            let next = (self.next_probe..self.probes.len())
                .chain(0..self.next_probe)
                .find(|place| !self.probes[*place].is_over);
            let Some(place) = next else {
                self.probes.iter_mut().for_each(|probe| probe.is_over = false);
                (self.rounds_left, self.rounds_made) = (self.rounds_left - 1, self.rounds_made + 1);
                continue;
            };
            let probe = &mut self.probes[place];
            self.next_probe = place + 1;
            if let Err(NotMeasurable) = probe.step(&context.devices[probe.device], context.clock) {
                drop(self.probes.remove(place));
                self.next_probe = place;
            }
            if context.clock.now() >= until {
                return false;
            }
        }
        true
    }
}

/// Returns `true` if a device is to be measured: its costs are unknown, or are from few rounds.
fn is_wanted(device: &RegisteredDevice, algorithm: Algorithm, operation: Operation) -> bool {
    let wanted = |costs: &Costs| costs.measured().is_none_or(|measured| (measured.turns as usize) < ROUNDS.0);
    device.costs(algorithm, operation).is_some_and(wanted)
}

/// Returns all measured costs of the devices.
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

/// Takes over a record if it is plausible and matches a device of this framework.
pub(crate) fn import_record(devices: &[RegisteredDevice], record: &CostRecord) {
    let Ok(algorithm) = record.algorithm.parse::<Algorithm>() else { return };
    let operations = algorithm.kind().operations();
    let Some(operation) = operations.iter().find(|operation| operation.name() == record.operation) else { return };
    let is_it = |device: &&RegisteredDevice| device.name() == record.device && version(device) == record.version;
    let Some(device) = devices.iter().find(is_it) else { return };
    let Some((costs, capability)) = device.costs(algorithm, *operation).zip(device.capability(algorithm)) else {
        return;
    };
    if let Some(measured) = Measured::loaded(&record.cells, record.turns, record.measured_at) {
        costs.set(measured, capability.direct, true);
    }
}

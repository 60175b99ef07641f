//! Measures the devices for one algorithm and operation, and keeps the costs.
//!
//! A cell is a number of requests and their size. The devices take turns, cell by cell. There are five rounds, and the best measurement of
//! a cell counts: this removes disturbances of the machine, and spreads the remaining disturbances over all devices. A caller that asks for
//! a calibration waits for it and gets twenty rounds, which also outlast longer disturbances.
//!
//! No other caller waits for a whole calibration. It takes up to 25 ms per device, and threads with requests continue it in slices of
//! [`SLICE_NS`]. All such calibrations of the same devices together take about a second of these threads' time at most.
//!
//! The costs go to a [`CostStore`], if there is one: after the first round, for short-lived programs, and at the end. A later process
//! accepts plausible costs, and compares them with the times of its own requests. It measures costs from fewer than five rounds again.

#![allow(clippy::cast_precision_loss, reason = "times fit into 24 bits, or need no more precision")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::admission::TestWait;
use super::device::RegisteredDevice;
use super::probe::{CalibrationContext, NotMeasurable, Probe};
use crate::algorithm::{Algorithm, Operation};
use crate::route::{CostRecord, CostStore, Costs, Measured};

/// Maximum nanoseconds of all calibrations in slices together. No slice begins after that.
const MAX_TOTAL_NS: u64 = 1_000_000_000;
/// Rounds of a calibration in slices.
const SLICED_ROUNDS: usize = 5;
/// Rounds of a calibration on request.
const REQUESTED_ROUNDS: usize = 20;
/// Nanoseconds that a request may wait for a slice. A measurement that is running when this time is over is completed.
const SLICE_NS: u64 = 200_000;
/// Minimum time from the start of a slice to the start of the next, as a multiple of the slice's duration.
const SLICE_SPACING: u64 = 4;

/// Calibrations, shared by all frameworks over the same devices.
pub(crate) struct Calibrations {
    store: Option<Arc<dyn CostStore>>,
    is_closed: AtomicBool,
    /// Number of devices, from the first on, whose costs have been loaded from the store.
    loaded_devices: Mutex<usize>,
    warnings: Mutex<Vec<String>>,
    /// Nanoseconds that calibrations in slices have taken.
    spent_ns: AtomicU64,
    /// The calibration that threads with requests continue. Locked during a calibration on request.
    current: Mutex<Option<Calibration>>,
}

/// A calibration in progress.
pub(crate) struct Calibration {
    algorithm: Algorithm,
    operation: Operation,
    /// The time that a thread may spend on a device's known-answer test.
    test_wait: TestWait,
    /// Devices without a probe yet, taken from the end. Each gets a probe once its known-answer test is over.
    untested: Vec<usize>,
    probes: Vec<Probe>,
    /// All devices to be measured.
    devices: Vec<usize>,
    /// The index of the next probe.
    next_probe: usize,
    /// Rounds that remain.
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
            loaded_devices: Mutex::new(0),
            warnings: Mutex::default(),
            spent_ns: AtomicU64::new(0),
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

    /// Loads costs from the store, once for each device. Returns `true` if this call asked the store, even if the store failed.
    pub(crate) fn load(&self, devices: &[RegisteredDevice]) -> bool {
        let Some(store) = self.store() else { return false };
        let mut loaded = self.loaded_devices.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Continues the calibration in progress, of any operation. If there is none, begins one for this operation. Does nothing if another
    /// thread is calibrating or the next slice is not due. If the time is used up, ends the calibration of this operation instead. Returns
    /// `true` if more costs are known now.
    pub(crate) fn advance(&self, context: CalibrationContext<'_>, algorithm: Algorithm, operation: Operation) -> bool {
        let mut current = match self.current.try_lock() {
            Ok(current) => current,
            Err(TryLockError::Poisoned(current)) => current.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let CalibrationContext { ledgers, clock, .. } = context;
        let start = clock.now();
        let remaining_ns = MAX_TOTAL_NS.saturating_sub(self.spent_ns.load(Relaxed));
        if remaining_ns == 0 {
            // Policies then use the declared capabilities.
            ledgers.ledger(algorithm, operation).end_calibration(context.devices.len());
            return false;
        }
        let calibration = match &mut *current {
            Some(calibration) if start < calibration.next_slice => return false,
            Some(calibration) => calibration,
            None => current.insert(Calibration::new(context, algorithm, operation, false, TestWait::Brief)),
        };
        let rounds = calibration.rounds_made;
        let mut is_complete = calibration.run(context, start.saturating_add(SLICE_NS.min(remaining_ns)));
        let took = clock.now().saturating_sub(start);
        calibration.next_slice = start.saturating_add(took.saturating_mul(SLICE_SPACING));
        is_complete |= self.spent_ns.fetch_add(took, Relaxed) + took >= MAX_TOTAL_NS;
        // Keep the costs of the first round, too, for short-lived programs.
        let has_new_costs = rounds == 0 && calibration.rounds_made > 0 || is_complete;
        if has_new_costs {
            self.apply(calibration, context);
        }
        if is_complete {
            calibration.end(context);
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
        let mut calibration = Calibration::new(context, algorithm, operation, anew, TestWait::Full);
        calibration.run(context, u64::MAX);
        self.apply(&calibration, context);
        calibration.end(context);
    }

    /// Takes over and stores the measured costs.
    fn apply(&self, calibration: &Calibration, context: CalibrationContext<'_>) {
        let Calibration { algorithm, operation, .. } = *calibration;
        let mut records = Vec::new();
        for probe in &calibration.probes {
            let device = &context.devices[probe.device];
            let Some(costs) = device.costs(algorithm, operation) else { continue };
            let Some(measured) = Measured::new(probe.cells(), calibration.rounds_made) else { continue };
            records.push(cost_record(device, algorithm, operation, &measured));
            costs.set(measured, probe.synchronous, false);
        }
        // A calibration keeps the best times, so the new times show the CPU at its best. Reset the drift of all devices that compute on the
        // CPU: their earlier times, too, then show the CPU at its best.
        let is_synchronous =
            |device: &&RegisteredDevice| device.capability(algorithm).is_some_and(|capability| capability.synchronous);
        let costs =
            context.devices.iter().filter(is_synchronous).filter_map(|device| device.costs(algorithm, operation));
        costs.for_each(Costs::reset_drift);
        context.ledgers.ledger(algorithm, operation).forget_verdicts();
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
        test_wait: TestWait,
    ) -> Self {
        let is_unmeasured =
            |(_, device): &(usize, &RegisteredDevice)| anew || needs_measurement(device, algorithm, operation);
        let devices: Vec<usize> =
            context.devices.iter().enumerate().rev().filter(is_unmeasured).map(|(index, _)| index).collect();
        let untested = devices.clone();
        let rounds_left = if test_wait == TestWait::Full { REQUESTED_ROUNDS } else { SLICED_ROUNDS };
        Self {
            algorithm,
            operation,
            test_wait,
            untested,
            probes: Vec::new(),
            devices,
            next_probe: 0,
            rounds_left,
            rounds_made: 0,
            next_slice: 0,
        }
    }

    /// Ends the calibration of the operation: unknown costs stay unknown. Does nothing if another device needs a measurement by now, for
    /// example because its costs were found to be wrong during the calibration.
    fn end(&self, context: CalibrationContext<'_>) {
        let Self { algorithm, operation, .. } = *self;
        let missed = |(index, device): (usize, &RegisteredDevice)| {
            !self.devices.contains(&index) && needs_measurement(device, algorithm, operation)
        };
        if !context.devices.iter().enumerate().any(missed) {
            context.ledgers.ledger(algorithm, operation).end_calibration(context.devices.len());
        }
    }

    /// Continues until `until`, for at least one measurement. Returns `false` early if a known-answer test is still under way. Returns
    /// `true` at the end of the last round, or if no device is measurable.
    fn run(&mut self, context: CalibrationContext<'_>, until: u64) -> bool {
        while let Some(index) = self.untested.last() {
            match Probe::new(context, *index, self.algorithm, self.operation, self.test_wait) {
                Ok(None) => return false,
                Ok(Some(probe)) => self.probes.push(probe),
                Err(NotMeasurable) => {}
            }
            self.untested.pop();
        }
        while self.rounds_left > 0 && !self.probes.is_empty() {
            let next = (self.next_probe..self.probes.len())
                .chain(0..self.next_probe)
                .find(|index| !self.probes[*index].is_over);
            let Some(index) = next else {
                self.probes.iter_mut().for_each(|probe| probe.is_over = false);
                (self.rounds_left, self.rounds_made) = (self.rounds_left - 1, self.rounds_made + 1);
                continue;
            };
            let probe = &mut self.probes[index];
            self.next_probe = index + 1;
            if let Err(NotMeasurable) = probe.step(&context.devices[probe.device], context.clock) {
                drop(self.probes.remove(index));
                self.next_probe = index;
            }
            if context.clock.now() >= until {
                return false;
            }
        }
        true
    }
}

/// Returns `true` if a device is to be measured: its costs are unknown, or are from few rounds.
fn needs_measurement(device: &RegisteredDevice, algorithm: Algorithm, operation: Operation) -> bool {
    let is_unmeasured =
        |costs: &Costs| costs.measured().is_none_or(|measured| (measured.turns as usize) < SLICED_ROUNDS);
    device.costs(algorithm, operation).is_some_and(is_unmeasured)
}

/// Returns all measured costs of the devices.
pub(crate) fn cost_records(devices: &[RegisteredDevice]) -> Vec<CostRecord> {
    let mut records = Vec::new();
    for device in devices {
        for capability in device.capabilities() {
            for &operation in capability.operations {
                let costs = device.costs(capability.algorithm, operation);
                if let Some(measured) = costs.and_then(Costs::measured) {
                    records.push(cost_record(device, capability.algorithm, operation, &measured));
                }
            }
        }
    }
    records
}

fn cost_record(
    device: &RegisteredDevice,
    algorithm: Algorithm,
    operation: Operation,
    measured: &Measured,
) -> CostRecord {
    CostRecord {
        device: device.name().to_owned(),
        version: version(device),
        algorithm: algorithm.name().to_owned(),
        operation: operation.name().to_owned(),
        measured_at: measured.measured_at,
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
    if let Some(measured) = Measured::from_stored(&record.cells, record.turns, record.measured_at) {
        costs.set(measured, capability.synchronous, true);
    }
}

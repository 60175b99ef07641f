//! The costs that calibrations keep for later processes, on a machine with other load.

#![cfg(not(miri))] // simulated seconds: hours
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]

mod timed;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gantry_core::driver::Class;
use gantry_core::route::{CostRecord, CostStore};
use gantry_core::{Algorithm, Clock, Gantry, SessionParams, VirtualClock};
use timed::disturbances::{Disturbances, Kind};
use timed::{Timing, World};

/// Keeps costs in memory, and counts saves.
#[derive(Debug, Default)]
struct Memory {
    stored: Mutex<Vec<CostRecord>>,
    saves: AtomicUsize,
}

impl CostStore for Memory {
    fn load(&self) -> Result<Vec<CostRecord>, String> {
        Ok(self.stored.lock().unwrap().clone())
    }

    fn save(&self, records: &[CostRecord]) -> Result<(), String> {
        self.saves.fetch_add(1, Ordering::Relaxed);
        let mut stored = self.stored.lock().unwrap();
        stored.retain(|old| records.iter().all(|new| new.device != old.device));
        stored.extend_from_slice(records);
        Ok(())
    }
}

/// A clock with the thread's CPU time, if the flag is set. A reading takes a nanosecond.
#[derive(Debug)]
struct Metered(Arc<VirtualClock>, bool);

impl Clock for Metered {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn wait(&self, until: Option<u64>) {
        self.0.wait(until);
    }

    fn spend(&self, ns: u64) {
        self.0.spend(ns);
    }

    fn thread_cpu_time(&self) -> Option<u64> {
        self.0.spend(1);
        self.1.then(|| self.0.spent())
    }
}

/// Returns software, and lanes of which 16 take as long as one.
fn devices(clock: &Arc<VirtualClock>, kind: Kind) -> [Timing; 2] {
    let disturbances = Arc::new(Disturbances::new(kind));
    let device = |name, setup, byte, lanes, class| Timing {
        lanes,
        class,
        disturbances: disturbances.clone(),
        ..Timing::new(name, clock, setup, byte)
    };
    [device("software", 100, 1.0, 1, Class::Software), device("lanes", 900, 3.0, 16, Class::Simd)]
}

fn time(device: &Timing, requests: usize, bytes: usize) -> f64 {
    (requests.div_ceil(device.lanes) as u64 * device.time(bytes)) as f64
}

/// Runs programs until each has saved costs `saves` times. Returns, for each saved cell, the factor by which its time is too long.
fn excess_factors(kind: Kind, metered: bool, programs: usize, saves: usize) -> Vec<f64> {
    let (clock, store) = (Arc::new(VirtualClock::default()), Arc::new(Memory::default()));
    let devices = devices(&clock, kind);
    for _ in 0..programs {
        let builder = Gantry::builder().clock(Arc::new(Metered(clock.clone(), metered))).cost_store(store.clone());
        let gantry = devices.iter().fold(builder, |builder, device| builder.driver(device)).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        let world = World { clock: clock.clone(), session };
        let ends = store.saves.load(Ordering::Relaxed) + saves;
        // A table with many disturbed cells is not saved.
        (0..100_000).take_while(|_| store.saves.load(Ordering::Relaxed) < ends).for_each(|_| _ = world.one(4096));
    }
    let stored = store.load().unwrap();
    let device = |record: &CostRecord| devices.iter().find(|device| device.name == record.device).unwrap();
    let cells = stored.iter().flat_map(|record| record.cells.iter().map(move |cell| (device(record), cell)));
    cells.map(|(device, cell)| f64::from(cell.wall_ns) / time(device, cell.requests, cell.bytes)).collect()
}

fn max(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

#[test]
fn cells_exclude_the_first_request_on_cold_caches() {
    for saves in [1, 2] {
        let times = excess_factors(Kind::Cold, false, 1, saves);
        assert!(max(&times) < 1.01 && times.len() > 60, "{times:?}");
    }
}

#[test]
fn cells_exclude_the_time_of_other_programs() {
    for saves in [1, 2] {
        let times = excess_factors(Kind::Preemptions, true, 1, saves);
        assert!(max(&times) < 1.01 && times.len() > 60, "{times:?}");
    }
}

#[test]
fn heavily_disturbed_costs_are_not_stored() {
    for kind in [Kind::Preemptions, Kind::Frequency, Kind::Neighbour, Kind::All] {
        // One program that ends half-way, one that ends later, and three programs of each kind.
        for (programs, saves) in [(1, 1), (1, 2), (3, 1), (3, 2)] {
            let times = excess_factors(kind, false, programs, saves);
            // A cell is a few times too long at most, if the machine was slow for the whole turn.
            assert!(max(&times) < 6.0, "{kind:?} {programs} {saves}: {times:?}");
        }
    }
}

#[test]
fn a_closed_store_is_not_touched() {
    let (clock, store) = (Arc::new(VirtualClock::default()), Arc::new(Memory::default()));
    let builder = Gantry::builder().clock(clock.clone()).cost_store(store.clone());
    let gantry = devices(&clock, Kind::Calm).iter().fold(builder, |builder, device| builder.driver(device)).build();
    gantry.close_cost_store();
    gantry.calibrate(Algorithm::Null, timed::ENCRYPT, false);
    assert_eq!((store.saves.load(Ordering::Relaxed), gantry.costs().is_empty()), (0, false));
}

//! With any initial table of costs, and any load of the machine, requests soon go to the fastest device.

#![cfg(not(miri))] // simulated seconds: hours
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]

mod timed;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gantry_core::route::{BYTES, CostCell, CostRecord, Learned, REQUESTS};
use gantry_core::{Clock, Request, VirtualClock};
use timed::disturbances::{Disturbances, Kind, Random};
use timed::{Timing, World};

/// Work after which the routes must be good, in nanoseconds.
const LEARNING_NS: u64 = 1_000_000_000;
/// Time during which routes are measured, in nanoseconds.
const MEASURED_NS: u64 = 250_000_000;
/// Requests at a time, and bytes of each: each device is the best for some of them.
const SHAPES: [(usize, usize); 7] = [(1, 64), (1, 1500), (1, 16 << 10), (4, 1500), (8, 4 << 10), (16, 256), (32, 1024)];

/// Maximum bytes in all requests of a shape.
const MAX_SHAPE_BYTES: usize = 32 << 10;

/// Returns the devices of these tests.
fn devices(clock: &Arc<VirtualClock>, kind: Kind) -> [Timing; 3] {
    let disturbances = Arc::new(Disturbances::new(kind));
    let device = |name, setup, byte, lanes| Timing {
        lanes,
        disturbances: disturbances.clone(),
        ..Timing::new(name, clock, setup, byte)
    };
    [device("software", 600, 3.0, 1), device("lanes", 2700, 9.0, 16), device("engine", 18_000, 0.6, 1)]
}

/// Returns the nanoseconds of requests on an otherwise idle machine.
fn time(device: &Timing, (requests, bytes): (usize, usize)) -> f64 {
    (requests.div_ceil(device.lanes) as u64 * device.time(bytes)) as f64
}

/// The claimed nanoseconds of a device, by requests and bytes of each.
type Table<'a> = &'a dyn Fn(&Timing, (usize, usize)) -> f64;

fn record(device: &Timing, table: Table<'_>) -> CostRecord {
    let cell = |requests, bytes| {
        let ns = table(device, (requests, bytes)) as f32;
        CostCell { requests, bytes, measurements: 20, wall_ns: ns, cpu_ns: ns }
    };
    CostRecord {
        device: device.name.to_owned(),
        version: "1, ".to_owned(),
        algorithm: "null".to_owned(),
        operation: "encrypt".to_owned(),
        measured_at: 0,
        turns: 20,
        cells: REQUESTS.iter().flat_map(|requests| BYTES.map(|bytes| cell(*requests, bytes))).collect(),
    }
}

fn run(world: &World, (requests, bytes): (usize, usize), data: &mut [u8]) {
    if requests == 1 {
        return world.session.encrypt(&[], &mut data[..bytes]).unwrap();
    }
    let parts = data.chunks_exact_mut(bytes).take(requests);
    let mut batch: Vec<_> = parts.map(|data| Request::encrypt(&[], data)).collect();
    world.session.process(&mut batch).unwrap();
}

/// Returns the relative loss against the best device for each request, after a second of work that began with this table.
fn regret(kind: Kind, table: Table<'_>) -> f64 {
    let clock = Arc::new(VirtualClock::default());
    let devices = devices(&clock, kind);
    let world = World::new(&clock, Learned::Latency, &devices.each_ref());
    world.session.gantry().import_costs(&devices.each_ref().map(|device| record(device, table)));
    let (mut random, mut data) = (Random::new(1), vec![7; MAX_SHAPE_BYTES]);
    let mut work = |until: u64| {
        let mut best = 0.0;
        while clock.now() < until {
            let shape = SHAPES[(random.next() % SHAPES.len() as u64) as usize];
            run(&world, shape, &mut data);
            best += devices.iter().map(|device| time(device, shape)).fold(f64::INFINITY, f64::min);
        }
        best
    };
    work(LEARNING_NS);
    let work_ns = || devices.iter().map(|device| device.work_ns.load(Ordering::Relaxed)).sum::<u64>();
    let before = work_ns();
    let best = work(clock.now() + MEASURED_NS);
    (work_ns() - before) as f64 / best - 1.0
}

fn holds(kind: Kind, name: &str, table: Table<'_>) {
    let regret = regret(kind, table);
    assert!(regret < 0.03, "{name}, {kind:?}: {:.1} %", regret * 100.0);
}

/// Tests tables that are uninformative or wrong.
fn check_wrong_tables(kind: Kind) {
    holds(kind, "true", &time);
    let faster_or_slower = |slow: &'static str| {
        move |device: &Timing, shape| time(device, shape) * if device.name == slow { 1000.0 } else { 0.001 }
    };
    for slow in ["software", "lanes", "engine"] {
        holds(kind, slow, &faster_or_slower(slow));
    }
    holds(kind, "all alike", &|device, _| if device.name == "lanes" { 1e7 } else { 10.0 });
    holds(kind, "far too slow", &|device, _| if device.name == "software" { 1000.0 } else { 1e8 });
    // Wrong by a factor of fifteen at most, and only for large requests.
    holds(kind, "large requests of the engine", &|device, (requests, bytes)| {
        let is_wrong = device.name == "engine" && bytes >= 4 << 10;
        time(device, (requests, bytes)) * if is_wrong { 15.0 } else { 1.0 }
    });
    holds(kind, "large requests of the software", &|device, (requests, bytes)| {
        time(device, (requests, if device.name == "software" { bytes.min(1024) } else { bytes }))
    });
    holds(kind, "batches of the lanes", &|device, (requests, bytes)| {
        let is_wrong = device.name == "lanes" && (4..64).contains(&requests);
        time(device, (requests, bytes)) * if is_wrong { 100.0 } else { 1.0 }
    });
}

/// Tests random tables: with random cells, or a random factor for each device.
fn check_random_tables(kind: Kind) {
    let number = |device: &Timing| device.name.len() as u64;
    holds(kind, "random cells", &|device, (requests, bytes)| {
        let cell = number(device) << 48 | (requests << 24 | bytes) as u64;
        10_f64.powf(1.0 + 6.0 * Random::new(cell).share())
    });
    for seed in 0..3 {
        let share = |number: u64| Random::new(seed << 32 | number).share();
        holds(kind, "random factors", &|device, shape| {
            time(device, shape) * 10_f64.powf(6.0 * share(number(device)) - 3.0)
        });
    }
}

/// Tests costs that programs kept under load, for some algorithms.
fn check_disturbed_tables(kind: Kind) {
    let text = include_str!("timed/poisoned.txt");
    let row = |name: &str| -> Vec<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    for names in [
        ["software sha256 digest", "lanes sha256 digest", "host x25519 derive"],
        ["software aes-128-gcm open", "lanes aes-128-gcm open", "software x25519 derive"],
    ] {
        let tables = names.map(row);
        holds(kind, names[1], &|device, (requests, bytes)| {
            let table = ["software", "lanes", "engine"].iter().position(|name| *name == device.name).unwrap();
            let row = REQUESTS.iter().position(|count| *count == requests).unwrap();
            let column = BYTES.iter().position(|size| *size == bytes).unwrap();
            tables[table][row * BYTES.len() + column]
        });
    }
}

/// A test for each kind of disturbance and table.
macro_rules! tests {
    ($($disturbance:ident $kind:ident),*) => {
        $(mod $disturbance {
            use super::*;

            #[test]
            fn wrong_tables_are_corrected() {
                super::check_wrong_tables(Kind::$kind);
            }

            #[test]
            fn random_tables_are_corrected() {
                super::check_random_tables(Kind::$kind);
            }

            #[test]
            fn disturbed_tables_are_corrected() {
                super::check_disturbed_tables(Kind::$kind);
            }
        })*
    };
}

tests!(calm Calm, preemptions Preemptions, frequency Frequency, neighbour Neighbour, all All);

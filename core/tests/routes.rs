//! Learned routes, on a virtual clock, with devices of the NULL cipher whose times are configurable.

#![cfg(not(miri))] // simulated seconds: hours
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "times of seconds")]

mod timed;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use gantry_core::route::{CostRecord, CostStore, Learned, Reason};
use gantry_core::{Algorithm, Clock, Gantry, QueueOptions, SessionParams, Submission, VirtualClock};
use timed::{ENCRYPT, Timing, World, software_and_engine};

#[test]
fn large_requests_reveal_an_engine_with_a_long_start() {
    let clock = Arc::new(VirtualClock::default());
    // A virtio engine on a busy host: a turn of a calibration has time for two of its requests only. The first bytes say nothing about
    // the others.
    let software = Timing::new("software", &clock, 2_000, 140.0);
    let engine = Timing { copied: 1_000.0, ..Timing::new("engine", &clock, 4_000_000, 6.0) };
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    assert_eq!(world.route(1, 1024).0, "software");
    assert_eq!(world.route(1, 64 << 10).0, "engine");
}

#[test]
fn each_size_goes_to_the_fastest_device() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    // The break-even size is 522 bytes.
    for (bytes, device) in [(0, "software"), (16, "software"), (500, "software"), (545, "engine"), (1 << 20, "engine")]
    {
        assert_eq!(world.route(1, bytes), (device.into(), 1, Reason::Fastest), "{bytes} bytes");
        let alone = software.time(bytes).min(engine.time(bytes));
        assert_eq!(world.one(bytes), alone, "{bytes} bytes");
    }
}

#[test]
fn declared_capabilities_count_until_work_pays_for_a_calibration() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::new(&clock, Learned::Latency, &[&software, &engine]);
    world.one(4096); // with known-answer tests
    let mut before = 0;
    while world.one(4096) == software.time(4096) {
        before += software.time(4096);
        assert!(before < 1_000_000_000, "no calibration began");
    }
    assert!(before > 5_000_000, "a calibration after only {before} ns of work");
    while world.one(4096) != engine.time(4096) {
        before += software.time(4096);
        assert!(before < 1_000_000_000, "the calibration did not end");
    }
}

#[test]
fn lanes_take_full_batches_and_software_the_remainder() {
    let clock = Arc::new(VirtualClock::default());
    let software = Timing::new("software", &clock, 100, 10.0);
    let lanes = Timing { lanes: 16, ..Timing::new("lanes", &clock, 600, 30.0) };
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &lanes]);
    assert_eq!(world.route(2, 1024).0, "software");
    assert_eq!(world.route(4, 1024).0, "lanes");
    assert_eq!(world.route(16, 1024), ("lanes".into(), 16, Reason::Fastest));
    assert_eq!(world.route(17, 1024), ("lanes".into(), 16, Reason::Split));
    let (took, routes) = world.batch(17, 1024);
    assert_eq!(took, lanes.time(1024) + software.time(1024));
    assert_eq!(routes[16].0, "software");
}

#[test]
fn routes_leave_a_slow_device_within_a_second_and_return_after_recovery() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    let until = |device: &str, limit: u64| {
        let start = clock.now();
        while world.route(1, 2048).0 != device {
            world.one(2048);
            assert!(clock.now() - start < limit, "not at {device} after {} ns", clock.now() - start);
        }
    };
    until("engine", 1);
    engine.factor.store(10, Ordering::Relaxed);
    until("software", 1_000_000_000);
    // Routes stay on this device except for trials, which cost hardly anything.
    let start = clock.now();
    for _ in 0..100_000 {
        world.one(2048);
    }
    let took = (clock.now() - start) as f64 / 100_000.0;
    assert!(took < software.time(2048) as f64 * 1.01, "{took} ns each");
    engine.factor.store(1, Ordering::Relaxed);
    until("engine", 10_000_000_000);
}

#[test]
fn noise_between_equal_devices_does_not_change_routes() {
    let clock = Arc::new(VirtualClock::default());
    let (one, other) = (Timing::new("one", &clock, 10_000, 0.0), Timing::new("other", &clock, 10_000, 0.0));
    let world = World::calibrated(&clock, Learned::Latency, &[&one, &other]);
    let (mut device, mut changes, mut random) = (world.route(1, 1024).0, 0, 1_u64);
    for _ in 0..200_000 {
        for timing in [&one, &other] {
            // At most 3 %.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            timing.noise.store((random >> 33) % 300, Ordering::Relaxed);
        }
        world.one(1024);
        let now = world.route(1, 1024).0;
        changes += usize::from(now != device);
        device = now;
    }
    assert!(changes <= 1, "{changes}");
}

#[test]
fn a_slower_cpu_does_not_change_routes() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    for device in [&software, &engine] {
        device.factor.store(3, Ordering::Relaxed);
    }
    let best = 100_000 * engine.time(1024);
    let start = clock.now();
    for _ in 0..100_000 {
        world.one(1024);
    }
    let took = clock.now() - start;
    assert!(took as f64 <= best as f64 * 1.02, "{took} ns instead of {best}");
}

#[test]
fn trials_cost_no_more_than_a_hundredth() {
    let clock = Arc::new(VirtualClock::default());
    for slower in [1.1, 3.0, 100.0] {
        let software = Timing::new("software", &clock, 0, 1.0);
        let other = Timing::new("other", &clock, 0, slower);
        let world = World::calibrated(&clock, Learned::Latency, &[&software, &other]);
        let start = clock.now();
        for _ in 0..200_000 {
            world.one(4096);
        }
        let took = (clock.now() - start) as f64;
        let regret = took / (200_000.0 * software.time(4096) as f64) - 1.0;
        assert!((0.0..0.01).contains(&regret), "{slower} times as slow: {regret}");
        // Trials were made nevertheless.
        assert!(slower > 10.0 || regret > 0.0, "{slower} times as slow and never tried");
    }
}

#[test]
fn a_ring_works_in_parallel_to_the_thread() {
    let clock = Arc::new(VirtualClock::default());
    // 1 KiB on a Marvell Kirkwood: 11,114 requests a second in software, 13,646 on its engine.
    let software = Timing::new("software", &clock, 0, 87.9);
    let engine = Timing { ring: Some(1000), ..Timing::new("engine", &clock, 35_000, 37.4) };
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    assert_eq!(world.route(1, 1024).0, "engine");
    assert_eq!(world.route(1, 64).0, "software");
    let (took, routes) = world.batch(64, 1024);
    let by_engine = routes.iter().filter(|(name, _)| name == "engine").count();
    assert!((30..=40).contains(&by_engine), "{by_engine} of 64");
    let sum = 1.0 / software.time(1024) as f64 + 1.0 / engine.time(1024) as f64;
    assert!(64.0 / took as f64 >= sum * 0.95, "{took} ns");
}

#[test]
fn rings_that_use_the_calling_thread_do_not_count_as_parallel() {
    let clock = Arc::new(VirtualClock::default());
    // Two libraries behind rings: the thread does all of the work.
    let slow = Timing { ring: Some(2_000), ..Timing::new("slow", &clock, 10, 0.0) };
    let fast = Timing { ring: Some(1_000), ..Timing::new("fast", &clock, 10, 0.0) };
    for policy in [Learned::Latency, Learned::Throughput] {
        let world = World::calibrated(&clock, policy, &[&slow, &fast]);
        assert_eq!(world.route(32, 1024), ("fast".into(), 32, Reason::Fastest), "{policy:?}");
        let batches = 1_000;
        let by_slow = |_| world.batch(32, 1024).1.iter().filter(|(name, _)| name == "slow").count();
        let tried: usize = (0..batches).map(by_slow).sum();
        assert!(tried < batches * 32 / 100, "{policy:?}: {tried} are more than trials");
    }
}

#[test]
fn a_slow_ring_is_detected_by_its_completions() {
    let clock = Arc::new(VirtualClock::default());
    let software = Timing::new("software", &clock, 0, 87.9);
    let engine = Timing { ring: Some(1000), ..Timing::new("engine", &clock, 35_000, 37.4) };
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    let share = || world.batch(64, 1024).1.iter().filter(|(name, _)| name == "engine").count();
    assert!((30..=40).contains(&share()));
    engine.factor.store(10, Ordering::Relaxed);
    let start = clock.now();
    while share() > 10 {
        assert!(clock.now() - start < 1_000_000_000, "{} of 64", share());
    }
}

#[test]
fn offload_spares_the_thread_unless_the_device_is_far_too_slow() {
    let clock = Arc::new(VirtualClock::default());
    let software = Timing::new("software", &clock, 100, 10.0);
    let slow = Timing { ring: Some(200), ..Timing::new("slow", &clock, 10_000, 10.0) };
    let world = World::calibrated(&clock, Learned::Offload, &[&software, &slow]);
    assert_eq!(world.route(1, 1024), ("slow".into(), 1, Reason::LeastCpu));
    assert_eq!(world.route(8, 1024), ("slow".into(), 8, Reason::LeastCpu));
    assert_eq!(world.route(1, 16).0, "software", "forty times as slow is too slow");
    let latency = World::calibrated(&clock, Learned::Latency, &[&software, &slow]);
    assert_eq!(latency.route(1, 1024).0, "software");
}

#[test]
fn offload_leaves_a_driver_that_costs_the_thread_more() {
    let clock = Arc::new(VirtualClock::default());
    let software = Timing::new("software", &clock, 0, 2.0);
    let engine = Timing { ring: Some(200), ..Timing::new("engine", &clock, 5000, 1.0) };
    let world = World::calibrated(&clock, Learned::Offload, &[&software, &engine]);
    assert_eq!(world.route(4, 1024).0, "engine");
    engine.busy.store(3000, Ordering::Relaxed);
    let start = clock.now();
    while world.route(4, 1024).0 == "engine" {
        world.batch(4, 1024);
        assert!(clock.now() - start < 10_000_000_000, "the driver costs the thread more than the work itself");
    }
}

#[test]
fn requests_wait_to_be_batched_only_if_that_was_measured_to_pay() {
    for (eight, waits) in [(15_000, true), (79_000, false)] {
        let clock = Arc::new(VirtualClock::default());
        let software = Timing::new("software", &clock, 10_000, 0.0);
        let lanes = Timing { lanes: 8, ..Timing::new("lanes", &clock, eight, 0.0) };
        let world = World::calibrated(&clock, Learned::Latency, &[&software, &lanes]);
        let queue = || world.session.gantry().queue(QueueOptions::default()).unwrap();
        let (mut one, mut other) = (queue(), queue());
        let request = || Submission::encrypt(&[], vec![7; 64]);
        // Another queue has a similar request, so a batch may form.
        other.submit(&world.session, request()).unwrap();
        one.submit(&world.session, request()).unwrap();
        assert_eq!(one.complete(|_| {}) == 0, waits, "{eight} ns for eight");
    }
}

#[test]
fn offload_batches_small_requests_while_a_ring_has_large_ones() {
    let clock = Arc::new(VirtualClock::default());
    let lanes = Timing { lanes: 8, ..Timing::new("lanes", &clock, 1_500, 1.0) };
    let ring = Timing { ring: Some(500), ..Timing::new("ring", &clock, 10_000, 1.0) };
    let world = World::calibrated(&clock, Learned::Offload, &[&lanes, &ring]);
    assert_eq!(world.route(1, 64 << 10), ("ring".into(), 1, Reason::LeastCpu));
    let queue = || world.session.gantry().queue(QueueOptions::default()).unwrap();
    let (mut large, mut one, mut other) = (queue(), queue(), queue());
    for _ in 0..4 {
        large.submit(&world.session, Submission::encrypt(&[], vec![7; 64 << 10])).unwrap();
    }
    // The second call sends the requests, because no more come.
    large.complete(|_| {});
    large.complete(|_| {});
    for _ in 0..64 {
        for queue in [&mut one, &mut other] {
            queue.submit(&world.session, Submission::encrypt(&[], vec![7; 64])).unwrap();
        }
    }
    assert_eq!(large.in_flight(), 4);
    let mut devices = Vec::new();
    while one.in_flight() > 0 {
        one.wait(|completion| devices.push(completion.route.unwrap().device));
    }
    let lanes = world.session.gantry().devices().iter().position(|device| device.name() == "lanes");
    assert_eq!(devices, vec![lanes.unwrap(); 64]);
}

#[test]
fn all_calibrations_together_take_a_second_at_most() {
    let clock = Arc::new(VirtualClock::default());
    let devices: Vec<Timing> = (0..60)
        .map(|index| Timing::new(Box::leak(format!("device{index}").into_boxed_str()), &clock, 1_000_000, 0.0))
        .collect();
    let world = World::new(&clock, Learned::Latency, &devices.iter().collect::<Vec<_>>());
    // Each request takes a millisecond, and a measurement two.
    let took: Vec<u64> = (0..10_000).map(|_| world.one(64 << 10)).collect();
    let calibrating: u64 = took.iter().map(|took| took.saturating_sub(1_000_000)).sum();
    assert!(calibrating > 500_000_000, "the time for calibrations was not used up: {calibrating}");
    // The last measurement may have begun just before.
    assert!(calibrating < 1_020_000_000, "{calibrating}");
}

#[test]
fn requests_wait_for_one_slice_of_a_calibration_at_most() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::new(&clock, Learned::Latency, &[&software, &engine]);
    world.one(4096); // with known-answer tests
    let (slow, fast) = (software.time(4096), engine.time(4096));
    // The longest measurement is of 32 requests of 4 KiB in software, twice.
    let most = slow + 200_000 + 2 * 32 * slow;
    let mut waited = 0;
    for _ in 0..20_000 {
        let took = world.one(4096);
        assert!(took <= most, "{took} ns, of which {slow} are for the request");
        if took == fast {
            break;
        }
        waited += u64::from(took > slow);
    }
    assert_eq!(world.one(4096), fast, "the calibration has ended");
    assert!(waited > 10, "in {waited} slices");
}

#[test]
fn throughput_uses_rings_that_are_too_slow_for_latency() {
    let clock = Arc::new(VirtualClock::default());
    let software = Timing::new("software", &clock, 100, 10.0);
    let slow = Timing { ring: Some(200), ..Timing::new("slow", &clock, 200_000, 20.0) };
    let route = |policy| World::calibrated(&clock, policy, &[&software, &slow]).route(64, 1024);
    let (throughput, latency) = (route(Learned::Throughput), route(Learned::Latency));
    assert_eq!((throughput.0.as_str(), throughput.2), ("slow", Reason::Split), "{throughput:?}");
    assert_ne!(throughput, latency);
}

#[test]
fn a_clock_that_jumps_is_one_bad_measurement() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let world = World::calibrated(&clock, Learned::Latency, &[&software, &engine]);
    for _ in 0..100 {
        clock.advance_to(clock.now() + 3_600_000_000_000);
        (0..1000).for_each(|_| _ = world.one(2048));
    }
    assert_eq!(world.route(1, 2048).0, "engine");
    assert_eq!(world.route(1, 64).0, "software");
}

/// Keeps costs in memory, or fails.
#[derive(Debug, Default)]
struct Memory {
    stored: Mutex<Vec<CostRecord>>,
    broken: bool,
}

impl CostStore for Memory {
    fn load(&self) -> Result<Vec<CostRecord>, String> {
        if self.broken { Err("cannot be read".into()) } else { Ok(self.stored.lock().unwrap().clone()) }
    }

    fn save(&self, records: &[CostRecord]) -> Result<(), String> {
        if self.broken {
            return Err("cannot be written".into());
        }
        self.stored.lock().unwrap().extend_from_slice(records);
        Ok(())
    }
}

fn with_store(clock: &Arc<VirtualClock>, store: &Arc<Memory>) -> World {
    let (software, engine) = software_and_engine(clock);
    let builder = Gantry::builder().clock(clock.clone()).driver(&software).driver(&engine);
    let gantry = builder.cost_store(store.clone()).build();
    World { clock: clock.clone(), session: gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap() }
}

#[test]
fn stored_costs_are_not_measured_again() {
    let clock = Arc::new(VirtualClock::default());
    let store = Arc::new(Memory::default());
    with_store(&clock, &store).session.gantry().calibrate(Algorithm::Null, ENCRYPT, false);
    assert_eq!(store.stored.lock().unwrap().len(), 2);
    let next = with_store(&clock, &store);
    let before = clock.now();
    assert_eq!(next.route(1, 4096), ("engine".into(), 1, Reason::Fastest));
    assert_eq!(clock.now(), before, "nothing was measured");
    assert!(next.session.gantry().warnings().is_empty());
}

#[test]
fn an_interrupted_calibration_keeps_its_costs() {
    let clock = Arc::new(VirtualClock::default());
    let store = Arc::new(Memory::default());
    let count = || store.stored.lock().unwrap().len();
    let first = with_store(&clock, &store);
    let mut requests = (0..100_000).map(|_| first.one(4096));
    let until = |records: usize, requests: &mut dyn Iterator<Item = u64>| {
        requests.take_while(|_| count() < records).count();
        count()
    };
    assert_eq!(until(2, &mut requests), 2, "costs of two devices");
    let next = with_store(&clock, &store);
    assert_eq!(next.route(1, 4096), ("engine".into(), 1, Reason::Fastest));
    assert_eq!(until(4, &mut requests), 4, "a program that continues measures again");
}

#[test]
fn ignores_costs_of_other_devices_and_invalid_costs() {
    let clock = Arc::new(VirtualClock::default());
    let store = Arc::new(Memory::default());
    with_store(&clock, &store).session.gantry().calibrate(Algorithm::Null, ENCRYPT, false);
    for spoil in [
        (|record: &mut CostRecord| record.version = "2".into()) as fn(&mut CostRecord),
        |record| record.cells.clear(),
        |record| record.cells[5].wall_ns = f32::NAN,
        |record| record.cells[5].cpu_ns = -1.0,
        |record| record.cells[5].bytes = 100,
        |record| record.cells[0].wall_ns = 1e9, // longer than any larger request
        |record| record.algorithm = "rot13".into(),
        |record| record.operation = "digest".into(),
        |record| record.device = "gone".into(),
    ] {
        let mut records = store.stored.lock().unwrap().clone();
        records.iter_mut().for_each(spoil);
        let world = with_store(&clock, &Arc::default());
        world.session.gantry().import_costs(&records);
        assert!(world.session.gantry().costs().is_empty());
        world.one(64); // with known-answer tests
        assert_eq!(world.one(64), 300 + 640, "requests are served nevertheless");
    }
}

#[test]
fn warns_of_a_store_that_fails() {
    let clock = Arc::new(VirtualClock::default());
    let world = with_store(&clock, &Arc::new(Memory { broken: true, ..Memory::default() }));
    world.session.gantry().calibrate(Algorithm::Null, ENCRYPT, false);
    assert_eq!(world.session.gantry().warnings(), ["cannot be read", "cannot be written"]);
    assert_eq!(world.route(1, 4096).0, "engine", "the measurements are used");
}

#[test]
fn concurrent_threads_calibrate_once_and_are_all_served() {
    let clock = Arc::new(VirtualClock::default());
    let store = Arc::new(Memory::default());
    let world = with_store(&clock, &store);
    let done = || !store.stored.lock().unwrap().is_empty();
    let work =
        || (0..100_000).take_while(|_| !done()).for_each(|_| world.session.encrypt(&[], &mut [7; 4096]).unwrap());
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    // The threads advance one clock, so a thread that the system suspends in a measurement may find the time for calibrations used up.
    for device in ["software", "engine"] {
        let times = store.stored.lock().unwrap().iter().filter(|record| record.device == device).count();
        assert!(times < 2, "{device} was measured {times} times");
    }
    world.session.gantry().calibrate(Algorithm::Null, ENCRYPT, false);
    assert_eq!(world.route(1, 4096), ("engine".into(), 1, Reason::Fastest));
}

#[test]
fn an_added_device_is_measured_and_used_where_it_is_faster() {
    let clock = Arc::new(VirtualClock::default());
    let (software, engine) = software_and_engine(&clock);
    let mut world = World::new(&clock, Learned::Latency, &[&software]);
    // All costs of the present devices are known.
    while clock.now() < 1_000_000_000 {
        world.one(4096);
    }
    let gantry = world.session.gantry().clone();
    assert_eq!(gantry.discover(&engine, |_| None), ["engine"]);
    world.session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    let start = clock.now();
    while world.one(4096) > engine.time(4096) {
        assert!(clock.now() - start < 1_000_000_000, "the new device is hardly used after a second");
    }
    assert_eq!(world.route(1, 4096), ("engine".into(), 1, Reason::Fastest));
    assert_eq!(world.route(1, 64).0, "software");
}

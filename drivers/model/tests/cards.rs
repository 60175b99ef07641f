//! Tests modelled cards under core, on both clocks. The reference is the NULL cipher, so that every wrong byte shows.

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use gantry_core::driver::{
    Buffers, Capability, Class, Device, DeviceInfo, DeviceSession, Driver, Found, Operands, Refusal,
};
use gantry_core::route::Pin;
use gantry_core::{
    Algorithm, Clock, DeviceState, Error, Fault, Gantry, GantryBuilder, Outcome, Queue, QueueOptions, Request, Session,
    SessionParams, Submission, VirtualClock,
};
use gantry_driver_model::{
    Completion, FaultInjector, FaultPlan, InjectedFault, Meter, ModelClock, ModelDriver, PROFILES, Profile, Rate,
};

/// A reference device that copies data.
struct CopyDevice(DeviceInfo);

impl CopyDevice {
    fn device() -> Arc<dyn Device> {
        Arc::new(CopyDevice(DeviceInfo {
            description: "the NULL cipher".into(),
            version: "1".into(),
            capabilities: vec![Capability::new(Algorithm::Null)],
            ..DeviceInfo::new("copies", Class::Software)
        }))
    }
}

impl Device for CopyDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn open(&self, _params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        Ok(Arc::new(CopySession))
    }
}

struct CopySession;

impl DeviceSession for CopySession {
    fn run(&self, operands: Operands<'_>) -> Result<Outcome, Fault> {
        match operands {
            Operands::Cipher { data: Buffers::Separate { input, output }, .. } => output.copy_from_slice(input),
            Operands::Cipher { data: Buffers::InPlace(_), .. } => {}
            _ => return Err(Fault::failed("ciphers only")),
        }
        Ok(Outcome::Done)
    }
}

impl Driver for CopyDevice {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(CopyDevice::device())]
    }
}

/// Returns a profile with 1 µs of setup, 8 bytes per nanosecond (64 Gb/s), 100 ns to submit, 200 ns to complete, and 4 places
/// in the ring.
fn profile() -> Profile {
    Profile {
        name: "test".into(),
        rates: vec![Rate { algorithm: Algorithm::Null, setup_ns: 1_000, megabits: 64_000 }].into(),
        ring: 4,
        submit_ns: 100,
        complete_ns: 200,
        ..Profile::named("hifn7951").unwrap().clone()
    }
}

struct Bench {
    session: Session,
    clock: Arc<VirtualClock>,
    driver: ModelDriver,
    faults: FaultInjector,
}

impl Bench {
    /// Creates a framework with only the card, on the virtual clock, after its known-answer test.
    fn alone(profile: Profile) -> Self {
        Self::with_builder(profile, Gantry::builder())
    }

    fn with_builder(profile: Profile, builder: GantryBuilder) -> Self {
        let (clock, faults) = (Arc::new(VirtualClock::default()), FaultInjector::default());
        let name = format!("model:{}", profile.name);
        let model_clock = ModelClock::Virtual(clock.clone());
        let driver = ModelDriver::with_faults(profile, CopyDevice::device(), model_clock, faults.clone()).unwrap();
        let gantry = builder.driver(&driver).policy(Pin { device: name.clone() }).clock(clock.clone()).build();
        gantry.device(&name).unwrap().admit(Algorithm::Null).unwrap();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        Bench { session, clock, driver, faults }
    }

    fn queue(&self) -> Queue {
        let options = QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() };
        self.session.gantry().queue(options).unwrap()
    }

    /// Returns the nanoseconds that `requests` requests of `bytes` bytes each take together, and the number of correct bytes.
    fn batch(&self, requests: usize, bytes: usize) -> (u64, Result<usize, Error>) {
        let before = self.clock.now();
        let input: Vec<u8> = (0..bytes).map(|byte| byte as u8 | 1).collect();
        let mut outputs = vec![vec![0; bytes]; requests];
        let mut batch: Vec<Request<'_>> =
            outputs.iter_mut().map(|output| Request::encrypt(&[], (&input[..], &mut output[..]))).collect();
        let result = self.session.process(&mut batch);
        drop(batch);
        let correct = outputs.iter().flatten().zip(input.iter().cycle()).filter(|(one, other)| one == other).count();
        (self.clock.now() - before, result.map(|()| correct))
    }

    fn state(&self) -> DeviceState {
        self.session.gantry().device("model:test").unwrap().state()
    }
}

#[test]
fn a_request_takes_the_time_of_its_profile() {
    let bench = Bench::alone(profile());
    let before = (bench.driver.meter(), bench.clock.spent());
    assert_eq!(bench.batch(1, 8_000), (100 + 1_000 + 1_000 + 200, Ok(8_000)));
    let Meter { requests, bytes, busy_ns, .. } = bench.driver.meter();
    assert_eq!((requests, bytes, busy_ns), (before.0.requests + 1, before.0.bytes + 8_000, before.0.busy_ns + 2_000));
    assert_eq!(bench.clock.spent() - before.1, 300, "only the driver uses the CPU");
}

#[test]
fn a_full_ring_loses_no_request() {
    let bench = Bench::alone(profile());
    let (ns, correct) = bench.batch(64, 800);
    assert_eq!(correct, Ok(64 * 800));
    assert!(bench.driver.meter().times_full > 0);
    // The unit never idles: 64 times 1.1 µs, plus the driver's work before the first and after the last.
    assert!((64 * 1_100..64 * 1_100 + 2_000).contains(&ns), "{ns}");
}

#[test]
fn units_run_in_parallel_up_to_the_cap() {
    let batch = |units, cap_megabits| {
        let profile = Profile { units, cap_megabits, ring: 64, submit_ns: 0, complete_ns: 0, ..profile() };
        Bench::alone(profile).batch(32, 8_000).0
    };
    assert_eq!(batch(1, None), 32 * 2_000);
    assert_eq!(batch(4, None), 32 * 2_000 / 4);
    // All bytes share one path, on which each request takes 1 µs.
    assert_eq!(batch(4, Some(64_000)), 1_000 + 32 * 1_000);
}

#[test]
fn software_of_a_board_uses_the_time_of_its_caller() {
    let bench = Bench::alone(Profile { is_software: true, ..profile() });
    let spent = bench.clock.spent();
    assert_eq!(bench.batch(3, 8_000), (3 * 2_000, Ok(3 * 8_000)));
    assert_eq!(bench.clock.spent() - spent, 3 * 2_000);
    let mut data = [7; 80];
    let before = bench.clock.now();
    bench.session.encrypt(&[], &mut data).unwrap();
    assert_eq!(bench.clock.now() - before, 1_010);
}

#[test]
fn the_seed_determines_the_schedule() {
    let run = |seed| {
        let profile = Profile { units: 3, in_order: false, jitter_percent: 80, seed, ..profile() };
        let bench = Bench::alone(profile);
        [bench.batch(50, 100).0, bench.batch(7, 3_000).0]
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// With another device as a substitute, the caller always gets correct bytes or an honest error.
#[test]
fn injected_faults_take_effect() {
    let with_substitute =
        || Bench::with_builder(profile(), Gantry::builder().driver(&CopyDevice(CopyDevice::device().info().clone())));
    for (what, state, correct) in [
        (InjectedFault::Error, DeviceState::Quarantined, 8_000),
        (InjectedFault::Wrong, DeviceState::Ready, 7_999),
        (InjectedFault::Late, DeviceState::Ready, 8_000),
        (InjectedFault::Full, DeviceState::Ready, 8_000),
    ] {
        let bench = with_substitute();
        bench.batch(1, 10).1.unwrap();
        bench.faults.inject(what, 1);
        let (ns, happened) = bench.batch(10, 800);
        assert_eq!(happened, Ok(correct), "{what:?}");
        if what != InjectedFault::Full {
            assert_eq!(bench.state(), state, "{what:?}");
        }
        assert_eq!(what == InjectedFault::Late, ns > 11_900, "{what:?}: {ns}");
    }
}

#[test]
fn a_device_that_is_gone_fails_every_call() {
    let says = |result: Result<usize, Error>| result.unwrap_err().to_string();
    let bench = Bench::alone(profile());
    bench.faults.set_gone(true);
    let why = says(bench.batch(1, 10).1);
    let wanted = "no device serves encrypt here (model:test: it has failed, and is in quarantine)";
    assert!(why.ends_with(wanted), "it opens no session: {why}");
    let bench = Bench::alone(profile());
    bench.batch(1, 10).1.unwrap();
    bench.faults.set_gone(true);
    assert!(says(bench.batch(3, 10).1).ends_with("the device is gone"));
    let bench = Bench::alone(profile());
    bench.faults.set_plan(FaultPlan { gone: Some(5), ..FaultPlan::default() });
    assert!(says(bench.batch(9, 10).1).ends_with("the device is gone"));
    assert!(bench.faults.is_gone());
}

#[test]
fn a_fault_leaves_data_in_place_unchanged() {
    let bench = Bench::alone(profile());
    bench.faults.inject(InjectedFault::Error, 1);
    let mut data = [9; 40];
    assert!(bench.session.encrypt(&[], &mut data).is_err());
    assert_eq!(data, [9; 40]);
}

#[test]
fn an_algorithm_that_the_reference_lacks_is_an_error() {
    let hifn = Profile::named("hifn7951").unwrap().clone();
    let error = ModelDriver::new(hifn, CopyDevice::device(), ModelClock::real()).err().unwrap();
    assert_eq!(error.to_string(), "the model 'hifn7951': the reference does not run des-ede3-cbc");
    let invalid = Profile { ring: 0, ..profile() };
    assert!(ModelDriver::new(invalid, CopyDevice::device(), ModelClock::real()).is_err());
}

#[test]
fn a_card_works_in_real_time() {
    for completion in [Completion::Interrupt, Completion::Polled] {
        let profile = Profile { units: 2, in_order: false, jitter_percent: 30, completion, ring: 64, ..profile() };
        let driver = ModelDriver::new(profile, CopyDevice::device(), ModelClock::real()).unwrap();
        let gantry = Gantry::builder().driver(&driver).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let session = &session;
                scope.spawn(move || {
                    // Fewer requests than core needs to learn when a card is late: the machine may stall for a moment.
                    for round in 0..25 {
                        let input = [thread * 25 + round; 300];
                        let mut outputs = [[0; 300]; 9];
                        let mut batch: Vec<Request<'_>> = outputs
                            .iter_mut()
                            .map(|output| Request::encrypt(&[], (&input[..], &mut output[..])))
                            .collect();
                        session.process(&mut batch).unwrap();
                        drop(batch);
                        assert_eq!(outputs, [input; 9]);
                    }
                });
            }
        });
        assert!(driver.meter().requests >= 4 * 25 * 9);
    }
}

#[test]
fn every_profile_has_a_name_for_the_configuration() {
    for profile in PROFILES {
        assert_eq!(Profile::parse(&profile.name, &format!("like={}", profile.name)).unwrap().rates, profile.rates);
    }
}

/// Returns the numbers of a long and a short request in the order of completion.
fn order(profile: Profile) -> Vec<u64> {
    let bench = Bench::alone(profile);
    let mut queue = bench.queue();
    for (number, bytes) in [(1, 64_000), (2, 8)] {
        queue.submit(&bench.session, Submission::encrypt(&[], vec![0; bytes]).user(number)).unwrap();
    }
    let mut order = Vec::new();
    while order.len() < 2 {
        queue.wait(|completion| order.push(completion.user));
    }
    order
}

#[test]
fn units_overtake_each_other_unless_the_device_keeps_order() {
    let units = |in_order| Profile { units: 2, in_order, ..profile() };
    assert_eq!(order(units(false)), [2, 1]);
    assert_eq!(order(units(true)), [1, 2]);
}

#[test]
fn a_dropped_queue_frees_its_places_in_the_ring() {
    let bench = Bench::alone(Profile { ring: 1, ..profile() });
    bench.faults.inject(InjectedFault::Stall, 1);
    let mut queue = bench.queue();
    queue.submit(&bench.session, Submission::encrypt(&[], vec![1; 100])).unwrap();
    assert_eq!(queue.complete(|_| ()), 0, "it stalls");
    drop(queue);
    assert_eq!(bench.batch(2, 100).1, Ok(200), "the place in the ring is free again");
}

/// In real time, the card's thread may be reading a request while the queue takes it back.
#[test]
fn queues_are_dropped_while_the_card_works() {
    let profile = Profile { ring: 64, ..profile() };
    let driver = ModelDriver::new(profile, CopyDevice::device(), ModelClock::real()).unwrap();
    let gantry = Gantry::builder().driver(&driver).build();
    let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
    for round in 0..200 {
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        for _ in 0..20 {
            queue.submit(&session, Submission::encrypt(&[], vec![1; 5_000])).unwrap();
        }
        queue.complete(|completion| assert_eq!(completion.result, Ok(Outcome::Done)));
        (0..round * 10).for_each(|_| std::hint::spin_loop());
    }
}

#[test]
fn only_interrupts_wake_a_waiting_thread() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    for completion in [Completion::Interrupt, Completion::Polled] {
        let rates = vec![Rate { algorithm: Algorithm::Null, setup_ns: 2_000_000, megabits: 64_000 }].into();
        let profile = Profile { completion, rates, ..profile() };
        let driver = ModelDriver::new(profile, CopyDevice::device(), ModelClock::real()).unwrap();
        let gantry = Gantry::builder().driver(&driver).build();
        let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
        session.encrypt(&[], &mut [1]).unwrap();
        let mut queue = gantry.queue(QueueOptions::default()).unwrap();
        // If the machine stalls for 2 ms between submitting and arming, the request is already done.
        let armed = (0..20).any(|_| {
            while queue.in_flight() > 0 {
                queue.complete(|_| ());
            }
            queue.submit(&session, Submission::encrypt(&[], vec![1; 10])).unwrap();
            queue.arm(&Arc::new(Unpark(std::thread::current())).into())
        });
        assert_eq!(armed, completion == Completion::Interrupt);
        let mut done = 0;
        while done == 0 {
            if armed {
                std::thread::park();
            }
            done += queue.complete(|completion| assert_eq!(completion.result, Ok(Outcome::Done)));
        }
    }
}

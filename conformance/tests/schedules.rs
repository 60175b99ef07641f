//! Random schedules of all operations on queues, in virtual time, over devices with all kinds of faults. Every guarantee of a
//! queue must hold.
//!
//! A schedule that violates a guarantee is reduced to the necessary steps, and printed with its seed.
//!
//!     GANTRY_SEED=17 cargo test -p gantry-conformance --test schedules        one schedule again
//!     GANTRY_SCHEDULES=100000 cargo test --release -p gantry-conformance --test schedules

mod world;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use gantry_core::{
    Algorithm, Clock, Completion, DeviceState, Direction, Gantry, Outcome, Priority, Queue, QueueOptions, RejectReason,
    Session, SessionParams, Submission, Ticket,
};
use gantry_driver_model::{FaultInjector, InjectedFault, ModelDriver, Profile};
use gantry_driver_software::SoftwareDriver;
use world::{RandomPolicy, Rng, WatchdogClock, software};

/// One event. It refers to queues, sessions and devices by index, so a schedule remains valid if steps are left out.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { queue: usize, session: usize, bytes: usize, seed: u64 },
    Complete(usize),
    Wait(usize),
    Flush(usize),
    Cancel(usize, usize),
    Drop(usize),
    Inject(usize, InjectedFault, usize),
    Gone(usize, bool),
    AdvanceTime(u64),
}

fn schedule(seed: u64) -> Vec<Step> {
    let rng = Rng::new(seed);
    let steps = 20 + rng.below(200);
    let faults =
        [InjectedFault::Error, InjectedFault::Stall, InjectedFault::Late, InjectedFault::Full, InjectedFault::Wrong];
    let step = |_| {
        let (queue, device) = (rng.below(4), rng.below(3));
        match rng.below(100) {
            0..55 => {
                let bytes = [16, 64, 256, 1024, 4096][rng.below(5)];
                Step::Submit { queue, session: rng.below(8), bytes, seed: rng.next() }
            }
            55..70 => Step::Complete(queue),
            70..76 => Step::Wait(queue),
            76..80 => Step::Flush(queue),
            80..85 => Step::Cancel(queue, rng.below(8)),
            85..87 => Step::Drop(queue),
            87..93 => Step::Inject(device, faults[rng.below(5)], 1 + rng.below(3)),
            93..95 => Step::Gone(device, rng.below(2) == 0),
            _ => Step::AdvanceTime([1_000, 50_000, 1_000_000, 400_000_000][rng.below(4)]),
        }
    };
    (0..steps).map(step).collect()
}

/// The expected result of a submission.
struct Expected {
    session: usize,
    bytes: usize,
    outcome: Outcome,
    data: Vec<u8>,
    tag: Vec<u8>,
}

struct TestedQueue {
    queue: Queue,
    depth: usize,
    max_bytes: usize,
    expected: BTreeMap<u64, (Ticket, Expected)>,
    /// The user values in the order of submission, by session; only for sessions that keep order.
    order: BTreeMap<usize, VecDeque<u64>>,
}

impl TestedQueue {
    fn new(gantry: &Gantry, rng: &Rng) -> Self {
        let options = QueueOptions {
            depth: 1 + rng.below(12),
            bytes: [100, 5_000, 1 << 20][rng.below(3)],
            class: Priority::ALL[rng.below(3)],
            weight: 1 + rng.below(4) as u32,
            coalesce: Duration::from_nanos([0, 20_000, 1_000_000][rng.below(3)]),
            ..QueueOptions::default()
        };
        let (depth, max_bytes) = (options.depth, options.bytes);
        let queue = gantry.queue(options).unwrap();
        Self { queue, depth, max_bytes, expected: BTreeMap::new(), order: BTreeMap::new() }
    }

    fn bytes(&self) -> usize {
        self.expected.values().map(|(_, expected)| expected.bytes).sum()
    }

    /// Checks every guarantee of a completion.
    fn check(&mut self, completion: &Completion, wrong_device: usize) {
        let Completion { ticket, user, result, route, submission } = completion;
        let (submitted, expected) = self.expected.remove(user).expect("one completion for each, and for nothing else");
        assert_eq!(submitted, *ticket);
        if let Some(order) = self.order.get_mut(&expected.session) {
            assert_eq!(order.pop_front(), Some(*user), "in order");
        }
        assert_eq!(*result, Ok(expected.outcome), "software serves every request");
        if expected.outcome == Outcome::BadTag {
            let zeros = submission.data().iter().all(|byte| *byte == 0);
            assert!(zeros || submission.data() == expected.data, "no plaintext with a bad tag");
        } else if route.is_none_or(|route| route.device != wrong_device) {
            assert!(submission.data() == expected.data, "right bytes");
            assert!(submission.tag() == expected.tag, "right tag");
        }
    }
}

struct World {
    clock: Arc<WatchdogClock>,
    gantry: Gantry,
    sessions: Vec<(Session, bool)>,
    /// One session for each pair in `sessions`, on a framework with the software device only.
    reference: Vec<Session>,
    faults: Vec<FaultInjector>,
    queues: Vec<TestedQueue>,
    rng: Rng,
    next_user: u64,
}

/// The index of the device that may give wrong results.
const WRONG_DEVICE: usize = 2;

impl World {
    fn new(seed: u64) -> Self {
        let clock: Arc<WatchdogClock> = Arc::default();
        let faulty = Profile::named("faulty").unwrap();
        let faults: Vec<FaultInjector> = (0..3).map(|_| FaultInjector::default()).collect();
        let mut builder = Gantry::builder().clock(clock.clone()).policy(RandomPolicy(Rng::new(seed)));
        for (index, faults) in faults.iter().enumerate() {
            let profile = Profile {
                name: ["wide", "narrow", "liar"][index].into(),
                ring: [32, 2, 5][index],
                units: [2, 1, 2][index],
                in_order: index == 1,
                seed,
                ..faulty.clone()
            };
            let model_clock = clock.time.clone().into();
            builder =
                builder.driver(&ModelDriver::with_faults(profile, software(), model_clock, faults.clone()).unwrap());
        }
        let gantry = builder.driver(&SoftwareDriver).build();
        let alone = Gantry::builder().driver(&SoftwareDriver).build();
        let params = [
            SessionParams::new(Algorithm::Sha256, &[]),
            SessionParams::new(Algorithm::HmacSha256, &[7; 32]),
            SessionParams::new(Algorithm::Aes128Cbc, &[3; 16]).with_direction(Direction::Encrypt),
            SessionParams::new(Algorithm::Aes128Gcm, &[5; 16]),
        ];
        let (mut sessions, mut reference) = (Vec::new(), Vec::new());
        for params in params {
            gantry.devices().iter().for_each(|device| device.admit(params.algorithm()).unwrap());
            reference.push(alone.session(params.clone()).unwrap());
            sessions.push((gantry.session(params.clone()).unwrap(), false));
            sessions.push((gantry.session(params.ordered()).unwrap(), true));
        }
        let rng = Rng::new(seed ^ 0x51ed_270b);
        let queues = (0..4).map(|_| TestedQueue::new(&gantry, &rng)).collect();
        Self { clock, gantry, sessions, reference, faults, queues, rng, next_user: 0 }
    }

    fn step(&mut self, step: Step) {
        self.clock.progress();
        match step {
            Step::Submit { queue, session, bytes, seed } => self.submit(queue, session, bytes, seed),
            Step::Complete(queue) => self.complete(queue, false),
            Step::Wait(queue) => self.complete(queue, true),
            Step::Flush(queue) => self.queues[queue].queue.flush(),
            Step::Cancel(queue, nth) => {
                let tested = &mut self.queues[queue];
                let Some((user, (ticket, _))) = tested.expected.iter().nth(nth) else { return };
                let (user, ticket) = (*user, *ticket);
                if let Some(submission) = tested.queue.cancel(ticket) {
                    let (_, expected) = tested.expected.remove(&user).unwrap();
                    if expected.outcome == Outcome::BadTag {
                        assert!(submission.data() == expected.data, "as it was");
                    }
                    if let Some(order) = tested.order.get_mut(&expected.session) {
                        order.retain(|other| *other != user);
                    }
                    assert!(tested.queue.cancel(ticket).is_none(), "once");
                }
            }
            Step::Drop(queue) => self.queues[queue] = TestedQueue::new(&self.gantry, &self.rng),
            Step::Inject(device, fault, times) => {
                if fault != InjectedFault::Wrong || device == WRONG_DEVICE {
                    self.faults[device].inject(fault, times);
                }
            }
            Step::Gone(device, gone) => self.faults[device].set_gone(gone),
            Step::AdvanceTime(ns) => self.clock.time.advance_to(self.clock.now() + ns),
        }
        for tested in &self.queues {
            assert_eq!(tested.queue.in_flight(), tested.expected.len());
        }
    }

    fn submit(&mut self, queue: usize, session: usize, bytes: usize, seed: u64) {
        let rng = Rng::new(seed);
        let (reference, (session_of, in_order)) = (&self.reference[session / 2], &self.sessions[session]);
        let (data, iv) = (rng.bytes(bytes), rng.bytes(16));
        let mut expected = Expected { session, bytes, outcome: Outcome::Done, data: data.clone(), tag: Vec::new() };
        let submission = match session / 2 {
            0 => {
                expected.tag = vec![0; 32];
                reference.digest(&data, &mut expected.tag).unwrap();
                Submission::digest(data)
            }
            1 => {
                expected.tag = vec![0; 32];
                reference.mac(&data, &mut expected.tag).unwrap();
                Submission::mac(data)
            }
            2 => {
                reference.encrypt(&iv, &mut expected.data).unwrap();
                let submission = Submission::encrypt(&iv, data);
                if rng.below(2) == 0 {
                    submission
                } else {
                    expected.bytes += bytes;
                    submission.into_output(vec![0; bytes])
                }
            }
            _ => {
                let mut sealed = data.clone();
                let mut tag = [0; 16];
                reference.seal(&iv[..12], &[], &mut sealed, &mut tag).unwrap();
                match rng.below(3) {
                    0 => {
                        (expected.data, expected.tag) = (sealed, tag.to_vec());
                        Submission::seal(&iv[..12], Vec::new(), data, 16)
                    }
                    1 => {
                        expected.tag = tag.to_vec();
                        Submission::open(&iv[..12], Vec::new(), sealed, &tag)
                    }
                    _ => {
                        tag[3] ^= 1;
                        expected.outcome = Outcome::BadTag;
                        (expected.data, expected.tag) = (sealed.clone(), tag.to_vec());
                        Submission::open(&iv[..12], Vec::new(), sealed, &tag)
                    }
                }
            }
        };
        let tested = &mut self.queues[queue];
        let is_full = tested.expected.len() == tested.depth
            || (tested.bytes() + expected.bytes > tested.max_bytes && !tested.expected.is_empty());
        match tested.queue.submit(session_of, submission.user(self.next_user)) {
            Ok(ticket) => {
                assert!(!is_full, "bounds are kept");
                if *in_order {
                    tested.order.entry(session).or_default().push_back(self.next_user);
                }
                tested.expected.insert(self.next_user, (ticket, expected));
            }
            Err(rejected) => {
                assert_eq!(rejected.why, RejectReason::Full);
                assert!(is_full, "there was room");
            }
        }
        self.next_user += 1;
    }

    fn complete(&mut self, queue: usize, wait: bool) {
        let tested = &mut self.queues[queue];
        let mut completions = Vec::new();
        let each = |completion| completions.push(completion);
        let count = if wait { tested.queue.wait(each) } else { tested.queue.complete(each) };
        assert_eq!(count, completions.len());
        assert!(!wait || count > 0 || tested.expected.is_empty());
        for completion in &completions {
            tested.check(completion, WRONG_DEVICE);
        }
    }

    /// Ends the faults, and checks that no request is lost and that all devices return.
    fn drain_and_recover(&mut self) {
        for faults in &self.faults {
            faults.set_gone(false);
        }
        for queue in 0..self.queues.len() {
            while self.queues[queue].queue.in_flight() > 0 {
                self.clock.progress();
                self.complete(queue, true);
            }
            assert!(self.queues[queue].expected.is_empty(), "nothing is lost");
        }
        // Known-answer tests use up the injected faults that are left.
        for _ in 0..100 {
            self.clock.progress();
            if self.gantry.devices().iter().all(|device| device.state() == DeviceState::Ready) {
                return;
            }
            self.clock.time.advance_to(self.clock.now() + 301_000_000_000);
            self.submit(0, 0, 16, 1);
            self.complete(0, true);
        }
        panic!("a device did not become ready again");
    }
}

fn run(seed: u64, steps: &[Step]) -> Result<(), String> {
    let run = || {
        let mut world = World::new(seed);
        for step in steps {
            world.step(*step);
        }
        world.drain_and_recover();
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Removes steps that the failure does not need: halves, then quarters, down to single steps.
fn shrink(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    std::panic::set_hook(Box::new(|_| ()));
    let mut length = steps.len() / 2;
    while length > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + length).min(steps.len()));
            if run(seed, &fewer).is_err() {
                steps = fewer;
            } else {
                from += length;
            }
        }
        length /= 2;
    }
    drop(std::panic::take_hook());
    steps
}

fn env_number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn every_guarantee_holds_under_random_schedules() {
    let schedules = env_number("GANTRY_SCHEDULES").unwrap_or(300);
    let seeds = env_number("GANTRY_SEED").map_or(0..schedules, |seed| seed..seed + 1);
    for seed in seeds {
        let steps = schedule(seed);
        if let Err(what) = run(seed, &steps) {
            let steps = shrink(seed, steps);
            let again = run(seed, &steps).err().unwrap_or_default();
            panic!("GANTRY_SEED={seed}: {what}\nthese steps suffice ({again}):\n{steps:#?}");
        }
    }
}

//! Random schedules of everything that can happen to queues, in virtual time, over devices that go wrong in every way: whatever
//! happens, every promise of a queue holds.
//!
//! A schedule that breaks one is cut down to the steps that matter, and printed with its seed.
//!
//!     GANTRY_SEED=17 cargo test -p gantry-conformance --test schedules        one schedule again
//!     GANTRY_SCHEDULES=100000 cargo test --release -p gantry-conformance --test schedules

mod world;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use gantry_core::{
    Algorithm, Clock, Completion, DeviceState, Direction, Gantry, Outcome, Priority, Queue, QueueOptions, Session,
    SessionParams, Submission, Ticket, Why,
};
use gantry_driver_model::{Faults, Injected, ModelDriver, Profile};
use gantry_driver_software::SoftwareDriver;
use world::{Anywhere, Chance, Patient, software};

/// One thing that happens. Numbers are taken modulo what there is, so that a schedule stays one when steps are left out.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { queue: usize, session: usize, bytes: usize, seed: u64 },
    Complete(usize),
    Wait(usize),
    Flush(usize),
    Cancel(usize, usize),
    Drop(usize),
    Inject(usize, Injected, usize),
    Gone(usize, bool),
    Pass(u64),
}

fn schedule(seed: u64) -> Vec<Step> {
    let chance = Chance::new(seed);
    let steps = 20 + chance.below(200);
    let faults = [Injected::Error, Injected::Stall, Injected::Late, Injected::Full, Injected::Wrong];
    let step = |_| {
        let (queue, device) = (chance.below(4), chance.below(3));
        match chance.below(100) {
            0..55 => {
                let bytes = [16, 64, 256, 1024, 4096][chance.below(5)];
                Step::Submit { queue, session: chance.below(8), bytes, seed: chance.next() }
            }
            55..70 => Step::Complete(queue),
            70..76 => Step::Wait(queue),
            76..80 => Step::Flush(queue),
            80..85 => Step::Cancel(queue, chance.below(8)),
            85..87 => Step::Drop(queue),
            87..93 => Step::Inject(device, faults[chance.below(5)], 1 + chance.below(3)),
            93..95 => Step::Gone(device, chance.below(2) == 0),
            _ => Step::Pass([1_000, 50_000, 1_000_000, 400_000_000][chance.below(4)]),
        }
    };
    (0..steps).map(step).collect()
}

/// What must come of a submission.
struct Expected {
    session: usize,
    bytes: usize,
    outcome: Outcome,
    data: Vec<u8>,
    tag: Vec<u8>,
}

struct Tested {
    queue: Queue,
    depth: usize,
    most: usize,
    expected: BTreeMap<u64, (Ticket, Expected)>,
    /// Of the sessions that keep order, by session: users as they were submitted.
    order: BTreeMap<usize, VecDeque<u64>>,
}

impl Tested {
    fn new(gantry: &Gantry, chance: &Chance) -> Self {
        let options = QueueOptions {
            depth: 1 + chance.below(12),
            bytes: [100, 5_000, 1 << 20][chance.below(3)],
            class: Priority::ALL[chance.below(3)],
            weight: 1 + chance.below(4) as u32,
            coalesce: Duration::from_nanos([0, 20_000, 1_000_000][chance.below(3)]),
            ..QueueOptions::default()
        };
        let (depth, most) = (options.depth, options.bytes);
        let queue = gantry.queue(options).unwrap();
        Self { queue, depth, most, expected: BTreeMap::new(), order: BTreeMap::new() }
    }

    fn bytes(&self) -> usize {
        self.expected.values().map(|(_, expected)| expected.bytes).sum()
    }

    /// Everything that a completion promises.
    fn check(&mut self, completion: &Completion, liar: usize) {
        let Completion { ticket, user, result, route, submission } = completion;
        let (given, expected) = self.expected.remove(user).expect("one completion for each, and for nothing else");
        assert_eq!(given, *ticket);
        if let Some(order) = self.order.get_mut(&expected.session) {
            assert_eq!(order.pop_front(), Some(*user), "in order");
        }
        assert_eq!(*result, Ok(expected.outcome), "software can do all of it");
        if expected.outcome == Outcome::BadTag {
            let zeros = submission.data().iter().all(|byte| *byte == 0);
            assert!(zeros || submission.data() == expected.data, "no plaintext with a bad tag");
        } else if route.is_none_or(|route| route.device != liar) {
            assert!(submission.data() == expected.data, "right bytes");
            assert!(submission.tag() == expected.tag, "right tag");
        }
    }
}

struct World {
    clock: Arc<Patient>,
    gantry: Gantry,
    sessions: Vec<(Session, bool)>,
    /// The same sessions on software alone.
    right: Vec<Session>,
    faults: Vec<Faults>,
    queues: Vec<Tested>,
    chance: Chance,
    users: u64,
}

/// The device that may give wrong answers.
const LIAR: usize = 2;

impl World {
    fn new(seed: u64) -> Self {
        let clock: Arc<Patient> = Arc::default();
        let faulty = Profile::named("faulty").unwrap();
        let faults: Vec<Faults> = (0..3).map(|_| Faults::default()).collect();
        let mut builder = Gantry::builder().clock(clock.clone()).policy(Anywhere(Chance::new(seed)));
        for (index, faults) in faults.iter().enumerate() {
            let profile = Profile {
                name: ["wide", "narrow", "liar"][index].into(),
                ring: [32, 2, 5][index],
                units: [2, 1, 2][index],
                in_order: index == 1,
                seed,
                ..faulty.clone()
            };
            let time = clock.time.clone().into();
            builder = builder.driver(&ModelDriver::with_faults(profile, software(), time, faults.clone()).unwrap());
        }
        let gantry = builder.driver(&SoftwareDriver).build();
        let alone = Gantry::builder().driver(&SoftwareDriver).build();
        let params = [
            SessionParams::new(Algorithm::Sha256, &[]),
            SessionParams::new(Algorithm::HmacSha256, &[7; 32]),
            SessionParams::new(Algorithm::Aes128Cbc, &[3; 16]).direction(Direction::Encrypt),
            SessionParams::new(Algorithm::Aes128Gcm, &[5; 16]),
        ];
        let (mut sessions, mut right) = (Vec::new(), Vec::new());
        for params in params {
            gantry.devices().iter().for_each(|device| device.admit(params.algorithm()).unwrap());
            right.push(alone.session(params.clone()).unwrap());
            sessions.push((gantry.session(params.clone()).unwrap(), false));
            sessions.push((gantry.session(params.in_order()).unwrap(), true));
        }
        let chance = Chance::new(seed ^ 0x51ed_270b);
        let queues = (0..4).map(|_| Tested::new(&gantry, &chance)).collect();
        Self { clock, gantry, sessions, right, faults, queues, chance, users: 0 }
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
            Step::Drop(queue) => self.queues[queue] = Tested::new(&self.gantry, &self.chance),
            Step::Inject(device, what, times) => {
                if what != Injected::Wrong || device == LIAR {
                    self.faults[device].inject(what, times);
                }
            }
            Step::Gone(device, gone) => self.faults[device].set_gone(gone),
            Step::Pass(ns) => self.clock.time.advance_to(self.clock.now() + ns),
        }
        for tested in &self.queues {
            assert_eq!(tested.queue.in_flight(), tested.expected.len());
        }
    }

    fn submit(&mut self, queue: usize, session: usize, bytes: usize, seed: u64) {
        let chance = Chance::new(seed);
        let (right, (session_of, in_order)) = (&self.right[session / 2], &self.sessions[session]);
        let (data, iv) = (chance.bytes(bytes), chance.bytes(16));
        let mut expected = Expected { session, bytes, outcome: Outcome::Done, data: data.clone(), tag: Vec::new() };
        let submission = match session / 2 {
            0 => {
                expected.tag = vec![0; 32];
                right.digest(&data, &mut expected.tag).unwrap();
                Submission::digest(data)
            }
            1 => {
                expected.tag = vec![0; 32];
                right.mac(&data, &mut expected.tag).unwrap();
                Submission::mac(data)
            }
            2 => {
                right.encrypt(&iv, &mut expected.data).unwrap();
                let submission = Submission::encrypt(&iv, data);
                if chance.below(2) == 0 {
                    submission
                } else {
                    expected.bytes += bytes;
                    submission.into_output(vec![0; bytes])
                }
            }
            _ => {
                let mut sealed = data.clone();
                let mut tag = [0; 16];
                right.seal(&iv[..12], &[], &mut sealed, &mut tag).unwrap();
                match chance.below(3) {
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
        let full = tested.expected.len() == tested.depth
            || (tested.bytes() + expected.bytes > tested.most && !tested.expected.is_empty());
        match tested.queue.submit(session_of, submission.user(self.users)) {
            Ok(ticket) => {
                assert!(!full, "bounds are kept");
                if *in_order {
                    tested.order.entry(session).or_default().push_back(self.users);
                }
                tested.expected.insert(self.users, (ticket, expected));
            }
            Err(rejected) => {
                assert_eq!(rejected.why, Why::Full);
                assert!(full, "there was room");
            }
        }
        self.users += 1;
    }

    fn complete(&mut self, queue: usize, wait: bool) {
        let tested = &mut self.queues[queue];
        let mut completions = Vec::new();
        let each = |completion| completions.push(completion);
        let count = if wait { tested.queue.wait(each) } else { tested.queue.complete(each) };
        assert_eq!(count, completions.len());
        assert!(!wait || count > 0 || tested.expected.is_empty());
        for completion in &completions {
            tested.check(completion, LIAR);
        }
    }

    /// All goes well again: nothing is lost, and the devices come back.
    fn end(&mut self) {
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
        // What was injected and has not happened yet happens to known-answer tests.
        for _ in 0..100 {
            self.clock.progress();
            if self.gantry.devices().iter().all(|device| device.state() == DeviceState::Ready) {
                return;
            }
            self.clock.time.advance_to(self.clock.now() + 301_000_000_000);
            self.submit(0, 0, 16, 1);
            self.complete(0, true);
        }
        panic!("a device does not come back");
    }
}

fn run(seed: u64, steps: &[Step]) -> Result<(), String> {
    let run = || {
        let mut world = World::new(seed);
        for step in steps {
            world.step(*step);
        }
        world.end();
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// Leaves out what is not needed for the failure: halves, quarters, and so on down to single steps.
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn every_promise_holds_under_every_schedule() {
    let schedules = number("GANTRY_SCHEDULES").unwrap_or(300);
    let seeds = number("GANTRY_SEED").map_or(0..schedules, |seed| seed..seed + 1);
    for seed in seeds {
        let steps = schedule(seed);
        if let Err(what) = run(seed, &steps) {
            let steps = shrink(seed, steps);
            let again = run(seed, &steps).err().unwrap_or_default();
            panic!("GANTRY_SEED={seed}: {what}\nthese steps suffice ({again}):\n{steps:#?}");
        }
    }
}

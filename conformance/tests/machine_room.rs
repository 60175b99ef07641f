//! A simulated machine room, for a virtual hour. It has 1,000 queues of all classes and weights, and 50 devices of mixed kinds
//! that fail, stall, are late or full, disappear and return. The load is light, about 55 requests a second. Every twenty minutes
//! all queues submit at once.
//!
//! A run is deterministic to the nanosecond. `GANTRY_SEED` chooses another seed.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_core::{
    Algorithm, Clock, Completion, DeviceState, Gantry, Outcome, Priority, Queue, QueueOptions, Session, SessionParams,
    Submission, Ticket,
};
use gantry_driver_model::{FaultInjector, InjectedFault, ModelDriver, PROFILES, Profile};
use gantry_driver_software::SoftwareDriver;
use world::{RandomPolicy, Rng, WatchdogClock, software};

const QUEUES: usize = 1000;
const DEVICES: usize = 50;
const SECOND: u64 = 1_000_000_000;
/// The longest permitted wait of a request, in ns: a few deadlines, one after the other.
const MAX_WAIT_NS: u64 = 60 * SECOND;

/// An algorithm, and messages to process with it.
struct Workload {
    session: Session,
    operation: fn(&[u8]) -> Submission,
    /// Messages, each with its result.
    answers: Vec<(Vec<u8>, Vec<u8>)>,
}

const IV: [u8; 16] = [9; 16];

fn workloads(gantry: &Gantry) -> Vec<Workload> {
    let alone = Gantry::builder().driver(&SoftwareDriver).build();
    let rng = Rng::new(1);
    let algorithms = [
        (Algorithm::Md5, 0),
        (Algorithm::Sha1, 0),
        (Algorithm::Sha256, 0),
        (Algorithm::Aes128Cbc, 16),
        (Algorithm::Aes256Cbc, 32),
        (Algorithm::DesEde3Cbc, 24),
    ];
    let workload = |(algorithm, key): (Algorithm, usize)| {
        let params = SessionParams::new(algorithm, &rng.bytes(key));
        let session = alone.session(params.clone()).unwrap();
        let answers = [16, 64, 256, 1024, 4096, 8192].map(|bytes| {
            let message = rng.bytes(bytes);
            let mut result = message.clone();
            if key == 0 {
                result = vec![0; session.params().tag_len()];
                session.digest(&message, &mut result).unwrap();
            } else {
                session.encrypt(&IV[..session.params().algorithm().info().block.min(16)], &mut result).unwrap();
            }
            (message, result)
        });
        let operation = match (key, algorithm) {
            (0, _) => |message: &[u8]| Submission::digest(message.to_vec()),
            (_, Algorithm::DesEde3Cbc) => |message: &[u8]| Submission::encrypt(&IV[..8], message.to_vec()),
            _ => |message: &[u8]| Submission::encrypt(&IV, message.to_vec()),
        };
        gantry.devices().iter().for_each(|device| drop(device.admit(algorithm)));
        Workload { session: gantry.session(params).unwrap(), operation, answers: answers.to_vec() }
    };
    algorithms.into_iter().map(workload).collect()
}

struct Client {
    queue: Queue,
    class: Priority,
    /// The requests in flight, by user value: ticket, time of submission in ns, index of the workload, and index of its message.
    waiting: BTreeMap<u64, (Ticket, u64, usize, usize)>,
}

struct MachineRoom {
    clock: Arc<WatchdogClock>,
    gantry: Gantry,
    workloads: Vec<Workload>,
    faults: Vec<FaultInjector>,
    clients: Vec<Client>,
    /// Indices of clients with requests in flight.
    active: BTreeSet<usize>,
    rng: Rng,
    next_user: u64,
    completed: u64,
    /// The longest wait by class, in ns. `bursts` has the sum of the waits during bursts, and their number.
    longest_waits: [u64; 3],
    bursts: [(u64, u64); 3],
    in_burst: bool,
    /// FNV-1a hash of all completions.
    trace: u64,
}

impl MachineRoom {
    fn new(seed: u64) -> Self {
        let (clock, rng) = (Arc::<WatchdogClock>::default(), Rng::new(seed));
        let faults: Vec<FaultInjector> = (1..DEVICES).map(|_| FaultInjector::default()).collect();
        let mut builder = Gantry::builder().clock(clock.clone()).policy(RandomPolicy(Rng::new(seed + 1)));
        for (index, faults) in faults.iter().enumerate() {
            // Cards only: modelled software would use the time of the only thread, and no request would wait for a ring.
            let cards = PROFILES.iter().filter(|profile| !profile.is_software);
            let profile = cards.cycle().nth(index).expect("without end");
            let name = format!("{}-{index}", profile.name).into();
            let profile = Profile { name, seed: rng.next(), ..profile.clone() };
            let model_clock = clock.time.clone().into();
            builder =
                builder.driver(&ModelDriver::with_faults(profile, software(), model_clock, faults.clone()).unwrap());
        }
        let gantry = builder.driver(&SoftwareDriver).build();
        assert_eq!(gantry.devices().len(), DEVICES);
        let client = |_| {
            let class = Priority::ALL[rng.below(3)];
            let options = QueueOptions {
                class,
                weight: 1 << rng.below(5),
                depth: 4 + rng.below(28),
                coalesce: Duration::from_micros([0, 20, 500][rng.below(3)]),
                ..QueueOptions::default()
            };
            Client { queue: gantry.queue(options).unwrap(), class, waiting: BTreeMap::new() }
        };
        let clients = (0..QUEUES).map(client).collect();
        let workloads = workloads(&gantry);
        Self {
            clock,
            gantry,
            workloads,
            faults,
            clients,
            active: BTreeSet::new(),
            rng,
            next_user: 0,
            completed: 0,
            longest_waits: [0; 3],
            bursts: [(0, 0); 3],
            in_burst: false,
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn submit(&mut self, client: usize, requests: usize) {
        for _ in 0..requests {
            let workload = self.rng.below(self.workloads.len());
            let message = self.rng.below(self.workloads[workload].answers.len());
            let Workload { session, operation, answers } = &self.workloads[workload];
            let submission = operation(&answers[message].0).user(self.next_user);
            let now = self.clock.now();
            let target = &mut self.clients[client];
            if let Ok(ticket) = target.queue.submit(session, submission) {
                target.waiting.insert(self.next_user, (ticket, now, workload, message));
            }
            self.next_user += 1;
        }
        self.active.insert(client);
    }

    fn inject_fault(&mut self) {
        let device = self.rng.below(self.faults.len());
        let kinds = [InjectedFault::Error, InjectedFault::Stall, InjectedFault::Late, InjectedFault::Full];
        match self.rng.below(6) {
            4 => self.faults[device].set_gone(true),
            5 => self.faults.iter().for_each(|faults| faults.set_gone(false)),
            kind => self.faults[device].inject(kinds[kind], 1 + self.rng.below(3)),
        }
    }

    fn poll(&mut self) {
        for client in self.active.clone() {
            let mut completions = Vec::new();
            self.clients[client].queue.complete(|completion| completions.push(completion));
            for completion in completions {
                self.check(client, &completion);
            }
            assert_eq!(self.clients[client].queue.in_flight(), self.clients[client].waiting.len());
            if self.clients[client].waiting.is_empty() {
                self.active.remove(&client);
            }
        }
    }

    fn check(&mut self, client: usize, completion: &Completion) {
        let Completion { ticket, user, result, route, submission } = completion;
        let now = self.clock.now();
        let Client { class, waiting, .. } = &mut self.clients[client];
        let (submitted, since, workload, message) = waiting.remove(user).expect("one completion for each");
        assert_eq!((submitted, result), (*ticket, &Ok(Outcome::Done)));
        let Workload { session, answers, .. } = &self.workloads[workload];
        let expected = &answers[message].1;
        let digest = session.params().algorithm().kind() == gantry_core::Kind::Digest;
        assert!(if digest { submission.tag() } else { submission.data() } == expected, "right bytes");
        let (class, waited) = (*class as usize, now - since);
        assert!(waited < MAX_WAIT_NS, "{class}: {waited} ns");
        self.longest_waits[class] = self.longest_waits[class].max(waited);
        if self.in_burst {
            self.bursts[class] = (self.bursts[class].0 + waited, self.bursts[class].1 + 1);
        }
        self.completed += 1;
        let device = route.map_or(u64::MAX, |route| route.device as u64);
        for number in [client as u64, *user, device, now] {
            self.trace = (self.trace ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.clock.now() + seconds * SECOND;
        let mut next_burst = self.clock.now() + 30 * SECOND;
        let mut arrival = self.clock.now();
        while arrival < end {
            self.clock.progress();
            if self.active.is_empty() {
                self.in_burst = false;
                self.clock.time.advance_to(arrival);
            } else {
                self.clock.wait(Some(arrival));
            }
            if self.clock.now() >= arrival {
                if arrival >= next_burst {
                    next_burst += 1200 * SECOND;
                    self.in_burst = true;
                    (0..QUEUES).for_each(|client| self.submit(client, 5));
                } else {
                    let (client, requests) = (self.rng.below(QUEUES), 1 + self.rng.below(10));
                    self.submit(client, requests);
                }
                if self.rng.below(50) == 0 {
                    self.inject_fault();
                }
                arrival = self.clock.now() + self.rng.next() % (SECOND / 5);
            }
            self.poll();
        }
        self.drain();
    }

    /// Checks that no request is lost, and that all devices return.
    fn drain(&mut self) {
        self.faults.iter().for_each(|faults| faults.set_gone(false));
        while !self.active.is_empty() {
            self.clock.wait(None);
            self.poll();
        }
        for _ in 0..100 {
            self.clock.progress();
            if self.gantry.devices().iter().all(|device| device.state() == DeviceState::Ready) {
                return;
            }
            self.clock.time.advance_to(self.clock.now() + 301 * SECOND);
            self.submit(0, 1);
            while !self.active.is_empty() {
                self.clock.wait(None);
                self.poll();
            }
        }
        panic!("a device did not become ready again");
    }
}

fn seed() -> u64 {
    std::env::var("GANTRY_SEED").map_or(2003, |seed| seed.parse().expect("a number"))
}

#[test]
fn every_request_completes_in_time_for_an_hour() {
    let mut room = MachineRoom::new(seed());
    room.run(3600);
    let mean = |(sum, number): (u64, u64)| sum / number.max(1);
    let [real_time, normal, bulk] = room.bursts.map(mean);
    println!(
        "{} requests; longest waits {:?} ns; in a rush {real_time}, {normal}, {bulk} ns",
        room.completed, room.longest_waits
    );
    assert!(room.completed > 150_000, "{}", room.completed);
    assert!(real_time <= normal && normal <= bulk, "urgent requests must wait less: {real_time}, {normal}, {bulk}");
}

#[test]
fn the_same_seed_repeats_the_run() {
    let trace = |seed| {
        let mut room = MachineRoom::new(seed);
        room.run(120);
        (room.trace, room.completed)
    };
    assert_eq!(trace(seed()), trace(seed()));
    assert_ne!(trace(seed()), trace(seed() + 1));
}

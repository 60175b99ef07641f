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
use gantry_driver_model::{Faults, Injected, ModelDriver, PROFILES, Profile};
use gantry_driver_software::SoftwareDriver;
use world::{RandomPolicy, Rng, WatchdogClock, software};

const QUEUES: usize = 1000;
const DEVICES: usize = 50;
const SECOND: u64 = 1_000_000_000;
/// The longest permitted wait of a request, in ns: a few deadlines, one after the other.
const LONGEST: u64 = 60 * SECOND;

/// An algorithm, and messages to process with it.
struct Work {
    session: Session,
    operation: fn(&[u8]) -> Submission,
    /// Messages, each with its result.
    answers: Vec<(Vec<u8>, Vec<u8>)>,
}

const IV: [u8; 16] = [9; 16];

fn works(gantry: &Gantry) -> Vec<Work> {
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
    let work = |(algorithm, key): (Algorithm, usize)| {
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
        Work { session: gantry.session(params).unwrap(), operation, answers: answers.to_vec() }
    };
    algorithms.into_iter().map(work).collect()
}

struct Guest {
    queue: Queue,
    class: Priority,
    /// The requests in flight, by user value: ticket, time of submission in ns, index of the work, and index of its message.
    waiting: BTreeMap<u64, (Ticket, u64, usize, usize)>,
}

struct MachineRoom {
    clock: Arc<WatchdogClock>,
    gantry: Gantry,
    works: Vec<Work>,
    faults: Vec<Faults>,
    guests: Vec<Guest>,
    /// Indices of guests with requests in flight.
    active: BTreeSet<usize>,
    rng: Rng,
    users: u64,
    done: u64,
    /// The longest wait by class, in ns. `rush` has the sum of the waits during rushes, and their number.
    longest: [u64; 3],
    rush: [(u64, u64); 3],
    rushing: bool,
    /// FNV-1a hash of all completions.
    trace: u64,
}

impl MachineRoom {
    fn new(seed: u64) -> Self {
        let (clock, rng) = (Arc::<WatchdogClock>::default(), Rng::new(seed));
        let faults: Vec<Faults> = (1..DEVICES).map(|_| Faults::default()).collect();
        let mut builder = Gantry::builder().clock(clock.clone()).policy(RandomPolicy(Rng::new(seed + 1)));
        for (index, faults) in faults.iter().enumerate() {
            // Cards only: modelled software would use the time of the only thread, and no request would wait for a ring.
            let cards = PROFILES.iter().filter(|profile| !profile.direct);
            let profile = cards.cycle().nth(index).expect("without end");
            let name = format!("{}-{index}", profile.name).into();
            let profile = Profile { name, seed: rng.next(), ..profile.clone() };
            let time = clock.time.clone().into();
            builder = builder.driver(&ModelDriver::with_faults(profile, software(), time, faults.clone()).unwrap());
        }
        let gantry = builder.driver(&SoftwareDriver).build();
        assert_eq!(gantry.devices().len(), DEVICES);
        let guest = |_| {
            let class = Priority::ALL[rng.below(3)];
            let options = QueueOptions {
                class,
                weight: 1 << rng.below(5),
                depth: 4 + rng.below(28),
                coalesce: Duration::from_micros([0, 20, 500][rng.below(3)]),
                ..QueueOptions::default()
            };
            Guest { queue: gantry.queue(options).unwrap(), class, waiting: BTreeMap::new() }
        };
        let guests = (0..QUEUES).map(guest).collect();
        let works = works(&gantry);
        Self {
            clock,
            gantry,
            works,
            faults,
            guests,
            active: BTreeSet::new(),
            rng,
            users: 0,
            done: 0,
            longest: [0; 3],
            rush: [(0, 0); 3],
            rushing: false,
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn submit(&mut self, guest: usize, requests: usize) {
        for _ in 0..requests {
            let work = self.rng.below(self.works.len());
            let message = self.rng.below(self.works[work].answers.len());
            let Work { session, operation, answers } = &self.works[work];
            let submission = operation(&answers[message].0).user(self.users);
            let now = self.clock.now();
            let target = &mut self.guests[guest];
            if let Ok(ticket) = target.queue.submit(session, submission) {
                target.waiting.insert(self.users, (ticket, now, work, message));
            }
            self.users += 1;
        }
        self.active.insert(guest);
    }

    fn inject_fault(&mut self) {
        let device = self.rng.below(self.faults.len());
        let kinds = [Injected::Error, Injected::Stall, Injected::Late, Injected::Full];
        match self.rng.below(6) {
            4 => self.faults[device].set_gone(true),
            5 => self.faults.iter().for_each(|faults| faults.set_gone(false)),
            kind => self.faults[device].inject(kinds[kind], 1 + self.rng.below(3)),
        }
    }

    fn poll(&mut self) {
        for guest in self.active.clone() {
            let mut completions = Vec::new();
            self.guests[guest].queue.complete(|completion| completions.push(completion));
            for completion in completions {
                self.check(guest, &completion);
            }
            assert_eq!(self.guests[guest].queue.in_flight(), self.guests[guest].waiting.len());
            if self.guests[guest].waiting.is_empty() {
                self.active.remove(&guest);
            }
        }
    }

    fn check(&mut self, guest: usize, completion: &Completion) {
        let Completion { ticket, user, result, route, submission } = completion;
        let now = self.clock.now();
        let Guest { class, waiting, .. } = &mut self.guests[guest];
        let (submitted, since, work, message) = waiting.remove(user).expect("one completion for each");
        assert_eq!((submitted, result), (*ticket, &Ok(Outcome::Done)));
        let Work { session, answers, .. } = &self.works[work];
        let expected = &answers[message].1;
        let digest = session.params().algorithm().kind() == gantry_core::Kind::Digest;
        assert!(if digest { submission.tag() } else { submission.data() } == expected, "right bytes");
        let (class, waited) = (*class as usize, now - since);
        assert!(waited < LONGEST, "{class}: {waited} ns");
        self.longest[class] = self.longest[class].max(waited);
        if self.rushing {
            self.rush[class] = (self.rush[class].0 + waited, self.rush[class].1 + 1);
        }
        self.done += 1;
        let device = route.map_or(u64::MAX, |route| route.device as u64);
        for number in [guest as u64, *user, device, now] {
            self.trace = (self.trace ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.clock.now() + seconds * SECOND;
        let mut next_rush = self.clock.now() + 30 * SECOND;
        let mut arrival = self.clock.now();
        while arrival < end {
            self.clock.progress();
            if self.active.is_empty() {
                self.rushing = false;
                self.clock.time.advance_to(arrival);
            } else {
                self.clock.wait(Some(arrival));
            }
            if self.clock.now() >= arrival {
                if arrival >= next_rush {
                    next_rush += 1200 * SECOND;
                    self.rushing = true;
                    (0..QUEUES).for_each(|guest| self.submit(guest, 5));
                } else {
                    let (guest, requests) = (self.rng.below(QUEUES), 1 + self.rng.below(10));
                    self.submit(guest, requests);
                }
                if self.rng.below(50) == 0 {
                    self.inject_fault();
                }
                arrival = self.clock.now() + self.rng.next() % (SECOND / 5);
            }
            self.poll();
        }
        self.end();
    }

    /// Checks that no request is lost, and that all devices return.
    fn end(&mut self) {
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
    let [real_time, normal, bulk] = room.rush.map(mean);
    println!("{} requests; longest waits {:?} ns; in a rush {real_time}, {normal}, {bulk} ns", room.done, room.longest);
    assert!(room.done > 150_000, "{}", room.done);
    assert!(real_time <= normal && normal <= bulk, "urgent requests must wait less: {real_time}, {normal}, {bulk}");
}

#[test]
fn the_same_seed_repeats_the_run() {
    let trace = |seed| {
        let mut room = MachineRoom::new(seed);
        room.run(120);
        (room.trace, room.done)
    };
    assert_eq!(trace(seed()), trace(seed()));
    assert_ne!(trace(seed()), trace(seed() + 1));
}

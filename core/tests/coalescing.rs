//! Synchronous calls of several threads that are batched, where that is asked for.

#![cfg(not(miri))] // threads that sleep; loom looks at these

mod devices;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use devices::{Deed, Script, Scripted};
use gantry::driver::Capability;
use gantry::route::{Ask, BatchSize, BreakEven, Route};
use gantry::stats::Event;
use gantry::{Algorithm, Clock, Gantry, GantryBuilder, Policy, RealClock, SessionParams};

/// Of the requests of these tests; no known answer has this length. Smaller ones than 4 KiB are not coalesced.
const LENGTH: usize = 5000;
/// Longer than it takes on any machine until somebody meets.
const PATIENCE: Duration = Duration::from_mins(1);

/// Thinks that a batch is worth any wait, or none.
#[derive(Debug)]
struct Sociable(u32);

/// Thinks the same, and leaves it to the session whether to wait.
#[derive(Debug)]
struct Indifferent(Sociable);

impl Policy for Indifferent {
    fn name(&self) -> &'static str {
        "indifferent"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        self.0.route(ask)
    }

    fn batch_size(&self, ask: &Ask<'_>, most: usize) -> BatchSize {
        self.0.batch_size(ask, most)
    }
}

impl Policy for Sociable {
    fn name(&self) -> &'static str {
        "sociable"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        BreakEven.route(ask)
    }

    fn batch_size(&self, ask: &Ask<'_>, most: usize) -> BatchSize {
        BatchSize { saving_ns: self.0, ..BreakEven.batch_size(ask, most) }
    }

    fn coalesces(&self) -> bool {
        true
    }
}

/// Threads make requests, each so many and then more for as long as none went with others, with patience: who meets whom is chance. Returns
/// how many went with others.
fn gathered(saving: u32, threads: usize, patience: Duration, deeds: fn(usize) -> Deed) -> u64 {
    let builder = Gantry::builder().policy(Sociable(saving));
    gathered_with(builder, false, threads, patience, deeds)
}

/// The same under any policy, and with sessions that ask for it or do not.
fn gathered_with(
    builder: GantryBuilder,
    asks: bool,
    threads: usize,
    patience: Duration,
    deeds: fn(usize) -> Deed,
) -> u64 {
    const REQUESTS: usize = 10;
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    // Devices that let others run meanwhile, as threads do that lose the CPU.
    let slow = |deeds: fn(usize) -> Deed| {
        move |n| {
            std::thread::sleep(Duration::from_micros(50));
            deeds(n)
        }
    };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") }.doing(slow(deeds)));
    let software = Scripted::new(Script::new("software").doing(slow(|_| Deed::Work)));
    let gantry = builder.driver(&software).driver(&lanes).build();
    let (begin, requests) = (Barrier::new(threads), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (gantry, begin, requests) = (&gantry, &begin, &requests);
            scope.spawn(move || {
                // Each with a session of its own: they gather all the same.
                let session = gantry.session(SessionParams::new(Algorithm::Null, &[]).coalesce(asks)).unwrap();
                let (input, mut data) = (vec![thread as u8; LENGTH], vec![0; LENGTH]);
                let nobody_met = || gantry.stats().events(Event::Coalesced) == 0;
                begin.wait();
                let start = Instant::now();
                let mut made = 0;
                while made < REQUESTS || nobody_met() && start.elapsed() < patience {
                    data.fill(!(thread as u8));
                    session.encrypt(&[], (&input[..], &mut data[..])).unwrap();
                    assert!(data.iter().all(|byte| *byte == thread as u8), "its own data");
                    made += 1;
                }
                requests.fetch_add(made, Ordering::Relaxed);
            });
        }
    });
    let stats = gantry.stats();
    assert_eq!(stats.events(Event::BadTag), 0);
    if stats.events(Event::Fault) == 0 {
        assert_eq!(lanes.served() + software.served(), requests.into_inner(), "each once");
    }
    stats.events(Event::Coalesced)
}

#[test]
fn more_threads_than_cpus_fill_the_lanes_together() {
    let threads = 8 * std::thread::available_parallelism().unwrap().get();
    assert!(gathered(u32::MAX, threads, PATIENCE, |_| Deed::Work) > 0);
}

/// More than there are shards of what is counted, and more than there are CPUs.
fn crowd() -> usize {
    72.max(8 * std::thread::available_parallelism().unwrap().get())
}

#[test]
fn no_call_waits_for_others_where_nobody_has_asked_for_that() {
    for builder in [Gantry::builder(), Gantry::builder().policy(Indifferent(Sociable(u32::MAX)))] {
        assert_eq!(gathered_with(builder, false, crowd(), Duration::ZERO, |_| Deed::Work), 0);
    }
}

#[test]
fn calls_of_a_crowd_meet_where_the_policy_or_the_session_asks_for_that() {
    assert!(gathered(u32::MAX, crowd(), PATIENCE, |_| Deed::Work) > 0);
    let builder = Gantry::builder().policy(Indifferent(Sociable(u32::MAX)));
    assert!(gathered_with(builder, true, crowd(), PATIENCE, |_| Deed::Work) > 0);
}

#[test]
fn nobody_sleeps_where_that_saves_nothing_or_nobody_waits() {
    let threads = 8 * std::thread::available_parallelism().unwrap().get();
    assert_eq!(gathered(0, threads, Duration::ZERO, |_| Deed::Work), 0);
    assert_eq!(gathered(u32::MAX, 1, Duration::ZERO, |_| Deed::Work), 0);
}

/// Real time, and a meter that says what a test wants waiting to cost.
#[derive(Debug, Default)]
struct Metered {
    time: RealClock,
    dear: AtomicBool,
    used: AtomicU64,
}

impl Clock for Metered {
    fn now(&self) -> u64 {
        self.time.now()
    }

    fn wait(&self, until: Option<u64>) {
        self.time.wait(until);
    }

    fn spend(&self, ns: u64) {
        self.time.spend(ns);
    }

    fn cpu(&self) -> Option<u64> {
        let each = if self.dear.load(Ordering::Relaxed) { 1_000_000 } else { 0 };
        Some(self.used.fetch_add(each, Ordering::Relaxed))
    }
}

#[test]
fn where_waiting_has_become_too_dear_nobody_waits_until_it_is_tried_again() {
    /// A little more than a wait is thought to cost at first.
    const SAVING: u32 = 2510;
    /// More than it takes on any machine.
    const MOST: usize = 3_000_000;
    let threads = 8 * std::thread::available_parallelism().unwrap().get();
    let capability = Capability { lanes: 4, break_even: 2, ..Capability::new(Algorithm::Null) };
    let slow = |_| {
        std::thread::sleep(Duration::from_micros(50));
        Deed::Work
    };
    let lanes = Scripted::new(Script { capability, ..Script::new("lanes") }.doing(slow));
    let software = Scripted::new(Script::new("software").doing(slow));
    let clock = Arc::new(Metered::default());
    let builder = Gantry::builder().policy(Sociable(SAVING)).clock(clock.clone());
    let gantry = builder.driver(&software).driver(&lanes).build();
    let done = || lanes.served() + software.served();
    let gathered = || gantry.stats().events(Event::Coalesced);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let session = gantry.session(SessionParams::new(Algorithm::Null, &[])).unwrap();
                let mut data = vec![7; LENGTH];
                while !end.load(Ordering::Relaxed) && done() < MOST {
                    session.encrypt(&[], &mut data).unwrap();
                }
            });
        }
        let until = |what: &str, reached: &dyn Fn() -> bool| {
            while !reached() {
                if done() >= MOST {
                    end.store(true, Ordering::Relaxed);
                    panic!("{what}");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        until("nobody ever gathers", &|| gathered() > 0);
        clock.dear.store(true, Ordering::Relaxed);
        let quiet = Cell::new((0, 0));
        until("waits go on that cost more than they save", &|| {
            let (count, since) = quiet.get();
            if gathered() != count {
                quiet.set((gathered(), done()));
            }
            gathered() == count && done() > since + 50 * threads
        });
        clock.dear.store(false, Ordering::Relaxed);
        let before = gathered();
        until("it is never tried again", &|| gathered() > before);
        end.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_was_taken_along_by_a_device_that_failed_is_done_elsewhere() {
    let threads = 8 * std::thread::available_parallelism().unwrap().get();
    gathered(u32::MAX, threads, Duration::ZERO, |n| if n == 20 { Deed::Lose } else { Deed::Work });
    gathered(u32::MAX, threads, Duration::ZERO, |n| if n == 20 { Deed::Panic } else { Deed::Work });
}

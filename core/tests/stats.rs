//! Core's counters: every event counts exactly once.

mod devices;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use devices::{Action, Script, Scripted, session};
use gantry_core::driver::Capability;
use gantry_core::route::{Failover, Reason};
use gantry_core::stats::{COLUMNS, Column, Event, Labels, Meaning, Memory, Snapshot, Stage, Tally, uncounted};
use gantry_core::{
    Algorithm, Clock, Gantry, GantryBuilder, Operation, QueueOptions, Request, Session, SessionParams, Submission,
    VirtualClock,
};

/// Length of these tests' requests; no known answer has this length.
const LENGTH: usize = 5;

/// Uses a virtual clock, so that on a slow machine no deadline passes and no quarantine ends.
fn with(drivers: &[&Scripted]) -> GantryBuilder {
    let builder = Gantry::builder().clock(Arc::new(VirtualClock::default()));
    drivers.iter().fold(builder, |builder, driver| builder.driver(*driver))
}

fn run_one(session: &Session) {
    session.encrypt(&[], &mut [0; LENGTH]).unwrap();
}

fn run_batch(session: &Session, count: usize) {
    let mut data = vec![[0; LENGTH]; count];
    let mut requests: Vec<Request<'_>> = data.iter_mut().map(|data| Request::encrypt(&[], data)).collect();
    session.process(&mut requests).unwrap();
}

/// Returns the requests and bytes of a device.
fn served(snapshot: &Snapshot, device: &str) -> (u64, u64) {
    let rows = snapshot.rows.iter().filter(|row| row.device.as_ref().is_some_and(|(name, _)| name == device));
    rows.fold((0, 0), |(requests, bytes), row| (requests + row.requests(), bytes + row.bytes))
}

#[test]
#[cfg_attr(miri, ignore = "80 threads: minutes")]
fn counts_of_many_threads_are_exact() {
    // More threads than slots, so that several threads share one. Later rounds reuse slots.
    const THREADS: usize = 80;
    let (rounds, singles, batch) = (3, 300, 7);
    let gantry = with(&[&Scripted::new(Script::new("device"))]).build();
    let session = session(&gantry);
    for round in 1..=rounds {
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..singles {
                        run_one(&session);
                    }
                    run_batch(&session, batch);
                });
            }
        });
        let snapshot = gantry.stats();
        let requests = (round * THREADS * (singles + batch)) as u64;
        assert_eq!(served(&snapshot, "device"), (requests, requests * LENGTH as u64));
        let [row] = &snapshot.rows[..] else { panic!("one device, one operation: {:?}", snapshot.rows) };
        assert_eq!((row.algorithm, row.operation), (Algorithm::Null, Operation::Encrypt));
        assert_eq!(row.requests_with_reason(Reason::OnlyChoice), requests);
        assert_eq!((row.batches, row.batched), ((round * THREADS) as u64, (round * THREADS * batch) as u64));
    }
}

#[test]
fn uncounted_requests_count_only_their_faults() {
    let gantry = with(&[&Scripted::new(Script::new("device"))]).build();
    let session = session(&gantry);
    run_one(&session);
    uncounted(|| {
        run_one(&session);
        run_batch(&session, 7);
        uncounted(|| run_one(&session));
        run_one(&session);
    });
    run_one(&session);
    assert_eq!(served(&gantry.stats(), "device"), (2, 2 * LENGTH as u64));
    // A second device runs the failed request.
    let bad = Scripted::new(Script::new("bad").with_actions(|_| Action::Fail));
    let good = Scripted::new(Script::new("good"));
    let gantry = with(&[&bad, &good]).policy(Failover { order: vec!["bad".into(), "good".into()] }).build();
    let session = devices::session(&gantry);
    uncounted(|| run_one(&session));
    let snapshot = gantry.stats();
    assert_eq!((served(&snapshot, "bad").0, served(&snapshot, "good").0), (0, 0));
    assert_eq!(snapshot.rows.iter().map(|row| row.events(Event::Fault)).sum::<u64>(), 1);
}

#[test]
fn snapshots_under_load_are_monotonic_and_never_too_high() {
    let gantry = with(&[&Scripted::new(Script::new("device"))]).build();
    let session = session(&gantry);
    let end = AtomicBool::new(false);
    let total: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = 0;
                    while !end.load(Ordering::Relaxed) {
                        run_one(&session);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let mut last = gantry.stats();
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let now = gantry.stats();
            assert!(now.requests() >= last.requests());
            assert_eq!(now.since(&last).requests(), now.requests() - last.requests());
            last = now;
        }
        end.store(true, Ordering::Relaxed);
        let total = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        assert!(last.requests() <= total);
        total
    });
    assert_eq!(gantry.stats().requests(), total);
}

#[test]
fn faults_quarantines_and_retries_are_counted() {
    for ring in [None, Some(2)] {
        let synchronous = ring.is_none();
        let capability = Capability { synchronous, ..Capability::new(Algorithm::Null) };
        let bad = Scripted::new(
            Script { capability, ring, ..Script::new("bad") }
                .with_actions(|n| if n == 2 { Action::Fail } else { Action::Work }),
        );
        let good = Scripted::new(Script::new("good"));
        let gantry = with(&[&bad, &good]).policy(Failover { order: vec!["bad".into(), "good".into()] }).build();
        let session = session(&gantry);
        let before = gantry.stats();
        for _ in 0..5 {
            run_one(&session);
        }
        let snapshot = gantry.stats().since(&before);
        assert_eq!(served(&snapshot, "bad").0, 3);
        assert_eq!(served(&snapshot, "good").0, 3);
        for row in &snapshot.rows {
            let (name, _) = row.device.as_ref().unwrap();
            let counts = [Event::Fault, Event::Quarantined, Event::Retried].map(|event| row.events(event));
            assert_eq!(counts, if name == "bad" { [1, 1, 0] } else { [0, 0, 1] }, "{name}");
        }

        // Now in a batch.
        let bad = Scripted::new(Script { ring, ..Script::new("bad") }.with_actions(|n| match n {
            2 | 4 => Action::Lose,
            5 => Action::Refuse,
            _ => Action::Work,
        }));
        let gantry = with(&[&bad, &good]).policy(Failover { order: vec!["bad".into(), "good".into()] }).build();
        run_batch(&self::session(&gantry), 10);
        let snapshot = gantry.stats();
        let counts =
            [Event::Fault, Event::Quarantined, Event::Retried, Event::Declined, Event::BadTag, Event::BadLength];
        let counts = counts.map(|event| snapshot.events(event));
        if synchronous {
            assert_eq!((served(&snapshot, "bad").0, served(&snapshot, "good").0), (10, 2));
            assert_eq!(counts, [2, 1, 2, 0, 1, 0]);
        } else {
            // Requests that were not in the ring yet are declined, and run elsewhere.
            assert_eq!((served(&snapshot, "bad").0, served(&snapshot, "good").0), (10, counts[2] + counts[3]));
            assert!(counts[0] == counts[2] && counts[1] == 1 && counts[3] > 0, "{counts:?}");
        }
    }
}

#[test]
fn outcomes_known_to_core_count_without_a_device() {
    let mut capability = Capability::new(Algorithm::Aes128Ecb);
    capability.in_place = false;
    let gantry = with(&[&Scripted::new(Script { capability, ..Script::new("device") })]).build();
    let session = gantry.session(SessionParams::new(Algorithm::Aes128Ecb, &[0; 16])).unwrap();
    assert!(session.encrypt(&[], &mut [0; 17]).is_err());
    let (input, mut output) = ([0; 17], [0; 17]);
    let mut requests = [Request::encrypt(&[], (&input[..], &mut output[..]))];
    session.process(&mut requests).unwrap();
    assert_eq!(requests[0].route(), None, "no device got the request");
    let snapshot = gantry.stats();
    assert_eq!(snapshot.requests(), 0);
    let [row] = &snapshot.rows[..] else { panic!("{:?}", snapshot.rows) };
    assert_eq!((row.device.as_ref(), row.events(Event::BadLength)), (None, 2));
}

#[test]
#[cfg_attr(miri, ignore = "20,000 requests")]
fn sampled_times_represent_all_requests() {
    let clock = Arc::new(VirtualClock::default());
    let device = Script::new("device").with_actions({
        let clock = clock.clone();
        move |n| {
            clock.spend(if n % 10 == 9 { 50_000 } else { 1000 });
            Action::Work
        }
    });
    let gantry = with(&[&Scripted::new(device)]).clock(clock).build();
    let session = session(&gantry);
    for _ in 0..20_000 {
        run_one(&session);
    }
    let invoke = gantry.stats().stage("device", Stage::Invoke);
    assert!((19_300..=20_000).contains(&invoke.requests()), "{}", invoke.requests());
    assert!(invoke.quantile(500).abs_diff(1000) < 32, "{}", invoke.quantile(500));
    assert!(invoke.quantile(990).abs_diff(50_000) < 1600, "{}", invoke.quantile(990));
    assert_eq!(invoke.max_ns(), 50_000);
    assert_eq!(gantry.stats().stage("device", Stage::Dispatch).max_ns(), 0, "dispatch took no time");
}

#[test]
fn counting_can_be_turned_off() {
    let gantry = with(&[&Scripted::new(Script::new("device"))]).counting(false).build();
    run_one(&session(&gantry));
    run_batch(&session(&gantry), 3);
    assert_eq!(gantry.stats().rows.len(), 0);
}

#[test]
fn counters_survive_a_change_of_policy() {
    let gantry = with(&[&Scripted::new(Script::new("device"))]).build();
    run_one(&session(&gantry));
    let other = gantry.with_policy(Failover { order: vec!["device".into()] });
    run_one(&session(&other));
    let rows = gantry.stats().rows;
    assert_eq!(
        (rows[0].requests_with_reason(Reason::OnlyChoice), rows[0].requests_with_reason(Reason::FirstInOrder)),
        (1, 1)
    );
}

#[test]
#[cfg_attr(miri, ignore = "10,000 requests")]
fn snapshots_are_published_periodically_and_at_the_end() {
    let clock = Arc::new(VirtualClock::default());
    let published = Arc::new(Mutex::new(Vec::new()));
    let device = Script::new("device").with_actions({
        let clock = clock.clone();
        move |_| {
            clock.spend(1_000_000);
            Action::Work
        }
    });
    let to = published.clone();
    let gantry = with(&[&Scripted::new(device)])
        .clock(clock)
        .publish(Duration::from_secs(1), move |snapshot| to.lock().unwrap().push((snapshot.at, snapshot.requests())))
        .build();
    let session = session(&gantry);
    drop(gantry);
    for _ in 0..10_010 {
        run_one(&session);
    }
    let before_the_end = published.lock().unwrap().clone();
    assert!((9..=11).contains(&before_the_end.len()), "ten seconds passed: {before_the_end:?}");
    let at: Vec<u64> = before_the_end.iter().map(|(at, _)| *at).collect();
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 1_000_000_000), "{at:?}");
    drop(session);
    let published = published.lock().unwrap();
    assert_eq!(published.len(), before_the_end.len() + 1);
    assert_eq!(published.last().unwrap().1, 10_010);
}

#[test]
fn events_of_queues_are_counted() {
    let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
    let gantry =
        with(&[&Scripted::new(Script { capability, ring: Some(2), shared: true, ..Script::new("ring") })]).build();
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions { depth: 4, ..QueueOptions::default() }).unwrap();
    let submission = || Submission::encrypt(&[], vec![0; LENGTH]);
    let tickets: Vec<_> = (0..4).map(|_| queue.submit(&session, submission()).unwrap()).collect();
    queue.submit(&session, submission()).unwrap_err();
    assert!(queue.cancel(tickets[3]).is_some());
    queue.flush();
    while queue.in_flight() > 0 {
        queue.wait(|_| ());
    }
    let snapshot = gantry.stats();
    let counts = [Event::Rejected, Event::Cancelled].map(|event| snapshot.events(event));
    assert_eq!(counts, [1, 1]);
    let rows = snapshot.rows.iter().map(|row| (row.device.is_some(), row.requests(), row.events(Event::Full)));
    let [(false, 0, 0), (true, requests, full)] = rows.collect::<Vec<_>>()[..] else { panic!("{:?}", snapshot.rows) };
    // The cancelled request may have waited for room, too.
    assert!((3..=4).contains(&requests) && full == requests - 2, "{requests} requests, {full} of which waited");
}

#[test]
#[cfg_attr(miri, ignore = "200 requests")]
fn all_four_stages_of_a_request_in_a_queue_are_timed() {
    let clock = Arc::new(VirtualClock::default());
    clock.advance_to(1);
    let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
    let script = Script { capability, ring: Some(1), ..Script::new("ring") };
    let gantry = with(&[&Scripted::new(script)]).clock(clock.clone()).build();
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for _ in 0..200 {
        queue.submit(&session, Submission::encrypt(&[], vec![0; LENGTH])).unwrap();
        queue.flush();
        clock.spend(700);
        assert_eq!(queue.wait(|_| clock.spend(30)), 1);
    }
    let time = |stage| {
        let times = gantry.stats().stage("ring", stage);
        (times.requests(), times.quantile(500))
    };
    assert_eq!(
        time(Stage::Invoke),
        (200, 687),
        "every request on a ring is timed; 687 is the middle of the bucket of 700"
    );
    assert_eq!(time(Stage::Callback), (256, 30), "four requests were timed");
    assert_eq!(time(Stage::Done), (256, 0), "the call that found the requests completed them");
    assert_eq!(time(Stage::Dispatch).1, 0);
}

#[test]
fn waiting_for_room_does_not_count_as_time_in_the_device() {
    let clock = Arc::new(VirtualClock::default());
    clock.advance_to(1);
    let capability = Capability { synchronous: false, ..Capability::new(Algorithm::Null) };
    let script = Script { capability, ring: Some(1), ..Script::new("ring") };
    let gantry = with(&[&Scripted::new(script)]).clock(clock.clone()).build();
    let session = session(&gantry);
    let mut queue = gantry.queue(QueueOptions::default()).unwrap();
    for _ in 0..20 {
        queue.submit(&session, Submission::encrypt(&[], vec![0; LENGTH])).unwrap();
    }
    queue.flush();
    while queue.in_flight() > 0 {
        clock.spend(700);
        queue.wait(|_| {});
    }
    let times = gantry.stats().stage("ring", Stage::Invoke);
    assert_eq!(times.requests(), 20);
    assert!(times.quantile(999) <= 700, "not 10,000 for the last: {}", times.quantile(999));
}

/// Memory for `room` rows, and the rows in use.
struct ReadableMemory {
    room: usize,
    rows: Mutex<Vec<(String, &'static [AtomicU64])>>,
}

impl ReadableMemory {
    fn with_room(room: usize) -> &'static Self {
        // Keeps a reference where leak checkers find it.
        static ALL: Mutex<Vec<&ReadableMemory>> = Mutex::new(Vec::new());
        let shown = Box::leak(Box::new(Self { room, rows: Mutex::default() }));
        ALL.lock().unwrap().push(shown);
        shown
    }

    /// Returns the sum of a column over all rows with these labels.
    fn sum(&self, labels: &str, column: usize) -> u64 {
        let rows = self.rows.lock().unwrap();
        rows.iter().filter(|(row, _)| row == labels).map(|(_, numbers)| numbers[column].load(Ordering::Relaxed)).sum()
    }
}

impl Memory for ReadableMemory {
    fn take(&self, labels: Labels<'_>, count: usize) -> Option<&'static [AtomicU64]> {
        let mut rows = self.rows.lock().unwrap();
        let Labels { device, algorithm, operation, .. } = labels;
        let numbers = match labels.meaning {
            Meaning::Counts => "counts",
            Meaning::Times(stage) => stage.code(),
            Meaning::Tally => "tally",
            _ => return None,
        };
        (rows.len() < self.room).then(|| {
            let zeros: &[AtomicU64] = Box::leak((0..count).map(|_| AtomicU64::new(0)).collect());
            rows.push((format!("{device} {algorithm} {operation} {numbers}"), zeros));
            zeros
        })
    }
}

#[test]
fn counters_are_in_the_given_memory() {
    let column = |wanted| COLUMNS.iter().position(|column| *column == wanted).unwrap();
    // Room for the counts and two histograms, for the counts only, or for nothing.
    for room in [3, 1, 0] {
        let shown = ReadableMemory::with_room(room);
        let device = Scripted::new(Script::new("device"));
        let gantry = with(&[&device]).stats_memory(shown).build();
        let session = session(&gantry);
        for _ in 0..10 {
            run_one(&session);
        }
        let seen = if room > 0 { (10, 10 * LENGTH as u64) } else { (0, 0) };
        let labels = "device null encrypt counts";
        let requests = COLUMNS.iter().enumerate().filter(|(_, column)| matches!(column, Column::Requests(_)));
        let requests = requests.map(|(index, _)| shown.sum(labels, index)).sum::<u64>();
        assert_eq!((requests, shown.sum(labels, column(Column::Bytes))), seen, "{:?}", shown.rows.lock().unwrap());
        assert_eq!(served(&gantry.stats(), "device"), (10, 10 * LENGTH as u64), "rows without room still count");
    }
}

#[test]
fn a_tally_counts_without_a_framework() {
    let shown = ReadableMemory::with_room(usize::MAX);
    let tally = Tally::new("host", [("sha256", "digest"), ("aes-128-gcm", "seal")], Some(shown));
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| (0..10).for_each(|bytes| tally.count(1, 1, bytes)));
        }
    });
    tally.count(2, 1, 1); // no such row
    uncounted(|| tally.count(0, 1, 1));
    let labels = "host aes-128-gcm seal tally";
    assert_eq!([0, 1].map(|column| shown.sum(labels, column)), [1000, 4500]);
    assert_eq!(shown.sum("host sha256 digest tally", 0), 0);
}

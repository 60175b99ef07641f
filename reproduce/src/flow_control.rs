//! 28 threads on one card: the paper's test of full rings.

use std::sync::Arc;
use std::time::Duration;

use gantry_core::{Algorithm, Clock, Gantry, Outcome, Queue, QueueOptions, SessionParams, Submission, VirtualClock};
use gantry_runtime::model::Profile;

use crate::report::{Result, Row, format_deviation, make_model};
use crate::table::Table;

const THREADS: usize = 28;
const CARD: &str = "hifn7951";
const BYTES: usize = 1024;
const REQUESTS: u64 = 5_000;
/// CPU time between two requests of a thread, in nanoseconds. All threads share one CPU: see [`cards`](crate::cards).
const CPU_NS_BETWEEN_REQUESTS: u64 = 13_800;

/// The paper's share of requests that had to be restarted because the rings were full, in percent.
const PUBLISHED_RESTARTED_PERCENT: f64 = 51.0;

pub(crate) fn run(report_rows: &mut Vec<Row>) -> Result<String> {
    let SimulationResult { full_percent, lost_requests, wrong_results, rate } = simulate()?;
    let profile = Profile::named(CARD).expect("the cards of the paper are built in");
    let des = profile.rates.iter().find(|rate| rate.algorithm == Algorithm::DesEde3Cbc).expect("it has 3DES");
    let peak = 1e9 / (des.setup_ns as f64 + BYTES as f64 * 8000.0 / des.megabits as f64);
    let rows = [
        ("requests that found the ring full", "%", Some(PUBLISHED_RESTARTED_PERCENT), full_percent, Some(40.0), None),
        ("requests lost or failed", "requests", Some(0.0), lost_requests, None, Some(0.0)),
        ("wrong results", "requests", None, wrong_results, None, Some(0.0)),
        ("of the card's peak", "%", None, 100.0 * rate / peak, Some(97.0), None),
    ];
    let mut text = format!(
        "{THREADS} threads on one {CARD} with a ring of {}: {REQUESTS} requests of 3DES with {BYTES} bytes, each thread with\n\
         one at a time. Simulated.\n\n",
        profile.ring
    );
    let mut table = Table::new(&["", "2003", "OURS", "DEVIATION", "PROMISED"], 1);
    for (case, unit, published, ours, at_least, at_most) in rows {
        let promised = at_least.map(|least| format!("at least {least:.0}")).or(at_most.map(|_| "none".to_owned()));
        table.push_row([
            format!("{case} ({unit})"),
            published.map_or_else(String::new, |published| format!("{published:.0}")),
            format!("{ours:.1}"),
            published
                .filter(|published| *published != 0.0)
                .map_or_else(String::new, |published| format_deviation(published, ours)),
            promised.unwrap_or_default(),
        ]);
        report_rows
            .push(Row::new("flow control", case.to_owned(), unit, published, ours).with_bounds(at_least, at_most));
    }
    text += &table.render();
    Ok(text)
}

struct SimulationResult {
    /// Requests that found the ring full, in percent of all requests.
    full_percent: f64,
    lost_requests: f64,
    wrong_results: f64,
    /// Requests per second.
    rate: f64,
}

/// Simulates all threads in a single thread, in turn: in virtual time, the order of execution is part of the model.
fn simulate() -> Result<SimulationResult> {
    let clock = Arc::new(VirtualClock::default());
    let profile = Profile::named(CARD).expect("the cards of the paper are built in");
    let driver = make_model(profile, &clock)?;
    let gantry = Gantry::builder().driver(&driver).clock(clock.clone()).build();
    let key: Vec<u8> = (1..=24).map(|byte| byte * 8).collect();
    let session = gantry.session(SessionParams::new(Algorithm::DesEde3Cbc, &key))?;
    let mut expected = vec![0x5a; BYTES];
    session.encrypt(&[7; 8], &mut expected)?;

    let options = || QueueOptions { depth: 1, coalesce: Duration::ZERO, ..QueueOptions::default() };
    let mut queues = (0..THREADS).map(|_| gantry.queue(options())).collect::<Result<Vec<Queue>, _>>()?;
    let (mut submitted, mut done, mut correct, mut full) = (0, 0, 0, 0_u64);
    let start = clock.now();
    while done < REQUESTS {
        let before = (submitted, done);
        for queue in &mut queues {
            if queue.in_flight() == 0 && submitted < REQUESTS {
                clock.spend(CPU_NS_BETWEEN_REQUESTS);
                let accepted_before = driver.meter().requests;
                if let Err(rejected) = queue.submit(&session, Submission::encrypt(&[7; 8], vec![0x5a; BYTES])) {
                    return Err(rejected.why.to_string().into());
                }
                submitted += 1;
                full += u64::from(driver.meter().requests == accepted_before);
            }
            queue.complete(|completion| {
                done += 1;
                let fine = completion.result == Ok(Outcome::Done);
                correct += u64::from(fine && completion.submission.data() == expected);
            });
        }
        if before == (submitted, done) {
            if queues.iter().all(|queue| queue.in_flight() == 0) {
                break; // the rest is lost
            }
            clock.wait(None);
        }
    }
    let seconds = (clock.now() - start) as f64 / 1e9;
    Ok(SimulationResult {
        full_percent: 100.0 * full as f64 / submitted as f64,
        lost_requests: (REQUESTS - done) as f64,
        wrong_results: (done - correct) as f64,
        rate: done as f64 / seconds,
    })
}

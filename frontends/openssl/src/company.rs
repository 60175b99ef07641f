//! What messages of several threads gain that meet: the host's digests alone, and those of threads that may be hashed together.

use std::thread::{Builder, available_parallelism, scope};
use std::time::{Duration, Instant};

use gantry::stats::uncounted;
use gantry::{Beginning, Gantry, Session};

use crate::boundary::HostDigests;

/// What was measured.
pub(crate) struct Company {
    /// Threads at work.
    pub(crate) threads: usize,
    /// Bytes of a message, which is one piece.
    pub(crate) bytes: usize,
    /// A message's time of the CPU with the host alone, and where threads may meet, in nanoseconds: the medians.
    pub(crate) host: f64,
    pub(crate) together: f64,
    /// By what it is faster to meet: the median of the rounds.
    pub(crate) gain: f64,
    /// The distance between the best round and the worst, as a part of it.
    pub(crate) spread: f64,
}

/// Threads meet where several of them share a CPU, as many as there are lanes at best.
const THREADS_PER_CPU: usize = 8;
/// With more CPUs nothing is measured: that would be hundreds of threads.
const MOST_CPUS: usize = 16;
/// Files are read in pieces like this.
const BYTES: usize = 64 << 10;
/// For so long all threads are at work for one side: ten of the stretches in which they find out whether company pays.
const BLOCK: Duration = Duration::from_millis(250);
const ROUNDS: usize = 3;
/// The part of the CPUs that the threads must have had. Threads that let others run lose the CPU to other programs, and soon meet no more:
/// beside those, nothing is known about a machine of their own.
const ALONE: f64 = 0.8;

/// Measures messages of the session's digest; `None` where threads cannot meet, where nobody knows their times, and where other programs
/// have the CPUs.
pub(crate) fn measure(gantry: &Gantry, session: &Session, host: &HostDigests) -> Option<Company> {
    let cpus = available_parallelism().map_or(1, usize::from);
    let threads = (cpus <= MOST_CPUS).then_some(THREADS_PER_CPU * cpus)?;
    let all_cpus = f64::from(u32::try_from(cpus).ok()?);
    let clock = gantry.clock();
    let message = vec![0x5A; BYTES];
    // The time of the CPU that a message takes.
    let block = |meets: bool| {
        let began = Instant::now();
        let end = began + BLOCK;
        let work = || {
            let mut digest = vec![0; session.params().tag_length()];
            let (begun, mut messages) = (clock.cpu()?, 0_u32);
            while messages == 0 || Instant::now() < end {
                match meets.then(|| session.begin(&message)) {
                    Some(Beginning::Together(mut stream)) => stream.finish(&mut digest).ok()?,
                    // Whoever is there counts until the message is done.
                    _alone => host.run(&message).map(drop)?,
                }
                messages += 1;
            }
            Some((f64::from(messages), clock.cpu()?.saturating_sub(begun)))
        };
        let all: Option<Vec<_>> = scope(|scope| {
            let begin = |_| Builder::new().spawn_scoped(scope, || uncounted(work)).ok();
            let begun: Vec<_> = (0..threads).map(begin).collect();
            begun.into_iter().map(|thread| thread?.join().ok()?).collect()
        });
        let (messages, ns) = all?.iter().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let seconds = Duration::from_nanos(ns).as_secs_f64();
        (seconds >= ALONE * all_cpus * began.elapsed().as_secs_f64()).then_some(seconds * 1e9 / messages)
    };
    // Known answers, and what the threads have to find out.
    for _ in 0..2 {
        block(true)?;
    }
    let mut rounds: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        let first = block(round % 2 == 1)?;
        let second = block(round % 2 == 0)?;
        let (host, together) = if round % 2 == 0 { (first, second) } else { (second, first) };
        [host, together, host / together].into_iter().zip(&mut rounds).for_each(|(one, all)| all.push(one));
    }
    let rounds = rounds.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all
    });
    let [host, together, gain] = rounds.each_ref().map(|all| all[ROUNDS / 2]);
    let spread = (rounds[2][ROUNDS - 1] - rounds[2][0]) / gain;
    Some(Company { threads, bytes: BYTES, host, together, gain, spread })
}

//! Messages in pieces, of more threads than there are CPUs: their pieces meet, and each thread has its own digest or an error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use gantry::driver::{Batch, Completions, Device, DeviceInfo, DeviceSession, Driver, Found, QueuePair};
use gantry::route::{Ask, BatchSize, BreakEven, Route};
use gantry::stats::Event;
use gantry::{Algorithm, Beginning, Fault, Gantry, Policy, Refusal, SessionParams};
use gantry_driver_lanes::{LanesDriver, Level};
use gantry_driver_software::SoftwareDriver;

/// Messages of each thread, and pieces of a message.
const MESSAGES: usize = 8;
const PIECE: usize = 5000;
/// Longer than it takes on any machine until somebody meets.
const PATIENCE: Duration = Duration::from_mins(1);

/// Thinks that company is worth any wait.
#[derive(Debug)]
struct Sociable;

impl Policy for Sociable {
    fn name(&self) -> &'static str {
        "sociable"
    }

    fn route(&self, ask: &Ask<'_>) -> Option<Route> {
        BreakEven.route(ask)
    }

    fn batch_size(&self, ask: &Ask<'_>, most: usize) -> BatchSize {
        let BatchSize { requests, .. } = BreakEven.batch_size(ask, most);
        BatchSize { requests: requests.min(3), saving_ns: u32::MAX }
    }

    fn coalesces(&self) -> bool {
        true
    }
}

/// The lanes; of the pieces that meet, counted over all its queues, one is lost.
#[derive(Clone)]
struct Losing {
    lanes: Arc<dyn Device>,
    lost: usize,
    met: Arc<AtomicUsize>,
}

impl Losing {
    fn new(lost: usize) -> Self {
        let found = LanesDriver::new(Level::detect_at_most(None)).discover().pop();
        let Some(Found::Device(lanes)) = found else { panic!("there are always lanes") };
        Self { lanes, lost, met: Arc::default() }
    }
}

impl Driver for Losing {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn discover(&self) -> Vec<Found> {
        vec![Found::Device(Arc::new(self.clone()))]
    }
}

impl Device for Losing {
    fn info(&self) -> &DeviceInfo {
        self.lanes.info()
    }

    fn open(&self, params: &SessionParams) -> Result<Arc<dyn DeviceSession>, Refusal> {
        self.lanes.open(params)
    }

    fn attach(&self) -> Result<Option<Box<dyn QueuePair>>, Fault> {
        let lanes = self.lanes.attach()?;
        Ok(lanes.map(|lanes| Box::new(Queue { lanes, device: self.clone() }) as Box<dyn QueuePair>))
    }
}

struct Queue {
    lanes: Box<dyn QueuePair>,
    device: Losing,
}

impl QueuePair for Queue {
    fn submit(&mut self, batch: &mut Batch<'_>) {
        let Losing { lost, met, .. } = &self.device;
        // Known-answer tests are run one request at a time, or are over before threads come.
        let before = met.fetch_add(batch.len(), Ordering::SeqCst);
        if (before..before + batch.len()).contains(lost)
            && let Some(job) = batch.take()
        {
            batch.complete(job, Err(Fault::Lost));
        }
        self.lanes.submit(batch);
    }

    fn poll(&mut self, done: &mut Completions<'_>) -> usize {
        self.lanes.poll(done)
    }
}

/// How many pieces went with others, and how many messages ended with an error. Each thread has `MESSAGES`, and then more for as long as
/// nobody met, with patience: who meets whom is chance.
fn meet(lost: usize, wait: Duration, patience: Duration) -> (u64, usize) {
    let threads = 8 * std::thread::available_parallelism().unwrap().get();
    let builder = Gantry::builder().policy(Sociable).coalesce_for(wait);
    let gantry = builder.driver(&SoftwareDriver).driver(&Losing::new(lost)).build();
    let (begin, failed) = (Barrier::new(threads), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (gantry, begin, failed) = (&gantry, &begin, &failed);
            scope.spawn(move || {
                // Two algorithms: each has a coalescer of its own.
                let algorithm = [Algorithm::Sha256, Algorithm::Sha1][thread % 2];
                let session = gantry.session(SessionParams::new(algorithm, &[])).unwrap();
                let software = gantry.with_policy(BreakEven).session(SessionParams::new(algorithm, &[])).unwrap();
                let message: Vec<u8> = (0..3 * PIECE + thread).map(|at| (at * 7 + thread) as u8).collect();
                let size = algorithm.info().tag.max;
                let (mut expected, mut digest) = ([0; 64], [0; 64]);
                software.digest(&message, &mut expected[..size]).unwrap();
                let gathered = || gantry.stats().events(Event::Coalesced);
                begin.wait();
                let start = Instant::now();
                for sent in 0.. {
                    if sent >= MESSAGES && (gathered() > 0 || start.elapsed() >= patience) {
                        break;
                    }
                    digest.fill(0);
                    let mut pieces = message.chunks(PIECE);
                    let mut stream = match session.begin(pieces.next().unwrap()) {
                        Beginning::Together(stream) => stream,
                        Beginning::Alone(_presence) => {
                            // Whoever does it lets other threads run meanwhile, as one does that loses the CPU.
                            std::thread::sleep(Duration::from_micros(50));
                            continue;
                        }
                    };
                    let rest: gantry::Result<()> = pieces.try_for_each(|piece| stream.update_coalesced(piece));
                    if rest.and_then(|()| stream.finish(&mut digest[..size])).is_ok() {
                        assert_eq!(digest, expected, "{algorithm} of thread {thread}");
                    } else {
                        failed.fetch_add(1, Ordering::Relaxed);
                        assert!(stream.finish(&mut digest[..size]).is_err(), "a piece is missing for ever");
                    }
                }
            });
        }
    });
    (gantry.stats().events(Event::Coalesced), failed.into_inner())
}

#[test]
fn pieces_of_messages_meet_and_each_thread_has_its_own_digest() {
    let (gathered, failed) = meet(usize::MAX, Duration::from_millis(1), PATIENCE);
    assert!(gathered > 0, "nobody met");
    assert_eq!(failed, 0);
}

#[test]
fn a_message_of_which_a_piece_was_lost_fails_and_is_never_wrong() {
    for lost in [3, 40, 41, 42, 100] {
        let (_, failed) = meet(lost, Duration::from_millis(1), Duration::ZERO);
        assert!(failed <= 1, "one was lost");
    }
}

#[test]
fn nobody_waits_where_no_time_is_allowed() {
    assert_eq!(meet(usize::MAX, Duration::ZERO, Duration::ZERO), (0, 0));
}

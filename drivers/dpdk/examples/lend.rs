//! Finds the size from which lending a region's memory to a device pays, for benches/dpdk/lend:
//!
//!     lend SHIM VDEV cbc|gcm|sha256 BYTES...
//!
//! Prints a row per size: the bytes, the nanoseconds per request with the data copied, and the nanoseconds with the data used
//! in place. Requests go through a queue in bursts of 32. Each time is the best of many alternating rounds. Input and output
//! are different regions.

use std::time::{Duration, Instant};

use gantry_core::route::Pin;
use gantry_core::{
    Algorithm, Gantry, Outcome, Queue, QueueOptions, Region, Segment, Session, SessionParams, Submission,
};
use gantry_driver_dpdk::{DpdkDriver, Options};

const BURST: usize = 32;
const ROUNDS: usize = 400;

struct Setup {
    session: Session,
    queue: Queue,
    pieces: Vec<(Segment, Segment)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, shim, vdev, algorithm, sizes @ ..] = &arguments[..] else {
        panic!("lend SHIM VDEV cbc|gcm|sha256 BYTES...")
    };
    let open = |name: &str, lend_from| {
        let vdev = format!("{vdev}_{name}");
        let options = Options { devices: vec![vdev.clone()], shim: Some(shim.into()), lend_from, ..Options::default() };
        let driver = DpdkDriver::new(options);
        let gantry = Gantry::builder().driver(&driver).policy(Pin { device: format!("dpdk:{vdev}") }).build();
        let params = match algorithm.as_str() {
            "cbc" => SessionParams::new(Algorithm::Aes128Cbc, &[1; 16]),
            "gcm" => SessionParams::new(Algorithm::Aes128Gcm, &[1; 16]),
            _ => SessionParams::new(Algorithm::Sha256, &[]),
        };
        let session = gantry.session(params).expect("the device has the algorithm");
        let queue = gantry.queue(QueueOptions { coalesce: Duration::ZERO, ..QueueOptions::default() });
        (session, queue.expect("there are queues"))
    };
    let mut setups = [open("copy", usize::MAX), open("lend", 0)].map(|(session, queue)| {
        let pieces = (0..BURST).map(|_| {
            let [input, output] = [0, 1].map(|_| Region::owned(vec![5; 16384].into()).segment(0, 16384));
            (input.expect("all of it"), output.expect("all of it"))
        });
        Setup { session, queue, pieces: pieces.collect() }
    });
    for size in sizes {
        let bytes: usize = size.parse().expect("a number of bytes");
        let mut fastest = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            for (setup, fastest) in setups.iter_mut().zip(&mut fastest) {
                *fastest = fastest.min(measure_round(setup, algorithm, bytes));
            }
        }
        println!("{bytes} {:.2} {:.2}", fastest[0], fastest[1]);
    }
}

/// Returns the nanoseconds per request.
fn measure_round(setup: &mut Setup, algorithm: &str, bytes: usize) -> f64 {
    let bursts = 1 + 200_000 / (BURST * (200 + bytes));
    let start = Instant::now();
    for _ in 0..bursts {
        for (input, output) in &setup.pieces {
            let input = input.region().segment(0, bytes).expect("within");
            let submission = match algorithm {
                "cbc" => Submission::encrypt(&[3; 16], input),
                "gcm" => Submission::seal(&[3; 12], vec![4; 8], input, 16),
                _ => Submission::digest(input),
            };
            let submission = match algorithm {
                "sha256" => submission,
                _ => submission.into_output(output.region().segment(0, bytes).expect("within")),
            };
            setup.queue.submit(&setup.session, submission).expect("the request is right");
        }
        let mut done = 0;
        while done < BURST {
            setup.queue.wait(|completion| {
                assert_eq!(completion.result, Ok(Outcome::Done));
                done += 1;
            });
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from((bursts * BURST) as u32)
}

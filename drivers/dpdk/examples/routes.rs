//! Compares Gantry's learned route with DPDK's scheduler over the same two PMDs, for benches/dpdk/routes:
//!
//!     routes SHIM cbc|gcm BYTES...
//!
//! Prints a row per size: the bytes, and nanoseconds of CPU time per request for each of [`SETUPS`]. The last column is the percentage of
//! requests that the learned route sent to crypto_aesni_mb. Requests come in batches of 32. Times are medians of alternating rounds. Every
//! setup goes through Gantry, so only the choice of device differs.

#![allow(clippy::cast_precision_loss, reason = "seconds, and numbers of requests")]

use gantry_core::route::{Learned, Pin};
use gantry_core::{Algorithm, Gantry, Outcome, Request, Session, SessionParams};
use gantry_driver_dpdk::{DpdkDriver, Options};
use nix::time::{ClockId, clock_gettime};

const BURST: usize = 32;
const ROUNDS: usize = 60;
/// The work of a round, in bytes. A request counts as its bytes of data, plus 300 bytes for its fixed cost.
const ROUND_BYTES: usize = 1_000_000;
/// Seconds of CPU time after which the learned route counts as settled. The devices of the route are measured after 10 ms of work.
const LEARNING_SECONDS: f64 = 0.3;

/// DPDK devices of each setup. Requests go to the last one, except where the route is learned. A scheduler attaches its workers
/// from the last to the first (`scheduler_attach_init_worker`). In packet-size mode, messages from 128 bytes on go to the
/// worker attached first.
const SETUPS: [&[&str]; 6] = [
    &["crypto_openssl_alone"],
    &["crypto_aesni_mb_alone"],
    &[
        "crypto_openssl_so",
        "crypto_aesni_mb_so",
        "crypto_scheduler_so,worker=crypto_openssl_so,worker=crypto_aesni_mb_so,mode=packet-size-distr",
    ],
    &[
        "crypto_openssl_sa",
        "crypto_aesni_mb_sa",
        "crypto_scheduler_sa,worker=crypto_aesni_mb_sa,worker=crypto_openssl_sa,mode=packet-size-distr",
    ],
    &[
        "crypto_openssl_rr",
        "crypto_aesni_mb_rr",
        "crypto_scheduler_rr,worker=crypto_openssl_rr,worker=crypto_aesni_mb_rr,mode=round-robin",
    ],
    &["crypto_openssl_learn", "crypto_aesni_mb_learn"],
];
const LEARNED_SETUP: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, shim, algorithm, sizes @ ..] = &arguments[..] else { panic!("routes SHIM cbc|gcm BYTES...") };
    let setups: Vec<(Gantry, Session)> = SETUPS
        .iter()
        .enumerate()
        .map(|(setup, devices)| {
            let driver = DpdkDriver::new(Options {
                devices: devices.iter().map(ToString::to_string).collect(),
                shim: Some(shim.into()),
                // All queue pairs and sessions of the devices are in DPDK's memory, which is reserved at its start.
                memory_mib: 512,
                queue_pairs: Some(2),
                ..Options::default()
            });
            let last = devices[devices.len() - 1].split(',').next().unwrap_or_default();
            let builder = Gantry::builder().driver(&driver);
            let gantry = match setup {
                LEARNED_SETUP => builder.policy(Learned::Latency).build(),
                _ => builder.policy(Pin { device: format!("dpdk:{last}") }).build(),
            };
            let params = match algorithm.as_str() {
                "cbc" => SessionParams::new(Algorithm::Aes128Cbc, &[1; 16]),
                _ => SessionParams::new(Algorithm::Aes128Gcm, &[1; 16]),
            };
            let session = gantry.session(params).expect("the devices have the algorithm");
            (gantry, session)
        })
        .collect();
    for size in sizes {
        let bytes: usize = size.parse().expect("a number of bytes");
        let start = cpu_time();
        while cpu_time() - start < LEARNING_SECONDS {
            measure_round(&setups[LEARNED_SETUP].1, algorithm, bytes);
        }
        let mut times = vec![Vec::new(); setups.len()];
        let mut by_device = [0; 2];
        for _ in 0..ROUNDS {
            for (setup, (_, session)) in setups.iter().enumerate() {
                let (time, counts) = measure_round(session, algorithm, bytes);
                times[setup].push(time);
                if setup == LEARNED_SETUP {
                    by_device.iter_mut().zip(counts).for_each(|(all, some)| *all += some);
                }
            }
        }
        print!("{bytes}");
        for mut times in times {
            times.sort_by(f64::total_cmp);
            print!(" {:.1}", times[times.len() / 2]);
        }
        println!(" {:.1}", 100.0 * by_device[1] as f64 / (by_device[0] + by_device[1]) as f64);
    }
}

/// Returns the nanoseconds of CPU time per request, and the number of requests that each of the first two devices did.
fn measure_round(session: &Session, algorithm: &str, bytes: usize) -> (f64, [usize; 2]) {
    let bursts = 1 + ROUND_BYTES / (BURST * (300 + bytes));
    let iv = if algorithm == "cbc" { &[3; 16][..] } else { &[3; 12] };
    let (mut data, mut tags) = (vec![vec![0; bytes]; BURST], [[0; 16]; BURST]);
    let mut by_device = [0; 2];
    let start = cpu_time();
    for _ in 0..bursts {
        let mut requests: Vec<Request<'_>> = data
            .iter_mut()
            .zip(&mut tags)
            .map(|(data, tag)| match algorithm {
                "cbc" => Request::encrypt(iv, &mut data[..]),
                _ => Request::seal(iv, &[4; 8], &mut data[..], &mut tag[..]),
            })
            .collect();
        session.process(&mut requests).expect("the requests are right");
        for request in &requests {
            assert_eq!(request.outcome(), Some(Outcome::Done));
            if let Some(count) = request.route().and_then(|route| by_device.get_mut(route.device)) {
                *count += 1;
            }
        }
    }
    ((cpu_time() - start) * 1e9 / (bursts * BURST) as f64, by_device)
}

/// Returns the CPU time of this thread in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

//! Gantry's learned route beside DPDK's scheduler over the same two PMDs, for benches/dpdk/routes:
//!
//!     routes SHIM cbc|gcm BYTES...
//!
//! A row for each size: bytes; nanoseconds of CPU time a request, in batches of 32, the median of rounds that take turns, of each of
//! [`WAYS`]; and the percentage of requests that the learned route sent to crypto_aesni_mb. All ways go through Gantry, so that what
//! differs is the choice.

#![allow(clippy::cast_precision_loss, reason = "seconds, and numbers of requests")]

use gantry_core::route::{Learned, Pin};
use gantry_core::{Algorithm, Gantry, Outcome, Request, Session, SessionParams};
use gantry_driver_dpdk::{DpdkDriver, Options};
use nix::time::{ClockId, clock_gettime};

const BURST: usize = 32;
const ROUNDS: usize = 60;
/// CPU time of each round, roughly, in bytes of data and what a request costs besides.
const WORK: usize = 1_000_000;
/// Seconds of CPU time after which the learned route is believed to be settled. Its devices are measured after ten milliseconds of work.
const SETTLED: f64 = 0.3;

/// Devices of DPDK, of which requests go to the last, but where the route is learned. A scheduler attaches its workers from the last
/// one to the first (`scheduler_attach_init_worker`), and in packet-size mode messages from 128 bytes on go to the one attached first.
const WAYS: [&[&str]; 6] = [
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
const LEARNED: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, shim, what, sizes @ ..] = &arguments[..] else { panic!("routes SHIM cbc|gcm BYTES...") };
    let ways: Vec<(Gantry, Session)> = WAYS
        .iter()
        .enumerate()
        .map(|(way, devices)| {
            let driver = DpdkDriver::new(Options {
                devices: devices.iter().map(ToString::to_string).collect(),
                shim: Some(shim.into()),
                // All of the devices' queue pairs and sessions are in DPDK's memory, which is set aside when it starts.
                memory: 512,
                queues: Some(2),
                ..Options::default()
            });
            let last = devices[devices.len() - 1].split(',').next().unwrap_or_default();
            let builder = Gantry::builder().driver(&driver);
            let gantry = match way {
                LEARNED => builder.policy(Learned::Latency).build(),
                _ => builder.policy(Pin { device: format!("dpdk:{last}") }).build(),
            };
            let params = match what.as_str() {
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
        while cpu_time() - start < SETTLED {
            round(&ways[LEARNED].1, what, bytes);
        }
        let mut times = vec![Vec::new(); ways.len()];
        let mut by_device = [0; 2];
        for _ in 0..ROUNDS {
            for (way, (_, session)) in ways.iter().enumerate() {
                let (time, counts) = round(session, what, bytes);
                times[way].push(time);
                if way == LEARNED {
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

/// Nanoseconds of CPU time a request, and how many requests the first two devices did.
fn round(session: &Session, what: &str, bytes: usize) -> (f64, [usize; 2]) {
    let bursts = 1 + WORK / (BURST * (300 + bytes));
    let iv = if what == "cbc" { &[3; 16][..] } else { &[3; 12] };
    let (mut data, mut tags) = (vec![vec![0; bytes]; BURST], [[0; 16]; BURST]);
    let mut by_device = [0; 2];
    let start = cpu_time();
    for _ in 0..bursts {
        let mut requests: Vec<Request<'_>> = data
            .iter_mut()
            .zip(&mut tags)
            .map(|(data, tag)| match what {
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

/// Seconds that this thread has used.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

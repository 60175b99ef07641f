//! Measures the cost of a request through Gantry on a vdev of DPDK, for benches/dpdk/run:
//!
//!     rate SHIM VDEV gcm|eta BYTES...
//!
//! Prints a row per size: the bytes, and nanoseconds per request in batches of 32, the best of many rounds.

use std::time::Instant;

use gantry_core::route::Pin;
use gantry_core::{Algorithm, Gantry, Outcome, Request, SessionParams};
use gantry_driver_dpdk::{DpdkDriver, Options};

const BURST: usize = 32;
const ROUNDS: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, shim, vdev, algorithm, sizes @ ..] = &arguments[..] else { panic!("rate SHIM VDEV gcm|eta BYTES...") };
    let options = Options { devices: vec![vdev.clone()], shim: Some(shim.into()), ..Options::default() };
    let device = format!("dpdk:{vdev}");
    let gantry = Gantry::builder().driver(&DpdkDriver::new(options)).policy(Pin { device }).build();
    let params = match algorithm.as_str() {
        "gcm" => SessionParams::new(Algorithm::Aes128Gcm, &[1; 16]),
        _ => SessionParams::new(Algorithm::Aes128CbcHmacSha256, &[1; 16]).with_mac_key(&[2; 32]).with_tag_len(16),
    };
    let session = gantry.session(params).expect("the device has the algorithm");
    let iv = if algorithm == "gcm" { &[3; 12][..] } else { &[3; 16] };
    for size in sizes {
        let bytes: usize = size.parse().expect("a number of bytes");
        let mut data = vec![vec![0; bytes]; BURST];
        let mut tags = [[0; 16]; BURST];
        let bursts = 1 + 400_000 / (BURST * (100 + bytes));
        let mut fastest = f64::MAX;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..bursts {
                let mut requests: [Request<'_>; BURST] = {
                    let mut buffers = data.iter_mut().zip(&mut tags);
                    std::array::from_fn(|_| {
                        let (data, tag) = buffers.next().expect("as many buffers as requests");
                        Request::seal(iv, &[4; 8], &mut data[..], &mut tag[..])
                    })
                };
                session.process(&mut requests).expect("the requests are right");
                assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
            }
            fastest = fastest.min(start.elapsed().as_secs_f64() * 1e9 / f64::from((bursts * BURST) as u32));
        }
        println!("{bytes} {fastest:.2}");
    }
}

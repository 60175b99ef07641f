//! Measures AES-128-CBC encryption on one device, like `benches/peers/kcapi.c`. For each size it prints "BYTES DRIVER GANTRY": the
//! nanoseconds of a request to the driver itself, and of a request to a session that Gantry routes to it.
//!
//!     kernel_rate DEVICE SECONDS BYTES...

use std::time::{Duration, Instant};

use gantry_core::driver::{Buffers, Driver, Found, Operands};
use gantry_core::{Algorithm, Gantry, Operation, Outcome, SessionParams};
use gantry_driver_afalg::AfalgDriver;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(device), Some(seconds)) = (arguments.next(), arguments.next()) else {
        eprintln!("kernel_rate DEVICE SECONDS BYTES...");
        std::process::exit(2);
    };
    let limit = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    let params = || SessionParams::new(Algorithm::Aes128Cbc, &[1; 16]);
    let by_name = |found| match found {
        Found::Device(found) if found.info().name == device => Some(found),
        _ => None,
    };
    let driver = AfalgDriver::new().discover().into_iter().find_map(by_name).expect("the device is here");
    let driver_session = driver.open(&params()).expect("a session");
    let gantry = Gantry::builder().driver(&AfalgDriver::new()).build();
    let gantry_session = gantry.with_policy(gantry_core::route::Pin { device }).session(params()).expect("a session");
    for bytes in arguments {
        let bytes: usize = bytes.parse().expect("bytes");
        let (mut input, mut output) = (vec![1; bytes + PAGE], vec![0; bytes + PAGE]);
        let (input, output) = (&*page_aligned(&mut input, bytes), page_aligned(&mut output, bytes));
        let iv = [2; 16];
        let driver_ns = mean_ns(limit, || {
            let data = Buffers::Separate { input, output };
            let result = driver_session.run(Operands::Cipher { operation: Operation::Encrypt, iv: &iv, data });
            assert_eq!(result, Ok(Outcome::Done));
        });
        let gantry_ns =
            mean_ns(limit, || gantry_session.encrypt(&iv, (input, &mut *output)).expect("the device works"));
        println!("{bytes} {driver_ns:.0} {gantry_ns:.0}");
    }
}

/// Returns the mean time of a request, in nanoseconds.
fn mean_ns(limit: Duration, mut request: impl FnMut()) -> f64 {
    request();
    let (start, mut requests) = (Instant::now(), 0);
    while start.elapsed() < limit {
        request();
        requests += 1;
    }
    start.elapsed().as_secs_f64() / f64::from(requests) * 1e9
}

const PAGE: usize = 4096;

/// Returns `bytes` bytes from the first page boundary on. The kernel pins each page that a buffer touches.
fn page_aligned(buffer: &mut [u8], bytes: usize) -> &mut [u8] {
    let begin = buffer.as_ptr().align_offset(PAGE);
    &mut buffer[begin..begin + bytes]
}

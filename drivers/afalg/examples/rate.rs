//! AES-128-CBC encryption on one device, as `benches/peers/kcapi.c` does it: for each size, "BYTES NANOSECONDS" a request.
//!
//!     rate DEVICE SECONDS BYTES...

use std::time::{Duration, Instant};

use gantry::{Algorithm, Gantry, SessionParams};
use gantry_driver_afalg::AfalgDriver;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(device), Some(seconds)) = (arguments.next(), arguments.next()) else {
        eprintln!("rate DEVICE SECONDS BYTES...");
        std::process::exit(2);
    };
    let limit = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    let gantry = Gantry::builder().driver(&AfalgDriver::new()).build().with_policy(gantry::route::Pin { device });
    let session = gantry.session(SessionParams::new(Algorithm::Aes128Cbc, &[1; 16])).expect("a session");
    for bytes in arguments {
        let bytes: usize = bytes.parse().expect("bytes");
        let (mut input, mut output) = (vec![1; bytes + PAGE], vec![0; bytes + PAGE]);
        let (input, output) = (page(&mut input, bytes), page(&mut output, bytes));
        session.encrypt(&[2; 16], (&*input, &mut *output)).expect("the device works");
        let (start, mut requests) = (Instant::now(), 0);
        while start.elapsed() < limit {
            session.encrypt(&[2; 16], (&*input, &mut *output)).expect("the device works");
            requests += 1;
        }
        println!("{bytes} {:.0}", start.elapsed().as_secs_f64() / f64::from(requests) * 1e9);
    }
}

const PAGE: usize = 4096;

/// So many bytes from the first page on that begins there: the kernel pins each page that a buffer touches.
fn page(buffer: &mut [u8], bytes: usize) -> &mut [u8] {
    let begin = buffer.as_ptr().align_offset(PAGE);
    &mut buffer[begin..begin + bytes]
}

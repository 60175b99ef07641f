//! Measures nanoseconds per value of a column, on one core. The reference is one message at a time with the crate `sha2`.
//!
//!     cargo bench -p gantry-digest -- [BYTES [VALUES]]
//!
//! The default is 1,000,000 values of 24 bytes. Each row is the best of seven runs in wall-clock time, after a run to warm up. Pin the
//! process to an idle core (`taskset -c 1`).

use std::hint::black_box;
use std::time::Instant;

use gantry_digest::{Algorithm, Column, HmacKey, LevelName, Offsets, digest_column, hmac_column, limit_level};
use sha2::Digest;

fn main() {
    // Cargo adds an argument, which is not a number.
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (bytes, count): (usize, usize) = (numbers.next().unwrap_or(24), numbers.next().unwrap_or(1_000_000));
    let values: Vec<u8> = (0..bytes * count).map(|i| (i % 251) as u8).collect();
    let offsets: Vec<i64> = (0..=count).map(|i| i64::try_from(i * bytes).expect("it fits into memory")).collect();
    let column = Column::new(&values, Offsets::Bits64(&offsets), None).expect("a good column");
    let mut output = vec![0; count * Algorithm::MAX_DIGEST_SIZE];
    let mut row = |name: &str, size: usize, run: &mut dyn FnMut(&mut [u8])| {
        let output = &mut output[..count * size];
        let number = f64::from(u32::try_from(count).expect("fewer values than 2^32"));
        let nanoseconds = (0..8).map(|_| {
            let begin = Instant::now();
            run(black_box(&mut *output));
            begin.elapsed().as_secs_f64() * 1e9 / number
        });
        // The first run takes page faults.
        println!("{name:28} {:8.1} ns a value of {bytes} bytes", nanoseconds.skip(1).fold(f64::INFINITY, f64::min));
    };
    for level in LevelName::ALL {
        limit_level(level);
        for algorithm in [Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha3_256] {
            let size = algorithm.digest_size();
            row(&format!("{algorithm}, at most {level}"), size, &mut |output| {
                digest_column(algorithm, &column, output).expect("a good output");
            });
        }
        let key = HmacKey::new(Algorithm::Sha256, b"the key of a column");
        row(&format!("hmac-sha256, at most {level}"), 32, &mut |output| {
            hmac_column(&key, &column, output).expect("a good output");
        });
    }
    row("sha256, the crate sha2", 32, &mut |output| {
        for (value, digest) in values.chunks_exact(bytes).zip(output.chunks_exact_mut(32)) {
            digest.copy_from_slice(&sha2::Sha256::digest(value));
        }
    });
    row("sha512, the crate sha2", 64, &mut |output| {
        for (value, digest) in values.chunks_exact(bytes).zip(output.chunks_exact_mut(64)) {
            digest.copy_from_slice(&sha2::Sha512::digest(value));
        }
    });
}

//! Measures nanoseconds per iteration of PBKDF2, on one core: a key of one block, a key of four, and eight keys of one block side by side.
//!
//!     cargo bench -p gantry-digest --bench derive
//!
//! Each number is the best of 99 runs of about 1 ms, which excludes interruptions by other processes.

use std::time::Instant;

use gantry_digest::{Algorithm, LevelName, Pbkdf2, limit_level, pbkdf2_advance};

const ITERATIONS: u32 = 1000;

fn main() {
    println!("{:24} {:>8} {:>8} {:>12}", "ns an iteration", "1 block", "4 blocks", "8 keys, each");
    for level in LevelName::ALL {
        limit_level(level);
        for algorithm in [Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha3_256] {
            let size = algorithm.digest_size();
            let [one, four, eight] = [(1, size), (1, 4 * size), (8, size)].map(|(count, length)| {
                let runs = (0..99).map(|_| {
                    let key = |i| Pbkdf2::new(algorithm, &[i; 12], b"a salt of some bytes", ITERATIONS.into(), length);
                    let mut keys: Vec<_> = (0..count).map(|i| key(i).expect("a good length")).collect();
                    let begin = Instant::now();
                    while keys.iter().any(|key| key.key().is_none()) {
                        pbkdf2_advance(&mut keys.iter_mut().collect::<Vec<_>>(), 512).expect("one algorithm");
                    }
                    begin.elapsed().as_secs_f64() * 1e9 / f64::from(ITERATIONS) / f64::from(count)
                });
                runs.fold(f64::INFINITY, f64::min)
            });
            println!("{:24} {one:8.1} {four:8.1} {eight:12.1}", format!("{algorithm}, at most {level}"));
        }
    }
}

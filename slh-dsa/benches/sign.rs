//! Measures milliseconds of CPU time to make a key, to sign and to verify, with one caller on each CPU level.
//!
//!     cargo bench -p gantry-slh-dsa -- [SET...]
//!
//! `SET` is a name such as `SLH-DSA-SHA2-128s`, or the end of a name. The default is all parameter sets. Each number is the best of seven
//! runs. `slh-dsa/tests/openssl.c` measures libcrypto in the same way.

use std::hint::black_box;
use std::time::Duration;

use gantry_digest::{LevelName, limit_level};
use gantry_slh_dsa::{ParameterSet, PrivateKey};
use nix::time::{ClockId, clock_gettime};

/// Runs per number; the best one counts.
const RUNS: usize = 7;

fn main() {
    // Cargo adds the option `--bench`.
    let names: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let chosen = |set: &ParameterSet| names.is_empty() || names.iter().any(|name| set.name().ends_with(name.as_str()));
    println!("{:20} {:8} {:>10} {:>10} {:>10}", "milliseconds", "level", "key", "sign", "verify");
    for set in ParameterSet::ALL.into_iter().filter(chosen) {
        for level in LevelName::ALL {
            limit_level(level);
            let key = PrivateKey::generate(set, &vec![7; set.seed_bytes()]).expect("seeds");
            let signature = key.sign(b"message", b"", None).expect("a short context");
            let made = best(|| _ = black_box(PrivateKey::generate(set, &vec![7; set.seed_bytes()])));
            let signed = best(|| _ = black_box(key.sign(b"message", b"", None)));
            let verified = best(|| _ = black_box(key.public_key().verify(b"message", b"", &signature)));
            println!("{:20} {:8} {made:10.3} {signed:10.3} {verified:10.3}", set.name(), level.as_str());
        }
    }
}

/// Returns milliseconds of CPU time per call. A run makes as many calls as take 20 ms, at most 1000.
fn best(mut work: impl FnMut()) -> f64 {
    let mut run = |calls: u32| {
        let begin = cpu_time();
        (0..calls).for_each(|_| work());
        (cpu_time() - begin) / f64::from(calls)
    };
    let once = run(1);
    let calls = (1..1000).find(|calls| f64::from(*calls) * once > 20.0).unwrap_or(1000);
    (0..RUNS).map(|_| run(calls)).fold(f64::INFINITY, f64::min)
}

/// Returns the CPU time of this process, in milliseconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock");
    Duration::from(time).as_secs_f64() * 1e3
}

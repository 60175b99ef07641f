//! The CPU time that AWS-LC and libcrux take for the operations of ML-KEM-768 in TLS.
//!
//! The engines take turns. The ratio is AWS-LC's time divided by libcrux's, the median over the rounds: above 1, libcrux is faster. Both
//! engines make the checks of FIPS 203: AWS-LC as part of its functions, libcrux in separate functions. Both use AWS-LC's random numbers.

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::kem::{DecapsulationKey, EncapsulationKey, ML_KEM_768};
use libcrux_ml_kem::mlkem768;
use nix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 101;
/// Operations that an engine runs in a round.
const OPERATIONS_PER_ROUND: u32 = 100;

fn main() {
    let aws_lc_key = DecapsulationKey::generate(&ML_KEM_768).unwrap();
    let public_key = aws_lc_key.encapsulation_key().unwrap().key_bytes().unwrap().as_ref().to_vec();
    let (ciphertext, _) = aws_lc_key.encapsulation_key().unwrap().encapsulate().unwrap();
    let ciphertext = ciphertext.as_ref();
    let libcrux_keys = mlkem768::generate_key_pair(random());
    let (libcrux_ciphertext, secret) = mlkem768::encapsulate(libcrux_keys.public_key(), random());
    assert_eq!(mlkem768::decapsulate(libcrux_keys.private_key(), &libcrux_ciphertext), secret);
    // AWS-LC decapsulates a ciphertext of libcrux.
    let (mixed_ciphertext, secret) = mlkem768::encapsulate(&public_key[..].try_into().unwrap(), random());
    assert_eq!(aws_lc_key.decapsulate(mixed_ciphertext.as_slice().as_slice().into()).unwrap().as_ref(), secret);

    report(
        "generate a key pair",
        || drop(black_box(DecapsulationKey::generate(&ML_KEM_768).unwrap())),
        || drop(black_box(mlkem768::generate_key_pair(random()))),
    );
    report(
        "read a peer's key, encapsulate",
        || drop(black_box(EncapsulationKey::new(&ML_KEM_768, black_box(&public_key)).unwrap().encapsulate().unwrap())),
        || {
            let key = black_box(libcrux_keys.public_key());
            assert!(mlkem768::validate_public_key(key));
            black_box(mlkem768::encapsulate(key, random()));
        },
    );
    report(
        "decapsulate",
        || drop(black_box(aws_lc_key.decapsulate(black_box(ciphertext).into()).unwrap())),
        || {
            let key = libcrux_keys.private_key();
            assert!(mlkem768::validate_private_key(key, &libcrux_ciphertext));
            black_box(mlkem768::decapsulate(key, black_box(&libcrux_ciphertext)));
        },
    );
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    bytes
}

/// Measures both engines in turn, and prints the microseconds of each and the ratio.
fn report(title: &str, aws_lc: impl Fn(), libcrux: impl Fn()) {
    let mut rounds: Vec<[f64; 2]> = Vec::new();
    for round in 0..ROUNDS {
        let mut times = [0.0; 2];
        for engine in [round % 2, 1 - round % 2] {
            let begun = cpu_time();
            for _ in 0..OPERATIONS_PER_ROUND {
                if engine == 0 { aws_lc() } else { libcrux() }
            }
            times[engine] = (cpu_time() - begun).as_secs_f64() * 1e6 / f64::from(OPERATIONS_PER_ROUND);
        }
        rounds.push(times);
    }
    let median = |figure: fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[ROUNDS / 2]
    };
    let (aws_lc, libcrux) = (median(|times| times[0]), median(|times| times[1]));
    let ratio = median(|times| times[0] / times[1]);
    println!("{title:32} AWS-LC {aws_lc:6.2} us, libcrux {libcrux:6.2} us, ratio {ratio:.2}");
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

//! The CPU time of ML-KEM-768 by AWS-LC and by libcrux, as TLS uses it.
//!
//! The engines take turns. The ratio is the median over the rounds of AWS-LC's time by libcrux's, so above 1 libcrux is faster. Each has
//! the checks of FIPS 203: AWS-LC's functions include them, libcrux has functions of their own. Random numbers are AWS-LC's.

use std::hint::black_box;
use std::time::Duration;

use aws_lc_rs::kem::{DecapsulationKey, EncapsulationKey, ML_KEM_768};
use libcrux_ml_kem::mlkem768;
use nix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 101;
/// Operations in a round of an engine.
const COUNT: u32 = 100;

fn main() {
    let ours = DecapsulationKey::generate(&ML_KEM_768).unwrap();
    let share = ours.encapsulation_key().unwrap().key_bytes().unwrap().as_ref().to_vec();
    let (ciphertext, _) = ours.encapsulation_key().unwrap().encapsulate().unwrap();
    let ciphertext = ciphertext.as_ref();
    let theirs = mlkem768::generate_key_pair(random());
    let (their_ciphertext, secret) = mlkem768::encapsulate(theirs.public_key(), random());
    assert_eq!(mlkem768::decapsulate(theirs.private_key(), &their_ciphertext), secret);
    // The engines agree.
    let (crossed, secret) = mlkem768::encapsulate(&share[..].try_into().unwrap(), random());
    assert_eq!(ours.decapsulate(crossed.as_slice().as_slice().into()).unwrap().as_ref(), secret);

    report(
        "generate a key pair",
        || drop(black_box(DecapsulationKey::generate(&ML_KEM_768).unwrap())),
        || drop(black_box(mlkem768::generate_key_pair(random()))),
    );
    report(
        "read a peer's key, encapsulate",
        || drop(black_box(EncapsulationKey::new(&ML_KEM_768, black_box(&share)).unwrap().encapsulate().unwrap())),
        || {
            let key = black_box(theirs.public_key());
            assert!(mlkem768::validate_public_key(key));
            black_box(mlkem768::encapsulate(key, random()));
        },
    );
    report(
        "decapsulate",
        || drop(black_box(ours.decapsulate(black_box(ciphertext).into()).unwrap())),
        || {
            let key = theirs.private_key();
            assert!(mlkem768::validate_private_key(key, &their_ciphertext));
            black_box(mlkem768::decapsulate(key, black_box(&their_ciphertext)));
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
            for _ in 0..COUNT {
                if engine == 0 { aws_lc() } else { libcrux() }
            }
            times[engine] = (cpu_time() - begun).as_secs_f64() * 1e6 / f64::from(COUNT);
        }
        rounds.push(times);
    }
    let of = |figure: fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[ROUNDS / 2]
    };
    let (aws_lc, libcrux, ratio) = (of(|times| times[0]), of(|times| times[1]), of(|times| times[0] / times[1]));
    println!("{title:32} AWS-LC {aws_lc:6.2} us, libcrux {libcrux:6.2} us, ratio {ratio:.2}");
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

//! SHA-3, HMAC over it, SHAKE and TurboSHAKE, and BLAKE2b.

use std::sync::Arc;

use gantry_core::Operation;
use gantry_core::driver::DeviceSession;
use gantry_digest::Level;
use gantry_digest::internal::dispatch::sponge::{Function, Kernels};
use gantry_digest::internal::kernel::absorb::STATE_WORDS;
use gantry_digest::internal::kernel::keccak::{self, Keccak};
use gantry_digest::internal::sponge::{self, Job, Setup, Stream};

use super::digest::{DigestRunner, Digester};

struct Sponge<F: Function> {
    kernels: Kernels,
    setup: Setup<F>,
    operation: Operation,
}

/// SHAKE, or TurboSHAKE: functions of Keccak whose digests have any length, `digest_len` bytes in this session.
pub(super) fn xof(level: Level, rate: usize, rounds: usize, digest_len: usize) -> Arc<dyn DeviceSession> {
    fn of<F: Function>(level: Level, digest_len: usize) -> Arc<dyn DeviceSession> {
        let setup = Setup::<F>::xof(digest_len, 0, keccak::DOMAIN_SHAKE);
        DigestRunner::session(Sponge { kernels: F::kernels(level), setup, operation: Operation::Digest })
    }
    match (rate, rounds) {
        (168, 24) => of::<Keccak<168>>(level, digest_len),
        (_, 24) => of::<Keccak<136>>(level, digest_len),
        (168, _) => of::<Keccak<168, 12>>(level, digest_len),
        _ => of::<Keccak<136, 12>>(level, digest_len),
    }
}

pub(super) fn session<F: Function>(
    level: Level,
    initial: [u64; STATE_WORDS],
    digest_len: usize,
    hmac: Option<&[u8]>,
) -> Arc<dyn DeviceSession> {
    let kernels = F::kernels(level);
    let (setup, operation) = match hmac {
        Some(key) => (Setup::<F>::hmac(kernels, initial, digest_len, key), Operation::Mac),
        None => (Setup::<F>::digest(initial, digest_len), Operation::Digest),
    };
    DigestRunner::session(Sponge { kernels, setup, operation })
}

impl<F: Function> Digester for Sponge<F> {
    type Stream = Stream<F>;
    type Job<'a> = Job<'a, F>;

    fn operation(&self) -> Operation {
        self.operation
    }

    fn stream(&self) -> Stream<F> {
        Stream::new(&self.setup)
    }

    #[inline(always)]
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Stream<F>>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Job<'a, F> {
        Job { setup: &self.setup, stream, input, output }
    }

    fn run_one(&self, job: Job<'_, F>) {
        sponge::run_one(self.kernels, job);
    }

    fn run<'a>(&'a self, _count: usize, jobs: impl Iterator<Item = Job<'a, F>>) {
        sponge::run(self.kernels, self.setup.is_keyed(), jobs);
    }
}

//! SHA-3, HMAC over it, SHAKE and TurboSHAKE, and BLAKE2b.

use std::sync::Arc;

use gantry_core::Operation;
use gantry_core::driver::DeviceSession;
use gantry_digest::Level;
use gantry_digest::internal::dispatch::sponge::{Function, Kernels};
use gantry_digest::internal::kernel::absorb::WORDS;
use gantry_digest::internal::kernel::keccak::{self, Keccak};
use gantry_digest::internal::sponge::{self, Job, Start, Stream};

use super::digest::{DigestWork, Digester};

struct Sponge<F: Function> {
    kernels: Kernels,
    start: Start<F>,
    operation: Operation,
}

/// SHAKE, or TurboSHAKE: functions of Keccak whose digests have any length, `digest` bytes in this session.
pub(super) fn xof(level: Level, rate: usize, rounds: usize, digest: usize) -> Arc<dyn DeviceSession> {
    fn of<F: Function>(level: Level, digest: usize) -> Arc<dyn DeviceSession> {
        let start = Start::<F>::xof(digest, 0, keccak::SHAKE);
        DigestWork::session(Sponge { kernels: F::kernels(level), start, operation: Operation::Digest })
    }
    match (rate, rounds) {
        (168, 24) => of::<Keccak<168>>(level, digest),
        (_, 24) => of::<Keccak<136>>(level, digest),
        (168, _) => of::<Keccak<168, 12>>(level, digest),
        _ => of::<Keccak<136, 12>>(level, digest),
    }
}

pub(super) fn session<F: Function>(
    level: Level,
    initial: [u64; WORDS],
    digest: usize,
    hmac: Option<&[u8]>,
) -> Arc<dyn DeviceSession> {
    let kernels = F::kernels(level);
    let (start, operation) = match hmac {
        Some(key) => (Start::<F>::hmac(kernels, initial, digest, key), Operation::Mac),
        None => (Start::<F>::digest(initial, digest), Operation::Digest),
    };
    DigestWork::session(Sponge { kernels, start, operation })
}

impl<F: Function> Digester for Sponge<F> {
    type Stream = Stream<F>;
    type Job<'a> = Job<'a, F>;

    fn operation(&self) -> Operation {
        self.operation
    }

    fn stream(&self) -> Stream<F> {
        Stream::new(&self.start)
    }

    #[inline(always)]
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Stream<F>>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Job<'a, F> {
        Job { start: &self.start, stream, input, output }
    }

    fn run_one(&self, job: Job<'_, F>) {
        sponge::run_one(self.kernels, job);
    }

    fn run<'a>(&'a self, _count: usize, jobs: impl Iterator<Item = Job<'a, F>>) {
        sponge::run(self.kernels, self.start.is_keyed(), jobs);
    }
}

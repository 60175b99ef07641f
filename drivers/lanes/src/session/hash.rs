//! Hash functions of the MD4 family, and HMAC over them.

use std::sync::Arc;

use gantry_core::Operation;
use gantry_core::driver::DeviceSession;
use gantry_digest::Level;
use gantry_digest::internal::dispatch::{Hash, Kernels};
use gantry_digest::internal::hash::{self, Job, Setup, Stream};

use super::digest::{DigestRunner, Digester};

struct Hasher<H: Hash> {
    kernels: Kernels<H>,
    setup: Setup<H>,
    operation: Operation,
}

pub(super) fn session<H: Hash>(
    level: Level,
    initial: &[H::Word; 8],
    digest_len: usize,
    hmac: Option<&[u8]>,
) -> Arc<dyn DeviceSession> {
    let kernels = H::kernels(level);
    let (setup, operation) = match hmac {
        Some(key) => (Setup::hmac(kernels, *initial, digest_len, key), Operation::Mac),
        None => (Setup::digest(*initial, digest_len), Operation::Digest),
    };
    DigestRunner::session(Hasher { kernels, setup, operation })
}

impl<H: Hash> Digester for Hasher<H> {
    type Stream = Stream<H>;
    type Job<'a> = Job<'a, H>;

    fn operation(&self) -> Operation {
        self.operation
    }

    fn stream(&self) -> Stream<H> {
        Stream::new(&self.setup)
    }

    #[inline(always)]
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Stream<H>>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Job<'a, H> {
        Job { setup: &self.setup, stream, input, output }
    }

    fn run_one(&self, job: Job<'_, H>) {
        hash::run_one(self.kernels, job);
    }

    fn run<'a>(&'a self, _count: usize, jobs: impl Iterator<Item = Job<'a, H>>) {
        hash::run(self.kernels, jobs);
    }
}

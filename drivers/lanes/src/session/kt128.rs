//! KT128.

use std::sync::Arc;

use gantry_core::Operation;
use gantry_core::driver::DeviceSession;
use gantry_digest::Level;
use gantry_digest::internal::dispatch::sponge::{Function, Kernels};
use gantry_digest::internal::kt128::{self, Job, Kt128Stream, TurboShake128};

use super::digest::{DigestRunner, Digester};

struct Kt128(Kernels);

pub(super) fn session(level: Level) -> Arc<dyn DeviceSession> {
    DigestRunner::session(Kt128(TurboShake128::kernels(level)))
}

impl Digester for Kt128 {
    type Stream = Kt128Stream;
    type Job<'a> = Job<'a>;

    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn stream(&self) -> Kt128Stream {
        Kt128Stream::new()
    }

    #[inline(always)]
    fn job<'a>(
        &'a self,
        stream: Option<&'a mut Kt128Stream>,
        input: &'a [u8],
        output: Option<&'a mut [u8]>,
    ) -> Job<'a> {
        Job { stream, input, output }
    }

    fn run_one(&self, job: Job<'_>) {
        kt128::run_one(self.0, job);
    }

    fn run<'a>(&'a self, _count: usize, jobs: impl Iterator<Item = Job<'a>>) {
        kt128::run(self.0, jobs);
    }
}

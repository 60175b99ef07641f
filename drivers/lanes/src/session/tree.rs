//! KT128.

use std::sync::Arc;

use gantry_core::Operation;
use gantry_core::driver::DeviceSession;
use gantry_digest::Level;
use gantry_digest::internal::dispatch::sponge::{Function, Kernels};
use gantry_digest::internal::tree::{self, Job, Tree, TurboShake128};

use super::digest::{DigestWork, Digester};

struct Kt128(Kernels);

pub(super) fn session(level: Level) -> Arc<dyn DeviceSession> {
    DigestWork::session(Kt128(TurboShake128::kernels(level)))
}

impl Digester for Kt128 {
    type Stream = Tree;
    type Job<'a> = Job<'a>;

    fn operation(&self) -> Operation {
        Operation::Digest
    }

    fn stream(&self) -> Tree {
        Tree::new()
    }

    #[inline(always)]
    fn job<'a>(&'a self, tree: Option<&'a mut Tree>, input: &'a [u8], output: Option<&'a mut [u8]>) -> Job<'a> {
        Job { tree, input, output }
    }

    fn run_one(&self, job: Job<'_>) {
        tree::run_one(self.0, job);
    }

    fn run<'a>(&'a self, _count: usize, jobs: impl Iterator<Item = Job<'a>>) {
        tree::run(self.0, jobs);
    }
}

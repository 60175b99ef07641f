//! KT128.

use gantry_core::Operation;
use gantry_digest::Level;
use gantry_digest::kernel::wide::Kernels;
use gantry_digest::sponge::Function;
use gantry_digest::tree::{self, Job, Tree, Turbo};

use super::Work;
use super::digest::{DigestWork, Digester};

struct Kt128(Kernels);

pub(super) fn boxed(level: Level) -> Box<dyn Work> {
    DigestWork::boxed(Kt128(Turbo::kernels(level)))
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

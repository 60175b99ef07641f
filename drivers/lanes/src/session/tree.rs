//! KT128.

use gantry::Operation;

use super::Work;
use super::digest::{DigestWork, Digester};
use crate::kernel::wide::Kernels;
use crate::level::Level;
use crate::sponge::Function;
use crate::tree::{self, Job, Tree, Turbo};

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
